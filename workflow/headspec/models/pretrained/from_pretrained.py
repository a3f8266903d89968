"""What loading a tokenizer and loading an encoder by ``from_pretrained`` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def location(path: Path) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for a folder or a GGUF file."""
    arguments: dict[str, Any] = {"local_files_only": True}
    if path.is_file():
        return arguments | {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    return arguments | {"pretrained_model_name_or_path": path}


def silence() -> None:
    """Keep progress bars and warnings of transformers out of the logs of jobs."""
    from transformers import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
