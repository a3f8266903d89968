"""Each key of `training` and `pruning` reaches the stages of its section, and acts there.

What a stage does without is said on the page of the config, in the section of the stage.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from headspec.config import loading, reference
from headspec.config.methods import METHODS
from headspec.config.sections.heads import Pruning
from headspec.config.sections.iat import Transfer
from headspec.config.sections.training import Training
from headspec.data import tasks_read
from headspec.models.internals.activations import representations
from headspec.models.multitask import MultiTask
from headspec.pipeline import state
from headspec.pipeline.layout import Layout
from headspec.tasks.registry import KINDS
from headspec.training.loop import train
from headspec.training.trainable import adapt
from headspec.training.transfer import Fitting, tune
from support.paths import ROOT
from support.running.every_stage import new
from support.tiny import CPU, examples
from support.two_tasks import data, model, never, setup, weights

SECTIONS = {"training": Training, "pruning": Pruning}
#: keys that matter for some kinds of tasks alone, and those of methods, which replace others
OF_KINDS = {key for kind in KINDS.values() for key in kind.training}
OF_METHODS = {name for name in METHODS if name in Training.model_fields}
#: keys that change no result
WITHOUT_EFFECT = {"checkpoint_minutes"}


def other(value: Any, choices: list[str]) -> Any:
    """Another value of a key, which has `choices` if it is a text."""
    if isinstance(value, str):
        return next(choice for choice in choices if choice != value)
    if isinstance(value, int):
        return value + 3
    return value / 2 if value else 0.123


def replaced_or_ignored(stage: str, key: str) -> bool:
    """Whether the page says so of a key of `training`, in the section of a stage."""
    section = dict(reference.sections(reference.schema())).get(stage, {})
    texts = [
        section.get("description", ""),
        *(k["description"] for k in section.get("properties", {}).values()),
    ]
    return any(re.search(f"(without|instead of) `training.{key}`", text) for text in texts)


# --- what a stage is passed, it reads, and what it reads changes its results


def trained(method: str, settings: Training, folder: Path) -> dict[str, torch.Tensor]:
    net, fixed = model(), None
    if method == "lora":
        adapt(net, 4, "all", 7, CPU)
    if method == "frozen":
        fixed = {t: e.vectors(representations([(t, net)], e, CPU)) for t, e in data().items()}
    train(net, replace(setup(), settings=settings, features=fixed), never(folder))
    return weights(net)


def transferred(settings: Training) -> dict[str, torch.Tensor]:
    net = MultiTask(model().encoder, "mean", {"a": ["x", "y"]})
    net.new_classifiers(net.classes)
    tune(net, "a", examples(20, 2, 1), Fitting(Transfer(steps=6), settings, 0, CPU), 1)
    return weights(net)


@pytest.mark.parametrize("stage", ["tuned", "frozen", "lora", "transfer"])
def test_a_key_of_training_changes_what_a_stage_learns_or_the_page_says_that_it_does_not(tmp_path, stage):
    torch.set_num_threads(1)
    acting = {"epochs": 1, "warmup": 0.3, "weight_decay": 0.1, "clip": 0.1}
    settings = setup().settings.model_copy(update=acting)

    def learnt(values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        passed = Training.from_params(values)
        return transferred(passed) if stage == "transfer" else trained(stage, passed, tmp_path)

    values = dict(settings)
    usual = learnt(values)
    for key, schema in Training.model_json_schema()["properties"].items():
        if key in OF_KINDS | OF_METHODS | WITHOUT_EFFECT:
            continue
        changed = learnt(values | {key: other(values[key], schema.get("enum", []))})
        acts = any(not torch.equal(usual[name], changed[name]) for name in usual)
        assert acts != replaced_or_ignored(stage, key), key


# --- what a section holds, its stages are passed


def jobs(folder: Path, target: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Rule, section and its values, for the jobs of a study that has every stage."""
    study = loading.load(yaml.safe_load((folder / "config.yaml").read_text()))
    empty = folder / "empty.yaml"
    empty.write_text("{}")
    layout = Layout(study, tasks_read.prepare_tasks(study))
    with state.opened(ROOT / "workflow/Snakefile", folder, empty, target, layout=layout) as workflow:
        for rule in workflow.rules:  # others hash code and models
            kept = {name: value if name in SECTIONS else None for name, value in rule.params.items()}
            rule.params.clear()
            rule.set_params(**kept)
        state.plan(workflow)
        for job in workflow.dag.jobs:
            passed = {name: job.params.get(name) for name in SECTIONS}
            yield from ((job.rule.name, name, values) for name, values in passed.items() if values)


@pytest.mark.slow
def test_a_stage_is_passed_every_key_of_its_section(tmp_path, monkeypatch):
    """Or other keys replace it there, or ignore it, as the page says."""
    folder = new(tmp_path / "study").path
    monkeypatch.chdir(folder)
    found = [job for target in ("iat", "gates") for job in jobs(folder, target)]
    stages = {"train", "branch", "retrain", "transfer", "learn_gates", "pruned_run", "prune"}
    assert stages <= {rule for rule, *_ in found}
    for rule, name, values in found:
        for key, field in SECTIONS[name].model_fields.items():
            replaces = re.search("instead of `(.*?)`", field.description or "")
            elsewhere = OF_KINDS | OF_METHODS | WITHOUT_EFFECT
            passed = key in values or (replaces and replaces[1] in values)
            assert passed or key in elsewhere or replaced_or_ignored(rule, key), (rule, name, key)
