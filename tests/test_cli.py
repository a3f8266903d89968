"""The command line: its commands, its errors, and how little it loads."""

import os
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headspec import __version__
from headspec.cli import app, main
from support.paths import ROOT

COMMANDS = get_command(app).commands


def python(*arguments: str) -> str:
    """What Python prints in a clone that is not installed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    return subprocess.check_output([sys.executable, *arguments], env=environment, text=True)


def test_the_commands():
    assert list(COMMANDS) == [
        "plan", "new", "heads", "summary", "table", "explorer", "power", "group", "export", "debug", "schema",
        "reference",
    ]  # fmt: skip
    assert python("-m", "headspec", "--version") == f"headspec {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_explained(name):
    shown = CliRunner().invoke(app, [name, "--help"], prog_name="headspec")
    assert shown.exit_code == 0 and shown.stdout.startswith(f"Usage: headspec {name} ")
    assert COMMANDS[name].help
    assert all(own.help for own in COMMANDS[name].params)


WRONG = [
    "nowhere", "empty", "binary", "folder", "/dev/null", "x" * 300, "", "-",
    "https://me:pa55word@h/x?token=a",
]  # fmt: skip
COMMON = [("summary",), ("plan",), ("reference",)]


@pytest.mark.parametrize("command", COMMON, ids=lambda command: command[0])
def test_wrong_files_end_with_a_message_alone(tmp_path, monkeypatch, capsys, command):
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
        if (command, wrong) == (("plan",), "nowhere"):
            assert said == "nowhere: cannot be read (No such file or directory)"
    assert sorted(tmp_path.rglob("*")) == before


def test_help_and_summary_load_little():
    """Help loads no library of numbers, and what a study found is read without torch."""
    heavy = "{'torch', 'transformers'} & set(sys.modules)"
    code = f"import sys; import headspec.cli; print({heavy} | {{'pandas', 'pydantic'}} & set(sys.modules))"
    code += f"\nimport headspec.pipeline.commands.summary; print({heavy})"
    assert python("-c", code) == "set()\nset()\n"
