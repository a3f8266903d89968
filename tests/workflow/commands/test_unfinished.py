"""Summary, explorer and report of an unfinished study, and of another config."""

import os
import shlex
import shutil
import subprocess

import pytest

from support.running import warm
from support.running.studies import SMALL, Folder

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(finish, tmp_path) -> Folder:
    """A study of which the runs are made."""
    made = finish("unfinished", SMALL | {"mixtures": {"pairs": ["tone", "topic"]}}, ["runs"])
    return made.copy(tmp_path / "study")


def headspec(folder: Folder, *arguments: str) -> tuple[int, str, str]:
    """Status, output and errors of a command."""
    ended = subprocess.run(
        [warm.python(), "-m", "headspec", *arguments], cwd=folder.path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(folder.path / "workflow")},
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


def test_a_part_says_so_and_is_made_again(folder):
    """A killed run, here after its runs, and then what continues it."""
    goes_on = "files are still to be made; `snakemake --cores all all runs` goes on"
    status, said, _ = headspec(folder, "summary", "results/tiny")
    assert status == 1 and said.startswith("unfinished: ") and goes_on in said.splitlines()[0]
    status, said, error = headspec(folder, "explorer", "results/tiny")
    page = folder.results / "explorer.html"
    assert (status, said) == (1, "") and goes_on in error and goes_on in page.read_text()
    folder.snakemake("all")
    assert goes_on not in page.read_text()
    status, said, _ = headspec(folder, "summary", "results/tiny")
    assert status == 0 and "unfinished" not in said and "tone+topic" in said
    assert headspec(folder, "explorer", "results/tiny") == (0, "results/tiny/explorer.html\n", "")

    folder.set("dissociation.resamples", 100)  # outdates the statistics, once a run has begun with it
    folder.snakemake("preview")
    status, said, _ = headspec(folder, "summary", "results/tiny")
    assert status == 1 and said.startswith("unfinished: ") and "tone+topic" not in said
    report = folder.results / "report.html"
    folder.snakemake("--report", str(report.relative_to(folder.path)))
    assert b"This is a part of the study" in report.read_bytes()
    ended = folder.snakemake("all")
    assert b"This is a part of the study" not in report.read_bytes(), ended


def test_settings_of_the_command_line_are_part_of_what_goes_on(folder):
    folder.snakemake("preview", "--config", "dissociation={'resamples': 100}")
    _, said, _ = headspec(folder, "summary", "results/tiny")
    command = said.splitlines()[0].split("`")[1]
    options = shlex.split(command)
    assert options[1:3] == ["--config", "dissociation={'resamples': '100'}"]  # as Snakemake reads it
    folder.snakemake("all", *options[1:3])
    assert headspec(folder, "summary", "results/tiny")[0] == 0


def test_what_another_config_left_is_left_out(folder):
    folder.set("methods", ["tuned"])
    folder.snakemake("explorer")
    status, said, error = headspec(folder, "explorer", "results/tiny", "--output", "page.html")
    assert status == 1 and "unfinished: " in error and "tone+topic/frozen/seed0/importance.parquet" in error
    page = (folder.path / "page.html").read_text()
    assert "frozen/seed0" not in page.split('"provenance"')[1].split('"config"')[0]
    folder.snakemake("all")
    shutil.copy(folder.results / "tables/combined.parquet", folder.results / "tables/belief.parquet")
    status, said, _ = headspec(folder, "summary", "results/tiny")
    assert status == 0
    assert said.startswith("left out, as the config of the study does not make them: tables/belief.parquet\n")
