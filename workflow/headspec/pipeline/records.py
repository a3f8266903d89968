"""Snakemake's records of results, restored from the records in the results.

Without its folder `.snakemake`, for example after results were copied, Snakemake takes every file as current.
With it, Snakemake does not notice files replaced by older ones, code edited between planning and a job on
another machine, or inputs older than what they made. This module writes records by Snakemake's private API.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from headspec import tables
from headspec.errors import DamageError, HeadspecError
from headspec.pipeline import current
from headspec.pipeline.current import Results
from headspec.provenance import hashes

FORMAT = 6  # of Snakemake's records
OUTDATED = "outdated:"  # begins a parameter of files that must be remade
#: entries that decide whether a job runs
DECISIVE = ("rule", "params", "input", "input_checksums", "record_format_version")


def restore(folder: Path) -> tuple[int, Results]:
    """Rewrite Snakemake's records that differ from those in results; return their number, and the results.

    Snakemake then remakes copies, and results whose job, inputs, other outputs or own content changed.
    HeadspecError if this version of Snakemake keeps records in another format.
    """
    try:
        from snakemake.persistence import RECORD_FORMAT_VERSION
        from snakemake.persistence.file import FilePersistence

        if RECORD_FORMAT_VERSION != FORMAT:
            raise ImportError(f"records of version {RECORD_FORMAT_VERSION}")
        snakemake = FilePersistence(nolock=True)
        hashes.SHA256.follow(lambda path: _times(snakemake._read_record(path)))
        results = Results(folder, lambda path: snakemake._read_record(str(path)))
        restored = sum(_restore(snakemake, results, path) for path in results.found)
    except (ImportError, AttributeError, TypeError) as error:
        raise HeadspecError(
            f"this version of Snakemake keeps records in another format ({error}): results in {folder} that "
            "were copied here are not compared with the study"
        ) from None
    current.RESULTS.save()
    hashes.SHA256.save()
    return restored, results


def _times(record: Any) -> tuple[float, float] | None:
    """Return when the job of a record began and ended."""
    return (record.starttime, record.endtime) if record and record.starttime and record.endtime else None


def _restore(snakemake: Any, results: Results, path: Path) -> int:
    """Restore the records of a file and, unless it is a copy, of its job's files without one; count them."""
    record = snakemake._read_record(str(path))
    try:
        time = path.stat().st_mtime
        changed = path in results.changed or results.problem(path)
        outdated = bool(record and record.params and any(OUTDATED in param for param in record.params))
        if record and record.endtime == time and not (changed or outdated):
            return 0
        new = _record(results, path, time)
    except (OSError, DamageError):  # a running job is replacing it
        return 0
    if record and all(getattr(record, key) == getattr(new, key) for key in DECISIVE):
        return 0
    names = [str(path)]
    if results.in_place(path):
        outputs = (str(results.place(path, name)) for name in results.found[path]["output"])
        names += [name for name in outputs if not name.endswith(tables.WITH_RECORD)]
    for name in names:
        snakemake._write_record(name, new)
    return len(names)


def _record(results: Results, path: Path, time: float) -> Any:
    """Return Snakemake's record of a result, as if made in this study, with its problem as a parameter."""
    from snakemake.persistence import MetadataRecord

    result, problem = results.found[path], results.problem(path)
    job = current.read_footer(path)["job"] if result["output"] else {"rule": None, "params": []}
    params = list(job["params"])
    if result["output"] and (study := repr(Path(min(result["output"])).parts[1])) in params:
        params[params.index(study)] = repr(results.folder.name)
    inputs = {str(results.place(path, name)): sha256 for name, sha256 in result["input"].items()}
    outputs = json.dumps([str(results.place(path, name)) for name in result["output"]]).encode()
    return MetadataRecord(
        rule=job["rule"],
        params=sorted([*params, *([f"{OUTDATED} {problem}"] if problem else [])]),
        input=list(inputs),
        input_checksums=inputs,
        log=[],
        incomplete=False,
        starttime=time,
        endtime=time,
        job_hash=int.from_bytes(hashlib.sha256(outputs).digest()[:6], "big"),
        record_format_version=FORMAT,
    )
