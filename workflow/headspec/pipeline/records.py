"""Records in results of the job and the package versions that made them.

Snakemake keeps the parameters and inputs of every output in `.snakemake`. Without that folder, for example
after results were copied, it takes any file for up to date; and with it, a file that was replaced by an older
one. Tables, figures and archives therefore contain the same record (`tables.record`), and what tells their
inputs from other files. Files without metadata, such as weights, belong to jobs that write a table last.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from headspec import digests, tables
from headspec.errors import DamageError, HeadspecError
from headspec.pipeline import current
from headspec.pipeline.current import Results

#: format version of the records that `restore` writes
FORMAT = 6
#: first word of what `restore` adds to the parameters of a file that has to be made again
OUTDATED = "outdated:"
#: entries of Snakemake's records that decide whether a job runs
DECISIVE = ("rule", "params", "input", "input_checksums", "record_format_version")


def restore(folder: Path) -> tuple[int, Results]:
    """Write Snakemake's records from those in the results in `folder`, where the two disagree.

    Snakemake then treats the files as its own results: it keeps those that agree with the rules and remakes
    the others. Its own records say nothing of a file that was replaced, of files that were copied here, or of
    code that was edited between planning and a job on another machine. Nor does it look at inputs that are
    older than what was made from them. So a file has to be made again if it, what its job read, or what that
    wrote beside it, is not what it was, or if it was made in another place; in the results of another study,
    it counts as made here.

    Returns
    -------
    n : number of files with a new record
    results : as they were looked at

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
        results = Results(folder, lambda path: snakemake._read_record(str(path)))
        restored = sum(_restore(snakemake, results, path) for path in results.found)
    except (ImportError, AttributeError, TypeError) as error:
        raise HeadspecError(
            f"this version of Snakemake keeps records in another format ({error}): results in {folder} that "
            "were copied here are not compared with the study"
        ) from None
    for memory in (current.LOOKED_AT, current.PLAIN, digests):
        memory.remember()
    return restored, results


def _restore(snakemake: Any, results: Results, path: Path) -> int:
    """Restore the record of one file and of its job's files without metadata; returns their number.

    A file that is not in its place has a record of itself alone.
    """
    record = snakemake._read_record(str(path))
    try:
        time = path.stat().st_mtime
        changed = path in results.new or results.problem(path)
        noted = bool(record and record.params and any(OUTDATED in each for each in record.params))
        if record and record.endtime == time and not (changed or noted):
            return 0
        job = _job(results, path)
    except (OSError, DamageError):  # a running job is replacing it
        return 0
    new = _record(job, time)
    if record and all(getattr(record, key) == getattr(new, key) for key in DECISIVE):
        return 0
    plain = [name for name in job["output"] if not name.endswith(tables.INSCRIBED)]
    names = [str(path), *(plain if results.in_place(path) else [])]
    for name in names:
        snakemake._write_record(name, new)
    return len(names)


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


def _job(results: Results, path: Path) -> dict[str, Any]:
    """The job in a file's record, as if it had run in this study, with what is wrong with the file."""
    problem = results.problem(path)
    outdated = [f"{OUTDATED} {problem}"] if problem else []
    if not results.found[path]["output"]:
        return {"rule": None, "params": outdated, "input": {}, "output": []}
    job = current.read(path)["job"]
    params = list(job["params"])
    study = repr(Path(job["output"][0]).parts[1])
    if study in params:
        params[params.index(study)] = repr(results.folder.name)
    return {
        "rule": job["rule"],
        "params": sorted([*params, *outdated]),
        "input": {str(results.place(path, name)): checksum for name, checksum in job["input"].items()},
        "output": [str(results.place(path, name)) for name in job["output"]],
    }


def outdated(
    results: Results, command: str = "--forceall, added to the command that runs the study,"
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
    for path, found in results.found.items():
        versions, parts = found["versions"], path.relative_to(results.folder).parts
        if not versions or (parts[0] != "tables" and (parts[0] != "runs" or path.name != "training.parquet")):
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
        f"{n_differing} of {total} runs and statistics in {results.folder} were made with other versions: "
        f"{'; '.join(differences)}. {command} remakes all of them"
    )
