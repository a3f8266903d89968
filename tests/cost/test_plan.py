"""The plan of a study: operations by hand, jobs by Snakemake, and messages. No times are tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import datasets
import huggingface_hub
import numpy as np
import pytest
from transformers import AutoConfig

from headspec.config import hub, loading
from headspec.config.sections.model import Model
from headspec.config.study import Study
from headspec.cost import graph, operations, plan, throughput, workload
from headspec.cost.operations import of_job
from headspec.cost.report import report
from headspec.cost.requests import LEAST, SLOWEST, Requests
from headspec.cost.stages import STAGES, expected_examples
from headspec.cost.throughput import PASSES, Speed
from headspec.cost.workload import Extent
from headspec.data import prepare
from headspec.data.planned import Planned
from headspec.errors import ConfigError, EncoderError, HeadspecError
from headspec.live.jobs import seconds as forecast_seconds
from headspec.models.pretrained import folders
from headspec.pipeline import preflight
from headspec.pipeline.inputs import Inputs
from headspec.pipeline.layout import Layout
from support import language
from support.paths import ROOT
from support.running.studies import CONFIG, Folder
from support.tiny import CPU, LAYERS, TYPES, encoder

T, WIDTH, INNER = 12, 32, 48
ATTENTION = 4 * LAYERS * WIDTH * T**2
RATE = 1e9


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Folder:
    return Folder.new(tmp_path_factory.mktemp("plan") / "study")


@pytest.fixture
def here(folder, monkeypatch) -> Folder:
    """The tiny study, in whose folder the test runs."""
    monkeypatch.chdir(folder.path)
    folder.write(CONFIG)
    return folder


def study(**sections) -> Study:
    return loading.load(CONFIG | sections)


def total(config: Study) -> dict[tuple[str, str, str, str], float]:
    return operations.operations(workload.read(config), graph.jobs(config, Planned()))


def work(config: Study) -> dict[str, float]:
    """Stage: operations."""
    values = total(config)
    return {stage: plan._sum(values, stage=stage) for stage in ("features", *PASSES)}


def examples(extent: Extent, stage: str, **wildcards: str) -> dict[str, float]:
    """Task: examples of a job of the first model and seed."""
    wildcards = {"model": "bert", "seed": "0"} | wildcards
    return {load.task: load.examples for load in operations.loads(extent, stage, wildcards)}


# --- operations


def test_operations_of_bert_by_hand():
    """2 P T for the P weights of the layers, 4 L d t^2 for attention, 2 d^2 for the pooler."""
    matrices = LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    expected = 2 * matrices * T + ATTENTION + 2 * WIDTH**2
    assert throughput.forward(encoder("bert").config, T, 1) == expected
    assert throughput.forward(encoder("bert").config, T, 5) == expected


def test_shared_layers_count_as_often_as_they_run():
    """ALBERT's layers are those of BERT; its embeddings, of 16 numbers, are widened first."""
    bert, albert = (throughput.forward(encoder(kind).config, T, 1) for kind in ("bert", "albert"))
    assert albert == bert + 2 * 16 * WIDTH * T


def test_grouped_queries_have_smaller_matrices():
    """Llama: keys and values of half the width, three matrices in the feed-forward part, no pooler."""
    matrices = LAYERS * (2 * WIDTH**2 + 2 * WIDTH * WIDTH // 2 + 3 * WIDTH * INNER)
    assert throughput.forward(encoder("llama").config, T, 1) == 2 * matrices * T + ATTENTION


@pytest.mark.parametrize("kind", TYPES)
def test_every_architecture_can_be_counted(kind):
    full = encoder(kind)
    assert throughput.forward(full.config, T, 4) >= ATTENTION
    assert throughput.parameters(full.config) == sum(p.numel() for p in full.parameters())


@pytest.mark.parametrize("kind", ("bert", "distilbert", "modernbert", "llama", "lfm2"))
def test_the_measured_model_has_the_same_widths_and_fewer_layers(kind):
    full = encoder(kind).config
    small = throughput.reduced(full)
    assert small.num_hidden_layers == throughput.LAYERS < full.num_hidden_layers
    assert (small.hidden_size, small.num_attention_heads) == (full.hidden_size, full.num_attention_heads)
    rates = throughput.measure(full, T, 4, CPU, 0.0)
    assert set(rates) == set(PASSES) and min(rates.values()) > 0


# --- examples


def test_examples_of_a_run(here):
    extent = workload.read(study())
    assert extent.problems == [] and all(extent.counted.values())
    prepared = {name: prepare.prepare(name, task, 0) for name, task in extent.study.tasks.items()}
    assert {n: len(p.train) for n, p in prepared.items()} == {n: s.train for n, s in extent.sizes.items()}
    tuned, frozen = ({"mixture": "tone+topic", "method": method} for method in ("tuned", "frozen"))
    tone = extent.sizes["tone"]
    assert examples(extent, "train", **tuned)["tone"] == 4 * tone.train
    assert examples(extent, "train", **frozen) == {"tone": 0, "topic": 0}
    drawn = workload.read(study(models={"bert": CONFIG["models"]["bert"] | {"weights": "random"}}))
    assert examples(drawn, "train", **frozen)["tone"] == 3 * tone.train  # no seed has another's vectors
    assert examples(extent, "importance", **tuned) == {"tone": 60, "topic": 60}
    # unpruned; top and bottom heads of 2 tasks at 3 fractions; 4 draws of each of 2 kinds
    assert examples(extent, "prune", **tuned)["tone"] == (1 + 2 * 2 * 3 + 2 * 4) * tone.validation
    assert examples(extent, "data", task="tone") == examples(extent, "train", **tuned, model="far") == {}


def test_draws_on_a_part_of_the_examples_cost_less(here):
    extent = workload.read(study(pruning=CONFIG["pruning"] | {"draw_examples": 10}))
    assert examples(extent, "prune", mixture="tone+topic", method="tuned")["topic"] == 13 * 50 + 8 * 10


@pytest.mark.parametrize("sampling", ("sqrt", "annealed"))
def test_sampling_changes_the_shares_of_tasks_but_not_the_number_of_batches(here, sampling):
    training = CONFIG["training"] | {"sampling": sampling}
    extent = workload.read(study(training=training))
    trained = expected_examples(extent.study, {"long": 160, "short": 32}, sampling)
    assert sum(trained.values()) == pytest.approx(4 * 192)
    assert trained["short"] > 4 * 32


@pytest.mark.slow
def test_doubling_a_setting_doubles_its_cost(here):
    plain = work(study())
    frozen = work(study(methods=["frozen"], mixtures={"pairs": ["tone", "topic"]}))
    assert frozen["train"] == 0 and frozen["features"] == plain["features"] > 0
    epochs = work(study(training=CONFIG["training"] | {"epochs": 8}))
    assert epochs == plain | {"train": 2 * plain["train"]}
    seeds = {stage: n if stage == "features" else 2 * n for stage, n in plain.items()}
    assert work(study(seeds=[0, 1, 2, 3])) == seeds
    extent, tasks = workload.read(study()), ("tone", "topic")
    once = [
        throughput.forward(extent.configs["bert"], extent.tokens["bert", t], 16) * extent.sizes[t].train
        for t in tasks
    ]
    assert frozen["features"] == pytest.approx(sum(once), rel=1e-12)
    samples = work(study(importance={"samples": 30}))
    assert samples == plain | {"importance": plain["importance"] / 2}
    masks = {name: work(study(pruning=CONFIG["pruning"] | {"draws": n})) for name, n in (("4", 4), ("8", 8))}
    extent = workload.read(study())
    per_mask = sum(
        throughput.forward(extent.configs["bert"], extent.tokens["bert", task], 16)
        * extent.sizes[task].validation
        for run in extent.runs
        if run.method != "single"
        for task in run.tasks
    )
    assert masks["8"]["prune"] - masks["4"]["prune"] == pytest.approx(8 * per_mask, rel=1e-12)


def test_the_other_ends_of_rankings_are_counted(here):
    atlas = {"rankings": ["importance", "rescored"], "fractions": [0.25, 0.5], "draws": 2, "examples": 40}

    def cumulative(bottom: bool) -> dict[str, float]:
        config = study(methods=["tuned", "atlas"], atlas=atlas | {"bottom": bottom})
        loads = total(config).items()
        return {
            kind: value for (_, stage, kind, task), value in loads if (stage, task) == ("cumulative", "tone")
        }

    one, both = cumulative(False), cumulative(True)
    assert both["importance"] == 2 * one["importance"] > 0
    # no and all heads; three levels of two rankings, the one for all tasks and two random orders; two
    # rankings of the other task
    assert both["prune"] / one["prune"] == pytest.approx((2 + 3 * (6 + 2) + 2) / (2 + 3 * (3 + 2) + 2))


# --- the text


def test_jobs_request_time_by_their_operations(here):
    """On two GPUs, and on threads; the least where nothing is trained."""
    inputs = Inputs(Layout(study(training=CONFIG["training"] | {"epochs": 10**9})))
    run = {"model": "bert", "mixture": "tone+topic", "method": "tuned", "seed": "0"}
    for gpus, threads, rate in ((2, 2, 2 * SLOWEST["gpu"]), (0, 4, 4 * SLOWEST["thread"])):
        requests = Requests(inputs, gpus, threads, timed=True)
        count = of_job(requests.extent, "train_and_keep", run)
        assert (
            count and requests.minutes("train_and_keep", run, 7) == LEAST + int(count / rate / 60) > 2 * LEAST
        )
        assert requests.minutes("train", run | {"method": "frozen"}, 7) == LEAST
        assert requests.minutes("predict", run, 7) == 7


def test_seconds_are_operations_by_the_rate(here):
    extent, work = workload.read(study()), total(study())
    given = Speed([dict.fromkeys(PASSES, RATE)], 0.0, 0.0)
    assert plan.seconds_of(extent, work, given) == {key: n / RATE for key, n in work.items()}


@pytest.mark.slow
def test_the_stage_that_costs_most_is_named(here, capsys):
    """With its task and the setting that reduces it, which works."""
    here.set("methods", ["tuned", "iat"])
    here.set("iat.mixtures", ["tone+topic"])
    here.set("transfer", {"tasks": ["match"], "samples": [4, 16], "steps": 5, "batch_size": 4})
    here.set("tasks.match.validation_examples", 100)

    def told() -> int:
        report("config.yaml", rate=1e4, gpus=0)
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "costs most" in line]
        lower = "to reduce it, lower tasks.match.validation_examples"
        words = rf"transfer costs most: (\d+) % of .* for match; {lower}"
        return int(re.fullmatch(words, line)[1])

    counted = total(loading.load(here.config))
    share = plan._sum(counted, stage="transfer") / plan._sum(counted)
    assert told() == round(100 * share)
    here.set("tasks.match.validation_examples", 80)
    assert told() < round(100 * share)


@pytest.mark.slow
def test_jobs_that_share_a_gpu_take_less_of_it(here, capsys):
    """At the same rate per job, two jobs on a GPU halve the GPU hours and the wall time."""
    hours = {}
    for share in (1, 2):
        here.set("jobs_per_gpu", share)
        report("config.yaml", rate=1e4, gpus=1)
        rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("train ")]
        hours[share] = float(rows[0][3].replace(",", ""))
    assert hours[1] == pytest.approx(2 * hours[2], rel=1e-3) and hours[2] > 50


def test_training_on_two_gpus_takes_half_the_time_of_one(here, capsys):
    """One run: it has two GPUs beside nothing else, or one of the two."""
    for key, value in {"seeds": [0], "methods": ["tuned"], "mixtures.single": []}.items():
        here.set(key, value)
    hours, seconds = {}, {}
    for gpus in (1, 2):
        here.set("models.bert.gpus", gpus)
        report("config.yaml", rate=1e4, gpus=2)
        text = capsys.readouterr().out
        row, *_ = (line.split(maxsplit=4) for line in text.splitlines() if line.startswith("train "))
        hours[gpus], seconds[gpus] = float(row[3].replace(",", "")), forecast_seconds(row[4])
        assert ("bert: training on 2 GPUs is 2 times as fast as on one" in text) == (gpus == 2)
    assert hours[2] == pytest.approx(hours[1], rel=1e-3) and seconds[1] == pytest.approx(
        2 * seconds[2], rel=1e-2
    )
    with pytest.raises(ConfigError, match="models.bert.gpus: got 2, but jobs may use 1 here"):
        report("config.yaml", rate=1e4, gpus=1)


def test_the_plan_lists_its_assumptions(here, capsys):
    report("config.yaml", rate=1e6, cores=4, gpus=0)
    text = capsys.readouterr().out
    extent = workload.read(study())
    stages = {line.split()[0]: line.split()[1] for line in text.split("\n\n")[1].splitlines()[1:]}
    jobs = graph.jobs(study(), Planned())
    of_stage = {stage: str(len(each)) for stage, each in graph.by_stage(jobs).items()}
    assert stages == of_stage | {"total": str(len(jobs))}
    assert "with 4 cores" in text and "core hours" in text
    tone = extent.sizes["tone"]
    assert f"tone: {tone.train} training and 60 validation examples, as read here" in text
    assert f"tone: {extent.tokens['bert', 'tone']} tokens per example, counted in a sample\n" in text
    assert "bert: train 0.0, importance 0.0, prune 0.0 GFLOP/s, as given" in text
    assert "start of a job: 6.0 s with a model, 3.0 s without" in text


def test_frozen_runs_save_no_encoder(here, monkeypatch):
    monkeypatch.setattr(throughput, "parameters", lambda config: 10**9)
    tuned, both = (workload.read(study(methods=methods)) for methods in (["tuned"], ["tuned", "frozen"]))
    assert len(both.runs) > len(tuned.runs)
    for extent in (tuned, both):
        jobs = graph.jobs(extent.study, Planned())
        (disk,) = plan.disk(extent, jobs, 1)
        assert f" {4 * len(tuned.runs)}.00 GB models, " in disk
        (of_bert,) = list(plan.models(extent, jobs, {}, "core hours"))[1:-1]
        assert of_bert.endswith(f" {4 * len(tuned.runs)}.00 GB")


def test_adapters_take_no_gradients_of_weights_and_little_space(here):
    """A step is a forward pass and the backward pass of states; what is saved are adapters alone."""
    mixtures, training = {"pairs": ["tone", "topic"]}, CONFIG["training"] | {"lora": {"rank": 2}}
    tuned = workload.read(study(mixtures=mixtures, methods=["tuned"]))
    lora = workload.read(study(mixtures=mixtures, methods=["lora"], training=training))
    run = {"model": "bert", "mixture": "tone+topic", "seed": "0"}
    counts = [of_job(e, "train", run | {"method": m}) for e, m in ((tuned, "tuned"), (lora, "lora"))]
    assert counts[0] and counts[1] == pytest.approx(2 / 3 * counts[0])
    assert examples(lora, "train", **run, method="lora") == examples(tuned, "train", **run, method="tuned")
    # rank x (in + out) of six matrices in each of two layers, 4 bytes each
    assert plan.learnt(lora, "bert", "lora") == 4 * 2 * 2 * (4 * (32 + 32) + 2 * (32 + 48))
    assert plan.learnt(tuned, "bert", "tuned") == 4 * throughput.parameters(tuned.configs["bert"])
    assert plan.learnt(lora, "bert", "frozen") == 0


def prompted(**settings: object) -> Extent:
    """A study of prompts for one model with these settings."""
    path = Path("llama")
    words = language.answers(path if path.exists() else language.make("llama", path)).values()
    answers = dict(zip(["good", "bad"], words, strict=True))
    task = CONFIG["tasks"]["tone"] | {"prompt": language.PROMPT, "answers": answers, "shots": 2}
    return workload.read(
        study(
            models={"llama": {"source": "llama", "max_length": 60} | settings},
            tasks={"tone": task, "other": task},
            mixtures={"pairs": ["tone", "other"]},
            methods=["prompted"],
        )
    )


def test_gpus_that_hold_layers_wait_for_each_other(here):
    """Two take twice the hours of one, and as long."""
    hours = {}
    for gpus in (1, 2):
        extent, rates = prompted(gpus=gpus), Speed([dict.fromkeys(PASSES, 1e3)], 0.0, 0.0)
        jobs, said = graph.jobs(extent.study, Planned()), [*plan.assumptions(extent, rates, "as given")]
        seconds = plan.seconds_of(extent, operations.operations(extent, jobs), rates)
        lines = plan.stages(extent, jobs, {}, seconds, rates, 2, gpus)
        (row,) = [line.split(maxsplit=4) for line in lines if line.startswith("prune ")]
        hours[gpus] = float(row[3].replace(",", "")), forecast_seconds(row[4])
        assert ("llama: 2 GPUs hold its layers, and work one after another" in said) == (gpus == 2)
    assert hours[2] == pytest.approx((2 * hours[1][0], hours[1][1]), rel=1e-2)


def test_prompted_runs_train_nothing_and_have_no_checkpoints(here):
    extent = prompted()
    (disk,) = plan.disk(extent, graph.jobs(extent.study, Planned()), 1)
    assert "checkpoints" not in disk and " models" not in disk
    rates = Speed([dict.fromkeys(PASSES, 1e9)], 1.0, 1.0)
    lines = list(plan.assumptions(extent, rates, "as given"))
    assert f"tone: {extent.prompts['llama', 'tone']} tokens per prompt, counted in a sample" in lines
    assert not [line for line in lines if "tokens per example" in line]


def test_states_that_iat_may_continue_are_kept_before_it_runs(here, capsys):
    """Training keeps a state of every run of `iat.mixtures`, also in a study that does not run IAT yet."""
    report("config.yaml", rate=1e9, gpus=0)
    here.set("iat.mixtures", ["tone+topic"])
    assert "states from which IAT continues" not in capsys.readouterr().out
    report("config.yaml", rate=1e9, gpus=0)
    assert "states from which IAT continues" in capsys.readouterr().out
    assert "train_and_keep" in {job.rule for job in graph.jobs(loading.load(here.config), Planned())}


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
        report("config.yaml", rate=1e9)
    text = capsys.readouterr().out
    assert "topic: 1,000 training and 70 validation examples, from the config" in text
    assert "pair: 300 training and 70 validation examples, from the config" in text
    assert "topic: 16 tokens per example, assumed: " in text  # 25, limited by max_length


def test_a_task_without_texts_and_sizes_is_named(here, capsys):
    here.set("tasks.topic", {"source": "texts/gone.csv", "train_examples": 1000})
    with pytest.raises(HeadspecError) as error:
        report("config.yaml", rate=1e9)
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
    here.set(
        "tasks.match", {"source": "hub:someone/texts@1", "train_examples": 90, "validation_examples": 30}
    )
    said = list(map(str, preflight.unavailable(loading.load(here.config))))
    assert [each.split(": '")[0] for each in said] == ["models.far.source", "tasks.match.source"]
    assert all("' is not in the cache " in each and "no connection to the hub" in each for each in said)
    with pytest.raises(HeadspecError, match="6 of 12 runs are left out(.|\n)*models.far.source: ") as error:
        report("config.yaml", rate=1e9)
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
    extent = workload.read(study(models={"far": {"source": "hub:someone/far@main", "max_length": 40}}))
    assert extent.problems == [] and not any(extent.counted.values())
    assert extent.tokens == {("far", "tone"): 25, ("far", "topic"): 25, ("far", "match"): 40}


@pytest.mark.parametrize("source", ["models/nowhere", "package:nothing/model"], ids=["local", "package"])
def test_a_missing_local_model_is_named_by_its_key(here, capsys, source):
    here.set("models.far", {"source": source})
    with pytest.raises(HeadspecError, match=r"6 of 12 runs are left out(.|\n)*\nmodels\.far\.source: no "):
        report("config.yaml", rate=1e9)
    assert "bert: " in capsys.readouterr().out


def test_a_wrong_study_ends_with_the_workflow_s_message(here):
    here.set("models.bert.max_lenght", 20)
    with pytest.raises(ConfigError) as error:
        loading.load(here.config)
    command = [sys.executable, "-m", "headspec", "plan", "config.yaml"]
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT / "workflow")}, text=True, capture_output=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"{error.value}\n")


def test_missing_files_are_named_beside_mistakes_in_the_config(here):
    here.set("training.lr", 1)
    here.set("tasks.tone.source", "texts/tones")
    here.set("models.bert.source", "package:nowhere/model")
    here.set("tasks.topic.source", "")
    with pytest.raises(ConfigError) as error:
        report("config.yaml", rate=1e9)
    assert sorted(line.split(": ")[0] for line in str(error.value).splitlines()) == [
        "models.bert.source", "tasks.tone.source", "tasks.topic.source", "training.lr",
    ]  # fmt: skip
    assert str(error.value).endswith("Did you mean 'tone'?")


def test_a_plan_says_what_its_numbers_are_of(here, capsys):
    report("config.yaml", cores=3, rate=1e9)
    text = capsys.readouterr().out
    total = re.search(r"^total +(\d+) ", text, re.MULTILINE)[1]
    assert f"\n  {total} jobs; a dry run counts its target as well, so one more\n" in text
    assert "hours, wall time and checkpoints for 3 cores\n" in text


THREE = {"mixtures": {"pairs": ["tone", "topic", "match"]}}
REFUSED = {
    "column": {"tasks.tone.text_a": "sentense"},
    "positions": {"models.bert.max_length": 33},
    "no head": {"pruning.fraction": 0.01},
    "labels": {"tasks.topic.labels": ["sea", "wood"]},
    "samples": {"transfer.tasks": ["match"], "transfer.samples": [4, 5000]},
    "sentences": THREE | {"similarity.measures": ["cka"], "similarity.sentences": "texts"},
    "brain": THREE
    | {"similarity.measures": ["cnm"], "brain": {"stimuli": "texts/topic.tsv", "responses": "texts"}},
    "two at once": {"tasks.tone.label": "lable", "models.bert.sha256": "0" * 64},
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_a_study_that_snakemake_refuses_is_refused_with_the_same_message(here, changes):
    for key, value in changes.items():
        here.set(key, value)
    with pytest.raises(HeadspecError) as error:
        report("config.yaml", rate=1e9)
    told = here.snakemake("--dry-run", fails=True).split("the study cannot be run:\n")[1]
    assert told.split("\n  File ")[0].strip() == str(error.value) != ""


def test_missing_files_are_named_after_the_plan(here, capsys):
    """Those which only the machine with the jobs has; with other errors there is no plan."""
    here.set("mixtures", THREE["mixtures"])
    here.set("similarity", {"measures": ["cka"], "sentences": "texts/gone.txt"})
    here.set("tasks.topic", {"source": "texts/topics.tsv", "train_examples": 100, "validation_examples": 50})
    with pytest.raises(HeadspecError) as error:
        report("config.yaml", rate=1e9)
    heading, topic, sentences = str(error.value).splitlines()
    assert heading == "not here, so not checked:"
    assert topic.startswith("tasks.topic.source: no file") and topic.endswith("Did you mean 'topic.tsv'?")
    assert sentences.startswith("similarity.sentences: no file or folder 'gone.txt'")
    assert "topic: 100 training" in capsys.readouterr().out
    here.set("tasks.tone.label", "lable")
    with pytest.raises(
        HeadspecError, match="tasks.tone.label: no column(.|\n)*similarity.sentences: no file"
    ):
        report("config.yaml", rate=1e9)
    assert not capsys.readouterr().out


def test_every_stage_that_runs_a_model_is_counted(here):
    """And no other; what jobs of a stage compute is what the plan counts for it."""
    Path("heads.csv").write_text("layer,head\n0,1\n")
    config = study(
        models={"bert": CONFIG["models"]["bert"] | {"heads": {"mine": "heads.csv"}}},
        methods=["tuned", "frozen", "iat", "atlas", "gates"],
        mixtures={"pairs": ["tone", "topic", "match"]},
        gates={
            "mixtures": ["tone+topic"],
            "kept": [0.5],
            "pruning_methods": ["importance", "rescored", "l0", "dynamic"],
            "keep_models": ["l0"],
        },
        similarity={"measures": ["text", "cka", "fisher", "gradient", "importance"]},
        iat={"mixtures": ["tone+topic"], "controls": ["random", "rescored"], "deltas": [0.2, 0.1],
             "samplings": ["sqrt"]},
        transfer={"tasks": ["match"], "samples": [4, 16]},
    )  # fmt: skip
    extent, jobs, values = workload.read(config), graph.jobs(config, Planned()), total(config)
    passed = {(stage, kind) for _, stage, kind, _ in values}
    assert ("retrain", "importance") in passed
    assert all(STAGES[stage].reduced_by[kind] for stage, kind in passed)
    counted = {job.outputs: of_job(extent, job.rule, job.wildcards) for job in jobs}
    for stage, of_stage in graph.by_stage(jobs).items():
        known = [counted[job.outputs] for job in of_stage]
        assert (None in known) == (stage not in STAGES), stage
        assert sum(filter(None, known)) == pytest.approx(plan._sum(values, stage=stage)), stage
    assert {stage for _, stage, *_ in values} == STAGES.keys() - {
        "predict",
        "measured",
        "probe",
        "probe_pretrained",
        "probe_random",
    }
    of = [
        job.wildcards["method"]
        for job in jobs
        if any(path.endswith("model.safetensors") for path in job.outputs)
    ]
    of_encoder = 4 * throughput.parameters(extent.configs["bert"])
    assert plan._saved(extent, jobs)["bert"] == (len(of) - of.count("frozen")) * of_encoder
    assert {"pruned_run_and_keep", "attended_after"} <= {job.rule for job in jobs}


def test_gates_learn_once_for_all_numbers_of_heads(here):
    """What gates learn and what follows it are the further training of any other pruning method."""
    extent = workload.read(study(gates={"epochs": 3, "learning": 0.75, "rescorings": 5}))
    run = {"mixture": "tone+topic", "method": "tuned", "scope": "shared", "kept": "0.5"}
    run |= {"model": "bert", "seed": "0"}

    def trained(stage: str, method: str) -> float:
        loads = operations.loads(extent, stage, run | {"pruning_method": method})
        return sum(load.examples for load in loads if load.kind == "train")

    epoch = sum(extent.sizes[task].train for task in ("tone", "topic"))
    assert trained("pruned_run", "importance") == trained("pruned_run", "subset") == 3 * epoch
    assert (trained("learn_gates", "l0"), trained("pruned_run", "l0")) == (2.25 * epoch, 0.75 * epoch)
    assert trained("learn_gates", "dynamic") == (4 + 2.25) * epoch  # four in place of the run's training
    assert trained("pruned_run", "fresh") == (4 + 3) * epoch
    rescored = operations.loads(
        extent, "pruned_run", run | {"model": "bert", "seed": "0", "pruning_method": "rescored"}
    )
    assert [load.examples for load in rescored if load.kind == "importance"] == [5 * 60, 5 * 60]
    run["method"] = "frozen"  # gradients of gates go through the encoder
    assert (trained("learn_gates", "l0"), trained("pruned_run", "l0")) == (2.25 * epoch, 0.75 * epoch)


def test_the_plan_first_says_what_it_imports(here, monkeypatch, capsys):
    """Also where the import fails."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("of_this_plan.py").write_text("print('imported')\n1 / 0\n")
    here.set("plugins", ["of_this_plan.py"])
    with pytest.raises(ConfigError, match=r"of_this_plan\.py, line 2: ZeroDivisionError"):
        report("config.yaml", rate=1e9)
    assert capsys.readouterr().out == "plugins: imports of_this_plan.py\nimported\n"


def test_a_measure_of_ones_own_counts_as_much_as_importance(here, monkeypatch, capsys):
    """The plan says so; what is made of another table runs no model."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("own_measures.py").write_text(
        "from headspec.plugins import head_measure\n"
        "@head_measure('mine', 'mine')\ndef mine(model, task, examples, rows, device): ...\n"
        "@head_measure('other', 'other', of='relevance')\ndef other(table): ...\n"
    )
    config = study(
        methods=["tuned", "atlas"],
        importance={"samples": 40},
        mixtures={"pairs": ["tone", "topic"]},
        atlas={"examples": 40, "rankings": ["importance", "mine", "other"]},
        plugins=["own_measures.py"],
    )
    extent, jobs = workload.read(config), graph.jobs(config, Planned())
    values = operations.operations(extent, jobs)
    assert plan._sum(values, stage="measured") == plan._sum(values, stage="importance") > 0
    assert {job.wildcards["measure"] for job in jobs if job.stage == "derived"} == {"other"}
    said = list(plan.assumptions(extent, Speed([dict.fromkeys(PASSES, RATE)], 0.0, 0.0), "as given"))
    assert "mine: a forward and a backward pass over the examples of the atlas" in said


def test_a_saved_config_has_the_same_operations(tmp_path):
    full = encoder("modernbert").config
    full.save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    assert throughput.forward(again, T, 2) == throughput.forward(full, T, 2)


def test_the_figure_that_is_timed_can_be_drawn():
    exec(throughput.FIGURE, {})


def test_random_examples_have_one_length():
    texts = throughput.random_examples(5, T)
    assert np.array_equal(texts.lengths, [T] * 5) and texts.vocabulary().max() < throughput.VOCABULARY
