"""Behaviours of decoders' heads, as measures of the atlas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headspec.errors import ModelError
from headspec.heads.behaviours.function_vectors import PAIRS, SHOTS
from headspec.heads.behaviours.probe import Compose, Probe, composed
from headspec.heads.behaviours.table import BEHAVIOURS
from headspec.models.architectures import continues
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.config_json import positions
from headspec.seeds import derive
from headspec.tasks.keys import TaskKeys
from headspec.tasks.kinds.texts.prompting import prompting
from headspec.tasks.kinds.texts.wording import Wording, conversation
from headspec.tasks.parts import Classes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: tokens in each half of a sequence, if the model takes as many
TOKENS = 48
#: tokens that may begin a sequence
STARTS = "bos_token_id", "eos_token_id"
#: most texts of a task that are read
TEXTS = 1000
Pairs = Sequence[tuple[str, str]]


@torch.no_grad()
def behaviour(
    name: str,
    model: MultiTask,
    tokenizer: PreTrainedTokenizerBase,
    sequences: int,
    texts: Sequence[str] = (),
    tasks: Mapping[str, Pairs] | None = None,
    chat: bool = False,
) -> NDArray[np.float64]:
    """Return how far a head's score of a behaviour is above its control, (layers, heads).

    It is a mean over sequences (`headspec.heads.behaviours.table.head_behaviours`). Numbers are hidden in
    `texts`; `tasks` are pairs of prompts and answers of each task, and earlier turns of a `chat` if that is
    so. Raises ModelError if the model is not a decoder, lacks the language-model head that the behaviour
    needs, or takes too few tokens.
    """
    config = model.encoder.config.get_text_config()
    if not continues(model.encoder.config.to_dict()):
        raise ModelError(f"'{name}' is of decoders; the model is a {model.encoder.config.model_type}")
    gates = HeadGates(model.head.whole_model(model.encoder)) if model.head else model.gates
    most = positions(config.to_dict())
    tokens = min(TOKENS, (most - 1) // 2) if most else TOKENS
    starts = (getattr(config, each, None) for each in STARTS)
    start = next((int(np.ravel(each)[0]) for each in starts if each is not None), 0)
    compose: Compose = partial(conversation, tokenizer) if chat else composed
    probe = Probe(
        gates, tokenizer, None if tokenizer.bos_token_id is not None else start, sequences, tokens, 0,
        tasks={task: _short(pairs, task, tokenizer, compose, most) for task, pairs in (tasks or {}).items()},
        texts=texts, compose=compose,
    )  # fmt: skip
    try:
        scores, controls = BEHAVIOURS[name](probe)
    except ValueError as error:
        raise ModelError(f"'{name}': {error}") from None
    above: NDArray[np.float64] = np.mean(scores - controls, axis=0)
    return above


def _short(
    pairs: Pairs, task: str, tokenizer: PreTrainedTokenizerBase, compose: Compose, most: int | None
) -> Pairs:
    """Return the pairs so short that a prompt fits the model; ModelError if fewer than `PAIRS` differ."""
    room = most // (SHOTS + 1) if most else None
    kept = [
        pair for pair in pairs if room is None or len(tokenizer(compose([pair], ""))["input_ids"]) <= room
    ]
    if len({*kept}) < PAIRS:
        raise ModelError(
            f"'function_vector': {len({*kept})} different examples of tasks.{task} have at most {room} "
            f"tokens, so that {SHOTS + 1} fit the model; expected at least {PAIRS}"
        )
    return kept


def texts_of(table: pd.DataFrame, task: str) -> list[str]:
    """Return at most `TEXTS` texts of a data table, in random order."""
    return _some(table, task)["text_a"].tolist()


def answered(table: pd.DataFrame, task: str, prompt: Mapping[str, Any], classes: Classes) -> Pairs:
    """Return at most `TEXTS` prompts of a data table with their answers, in random order.

    `prompt` has the keys of the task, whose demonstrations are left out.
    """
    keys, known = TaskKeys.from_params(prompt), classes if isinstance(classes, list) else []
    asking, wording = prompting(keys.type), Wording.for_task(keys, known, prompt.get("asked"))
    rows = _some(table, task)
    return [
        (wording.filled(text_a, text_b), asking.answer(wording, label, known))
        for text_a, text_b, label in zip(rows["text_a"], rows["text_b"], rows["label"], strict=True)
    ]


def _some(table: pd.DataFrame, task: str) -> pd.DataFrame:
    rng = np.random.default_rng(derive(0, "behaviours", task))
    return table.iloc[rng.permutation(len(table))[:TEXTS]]
