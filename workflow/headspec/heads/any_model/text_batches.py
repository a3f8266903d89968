"""Batches of texts with labels, and of prompts with answers, for a model of transformers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch.nn.utils.rnn import pad_sequence

from headspec.errors import listing, nearest
from headspec.heads.any_model.batches import IGNORED, Inputs
from headspec.models import tokenization
from headspec.models.pretrained.config_json import positions
from headspec.models.tokenization import around, following, once, special_tokens
from headspec.progress import log

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BATCH = 16  # examples
#: maximum length, in tokens, of models without a limit
UNLIMITED = 2**31


def made(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, given: Mapping[str, Any]
) -> Iterator[Inputs]:
    """Yield batches made from the arguments `given` to `headspec.head_importance`.

    Texts are tokenized as in studies, whatever the tokenizer's state, which does not change; long texts with
    labels are cut, with a warning. Raises ValueError if arguments are missing or do not match, or a prompt or
    an answer is too long; TypeError if `tokenizer` is not one of transformers.
    """
    if tokenizer is None or set(given) not in ({"texts", "labels"}, {"prompts", "answers"}):
        got = listing([*given, *(["tokenizer"] if tokenizer is not None else [])])
        raise ValueError(
            f"got {got}; expected batches, or tokenizer, texts and labels, or tokenizer, prompts and answers"
        )
    if not hasattr(tokenizer, "model_max_length"):
        hint = ", such as its .tokenizer" if hasattr(tokenizer, "tokenizer") else ""
        raise TypeError(
            f"tokenizer: got {type(tokenizer).__name__}, expected a tokenizer of transformers{hint}"
        )
    (name, first), (other, second) = ((name, _listed(name, value)) for name, value in given.items())
    if len(first) != len(second):
        raise ValueError(f"{other}: got {len(second)}, expected {len(first)}, one for each of {name}")
    if other == "labels" and model.can_generate():
        raise ValueError(f"labels: {type(model).__name__} has no classes; expected prompts and answers")
    own = copy.deepcopy(tokenizer)
    tokenization.unify_settings(own, model.config)
    config = model.config.get_text_config()
    most = longest(model, own)
    pad = getattr(config, "pad_token_id", None)
    has_pad = pad is not None and pad >= 0
    if other == "labels":
        labels = _labels(model, second)
        columns, size = (
            _texts(own, first, most),
            BATCH if has_pad else 1,
        )  # some models find the end of a text by it
    else:
        for each in (name, other):
            _strings(each, given[each])
        written = _written if model.config.is_encoder_decoder else _continued
        columns, size = written(own, first, second, most), BATCH
        labels = None
    fills = {"input_ids": int(pad or 0) if has_pad else 0, "labels": IGNORED}
    for start in range(0, len(first), size):
        part = slice(start, start + size)
        batch = {name: _padded(rows[part], fills.get(name, 0)) for name, rows in columns.items()}
        lengths = torch.tensor(list(map(len, columns["input_ids"][part])))
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        yield {**batch, "attention_mask": mask.long()} | ({} if labels is None else {"labels": labels[part]})


def longest(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the maximum number of tokens that a model and its tokenizer take, at most `UNLIMITED`."""
    config = model.config.get_text_config().to_dict()
    return min(positions(config) or UNLIMITED, int(tokenizer.model_max_length), UNLIMITED)


def _listed(name: str, values: Any) -> list[Any]:
    """Return an argument as a list. Raises ValueError if it is a single text or a mapping, or empty."""
    if isinstance(values, (str, Mapping)):
        raise ValueError(f"{name}: got one {type(values).__name__}, expected several, such as in a list")
    items = values.tolist() if hasattr(values, "tolist") else list(values)
    if not items:
        raise ValueError(f"{name}: got none")
    return items


def _texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Any], most: int) -> dict[str, list[list[int]]]:
    """Return the tokens of texts or pairs, at most `most` each. Raises ValueError if an item is neither."""
    pairs = [text if isinstance(text, (tuple, list)) else [text] for text in texts]
    kinds = {len(pair) for pair in pairs}
    if kinds not in ({1}, {2}):
        raise ValueError(f"texts: got rows of {listing(sorted(kinds))}, expected all texts, or all pairs")
    columns = dict(zip(("text_a", "text_b"), map(list, zip(*pairs, strict=True)), strict=False))
    for column in columns.values():
        _strings("texts", column)
    table = pd.DataFrame({"example": range(len(pairs)), "text_b": None} | columns)
    frame, cut = tokenization.encode(tokenizer, table, most, None)
    if cut:
        log.warning("%d of %d texts have more than %d tokens; their ends are cut", cut, len(pairs), most)
    return {
        name: frame[name].tolist() for name in ("input_ids", "token_type_ids") if frame[name].notna().all()
    }


def _strings(name: str, values: Sequence[Any]) -> None:
    """Raise ValueError if a value is not a string."""
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(f"{name}: got {value!r} for example {i}, expected a text")


def _labels(model: PreTrainedModel, labels: Sequence[Any]) -> torch.Tensor:
    """Return classes or scores, (n,), or multi-label targets, (n, labels).

    Raises ValueError if they do not fit the model.
    """
    classes = model.config.label2id or {}
    for label in labels:
        if isinstance(label, str) and label not in classes:
            raise ValueError(
                f"labels: got '{label}'; the model has {listing(classes)}.{nearest(label, classes)}"
            )
    try:
        numbers = np.array([classes[x] if isinstance(x, str) else x for x in labels], dtype=float)
    except (TypeError, ValueError):
        raise ValueError("labels: some are not numbers; expected a class or score for each example") from None
    missing = np.flatnonzero(np.isnan(numbers).reshape(len(numbers), -1).any(1))
    if len(missing):
        raise ValueError(f"labels: got nan for example {missing[0]}, expected a class or score")
    classes = model.config.num_labels
    if numbers.ndim > 1 and numbers.shape[1:] != (classes,):
        raise ValueError(
            f"labels: got {numbers.shape}, expected ({len(numbers)},) or, for several labels, "
            f"({len(numbers)}, {classes})"
        )
    if numbers.ndim > 1 or classes == 1 or model.config.problem_type == "regression":
        return torch.from_numpy(numbers).float()
    wrong = numbers[(numbers % 1 != 0) | (numbers < 0) | (numbers >= classes)]
    if len(wrong):
        raise ValueError(f"labels: got {wrong[0]:g}; the model has classes 0 to {classes - 1}")
    return torch.from_numpy(numbers).long()


def _written(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], answers: Sequence[str], most: int
) -> dict[str, list[list[int]]]:
    """Return the source and target tokens of an encoder-decoder. Raises as `_fits`."""

    def ids(target: bool, texts: Sequence[str]) -> list[list[int]]:
        name, beside = "text_target" if target else "text", special_tokens(tokenizer, target)
        rows = tokenizer(**{name: list(texts)}, verbose=False)["input_ids"]
        return [row[once(row, *beside)] for row in rows]

    read, labels = ids(False, prompts), ids(True, answers)
    for name, rows in (("prompts", read), ("answers", labels)):
        for i, row in enumerate(rows):
            _fits(name, i, len(row), most)
    return {"input_ids": read, "labels": labels}


def _continued(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], answers: Sequence[str], most: int
) -> dict[str, list[list[int]]]:
    """Return the input tokens of a decoder, and labels for the tokens of the answers.

    An answer is tokenized together with its prompt; on its own it could have other tokens. Raises ValueError
    if a prompt or an answer has no tokens of its own, or as `_fits`.
    """
    start, _ = special_tokens(tokenizer)

    def ids(text: str) -> list[int]:
        return around(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], start)

    texts, labels = [], []
    for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        before = ids(prompt)
        if not before:
            raise ValueError(f"prompts: got {prompt!r} for example {i}, which has no tokens")
        if not (own := following(ids, prompt, answer)):
            such = f", such as {' ' + answer.strip()!r}" if answer.strip() else ""
            raise ValueError(
                f"answers: got {answer!r}, which the tokenizer joins to {prompt!r}; expected an answer "
                f"that starts a token{such}"
            )
        _fits("prompts", i, len(before) + len(own), most, " with its answer")
        texts.append([*before, *own])
        labels.append([IGNORED] * len(before) + own)
    return {"input_ids": texts, "labels": labels}


def _fits(name: str, example: int, length: int, most: int, beside: str = "") -> None:
    """Raise ValueError if a text has more tokens than the model takes."""
    if length > most:
        raise ValueError(
            f"{name}: example {example} has {length} tokens{beside}; the model takes at most {most}"
        )


def _padded(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
    """Return rows as a tensor (rows, tokens), padded at the end so that positions do not change."""
    return pad_sequence(list(map(torch.tensor, map(list, rows))), batch_first=True, padding_value=fill)
