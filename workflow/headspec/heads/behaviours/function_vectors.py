"""Heads that carry what a task is, from examples in a prompt to its end (Todd et al. 2024)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headspec.heads.ablations import each_replaced
from headspec.heads.any_model import text_batches, user_model
from headspec.heads.any_model.batches import IGNORED, LABELS, Inputs, arguments
from headspec.heads.any_model.halving import some
from headspec.heads.any_model.scored import Scored
from headspec.heads.behaviours.probe import Floats, Probe
from headspec.models.attention.past import fresh, is_past
from headspec.models.attention.placement import device_of
from headspec.models.devices import out_of_memory
from headspec.seeds import derive

#: examples in a prompt, at most
SHOTS = 10
#: fewest pairs of a task
PAIRS = 6
#: prompts whose context vectors are averaged; each prompt has its own, so that prompts are independent
AVERAGED = 8
Pairs = Sequence[tuple[str, str]]


def function_vectors(probe: Probe) -> tuple[Floats, Floats]:
    """Return rises of p(answer) in prompts with shuffled answers, (prompts of all tasks, layers, heads) each.

    A head's context vector is replaced by its mean over `AVERAGED` prompts with right answers, and for the
    control over as many others with shuffled answers. Raises ValueError without a tokenizer or tasks, or if
    a task has too few pairs.
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
    """Return the rises of a task's prompts and their controls, (n, layers, heads) each."""
    gates = probe.gates
    right, others, asked = (
        [*_prompts(probe, pairs, np.random.default_rng(derive(probe.seed, task, kind)), kind != "right", n)]
        for kind, n in (("right", AVERAGED), ("others", AVERAGED), ("asked", 1))
    )
    prompts, done = asked[0], 0
    with ExitStack() as stack:
        scored = Scored(gates, lambda outputs, _: prompts.probability(outputs), False, stack)
        means = [_means(scored, each) for each in (right, others)]

        def of(part: slice) -> torch.Tensor:
            """Return the rises of some prompts with each of the means, (n, means, heads)."""
            nonlocal prompts, done
            prompts = whole.some(part).last_tokens(gates.model)
            scored.start(prompts.inputs)
            contexts, rises = scored.contexts(prompts.inputs), []
            before = scored.passes.record(scored.losses)
            own = slice(done, done + len(prompts.ends))
            for mean in means:

                def instead(row: int, mean: Any = mean) -> Any:
                    vectors = contexts[row].clone()
                    vectors[prompts.each, prompts.ends] = mean[row][own].to(vectors)
                    return vectors

                replaced = each_replaced(scored.passes, scored.losses, gates.exists, instead)
                shown = user_model.shown(replaced, f"heads, {task}", int(gates.exists.sum()))
                rises.append(torch.stack([p - before for p in shown], dim=1))
            done = own.stop
            return torch.stack(rises, dim=1)

        parts: list[torch.Tensor] = []
        for whole in asked:
            parts += scored.halving.over(len(whole.ends), of)
    spread = np.zeros((probe.sequences, len(means), *gates.exists.shape))
    spread[..., gates.exists] = torch.cat(parts).cpu().numpy()
    return spread[:, 0], spread[:, 1]


@dataclass
class Prompts:
    """A batch of prompts.

    Attributes
    ----------
    inputs : arguments of the model
    ends : place of the last token of each, (n,)
    answers : id of the first token of each answer, (n,)
    """

    inputs: Inputs
    ends: torch.Tensor
    answers: torch.Tensor

    @property
    def each(self) -> torch.Tensor:
        """Numbers of the prompts, (n,)."""
        return torch.arange(len(self.ends), device=self.ends.device)

    def probability(self, outputs: Any) -> torch.Tensor:
        """Return the probability of the first token of each answer, (n,)."""
        likely = outputs.logits[self.each, self.ends].float().softmax(-1)
        right: torch.Tensor = likely[self.each, self.answers]
        return right

    def some(self, part: slice) -> Prompts:
        """Return some of the prompts."""
        return Prompts(some(self.inputs, part, "input_ids"), self.ends[part], self.answers[part])

    @torch.no_grad()
    def last_tokens(self, model: Any) -> Prompts:
        """Return the last tokens alone, with the states of the tokens before them.

        A pass then takes one token of each prompt. Returns the prompts unchanged if the model keeps no
        states, or predicts something else with them because it does not ignore padding on the left.
        """
        ids, device = self.inputs["input_ids"], self.ends.device
        places = (
            torch.arange(int(self.ends.max()) + 1, device=device) - (self.ends.max() - self.ends)[:, None]
        )
        attended, places = (places >= 0).long(), places.clamp(0)
        aligned = {"input_ids": ids.gather(1, places), "attention_mask": attended}
        if "position_ids" in inspect.signature(model.forward).parameters:
            aligned["position_ids"] = places
        try:
            past = model(**{name: value[:, :-1] for name, value in aligned.items()}, use_cache=True)
            last = {name: value[:, -1:] for name, value in aligned.items()} | {"attention_mask": attended}
            last["past_key_values"] = past.past_key_values
            made = Prompts(last, torch.zeros_like(self.ends), self.answers)
            found, expected = made.probability(model(**fresh(last))), self.probability(model(**self.inputs))
        except Exception as error:  # the model's code may raise anything
            if out_of_memory(error):
                raise
            return self
        within = 0.05 if model.dtype == torch.bfloat16 else 1e-3
        same = is_past(last["past_key_values"]) and torch.allclose(found, expected, rtol=within, atol=1e-6)
        return made if same else self


def _prompts(
    probe: Probe, pairs: Pairs, rng: np.random.Generator, shuffled: bool, each: int = 1
) -> Iterator[Prompts]:
    """Yield batches of prompts, each with examples of a task and then a text without its answer.

    There are `each` prompts for each of the probe's sequences.
    """
    prompts, answers = [], []
    for _ in range(probe.sequences * each):
        drawn = [pairs[i] for i in rng.permutation(len(pairs))[: min(SHOTS, len(pairs) - 1) + 1]]
        *shown, (asked, answer) = drawn
        given = [right for _, right in shown]
        if shuffled:
            given = [given[i] for i in rng.permutation(len(given))]
        examples = [(text, right) for (text, _), right in zip(shown, given, strict=True)]
        prompts.append(probe.compose(examples, asked))
        answers.append(answer)
    model = probe.gates.model
    for batch in text_batches.made(model, probe.tokenizer, {"prompts": prompts, "answers": answers}):
        inputs = arguments(batch, device_of(model))
        labels = inputs.pop(LABELS)
        first = (labels != IGNORED).int().argmax(1)
        yield Prompts(inputs, first - 1, labels.gather(1, first[:, None])[:, 0])


def _means(scored: Scored, batches: Sequence[Prompts]) -> dict[int, torch.Tensor]:
    """Return mean context vectors of the last tokens of `AVERAGED` prompts each, row: (n, heads, size)."""
    found: dict[int, list[torch.Tensor]] = {}
    for prompts in batches:
        for row, context in scored.contexts(prompts.inputs).items():
            found.setdefault(row, []).append(context[prompts.each, prompts.ends].float())
    return {row: torch.cat(vectors).unflatten(0, (-1, AVERAGED)).mean(1) for row, vectors in found.items()}
