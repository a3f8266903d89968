"""Converting an ONNX export of an encoder into a folder that a model's `source` can name.

``headspec import-onnx <file> <folder> <out>`` takes the weights and the number of layers from the ONNX
file, and the rest (model type, sizes, heads, activation, tokenizer) from the folder of a model of the same
type. Quantised weights become float32. Before it writes anything, it compares the encoder's hidden states
with those that onnxruntime computes from the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headspec.config.sections.model import Model
from headspec.config.sources import locate
from headspec.errors import EncoderError, listing
from headspec.files import digest, storage_error
from headspec.models.pretrained.folders import folder
from headspec.models.pretrained.from_pretrained import silence
from headspec.models.pretrained.onnx_agreement import tokens, verify
from headspec.models.pretrained.onnx_weights import Export, Stored, read

RECORD = "onnx.json"  # which file a folder is from, and how well hidden states agree
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "*.model",
)  # fmt: skip


def expected_names(tensors: dict[str, Stored], expected: Collection[str]) -> dict[str, Stored]:
    """The tensors with an expected name after the most frequent prefix, by the name without it."""
    prefixes = Counter(
        name.removesuffix(suffix)
        for name in tensors
        for suffix in expected
        if name == suffix or name.endswith(f".{suffix}")
    )
    prefix = max(prefixes, key=lambda candidate: prefixes[candidate], default="")
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def tensors(export: Export, config: PreTrainedConfig) -> dict[str, torch.Tensor]:
    """The tensors of the encoder, with the names and orientation of `AutoModel`."""
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    expected = model.state_dict()
    stored = expected_names(export.used, expected) | expected_names(export.named, expected)
    state = {}
    for name in expected:
        if name in stored:
            value, rows = stored[name].value, stored[name].rows
            expected_rows = _rows(model.get_submodule(name.rpartition(".")[0]))
            if rows and expected_rows and rows != expected_rows:
                value = value.T
            state[name] = torch.from_numpy(np.array(value, order="C"))
    return state


def layers(export: Export, config: PreTrainedConfig) -> int:
    """The number of layers, by the numbers in the names of their weights in the file."""
    places = (re.search(r"\b(?:layers?|h)\.(\d+)\.", name) for name in [*export.named, *export.used])
    return len({place[1] for place in places if place}) or config.num_hidden_layers


def _rows(module: nn.Module) -> str | None:
    """`Stored.rows` for the weight of a module."""
    return "out" if isinstance(module, nn.Linear) else "in" if isinstance(module, Conv1D) else None


def encoder(export: Export, config: PreTrainedConfig) -> PreTrainedModel:
    """The encoder in an ONNX file, in float32, without pooler if the file has none.

    Parameters
    ----------
    config
        Config of a model of the same type and sizes; the number of layers is taken from the file.

    Raises
    ------
    EncoderError
        The file lacks tensors of the encoder, or has tensors of another shape.
    """
    settings: dict[str, Any] = config.to_dict() | {"num_hidden_layers": layers(export, config)}
    try:
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        model = AutoModel.from_config(config, dtype=torch.float32)
    except Exception as error:
        raise EncoderError(f"config.json does not fit '{export.path}': {error}") from None
    state = tensors(export, config)
    if any(name.startswith("pooler.") and name not in state for name in model.state_dict()):
        model.pooler = None
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    state = {name: value for name, value in state.items() if name in shapes}  # drops an incomplete pooler
    missing = [name for name in shapes if name not in state]
    mismatched = [
        f"{n} {tuple(t.shape)} instead of {shapes[n]}" for n, t in state.items() if t.shape != shapes[n]
    ]
    if missing or mismatched:
        reasons = [f"it lacks {_some(missing)}"] if missing else []
        reasons += [f"of another shape: {_some(mismatched)}"] if mismatched else []
        if export.unread:
            reasons.append(f"its weights of type {listing(export.unread)} are not read")
        raise EncoderError(
            f"'{export.path}' has no complete {config.model_type} encoder: {'; '.join(reasons)}"
        )
    model.load_state_dict(state)
    return model.eval()


def _some(names: list[str], n: int = 4) -> str:
    return listing(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")


def convert(file: str, source: str, out: Path) -> str:
    """Convert an ONNX file; writes weights, config, tokenizer and `RECORD` to the new folder `out`.

    Parameters
    ----------
    file, source : as in the config of a study; `source` needs no weights

    Returns
    -------
    report : what was written, and how well hidden states agree
    """
    silence()
    path, origin = locate(file, "file"), folder(Model(source=source), "folder")
    if out.exists():
        raise EncoderError(f"'{out}' exists; name a new folder")
    try:
        config = AutoConfig.from_pretrained(origin, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise EncoderError(f"'{source}' has no readable config.json: {error}") from None
    export = read(path)
    model = encoder(export, config)
    found = verify(export, model, tokens(Model(source=source), config))
    record = {"file": file, "sha256": digest(path), "quantised": export.quantised, **asdict(found)}
    with _new_folder(out) as temporary:
        for own in sorted(match for pattern in TOKENIZER for match in origin.glob(pattern)):
            shutil.copyfile(own, temporary / own.name)
        (temporary / "config.json").write_text(model.config.to_json_string())
        (temporary / RECORD).write_text(json.dumps(record, indent=2) + "\n")
        save_file(model.state_dict(), temporary / "model.safetensors", metadata={"format": "pt"})
    size = f"{model.config.num_hidden_layers} layers x {model.config.num_attention_heads} heads"
    return f"{out}: {model.config.model_type}, {size}, {len(model.state_dict())} tensors\nverified: {found}"


@contextlib.contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to `path` when the block ends without error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.rename(path)
    except OSError as error:
        if problem := storage_error(error, path):
            raise problem from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
