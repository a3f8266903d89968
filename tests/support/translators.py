"""Tiny random encoder-decoders that translate, and sentences for them."""

from pathlib import Path

import pandas as pd

from headspec.config.sections.model import Model
from headspec.models import tokenization, vocabulary
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.tasks.kinds.translation.encoding import ENCODING
from support.models import LANGUAGES, TEXTS

PAIRS = [(text, " ".join(reversed(text.split()))) for text in TEXTS[:60]]
PAIRS[1] = "tree", "moss near the tree"  # sides of other lengths
SENTENCES = [text for pair in PAIRS for text in pair]
#: a model that a config describes, whose vocabulary is made of `SENTENCES`
DESCRIBED = "described"


def classes(name: str) -> dict:
    """`Classes` of a task for a model of `support.models.TRANSLATORS`, before it is tokenized."""
    source, target = (LANGUAGES | {DESCRIBED: (None, "fr")}).get(name, (None, None))
    return {"type": "translation", "prefix": None, "source_language": source, "target_language": target}


def translator(folder: Path | None, name: str, n: int = 8) -> tuple[MultiTask, Examples]:
    """The model in a folder, or the described one, with the task `a`, and `n` examples of it."""
    if name == DESCRIBED:
        sizes = {"layers": 2, "heads": 4, "hidden": 32, "vocabulary": 48}
        settings = Model(transformer=sizes, max_length=16)
        tokenizer = vocabulary.tokenizer(vocabulary.pieces(SENTENCES, 48, ["de", "fr"], "k"))
    else:
        settings = Model(source=str(folder), max_length=16)
        tokenizer = tokenization.tokenizer(settings, "m")
    task = ENCODING.completed(tokenizer, classes(name), 16, "tasks.a")
    texts, targets = zip(*PAIRS[:n], strict=True)
    table = pd.DataFrame({"example": range(n), "text_a": texts, "text_b": None, "label": targets})
    frame, _ = tokenization.encode(tokenizer, table, 16, task)
    model = MultiTask.pretrained(settings, "m", {"a": task}, tokenizer=tokenizer).eval()
    return model, Examples.for_task(frame, task)


def write_corpus(path: Path, count: int) -> None:
    """Sentences in the column `en`, the same again in `same`, and their words backwards in `back`."""
    texts = list(dict.fromkeys(TEXTS))[:count]
    back = [" ".join(reversed(text.split())) for text in texts]
    pd.DataFrame({"en": texts, "same": texts, "back": back}).to_csv(path, sep="\t", index=False)
