"""One job on its own, in a terminal."""

import os
import re
from pathlib import Path

import pytest

from headspec import tables
from headspec.errors import HeadspecError
from headspec.pipeline.commands.debug import run_job
from headspec.provenance.files import sha256
from support.running.studies import Folder
from support.running.terminals import on_terminal

pytestmark = pytest.mark.slow

DATA = "results/tiny/data/tone/train.parquet"


def look_and_go_on(pid: int, terminal: int) -> None:
    os.write(terminal, b"p snakemake.wildcards.task\nc\n")


def test_one_job_runs_by_itself_and_stops_at_its_breakpoint(tmp_path):
    """It writes elsewhere what snakemake makes, and leaves that unchanged."""
    folder = Folder.new(tmp_path / "study")
    folder.snakemake(DATA)
    made = {path: sha256(path) for path in (folder.path / "results").rglob("*") if path.is_file()}
    folder.replace("workflow/scripts/data/training.py", "    task = ", "    breakpoint()\n    task = ")
    options = {"at": "(Pdb) ", "do": look_and_go_on, "module": "headspec"}
    library = str(folder.path / "workflow")
    status, written = on_terminal(folder, "debug", DATA, **options, PYTHONPATH=library, TMPDIR=str(tmp_path))
    assert status == 0, written
    assert "\n'tone'\n" in written
    (there,) = re.findall(r"^writes to (.+)$", written, re.M)
    assert Path(there).parent == tmp_path
    assert tables.read(Path(there, DATA)).equals(tables.read(folder.path / DATA))
    assert {path: sha256(path) for path in (folder.path / "results").rglob("*") if path.is_file()} == made

    for file, message in {
        "data/tine/train.parquet": "data/tine/train.parquet: no job of the study",
        "tokens/bert/topic/train.parquet": "/topic/validation.parquet: missing; run",
    }.items():
        told = on_terminal(folder, "debug", f"results/tiny/{file}", module="headspec", PYTHONPATH=library)
        assert told[0] == told[1].count("\n") == 1 and message in told[1]
    with pytest.raises(HeadspecError, match="x.parquet: expected a file in results/<study> of a study that"):
        run_job(tmp_path / "x.parquet")
