"""One job by itself, in a terminal."""

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
    """What it writes elsewhere is what snakemake makes, and that stays as it is."""
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

    ended, written = on_terminal(folder, "debug", "results/tiny/data/tine/train.parquet", module="headspec",
                                 PYTHONPATH=library)  # fmt: skip
    assert (ended, written.count("\n")) == (
        1,
        1,
    ) and "data/tine/train.parquet: no job of the study" in written
    ended, written = on_terminal(folder, "debug", "results/tiny/tokens/bert/topic/train.parquet",
                                 module="headspec", PYTHONPATH=library)  # fmt: skip
    assert (ended, written.count("\n")) == (1, 1) and "/topic/validation.parquet: missing; run" in written


def test_a_file_of_no_study_is_named(tmp_path):
    with pytest.raises(HeadspecError, match="x.parquet: expected a file in results/<study> of a study that"):
        run_job(tmp_path / "x.parquet")
