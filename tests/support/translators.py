"""Tiny random encoder-decoders that translate, and sentences for them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from headspec.config.sections.model import Model
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.models.tokens import tokenization
from headspec.tasks.translation.tokens import ENCODING
from support.models import LANGUAGES, TEXTS

PAIRS = [(text, " ".join(reversed(text.split()))) for text in TEXTS[:60]]
PAIRS[1] = "tree", "moss near the tree"  # sides of other lengths


def classes(name: str) -> dict:
    """`Classes` of a task for a model of `support.models.TRANSLATORS`, before it is tokenized."""
    source, target = LANGUAGES.get(name, (None, None))
    return {"type": "translation", "prefix": None, "source_language": source, "target_language": target}


def translator(folder: Path, name: str, n: int = 8) -> tuple[MultiTask, Examples]:
    """The model in a folder with the task `a`, and `n` examples of it."""
    settings = Model(source=str(folder), max_length=16)
    tokenizer = tokenization.tokenizer(settings, "m")
    task = ENCODING.completed(tokenizer, classes(name), 16, "tasks.a")
    texts, targets = zip(*PAIRS[:n], strict=True)
    table = pd.DataFrame({"example": range(n), "text_a": texts, "text_b": None, "label": targets})
    frame, _ = tokenization.encode(tokenizer, table, 16, task)
    encoder, pooling = encoders.load(settings, "m")
    model = MultiTask(encoder, pooling, {"a": task}, tokenizer=tokenizer).eval()
    return model, Examples.for_task(frame, task)


def write_corpus(path: Path, count: int) -> None:
    """Sentences in the column `en`, the same again in `same`, and their words backwards in `back`."""
    texts = list(dict.fromkeys(TEXTS))[:count]
    back = [" ".join(reversed(text.split())) for text in texts]
    pd.DataFrame({"en": texts, "same": texts, "back": back}).to_csv(path, sep="\t", index=False)
