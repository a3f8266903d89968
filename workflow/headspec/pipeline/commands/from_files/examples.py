"""Examples of a table as inputs of a model: texts with labels, words with tags, prompts with answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.models.auto import modeling_auto

from headspec.config.sections.task import Task
from headspec.data import splits
from headspec.errors import DataError, ModelError, listing, nearest
from headspec.heads.any_model.batches import IGNORED, Inputs
from headspec.heads.any_model.text_batches import BATCH, longest
from headspec.models.word_tokens import with_words
from headspec.pipeline.commands.from_files import found, stored
from headspec.tasks.kinds.texts import label_sets
from headspec.tasks.kinds.words import units
from headspec.text_values import as_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: maximum number of examples, evenly spaced in the table
MOST = 400
TEXTS, WORDS, PROMPTS = "texts and labels", "words with tags", "prompts and answers"
#: what models with a head for these examples are called, and their classes by type of model
HEADS: dict[str, tuple[str, tuple[Mapping[str, Any], ...]]] = {
    TEXTS: (
        "a sequence classification model",
        (modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,),
    ),
    WORDS: ("a token classification model", (modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,)),
    PROMPTS: (
        "a language model",
        (
            modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        ),
    ),
}
#: types of tasks for which models have heads of their own, and what their examples are
TYPES = {"classification": TEXTS, "regression": TEXTS, "labels": TEXTS, "tags": WORDS, "spans": WORDS}


@dataclass(frozen=True)
class TableExamples:
    """Contents of a table: one of `HEADS`; the type of its task, empty for prompts; columns of n examples."""

    what: str
    type: str
    columns: dict[str, list[Any]]

    @property
    def n(self) -> int:
        return len(next(iter(self.columns.values())))


def read(data: str) -> TableExamples:
    """Return the examples of a table or folder, at most `MOST`, read as studies read them.

    Raises DataError if it holds neither prompts and answers nor a task of `TYPES`.
    """
    if asked := _asked(data):
        return asked
    keys = found.find(data).keys
    if keys["type"] not in TYPES:
        raise DataError(
            f"{data}: contains a task of type {keys['type']}, expected {listing(HEADS)}; use a study "
            f"instead: headspec new {data} --model <model>"
        )
    rows = _some(splits.read_labelled("data", Task(**keys))["train"])
    texts, labels = rows["text_a"].tolist(), rows["label"].tolist()
    if TYPES[keys["type"]] == WORDS:
        sentences = [text.split(" ") for text in texts]
        tags = [_tags(keys["type"], units.parsed(label), len(words))
                for label, words in zip(labels, sentences, strict=True)]  # fmt: skip
        return TableExamples(WORDS, keys["type"], {"words": sentences, "tags": tags})
    if rows["text_b"].notna().any():
        texts = list(zip(texts, rows["text_b"], strict=True))
    if keys["type"] == "labels":
        labels = [label_sets.parsed(label) for label in labels]
    return TableExamples(TEXTS, keys["type"], {"texts": texts, "labels": labels})


def _asked(data: str) -> TableExamples | None:
    """Return the examples of a table with the columns prompt and answer; None for others."""
    if not Path(data).exists():
        return None
    held = stored.training_files(data)
    if held.layout != "tables":
        return None
    table = stored.columns(held, data, stored.dialect(held, data))
    names = found.prompts(table)
    if not names:
        return None
    rows = _some(table[(table[names].notna() & (table[names].astype(str) != "")).all(axis=1)])
    prompts, answers = ([as_text(cell) for cell in rows[name]] for name in names)
    return TableExamples(PROMPTS, "", {"prompts": prompts, "answers": answers})


def _some(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.iloc[np.linspace(0, len(rows) - 1, min(MOST, len(rows))).astype(int)]


def _tags(kind: str, found_units: units.Units, n: int) -> list[str]:
    """Return the tag of each of n words; for spans, those of BIO."""
    tags = ["O"] * n
    for unit in found_units:
        if kind == "tags":
            tags[unit[0]] = unit[1]
            continue
        first, last, name = unit
        tags[first : last + 1] = [f"B-{name}", *[f"I-{name}"] * (last - first)]
    return tags


def arguments(
    examples: TableExamples, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> dict[str, Any]:
    """Return examples as arguments of `headspec.head_importance` and `head_curve`, besides the model.

    Raises ModelError if the model has another head, and DataError if it lacks a label.
    """
    called, classes = HEADS[examples.what]
    if type(model).__name__ not in {name for mapping in classes for name in np.ravel([*mapping.values()])}:
        raise ModelError(f"is a {type(model).__name__}, but {examples.what} need {called}")
    if examples.what == WORDS:
        return {"batches": list(_word_batches(examples.columns, model, tokenizer))}
    known: dict[str, int] = model.config.label2id or {}
    given: dict[str, Any] = {"tokenizer": tokenizer, **examples.columns}
    if examples.type == "labels":
        sets = examples.columns["labels"]
        _check({name for names in sets for name in names}, known)
        given["labels"] = np.array([[float(name in names) for name in _in_order(known)] for names in sets])
    elif examples.type:
        given["labels"] = [label if label in known else _number(label) for label in given["labels"]]
    return given


def _in_order(known: Mapping[str, int]) -> list[str]:
    return sorted(known, key=lambda name: known[name])


def _check(names: set[str], known: Mapping[str, int]) -> None:
    """Raise DataError if the model lacks one of the labels."""
    if strange := sorted(names - known.keys()):
        raise DataError(
            f"labels: got '{strange[0]}'; the model has {listing(_in_order(known))}."
            f"{nearest(strange[0], known)}"
        )


def _number(label: str) -> Any:
    """Return a label as a number if it is written as one, else unchanged."""
    number = pd.to_numeric(label, errors="coerce")
    return label if pd.isna(number) else float(number) if number % 1 else int(number)


def _word_batches(
    columns: Mapping[str, Sequence[Any]], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Iterator[Inputs]:
    """Yield batches with the tag of each word at its first token, as token classifiers are trained.

    Raises DataError if the model lacks a tag.
    """
    known: dict[str, int] = model.config.label2id or {}
    _check({tag for tags in columns["tags"] for tag in tags}, known)
    fields, words_of = with_words(tokenizer, columns["words"], longest(model, tokenizer))
    labels = []
    for words, tags in zip(words_of, columns["tags"], strict=True):
        begins = (words >= 0) & (words != np.concatenate([[-1], words[:-1]]))
        own = [known[tags[word]] if first else IGNORED for word, first in zip(words, begins, strict=True)]
        labels.append(torch.tensor(own))
    size = BATCH if tokenizer.pad_token is not None else 1
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        batch = tokenizer.pad(
            {name: rows[part] for name, rows in fields.items()}, padding_side="right", return_tensors="pt"
        )
        yield {**batch, "labels": pad_sequence(labels[part], batch_first=True, padding_value=IGNORED)}


def right_words(outputs: Any, batch: Inputs) -> torch.Tensor:
    """Return the share of each example's words that are tagged correctly, (batch,)."""
    counted = batch["labels"] != IGNORED
    right = (outputs.logits.argmax(-1) == batch["labels"]) & counted
    share: torch.Tensor = right.sum(1) / counted.sum(1).clamp(min=1)
    return share
