"""Sections as rules pass them to stages."""

import pickle

import pytest
from pydantic import ValidationError

from headspec.config.sections.model import Model
from headspec.config.sections.training import Training
from headspec.tasks.keys import TaskKeys


def test_a_stage_reads_the_keys_that_it_is_passed_and_no_defaults() -> None:
    settings = pickle.loads(pickle.dumps(Training.from_params({"epochs": 4, "lora": {"rank": 2}})))
    assert (settings.epochs, settings.lora.rank, settings.lora.layers) == (4, 2, "all")
    with pytest.raises(AttributeError, match="clip"):
        settings.clip  # noqa: B018
    assert settings.model_copy(update={"epochs": 5}).epochs == 5


def test_a_stage_is_passed_keys_of_its_section_alone() -> None:
    with pytest.raises(ValidationError, match="clap"):
        Training.from_params({"clap": 1})


def test_a_described_model_is_a_section_in_its_stages() -> None:
    transformer = Model.from_params({"transformer": {"layers": 2}}).transformer
    assert transformer is not None and (transformer.layers, transformer.heads) == (2, 8)


def test_a_stage_looks_up_no_names() -> None:
    """Those of plugins are not there, and the list of kinds would be a part of its code."""
    task = TaskKeys.from_params({"type": "of a plugin", "tree": "x"})
    assert (task.type, getattr(task, "tree")) == ("of a plugin", "x")  # noqa: B009
