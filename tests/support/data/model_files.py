"""Changes of the files of a model, as people make them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


def configure(folder: Path, name: str = "config.json", **settings: Any) -> None:
    """Change settings in config.json, or another file."""
    file = folder / name
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def reweigh(folder: Path, change: Callable[[str, torch.Tensor], torch.Tensor | None]) -> None:
    """Replace the tensors of model.safetensors by `change` of name and values; None leaves one out."""
    file = folder / "model.safetensors"
    made = {name: change(name, values) for name, values in load_file(file).items()}
    kept = {name: values.contiguous() for name, values in made.items() if values is not None}
    save_file(kept, file, {"format": "pt"})
