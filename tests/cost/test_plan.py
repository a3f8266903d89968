"""The plan of a study, and studies that it refuses. No times are tested."""

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import datasets
import huggingface_hub
import pytest

from headspec.config import loading
from headspec.config.sections.model import Model
from headspec.config.study import Study
from headspec.cost import graph, throughput, workload
from headspec.cost.passes import PASSES
from headspec.cost.plan import Plan
from headspec.cost.report import counted, report
from headspec.cost.throughput import Speed
from headspec.data.tasks_read import TasksRead
from headspec.errors import ConfigError, HeadspecError, ModelError
from headspec.live.jobs import seconds as forecast_seconds
from headspec.models.pretrained import folders
from headspec.pipeline import preflight
from support import language
from support.running.studies import CONFIG, changed, prompted, study
from support.tiny import encoder

RATE = 1e6
PAIR, THREE = {"pairs": ["tone", "topic"]}, {"pairs": ["tone", "topic", "match"]}


def planned(config: Study, gpus: int = 0, rate: float = RATE) -> Plan:
    extent = workload.study_extent(config)
    speed = Speed({model: dict.fromkeys(PASSES, rate) for model in extent.configs}, 0.0, 0.0)
    return Plan(extent, graph.jobs(config, TasksRead()), speed, "as given", 2, gpus)


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


def test_the_stage_that_costs_most_is_named_with_its_task_and_the_setting_that_reduces_it(here):
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


def test_measuring_waits_for_modules_alone():
    """What a server calls after an import is no module, and would be waited for forever."""
    waited = re.findall(r"'([^']+)'", throughput.READY)
    assert waited and all(importlib.util.find_spec(name) for name in waited)


def test_training_on_two_gpus_takes_half_the_time_of_one(here):
    """One run: it has two GPUs beside nothing else, or one of the two."""
    rows = {}
    for gpus in (1, 2):
        models = {"bert": CONFIG["models"]["bert"] | {"gpus": gpus}}
        one = study(seeds=[0], methods=["tuned"], mixtures=PAIR, models=models)
        plan = planned(one, gpus=2, rate=1e4)
        rows[gpus] = row(plan, "train")
        told = "bert: training on 2 GPUs is 2 times as fast as on one" in [*plan.assumptions()]
        assert told == (gpus == 2)
    assert rows[2][0] == pytest.approx(rows[1][0], rel=1e-3)
    assert rows[1][1] == pytest.approx(2 * rows[2][1], rel=1e-2)
    here.set("models.bert.gpus", 2)
    with pytest.raises(ConfigError, match="models.bert.gpus: got 2, but jobs may use 1 here"):
        report("config.yaml", rate=1e4, gpus=1)


def test_gpus_that_hold_layers_wait_for_each_other(here):
    """Two take twice the hours of one, and as long. Runs that train nothing have no checkpoints."""
    words = language.answers(language.make("llama", Path("llama"))).values()
    answers = dict(zip(["good", "bad"], words, strict=True))
    rows = {}
    for gpus in (1, 2):
        model = {"max_length": 60, "gpus": gpus}
        config = prompted(model, prompt=language.PROMPT, answers=answers, shots=2)
        plan = planned(config, gpus=gpus, rate=1e3)
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
    atlas = {"examples": 40, "rankings": ["importance", "mine", "other"]}
    sections = {"methods": ["tuned", "atlas"], "atlas": atlas, "importance": {"samples": 40}}
    plan = planned(study(**sections, mixtures=PAIR, plugins=["own_measures.py"]))
    counted = plan.work.groupby("stage").sum()
    assert counted["measured"] == counted["importance"] > 0
    assert {job.wildcards["measure"] for job in plan.jobs if job.stage == "derived"} == {"other"}
    assert "mine: a forward and a backward pass over the examples of the atlas" in [*plan.assumptions()]


def test_runs_save_what_they_learn_of_the_encoder(here):
    """Frozen runs save classifiers, which count for nothing."""
    iat = {"mixtures": ["tone+topic"], "controls": []}
    plan = planned(
        study(
            methods=["tuned", "frozen", "lora", "iat", "gates"],
            training=CONFIG["training"] | {"lora": {"rank": 2}},
            iat=iat,
            gates={"mixtures": ["tone+topic"], "kept": [0.5], "pruning_methods": ["importance", "l0"],
                   "keep_models": ["l0"]},
        )
    )  # fmt: skip
    whole = 4 * throughput.parameters(plan.extent.configs["bert"])
    # rank x (in + out) of six matrices in each of two layers, 4 bytes each
    adapters = 4 * 2 * 2 * (4 * (32 + 32) + 2 * (32 + 48))
    learnt = {method: plan.learnt("bert", method) for method in ("tuned", "iat", "lora", "frozen")}
    assert learnt == {"tuned": whole, "iat": whole, "lora": adapters, "frozen": 0}
    models = [job for job in plan.jobs if any("model.safetensors" in path for path in job.outputs)]
    assert {job.rule for job in models} >= {"train", "train_and_keep", "retrain", "pruned_run_and_keep"}
    n = {method: sum(job.wildcards["method"] == method for job in models) for method in ("lora", "frozen")}
    assert plan.saved() == {"bert": (len(models) - sum(n.values())) * whole + n["lora"] * adapters}
    assert min(n.values()) > 0
    states = 3 * whole * 2 * 2  # trunk, branch; two seeds
    kept = "{:,.2f} GB states from which IAT continues"
    assert kept.format(states / 1e9) in plan.disk()
    before = planned(study(iat=iat))  # which may run later
    assert kept.format(states / 1e9) in before.disk() and "train_and_keep" in {
        job.rule for job in before.jobs
    }
    assert "states" not in planned(study(methods=["tuned"])).disk()


# --- the text


def test_the_plan_lists_its_jobs_and_assumptions(here, capsys):
    report("config.yaml", rate=RATE, cores=4, gpus=0)
    text, plan = capsys.readouterr().out, planned(study())
    stages = {line.split()[0]: line.split()[1] for line in text.split("\n\n")[1].splitlines()[1:]}
    counts = {stage: str(len(each)) for stage, each in graph.by_stage(plan.jobs).items()}
    n = len(plan.jobs)
    assert stages == counts | {"total": str(n)}
    for said in (
        "with 4 cores",
        "core hours",
        f"tone: {plan.extent.sizes['tone'].train} training and 60 validation examples, as read here",
        f"tone: {plan.extent.lengths['bert', 'tone'].example} tokens per example, counted in a sample\n",
        "bert: train 0.0, importance 0.0, prune 0.0 GFLOP/s, as given",
        "start of a job: 6.0 s with a model, 3.0 s without",
        f"\n  {n} jobs; a dry run counts its target as well, so one more\n",
        "hours, wall time and checkpoints for 4 cores\n",
        f"\n{'total':<17} {n:6,} {plan.work.sum() / 1e15:12,.3f} ",
    ):
        assert said in text


@pytest.mark.slow
def test_measuring_is_said_and_remembered(here, capfd, monkeypatch):
    """But not one measured on a busier machine."""

    def told(load: float) -> tuple[str, str]:
        monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
        text, problem = counted(study(), TasksRead(), [], [], 1, 0, None, sys.executable)
        assert not problem
        return text, capfd.readouterr().err

    first, said = told(2.0)
    assert said == "measuring the speed of bert, which takes minutes where models are large; the next plan " \
        "remembers it\n"  # fmt: skip
    assert "measured here with 1 job at once (load before that: 2.0)" in first
    for load in (1.6, 9.0):
        assert told(load) == (first.replace("measured here with", "measured here earlier with"), "")
    assert told(0.5)[1] == said and told(2.0)[1] == ""
    (stored,) = Path(".snakemake/headspec").glob("speed-*")
    name = stored.name.removeprefix("speed-")
    assert throughput.read_speed(name, 0.5)
    stored.write_text(stored.read_text().replace('"load": 0.5', '"load": 0.4'))
    assert throughput.read_speed(name, 0.5) is None


def test_a_missing_gpu_needs_a_rate(here, capsys):
    with pytest.raises(HeadspecError, match="give --rate"):
        report("config.yaml", gpus=3)
    report("config.yaml", gpus=3, rate=2e14)
    assert "GPU hours" in capsys.readouterr().out


# --- what is missing or wrong


@pytest.fixture
def refused(here, capsys) -> Callable[[], tuple[str, str]]:
    """Plans the study: the error, and what was printed before it."""

    def ended() -> tuple[str, str]:
        with pytest.raises(HeadspecError) as error:
            report("config.yaml", rate=RATE)
        return str(error.value), capsys.readouterr().out

    return ended


def test_the_plan_first_says_what_it_imports(here, refused, monkeypatch):
    """Also where the import fails."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("of_this_plan.py").write_text("print('imported')\n1 / 0\n")
    here.set("plugins", ["of_this_plan.py"])
    error, said = refused()
    assert "of_this_plan.py, line 2: ZeroDivisionError" in error
    assert said == "plugins: imports of_this_plan.py\nimported\n"


def test_missing_files_are_named_beside_mistakes_in_the_config(here, refused):
    wrong = {"training.lr": 1, "tasks.tone.source": "texts/tones"}
    here.write(changed(CONFIG, wrong | {"models.bert.source": "package:nowhere/model"}))
    error, _ = refused()
    assert sorted(line.split(": ")[0] for line in error.splitlines()) == [
        "models.bert.source", "tasks.tone.source", "training.lr",
    ]  # fmt: skip
    assert error.endswith("Did you mean 'tone'?")


def test_missing_files_are_named_after_the_plan_in_which_numbers_replace_their_texts(here, refused):
    """Those which only the machine with the jobs has; with other errors there is no plan."""
    gone = {"source": "texts/topics.tsv", "train_examples": 1000, "validation_examples": 70}
    tasks = CONFIG["tasks"] | {"topic": gone, "pair": {"pairs_of": "topic", "train_examples": 300}}
    similarity = {"measures": ["cka"], "sentences": "texts/gone.txt"}
    here.write(CONFIG | {"mixtures": THREE, "similarity": similarity, "tasks": tasks})
    error, said = refused()
    heading, topic, sentences = error.splitlines()
    assert heading == "not here, so not checked:"
    assert topic.startswith("tasks.topic.source: no file") and topic.endswith("Did you mean 'topic.tsv'?")
    assert sentences.startswith("similarity.sentences: no file or folder 'gone.txt'")
    assert "topic: 1,000 training and 70 validation examples, from the config" in said
    assert "pair: 300 training and 70 validation examples, from the config" in said
    assert "topic: 16 tokens per example, assumed: " in said  # 25, limited by max_length
    here.set("tasks.tone.label", "lable")
    error, said = refused()
    assert error.startswith("tasks.tone.label: no column") and not said
    assert "\nsimilarity.sentences: no file" in error


def test_runs_of_missing_models_and_tasks_are_left_out(here, refused):
    here.set("models.far", {"source": "models/nowhere"})
    here.set("models.packed", {"source": "package:nothing/model"})
    here.set("tasks.topic", {"source": "gone.csv", "train_examples": 1000})
    error, said = refused()
    assert error.startswith("16 of 18 runs are left out") and "bert: " in said and "match: " in said
    for told in (
        "no file or folder 'gone.csv'",
        "tasks.topic.validation_examples: missing",
        "\nmodels.far.source: no ",
        "\nmodels.packed.source: no ",
    ):
        assert told in error


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
    here, refused, monkeypatch, no_hub, caplog
):
    """The libraries of the hub would ask it six times, and log that."""
    source = f"hub:someone/far@{'0' * 40}"
    here.set("models.far", {"source": source})
    sizes = {"train_examples": 90, "validation_examples": 30}
    here.set("tasks.match", {"source": "hub:someone/texts@1"} | sizes)
    said = list(map(str, preflight.unavailable(loading.load(here.config))))
    assert [each.split(": '")[0] for each in said] == ["models.far.source", "tasks.match.source"]
    assert all("' is not in the cache " in each and "no connection to the hub" in each for each in said)
    error, text = refused()
    assert error.startswith("6 of 12 runs are left out") and set(said) <= set(error.splitlines())
    assert "match: 90 training" in text
    assert not [record for record in caplog.records if not record.name.startswith("snakemake")]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # as jobs, without waiting
    with pytest.raises(ModelError, match=re.escape(said[0].split(" (")[0])):
        folders.folder(Model(source=source), "models.far")


def test_a_hub_model_needs_only_its_config(here, tmp_path, monkeypatch):
    encoder("bert").config.save_pretrained(tmp_path)
    monkeypatch.setattr(folders, "hub_unreachable", lambda: "")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    far = {"source": "hub:someone/far@main", "max_length": 40}
    extent = workload.study_extent(study(models={"far": far}))
    assert extent.problems == [] and not any(n.counted for n in extent.lengths.values())
    lengths = {task: n.example for (_, task), n in extent.lengths.items()}
    assert lengths == {"tone": 25, "topic": 25, "match": 40}


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
def test_a_study_that_snakemake_refuses_is_refused_with_the_same_message(here, refused):
    here.write(changed(CONFIG, {"tasks.tone.label": "lable", "models.bert.sha256": "0" * 64}))
    error, _ = refused()
    told = here.snakemake("--dry-run", fails=True).split("the study cannot be run:\n")[1]
    assert told.split("\n  File ")[0].strip() == error and error.count("\n") == 1
