"""Which results are current: undamaged, where their job wrote them, and computed from the present files.

A result, or another file of the same job, contains the record of its job (`tables.job_record`). Each start
of snakemake compares results with records; unchanged files are read once (`headspec.provenance.hashes`).

Without its folder `.snakemake`, for example after results were copied, Snakemake takes every file as current.
With it, Snakemake does not notice files replaced by older ones, code edited between planning and a job on
another machine, or inputs older than their outputs. `restore` writes its records through its private API.
"""

import base64
import contextlib
import functools
import hashlib
import json
import mmap
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headspec import tables
from headspec.errors import DamageError, HeadspecError
from headspec.provenance import files, hashes
from headspec.provenance.hashes import FileCache

RECORD = re.compile(rb"headspec:([\w-]+=*):")
#: reasons why a file is not a result
DAMAGED, FOREIGN = "damaged, edited or of an older headspec", "not made by a job of headspec"
#: cache of problem, inputs and outputs of the job, and package versions of each file that can have a record
RESULTS = FileCache("results.json")


class Results:
    """The results in ``results/<study>``, compared with their records.

    `recorded` returns Snakemake's record of a file, or None.
    """

    def __init__(self, folder: Path, recorded: Callable[[Path], Any] = lambda _: None) -> None:
        self.folder, self.recorded = folder, recorded
        #: entries of `RESULTS` for all files that can contain a record
        self.found: dict[Path, dict[str, Any]] = {}
        self.changed: set[Path] = set()  #: paths that are new or have changed since the last comparison
        # many results have the same inputs
        self._place, self._sha256 = functools.cache(self._place_in_study), functools.cache(_sha256)
        for path in _files(folder):
            with contextlib.suppress(OSError):  # a running job is replacing it
                self.found[path] = RESULTS.get(path, self._read)

    def place(self, path: Path, name: str) -> Path:
        """Return the path of a file in the record of `path`, treating other studies' results as made here."""
        study = next(iter(self.found[path]["output"])).split("/", 2)[:2]
        return self._place(tuple(study), name)

    def in_place(self, path: Path) -> bool:
        """Return whether a result is where its job wrote it, rather than a copy."""
        return any(path == self.place(path, name) for name in self.found[path]["output"])

    def problem(self, path: Path) -> str:
        """Return why a result is not current, apart from problems with its inputs; empty if it is."""
        record = self.found[path]
        if record["problem"] or not self.in_place(path):
            return record["problem"] or f"a copy of {min(record['output'])}"
        now = {name: self._sha256(self.place(path, name)) for name in record["input"]}
        replaced = {name for name, sha256 in record["input"].items() if now[name] not in ("", sha256)}
        return ", ".join(sorted(replaced | self._damaged_beside(path)))

    def complete(self, path: Path) -> list[str]:
        """Return the outputs of the job that made a result, if all exist and none is damaged."""
        outputs = [self.place(path, name) for name in self.found[path]["output"]]
        intact = path in outputs and all(
            each.exists() and not self.found.get(each, {}).get("problem") for each in outputs
        )
        return [str(each) for each in outputs] if intact and not self._damaged_beside(path) else []

    def damaged(self) -> list[Path]:
        """Return the results that changed after their jobs wrote them."""
        damaged = {path for path, record in self.found.items() if record["problem"] == DAMAGED}
        for path, record in self.found.items():
            if not record["problem"] and self.in_place(path):
                damaged |= {self.place(path, name) for name in self._damaged_beside(path)}
        return sorted(damaged)

    def _place_in_study(self, study: tuple[str, ...], name: str) -> Path:
        *folder, within = name.split("/", 2)
        if tuple(folder) == study and study[0] == "results":
            return self.folder / within
        return self.folder.parent.parent / name

    def _read(self, path: str | Path) -> dict[str, Any]:
        """Return a file's entry in `RESULTS`; damaged files are not parsed: readers could do anything."""
        path, nothing, intact = Path(path), dict[str, Any](input={}, output={}, versions={}), False
        self.changed.add(path)
        if not path.is_file():  # opening a pipe would block forever
            return {"problem": DAMAGED if self.recorded(path) else FOREIGN, **nothing}
        with contextlib.suppress(PermissionError):
            intact = hashes.intact(path)
        if not intact:
            record = self.recorded(path)
            ours = (record and record.rule) or _was_result(path)
            return {"problem": DAMAGED if ours else FOREIGN, **nothing}
        try:
            footer = read_footer(path)
        except DamageError:
            return {"problem": FOREIGN, **nothing}
        job, versions = footer["job"], footer.get("versions", {})
        return {"problem": "", "input": job["input"], "output": job["output"], "versions": versions}

    def _damaged_beside(self, path: Path) -> set[str]:
        """Return the names of files without a record that changed after the job of `path` wrote them."""
        written = {name: sha256 for name, sha256 in self.found[path]["output"].items() if sha256}
        now = {name: self._sha256(self.place(path, name)) for name in written}
        return {name for name, sha256 in written.items() if now[name] not in ("", sha256)}


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it is missing, else what is there instead of a file."""
    with contextlib.suppress(OSError):
        return hashes.record_sha256(path)
    return files.NOT_A_FILE if path.exists() and not path.is_file() else ""


def read_footer(path: Path) -> dict[str, Any]:
    """Return the footer of a table, or the entry `job` of another file.

    Raises DamageError if it has no record of a job.
    """
    if path.suffix == ".parquet":
        footer = tables.unverified_footer(path)
    else:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            match = RECORD.search(data)
            text = match[1] if match else b""
        try:
            footer = {"job": json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))}
        except (ValueError, zlib.error):
            footer = {}
    job = footer.get("job", {})
    if not ({"rule", "params", "input", "output"} <= set(job) and isinstance(job["output"], dict)):
        raise DamageError(f"{path}: {FOREIGN}")
    return footer


def other_versions(
    results: Results, command: str = "--forceall, added to the command that runs the study,"
) -> str | None:
    """Return a warning if other package versions made results, else None; only `command` remakes them."""
    installed = tables.versions()
    total, n_differing = 0, 0
    others: dict[str, set[str]] = {}
    for path, record in results.found.items():
        versions, parts = record["versions"], path.relative_to(results.folder).parts
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
        f"{'; '.join(differences)}. {command} rebuilds all of them"
    )


def _was_result(path: Path) -> bool:
    """Return whether a damaged file was a result or a table."""
    data = path.read_bytes()
    cut_off = data[:4] == b"PAR1" != data[-4:]
    return cut_off or (b"headspec" if path.suffix == ".parquet" else b"headspec:") in data


def _files(results: Path) -> Iterator[Path]:
    """Yield files that can contain a record, except temporary ones, and anything else with such a name.

    Links to parents are not followed.
    """
    for folder, folders, names in os.walk(results, followlinks=True):
        for link in [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            if Path(folder).resolve().is_relative_to(Path(folder, link).resolve()):
                folders.remove(link)
        paths = (Path(folder, name) for name in names + folders if f"/{name}".endswith(tables.WITH_RECORD))
        yield from (path for path in paths if path.name[0] != "." and path.exists())


FORMAT = 6  # of Snakemake's records
OUTDATED = "outdated:"  # prefix of a param that forces files to be remade
#: entries that determine whether a job runs
DECISIVE = ("rule", "params", "input", "input_checksums", "record_format_version")


def restore(folder: Path) -> tuple[int, Results]:
    """Rewrite Snakemake's records that differ from those in results; return their number, and the results.

    Snakemake then remakes copies, and results whose job, inputs, other outputs or own content changed.
    Raises HeadspecError if this version of Snakemake uses another format for records.
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
    RESULTS.save()
    hashes.SHA256.save()
    return restored, results


def _times(record: Any) -> tuple[float, float] | None:
    """Return when the job of a record started and ended."""
    return (record.starttime, record.endtime) if record and record.starttime and record.endtime else None


def _restore(snakemake: Any, results: Results, path: Path) -> int:
    """Restore the records of a file and, unless it is a copy, of its job's other files; count them."""
    # marks left by a job that ended after Snakemake was interrupted
    for name in snakemake._filter_incomplete_keys(results.complete(path)):
        snakemake._unmark_incomplete(name)
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
    """Return Snakemake's record of a result, as if made in this study, with its problem as a param."""
    from snakemake.persistence import MetadataRecord

    result, problem = results.found[path], results.problem(path)
    job = read_footer(path)["job"] if result["output"] else {"rule": None, "params": []}
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
