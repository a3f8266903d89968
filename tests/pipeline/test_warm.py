"""Jobs that are forked from a process with the packages behave as processes of Python."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headspec.pipeline import warm
from support.running.faults import at_work
from support.running.studies import Folder

SAYS = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], sys.stdin.read(), "json.tool" in sys.modules)
"""  #: threads of a job, one of which another one starts and one waits for work, are over before it exits
THREADS = """
import atexit, threading, time
from concurrent.futures import ThreadPoolExecutor
def late(threads):
    time.sleep(0.1)
    print(threads)
    if threads:
        threading.Thread(target=late, args=[threads - 1]).start()
atexit.register(print, "left")
late(2)
pool = ThreadPoolExecutor()
pool.submit(print, "pooled").result()
"""
LIMIT = 200  # seconds after which a command that should end has failed


def until(condition: Callable[[], object]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("the server does not do what the test waits for")


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Iterator[str]:
    """A command whose forks find json.tool imported."""
    before, sys.executable = sys.executable, os.path.realpath(sys.executable)
    python = warm.start(["json.tool"])
    imported = tmp_path_factory.mktemp("warm") / "imported.py"
    imported.write_text("import sys; sys.exit('json.tool' not in sys.modules)")
    until(lambda: not subprocess.run([python, imported], timeout=LIMIT).returncode)
    yield python
    sys.executable = before
    warm._servers.pop().communicate(timeout=LIMIT)


def run(python: str, code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(code)
    environment = os.environ | {"WORD": "word"}
    return subprocess.run(
        [python, script, *arguments],
        cwd=folder, env=environment, input="in", capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip


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
        "import os, weakref; weakref.finalize(os, print, 'left')",
        THREADS,
    ],
)
def test_same_as_python(python: str, code: str, tmp_path: Path) -> None:
    asked, cold = (run(which, code, tmp_path, "a", "b c") for which in (python, sys.executable))
    assert asked.returncode == cold.returncode
    assert asked.stdout == cold.stdout.replace("in False", "in True")
    assert asked.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_modules_are_run(python: str) -> None:
    command = [python, "-m", "json.tool", "--help"]
    assert (
        "usage" in subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    )


def test_options_go_to_python(python: str) -> None:
    assert subprocess.run([python, "-c", "print(1)"], capture_output=True, text=True).stdout == "1\n"


def test_a_module_that_changed_is_imported_anew(python: str, tmp_path: Path) -> None:
    for value in "12":
        (tmp_path / "edited.py").write_text(f"print({value})\n# {'long' * int(value)}")
        assert run(python, "import edited", tmp_path).stdout == f"{value}\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_ends_with_its_command(python: str, number: int, tmp_path: Path) -> None:
    command = subprocess.Popen([python, "-m", "http.server", "0"], cwd=tmp_path)
    until(lambda: len(at_work(tmp_path)) >= 2)
    command.send_signal(number)
    assert command.wait(LIMIT) == -number
    until(lambda: not at_work(tmp_path))
    assert run(python, "raise SystemExit(3)", tmp_path).returncode == 3


def test_without_its_server_the_command_is_python(tmp_path: Path) -> None:
    python = warm.start([])
    waiting = subprocess.Popen([python, "-m", "http.server", "0"], cwd=tmp_path)
    until(lambda: len(at_work(tmp_path)) >= 2)
    server = warm._servers.pop()
    copy = tmp_path / warm.NAME
    copy.write_bytes(Path(python).read_bytes())
    copy.chmod(0o700)
    server.communicate(timeout=LIMIT)  # closes its input
    assert waiting.wait(LIMIT) == -signal.SIGKILL and not Path(python).parent.exists()
    assert run(str(copy), "raise SystemExit(3)", tmp_path).returncode == 3


@pytest.mark.parametrize("name", ["a b$(touch pwned)", 100 * "x"])
def test_the_command_is_a_word_of_a_shell_wherever_temporary_files_are(monkeypatch, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    python = warm.start([])
    command = f"{python} -m json.tool --help"
    assert "usage" in subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert python != sys.executable and os.listdir(tmp_path) == [name]
    warm._servers.pop().communicate(timeout=LIMIT)
    assert not Path(python).parent.exists()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a name that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_folders_of_killed_servers_are_removed_and_no_others(monkeypatch, short):
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    killed, used = (Path(warm.start([])).parent for _ in range(2))
    other = warm._servers.pop()
    server = warm._servers.pop()
    server.kill()
    server.communicate(timeout=LIMIT)
    (short / "headspec-of-somebody").mkdir()
    assert killed.exists() and used.exists()
    last = Path(warm.start([])).parent
    assert set(short.iterdir()) == {used, last, short / "headspec-of-somebody"}
    for process in (other, warm._servers.pop()):
        process.communicate(timeout=LIMIT)


@pytest.mark.parametrize(
    ("given", "turns"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "PASSIVE"}, None)],
)
def test_threads_leave_their_cores_soon_unless_told_otherwise(monkeypatch, given, turns):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    warm.start([])
    server = warm._servers.pop()
    variables = Path(f"/proc/{server.pid}/environ")
    until(variables.read_text)  # empty while the process begins
    environment = variables.read_text().split("\0")
    server.communicate(timeout=LIMIT)
    found = dict(line.split("=", 1) for line in environment if line)
    assert found.get("GOMP_SPINCOUNT") == turns and found["OMP_NUM_THREADS"] == "1"
    assert found["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"


@pytest.mark.slow
def test_jobs_without_the_server_get_the_variables(tmp_path):
    """As a job of a cluster does, from the Snakemake that it starts."""
    folder = Folder.new(tmp_path / "study")
    said = 'print("turns", os.environ["GOMP_SPINCOUNT"], file=sys.stderr)\n\n\nonstart:'
    folder.replace("workflow/Snakefile", "onstart:", said)
    assert "turns 10000" in folder.snakemake("--dry-run")
