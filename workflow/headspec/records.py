"""Results that say themselves which job made them: what Snakemake has no record of, and by what versions.

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
from snakemake.persistence import RECORD_FORMAT_VERSION, MetadataRecord
from snakemake.persistence.file import FilePersistence

from headspec import tables

INSCRIBED = (".svg", ".png", ".pdf", ".zip")
INSCRIPTION = re.compile(rb"headspec:([\w-]+=*):")


def restore(results: Path) -> int:
    """Give Snakemake the records that it lacks of files in `results`, as these files have them.

    It then compares them with its rules as if it had made the files itself: what agrees is taken
    over, and what does not is made again.

    Returns
    -------
    n : files of which there is a record now and was none
    """
    snakemake = FilePersistence(nolock=True)
    known = Path(snakemake.path, "metadata")
    restored = 0
    for path in _files(results, ".parquet", *INSCRIBED):
        if Path(snakemake._record_path(known, str(path))).exists():
            continue
        job = _job(path)
        if job is None or str(path) not in job["output"]:  # it was made under another name
            continue
        bare = [name for name in job["output"] if not name.endswith((".parquet", *INSCRIBED))]
        for name in [str(path), *bare]:
            snakemake._write_record(name, _record(job, path.stat().st_mtime))
            restored += 1
    return restored


def _record(job: dict[str, Any], time: float) -> MetadataRecord:
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
        record_format_version=RECORD_FORMAT_VERSION,
    )


def _job(path: Path) -> dict[str, Any] | None:
    """The record in a file; None where there is none that can be read."""
    try:
        if path.suffix == ".parquet":
            return tables.footer(path).get("job")
        found = INSCRIPTION.search(path.read_bytes())
        return json.loads(zlib.decompress(base64.urlsafe_b64decode(found[1]))) if found else None
    except (OSError, ValueError, KeyError, TypeError, zlib.error, pa.ArrowException):
        return None


def _files(results: Path, *endings: str) -> Iterator[Path]:
    """Files with one of these endings, but for those that are being written."""
    for folder, _, names in os.walk(results):
        yield from (Path(folder, name) for name in names if name.endswith(endings) and name[0] != ".")


def outdated(results: Path) -> str | None:
    """One line where runs and statistics were made by other versions of packages than are installed.

    Versions are no reason to make them again, which may take weeks; but to say so.
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
        f"{'; '.join(differences)}. `snakemake --forceall` makes all of them again"
    )
