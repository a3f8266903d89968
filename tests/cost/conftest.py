"""The tiny study, and what the plan knows of it."""

import pytest

from support.running.studies import CONFIG, Folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Folder:
    return Folder.new(tmp_path_factory.mktemp("cost") / "study")


@pytest.fixture
def here(folder, monkeypatch) -> Folder:
    """The tiny study, in whose folder the test runs."""
    monkeypatch.chdir(folder.path)
    folder.write(CONFIG)
    return folder
