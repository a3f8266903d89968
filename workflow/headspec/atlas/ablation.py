"""Ablation of single heads: their context vectors are replaced by zeros, means, or those of another text."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headspec.atlas.sample import measure_folds
from headspec.head_arrays import existing, spread
from headspec.heads.ablations import each_replaced
from headspec.heads.closing import half_means, of_others
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device, require_finite
from headspec.models.internals.resuming import Replacing, Resuming, ablating
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.tables import FLOAT, INT, TEXT, Schema

#: measures that replace a head by nothing, or by the mean of its context vectors
ABLATION, MEAN_ABLATION = "ablation", "mean_ablation"
#: mean absolute value of `ablation` over examples: the effect of a head, for better or worse
SIZE = "ablation_size"

ABLATED = Schema(
    {"task": TEXT, "measure": TEXT, "layer": INT, "head": INT, "example": INT, "label": FLOAT,
     "prediction": FLOAT},
    keys=5,
    paths=("{run}/atlas/ablated.parquet",),
    about={
        "measure": "`ablation` or `mean_ablation`; null, as layer and head, with none closed",
    },
)  # fmt: skip


@dataclass(frozen=True)
class Ablated:
    """Losses and predictions of n examples, by measure, with each head ablated in turn.

    `loss` and `prediction` are those of the whole model, (n,). `increase` (of the loss) and `predictions` map
    measures to (n, layers, heads), nan where there is no head. If examples have several numbers, those of
    predictions are on a last axis.
    """

    loss: np.ndarray
    prediction: np.ndarray
    increase: dict[str, np.ndarray]
    predictions: dict[str, np.ndarray]


@torch.no_grad()
def ablate(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    measures: tuple[str, ...] = (ABLATION,),
    progress: Progress | None = None,
) -> Ablated:
    """Ablate each head in turn; what comes before the head is computed once (`Resuming`), where that works.

    `ablation` closes the head's gate. `mean_ablation` gives all tokens the mean of the head's context
    vectors, so that what the head adds equally to every token stays. The mean is over the tokens, without
    padding, of the half of `rows` (even or odd folds) that does not contain the example. `rows` are as from
    `sampled`, at least two for mean_ablation.

    Raises ModelError if an encoder whose passes should be resumed fails the check of `Resuming`,
    NumericalError if a loss or prediction is not finite.
    """
    model.to(device.name).eval()
    half = np.zeros(len(examples), dtype=int)  # (examples,)
    half[rows] = np.arange(len(rows)) % 2  # the parity of a row's fold, since FOLDS is even
    with ablating(model, task) as passes, device.cast():
        means = None
        if MEAN_ABLATION in measures:
            means = half_means(model, examples, rows, half, passes, device)

        def batch_values(batch: Batch) -> torch.Tensor:
            instead = dict.fromkeys(measures)
            if means is not None:
                instead[MEAN_ABLATION] = means.others(half[batch.rows])
            return _batch_results(model, task, batch, passes, instead)

        several = examples.label.ndim > 1
        held = device.sharing(model.classifier(task).beams)
        results = examples.values(batch_values, rows, held, progress, task)  # as `_batch_results`
    model.classifier(task).settle(task)
    loss, prediction = results[..., 0], results[..., 1:]
    for what, values in {"losses": loss, "predictions": prediction}.items():
        require_finite(values, f"{what} of task '{task}' with heads ablated", examples.example[rows], device)
    shape, exists = (len(rows), len(measures), -1), model.gates.exists
    increase = spread((loss[:, 1:] - loss[:, :1]).reshape(shape), exists)  # (rows, measures, layers, heads)
    by_value = np.moveaxis(prediction[:, 1:], -1, 0)
    predictions = np.moveaxis(spread(by_value.reshape(len(by_value), *shape), exists), 0, -1)
    if not several:
        prediction, predictions = prediction[..., 0], predictions[..., 0]
    return Ablated(
        loss[:, 0],
        prediction[:, 0],
        {measure: increase[:, i] for i, measure in enumerate(measures)},
        {measure: predictions[:, i] for i, measure in enumerate(measures)},
    )


def _batch_results(
    model: MultiTask,
    task: str,
    batch: Batch,
    passes: Resuming | Replacing,
    instead: Mapping[str, Mapping[int, torch.Tensor] | None],
) -> torch.Tensor:
    """Return losses and predictions, (batch, 1 + measures * existing heads, 1 + values), unablated first.

    `instead` maps measures to the replacements of each layer, (batch, 1, heads, size), or None for nothing.
    """

    def run() -> torch.Tensor:
        pooled = model.pool(batch)
        loss = model.losses(task, pooled, batch.labels)
        predicted = model.predictions(task, pooled, batch.labels)
        return torch.cat([loss[:, None], predicted.reshape(len(loss), -1)], dim=1)  # (batch, 1 + values)

    results = [passes.record(run)]
    for vectors in instead.values():
        by_row = None if vectors is None else vectors.__getitem__
        results += each_replaced(passes, run, model.gates.exists, by_row)
    return torch.stack(results, dim=1)


def heads_table(task: str, ablated: Ablated) -> pd.DataFrame:
    """Return means of the loss increases by fold, and of the sizes of `ablation`, in the schema `HEAD_FOLDS`.

    `ablated` must include the measure `ablation`.
    """
    values = ablated.increase | {SIZE: np.abs(ablated.increase[ABLATION])}
    return pd.concat([measure_folds(task, *measured) for measured in values.items()], ignore_index=True)


def predictions_table(task: str, examples: Examples, rows: np.ndarray, ablated: Ablated) -> pd.DataFrame:
    """Return predictions without ablation and with each head ablated in turn, in the schema `ABLATED`."""
    none = examples.predicted(task, ablated.prediction, rows=rows)
    frames = [none]  # without values of measure, layer and head
    for measure, predictions in ablated.predictions.items():
        for layer, head in np.argwhere(existing(ablated.increase[measure][0])).tolist():
            frame = examples.predicted(task, predictions[:, layer, head], rows=rows)  # (rows, [values])
            frames.append(frame.assign(measure=measure, layer=layer, head=head))
    return pd.concat(frames, ignore_index=True).astype({"layer": "Int32", "head": "Int32"})


@torch.no_grad()
def resample_ablation(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device
) -> np.ndarray:
    """Return the rise of the loss when a head's vectors come from another example, (n, layers, heads).

    Unlike zeros and means, these are context vectors that the head actually produces (Chan et al. 2022). The
    other example is half of `rows` further on, in their random order (`headspec.heads.closing.of_others`).
    Raises ModelError as `ablate`, NumericalError if a loss is not finite.
    """
    model.to(device.name).eval()
    other = np.zeros(len(examples), dtype=int)
    other[rows] = np.roll(rows, len(rows) // 2)

    def batch_values(batch: Batch) -> torch.Tensor:
        donors = examples.batch(other[batch.rows], device.name)
        instead = of_others(model, batch, donors, passes)

        def run() -> torch.Tensor:
            return model.losses(task, model.pool(batch), batch.labels)

        losses = [passes.record(run), *each_replaced(passes, run, model.gates.exists, instead)]
        return torch.stack(losses[1:], dim=1) - losses[0][:, None]  # (batch, heads)

    with ablating(model, task) as passes, device.cast():
        values = examples.values(batch_values, rows, device, None, task)
    require_finite(values, f"losses of task '{task}' with heads resampled", examples.example[rows], device)
    return spread(values, model.gates.exists)
