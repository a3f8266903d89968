"""Whether an encoder computes the hidden states that onnxruntime computes from its ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from headspec.errors import EncoderError, listing
from headspec.models.pretrained.config_json import positions
from headspec.models.tokens.tokenization import encode, tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from headspec.config.sections.model import Model
    from headspec.models.pretrained.onnx_weights import Export

TOLERANCE = 1e-4  # of hidden states from float32 weights
#: Least mean cosine from quantised weights. The file rounds activations as well, so it differs a little: int8
#: files of BERTs with 12 layers have .997. With half or twice as many heads, or ReLU, they have .96 or less.
COSINE = 0.99
LENGTH = 64  # tokens of a text
TEXTS = [
    ("The film was a joy from the first minute to the last.", "It bored me."),
    ("Shares fell in early trading after the bank raised its rates for the third time this year.", "Why?"),
    ("The striker scored twice.", "Parliament votes on the budget tomorrow; nobody knows with what result."),
    ("Which river flows through Vienna, Budapest and Belgrade?", "The Danube, on its 2,850 km to the sea."),
    ("In 1687, Newton's Principia explained the tides.", "The moon's pull raises the sea twice a day."),
    ("A dull, endless, badly acted mess.", "Nobody should have to sit through it, least of all children."),
]  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """How near hidden states are to those of the file.

    Attributes
    ----------
    tokens : number of tokens compared
    cosine : mean cosine of the vectors of a token
    lowest : the lowest of these cosines
    difference : the largest difference of a number
    """

    tokens: int
    cosine: float
    lowest: float
    difference: float

    def __str__(self) -> str:
        return (
            f"hidden states of {self.tokens} tokens have a mean cosine of {self.cosine:.4f} (lowest "
            f"{self.lowest:.4f}) with those of the file, and differ by at most {self.difference:.1e}"
        )


def tokens(model: Model, config: PreTrainedConfig) -> pd.DataFrame:
    """The table 'tokens' of `TEXTS`, as a study of the model has it; EncoderError as `tokenizer`."""
    table = pd.DataFrame(TEXTS, columns=["text_a", "text_b"]).rename_axis("example").reset_index()
    length = min(LENGTH, positions(config.to_dict()) or LENGTH)
    frame, _ = encode(tokenizer(model, "folder"), table, length, None)
    return frame


def verify(export: Export, model: PreTrainedModel, tokens: pd.DataFrame) -> Agreement:
    """Compare hidden states with those that onnxruntime computes from the file.

    Parameters
    ----------
    tokens : columns input_ids and token_type_ids of the table 'tokens'

    Raises
    ------
    EncoderError
        They differ by more than `TOLERANCE`, or with quantised weights, their mean cosine is below `COSINE`;
        or there is nothing to compare, or no onnxruntime.
    """
    found = _compare(export.path, model, tokens)
    if export.quantised and not found.cosine >= COSINE:
        problem = f"have a mean cosine of {found.cosine:.4f} with those of '{export.path}', expected {COSINE}"
    elif not export.quantised and not found.difference <= TOLERANCE:
        problem = f"differ from those of '{export.path}' by {found.difference:.2g}, expected {TOLERANCE}"
    else:
        return found
    raise EncoderError(
        f"the hidden states {problem}: check the number of heads ({model.config.num_attention_heads}), "
        "activation and layer-norm epsilon in config.json"
    )


@torch.no_grad()
def _compare(path: Path, model: PreTrainedModel, tokens: pd.DataFrame) -> Agreement:
    """As `verify`, whatever the agreement.

    Raises
    ------
    EncoderError
        onnxruntime is not installed or cannot run the file, or the file does not compute hidden states.
    """
    session = _session(path)
    columns = tokens["input_ids"], tokens["token_type_ids"]
    texts = [_inputs(session, *row) for row in zip(*columns, strict=True)]
    tensors = [{name: torch.from_numpy(each).long() for name, each in text.items()} for text in texts]
    ours = [model(**given).last_hidden_state.numpy() for given in tensors]  # each (1, tokens, hidden)
    output = _nearest(session, texts[0], ours[0])
    if output is None:
        session = _session(_with_all_outputs(path))
        output = _nearest(session, texts[0], ours[0])
    if output is None:
        raise EncoderError(f"'{path}' computes no hidden states of {ours[0].shape[-1]} numbers")
    theirs = [_run(session, text, [output])[output] for text in texts]
    a, b = (np.concatenate(states, axis=1, dtype=np.float64)[0] for states in (ours, theirs))
    cosines = (a * b).sum(1) / np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return Agreement(len(a), float(cosines.mean()), float(cosines.min()), float(np.abs(a - b).max()))


def _session(model: Path | bytes) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise EncoderError(
            "what is read from an ONNX file is compared with what onnxruntime computes from it, and the "
            "package onnxruntime is not installed: pip install onnxruntime"
        ) from None
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3  # errors
    try:
        return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EncoderError(f"onnxruntime cannot load the file: {error}") from None


def _inputs(session: Any, ids: list[int], types: list[int] | None) -> dict[str, np.ndarray]:
    """What the file takes for the tokens of a text, each (1, tokens)."""
    known = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": types or [0] * len(ids)}
    wanted = {node.name: np.int32 if "int32" in node.type else np.int64 for node in session.get_inputs()}
    if unknown := sorted(wanted.keys() - known.keys()):
        raise EncoderError(f"the file has inputs {listing(unknown)}; expected no other than {listing(known)}")
    return {name: np.array([known[name]], kind) for name, kind in wanted.items()}


def _run(session: Any, text: dict[str, np.ndarray], names: list[str]) -> dict[str, Any]:
    try:
        return dict(zip(names, session.run(names, text), strict=True))
    except Exception as error:
        raise EncoderError(f"onnxruntime cannot run the file on texts: {error}") from None


def _nearest(session: Any, text: dict[str, np.ndarray], states: np.ndarray) -> str | None:
    """The output with the shape of the hidden states that is nearest to them."""
    outputs = _run(session, text, [output.name for output in session.get_outputs()])
    differences = {
        name: np.nan_to_num(np.abs(value - states).max(), nan=np.inf)
        for name, value in outputs.items()
        if np.shape(value) == states.shape
    }
    return min(differences, key=lambda name: differences[name], default=None)


def _with_all_outputs(path: Path) -> bytes:
    """The file with every tensor as an output, for those that only output a vector for each text."""
    import onnx

    model = onnx.load(path)
    known = {output.name for output in model.graph.output}
    names = {name for node in model.graph.node for name in node.output if name} - known
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names))
    return model.SerializeToString()
