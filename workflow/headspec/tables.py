"""The Parquet tables: fixed schemas, sorted rows, atomic writes, provenance in the footer."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headspec.errors import DataError

TEXT, INT, FLOAT, FLAG = pa.string(), pa.int32(), pa.float64(), pa.bool_()
RUN: dict[str, pa.DataType] = {"model": TEXT, "mixture": TEXT, "method": TEXT, "seed": INT}

#: table: (columns, the leading columns whose values identify and sort the rows)
SCHEMAS: dict[str, tuple[dict[str, pa.DataType], int]] = {
    # label: class name, or the score of a regression task as text
    "data": ({"example": INT, "text_a": TEXT, "text_b": TEXT, "label": TEXT}, 1),
    # of a test set, in its order; index: what its rows are called in prediction files
    "unlabelled": ({"example": INT, "index": INT, "text_a": TEXT, "text_b": TEXT}, 1),
    # label: class index or score; null in a test set
    "encoded": (
        {"example": INT, "label": FLOAT, "input_ids": pa.list_(INT),
         "token_type_ids": pa.list_(pa.int8())},
        1,
    ),
    "training": (
        {"step": INT, "epoch": INT, "task": TEXT, "loss": FLOAT, "learning_rate": FLOAT,
         "examples_per_second": FLOAT, "memory_mb": FLOAT},
        1,
    ),
    "importance": (
        {"task": TEXT, "fold": INT, "layer": INT, "head": INT, "importance": FLOAT, "n": INT,
         "fisher": FLOAT},
        4,
    ),
    "pruning": (
        {
            "pruned_for": TEXT, "order": TEXT, "fraction": FLOAT, "draw": INT, "n_pruned": INT,
            "task": TEXT, "metric": TEXT, "value": FLOAT, "n": INT,
        },
        7,
    ),
    # of top heads; pruned_for "none": fraction 0; label, prediction: class index or score
    "predictions": (
        {"pruned_for": TEXT, "fraction": FLOAT, "task": TEXT, "example": INT, "label": FLOAT,
         "prediction": FLOAT},
        4,
    ),
    # ci: over examples
    "dissociation": (
        RUN | {"fraction": FLOAT, "task": TEXT, "dissociation": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT,
               "p_value": FLOAT, "floor": FLAG, "p_holm": FLOAT, "metric": TEXT, "base": FLOAT},
        6,
    ),
    "mixtures": (
        RUN | {"mean_dissociation": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "case": TEXT,
               "distinct": FLAG, "floor": FLAG},
        4,
    ),
    # seeds combined, at the main fraction; task "mean" is the mean over the mixture's tasks; ci_over: what
    # the interval is over, "examples" (one or two seeds) or "seeds and examples"
    "combined": (
        {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "n_seeds": INT, "dissociation": FLOAT,
         "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT, "p_holm": FLOAT, "floor": FLAG,
         "case": TEXT, "distinct": FLAG},
        4,
    ),
    # the same at every fraction
    "fractions": (
        {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "fraction": FLOAT, "n_seeds": INT,
         "dissociation": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT,
         "floor": FLAG},
        5,
    ),
    # area: mean dissociation over all fractions from 0 to the largest
    "areas": (
        {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "n_seeds": INT, "area": FLOAT,
         "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT, "p_holm": FLOAT},
        4,
    ),
    # kind: split_half (seed_b null) or seeds; top_overlap: Jaccard of the two prune sets
    "reliability": (
        {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "kind": TEXT, "seed_a": INT,
         "seed_b": INT, "spearman": FLOAT, "top_overlap": FLOAT},
        7,
    ),
    # of a whole model, without pruning; label, prediction: class index or score
    "evaluation": ({"task": TEXT, "example": INT, "label": FLOAT, "prediction": FLOAT}, 2),
    # of test sets: class index or score; file: the prediction file that the rows are for
    "submission": ({"file": TEXT, "example": INT, "index": INT, "prediction": FLOAT}, 2),
    # heads: what a task's batches moved in the end of training; it, alpha, delta: null for plain training
    "iat": (
        {"model": TEXT, "mixture": TEXT, "method": TEXT, "sampling": TEXT, "seed": INT, "task": TEXT,
         "metric": TEXT, "value": FLOAT, "heads": TEXT, "alpha": FLOAT, "delta": FLOAT},
        7,
    ),
    # the first m places of a draw are its m samples
    "draws": ({"draw": INT, "place": INT, "example": INT}, 2),
    # of one encoder and task; chance: the best constant prediction
    "transferred": (
        {"tuning": TEXT, "samples": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT},
        4,
    ),
    # of all; mixture: what the encoder learnt, for method single a task, for pretrained "none"
    "transfer": (
        {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "tuning": TEXT, "samples": INT,
         "seed": INT, "draw": INT, "metric": TEXT, "value": FLOAT, "chance": FLOAT},
        9,
    ),
    # means over seeds and draws, and their difference to method tuned; source: what the encoder learnt,
    # for method single a task of the mixture, or "mean" of them; ci_over, of both intervals: "draws" or
    # "seeds and draws"
    "transfer_summary": (
        {"model": TEXT, "task": TEXT, "mixture": TEXT, "method": TEXT, "source": TEXT, "tuning": TEXT,
         "samples": INT, "metric": TEXT, "n_seeds": INT, "n_draws": INT, "value": FLOAT, "ci_low": FLOAT,
         "ci_high": FLOAT, "difference": FLOAT, "difference_low": FLOAT, "difference_high": FLOAT,
         "ci_over": TEXT, "chance": FLOAT},
        8,
    ),
    # against: what a method is compared with, null for plain training; task and metric "mean": the mean over
    # tasks of the mean over metrics; ci_over: "examples" or "seeds and examples"
    "improvement": (
        {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "metric": TEXT, "against": TEXT,
         "sampling": TEXT, "heads": TEXT, "alpha": FLOAT, "delta": FLOAT, "n_seeds": INT, "value": FLOAT,
         "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "p_value": FLOAT,
         "p_holm": FLOAT},
        5,
    ),
    # dissociation before and after IAT; task "mean" is the mean over the mixture's tasks
    "specialization": (
        {"model": TEXT, "mixture": TEXT, "task": TEXT, "n_seeds": INT, "before": FLOAT, "after": FLOAT,
         "difference": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "ci_over": TEXT, "floor": FLAG},
        3,
    ),
    # task: whose validation text the sentence is; null for the user's own
    "probe": ({"example": INT, "text": TEXT, "task": TEXT}, 1),
    # in the order of presentation
    "stimuli": ({"example": INT, "stimulus_id": TEXT, "text": TEXT, "passage": TEXT}, 1),
    # example: row of the stimuli; nuisance: one value for each regressor of the config
    "nuisance": ({"example": INT, "nuisance": pa.list_(FLOAT)}, 1),
    # example: row of the probe or the stimuli; null for a mean over texts
    "representations": ({"task": TEXT, "example": INT, "vector": pa.list_(pa.float32())}, 2),
    # reliability: r of the prediction from the other subjects' responses, within the training part of the
    # fold; ceiling: the same on its held-out part; both null where there is one subject
    "voxels": (
        {"subject": TEXT, "voxel": INT, "fold": INT, "reliability": FLOAT, "selected": FLAG,
         "ceiling": FLOAT},
        3,
    ),
    # r: mean over the folds in which the voxel is selected, and their number
    "encoding": (
        {"task": TEXT, "subject": TEXT, "voxel": INT, "r": FLOAT, "ceiling": FLOAT, "n_folds": INT},
        3,
    ),
    # r, ceiling: means over voxels; p_value: whether ridge with one penalty predicts the voxels at all,
    # against circular shifts of the stimuli, whatever the regression of r
    "encoding_summary": (
        {"task": TEXT, "subject": TEXT, "n_voxels": INT, "r": FLOAT, "ceiling": FLOAT, "p_value": FLOAT},
        2,
    ),
    "parameters": ({"measure": TEXT, "task_a": TEXT, "task_b": TEXT, "similarity": FLOAT}, 3),
    # mean over seeds (between_seeds: their standard deviation); subject null: mean over subjects, and its
    # interval
    "similarity": (
        {"model": TEXT, "measure": TEXT, "task_a": TEXT, "task_b": TEXT, "subject": TEXT, "similarity": FLOAT,
         "between_seeds": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT},
        5,
    ),
    # dissociation against similarity over pairs of tasks; partial: input paradigm held constant; slope and
    # intercept of all models pooled: of standardised values
    "correlation": (
        {"model": TEXT, "measure": TEXT, "n_pairs": INT, "pearson_r": FLOAT, "spearman_r": FLOAT,
         "slope": FLOAT, "intercept": FLOAT, "p_pearson": FLOAT, "p_mantel": FLOAT, "p_spearman": FLOAT,
         "p_mantel_spearman": FLOAT, "partial_r": FLOAT, "p_partial": FLOAT, "permutations": INT,
         "exact": FLAG},
        2,
    ),
}  # fmt: skip


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path` that becomes `path` when the block ends without error.

    Whoever reads `path`, after whatever interruption, reads all of it or finds it absent.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not _alive(int(left.suffixes[-2][1:])):  # its writer was killed
            left.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def provenance(study: str, settings: Any, **more: Any) -> dict[str, Any]:
    """What made a table: study, hash of the settings the stage read, package versions.

    `more` adds what the stage knows (device, seed, precision, counts). No time of day and no
    machine name: equal inputs give equal bytes.
    """
    versions = {}
    for package in ("torch", "transformers", "numpy", "pandas", "pyarrow", "scipy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    text = json.dumps(settings, sort_keys=True, default=str)
    return {
        "study": study,
        "settings": hashlib.sha256(text.encode()).hexdigest()[:16],
        "versions": versions,
        **more,
    }


def write(path: str | Path, name: str, frame: pd.DataFrame, footer: dict[str, Any]) -> None:
    """Write `frame` as the table `name` of `SCHEMAS`, sorted, atomically, with `footer`."""
    columns, keys = SCHEMAS[name]
    frame = frame[list(columns)].sort_values(list(columns)[:keys], kind="stable", na_position="first")
    schema = pa.schema(list(columns.items()), metadata={"headspec": json.dumps(footer, sort_keys=True)})
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    table = table.replace_schema_metadata(schema.metadata)  # without what pandas adds
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=3)


def read(path: str | Path) -> pd.DataFrame:
    """A table that `write` wrote."""
    try:
        return pq.read_table(path).to_pandas()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet table ({error})") from None


def footer(path: str | Path) -> dict[str, Any]:
    """The provenance that `write` put into a table's footer."""
    return json.loads(pq.read_schema(path).metadata[b"headspec"])
