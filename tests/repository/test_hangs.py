"""Tests are the same in every run, and one that hangs ends, with all that it has started."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.paths import ROOT
from support.running.faults import at_work

HANGS = """
import subprocess, time
import pytest

def test_waits():
    subprocess.run(["sh", "-c", "sleep 1234567 & sleep 1234567"])

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
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_test_that_hangs_fails_and_leaves_no_process(tmp_path: Path, processes: str) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_hangs.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, tmp_path,
               "--timeout=2", "-n", processes]  # fmt: skip
    told = tmp_path / "told"  # no pipe, which what is left behind would keep open
    with told.open("w") as file:
        subprocess.run(command, cwd=tmp_path, stdout=file, stderr=file, timeout=120)
    assert "1 passed" in told.read_text() and told.read_text().count("Failed: Timeout") >= 2, told.read_text()
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
