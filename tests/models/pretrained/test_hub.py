"""Models of the hub, from an artificial cache and without one."""

import json

import pytest
import torch

from headspec.config.sections.model import Model
from headspec.errors import ModelError
from headspec.models.encoders import load, reference
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import study_checks
from support.data.hub import NOWHERE, REVISION, lay_out
from support.running.studies import Folder, bert, study

TINY = "hub:someone/tiny-bert"


def refused(source: str) -> str:
    with pytest.raises(ModelError) as caught:
        load(Model(source=source), "models.own")
    return str(caught.value)


@pytest.mark.parametrize("revision", ["", "@main", f"@{REVISION}"])
def test_a_cached_model_needs_no_network_and_is_found_again_by_its_commit(cache, revision, tmp_path):
    source = Model(source=TINY + revision)
    model = MultiTask.pretrained(source, "models.own", {"a": ["x", "y"]})
    assert model.pooling == "first"
    for name, value in bert().state_dict().items():
        assert torch.equal(model.encoder.state_dict()[name], value), name
    model.save(tmp_path / "run", reference(source, "models.own"))  # as of a frozen run
    pointer = json.loads((tmp_path / "run" / "config.json").read_text())["pretrained"]
    assert pointer["source"] == f"{TINY}@{REVISION}"
    again = MultiTask.load(tmp_path / "run").state_dict()
    assert all(torch.equal(value, again[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("source", ["someone/other-bert@main", f"someone/tiny-bert@{'f' * 40}"])
def test_a_model_that_is_not_in_the_cache(cache, source):
    """The error names key, source and cache, and the command to download it."""
    message = refused(f"hub:{source}")
    name, revision = source.split("@")
    assert message.startswith(f"models.own.source: 'hub:{source}' is not in the cache {cache.parents[2]} ")
    assert "HF_HOME" in message and f"hf download {name} --revision {revision}" in message


def test_a_model_of_which_a_file_is_missing_is_refused(cache):
    (cache / "model.safetensors").unlink()
    bert().save_pretrained(cache, max_shard_size="20KB")
    load(Model(source=TINY), "models.own")
    next(cache.glob("model-00002-*")).unlink()
    message = refused(TINY)
    assert "no complete safetensors weights" in message and str(cache) in message
    (cache / "config.json").unlink()
    assert "no readable config.json" in refused(TINY)


def test_a_cached_model_is_checked_before_any_job(cache):
    def check(**settings: object) -> None:
        study_checks.check_models(study(models={"own": settings}))

    check(source="hub:someone/new@main")  # its first job checks it
    with pytest.raises(ModelError, match=r"^models\.own\.max_length: "):
        check(source=TINY, max_length=33)
    with pytest.raises(ModelError, match=r"^models\.own\.sha256: "):
        check(source=TINY, max_length=16, sha256="0" * 8)


@pytest.mark.slow
def test_the_workflow_takes_models_from_hf_home(tmp_path):
    """Without a network, from another cache; a missing model stops only its jobs. Logs say the pooling."""
    folder = Folder.new(tmp_path / "study")
    lay_out(tmp_path / "elsewhere")
    folder.set("models", {
        "here": {"source": f"hub:someone/tiny-bert@{REVISION}", "max_length": 16},
        "not-here": {"source": "hub:someone/other@main", "max_length": 16},
    })  # fmt: skip
    wanted = [f"results/tiny/features/{name}/topic.parquet" for name in ("here", "not-here")]
    environment = NOWHERE | {"HF_HOME": str(tmp_path / "elsewhere")}
    output = folder.snakemake("--keep-going", *wanted, fails=True, **environment)
    assert [(folder.path / path).exists() for path in wanted] == [True, False]
    assert "models.not-here.source: 'hub:someone/other@main' is not in the cache " in output
    assert str(tmp_path / "elsewhere" / "hub") in output and "Traceback" not in output
    log = (folder.results / "logs" / "features" / "here" / "topic.log").read_text()
    assert "models.here: pooling first (its weights have a pooler; no modules.json in the cache)" in log
