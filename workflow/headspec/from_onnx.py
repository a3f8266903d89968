"""An encoder that exists only as an ONNX export, as a folder that a model's `source` can name.

``python -m headspec.from_onnx <file> <folder> <out>`` takes the weights from the ONNX file, and what
weights do not tell (kind of model, number of heads, activation, tokenizer) from a folder of the same
kind and vocabulary. Before anything is written, the encoder's hidden states are compared with those
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
from headspec.encoding import tokenizer
from headspec.errors import EncoderError, HeadspecError, listing
from headspec.readers import locate
from headspec.study import Model
from headspec.tables import atomic

#: sizes that tensors tell, each with a value that no other dimension of a model has
MARKS = {
    "vocab_size": 9_999_991,
    "max_position_embeddings": 10_007,
    "type_vocab_size": 10_009,
    "embedding_size": 10_037,
    "intermediate_size": 10_039,
}
HEAD_MARK = 10_061  # the same for the size of a head
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


def resized(config: PreTrainedConfig, sizes: dict[str, int]) -> PreTrainedConfig:
    """`config` with other sizes; EncoderError where it allows no such sizes."""
    settings: dict[str, Any] = config.to_dict()
    try:
        return AutoConfig.for_model(settings.pop("model_type"), **(settings | sizes))
    except Exception as error:
        raise EncoderError(f"config.json does not go with the tensors' sizes {sizes}: {error}") from None


def tensors_and_sizes(
    export: Export, config: PreTrainedConfig
) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """The tensors of the encoder as `AutoModel` names and turns them, and the sizes that they tell.

    A dimension tells the size that it would have in a model of the marked sizes.
    """
    with torch.device("meta"):
        expected = AutoModel.from_config(config).state_dict()
    found = expected_names(export.used, expected) | expected_names(export.named, expected)
    sizes = layers(found, config)
    marks = {key: mark for key, mark in MARKS.items() if hasattr(config, key)}
    marks["hidden_size"] = HEAD_MARK * config.num_attention_heads
    with torch.device("meta"):
        model = AutoModel.from_config(resized(config, sizes | marks))
    state = {}
    for name, marked in model.state_dict().items():
        if name in found:
            value, rows = found[name].value, found[name].rows
            wanted = _rows(model.get_submodule(name.rpartition(".")[0]))
            if rows and wanted and rows != wanted:
                value = value.T
            state[name] = torch.from_numpy(np.array(value, order="C"))
            told = dict(zip(marked.shape, value.shape, strict=False))
            sizes |= {key: told[m] for key, m in marks.items() if m in told and key not in sizes}
    return state, sizes


def layers(names: Collection[str], config: PreTrainedConfig) -> dict[str, int]:
    """The number of layers, where every layer has an attention of its own."""
    before, *after = ARCHITECTURES[config.model_type].projection.split("*")
    if len(after) > 1:
        return {}
    own = fnmatch.filter(names, f"{before}*{after[0]}.weight")
    numbers = [int(name.removeprefix(before).partition(".")[0]) for name in own]
    return {"num_hidden_layers": 1 + max(numbers)} if numbers else {}


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
        Of a model of the same kind; sizes that the tensors tell need not be right.

    Raises
    ------
    EncoderError
        No ONNX file, or an encoder that lacks tensors or has some of another shape.
    """
    export = read(path)
    state, sizes = tensors_and_sizes(export, config)
    config = resized(config, sizes)
    kind, hidden, heads = config.model_type, config.hidden_size, config.num_attention_heads
    if hidden % heads:
        raise EncoderError(
            f"'{path}': a hidden size of {hidden} is not divisible by the {heads} heads of config.json"
        )
    model = AutoModel.from_config(config, dtype=torch.float32)
    if any(name.startswith("pooler.") and name not in state for name in model.state_dict()):
        model.pooler = None
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    state = {name: value for name, value in state.items() if name in shapes}
    lacking = [name for name in shapes if name not in state]
    unfit = [f"{n} {tuple(t.shape)} instead of {shapes[n]}" for n, t in state.items() if t.shape != shapes[n]]
    if lacking or unfit:
        reasons = [f"it lacks {_some(lacking)}"] if lacking else []
        reasons += [f"of another shape: {_some(unfit)}"] if unfit else []
        if export.other:
            found = listing(export.other)
            reasons.append(f"it has weights of type {found}: quantised and half-precision files are not read")
        raise EncoderError(f"'{path}' has no whole {kind} encoder: {'; '.join(reasons)}")
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
    tokens = tokenizer(Model(source=source), "folder")
    model = encoder(path, config)
    if max(tokens.get_vocab().values()) >= model.config.vocab_size:
        raise EncoderError(
            f"the tokenizer of '{source}' has more tokens than the {model.config.vocab_size} "
            f"that '{path}' embeds"
        )
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
