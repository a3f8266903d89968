"""The command line: its commands, its errors, and how little it loads."""

import os
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headspec.cli import app, main
from headspec.version import VERSION
from support.paths import ROOT

COMMANDS = get_command(app).commands


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """`python -m headspec` in a clone that is not installed."""
    return subprocess.run(
        [sys.executable, "-m", "headspec", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT / "workflow")} | environment,
        capture_output=True,
        text=True,
    )


def test_the_commands():
    assert list(COMMANDS) == [
        "plan", "summary", "explorer", "power", "group", "export", "debug", "schema", "reference",
        "import-pereira",
    ]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_explained(name):
    shown = CliRunner().invoke(app, [name, "--help"], prog_name="headspec")
    assert shown.exit_code == 0 and shown.stdout.startswith(f"Usage: headspec {name} ")
    assert COMMANDS[name].help
    assert all(own.help for own in COMMANDS[name].params)


def test_the_version():
    assert run("--version").stdout == f"headspec {VERSION}\n"


@pytest.mark.slow
def test_an_expected_error_ends_with_its_message_alone():
    ended = run("plan", "nowhere.yaml")
    message = "nowhere.yaml: cannot be read (No such file or directory)\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", message)


WRONG = [
    "nowhere", "empty", "binary", "folder", "/dev/null", "x" * 300, "", "-",
    "https://me:pa55word@h/x?token=a",
]  # fmt: skip
COMMON = [("summary",), ("plan",), ("reference",), ("import-pereira", "x", "out", "--source")]


@pytest.mark.parametrize("command", COMMON, ids=lambda command: command[0])
def test_wrong_files_end_with_a_message(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for wrong in WRONG:
        monkeypatch.setattr(sys, "argv", ["headspec", *command, wrong])
        with pytest.raises(SystemExit) as ended:
            main()
        said = str(ended.value.code) + capsys.readouterr().err
        assert ended.value.code and len(said) > 5 and "pa55word" not in said, wrong
    assert sorted(tmp_path.rglob("*")) == before


def test_a_wrong_option_says_how_the_command_is_used():
    ended = run("plan", "config.yaml", "--core", "2")
    assert ended.returncode == 2 and ended.stderr.startswith("Usage: headspec plan ")
    assert "No such option: --core (Possible options: --cores" in ended.stderr


def test_help_and_summary_load_little(tmp_path):
    """Help loads no library of numbers, and what a study found is read without torch."""
    heavy = "{'torch', 'transformers'} & set(sys.modules)"
    code = f"import sys; import headspec.cli; print({heavy} | {{'pandas', 'pydantic'}} & set(sys.modules))"
    code += f"\nimport headspec.pipeline.commands.summary; print({heavy})"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "workflow")},
        capture_output=True,
        text=True,
    )
    assert found.stdout == "set()\nset()\n", found.stderr


def test_completion_is_what_typer_gives():
    """The shell asks by these variables; answered are the commands that go on from what is typed."""
    asked = {"_HEADSPEC_COMPLETE": "complete_bash", "COMP_WORDS": "headspec im", "COMP_CWORD": "1"}
    assert run(**asked).stdout.split() == ["import-pereira"]
