"""Jobs forked from a process with the packages loaded behave like Python processes."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headspec.pipeline import warm
from support.running.faults import at_work, until
from support.running.studies import Folder

SAYS = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], sys.stdin.read(), "json.tool" in sys.modules)
"""
#: threads of a job, one of which another one starts and one waits for work, are over before it exits
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


def end_server() -> None:
    """End the server that was started last, by closing its input."""
    warm._servers.pop().communicate()


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Iterator[str]:
    """A command whose forks find json.tool imported."""
    before, sys.executable = sys.executable, os.path.realpath(sys.executable)
    python = warm.start(["json.tool"])
    imported = tmp_path_factory.mktemp("warm") / "imported.py"
    imported.write_text("import sys; sys.exit('json.tool' not in sys.modules)")
    assert any(not subprocess.run([python, imported]).returncode for _ in range(100))
    yield python
    sys.executable = before
    end_server()


def run(python: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], cwd=folder, env=os.environ | {"WORD": "word"}, input="in",
        capture_output=True, text=True,
    )  # fmt: skip


def run_code(python: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code as a script with arguments."""
    (folder / "script.py").write_text(code)
    return run(python, folder, "script.py", "a", "b c")


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
    asked, cold = (run_code(which, code, tmp_path) for which in (python, sys.executable))
    assert asked.returncode == cold.returncode
    assert asked.stdout == cold.stdout.replace("in False", "in True")
    assert asked.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_modules_and_options_are_run(python: str, tmp_path: Path) -> None:
    assert "usage" in run(python, tmp_path, "-m", "json.tool", "--help").stdout
    assert run(python, tmp_path, "-c", "print(1)").stdout == "1\n"


def test_a_module_that_changed_is_imported_anew(python: str, tmp_path: Path) -> None:
    for value in "12":
        (tmp_path / "edited.py").write_text(f"print({value})\n# {'long' * int(value)}")
        assert run_code(python, "import edited", tmp_path).stdout == f"{value}\n"


def start_job(python: str, folder: Path) -> subprocess.Popen:
    """Start a job that goes on, and wait for its fork."""
    command = subprocess.Popen([python, "-m", "http.server", "0"], cwd=folder)
    until(lambda: len(at_work(folder)) >= 2)
    return command


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_ends_with_its_command(python: str, number: int, tmp_path: Path) -> None:
    command = start_job(python, tmp_path)
    command.send_signal(number)
    assert command.wait() == -number
    until(lambda: not at_work(tmp_path))
    assert run_code(python, "raise SystemExit(3)", tmp_path).returncode == 3


def test_without_its_server_the_command_is_python(tmp_path: Path) -> None:
    python = warm.start([])
    command = start_job(python, tmp_path)
    copy = tmp_path / warm.NAME
    copy.write_bytes(Path(python).read_bytes())
    copy.chmod(0o700)
    end_server()
    assert command.wait() == -signal.SIGKILL and not Path(python).parent.exists()
    assert run_code(str(copy), "raise SystemExit(3)", tmp_path).returncode == 3


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
    end_server()
    assert not Path(python).parent.exists()


def test_folders_of_killed_servers_are_removed_and_no_others(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # enough for addresses of sockets
        monkeypatch.setattr(tempfile, "tempdir", short)
        other = Path(short, "headspec-of-somebody")
        other.mkdir()
        used, killed = (Path(warm.start([])).parent for _ in range(2))
        warm._servers[-1].kill()
        end_server()
        assert killed.exists() and used.exists()
        last = Path(warm.start([])).parent
        assert set(Path(short).iterdir()) == {used, last, other}
        end_server()
        end_server()


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
    variables = Path(f"/proc/{warm._servers[-1].pid}/environ")
    until(variables.read_text)  # empty while the process begins
    found = dict(line.split("=", 1) for line in variables.read_text().split("\0") if line)
    end_server()
    assert found.get("GOMP_SPINCOUNT") == turns and found["OMP_NUM_THREADS"] == "1"
    assert found["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"


@pytest.mark.slow
def test_jobs_without_the_server_get_the_variables(tmp_path):
    """As a job of a cluster does, from the Snakemake that it starts."""
    folder = Folder.new(tmp_path / "study")
    said = 'print("turns", os.environ["GOMP_SPINCOUNT"], file=sys.stderr)\n\n\nonstart:'
    folder.replace("workflow/Snakefile", "onstart:", said)
    assert "turns 10000" in folder.snakemake("--dry-run")
