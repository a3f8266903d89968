"""Heads of every text type of transformers: gated, scored, pruned and evaluated, or refused with a reason."""

import csv
import json
import re
from pathlib import Path

import pytest
import transformers
from packaging.version import Version
from safetensors.torch import save_model
from transformers.models.auto import modeling_auto as mappings

from headspec.config.sections.model import Model
from headspec.errors import ModelError
from headspec.models import architectures
from headspec.models.architectures import types
from headspec.models.gates import HeadGates
from headspec.models.pretrained import checks
from headspec.models.pretrained.checks import architecture
from headspec.models.pretrained.model_files import WEIGHTS
from support.model_types import every_type, type_facts
from support.paths import ROOT
from support.tiers import cases

TAKEN = every_type.taken()
#: types of each implementation of attention; the sweep over all others is slow
QUICK = {
    "albert", "bart", "bert", "deberta-v2", "deepseek_v3", "distilbert", "gemma3n_text", "gpt2", "gpt_oss",
    "jamba", "llama", "mixtral", "modernbert", "mpnet", "openai-gpt", "qwen3", "qwen3_next", "t5",
}  # fmt: skip


@pytest.mark.parametrize("kind", cases(TAKEN, QUICK.__contains__))
def test_heads_are_gated_scored_pruned_and_evaluated(kind):
    """What else works, or why not, is what docs/code/architectures.md says."""
    assert type_facts.found(kind) == type_facts.stated()[kind]


@pytest.mark.parametrize("kind", cases(TAKEN, QUICK.__contains__))
def test_what_a_type_saves_is_taken_at_planning(kind, tmp_path):
    """Its sizes agree with its tensors, by whatever names it has for them."""
    saved = every_type.model(kind)
    save_model(saved, str(tmp_path / WEIGHTS))
    (tmp_path / "config.json").write_text(saved.config.to_json_string())
    model = Model(source=str(tmp_path), max_length=8)
    architecture(tmp_path, model, "models.a")
    checks.check_sizes(model, "models.a")


@pytest.mark.parametrize("kind", every_type.UNGATED)
def test_types_whose_heads_are_not_gated_are_refused_when_they_are_loaded(kind):
    with pytest.raises(ModelError, match="cannot be gated"):
        HeadGates(every_type.model(kind))


def test_every_text_type_of_transformers_is_listed_and_the_page_lists_each_once():
    tasks = ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SEQUENCE_CLASSIFICATION")
    text = {kind for task in tasks for kind in getattr(mappings, f"MODEL_FOR_{task}_MAPPING_NAMES")}
    locked = re.search(r"^transformers==(.+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[1]
    if Version(transformers.__version__) > Version(locked):  # types that it adds are listed when it is locked
        text &= set(types())
    assert set(types()) == text
    assert {*every_type.UNGATED, *every_type.NOT_BUILT, *every_type.OWN} <= text
    path = Path(architectures.__file__).with_name("types.tsv")  # a part of the package
    rows = list(csv.DictReader(path.open(), delimiter="\t"))
    assert [row["type"] for row in rows] == sorted(text) and {*rows[0]} == {"type", "family", "refused"}
    assert len(TAKEN) >= 190 and set(type_facts.stated()) == set(TAKEN)
    assert type_facts.on_the_page("types") == type_facts.table(type_facts.stated())
    assert type_facts.on_the_page("refused") == type_facts.reasons(type_facts.refusals())
    assert type_facts.on_the_page("untested") == type_facts.reasons(every_type.NOT_BUILT)


def test_a_study_with_a_type_that_none_takes_is_refused_at_planning(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    with pytest.raises(ModelError, match=r"^models.a.source: .* mamba, .* no attention heads; docs/"):
        architecture(tmp_path, Model(source=str(tmp_path)), "models.a")
