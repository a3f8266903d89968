"""Records in results of the job and the package versions that made them.

Snakemake keeps the parameters and inputs of every output in `.snakemake`. Without that folder, for example
after results were copied, it takes any file for up to date. Tables, figures and archives therefore contain
the same record (`tables.record`). Files without metadata, such as weights, belong to jobs that write a table
last.
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
from headspec.errors import DataError, HeadspecError

#: format version of the records that `restore` writes
FORMAT = 6
INSCRIBED = (".svg", ".png", ".pdf", ".html", ".zip")
INSCRIPTION = re.compile(rb"headspec:([\w-]+=*):")


def restore(results: Path) -> int:
    """Write Snakemake's missing records from those in the files in `results`.

    Snakemake then treats the files as its own results: it keeps those that agree with the rules and remakes
    the others. A record also counts as missing if the file was replaced, that is, if its time and the
    parameters in it differ from those of the record.

    Returns
    -------
    n : number of files with a new record

    Raises
    ------
    HeadspecError
        This version of Snakemake keeps records in another format.
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
            f"this version of Snakemake keeps records in another format ({error}): results in {results} that "
            "were copied here are not compared with the study"
        ) from None


def _restore(snakemake: Any, path: Path) -> int:
    """Restore the record of one file and of its job's files without metadata; returns their number."""
    record = snakemake._read_record(str(path))
    try:
        time = path.stat().st_mtime
        if record and record.endtime == time:
            return 0
        job = _job(path)
    except OSError:  # a running job is replacing it
        return 0
    if job is None or str(path) not in job["output"]:  # the file was renamed or copied
        return 0
    if record and record.params == job["params"]:
        return 0
    unmarked = [name for name in job["output"] if not name.endswith((".parquet", *INSCRIBED))]
    for name in [str(path), *unmarked]:
        snakemake._write_record(name, _record(job, time))
    return 1 + len(unmarked)


def _record(job: dict[str, Any], time: float) -> Any:
    from snakemake.persistence import MetadataRecord

    outputs = json.dumps(job["output"]).encode()
    return MetadataRecord(
        rule=job["rule"],
        params=job["params"],
        input=list(job["input"]),
        input_checksums={path: checksum for path, checksum in job["input"].items() if checksum},
        log=[],
        incomplete=False,
        starttime=time,
        endtime=time,
        job_hash=int.from_bytes(hashlib.sha256(outputs).digest()[:6], "big"),
        record_format_version=FORMAT,
    )


def _job(path: Path) -> dict[str, Any] | None:
    """The record in a file; None if it has no readable one."""
    try:
        if path.suffix == ".parquet":
            job = tables.footer(path).get("job")
        else:
            match = INSCRIPTION.search(path.read_bytes())
            job = json.loads(zlib.decompress(base64.urlsafe_b64decode(match[1]))) if match else None
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return None
    return job if isinstance(job, dict) and {"rule", "params", "input", "output"} <= set(job) else None


def _files(results: Path, *endings: str) -> Iterator[Path]:
    """Files with one of these endings, except temporary ones."""
    for folder, _, names in os.walk(results, followlinks=True):
        yield from (Path(folder, name) for name in names if name.endswith(endings) and name[0] != ".")


def outdated(
    results: Path, command: str = "--forceall, added to the command that runs the study,"
) -> str | None:
    """A warning if runs and statistics were made with other package versions than the installed ones.

    Other versions do not cause reruns, which could take weeks.

    Parameters
    ----------
    command : the command that remakes everything, for the warning
    """
    installed = tables.versions()
    total, n_differing = 0, 0
    others: dict[str, set[str]] = {}
    for path in [*results.glob("runs/**/training.parquet"), *results.glob("tables/*.parquet")]:
        try:
            versions = tables.unchecked_footer(path)["versions"]
        except (OSError, KeyError, TypeError, pa.ArrowException):
            continue
        differing = {name for name in versions if name in installed and versions[name] != installed[name]}
        for name in differing:
            others.setdefault(name, set()).add(versions[name])
        total, n_differing = total + 1, n_differing + bool(differing)
    if not n_differing:
        return None
    differences = (
        f"{name} {', '.join(sorted(others[name]))} (installed: {installed[name]})" for name in sorted(others)
    )
    return (
        f"{n_differing} of {total} runs and statistics in {results} were made with other versions: "
        f"{'; '.join(differences)}. {command} remakes all of them"
    )
