"""A multi-task model as an ONNX file, and the difference of its logits."""

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

#: bytes above which weights get their own file: protobuf is limited to 2 GB
LARGEST = 1_900_000_000
BATCH, COMPARED = 16, 64  # examples per batch, and examples per task whose logits are compared


class Logits(nn.Module):
    """A model as a function of tokens that returns the logits of all tasks."""

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
    """Raise EncoderError if a package for ONNX is missing."""
    missing = [name for name in ("onnx", "onnx_ir", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise EncoderError(
            f"exporting a model needs {listing(missing)}, not installed; pip install 'headspec[onnx]'"
        )


def inputs(batch: Batch) -> dict[str, torch.Tensor]:
    """Return the inputs of the file for a batch, (batch, tokens) each."""
    named = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    return named if batch.token_type_ids is None else named | {"token_type_ids": batch.token_type_ids}


def write(model: MultiTask, examples: Examples, path: Path) -> None:
    """Write the model to `path`, for any number and length of texts, with an output for each task.

    At least one of `examples` shows if it takes token types. EncoderError if torch cannot express the
    encoder.
    """
    from onnx_ir.passes.common import DeduplicateInitializersPass

    model.eval().encoder.config.use_cache = False
    if hasattr(model.encoder.config, "num_experts_per_tok"):
        model.encoder.set_experts_implementation("batched_mm")  # others loop over experts that a batch needs
    example = inputs(examples.batch(np.array([0, len(examples) - 1])))  # two: a batch of one stays one
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    heavy = sum(p.numel() * p.element_size() for p in model.parameters()) > LARGEST
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # it warns of packages that are not used here
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
    assert program is not None  # it exists if no file is named
    DeduplicateInitializersPass(sys.maxsize)(program.model)  # of shared layers (ALBERT)
    program.save(path, external_data=heavy)


def batches(examples: Examples) -> list[Batch]:
    """Return the first examples of a task, in padded batches."""
    rows = np.arange(min(len(examples), COMPARED))
    return [examples.batch(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]


@torch.no_grad()
def logits(model: MultiTask, texts: dict[str, Examples]) -> dict[str, np.ndarray]:
    """Return logits of each task's first examples by the model with its gates, (n, classes) float32."""
    model.eval()
    return {
        task: torch.cat([model.logits(task, model.pool(batch)) for batch in batches(examples)]).numpy()
        for task, examples in texts.items()
    }


def opened(path: Path, threads: int = 0) -> Callable[[Batch], dict[str, np.ndarray]]:
    """Open the file in onnxruntime, as a function from a batch to each task's logits; 0 threads: all."""
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
    """Return the largest absolute difference of the file's logits from `expected` ones."""
    run, largest = opened(path), 0.0
    for task, examples in texts.items():
        found = np.concatenate([run(batch)[task] for batch in batches(examples)])
        largest = max(largest, float(np.abs(found - expected[task]).max()))
    return largest
