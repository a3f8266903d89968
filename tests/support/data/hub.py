"""A hub model in an artificial cache."""

from __future__ import annotations

from pathlib import Path

from support.running.studies import local_model

REVISION = "0123456789abcdef0123456789abcdef01234567"


NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}


def lay_out(home: Path, name: str = "someone/tiny-bert") -> Path:
    """Put a model into the cache of `home`, like the hub's library; returns the folder of its files."""
    repository = home / "hub" / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    return local_model(repository / "snapshots" / REVISION)
