"""Tests are the same in every run, and one that hangs ends, with all that it has started."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.paths import ROOT
from support.running.faults import at_work

#: tests that hang, beside others that take as long but do not: they compute, start what computes, or wait
#: for a fixture that another process makes
HANGS = """
import subprocess, sys, time
import pytest
from support.running.faults import until

COMPUTES = "import time\\nend = time.monotonic() + 9\\nwhile time.monotonic() < end: pass"

def computes(*_):
    subprocess.run([sys.executable, "-c", COMPUTES])

@pytest.mark.parametrize("which", range(2))
def test_of_a_study_that_one_makes_and_the_other_waits_for(shared, which):
    shared("study", computes)

def test_computes():
    exec(COMPUTES)

def test_waits():
    subprocess.run(["sh", "-c", "sleep 1234567 & sleep 1234567"])

def test_looks_in_vain():
    until(lambda: sum(range(10**5)) < 0)

@pytest.fixture
def slow():
    subprocess.Popen(["setsid", "sleep", "1234567"])
    time.sleep(1e6)

def test_waits_in_a_fixture(slow):
    pass

def test_after():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_what_hangs_fails_and_leaves_no_process_and_what_is_slow_passes(
    tmp_path: Path, processes: str
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_hangs.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, tmp_path,
               "--hangs=4", "-n", processes, "--dist=worksteal", "-rfEp"]  # fmt: skip
    told = tmp_path / "told"  # no pipe, which what is left behind would keep open
    with told.open("w") as file:
        subprocess.run(command, cwd=tmp_path, stdout=file, stderr=file)
    lines = re.findall(r"^(\w+) test_hangs.py::(\w+)", told.read_text(), re.MULTILINE)
    ends = {name: end for end, name in lines}
    failed = {name for name, end in ends.items() if end != "PASSED"}
    assert len(ends) == 6 and "it hangs" in told.read_text(), told.read_text()
    assert failed == {"test_waits", "test_looks_in_vain", "test_waits_in_a_fixture"}, told.read_text()
    assert not at_work(tmp_path)


def drawn() -> list[int | str]:
    values: list[int | str] = []

    @settings(settings.get_profile("same"))
    @given(st.integers() | st.text())
    def draw(value: int | str) -> None:
        values.append(value)

    draw()
    return values


def test_examples_are_the_same_whatever_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    path = tmp_path / "constants.py"
    path.write_text(f"CONSTANTS = {[10**9 + i for i in range(99)]}, {[f'constant {i}' for i in range(99)]}")
    spec = importlib.util.spec_from_file_location("constants", path)
    monkeypatch.setitem(sys.modules, "constants", importlib.util.module_from_spec(spec))
    assert drawn() == before
