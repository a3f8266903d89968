"""A folder for each test, so that sources have short names."""

from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
