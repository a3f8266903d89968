"""Measures of heads from one backward pass (importance, relevance), or along a path of gates."""

from typing import get_args

import numpy as np
import pandas as pd
import torch

from headspec.atlas.sample import measure_folds, sampled
from headspec.heads.importance import STEPS, by_batch, integrated_derivatives, ones, token_derivatives
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.internals.propagation import Rules, propagating
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.registry import require


def relevance_measures(
    model: MultiTask,
    examples: dict[str, Examples],
    device: Device,
    wanted: int,
    rules: Rules = "constant_attention",
) -> pd.DataFrame:
    """Return the measures, of every head for every task, that need one backward pass (schema `HEAD_FOLDS`).

    importance
        |dL/dxi|, the absolute value by example (Li et al. 2023, Eq. 4).
    token_importance
        The sum over tokens of |dL/dxi|, where every token has its own gate, as in the code released with
        Michel et al. 2019. It is never smaller than `importance`.
    gradient_x_activation
        -dL/dxi, minus the product of the head's output and its gradient: the first-order estimate of how
        much the loss rises when the head is closed. It can be negative.
    relevance
        |R| / sum over the layer's heads of |R|, where R is the head's relevance to the logit of the
        predicted class, or to the score (Voita et al. 2019). Absolute values, because the rules in their
        code give no negative relevance, and because signed relevances can sum to zero.

    `wanted` examples per task are drawn by `sampled`; `rules` are those of
    `headspec.models.internals.propagation`.
    """
    rows = {task: sampled(task, len(task_examples), wanted) for task, task_examples in examples.items()}
    progress = Progress(2 * sum(map(len, rows.values())), "passes of an example")
    frames = []
    for task, task_examples in examples.items():
        arguments = (model, task, task_examples, rows[task], device, progress)
        by_example, by_token = np.moveaxis(loss_gradients(*arguments), 1, 0)
        shares = np.abs(relevances(*arguments, rules=rules))
        shares /= np.maximum(np.nansum(shares, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        measures = {
            "importance": np.abs(by_example),
            "token_importance": by_token,
            "gradient_x_activation": -by_example,
            "relevance": shares,
        }
        frames += [measure_folds(task, name, values) for name, values in measures.items()]
    return pd.concat(frames, ignore_index=True)


def loss_gradients(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return derivatives of each example's loss with respect to gates of every head on every token.

    The result is (len(rows), 2, layers, heads): the sum over tokens, which is the derivative with respect to
    the head's gate (`gate_gradients`); and the sum over tokens of the absolute value.
    """

    def batch_values(batch: Batch) -> torch.Tensor:
        tokens = max(mask.shape[1] for mask in model.attending(batch))  # of sources or of targets

        def losses() -> torch.Tensor:
            with device.cast():
                return model.losses(task, model.pool(batch), batch.labels)

        by_token = token_derivatives(model.gates, losses, len(batch.rows), tokens)
        return torch.stack([by_token.sum(1), by_token.abs().sum(1)], dim=1)  # (batch, 2, layers, heads)

    return by_batch(batch_values, "gradients of the gates", model, task, examples, rows, device, progress)


def relevances(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
    rules: Rules = "constant_attention",
) -> np.ndarray:
    """Return the signed relevance of every head to each example's prediction, (len(rows), layers, heads).

    The prediction is what `TaskHead.evidence` returns: the logit of the predicted class, or the score; for
    tasks on words, sets of labels and questions, the sum of the logits behind the prediction; for tasks that
    write or predict texts, the mean over target tokens of the largest logit, given the tokens before. Raises
    ConfigError if there are no such `rules`.
    """
    require("rules of relevance", rules, get_args(Rules))

    def batch_values(batch: Batch) -> torch.Tensor:
        gates = ones(model.gates, len(batch.rows)).requires_grad_()  # (batch, layers, heads)
        with model.gates.at(gates), device.cast(), propagating(model.gates, rules):
            top = model.evidence(task, model.pool(batch), batch.labels).sum()
        return torch.autograd.grad(top, gates)[0]

    return by_batch(batch_values, "relevance of the heads", model, task, examples, rows, device, progress)


def integrated_gradient(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device
) -> np.ndarray:
    """Return the mean of -dL/dgate while all gates go from 0 to 1 together, (n, layers, heads).

    Derivatives at open gates alone (`gradient_x_activation`) miss heads whose effect is saturated.
    """

    def batch_values(batch: Batch) -> torch.Tensor:
        def losses() -> torch.Tensor:
            with device.cast():
                return model.losses(task, model.pool(batch), batch.labels)

        return integrated_derivatives(model.gates, losses, len(batch.rows), STEPS)

    return by_batch(batch_values, "integrated gradients", model, task, examples, rows, device)
