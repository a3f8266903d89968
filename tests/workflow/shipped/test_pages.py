"""What pages show runs: commands are run, planned or at least parsed, and code is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from snakemake.cli import get_argument_parser

from headspec.cli import app
from support.pages import PAGES, Block, blocks
from support.paths import ROOT
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

BLOCKS = [block for page in PAGES for block in blocks(page)]
#: other tests run what is written in these: configs in tests/repository/test_docs.py, files of the worked
#: examples here and in test_worked_examples.py; `py` needs lm_eval, as in tests of the harness;
#: `text` is what programs print, and formulas
LANGUAGES = {"bash", "python", "py", "yaml", "diff", "js", "rst", "text"}
#: beginning of a command: why it is at most parsed
NOT_RUN = {
    "source ": "no program of ours",
    "mkdir ": "no program of ours",
    "export ": "no program of ours",
    "pip install ": "needs a network",
    "snakemake submission --configfile workflow/studies/glue.yaml": "its tasks and model are on the hub",
    "snakemake --cores 8 --sdm apptainer": "needs apptainer",
    "snakemake --cores 16 --allowed-rules": "for finished runs, as in test_workflow.py",
    "PYTHONPATH=workflow python docs/studies/from_pereira.py": "needs a network",
}
#: my-study.yaml, and config.yaml where a page names none
STUDY: dict[str, Any] = CONFIG | {
    "study": "mine",
    "seeds": [0, 1, 2, 3, 4],
    "mixtures": {"pairs": ["tone", "topic", "match"]},
    "methods": ["tuned"],
    "similarity": {"measures": ["text"]},
    "iat": {"mixtures": ["tone+topic"]},
}


def commands(block: Block) -> list[str]:
    """The commands of a block, without comments; one may take several lines, of a loop the first turn."""
    found, open_lines = [], ""
    for line in block.text.splitlines():
        open_lines += ("\n" if open_lines else "") + line
        try:
            shlex.split(open_lines)
        except ValueError:  # a quotation goes on
            continue
        found.append(re.sub(r" +# .*$", "", open_lines))
        open_lines = ""
    loop = re.compile(r"for i in .*; do (.+); done")
    found = [line for line in found if line and not line.startswith("#")]
    return [m[1].replace("$i", "1") if (m := loop.fullmatch(line)) else line for line in found]


COMMANDS = list(dict.fromkeys(c for block in BLOCKS if block.language == "bash" for c in commands(block)))


def of_program(name: str) -> list[str]:
    return [command for command in COMMANDS if command.split()[0] == name]


def run(command: list[str], folder: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_here(command: str) -> bool:
    return not command.startswith(tuple(NOT_RUN))


def test_every_block_has_a_language_and_every_command_a_test():
    assert {block.language for block in BLOCKS} == LANGUAGES
    programs = {"make", "snakemake", "headspec", "pytest", "python", "PYTHONPATH=workflow"}
    assert {command.split()[0] for command in COMMANDS if run_here(command)} <= programs
    unused = [start for start in NOT_RUN if not any(command.startswith(start) for command in COMMANDS)]
    assert unused == []


@pytest.fixture(scope="module")
def mine(shared) -> Folder:
    """A folder with my-study.yaml, without results."""

    def fill(path: Path) -> None:
        folder = Folder.new(path)
        folder.write(STUDY)
        folder.write(STUDY, "my-study.yaml")

    return Folder(shared("my-study", fill))


@pytest.mark.parametrize("command", of_program("snakemake"))
def test_runs_are_planned(mine, command):
    arguments = shlex.split(command)[1:]
    parsed = get_argument_parser([]).parse_args(arguments)
    if run_here(command):
        assert mine.plan(*arguments).rules
    else:
        assert all((ROOT / path).exists() for path in parsed.configfile)


@pytest.mark.parametrize("command", of_program("headspec"))
def test_commands_of_headspec_are_parsed(command):
    arguments = shlex.split(re.sub(r"<.+?>", "folder", command))[1:]
    known = typer.main.get_command(app)
    context = known.make_context("headspec", arguments)
    name, found, rest = known.resolve_command(context, [*context._protected_args, *context.args])
    assert found.make_context(name, rest).params


def test_a_plan_says_what_a_study_costs(mine):
    assert "headspec plan my-study.yaml" in COMMANDS
    command = ["headspec", "plan", "my-study.yaml", "--rate", "1e10"]
    assert "What mine will cost" in run([sys.executable, "-m", *command], mine.path)


@pytest.mark.parametrize("command", of_program("make"))
def test_targets_of_make_exist(command):
    assert run([*shlex.split(command), "--dry-run"])


@pytest.mark.parametrize(
    "command", filter(run_here, of_program("python") + of_program("PYTHONPATH=workflow"))
)
def test_one_liners_print_something(command, tmp_path):
    """In a folder of its own, since a command may write files."""
    for name in ("docs", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    assert run(["bash", "-c", f"PATH={Path(sys.executable).parent}:$PATH; {command}"], tmp_path).strip()


@pytest.mark.parametrize("command", of_program("pytest"))
def test_tests_that_pages_name_are_there(command):
    assert "::" in run([sys.executable, "-m", *shlex.split(command), "--collect-only"])


def test_code_that_reads_results_runs(finished, tmp_path, monkeypatch):
    """That of pages about a finished study; the first block on the library has a test of its own."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "demo").symlink_to(finished.results)
    monkeypatch.chdir(tmp_path)
    page = [block for block in BLOCKS if block.page == "docs/code/library.md"]
    _, *rest = [block for block in page if block.language == "python"]
    assert rest
    for block in rest:
        names: dict[str, Any] = {}
        exec(block.text, names)
        assert len(names["combined"])
