"""The tiny study, finished once for all tests."""

from __future__ import annotations

import pytest

from support.running.studies import TOKEN, Folder


@pytest.fixture(scope="session")
def finished(shared) -> Folder:
    """The tiny study, finished. Tests must not change it: see `study`."""
    return Folder(shared("finished", lambda path: Folder.new(path).snakemake(HF_TOKEN=TOKEN)))


@pytest.fixture
def study(finished, tmp_path) -> Folder:
    """A copy of the finished study that a test may change."""
    return finished.copy(tmp_path / "study")
