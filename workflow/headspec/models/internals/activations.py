"""Attention weights, one layer at a time, and text vectors of an unmodified model."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from headspec.errors import ModelError
from headspec.models.attention.gating import Receiver
from headspec.models.attention.interface import evaluating, unfused
from headspec.models.attention.placement import device_of
from headspec.models.attention.sites import Site
from headspec.models.batching import Examples
from headspec.models.devices import Device, require_finite
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.tables import INT, TEXT, Schema


@contextmanager
def attention_maps(gates: HeadGates, receive: Receiver) -> Iterator[None]:
    """Pass every row's attention weights to `receive` during forward passes within the block.

    Weights are taken after the softmax: a token's weights sum to 1, and padding has weight 0; the weights of
    padding itself mean nothing. The model runs without dropout, and unfused, because fused attention has no
    weights. Types that compute attention themselves return weights only with `output_attentions`; hooks take
    them out of the outputs of modules, so that the model does not collect those of all layers. ModelError, at
    the forward pass, if the model does not return its weights.
    """
    model: Any = gates.model
    first = device_of(model)  # layers may be on several devices
    own = [site for site in gates.sites if site.own]

    def take(site: Site, module: Any, args: tuple[Any, ...], output: Any) -> Any:
        index = next((i for i, part in enumerate(output) if _is_map(part, site)), None)
        if index is None:
            raise ModelError(
                f"the attention of this {model.config.model_type} cannot be captured: no weights"
            )
        receive(site.rows[0], output[index].to(first))
        return type(output)([*output[:index], None, *output[index + 1 :]])

    def asked(
        module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs | {"output_attentions": True}

    with ExitStack() as stack:
        for site in own:
            # before the hooks of transformers, which collect the weights of all layers
            hook = site.attention.register_forward_hook(functools.partial(take, site), prepend=True)
            stack.callback(hook.remove)
        if own:
            stack.callback(model.register_forward_pre_hook(asked, with_kwargs=True).remove)
        stack.enter_context(unfused(model))
        stack.enter_context(evaluating(model))
        stack.enter_context(gates.received(lambda row, weights: receive(row, weights.to(first))))
        yield


def _is_map(output: Any, site: Site) -> bool:
    """Return whether an output of attention is (batch, heads, tokens, tokens)."""
    return isinstance(output, torch.Tensor) and output.dim() == 4 and output.shape[1] == site.heads


REPRESENTATIONS = Schema(
    {"task": TEXT, "example": INT, "vector": pa.list_(pa.float32())},
    keys=2,
    row="text",
    paths=(
        "features/{model}/{task}.parquet",
        "similarity/{model}/text.parquet",
        "similarity/{model}/seed{seed}/sentences.parquet",
        "similarity/{model}/seed{seed}/stimuli.parquet",
    ),
    about={
        "task": "task whose text it is, or whose model made the vector",
        "example": "example, sentence or stimulus; null for a mean over texts",
        "vector": "as wide as the model",
    },
)


@torch.no_grad()
def vectors(
    model: MultiTask,
    task: str,
    examples: Examples,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return the text vectors that classifiers read, (n, hidden) float32; NumericalError if not finite."""
    model.to(device.name).eval()
    with device.cast():
        values = examples.values(lambda batch: model.vectors(batch).float(), rows, device, progress)
    require_finite(values, f"vectors of texts, task '{task}'", examples.example[rows], device)
    return values


def representations(
    models: Iterable[tuple[str, MultiTask]], texts: Examples, device: Device, n_models: int = 1
) -> pd.DataFrame:
    """Return a table 'representations': vectors of the same texts by the model of each task in turn."""
    progress, rows = Progress(n_models * len(texts), "texts"), np.arange(len(texts))
    frames = []
    for task, model in models:
        values = vectors(model, task, texts, rows, device, progress)
        frames.append(pd.DataFrame({"task": task, "example": texts.example, "vector": list(values)}))
    return pd.concat(frames, ignore_index=True)


def task_means(
    model: MultiTask, examples: Mapping[str, Examples], rows: Mapping[str, np.ndarray], device: Device
) -> pd.DataFrame:
    """Return a table 'representations' of mean vectors of each task's `rows` (TextEmb of Vu et al. 2020)."""
    progress = Progress(sum(map(len, rows.values())), "texts")
    by_task = (vectors(model, task, examples[task], some, device, progress) for task, some in rows.items())
    means = [values.mean(axis=0, dtype=float) for values in by_task]  # (hidden,) each
    return pd.DataFrame({"task": list(rows), "example": None, "vector": means}).astype({"example": "Int32"})
