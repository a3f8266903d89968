"""Memory that jobs request: never less than measured, and from the true sizes of models."""

import json

import pytest

from headspec.config.study import Study
from headspec.cost import memory
from headspec.cost.memory import BERT_LARGE, Sizes
from headspec.cost.stages import STAGES
from headspec.errors import HeadspecError
from headspec.models.devices import SIZES
from headspec.models.multitask import MultiTask
from support.model_types import every_type
from support.running.studies import CONFIG, study
from support.tiny import TYPES, encoder

NAMES = "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"
BERT = {"minilm": (384, 6, 12, 1536), "base": (768, 12, 12, 3072), "large": (1024, 24, 16, 4096)}
#: (stage, model, tokens, examples per step): peak resident memory in MB of a process, in float32 on a CPU;
#: only training with steps of 32 examples and sensitivity were measured with their matrix products
MEASURED = {
    ("train", "minilm", 128, 32): 2301,
    ("train", "minilm", 256, 32): 4444,
    ("train", "base", 128, 4): 2539,
    ("train", "base", 128, 32): 6547,
    ("retrain", "base", 128, 4): 3159,
    ("train", "large", 128, 4): 6585,
    ("retrain", "large", 128, 4): 8560,
    ("importance", "large", 256, 32): 5490,
    ("importance", "base", 256, 32): 2261,
    ("sensitivity", "base", 256, 32): 3310,
    ("representations", "base", 256, 32): 1733,
    ("prune", "base", 256, 32): 964,
    ("evaluate", "base", 256, 32): 946,
    ("features", "base", 256, 32): 925,
}


def bert_study(folder, name: str, tokens: int, batch: int) -> Study:
    """A study of a BERT of which only the config is there."""
    config = dict(zip(NAMES, BERT[name], strict=True)) | {"model_type": "bert"}
    config |= {"vocab_size": 30522, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    models = {"bert": {"source": str(folder), "max_length": tokens}}
    training = CONFIG["training"] | {"batch_size": batch}
    transfer = {"tasks": ["topic"], "methods": ["pretrained"], "batch_size": batch}
    return study(models=models, training=training, transfer=transfer, methods=["tuned"])


def requested(study: Study, stage: str, gpu: bool = False, trains: str = "all", model: str = "bert") -> int:
    return memory.megabytes(study, model, stage, gpu, trains)


@pytest.mark.parametrize("case", MEASURED, ids=str)
def test_no_request_is_below_what_was_measured(case, tmp_path):
    stage, name, tokens, batch = case
    assert MEASURED[case] < requested(bert_study(tmp_path, name, tokens, batch), stage) < 6 * MEASURED[case]


@pytest.mark.parametrize("kind", TYPES)
def test_sizes_are_those_of_the_model(kind):
    model = encoder(kind)
    sizes = Sizes.from_config(json.loads(model.config.to_json_string(use_diff=False)))
    gates = MultiTask(model, "first", {}).gates
    assert (sizes.layers, sizes.heads, sizes.hidden) == (gates.layers, gates.heads, model.config.hidden_size)
    assert sizes.parameters > 0.75 * sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("kind", ["mixtral", "gpt_oss", "deepseek_v3", "gpt_neox", "gemma2", "opt", "bloom"])
def test_sizes_of_newer_types_count_experts(kind):
    model = every_type.model(kind)
    sizes = Sizes.from_config(json.loads(model.config.to_json_string(use_diff=False)))
    true = sum(parameter.numel() for parameter in model.parameters())
    assert 0.6 * true < sizes.parameters < 1.7 * true


def test_longer_texts_and_larger_batches_need_more(tmp_path):
    short, long, wide = (
        {stage: requested(study, stage) for stage in STAGES}
        for study in (bert_study(tmp_path, "base", *sizes) for sizes in ((64, 32), (128, 32), (64, 64)))
    )
    for stage, cost in STAGES.items():
        if cost.batch:
            assert long[stage] > 1.3 * short[stage] and wide[stage] > 1.3 * short[stage]
        if not cost.backward:
            assert wide[stage] == short[stage] < short["train"]


def test_vectors_of_frozen_runs_count(tmp_path):
    config = bert_study(tmp_path, "minilm", 128, 32)
    tasks = {name: task.model_copy(update={"train_examples": 10**6}) for name, task in config.tasks.items()}
    frozen = config.model_copy(update={"methods": ["tuned", "frozen"], "tasks": tasks})
    million = 4 * 4 * 384  # MB of vectors, four times
    for stage, least in {"features": million, "train": 2 * million}.items():
        assert requested(frozen, stage) - requested(config, stage) >= least
    assert requested(frozen, "prune") == requested(config, "prune")


def test_a_model_that_is_not_here_counts_as_bert_large_and_a_stage_without_costs_is_named(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert memory.sizes("hub:someone/far@main") == BERT_LARGE
    config = study(models={"far": {"source": "hub:someone/far@main", "max_length": 128}})
    assert requested(config, "train", model="far") > BERT_LARGE.parameters * 4 / 1e6
    with pytest.raises(
        HeadspecError, match="stage 'layers': expected one of importance, .*in cost/stages.py"
    ):
        requested(config, "layers", model="far")


def test_adapters_and_gpus_need_less_of_the_host(tmp_path):
    """Adapters train without copies of the weights; a GPU keeps the activations."""
    config = bert_study(tmp_path, "large", 256, 32)
    whole, adapted = (requested(config, "train", trains=trains) for trains in ("all", "adapters"))
    copies = 1.2 * 4 * memory.sizes(str(tmp_path)).parameters / 1e6
    assert whole - adapted == pytest.approx(2 * copies, abs=2)
    (scored,) = {requested(config, "prune", trains=trains) for trains in ("all", "adapters")}
    assert scored < adapted
    assert memory.ON_GPU <= requested(config, "train", gpu=True) < whole / 2


def test_beams_that_exceed_the_memory_are_named():
    """More beams need no more memory while batches have several sentences: they get fewer."""
    task = {"source": "x", "label": "de", "type": "translation", "target_language": "de"}
    sizes = {"layers": 2, "heads": 4, "hidden": 64, "vocabulary": 1000}
    models = {"bert": {"transformer": sizes, "max_length": 48}}

    def beams(n: int) -> Study:
        tasks = {"de": task | {"beams": n}}
        return study(models=models, tasks=tasks, mixtures={"single": ["de"]}, methods=["tuned"])

    batch = SIZES["cpu"][0] // 48
    assert requested(beams(1), "prune") == requested(beams(batch), "prune")
    each = 4 * (3 * 1000 + 2 * 48 * 64 * (2 + 2))  # log-probabilities; keys and values of both attentions
    for stage, cost in STAGES.items():
        if cost.writes:  # also after training, and with every head closed alone
            more = requested(beams(2 * 10**6), stage) - requested(beams(10**6), stage)
            assert more == pytest.approx(1.2 * 10**6 * each / 1e6, abs=2)
    assert memory.warnings(beams(batch)) == []
    (line,) = memory.warnings(beams(10**8))
    assert line.startswith("tasks.de.beams: got 100000000, with which a job of models.bert needs about ")
