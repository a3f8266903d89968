"""Records in results of the job and the package versions that made them.

Snakemake keeps the parameters and inputs of every output in `.snakemake`. Without that folder, for example
after results were copied, it takes any file for up to date; and with it, a file that was replaced by an older
one. Tables, figures and archives therefore contain the same record (`tables.record`), and what tells their
inputs from other files. Files without metadata, such as weights, belong to jobs that write a table last.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from headspec import digests, tables
from headspec.digests import Memory
from headspec.errors import HeadspecError
from headspec.files import moved

#: format version of the records that `restore` writes
FORMAT = 6
INSCRIPTION = re.compile(rb"headspec:([\w-]+=*):")
#: of each result, the marks of what it was made from and with
MADE_FROM = Memory("made_from.json")
#: first word of what `restore` adds to the parameters of a file that has to be made again
OUTDATED = "outdated:"
#: the job of a file without a record
FOREIGN: dict[str, Any] = {"rule": None, "input": {}, "output": []}
#: entries of Snakemake's records that decide whether a job runs
DECISIVE = ("rule", "params", "input", "input_checksums", "record_format_version")


def restore(results: Path) -> int:
    """Write Snakemake's records from those in the files in `results`, where the two disagree.

    Snakemake then treats the files as its own results: it keeps those that agree with the rules and remakes
    the others. Its own records say nothing of a file that was replaced, of files that were copied here, or of
    code that was edited between planning and a job on another machine. Nor does it look at inputs that are
    older than what was made from them. So a file has to be made again if what its job read, or wrote beside
    it, is not what stands there now, or if it was made in another place; in the results of another study, it
    counts as made here.

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
        restored = sum(_restore(snakemake, path) for path in _files(results, *tables.INSCRIBED))
    except (ImportError, AttributeError, TypeError) as error:
        raise HeadspecError(
            f"this version of Snakemake keeps records in another format ({error}): results in {results} that "
            "were copied here are not compared with the study"
        ) from None
    MADE_FROM.remember()
    digests.remember()
    return restored


def _restore(snakemake: Any, path: Path) -> int:
    """Restore the record of one file and of its job's files without metadata; returns their number."""
    record = snakemake._read_record(str(path))
    jobs: list[dict[str, Any] | None] = []  # read from the file, if it is new or has changed

    def made_from(_: object) -> dict[str, str]:
        jobs.append(_job(path))
        return jobs[0]["marks"] if jobs[0] else {}

    try:
        time = path.stat().st_mtime
        marks = MADE_FROM.get(path, made_from)
        replaced = [name for name, mark in marks.items() if _mark(name) not in (None, mark)]
        noted = bool(record and record.params and any(OUTDATED in each for each in record.params))
        if record and record.endtime == time and not (jobs or replaced or noted):
            return 0
        job = jobs[0] if jobs else _job(path)
    except OSError:  # a running job is replacing it
        return 0
    if job is None:
        job = FOREIGN | {"params": [f"{OUTDATED} not made by a job of headspec"]}
    if replaced:
        job["params"] = sorted([*job["params"], f"{OUTDATED} {', '.join(replaced)}"])
    new = _record(job, time)
    if record and all(getattr(record, key) == getattr(new, key) for key in DECISIVE):
        return 0
    plain = [name for name in job["output"] if not name.endswith(tables.INSCRIBED)]
    for name in [str(path), *plain]:
        snakemake._write_record(name, new)
    return 1 + len(plain)


def _mark(path: str) -> str | None:
    try:
        return digests.mark(path)
    except OSError:
        return None


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
    """The record in a file, as if it was made in this study; None if it has no readable one."""
    try:
        if path.suffix == ".parquet":
            job = tables.unchecked_footer(path)["job"]
        else:
            match = INSCRIPTION.search(path.read_bytes())
            job = json.loads(zlib.decompress(base64.urlsafe_b64decode(match[1]))) if match else {}
        if not {"rule", "params", "input", "output", "marks"} <= set(job):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):  # Arrow's are among these
        return None
    params = list(job["params"])
    here = {name: moved(name, path) for name in [*job["input"], *job["output"], *job["marks"]]}
    studies = {Path(name).parts[1] for name in here if here[name] != name}
    for study in studies & {literal_eval(each) for each in params if each.startswith(("'", '"'))}:
        params[params.index(repr(study))] = repr(path.parts[1])
    if str(path) not in {here[name] for name in job["output"]}:
        params.append(f"{OUTDATED} a copy of {min(job['output'])}")
    return {
        "rule": job["rule"],
        "params": sorted(params),
        "input": {here[name]: checksum for name, checksum in job["input"].items()},
        "output": [here[name] for name in job["output"]],
        "marks": {here[name]: mark for name, mark in job["marks"].items()},
    }


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
