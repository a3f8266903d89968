"""An encoder that exists only as an ONNX export, as a folder that a model's `source` can name.

``python -m headspec.from_onnx <file> <folder> <out>`` takes the weights and the number of layers from
the ONNX file, and the rest (kind of model, sizes, heads, activation, tokenizer) from a folder of a
model of that kind. Before anything is written, the encoder's hidden states are compared with those
that onnxruntime computes from the file.
"""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import sys
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

from headspec.architectures import ARCHITECTURES, folder
from headspec.errors import EncoderError, HeadspecError, listing
from headspec.locate import locate
from headspec.sections import Model
from headspec.tables import atomic

TOLERANCE = 1e-4  # of hidden states
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "*.model",
)  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A tensor as the file stores it.

    Attributes
    ----------
    value : float32
    rows : {"in", "out", None}
        Of a matrix that inputs are multiplied with: what its rows stand for. None: not such a matrix.
    """

    value: np.ndarray
    rows: str | None


@dataclass(frozen=True)
class Export:
    """The tensors of an ONNX file.

    Attributes
    ----------
    named : by the names that the file gives them
    used : by the module that multiplies with them; exporters leave such matrices without a name
    other : types, such as INT8, of matrices that are neither float32 nor indices
    """

    named: dict[str, Stored]
    used: dict[str, Stored]
    other: list[str]


def read(path: Path) -> Export:
    """The float32 tensors of an ONNX file; EncoderError where it is none, or onnx is not installed."""
    try:
        import onnx
    except ImportError:
        raise EncoderError("ONNX files are read with the package onnx, which is not installed") from None
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
            turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            rows[node.input[1]] = "out" if turned else "in"
            *module, _ = node.name.strip("/").split("/")  # the operator is last
            users[".".join([*module, "weight"])] = node.input[1]
    named = {name: Stored(value, rows.get(name)) for name, value in values.items()}
    return Export(named, {name: named[own] for name, own in users.items()}, sorted(other))


def expected_names(tensors: dict[str, Stored], expected: Collection[str]) -> dict[str, Stored]:
    """Those of `tensors` that have an expected name behind one prefix, which most of these have."""
    prefixes = Counter(
        name.removesuffix(wanted)
        for name in tensors
        for wanted in expected
        if name == wanted or name.endswith(f".{wanted}")
    )
    prefix = max(prefixes, key=lambda each: prefixes[each], default="")
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def tensors(export: Export, config: PreTrainedConfig) -> dict[str, torch.Tensor]:
    """The tensors of the encoder, as `AutoModel` names and turns them."""
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    expected = model.state_dict()
    found = expected_names(export.used, expected) | expected_names(export.named, expected)
    state = {}
    for name in expected:
        if name in found:
            value, rows = found[name].value, found[name].rows
            wanted = _rows(model.get_submodule(name.rpartition(".")[0]))
            if rows and wanted and rows != wanted:
                value = value.T
            state[name] = torch.from_numpy(np.array(value, order="C"))
    return state


def layers(export: Export, config: PreTrainedConfig) -> int:
    """The number of layers: how many attention output projections the file has."""
    before, *after = ARCHITECTURES[config.model_type].projection.split("*")
    if len(after) > 1:
        return config.num_hidden_layers  # shared by all layers
    own = {name[name.index(before) :] for name in [*export.named, *export.used] if before in name}
    numbers = [
        name.removeprefix(before).partition(".")[0] for name in fnmatch.filter(own, f"{before}*{after[0]}.*")
    ]
    return len(set(numbers)) or config.num_hidden_layers


def _rows(module: nn.Module) -> str | None:
    """As in `Stored`, of the matrix of a module."""
    return "out" if isinstance(module, nn.Linear) else "in" if isinstance(module, Conv1D) else None


def encoder(path: Path, config: PreTrainedConfig) -> PreTrainedModel:
    """The encoder in an ONNX file, in float32.

    A pooler that is not in the file is left out.

    Parameters
    ----------
    path
        The ONNX file.
    config
        Of a model of the same kind and sizes; the number of layers is the file's.

    Raises
    ------
    EncoderError
        No ONNX file, or an encoder that lacks tensors or has some of another shape.
    """
    export = read(path)
    settings: dict[str, Any] = config.to_dict() | {"num_hidden_layers": layers(export, config)}
    try:
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        model = AutoModel.from_config(config, dtype=torch.float32)
    except Exception as error:
        raise EncoderError(f"config.json does not go with '{path}': {error}") from None
    state = tensors(export, config)
    if any(name.startswith("pooler.") and name not in state for name in model.state_dict()):
        model.pooler = None
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    state = {name: value for name, value in state.items() if name in shapes}  # no pooler without all of it
    lacking = [name for name in shapes if name not in state]
    unfit = [f"{n} {tuple(t.shape)} instead of {shapes[n]}" for n, t in state.items() if t.shape != shapes[n]]
    if lacking or unfit:
        reasons = [f"it lacks {_some(lacking)}"] if lacking else []
        reasons += [f"of another shape: {_some(unfit)}"] if unfit else []
        if export.other:
            found = listing(export.other)
            reasons.append(f"it has weights of type {found}: quantised and half-precision files are not read")
        raise EncoderError(f"'{path}' has no whole {config.model_type} encoder: {'; '.join(reasons)}")
    model.load_state_dict(state)
    return model.eval()


def _some(names: list[str], n: int = 4) -> str:
    return listing(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")


@torch.no_grad()
def verify(path: Path, model: PreTrainedModel) -> str:
    """Compare the hidden states of padded random tokens with those that onnxruntime computes.

    Returns
    -------
    finding : the largest difference, or why the two could not be compared

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
        kinds = {each.name: np.int32 if "int32" in each.type else np.int64 for each in session.get_inputs()}
        outputs = session.run(None, {name: inputs[name].astype(kind) for name, kind in kinds.items()})
    except Exception as error:
        return f"not verified: onnxruntime cannot run the file on tokens ({error!r})"
    found = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
    states = found.last_hidden_state.numpy()  # (batch, tokens, hidden)
    differences = [np.abs(o - states)[mask == 1].max() for o in outputs if o.shape == states.shape]
    if not differences:
        return "not verified: the file does not put out hidden states"
    largest = np.min(differences)  # of the output that is meant
    if not largest <= TOLERANCE:
        raise EncoderError(
            f"the hidden states are not those of '{path}', they differ by {largest:.2g}: are the heads "
            f"({model.config.num_attention_heads}), activation and layer-norm epsilon of config.json right?"
        )
    return f"verified: hidden states differ from the file's own by at most {largest:.1e}"


def convert(file: str, source: str, out: Path) -> str:
    """Write weights, config and tokenizer to the folder `out`.

    Parameters
    ----------
    file, source : as in the config of a study; `source` needs no weights

    Returns
    -------
    finding : what was written, and what `verify` found
    """
    path, origin = locate(file, "file"), folder(Model(source=source), "folder")
    if out.resolve() == origin.resolve():
        raise EncoderError(f"'{out}' is the folder that config and tokenizer are taken from; name another")
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
    for each in sorted(file for pattern in TOKENIZER for file in origin.glob(pattern)):
        with atomic(out / each.name) as temporary:
            shutil.copyfile(each, temporary)
    with atomic(out / "config.json") as temporary:
        temporary.write_text(model.config.to_json_string())
    with atomic(out / "model.safetensors") as temporary:
        save_file(model.state_dict(), temporary, metadata={"format": "pt"})
    size = f"{model.config.num_hidden_layers} layers x {model.config.num_attention_heads} heads"
    return f"{out}: {model.config.model_type}, {size}, {len(model.state_dict())} tensors\n{finding}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="headspec.from_onnx", description="Make a model of an ONNX export.")
    parser.add_argument("file", help="ONNX file, or package:<import name>/<file>")
    parser.add_argument("source", help="config.json and tokenizer: a model's source, as in a study's config")
    parser.add_argument("out", type=Path, help="folder for weights, config and tokenizer")
    args = parser.parse_args()
    print(convert(args.file, args.source, args.out))


if __name__ == "__main__":
    try:
        main()
    except HeadspecError as error:
        sys.exit(str(error))
