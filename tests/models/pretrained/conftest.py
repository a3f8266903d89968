"""A model as a folder, and in a cache of the hub."""

from pathlib import Path

import pytest
from huggingface_hub import constants

from support.data.hub import lay_out
from support.running.studies import local_model


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    """The folder `m` of a BERT, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return local_model(tmp_path / "m")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """The folder of someone/tiny-bert in a cache of the hub with nothing else; there is no network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return lay_out(tmp_path)
