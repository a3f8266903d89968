"""Set-up for all tests: Hypothesis examples, distribution over processes, and ending tests that hang."""

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from headspec.pipeline import warm
from support import hangs, needs
from support import shared as folders

# jobs of studies share what one of them has compiled
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ["PYTEST_PROCESS"] = f"{os.getpid()} {time.time()}"  # whose children find it there

# a slow machine is no failure; "same" draws the same examples in every run, "fuzz" new ones
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("untimed"), derandomize=True, database=None)
settings.register_profile("fuzz", settings.get_profile("untimed"), max_examples=2000, print_blob=True)
settings.load_profile("same")
# examples do not depend on constants of the modules that happen to be imported
providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--storm", action="store_true", help="run tests marked storm, too")
    parser.addoption("--installed", action="store_true", help="fail where a package of Debian is lacking")
    parser.addoption("--hangs", type=float, default=600, metavar="SECONDS",
                     help="fail a test whose processes do nothing for so long; 0 is never")  # fmt: skip


def marked_slow(module: Path) -> bool:
    return bool(re.search(r"mark\.(slow|storm)", module.read_text(encoding="utf-8")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test-slow` imports only modules with slow tests, a quarter."""
    of_tests = config.option.markexpr == "slow and not thorough" and collection_path.match("test_*.py")
    return True if of_tests and not marked_slow(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of the longest study first, then slow ones, and those of many cases last: the end is short."""
    if not config.getoption("storm"):
        items[:] = [item for item in items if not item.get_closest_marker("storm")]
    tiers = {"slow", "thorough", "storm"}
    slow = {item for item in items if tiers.intersection(mark.name for mark in item.iter_markers())}
    for item in slow:
        if not item.get_closest_marker("thorough") and not marked_slow(item.path):
            raise pytest.UsageError(f"{item.nodeid}: expected the mark slow in its module")
        item.add_marker(pytest.mark.slow)  # -m "not slow" is the quick ones
    items.sort(
        key=lambda item: (
            "every_stage_finished" not in getattr(item, "fixturenames", ()),
            item not in slow,
            hasattr(item, "callspec"),
        )
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what this machine lacks."""
    for need in {need for mark in item.iter_markers("needs") for need in mark.args}:
        if reason := needs.lacking(need):
            must = item.config.getoption("installed") and need in needs.PACKAGES
            (pytest.fail if must else pytest.skip)(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    with hangs.ended(0 if item.config.getoption("usepdb") else item.config.getoption("hangs")):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """If a phase of a test fails, perhaps because it hangs, end the processes that it started."""
    report = yield
    if report.failed:
        kept = {os.getpid(), *(server.pid for server in warm._servers)}
        for process in hangs.started("PYTEST_PROCESS", "PYTEST_CURRENT_TEST"):
            if process.pid not in kept:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
    return report


@pytest.fixture(scope="session", autouse=True)
def nowhere(tmp_path_factory) -> Path:
    """A folder without results; environment variables for headspec, Snakemake and make are hidden."""
    given = re.findall(r"(\w+)=", os.environ.get("MAKEFLAGS", ""))  # make VENV=path test
    for name in list(os.environ):
        if name in given or name.startswith(("HEADSPEC_", "SNAKEMAKE_", "MAKE", "MFLAGS")):
            del os.environ[name]
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    os.environ |= {folders.ROOT: str(root), "XDG_STATE_HOME": str(root / "state")}
    return tmp_path_factory.mktemp("nowhere")


@pytest.fixture(autouse=True)
def begin_nowhere(nowhere, monkeypatch) -> Iterator[None]:
    """Start each test outside the clone, whose results and caches would affect it."""
    monkeypatch.chdir(nowhere)
    yield
    assert {path.name for path in nowhere.iterdir()} <= {".snakemake"}, "write to tmp_path"


@pytest.fixture(scope="session")
def shared() -> Callable[[str, Callable[[Path], object]], Path]:
    """A function of a name and of what fills a folder: the folder, filled by the process that is first."""
    return folders.folder


@pytest.fixture(scope="session")
def model_folder(shared) -> Callable[[str], Path]:
    """A function of a name of a model in `support.models`: its folder."""
    from support.models import make  # loads transformers

    return lambda name: shared(f"model {name}", lambda path: make(name, path))
