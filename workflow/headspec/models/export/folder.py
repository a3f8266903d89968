"""Export of a model without its closed heads, to a folder for use without headspec."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from headspec import tables
from headspec.errors import EncoderError
from headspec.models.batching import Examples
from headspec.models.export import onnx_file
from headspec.models.export.slicing import remove_heads
from headspec.models.multitask import MultiTask
from headspec.version import VERSION

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
    """Yield a temporary folder that is renamed to `folder` if the block ends without error, else deleted."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # from a killed process
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

    Returns the largest absolute difference of logits on `texts` from the model with closed gates; README.md
    shows the first task. `model` loses its other heads and its gates; `kept` is bool (layers, heads);
    `tokenizer` truncates and pads; `about` has more entries of model.json. Raises EncoderError, and leaves no
    `folder`, if the heads cannot be removed one by one, the model cannot be expressed as ONNX, or its logits
    differ by more than `TOLERANCE`.
    """
    model.to("cpu").eval().gates.values = torch.from_numpy(kept).float()
    expected = onnx_file.logits(model, texts)
    model.gates.values = None
    model.encoder = remove_heads(model.encoder, model.gates.exists & ~kept)
    with complete(folder) as temporary:
        onnx_file.write(model, next(iter(texts.values())), temporary / "model.onnx")
        difference = onnx_file.difference(temporary / "model.onnx", texts, expected)
        if not difference <= TOLERANCE:
            raise EncoderError(
                f"{folder}: not written, because its logits differ by {difference:.1e} from those of the "
                f"model with closed gates; expected at most {TOLERANCE:.0e}"
            )
        tokenizer.save(str(temporary / "tokenizer.json"))
        compared = {"texts": sum(map(len, expected.values())), "largest_difference_of_logits": difference}
        layers = [np.flatnonzero(layer).tolist() for layer in kept]
        packages = {name: metadata.version(name) for name in ("onnx", "onnxscript", "onnxruntime")}
        versions = {"headspec": VERSION, **tables.versions(), **packages}
        described = {"tasks": model.classes, "kept_heads": layers, **about, "compared": compared}
        described["versions"] = versions
        (temporary / "model.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
        card = CARD.format(
            name=folder.name, model_type=model.encoder.config.model_type, task=next(iter(texts)),
            n_kept=int(kept.sum()), n_heads=int(model.gates.exists.sum()),
            tasks=" and ".join(model.classes), version=VERSION,
        )  # fmt: skip
        (temporary / "README.md").write_text(card, encoding="utf-8")
    return difference
