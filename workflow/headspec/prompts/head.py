"""The language-model head restricted to answers, as the classifier of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import nn

from headspec.config.task_types.word_types import Classes
from headspec.models.architectures import continues
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.language.answer_rows import AnswerRows
from headspec.models.language.masked_head import MaskedHead
from headspec.models.multitask import MultiTask

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def classifier(head: nn.Module, answers: Sequence[int]) -> AnswerRows:
    """The rows of a language-model head for the tokens of answers: logits of a class are those of its token.

    Parameters
    ----------
    head : (vocabulary, hidden) weights and perhaps a bias
    """
    assert isinstance(head, nn.Linear)
    rows = AnswerRows(head.in_features, len(answers))
    with torch.no_grad():
        rows.weight.copy_(head.weight[list(answers)])
        rows.bias.copy_(head.bias[list(answers)] if head.bias is not None else torch.zeros(len(answers)))
    return rows


def prompted(
    model: PreTrainedModel, answers: Mapping[str, Sequence[int]], classes: Mapping[str, Classes]
) -> MultiTask:
    """A language model as encoder of tasks; the vector of a prompt is its last token, or its mask.

    Parameters
    ----------
    answers : task: token of each class's answer; of tasks whose continuations are scored, nothing
    classes : task: its `Classes`
    """
    causal = continues(model.config.to_dict())
    head = model.get_output_embeddings()
    joint = MultiTask(model.base_model, "last" if causal else "mask", classes, head if causal else None)
    for i, task in enumerate(classes):
        if answers[task]:
            rows = classifier(head, answers[task]) if causal else MaskedHead.of(model, answers[task])
            joint.classifiers[i] = rows
    return joint.eval()


@torch.no_grad()
def calibrate(model: MultiTask, task: str, prompts: Sequence[Sequence], device: Device) -> None:
    """Divide the probabilities of a task's classes by their means after prompts without content.

    Contextual calibration with a diagonal matrix (Zhao et al. 2021): it takes the logarithm of these means
    from the biases, after which such prompts no longer prefer a class.

    Parameters
    ----------
    prompts : fields of `headspec.prompts.tokens.Prompt`
    """
    model.to(device.name)
    frame = pd.DataFrame([*prompts], columns=["input_ids", "words", "cut", "continuations"])
    frame = frame.assign(token_type_ids=None, units=None, label=0.0)
    examples = Examples(frame.reset_index(names="example"))
    probabilities = []
    for row in range(len(examples)):
        batch = examples.batch(np.array([row]), device.name)
        logits = model.logits(task, model.pool(batch), batch.labels)
        probabilities.append(logits.float().softmax(1)[0])
    bias = model.classifier(task).bias
    assert isinstance(bias, torch.Tensor)
    bias -= torch.stack(probabilities).mean(0).log()
