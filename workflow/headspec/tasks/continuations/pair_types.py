"""Types of tasks in which one of two continuations should be the likelier: the one list of them."""

from __future__ import annotations

from typing import Any

#: which of two texts is likelier (Warstadt et al. 2020), or which of two answers of an example to a prompt
TEXTS, ANSWERS = "minimal_pairs", "answer_pairs"
#: type: keys of a task that have other defaults
TYPES: dict[str, dict[str, Any]] = {
    TEXTS: {"text_a": "sentence_good", "text_b": "sentence_bad"},
    ANSWERS: {"label": ["right", "wrong"]},
}
METRICS = ("pair_accuracy", "logit_difference")
#: the continuations, in order
CLASSES = ["right", "wrong"]
