"""Inputs of a measure of a behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Floats = NDArray[np.float64]
#: name: pairs of a text and its answer
Tasks = Mapping[str, Sequence[tuple[str, str]]]
#: makes a prompt from examples, each a text and its answer, and a text that is asked
Compose = Callable[[Sequence[tuple[str, str]], str], str]
#: a prompt, its answer and another text in it
Prompts = Sequence[tuple[str, str, str]]
#: name: texts in order
Orders = Mapping[str, Sequence[str]]


def composed(examples: Sequence[tuple[str, str]], asked: str) -> str:
    """Return a prompt of examples, with a blank line after each, and the text that is asked."""
    return "".join(f"{text}{answer}\n\n" for text, answer in examples) + asked


@dataclass(frozen=True, eq=False)
class Probe:
    """A model and settings of `head_behaviours`; `kept` holds results that several behaviours share.

    `retrieval` hides numbers in `texts`, by default in the same few sentences. `tasks` have texts and answers
    as they are in prompts, which `compose` makes from examples and a text that is asked.
    """

    gates: HeadGates
    tokenizer: PreTrainedTokenizerBase | None
    start: int | None
    sequences: int
    tokens: int
    seed: int
    tasks: Tasks
    prompts: Prompts = ()
    orders: Orders = field(default_factory=dict)
    texts: Sequence[str] = ()
    compose: Compose = composed
    kept: dict[str, Any] = field(default_factory=dict)
