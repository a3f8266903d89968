"""Converting an ONNX export of an encoder into a folder that a model's `source` can name.

``headspec import-onnx <file> <folder> <out>`` takes the weights and the number of layers from the ONNX
file, and the rest (model type, sizes, heads, activation, tokenizer) from the folder of a model of the same
type. Before it writes anything, it compares the encoder's hidden states with those that onnxruntime
computes from the file.
"""

from __future__ import annotations

import fnmatch
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
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
from headspec.files import atomic
from headspec.models.architectures import ARCHITECTURES
from headspec.models.pretrained.folders import folder
from headspec.models.pretrained.from_pretrained import silence

TOLERANCE = 1e-4  # of hidden states
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "*.model",
)  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A tensor in an ONNX file.

    Attributes
    ----------
    value : float32
    rows : {"in", "out", None}
        What the rows of a weight matrix stand for: inputs or outputs. None for other tensors.
    """

    value: np.ndarray
    rows: str | None


@dataclass(frozen=True)
class Export:
    """The tensors of an ONNX file.

    Attributes
    ----------
    named : tensors by their names in the file
    used : weight matrices by the module that uses them, because exporters often drop their names
    other : types, such as INT8, of matrices that are neither float32 nor indices
    """

    named: dict[str, Stored]
    used: dict[str, Stored]
    other: list[str]


def read(path: Path) -> Export:
    """The float32 tensors of an ONNX file; EncoderError if it is not one, or onnx is not installed."""
    try:
        import onnx
    except ImportError:
        raise EncoderError("reading ONNX files needs the package onnx, which is not installed") from None
    try:
        graph = onnx.load(path).graph
    except Exception as error:
        raise EncoderError(f"'{path}' is not a readable ONNX file: {error}") from None
    if not graph.node:
        raise EncoderError(f"'{path}' is not a readable ONNX file: it has no graph")
    kinds = onnx.TensorProto
    values, other = {}, set()
    for tensor in graph.initializer:
        if tensor.data_type == kinds.FLOAT:
            values[tensor.name] = onnx.numpy_helper.to_array(tensor)
        elif len(tensor.dims) > 1 and tensor.data_type not in (kinds.INT32, kinds.INT64, kinds.BOOL):
            other.add(kinds.DataType.Name(tensor.data_type))
    rows, users = {}, {}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in values:  # equal tensors are stored once
            values[node.output[0]] = values[node.input[0]]
        if node.op_type in ("MatMul", "Gemm") and node.input[1] in values:
            transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            rows[node.input[1]] = "out" if transposed else "in"
            *module, _ = node.name.strip("/").split("/")  # the last part is the operator
            users[".".join([*module, "weight"])] = node.input[1]
    named = {name: Stored(value, rows.get(name)) for name, value in values.items()}
    return Export(named, {name: named[tensor] for name, tensor in users.items()}, sorted(other))


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
    """The number of layers, counted by attention output projections in the file."""
    before, *after = ARCHITECTURES[config.model_type].projection.split("*")
    if len(after) > 1:
        return config.num_hidden_layers  # shared by all layers
    names = {name[name.index(before) :] for name in [*export.named, *export.used] if before in name}
    numbers = [
        name.removeprefix(before).partition(".")[0]
        for name in fnmatch.filter(names, f"{before}*{after[0]}.*")
    ]
    return len(set(numbers)) or config.num_hidden_layers


def _rows(module: nn.Module) -> str | None:
    """`Stored.rows` for the weight of a module."""
    return "out" if isinstance(module, nn.Linear) else "in" if isinstance(module, Conv1D) else None


def encoder(path: Path, config: PreTrainedConfig) -> PreTrainedModel:
    """The encoder in an ONNX file, in float32, without pooler if the file has none.

    Parameters
    ----------
    path
        The ONNX file.
    config
        Config of a model of the same type and sizes; the number of layers is taken from the file.

    Raises
    ------
    EncoderError
        The file is not ONNX, lacks tensors of the encoder, or has tensors of another shape.
    """
    export = read(path)
    settings: dict[str, Any] = config.to_dict() | {"num_hidden_layers": layers(export, config)}
    try:
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        model = AutoModel.from_config(config, dtype=torch.float32)
    except Exception as error:
        raise EncoderError(f"config.json does not fit '{path}': {error}") from None
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
        if export.other:
            types = listing(export.other)
            reasons.append(f"it has weights of type {types}: quantised and half-precision files are not read")
        raise EncoderError(f"'{path}' has no complete {config.model_type} encoder: {'; '.join(reasons)}")
    model.load_state_dict(state)
    return model.eval()


def _some(names: list[str], n: int = 4) -> str:
    return listing(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")


@torch.no_grad()
def verify(path: Path, model: PreTrainedModel) -> str:
    """Compare hidden states of padded random tokens with those that onnxruntime computes from the file.

    Returns
    -------
    finding : the largest difference, or the reason why there is no comparison

    Raises
    ------
    EncoderError
        They differ by more than `TOLERANCE`.
    """
    try:
        import onnxruntime
    except ImportError:
        return "not verified: onnxruntime is not installed"
    mask = (np.arange(16) < np.array([[16], [9], [4]])).astype(np.int64)  # (batch, tokens)
    ids = mask * np.random.default_rng(0).integers(model.config.vocab_size, size=mask.shape)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        types = {node.name: np.int32 if "int32" in node.type else np.int64 for node in session.get_inputs()}
        outputs = session.run(None, {name: inputs[name].astype(type_) for name, type_ in types.items()})
    except Exception as error:
        return f"not verified: onnxruntime cannot run the file on tokens ({error!r})"
    output = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
    states = output.last_hidden_state.numpy()  # (batch, tokens, hidden)
    differences = [np.abs(o - states)[mask == 1].max() for o in outputs if o.shape == states.shape]
    if not differences:
        return "not verified: the file does not output hidden states"
    largest = np.min(differences)  # of the output with the hidden states
    if not largest <= TOLERANCE:
        raise EncoderError(
            f"the hidden states differ from those of '{path}' by {largest:.2g}: check the number of heads "
            f"({model.config.num_attention_heads}), activation and layer-norm epsilon in config.json"
        )
    return f"verified: hidden states differ from those of the file by at most {largest:.1e}"


def convert(file: str, source: str, out: Path) -> str:
    """Convert an ONNX file; writes weights, config and tokenizer to the folder `out`.

    Parameters
    ----------
    file, source : as in the config of a study; `source` needs no weights

    Returns
    -------
    report : the files written, and the finding of `verify`
    """
    silence()
    path, origin = locate(file, "file"), folder(Model(source=source), "folder")
    if out.resolve() == origin.resolve():
        raise EncoderError(f"'{out}' is the folder of the config and tokenizer; name another")
    try:
        config = AutoConfig.from_pretrained(origin, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise EncoderError(f"'{source}' has no readable config.json: {error}") from None
    if config.model_type not in ARCHITECTURES:
        raise EncoderError(
            f"the heads of a {config.model_type} cannot be gated; expected one of {listing(ARCHITECTURES)}"
        )
    model = encoder(path, config)
    finding = verify(path, model)
    for path in sorted(match for pattern in TOKENIZER for match in origin.glob(pattern)):
        with atomic(out / path.name) as temporary:
            shutil.copyfile(path, temporary)
    with atomic(out / "config.json") as temporary:
        temporary.write_text(model.config.to_json_string())
    with atomic(out / "model.safetensors") as temporary:
        save_file(model.state_dict(), temporary, metadata={"format": "pt"})
    size = f"{model.config.num_hidden_layers} layers x {model.config.num_attention_heads} heads"
    return f"{out}: {model.config.model_type}, {size}, {len(model.state_dict())} tensors\n{finding}"
