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
def empty_cache(tmp_path, monkeypatch) -> Path:
    """The home of an empty cache of the hub, as the working folder; there is no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


@pytest.fixture
def cache(empty_cache) -> Path:
    """The folder of someone/tiny-bert in a cache of the hub with nothing else."""
    return lay_out(empty_cache)
