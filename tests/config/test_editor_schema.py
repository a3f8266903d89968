"""The JSON schema for editors: up to date, and in agreement with what the loader accepts and refuses."""

import copy
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from headspec.config import reference
from headspec.config.loading import load
from headspec.errors import ConfigError
from support.paths import ROOT
from support.running.studies import CONFIG, changed

FILE = ROOT / "workflow" / "schemas" / "study.schema.json"
STUDIES = [ROOT / "config.yaml", *sorted((ROOT / "workflow" / "studies").glob("*.yaml"))]
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = Draft202012Validator(SCHEMA)


class Yaml12(yaml.SafeLoader):
    """Numbers as editors read them, in YAML 1.2: ``2e-5`` is one."""


Yaml12.yaml_implicit_resolvers = copy.deepcopy(yaml.SafeLoader.yaml_implicit_resolvers)
for start in "+-.0123456789":
    number = ("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)"))
    Yaml12.yaml_implicit_resolvers.setdefault(start, []).insert(0, number)


def valid(config: Any) -> bool:
    return VALIDATOR.is_valid(json.loads(json.dumps(config)))  # keys are text, as JSON has them


def test_the_file_is_in_step():
    message = "run: PYTHONPATH=workflow python -m headspec schema workflow/schemas/study.schema.json"
    assert FILE.read_text() == reference.editor_schema(), message
    assert SCHEMA["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
@pytest.mark.parametrize("loader", [yaml.SafeLoader, Yaml12])
def test_every_study_names_it_and_is_valid(path: Path, loader):
    text = path.read_text(encoding="utf-8")
    named = re.match(r"# yaml-language-server: \$schema=(.+)\n", text)
    assert named and os.path.normpath(path.parent / named[1]) == str(FILE)
    assert valid(yaml.load(text, loader))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.learning_rate", "2e-5"),
        ("importance.samples", "1e4"),
        ("importance.samples", 1e4),
        ("study", 2026),
        ("training.clip", None),
        ("tasks.topic.labels", {0: "sea", 1: "wood"}),
    ],
)
def test_what_the_loader_takes_is_valid(key, value):
    assert valid(changed(CONFIG, {key: value})) and load(changed(CONFIG, {key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trainning", {}),
        ("training.epoch", 3),
        ("models.bert.max_lenght", 32),
        ("training.epochs", 0),
        ("training.epochs", True),
        ("training.learning_rate", "fast"),
        ("pruning.fraction", 1.5),
        ("models.a/b", {"source": "models/tiny-bert"}),
        ("seeds", []),
        ("seeds", [1, 1]),
    ],
)
def test_what_the_loader_refuses_is_not(key, value):
    assert not valid(changed(CONFIG, {key: value}))
    with pytest.raises(ConfigError):
        load(changed(CONFIG, {key: value}))
