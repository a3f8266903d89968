"""Jobs that are forked from a process with the packages behave as processes of Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headspec.pipeline import warm
from support.faults import at_work

SAYS = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], sys.stdin.read(), "json.tool" in sys.modules)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Iterator[str]:
    """A command whose forks find json.tool imported."""
    before, sys.executable = sys.executable, os.path.realpath(sys.executable)
    python = warm.start(["json.tool"])
    imported = tmp_path_factory.mktemp("warm") / "imported.py"
    imported.write_text("import sys; sys.exit('json.tool' not in sys.modules)")
    while subprocess.run([python, imported]).returncode:
        time.sleep(0.01)
    yield python
    sys.executable = before
    warm._servers.pop().communicate()


def run(python: str, code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(code)
    environment = os.environ | {"WORD": "word"}
    return subprocess.run(
        [python, script, *arguments], cwd=folder, env=environment, input="in", capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "code",
    [
        SAYS,
        "raise SystemExit(3)",
        "raise SystemExit('why')",
        "raise SystemExit(True)",
        "1 / 0",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import atexit; atexit.register(print, 'left')",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()",
    ],
)
def test_same_as_python(python: str, code: str, tmp_path: Path) -> None:
    asked, cold = (run(which, code, tmp_path, "a", "b c") for which in (python, sys.executable))
    assert asked.returncode == cold.returncode
    assert asked.stdout == cold.stdout.replace("in False", "in True")
    assert asked.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_modules_are_run(python: str) -> None:
    command = [python, "-m", "json.tool", "--help"]
    assert "usage" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_options_go_to_python(python: str) -> None:
    assert subprocess.run([python, "-c", "print(1)"], capture_output=True, text=True).stdout == "1\n"


def test_a_module_that_changed_is_imported_anew(python: str, tmp_path: Path) -> None:
    for value in "12":
        (tmp_path / "edited.py").write_text(f"print({value})\n# {'long' * int(value)}")
        assert run(python, "import edited", tmp_path).stdout == f"{value}\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_ends_with_its_command(python: str, number: int, tmp_path: Path) -> None:
    command = subprocess.Popen([python, "-m", "http.server", "0"], cwd=tmp_path)
    while len(at_work(tmp_path)) < 2:
        time.sleep(0.01)
    command.send_signal(number)
    assert command.wait() == -number
    while at_work(tmp_path):
        time.sleep(0.01)
    assert run(python, "raise SystemExit(3)", tmp_path).returncode == 3


def test_without_its_server_the_command_is_python(tmp_path: Path) -> None:
    python = warm.start([])
    waiting = subprocess.Popen([python, "-m", "http.server", "0"], cwd=tmp_path)
    while len(at_work(tmp_path)) < 2:
        time.sleep(0.01)
    server = warm._servers.pop()
    copy = tmp_path / warm.NAME
    copy.write_bytes(Path(python).read_bytes())
    copy.chmod(0o700)
    server.communicate()  # closes its input
    assert waiting.wait() == -signal.SIGKILL and not Path(python).parent.exists()
    assert run(str(copy), "raise SystemExit(3)", tmp_path).returncode == 3
