"""Prediction files for the test server of GLUE (Wang et al. 2019, https://gluebenchmark.com/faq).

A zip of one table for each test set, `<name>.tsv`: the header ``index<tab>prediction`` and a row for
each example. MNLI, the diagnostics (AX), QNLI and RTE have class names, STS-B a score from 0 to 5 (the
server refuses others), the rest class numbers. The format is also that of the formatter in nyu-mll/jiant
(pull request 134 of jiant-dev); numbers of rows are those of the card of nyu-mll/glue on the hub.

The server wants all files. WNLI, on which no one trains, is then its majority class, as with
Devlin et al. (2019).
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from headspec.errors import DataError, listing
from headspec.tables import FLOAT, INT, TEXT, Schema, atomic, inscription

# of test sets: class index or score; file: the prediction file that the rows are for
SUBMISSION = Schema({"file": TEXT, "example": INT, "index": INT, "prediction": FLOAT}, keys=2)

LOWEST, HIGHEST = 0, 5  # scores of STS-B
ARCHIVE = "submission.zip"


@dataclass(frozen=True)
class Format:
    """What a prediction file holds.

    Attributes
    ----------
    rows : examples of the test set
    classes : class names; none for scores
    numbered : whether it has the classes' numbers, in that order, instead of their names
    """

    rows: int
    classes: tuple[str, ...] = ()
    numbered: bool = False

    def problem(self, kind: str, classes: list[str] | None) -> str:
        """What is wrong with the type and classes of a task that is to fill it: key and words, or nothing."""
        wanted = "classification" if self.classes else "regression"
        if kind != wanted:
            return f"type: got {kind}, expected {wanted}"
        same = classes == list(self.classes) if self.numbered else set(classes or ()) == set(self.classes)
        if self.classes and not same:
            wanted = listing(self.classes) + " in this order" * self.numbered
            return f"labels: got {listing(classes or ())}, expected the classes {wanted}"
        return ""


NLI = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
FILES = {
    "CoLA": Format(1063, ("unacceptable", "acceptable"), numbered=True),
    "SST-2": Format(1821, ("negative", "positive"), numbered=True),
    "MRPC": Format(1725, ("not_equivalent", "equivalent"), numbered=True),
    "STS-B": Format(1379),
    "QQP": Format(390965, ("not_duplicate", "duplicate"), numbered=True),
    "MNLI-m": Format(9796, NLI),
    "MNLI-mm": Format(9847, NLI),
    "QNLI": Format(5463, ENTAILMENT),
    "RTE": Format(3000, ENTAILMENT),
    "WNLI": Format(146, ("not_entailment", "entailment"), numbered=True),
    "AX": Format(1104, NLI),
}


def written(files: list[str]) -> list[str]:
    """The files that are written where tasks fill `files`: those, and WNLI."""
    return [name for name in FILES if name in files or name == "WNLI"]


def answers(file: str, predictions: np.ndarray, classes: list[str] | None) -> list[str]:
    """Predictions as `file` has them.

    Parameters
    ----------
    predictions : (n,), class indices or scores
    classes : the task's class names in order of their index; None for scores

    Raises
    ------
    DataError
        The classes are not those of the file, or a score is no number.
    """
    form = FILES[file]
    if problem := form.problem("classification" if classes else "regression", classes):
        raise DataError(f"{file}: {problem}")
    if lost := int(np.isnan(predictions).sum()):
        raise DataError(f"{file}: {lost} of {len(predictions)} predictions are no number")
    if not classes:
        return [f"{score:.3f}" for score in np.clip(predictions, LOWEST, HIGHEST)]
    found = predictions.astype(int)
    return [str(i) if form.numbered else classes[i] for i in found]


def warnings(rows: Mapping[Any, int]) -> list[str]:
    """What the server will not like about files with so many `rows`."""
    found = [
        f"{file}: {n} rows, but the server's test set has {FILES[file].rows}"
        for file, n in rows.items()
        if n != FILES[file].rows
    ]
    missing = [file for file in FILES if file not in written(list(rows))]
    return found + ([f"the server also wants {listing(missing)}"] if missing else [])


def write(
    folder: str | Path,
    predictions: pd.DataFrame,
    classes: dict[str, list[str] | None],
    record: dict[str, Any] | None = None,
) -> None:
    """Every file that `predictions` fill, that of WNLI, and `ARCHIVE` of them; equal bytes for equal rows.

    Parameters
    ----------
    predictions : the table `submission`, or several, of different files
    classes : file: class names in order of their index, or None
    record : the job that writes them (`tables.record`), for the archive's comment
    """
    folder = Path(folder)
    texts = {}
    for name in written(list(classes)):
        if name in classes:
            own = predictions[predictions["file"] == name].sort_values("example")
            index, values = own["index"], answers(name, own["prediction"].to_numpy(), classes[name])
        else:
            index, values = pd.Series(range(FILES[name].rows)), ["0"] * FILES[name].rows
        lines = [f"{i}\t{value}" for i, value in zip(index, values, strict=True)]
        texts[f"{name}.tsv"] = "\n".join(["index\tprediction", *lines]) + "\n"
    for name, text in texts.items():
        with atomic(folder / name) as path:
            path.write_text(text, encoding="utf-8", newline="\n")
    with atomic(folder / ARCHIVE) as path, zipfile.ZipFile(path, "w") as archive:
        archive.comment = inscription(record).encode() if record else b""
        for name, text in texts.items():
            entry = zipfile.ZipInfo(name)  # dated 1980
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
