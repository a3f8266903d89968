"""Files of texts and labels in every format, and tasks and studies that read them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.data import splits, tasks_read
from headspec.errors import DataError

Files = dict[str, str | bytes]
#: endings of the names of tables
TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".json")


def texts(name: str, n: int = 20, start: int = 0) -> pd.DataFrame:
    """Texts with a name and a number, of two classes in turn."""
    numbers = range(start, start + n)
    return pd.DataFrame({"text": [f"{name} {i}" for i in numbers], "label": ["ab"[i % 2] for i in numbers]})


def parquet(table: pa.Table | None = None, **columns: Any) -> bytes:
    """A table, or one of these columns, as a file."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns) if table is None else table, sink)
    return sink.getvalue().to_pybytes()


def content(frame: pd.DataFrame, ending: str) -> bytes:
    """A table as a file with this ending; TSV has no quotes."""
    if ending == ".parquet":
        return frame.to_parquet()
    if ending == ".csv":
        return frame.to_csv(index=False).encode()
    if ending == ".tsv":
        lines = ["\t".join(map(str, row)) for row in [list(frame), *frame.itertuples(index=False)]]
        return ("\n".join(lines) + "\n").encode()
    return "".join(json.dumps(row) + "\n" for row in frame.to_dict("records")).encode()


def csv(name: str, n: int = 20) -> bytes:
    return content(texts(name, n), ".csv")


def conllu(*words: str) -> str:
    """Sentences of a noun each."""
    return "".join(f"1\t{word}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n" for word in words)


def written(folder: Path | str, files: Files) -> Path:
    (folder := Path(folder)).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def save(frame: pd.DataFrame, path: Path) -> Path:
    return written(path.parent, {path.name: content(frame, path.suffix)}) / path.name


def config(tasks: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """A config of these tasks, each of them learnt alone."""
    base = {"study": "s", "seeds": [0], "models": {"m": {"source": "m"}}}
    return base | {"tasks": tasks, "mixtures": {"single": [*tasks]}} | sections


def study(**tasks: Any) -> Study:
    return Study(**config(tasks))


def rows(source: Path | str, **settings: Any) -> dict[str, list[tuple[str, str]]]:
    """Text and label of each row, by split."""
    read = splits.read_labelled("t", Task(source=str(source), **settings))
    return {split: list(zip(frame["text_a"], frame["label"], strict=True)) for split, frame in read.items()}


def problem(source: Path | str, **settings: Any) -> str:
    """The message that refuses a source while planning."""
    with pytest.raises(DataError) as caught:
        tasks_read.prepare_tasks(study(t=Task(source=str(source), **settings)))
    return str(caught.value)


def warnings(source: Path | str, **settings: Any) -> list[str]:
    """What planning says of the task."""
    of_task = study(t=Task(source=str(source), **settings))
    lines = tasks_read.prepare_tasks(of_task).warnings(of_task)
    return [line for line in lines if line.startswith("tasks.t")]
