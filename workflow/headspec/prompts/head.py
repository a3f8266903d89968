"""The language-model head restricted to answers, as the classifier of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import nn

from headspec.errors import EncoderError
from headspec.models.architectures import ARCHITECTURES
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.masked_head import MaskedHead
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.from_pretrained import location, silence

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def language_model(path: Path, where: str, causal: bool = True) -> PreTrainedModel:
    """The causal or masked language model at `path` in float32.

    Parameters
    ----------
    where : config key of its source, and the source, for errors

    Raises
    ------
    EncoderError
        It cannot be loaded, or its weights have no language-model head.
    """
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    silence()
    try:
        model, info = (AutoModelForCausalLM if causal else AutoModelForMaskedLM).from_pretrained(
            **location(path),
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise EncoderError(f"{where} cannot be loaded as a language model: {error}") from None
    if missing := info["missing_keys"]:
        raise EncoderError(f"{where} has no language-model head: its weights lack {min(missing)}")
    return model.eval()


def classifier(head: nn.Module, answers: Sequence[int]) -> nn.Linear:
    """The rows of a language-model head for the tokens of answers: logits of a class are those of its token.

    Parameters
    ----------
    head : (vocabulary, hidden) weights and perhaps a bias
    """
    assert isinstance(head, nn.Linear)
    rows = nn.Linear(head.in_features, len(answers))
    with torch.no_grad():
        rows.weight.copy_(head.weight[list(answers)])
        rows.bias.copy_(head.bias[list(answers)] if head.bias is not None else torch.zeros(len(answers)))
    return rows


def prompted(
    model: PreTrainedModel, answers: Mapping[str, Sequence[int]], classes: Mapping[str, list[str]]
) -> MultiTask:
    """A language model as encoder of tasks; the vector of a prompt is its last token, or its mask.

    Parameters
    ----------
    answers : task: token of each class's answer
    classes : task: its classes
    """
    causal = ARCHITECTURES[model.config.model_type].causal
    joint = MultiTask(model.base_model, "last" if causal else "mask", classes)
    head = model.get_output_embeddings()
    joint.classifiers = nn.ModuleList(
        classifier(head, answers[task]) if causal else MaskedHead.of(model, answers[task]) for task in classes
    )
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
    frame = pd.DataFrame([*prompts], columns=["input_ids", "words", "cut"])
    frame = frame.assign(token_type_ids=None, units=None, label=0.0)
    examples = Examples(frame.reset_index(names="example"))
    probabilities = []
    for row in range(len(examples)):
        states = model.pool(examples.batch(np.array([row]), device.name))
        probabilities.append(model.logits(task, states).float().softmax(1)[0])
    bias = model.classifier(task).bias
    assert isinstance(bias, torch.Tensor)
    bias -= torch.stack(probabilities).mean(0).log()
