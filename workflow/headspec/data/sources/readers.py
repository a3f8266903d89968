"""Reading the stored columns of a task's source.

A source is ``package:<import name>/<path>`` (data in an installed package),
``hub:<owner>/<name>@<revision>`` (the Hugging Face hub) or a local path. A path is

- one table: Parquet, CSV (quoted as in RFC 4180), TSV (no quoting) or JSON lines, in UTF-8; or, of words,
  CoNLL-U or columns (`headspec.words.conll`);
- a folder with one such table per split, ``<split>.<ending>``;
- a folder with one subfolder of text files per class, read as columns ``text`` and ``label``.
"""

from __future__ import annotations

import csv
import functools
import hashlib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from headspec import digests
from headspec.config.sources import COMMIT, distribution, locate
from headspec.config.stage_settings import section
from headspec.config.task_types import pair_types
from headspec.errors import DataError, MissingError, listing, nearest
from headspec.words import conll

if TYPE_CHECKING:
    from headspec.config.sections.task import Task

#: ending of a table's file name: its format
FORMATS = {".parquet": "Parquet", ".csv": "CSV", ".tsv": "TSV", ".jsonl": "JSON lines", ".json": "JSON lines"}
INDEX = "idx"  # column with the row numbers of an unlabelled split, as in GLUE on the hub
BLOCK = 1 << 24  # bytes that pyarrow parses at a time; no row may be longer


def splits(task: Task, key: str) -> list[str]:
    """Names of the splits in the task's source; a single table is the training split."""
    if _is_hub(task):
        return list(hub_dataset(task.source, task.subset, f"{key}.source"))
    path = locate(str(task.source), f"{key}.source")
    return list(split_tables(path)) or [task.train_split]


def of_subset(task: Task, split: str) -> tuple[Task, str]:
    """Resolve ``<subset>/<split>`` of a hub data set into task and split; other splits are unchanged."""
    subset, slash, name = split.rpartition("/")
    return (section(vars(task), subset=subset), name) if slash and _is_hub(task) else (task, split)


def read(task: Task, key: str, split: str, labelled: bool = True) -> pd.DataFrame:
    """The columns of one split that the task uses, unconverted, one row per stored row.

    Parameters
    ----------
    task
        A task with a `source`.
    key
        Config key of the task, such as ``tasks.sentiment``, for errors.
    split
        One of `splits`.
    labelled
        If False, read the texts and the column idx, if present, without label and filter columns.

    Returns
    -------
    DataFrame
        The columns of texts, label and filter. Labels and filters of CSV and TSV files are strings; class
        indices of a hub data set become class names.

    Raises
    ------
    DataError
        Data are missing or unreadable, have no rows, or lack a column.
    """
    if _is_hub(task):
        frame = _read_hub(task, key, split, labelled)
    else:
        path = locate(str(task.source), f"{key}.source")
        tables = split_tables(path)
        if path.is_dir() and not tables:
            frame = _read_class_folders(path, task, key, labelled)
        else:
            file = tables[split] if tables else path
            texts = [column for column in (task.text_a, task.text_b) if column]
            columns = functools.partial(_columns, task, key, name=file.name, labelled=labelled)
            frame = table(file, f"{key}.source", columns, texts)
    if frame.empty:
        raise DataError(f"{key}.source: {name_of(task, split)} has no rows")
    return frame


def name_of(task: Task, split: str) -> str:
    """The name of a split in messages: a file, a folder, or the split of a hub data set."""
    if _is_hub(task):
        return f"{task.source} ({split})"
    path = locate(str(task.source), "source")
    return split_tables(path).get(split, path).name


def files(task: Task, *more: str) -> list[Path]:
    """The local files of the task's labelled splits and of the splits `more`.

    Empty for sources in packages and on the hub, and for pair tasks.
    """
    if task.source is None or task.source.startswith(("package:", "hub:")):
        return []
    return local_files(task, *more)


def local_files(task: Task, *more: str) -> list[Path]:
    """As `files`, also for a source in a package."""
    path = locate(str(task.source), "source")
    if path.is_file():
        return [path]
    names = [task.train_split, task.validation_split, *task.further.values(), *more]
    tables = [file for split, file in split_tables(path).items() if split in names]
    return tables or [file for _, file in _class_files(path)]


def version(source: str, paths: Iterable[Path] = ()) -> str:
    """Version of a source without local files, or "".

    It is the hub revision, or ``<distribution> <version>`` and a digest of the files `paths` of the package.
    """
    if source.startswith("package:"):
        contents = " ".join(map(digests.content, paths))
        digest = hashlib.sha256(contents.encode()).hexdigest()[:16] if contents else ""
        return ", ".join(filter(None, [distribution(source), digest]))
    return source.partition("@")[2] if source.startswith("hub:") else ""


def _is_hub(task: Task) -> bool:
    return str(task.source).startswith("hub:")


def split_tables(path: Path) -> dict[str, Path]:
    """Split name: its table, if `path` is a folder of tables; else empty."""
    if not path.is_dir():
        return {}
    endings = (*FORMATS, *conll.ENDINGS)
    return {file.stem: file for file in sorted(path.iterdir()) if file.suffix.lower() in endings}


def _columns(task: Task, key: str, present: Iterable[str], name: str, labelled: bool = True) -> list[str]:
    """The columns to read, all of which must be `present`."""
    present = list(present)
    wanted = [(f"{key}.text_a", task.text_a)]
    if task.text_b is not None:
        wanted.append((f"{key}.text_b", task.text_b))
    if labelled:
        labels = [task.label] if isinstance(task.label, str) else task.label
        labels = [] if task.type == pair_types.TEXTS else labels
        wanted += [(f"{key}.label", column) for column in labels]
        wanted += [(key, conll.LINE)] if conll.LINE in present else []
        wanted += [(f"{key}.filter", column) for column in task.filter]
    elif INDEX in present:
        wanted.append((key, INDEX))
    missing = [
        f"{where}: no column '{column}' in {name}; it has {listing(present)}.{nearest(column, present)}"
        for where, column in wanted
        if column not in present
    ]
    if missing:
        raise DataError("\n".join(missing))
    return list(dict.fromkeys(column for _, column in wanted))


def names(path: Path) -> list[str]:
    """The names of the columns of a table; of JSON lines, those of its first part."""
    if path.suffix.lower() == ".parquet":
        return pq.read_schema(path).names
    if path.suffix.lower() in (".csv", ".tsv"):
        return _header(path)
    if path.suffix.lower() in conll.ENDINGS:
        return conll.names(path, "source")
    with pa_json.open_json(path, read_options=pa_json.ReadOptions(block_size=BLOCK)) as stream:
        return stream.schema.names


def table(
    path: Path, key: str, columns: Callable[[list[str]], list[str]], inferred: Collection[str]
) -> pd.DataFrame:
    """Some columns of a table in any of `FORMATS`.

    Parameters
    ----------
    path
        The file.
    key
        Config key of the file, for errors.
    columns
        Maps the names of all columns to those to read; raises if one is missing.
    inferred
        Columns of CSV and TSV files whose type is inferred, to detect numbers in place of text. All other
        columns are read as text.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS and ending not in conll.ENDINGS:
        raise DataError(f"{key}: '{path.name}' is not a table; expected the ending {' or '.join(FORMATS)}")

    def chosen(present: list[str]) -> list[str]:
        wanted = columns(present)
        if repeated := [name for name in wanted if present.count(name) > 1]:
            raise DataError(f"{key}: {path.name} has several columns {listing(repeated)}; expected one each")
        return wanted

    if ending in conll.ENDINGS:
        return conll.read(path, key)[0][chosen(conll.names(path, key))]
    try:
        if ending == ".parquet":
            with pq.ParquetFile(path) as file:
                data = file.read(columns=chosen(file.schema_arrow.names))
        elif ending in (".csv", ".tsv"):
            data = _read_csv(path, chosen, inferred)
        else:
            data = pa_json.read_json(path, read_options=pa_json.ReadOptions(block_size=BLOCK))
            data = data.select(chosen(data.column_names))
        data.validate(full=True)  # text in Parquet need not be UTF-8
        data = data.cast(pa.schema([(field.name, _plain(field.type)) for field in data.schema]))
        # pandas would make an index of columns, and number rows from elsewhere than 1
        return data.to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError(f"{key}: {path.name} cannot be read as {FORMATS[ending]} ({reason})") from None


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type to read a column as: that of its values for categories, and of half precision a full one."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.float32() if pa.types.is_float16(kind) else kind


def _read_csv(path: Path, columns: Callable[[list[str]], list[str]], inferred: Collection[str]) -> pa.Table:
    tabs = path.suffix.lower() == ".tsv"
    header = _header(path)
    wanted = columns(header) if header else []
    return pa_csv.read_csv(
        path,
        pa_csv.ReadOptions(block_size=BLOCK),
        pa_csv.ParseOptions(
            delimiter="\t" if tabs else ",", quote_char=False if tabs else '"', newlines_in_values=not tabs
        ),
        pa_csv.ConvertOptions(
            include_columns=wanted, column_types={c: pa.string() for c in wanted if c not in inferred}
        ),
    )


def _header(path: Path) -> list[str]:
    """The names of the columns of a CSV or TSV file."""
    tabs = path.suffix.lower() == ".tsv"
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {}
    with open(path, encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file, **dialect), [])


def _class_files(path: Path) -> list[tuple[str, Path]]:
    """(class, file) for every text file in the subfolders of `path`, sorted by name."""
    folders = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith((".", "_")))
    return [
        (folder.name, file)
        for folder in folders
        for file in sorted(folder.iterdir())
        if file.is_file() and not file.name.startswith(".")
    ]


def _read_class_folders(path: Path, task: Task, key: str, labelled: bool) -> pd.DataFrame:
    items = _class_files(path)
    if not items:
        raise DataError(
            f"{key}.source: {path.name}/ has neither a table per split ({listing(FORMATS)}) "
            "nor a subfolder of text files per class"
        )
    where = f"{path.name}/ (a folder of text files per class)"
    names = _columns(task, key, ("text", "label"), where, labelled)
    texts = [file.read_text(encoding="utf-8", errors="replace").strip() for _, file in items]
    return pd.DataFrame({"text": texts, "label": [name for name, _ in items]}, dtype="str")[names]


@functools.cache
def hub_dataset(source: str, subset: str | None, key: str) -> Any:
    """All splits of a data set of the hub or its cache, as a ``DatasetDict``.

    Raises
    ------
    MissingError
        It is not in the cache, and the hub cannot be reached.
    DataError
        It cannot be loaded, or the source names a commit, and the cache has another.
    """
    import datasets

    name, _, revision = source.removeprefix("hub:").partition("@")
    try:  # by a bare name, `datasets` would prefer a folder of this name
        loaded = datasets.load_dataset(f"hf://datasets/{name}", subset, revision=revision or None)
    except ConnectionError:
        raise MissingError(
            f"{key}: '{source}' is not in the cache {datasets.config.HF_DATASETS_CACHE} (set by HF_HOME) and "
            "cannot be downloaded: no connection to the hub"
        ) from None
    except Exception as error:  # the errors of datasets have no common base class
        reason = str(error).split("\n")[0][:300]
        raise DataError(f"{key}: '{source}' cannot be loaded ({reason})") from None
    # without a connection, `datasets` takes the last commit that it has, whatever the revision
    commits = {Path(file["filename"]).parent.name for split in loaded.values() for file in split.cache_files}
    if COMMIT.fullmatch(revision) and (others := {*filter(COMMIT.fullmatch, commits)} - {revision}):
        raise DataError(
            f"{key}: '{source}' is not in the cache {datasets.config.HF_DATASETS_CACHE}, which has commit "
            f"{listing(sorted(others))}, and the hub does not answer; expected a connection"
        )
    return loaded


def _read_hub(task: Task, key: str, split: str, labelled: bool) -> pd.DataFrame:
    dataset = hub_dataset(task.source, task.subset, f"{key}.source")[split]
    names = _columns(task, key, dataset.column_names, name_of(task, split), labelled)
    dataset = dataset.select_columns(names)
    frame = dataset.to_pandas()
    for column, feature in dataset.features.items():
        if hasattr(feature, "names"):
            frame[column] = frame[column].map(dict(enumerate(feature.names)))
    return frame
