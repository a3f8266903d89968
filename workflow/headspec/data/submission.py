"""Prediction files for the test server of GLUE (Wang et al. 2019, https://gluebenchmark.com/faq).

A submission is a zip with `<name>.tsv` for each test set: the header ``index<tab>prediction`` and one row
per example. Predictions are class names for MNLI, the diagnostics (AX), QNLI and RTE, a score from 0 to 5
for STS-B, and class numbers for the rest (formatter of nyu-mll/jiant, pull request 134 of jiant-dev). The
server needs all files; WNLI gets its majority class (Devlin et al. 2019), because no task trains on it.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from headspec.config.glue import FILES
from headspec.errors import DataError, listing
from headspec.provenance import files
from headspec.provenance.files import atomic
from headspec.tables import FLOAT, INT, TEXT, Schema, record_text
from headspec.tasks.parts import type_of

SUBMISSION = Schema(
    {"file": TEXT, "example": INT, "index": INT, "prediction": FLOAT},
    keys=2,
    row="example of a test set",
    paths=("{run}/submission.parquet",),
    about={
        "file": "prediction file",
    },
)

LOWEST, HIGHEST = 0, 5  # scores of STS-B
ARCHIVE = "submission.zip"


def written(files: list[str]) -> list[str]:
    """Return all files to write, given the `files` of tasks: these and WNLI."""
    return [name for name in FILES if name in files or name == "WNLI"]


def answers(file: str, predictions: np.ndarray, classes: list[str] | None) -> list[str]:
    """Format predictions for `file`: indices of `classes`, names in order, or scores, (n,).

    Raises DataError if the file needs other classes, or a prediction is nan.
    """
    file_format = FILES[file]
    if problem := file_format.problem(type_of(classes), classes):
        raise DataError(f"{file}: {problem}")
    if missing := int(np.isnan(predictions).sum()):
        raise DataError(f"{file}: {missing} of {len(predictions)} predictions are nan")
    if not classes:
        return [f"{score:.3f}" for score in np.clip(predictions, LOWEST, HIGHEST)]
    return [str(i) if file_format.numbered else classes[i] for i in predictions.astype(int)]


def warnings(rows: Mapping[Any, int]) -> list[str]:
    """Return reasons why the server would reject the files, from the number of rows in each."""
    wrong = [
        f"{file}: {n} rows, but the server's test set has {FILES[file].rows}"
        for file, n in rows.items()
        if n != FILES[file].rows
    ]
    missing = [file for file in FILES if file not in written(list(rows))]
    return wrong + ([f"the server also needs {listing(missing)}"] if missing else [])


def write(
    folder: str | Path,
    predictions: pd.DataFrame,
    classes: dict[str, list[str] | None],
    record: dict[str, Any] | None = None,
) -> None:
    """Write the prediction files, including WNLI, and the zip `ARCHIVE`, byte for byte reproducible.

    `predictions` has rows of the table `submission`; `record` is the job's, for the archive's comment.
    """
    folder = Path(folder)
    texts = {}
    for name in written(list(classes)):
        if name in classes:
            rows = predictions[predictions["file"] == name].sort_values("example")
            index, values = rows["index"], answers(name, rows["prediction"].to_numpy(), classes[name])
        else:
            index, values = pd.Series(range(FILES[name].rows)), ["0"] * FILES[name].rows
        lines = [f"{i}\t{value}" for i, value in zip(index, values, strict=True)]
        texts[f"{name}.tsv"] = "\n".join(["index\tprediction", *lines]) + "\n"
    for name, text in texts.items():
        with atomic(folder / name) as path:
            path.write_text(text, encoding="utf-8", newline="\n")
    with atomic(folder / ARCHIVE) as path:
        with zipfile.ZipFile(path, "w") as archive:
            archive.comment = f"{record_text(record) if record else ''} {files.PLACEHOLDER}".encode()
            for name, text in texts.items():
                entry = zipfile.ZipInfo(name)  # ZipInfo defaults to a fixed date, 1980
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
        files.embed_sha256(path)
