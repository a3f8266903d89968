"""What the plan of a study says, and which studies it refuses. No times are tested."""

import re
import sys
from pathlib import Path

import datasets
import huggingface_hub
import pytest

from headspec.config import hub, loading
from headspec.config.sections.model import Model
from headspec.config.study import Study
from headspec.cost import graph, throughput, workload
from headspec.cost.operations import operations
from headspec.cost.plan import Plan
from headspec.cost.report import report
from headspec.cost.throughput import Speed
from headspec.data.planned import Planned
from headspec.errors import ConfigError, EncoderError, HeadspecError
from headspec.live.jobs import seconds as forecast_seconds
from headspec.models.passes import PASSES
from headspec.models.pretrained import folders
from headspec.pipeline import preflight
from support import language
from support.running.studies import CONFIG, changed, study
from support.tiny import encoder

RATE = 1e6
THREE = {"pairs": ["tone", "topic", "match"]}


def planned(config: Study, cores: int = 2, gpus: int = 0, rate: float = RATE) -> Plan:
    extent = workload.study_extent(config)
    speed = Speed({model: dict.fromkeys(PASSES, rate) for model in extent.configs}, 0.0, 0.0)
    return Plan(extent, graph.jobs(config, Planned()), speed, "as given", cores, gpus)


def row(plan: Plan, stage: str) -> tuple[float, float]:
    """Hours and seconds of wall time of a stage."""
    (line,) = [line.split(maxsplit=4) for line in plan.stages() if line.startswith(f"{stage} ")]
    return float(line[3].replace(",", "")), forecast_seconds(line[4])


# --- numbers


def test_seconds_are_operations_by_the_rate_and_shared_by_jobs_of_a_gpu(here):
    alone, sharing = (planned(study(jobs_per_gpu=n), gpus=1, rate=1e4) for n in (1, 2))
    assert alone.seconds.equals(alone.work / 1e4) and (alone.work > 0).any()
    assert sharing.seconds.equals(alone.seconds / 2)
    assert row(alone, "train") == pytest.approx([2 * n for n in row(sharing, "train")], rel=1e-3)
    core = planned(study(jobs_per_gpu=2))
    assert core.seconds.equals(core.work / RATE)


def test_the_stage_that_costs_most_is_named(here):
    """With its task and the setting that reduces it, which works."""
    sections = {
        "methods": ["tuned", "iat"],
        "iat": {"mixtures": ["tone+topic"]},
        "transfer": {"tasks": ["match"], "samples": [4, 16], "steps": 5, "batch_size": 4},
    }

    def told(examples: int) -> int:
        match = CONFIG["tasks"]["match"] | {"validation_examples": examples}
        plan = planned(study(**sections, tasks=CONFIG["tasks"] | {"match": match}))
        (line,) = plan.dearest()
        lower = "to reduce it, lower tasks.match.validation_examples"
        words = rf"transfer costs most: (\d+) % of .* for match; {lower}"
        share = plan.work.groupby("stage").sum()["transfer"] / plan.work.sum()
        assert (said := int(re.fullmatch(words, line)[1])) == round(100 * share)
        return said

    assert told(80) < told(100)


def test_training_on_two_gpus_takes_half_the_time_of_one(here):
    """One run: it has two GPUs beside nothing else, or one of the two."""
    rows = {}
    for gpus in (1, 2):
        models = {"bert": CONFIG["models"]["bert"] | {"gpus": gpus}}
        mixtures = {"pairs": ["tone", "topic"]}
        plan = planned(
            study(seeds=[0], methods=["tuned"], mixtures=mixtures, models=models), gpus=2, rate=1e4
        )
        rows[gpus] = row(plan, "train")
        told = "bert: training on 2 GPUs is 2 times as fast as on one" in [*plan.assumptions()]
        assert told == (gpus == 2)
    assert rows[2][0] == pytest.approx(rows[1][0], rel=1e-3)
    assert rows[1][1] == pytest.approx(2 * rows[2][1], rel=1e-2)
    here.set("models.bert.gpus", 2)
    with pytest.raises(ConfigError, match="models.bert.gpus: got 2, but jobs may use 1 here"):
        report("config.yaml", rate=1e4, gpus=1)


def prompted(**settings) -> Study:
    """A study of prompts for one model with these settings."""
    path = Path("llama")
    words = language.answers(path if path.exists() else language.make("llama", path)).values()
    answers = dict(zip(["good", "bad"], words, strict=True))
    task = CONFIG["tasks"]["tone"] | {"prompt": language.PROMPT, "answers": answers, "shots": 2}
    return study(
        models={"llama": {"source": "llama", "max_length": 60} | settings},
        tasks={"tone": task, "other": task},
        mixtures={"pairs": ["tone", "other"]},
        methods=["prompted"],
    )


def test_gpus_that_hold_layers_wait_for_each_other(here):
    """Two take twice the hours of one, and as long. Runs that train nothing have no checkpoints."""
    rows = {}
    for gpus in (1, 2):
        plan = planned(prompted(gpus=gpus), gpus=gpus, rate=1e3)
        rows[gpus], said = row(plan, "prune"), [*plan.assumptions()]
        assert ("llama: 2 GPUs hold its layers, and work one after another" in said) == (gpus == 2)
    assert rows[2] == pytest.approx((2 * rows[1][0], rows[1][1]), rel=1e-2)
    assert "checkpoints" not in plan.disk() and " models" not in plan.disk()
    length = plan.extent.lengths["llama", "tone"].prompt
    assert f"tone: {length} tokens per prompt, counted in a sample" in said
    assert not [line for line in said if "tokens per example" in line]


def test_a_measure_of_a_plugin_counts_as_much_as_importance(here, monkeypatch):
    """The plan says so; what is made of another table runs no model."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("own_measures.py").write_text(
        "from headspec.plugins import head_measure\n"
        "@head_measure('mine', 'mine')\ndef mine(model, task, examples, rows, device): ...\n"
        "@head_measure('other', 'other', of='relevance')\ndef other(table): ...\n"
    )
    plan = planned(
        study(
            methods=["tuned", "atlas"],
            importance={"samples": 40},
            mixtures={"pairs": ["tone", "topic"]},
            atlas={"examples": 40, "rankings": ["importance", "mine", "other"]},
            plugins=["own_measures.py"],
        )
    )
    counted = plan.work.groupby("stage").sum()
    assert counted["measured"] == counted["importance"] > 0
    assert {job.wildcards["measure"] for job in plan.jobs if job.stage == "derived"} == {"other"}
    assert "mine: a forward and a backward pass over the examples of the atlas" in [*plan.assumptions()]


# --- disk


def test_runs_save_what_they_learn_of_the_encoder(here):
    """With IAT and gates; frozen runs save classifiers, which count for nothing."""
    plan = planned(
        study(
            methods=["tuned", "frozen", "iat", "gates"],
            iat={"mixtures": ["tone+topic"], "controls": []},
            gates={"mixtures": ["tone+topic"], "kept": [0.5], "pruning_methods": ["importance", "l0"],
                   "keep_models": ["l0"]},
        )
    )  # fmt: skip
    models = [job for job in plan.jobs if any("model.safetensors" in path for path in job.outputs)]
    learnt = [job for job in models if job.wildcards["method"] != "frozen"]
    assert {job.rule for job in learnt} >= {"train", "train_and_keep", "retrain", "pruned_run_and_keep"}
    each = 4 * throughput.parameters(plan.extent.configs["bert"])
    assert plan.saved() == {"bert": len(learnt) * each} and len(models) > len(learnt)
    states = 12 * throughput.parameters(plan.extent.configs["bert"]) * 2 * 2  # trunk, branch; two seeds
    assert f"{states / 1e9:,.2f} GB states from which IAT continues" in plan.disk()
    assert "states" not in planned(study(methods=["tuned"])).disk()


def test_adapters_take_little_space(here):
    training = CONFIG["training"] | {"lora": {"rank": 2}}
    plan = planned(study(mixtures={"pairs": ["tone", "topic"]}, methods=["lora"], training=training))
    # rank x (in + out) of six matrices in each of two layers, 4 bytes each
    assert plan.learnt("bert", "lora") == 4 * 2 * 2 * (4 * (32 + 32) + 2 * (32 + 48))
    assert plan.learnt("bert", "tuned") == 4 * throughput.parameters(plan.extent.configs["bert"])
    assert plan.learnt("bert", "frozen") == 0


def test_states_that_iat_may_continue_are_kept_before_it_runs(here):
    """Training keeps a state of every run of `iat.mixtures`, also in a study that does not run IAT yet."""
    plan = planned(study(iat={"mixtures": ["tone+topic"]}))
    assert "states from which IAT continues" in plan.disk()
    assert "train_and_keep" in {job.rule for job in plan.jobs}


# --- the text, and what is missing


def test_the_plan_lists_its_assumptions(here, capsys):
    report("config.yaml", rate=RATE, cores=4, gpus=0)
    text = capsys.readouterr().out
    extent, jobs = workload.study_extent(study()), graph.jobs(study(), Planned())
    stages = {line.split()[0]: line.split()[1] for line in text.split("\n\n")[1].splitlines()[1:]}
    counts = {stage: str(len(each)) for stage, each in graph.by_stage(jobs).items()}
    assert stages == counts | {"total": str(len(jobs))}
    total = operations(extent, jobs).sum() / 1e15
    for said in (
        "with 4 cores",
        "core hours",
        f"tone: {extent.sizes['tone'].train} training and 60 validation examples, as read here",
        f"tone: {extent.lengths['bert', 'tone'].example} tokens per example, counted in a sample\n",
        "bert: train 0.0, importance 0.0, prune 0.0 GFLOP/s, as given",
        "start of a job: 6.0 s with a model, 3.0 s without",
        f"\n  {len(jobs)} jobs; a dry run counts its target as well, so one more\n",
        "hours, wall time and checkpoints for 4 cores\n",
        f"\n{'total':<17} {len(jobs):6,} {total:12,.3f} ",
    ):
        assert said in text


def test_the_plan_first_says_what_it_imports(here, monkeypatch, capsys):
    """Also where the import fails."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("of_this_plan.py").write_text("print('imported')\n1 / 0\n")
    here.set("plugins", ["of_this_plan.py"])
    with pytest.raises(ConfigError, match=r"of_this_plan\.py, line 2: ZeroDivisionError"):
        report("config.yaml", rate=RATE)
    assert capsys.readouterr().out == "plugins: imports of_this_plan.py\nimported\n"


def test_a_missing_gpu_needs_a_rate(here, capsys):
    with pytest.raises(HeadspecError, match="give --rate"):
        report("config.yaml", gpus=3)
    report("config.yaml", gpus=3, rate=2e14)
    assert "GPU hours" in capsys.readouterr().out


def test_numbers_in_the_config_replace_missing_texts(here, capsys):
    sized = {"source": "texts/gone.csv", "train_examples": 1000, "validation_examples": 70}
    here.set("tasks.topic", sized)
    here.set("tasks.pair", {"pairs_of": "topic", "train_examples": 300})
    with pytest.raises(HeadspecError, match="^not here, so not checked:\ntasks.topic.source: "):
        report("config.yaml", rate=RATE)
    text = capsys.readouterr().out
    assert "topic: 1,000 training and 70 validation examples, from the config" in text
    assert "pair: 300 training and 70 validation examples, from the config" in text
    assert "topic: 16 tokens per example, assumed: " in text  # 25, limited by max_length
    here.set("tasks.topic", {"source": "texts/gone.csv", "train_examples": 1000})
    here.set("tasks.pair", {"pairs_of": "tone"})
    with pytest.raises(HeadspecError) as error:
        report("config.yaml", rate=RATE)
    assert "no file or folder 'gone.csv'" in str(error.value)
    assert "tasks.topic.validation_examples: missing" in str(error.value)
    assert "4 of 6 runs are left out" in str(error.value)
    assert "match: " in capsys.readouterr().out


@pytest.fixture
def no_hub(tmp_path, monkeypatch) -> None:
    """A hub that refuses connections, and empty caches."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    for module in (huggingface_hub.constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", "http://127.0.0.1:9")


def test_without_the_hub_a_plan_says_at_once_what_jobs_and_dry_runs_say(
    here, capsys, monkeypatch, no_hub, caplog
):
    """The libraries of the hub would ask it six times, and log that."""
    revision = "0" * 40
    here.set("models.far", {"source": f"hub:someone/far@{revision}"})
    sizes = {"train_examples": 90, "validation_examples": 30}
    here.set("tasks.match", {"source": "hub:someone/texts@1"} | sizes)
    said = list(map(str, preflight.unavailable(loading.load(here.config))))
    assert [each.split(": '")[0] for each in said] == ["models.far.source", "tasks.match.source"]
    assert all("' is not in the cache " in each and "no connection to the hub" in each for each in said)
    with pytest.raises(HeadspecError, match="6 of 12 runs are left out(.|\n)*models.far.source: ") as error:
        report("config.yaml", rate=RATE)
    assert set(said) <= set(str(error.value).splitlines())
    assert "match: 90 training" in capsys.readouterr().out
    assert not [record for record in caplog.records if not record.name.startswith("snakemake")]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # as jobs, without waiting
    with pytest.raises(EncoderError, match=re.escape(said[0].split(" (")[0])):
        folders.folder(Model(source=f"hub:someone/far@{revision}"), "models.far")


def test_a_hub_model_needs_only_its_config(here, tmp_path, monkeypatch):
    encoder("bert").config.save_pretrained(tmp_path)
    monkeypatch.setattr(hub, "unreachable", lambda: "")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    extent = workload.study_extent(
        study(models={"far": {"source": "hub:someone/far@main", "max_length": 40}})
    )
    assert extent.problems == [] and not any(n.counted for n in extent.lengths.values())
    assert {task: n.example for (_, task), n in extent.lengths.items()} == {
        "tone": 25, "topic": 25, "match": 40,
    }  # fmt: skip


@pytest.mark.parametrize("source", ["models/nowhere", "package:nothing/model"], ids=["local", "package"])
def test_a_missing_local_model_is_named_by_its_key(here, capsys, source):
    here.set("models.far", {"source": source})
    with pytest.raises(HeadspecError, match=r"6 of 12 runs are left out(.|\n)*\nmodels\.far\.source: no "):
        report("config.yaml", rate=RATE)
    assert "bert: " in capsys.readouterr().out


def test_missing_files_are_named_beside_mistakes_in_the_config(here):
    here.set("training.lr", 1)
    here.set("tasks.tone.source", "texts/tones")
    here.set("models.bert.source", "package:nowhere/model")
    here.set("tasks.topic.source", "")
    with pytest.raises(ConfigError) as error:
        report("config.yaml", rate=RATE)
    assert sorted(line.split(": ")[0] for line in str(error.value).splitlines()) == [
        "models.bert.source", "tasks.tone.source", "tasks.topic.source", "training.lr",
    ]  # fmt: skip
    assert str(error.value).endswith("Did you mean 'tone'?")


def test_missing_files_are_named_after_the_plan(here, capsys):
    """Those which only the machine with the jobs has; with other errors there is no plan."""
    here.set("mixtures", THREE)
    here.set("similarity", {"measures": ["cka"], "sentences": "texts/gone.txt"})
    here.set("tasks.topic", {"source": "texts/topics.tsv", "train_examples": 100, "validation_examples": 50})
    with pytest.raises(HeadspecError) as error:
        report("config.yaml", rate=RATE)
    heading, topic, sentences = str(error.value).splitlines()
    assert heading == "not here, so not checked:"
    assert topic.startswith("tasks.topic.source: no file") and topic.endswith("Did you mean 'topic.tsv'?")
    assert sentences.startswith("similarity.sentences: no file or folder 'gone.txt'")
    assert "topic: 100 training" in capsys.readouterr().out
    here.set("tasks.tone.label", "lable")
    with pytest.raises(
        HeadspecError, match="tasks.tone.label: no column(.|\n)*similarity.sentences: no file"
    ):
        report("config.yaml", rate=RATE)
    assert not capsys.readouterr().out


REFUSED = {
    "tasks.tone.text_a: no column": {"tasks.tone.text_a": "sentense"},
    "models.bert.max_length: got 33": {"models.bert.max_length": 33},
    "pruning.fraction: got 0.01": {"pruning.fraction": 0.01},
    "tasks.topic.labels": {"tasks.topic.labels": ["sea", "wood"]},
    "transfer.samples": {"transfer": {"tasks": ["match"], "samples": [4, 5000], "methods": ["pretrained"]}},
    "similarity.sentences": {"mixtures": THREE, "similarity": {"measures": ["cka"], "sentences": "texts"}},
    "brain.stimuli": {"mixtures": THREE, "similarity.measures": ["cnm"],
                      "brain": {"stimuli": "texts/topic.tsv", "responses": "texts"}},
}  # fmt: skip


@pytest.mark.parametrize("told", REFUSED)
def test_a_study_that_cannot_be_run_is_refused(here, told):
    with pytest.raises(HeadspecError) as error:
        preflight.check(preflight.load(changed(CONFIG, REFUSED[told])))
    assert str(error.value).startswith(told)


@pytest.mark.slow
def test_a_study_that_snakemake_refuses_is_refused_with_the_same_message(here):
    here.write(changed(CONFIG, {"tasks.tone.label": "lable", "models.bert.sha256": "0" * 64}))
    with pytest.raises(HeadspecError) as error:
        report("config.yaml", rate=RATE)
    told = here.snakemake("--dry-run", fails=True).split("the study cannot be run:\n")[1]
    assert told.split("\n  File ")[0].strip() == str(error.value) and str(error.value).count("\n") == 1
