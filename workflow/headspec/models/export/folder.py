"""Export of a multi-task model without its closed heads, as a folder with an ONNX file."""

import contextlib
import json
import logging
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

from headspec import __version__, tables
from headspec.errors import ModelError, listing
from headspec.models.batching import Batch, Examples
from headspec.models.export.slicing import remove_heads
from headspec.models.multitask import MultiTask

#: size in bytes above which weights get their own file: protobuf is limited to 2 GB
LARGEST = 1_900_000_000
BATCH, COMPARED = 16, 64  # examples per batch, and examples per task whose logits are compared


class Logits(nn.Module):
    """A model as a function from tokens to the logits of all tasks."""

    def __init__(self, model: MultiTask) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Return logits of each task, (batch, classes), from ids and masks (batch, tokens)."""
        batch = Batch(input_ids, attention_mask, token_type_ids, labels=input_ids, rows=np.arange(0))
        pooled = self.model.pool(batch)
        return tuple(self.model.logits(task, pooled) for task in self.model.classes)


def check_onnx_installed() -> None:
    """Raise ModelError if a package for ONNX is missing."""
    missing = [name for name in ("onnx", "onnx_ir", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ModelError(
            f"exporting a model needs {listing(missing)}, not installed; pip install 'headspec[onnx]'"
        )


def onnx_inputs(batch: Batch) -> dict[str, torch.Tensor]:
    """Return the inputs of the ONNX file for a batch, (batch, tokens) each."""
    named = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    return named if batch.token_type_ids is None else named | {"token_type_ids": batch.token_type_ids}


def write_onnx(model: MultiTask, examples: Examples, path: Path) -> None:
    """Write the model to `path`, for any number and length of texts, with an output for each task.

    `examples` must not be empty: they show whether the model takes token types. ModelError if torch cannot
    express the encoder.
    """
    from onnx_ir.passes.common import DeduplicateInitializersPass

    model.eval().encoder.config.use_cache = False
    if hasattr(model.encoder.config, "num_experts_per_tok"):
        model.encoder.set_experts_implementation(
            "batched_mm"
        )  # others loop over the experts that a batch uses
    example = onnx_inputs(
        examples.batch(np.array([0, len(examples) - 1]))
    )  # two: exported with a batch of one, the size would be fixed
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    heavy = sum(p.numel() * p.element_size() for p in model.parameters()) > LARGEST
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # it warns about packages that are not used here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                Logits(model), tuple(example.values()), dynamo=True, verbose=False,
                input_names=list(example), output_names=list(model.classes),
                dynamic_shapes=dict.fromkeys(example, sizes),
            )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        model_type = model.encoder.config.model_type
        raise ModelError(f"this {model_type} cannot be expressed as ONNX: {error}") from None
    finally:
        logger.setLevel(level)
    assert program is not None  # None only if a file is named
    DeduplicateInitializersPass(sys.maxsize)(program.model)  # of shared layers (ALBERT)
    program.save(path, external_data=heavy)


def onnx_batches(examples: Examples) -> list[Batch]:
    """Return the first `COMPARED` examples of a task in padded batches."""
    rows = np.arange(min(len(examples), COMPARED))
    return [examples.batch(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]


@torch.no_grad()
def onnx_logits(model: MultiTask, texts: dict[str, Examples]) -> dict[str, np.ndarray]:
    """Return the gated model's logits for each task's first `COMPARED` examples, (n, classes) float32."""
    model.eval()
    return {
        task: torch.cat([model.logits(task, model.pool(batch)) for batch in onnx_batches(examples)]).numpy()
        for task, examples in texts.items()
    }


def opened_onnx(path: Path, threads: int = 0) -> Callable[[Batch], dict[str, np.ndarray]]:
    """Return a function from a batch to each task's logits, (batch, classes); 0 threads means all."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    tasks = [output.name for output in session.get_outputs()]

    def run(batch: Batch) -> dict[str, np.ndarray]:
        logits = session.run(tasks, {name: value.numpy() for name, value in onnx_inputs(batch).items()})
        return dict(zip(tasks, logits, strict=True))

    return run


def logit_difference(path: Path, texts: dict[str, Examples], expected: dict[str, np.ndarray]) -> float:
    """Return the largest absolute difference of the file's logits from `expected`, task: (n, classes).

    It is nan if any logit is.
    """
    run, largest = opened_onnx(path), []
    for task, examples in texts.items():
        logits = np.concatenate([run(batch)[task] for batch in onnx_batches(examples)])
        largest.append(np.abs(logits - expected[task]).max())
    return float(np.max(largest))


TOLERANCE = 1e-4  # for logits, in float32
CARD = """\
# {name}

A {model_type} with {n_kept} of its {n_heads} attention heads, for {tasks}; made by headspec {version}.

```python
import numpy, onnxruntime, tokenizers
texts = tokenizers.Tokenizer.from_file("tokenizer.json").encode_batch(["One text.", "Another one."])
names = {{"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}}
session = onnxruntime.InferenceSession("model.onnx")
inputs = {{i.name: numpy.array([getattr(t, names[i.name]) for t in texts]) for i in session.get_inputs()}}
print(session.run([{task!r}], inputs)[0])
```

This prints the logits of a task, a row for each text. A pair is `("One text.", "Another one.")`. \
`model.json` has the classes of each task in the order of its logits, and the heads that each layer kept.
"""


@contextlib.contextmanager
def complete(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, renamed to `folder` if the block ends without error, else deleted."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process
    temporary.mkdir(parents=True)
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def export(
    model: MultiTask,
    kept: np.ndarray,
    texts: dict[str, Examples],
    tokenizer: Tokenizer,
    about: dict[str, Any],
    folder: Path,
) -> float:
    """Write model.onnx, tokenizer.json, model.json and README.md of a model with only the heads `kept`.

    Returns the largest absolute difference between its logits on `texts` and those of the model with closed
    gates; README.md shows the first task. `model` loses its other heads and its gates; `kept` is bool
    (layers, heads); `tokenizer` truncates and pads; `about` has further entries of model.json. Raises
    ModelError, and leaves no `folder`, if the heads cannot be removed, the model cannot be
    expressed as ONNX, or its logits differ by more than `TOLERANCE`.
    """
    model.to("cpu").eval().gates.values = torch.from_numpy(kept).float()
    expected = onnx_logits(model, texts)
    model.gates.values = None
    model.encoder = remove_heads(model.encoder, model.gates.exists & ~kept)
    with complete(folder) as temporary:
        write_onnx(model, next(iter(texts.values())), temporary / "model.onnx")
        difference = logit_difference(temporary / "model.onnx", texts, expected)
        if not difference <= TOLERANCE:
            raise ModelError(
                f"{folder}: not written, because its logits differ by {difference:.1e} from those of the "
                f"model with closed gates; expected at most {TOLERANCE:.0e}"
            )
        tokenizer.save(str(temporary / "tokenizer.json"))
        compared = {"texts": sum(map(len, expected.values())), "largest_difference_of_logits": difference}
        layers = [np.flatnonzero(layer).tolist() for layer in kept]
        packages = {name: metadata.version(name) for name in ("onnx", "onnxscript", "onnxruntime")}
        versions = {"headspec": __version__, **tables.versions(), **packages}
        described = {"tasks": model.classes, "kept_heads": layers, **about, "compared": compared}
        described["versions"] = versions
        (temporary / "model.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
        card = CARD.format(
            name=folder.name, model_type=model.encoder.config.model_type, task=next(iter(texts)),
            n_kept=int(kept.sum()), n_heads=int(model.gates.exists.sum()),
            tasks=" and ".join(model.classes), version=__version__,
        )  # fmt: skip
        (temporary / "README.md").write_text(card, encoding="utf-8")
    return difference
