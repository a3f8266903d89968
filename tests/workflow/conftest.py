"""Tiny studies, finished once for all tests."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from support.running import every_stage, leaky
from support.running.studies import TOKEN, Folder


@pytest.fixture(scope="session")
def finish(shared) -> Callable[..., Folder]:
    """A function of a name, a config, targets, and of what prepares its folder: the finished study."""

    def finished(
        name: str, config: dict[str, Any], targets: Iterable[str],
        prepare: Callable[[Path], object] | None = None,
    ) -> Folder:  # fmt: skip
        def fill(path: Path) -> None:
            folder = Folder.new(path)
            if prepare:
                prepare(path)
            folder.write(config)
            folder.snakemake(*targets)

        return Folder(shared(name, fill))

    return finished


@pytest.fixture(scope="session")
def finished(shared) -> Folder:
    """The tiny study, finished. Tests must not change it: see `study`."""
    return Folder(shared("finished", lambda path: Folder.new(path).snakemake(HF_TOKEN=TOKEN)))


@pytest.fixture
def study(finished, tmp_path) -> Folder:
    """A copy of the finished study that a test may change."""
    return finished.copy(tmp_path / "study")


@pytest.fixture(scope="session")
def every_stage_finished(shared) -> Folder:
    """A study with every stage, finished. Tests must not change it."""
    return Folder(
        shared("every_stage", lambda path: every_stage.new(path).snakemake(*every_stage.TARGETS, "explorer"))
    )


@pytest.fixture(scope="session")
def all_large(shared) -> Folder:
    """A study whose files all count as large, finished. Tests must not change it."""
    return Folder(shared("all large", leaky.fill))
