"""Heads that carry what a task is, from examples in a prompt to its end (Todd et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from headspec.heads.ablations import each_replaced
from headspec.heads.any_model import own, text_batches
from headspec.heads.any_model.batches import IGNORED, LABELS, Inputs, arguments
from headspec.heads.any_model.scored import Contexts, Scored
from headspec.heads.behaviours.probe import Floats, Probe
from headspec.models.attention.placement import device_of
from headspec.seeds import derive

#: examples in a prompt, at most
SHOTS = 10
#: fewest pairs of a task
PAIRS = 6
Pairs = Sequence[tuple[str, str]]


def function_vectors(probe: Probe) -> tuple[Floats, Floats]:
    """Return rises of p(answer) in prompts with shuffled answers, (prompts of all tasks, layers, heads).

    They are those with a head's mean context vector over prompts with right answers, and over others with
    shuffled ones. ValueError without a tokenizer or tasks, or if a task has too few pairs.
    """
    if probe.tokenizer is None or not probe.tasks:
        raise ValueError("tasks: missing; the behaviour 'function_vector' needs a tokenizer and tasks")
    found: list[tuple[Floats, Floats]] = []
    for task, pairs in probe.tasks.items():
        if len({*pairs}) < PAIRS:
            raise ValueError(
                f"tasks: '{task}' has {len({*pairs})} different pairs, expected at least {PAIRS}"
            )
        found.append(_rises(probe, task, [*dict.fromkeys(pairs)]))
    scores, controls = (np.concatenate(each) for each in zip(*found, strict=True))
    return scores, controls


def _rises(probe: Probe, task: str, pairs: Pairs) -> tuple[Floats, Floats]:
    """Return the rises of a task's prompts, (n, layers, heads), and their controls."""
    gates = probe.gates
    right, others, asked = (
        [*_batches(probe, pairs, np.random.default_rng(derive(probe.seed, task, kind)), kind != "right")]
        for kind in ("right", "others", "asked")
    )
    with ExitStack() as stack:
        scored = Scored(gates, _probability, False, stack)
        means = [_means(scored, batches) for batches in (right, others)]
        values: tuple[list[torch.Tensor], ...] = ([], [])
        for batch in asked:
            scored.start(batch)
            contexts, ends = scored.contexts(batch), _ends(batch)
            before = scored.passes.record(scored.losses)
            for mean, rises in zip(means, values, strict=True):

                def instead(
                    row: int, mean: Any = mean, contexts: Contexts = contexts, ends: Any = ends
                ) -> Any:
                    vectors = contexts[row].clone()
                    vectors[torch.arange(len(ends)), ends] = mean[row].to(vectors)
                    return vectors

                replaced = each_replaced(scored.passes, scored.losses, gates.exists, instead)
                shown = own.shown(replaced, f"heads, {task}", int(gates.exists.sum()))
                rises.append(torch.stack([p - before for p in shown], dim=1))
    found = []
    for rises in values:
        spread = np.zeros((probe.sequences, *gates.exists.shape))
        spread[:, gates.exists] = torch.cat(rises).cpu().numpy()
        found.append(spread)
    return found[0], found[1]


def _batches(probe: Probe, pairs: Pairs, rng: np.random.Generator, shuffled: bool) -> Sequence[Inputs]:
    """Return batches of prompts with examples of a task and an unanswered one, and its answers."""
    prompts, answers = [], []
    for _ in range(probe.sequences):
        drawn = [pairs[i] for i in rng.permutation(len(pairs))[: min(SHOTS, len(pairs) - 1) + 1]]
        *shown, (asked, answer) = drawn
        given = [right for _, right in shown]
        if shuffled:
            given = [given[i] for i in rng.permutation(len(given))]
        examples = [f"Q: {text}\nA: {right}\n\n" for (text, _), right in zip(shown, given, strict=True)]
        prompts.append("".join(examples) + f"Q: {asked}\nA:")
        answers.append(f" {answer}")
    model = probe.gates.model
    made = text_batches.made(model, probe.tokenizer, {"prompts": prompts, "answers": answers})
    return [arguments(batch, device_of(model)) for batch in made]


def _ends(batch: Inputs) -> torch.Tensor:
    """Return the place of the last token of each prompt, (n,)."""
    first: torch.Tensor = (batch[LABELS] != IGNORED).int().argmax(1)
    return first - 1


def _probability(outputs: Any, batch: Inputs) -> torch.Tensor:
    """Return the probability of the first token of each answer, (n,)."""
    each, ends = torch.arange(len(batch[LABELS])), _ends(batch)
    likely = outputs.logits[each, ends].float().softmax(-1)
    right: torch.Tensor = likely[each, batch[LABELS][each, ends + 1]]
    return right


def _means(scored: Scored, batches: Sequence[Inputs]) -> dict[int, torch.Tensor]:
    """Return the mean context vectors of the last tokens of prompts, row: (heads, size)."""
    found: dict[int, list[torch.Tensor]] = {}
    for batch in batches:
        ends = _ends(batch)
        for row, context in scored.contexts(batch).items():
            found.setdefault(row, []).append(context[torch.arange(len(ends)), ends].float())
    return {row: torch.cat(vectors).mean(0) for row, vectors in found.items()}
