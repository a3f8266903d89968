"""The language-model head restricted to answers, as a classifier of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from headspec.errors import ModelError
from headspec.models.architectures import continues
from headspec.models.attention.placement import device_of
from headspec.models.batching import Examples, continuations_attention, in_a_row
from headspec.models.devices import Device
from headspec.models.language import UNFIT, LanguageHead, near
from headspec.models.multitask import MultiTask
from headspec.tasks.kinds.continuations.head import Likelihoods
from headspec.tasks.parts import Classes

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def prompted(
    model: PreTrainedModel,
    answers: Mapping[str, Sequence[int]],
    classes: Mapping[str, Classes],
    where: str = "the model",
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> MultiTask:
    """Return a language model, in which the vector of a prompt is the state of its last token or its mask.

    `answers` has, per task, the token of each class's answer; it is empty where continuations are scored or
    written, for which a model needs its `tokenizer`.

    Raises ModelError if continuations side by side get other states than one by one; `where` names the
    config key and the source of the model.
    """
    head, causal = LanguageHead(model), continues(model.config.to_dict())
    joint = MultiTask(model.base_model, "last" if causal else "mask", classes, head, tokenizer)
    if any(isinstance(each, Likelihoods) for each in joint.task_heads):
        check_beside(model, where)
    for task, tokens in answers.items():
        if tokens:
            joint.classifier(task).restrict(head, tokens)
    return joint.eval()


@torch.no_grad()
def check_beside(model: PreTrainedModel, where: str) -> None:
    """Raise ModelError if continuations in one row get other states than alone, or cannot be read so."""
    encoder, (ids, branches) = model.base_model, in_a_row([1, 2, 3], [[4, 5, 6], [7, 8, 9, 10]])
    row, owner = (torch.tensor([each], device=device_of(encoder)) for each in (ids, branches))
    reads = [(owner[0] == 0) | (owner[0] == branch) for branch in (1, 2)]
    try:
        beside = encoder(input_ids=row, **continuations_attention(owner, encoder.dtype)).last_hidden_state[0]
        alone = [encoder(input_ids=row[:, own]).last_hidden_state[0] for own in reads]
        same = all(near(beside[own], states, model) for own, states in zip(reads, alone, strict=True))
        reason = "their states change"
    except UNFIT as error:
        same, reason = False, str(error)
    if not same:
        raise ModelError(
            f"{where} cannot have whole answers or texts scored, because it cannot read them next to each "
            f"other ({reason}); expected answers of one token each"
        )


@torch.no_grad()
def calibrate(model: MultiTask, task: str, prompts: Sequence[Sequence[Any]], device: Device) -> None:
    """Divide the probabilities of a task's classes by their means over content-free prompts.

    Contextual calibration with a diagonal matrix (Zhao et al. 2021): subtract the logarithms of these means
    from the biases of logits or log-likelihoods, so that such prompts prefer no class. Prompts are tuples of
    the fields of `headspec.tasks.kinds.texts.prompting.Prompt`.
    """
    model.to(device.name)
    frame = pd.DataFrame([*prompts], columns=["input_ids", "words", "cut", "continuations"])
    frame = frame.assign(token_type_ids=None, label=0.0).reset_index(names="example")
    examples = Examples.for_task(frame, model.classes[task])
    probabilities = []
    for row in range(len(examples)):
        batch = examples.batch(np.array([row]), device.name)
        logits = model.logits(task, model.pool(batch), batch.labels)
        probabilities.append(logits.float().softmax(1)[0])
    bias = model.classifier(task).bias
    assert isinstance(bias, torch.Tensor)
    bias -= torch.stack(probabilities).mean(0).log()
