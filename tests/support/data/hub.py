"""Models and data sets of the hub in artificial caches."""

import shutil
import tempfile
from pathlib import Path

import pytest

from headspec.data.sources.hub import hub_dataset
from support.running.studies import local_model

REVISION = "0123456789abcdef0123456789abcdef01234567"
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}


def lay_out(home: Path) -> Path:
    """Put `someone/tiny-bert` into the cache of `home`, as the hub's library; returns its folder."""
    repository = home / "hub" / "models--someone--tiny-bert"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    return local_model(repository / "snapshots" / REVISION)


def cache_dataset(folder: Path, cache: Path, name: str) -> None:
    """Put the data set in a folder into the cache of `datasets` at `cache`, as a download leaves it."""
    import datasets

    with tempfile.TemporaryDirectory() as made:
        named = shutil.copytree(folder, Path(made, name.rpartition("/")[2]))  # the name is in those of files
        for subset in datasets.get_dataset_config_names(str(named)):
            builder = datasets.load_dataset_builder(str(named), subset, cache_dir=Path(made, "cache"))
            builder.download_and_prepare()
            place = cache / name.replace("/", "___") / subset / "0.0.0" / REVISION
            shutil.copytree(builder.cache_dir, place)


def offline(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """No network, and the cache of `datasets` at `cache`."""
    import datasets
    import huggingface_hub

    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    hub_dataset.cache_clear()
