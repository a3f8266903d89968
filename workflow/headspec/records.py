"""Results that record which job and which package versions made them.

Snakemake keeps the parameters and inputs of every output in `.snakemake`. Where that folder is
gone, or results were copied beside another one, it would take any file for up to date. Tables,
figures and archives carry the same record (`tables.record`); files without room for one, such as
weights, are outputs of a job that writes a table as well, and last.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from headspec import tables
from headspec.errors import HeadspecError

#: version of Snakemake's records that `restore` writes
FORMAT = 6
INSCRIBED = (".svg", ".png", ".pdf", ".zip")
INSCRIPTION = re.compile(rb"headspec:([\w-]+=*):")


def restore(results: Path) -> int:
    """Give Snakemake the records that it lacks of files in `results`, as these files have them.

    It then compares them with its rules as if it had made the files itself: what agrees is taken
    over, and what does not is made again. A record is also lacking where it is of another file than
    the one in its place: one with another time, whose own record has other parameters.

    Returns
    -------
    n : files of which there is a record now and was none

    Raises
    ------
    HeadspecError
        This version of Snakemake keeps its records in another way.
    """
    try:
        from snakemake.persistence import RECORD_FORMAT_VERSION
        from snakemake.persistence.file import FilePersistence

        if RECORD_FORMAT_VERSION != FORMAT:
            raise ImportError(f"records of version {RECORD_FORMAT_VERSION}")
        snakemake = FilePersistence(nolock=True)
        return sum(_restore(snakemake, path) for path in _files(results, ".parquet", *INSCRIBED))
    except (ImportError, AttributeError, TypeError) as error:
        raise HeadspecError(
            f"this Snakemake keeps its records in another way ({error}): results in {results} that it did "
            "not make here itself are not compared with the study"
        ) from None


def _restore(snakemake: Any, path: Path) -> int:
    """Records that are written for one file, and for those of its job without room for one."""
    record = snakemake._read_record(str(path))
    try:
        time = path.stat().st_mtime
        if record and record.endtime == time:
            return 0
        job = _job(path)
    except OSError:  # it is just being made again
        return 0
    if job is None or str(path) not in job["output"]:  # it was made under another name
        return 0
    if record and record.params == job["params"]:
        return 0
    bare = [name for name in job["output"] if not name.endswith((".parquet", *INSCRIBED))]
    for name in [str(path), *bare]:
        snakemake._write_record(name, _record(job, time))
    return 1 + len(bare)


def _record(job: dict[str, Any], time: float) -> Any:
    from snakemake.persistence import MetadataRecord

    outputs = json.dumps(job["output"]).encode()
    return MetadataRecord(
        rule=job["rule"],
        params=job["params"],
        input=list(job["input"]),
        input_checksums={path: known for path, known in job["input"].items() if known},
        log=[],
        incomplete=False,
        starttime=time,
        endtime=time,
        job_hash=int.from_bytes(hashlib.sha256(outputs).digest()[:6], "big"),
        record_format_version=FORMAT,
    )


def _job(path: Path) -> dict[str, Any] | None:
    """The record in a file; None where there is none that can be read."""
    try:
        if path.suffix == ".parquet":
            job = tables.footer(path).get("job")
        else:
            found = INSCRIPTION.search(path.read_bytes())
            job = json.loads(zlib.decompress(base64.urlsafe_b64decode(found[1]))) if found else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error, pa.ArrowException):
        return None
    return job if isinstance(job, dict) and {"rule", "params", "input", "output"} <= set(job) else None


def _files(results: Path, *endings: str) -> Iterator[Path]:
    """Files with one of these endings, but for those that are being written."""
    for folder, _, names in os.walk(results, followlinks=True):
        yield from (Path(folder, name) for name in names if name.endswith(endings) and name[0] != ".")


def outdated(
    results: Path, command: str = "--forceall, added to the command that runs the study,"
) -> str | None:
    """One line where runs and statistics were made by other versions of packages than are installed.

    Versions are no reason to make them again, which may take weeks; but to say so.

    Parameters
    ----------
    command : what makes them again
    """
    installed = tables.versions()
    made, other = 0, 0
    found: dict[str, set[str]] = {}
    for path in [*results.glob("runs/**/training.parquet"), *results.glob("tables/*.parquet")]:
        try:
            versions = tables.footer(path)["versions"]
        except (OSError, KeyError, TypeError, pa.ArrowException):
            continue
        differing = {name for name in versions if name in installed and versions[name] != installed[name]}
        for name in differing:
            found.setdefault(name, set()).add(versions[name])
        made, other = made + 1, other + bool(differing)
    if not other:
        return None
    differences = (
        f"{name} {', '.join(sorted(found[name]))} (installed: {installed[name]})" for name in sorted(found)
    )
    return (
        f"{other} of {made} runs and statistics in {results} were made by other versions: "
        f"{'; '.join(differences)}. {command} makes all of them again"
    )
