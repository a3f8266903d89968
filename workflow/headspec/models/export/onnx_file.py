"""A multi-task model as an ONNX file, and how far its logits are from given ones."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

from headspec.errors import EncoderError, listing
from headspec.models.batching import Batch, Examples
from headspec.models.multitask import MultiTask

#: bytes of weights above which they are in a file of their own: protobuf ends at 2 GB
LARGEST = 1_900_000_000
BATCH = 16  # examples of a batch
#: examples of a task whose logits are compared
COMPARED = 64


class Logits(nn.Module):
    """A model as a function of tokens, to the logits of all its tasks."""

    def __init__(self, model: MultiTask) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        batch = Batch(input_ids, attention_mask, token_type_ids, labels=input_ids, rows=np.arange(0))
        pooled = self.model.pool(batch)
        return tuple(self.model.logits(task, pooled) for task in self.model.classes)


def installed() -> None:
    """EncoderError if a package that this needs is not there."""
    missing = [name for name in ("onnx", "onnx_ir", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise EncoderError(
            f"exporting a model needs {listing(missing)}, not installed; pip install 'headspec[onnx]'"
        )


def inputs(batch: Batch) -> dict[str, torch.Tensor]:
    """The inputs of the file for a batch, (batch, tokens) each."""
    named = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    return named if batch.token_type_ids is None else named | {"token_type_ids": batch.token_type_ids}


def write(model: MultiTask, examples: Examples, path: Path) -> None:
    """Write the model to `path`: inputs of any number and length of texts, an output for each task.

    Parameters
    ----------
    examples : some of the model's, at least one; they say whether it takes token types

    Raises
    ------
    EncoderError
        torch cannot express this encoder as ONNX.
    """
    from onnx_ir.passes.common import DeduplicateInitializersPass

    model.eval().encoder.config.use_cache = False
    if hasattr(model.encoder.config, "num_experts_per_tok"):
        model.encoder.set_experts_implementation("batched_mm")  # others loop over what a batch needs
    example = inputs(examples.batch(np.array([0, len(examples) - 1])))  # two: a batch of one stays one
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    heavy = sum(p.numel() * p.element_size() for p in model.parameters()) > LARGEST
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # it warns of packages that nothing here uses
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                Logits(model), tuple(example.values()), dynamo=True, verbose=False,
                input_names=list(example), output_names=list(model.classes),
                dynamic_shapes=dict.fromkeys(example, sizes),
            )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        kind = model.encoder.config.model_type
        raise EncoderError(f"this {kind} cannot be expressed as ONNX: {error}") from None
    finally:
        logger.setLevel(level)
    assert program is not None  # it is where no file is named
    DeduplicateInitializersPass(sys.maxsize)(program.model)  # what layers share (ALBERT)
    program.save(path, external_data=heavy)


def batches(examples: Examples) -> list[Batch]:
    """The first examples of a task, in padded batches."""
    rows = np.arange(min(len(examples), COMPARED))
    return [examples.batch(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]


@torch.no_grad()
def logits(model: MultiTask, texts: dict[str, Examples]) -> dict[str, np.ndarray]:
    """Task: logits of its first examples by the model with its gates as they are, (n, classes) float32."""
    model.eval()
    return {
        task: torch.cat([model.logits(task, model.pool(batch)) for batch in batches(examples)]).numpy()
        for task, examples in texts.items()
    }


def opened(path: Path, threads: int = 0) -> Callable[[Batch], dict[str, np.ndarray]]:
    """What the file computes in onnxruntime: task: logits of a batch, (batch, classes).

    Parameters
    ----------
    threads : 0 for as many as there are cores
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    tasks = [output.name for output in session.get_outputs()]

    def run(batch: Batch) -> dict[str, np.ndarray]:
        found = session.run(tasks, {name: value.numpy() for name, value in inputs(batch).items()})
        return dict(zip(tasks, found, strict=True))

    return run


def difference(path: Path, texts: dict[str, Examples], expected: dict[str, np.ndarray]) -> float:
    """The largest absolute difference of the file's logits from those `expected`, of all tasks."""
    run, largest = opened(path), 0.0
    for task, examples in texts.items():
        found = np.concatenate([run(batch)[task] for batch in batches(examples)])
        largest = max(largest, float(np.abs(found - expected[task]).max()))
    return largest
