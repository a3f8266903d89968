"""What holds for all tests: how processes share them out, and no limit on their time."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

# jobs of studies share what one of them has compiled
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# a slow machine is no failure
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first-case", action="store_true", help="of a test with many cases, run the first")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests first, those of one case before those of many: what is left at the end is short."""
    if config.getoption("first_case"):
        items[:] = {item.nodeid.partition("[")[0]: item for item in reversed(items)}.values()
    items.sort(key=lambda item: ("slow" not in item.keywords, hasattr(item, "callspec")))


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A function of a name and of what fills a folder: the folder, filled by the process that is first."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        path, filled = root / name, root / f"{name}.filled"
        with FileLock(root / f"{name}.lock"):
            if not filled.exists():
                shutil.rmtree(path, ignore_errors=True)  # half filled, if `fill` failed
                fill(path)
                filled.touch()
        return path

    return folder
