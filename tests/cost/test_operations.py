"""Operations of models by hand, and the examples that pass through them in the jobs of a study."""

from pathlib import Path

import numpy as np
import pytest

from headspec.cost import graph, throughput, workload
from headspec.cost.operations import job_operations, loads, operations
from headspec.cost.requests import LEAST, SLOWEST, Requests
from headspec.cost.stages import STAGES
from headspec.cost.workload import Extent
from headspec.data import prepare
from headspec.data.planned import Planned
from headspec.models.passes import PASSES, expected_examples
from headspec.pipeline.layout import Layout
from headspec.pipeline.settings import Settings
from support.running.studies import CONFIG, study
from support.tiny import CPU, LAYERS, TYPES, encoder

T, WIDTH, INNER = 12, 32, 48
ATTENTION = 4 * LAYERS * WIDTH * T**2
RUN = {"model": "bert", "mixture": "tone+topic", "method": "tuned", "seed": "0"}


def examples(extent: Extent, stage: str, **wildcards: str) -> dict[tuple[str, str], float]:
    """(pass, task): examples of a job."""
    return {(load.kind, load.task): load.examples for load, _ in loads(extent, stage, RUN | wildcards)}


# --- operations of a model


def test_operations_of_bert_by_hand():
    """2 P T for the P weights of the layers, 4 L d t^2 for attention, 2 d^2 for the pooler."""
    matrices = LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    expected = 2 * matrices * T + ATTENTION + 2 * WIDTH**2
    assert throughput.forward(encoder("bert").config, T, 1) == expected
    assert throughput.forward(encoder("bert").config, T, 5) == expected


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


def test_what_is_measured():
    exec(throughput.FIGURE, {})
    texts = throughput.random_examples(5, T)
    assert np.array_equal(texts.lengths, [T] * 5) and texts.vocabulary().max() < throughput.VOCABULARY


# --- examples of a job


def test_examples_of_a_run(here):
    extent = workload.study_extent(study())
    assert extent.problems == [] and all(n.counted for n in extent.lengths.values())
    prepared = {name: prepare.prepare(name, task, 0) for name, task in extent.study.tasks.items()}
    assert {n: len(p.train) for n, p in prepared.items()} == {n: s.train for n, s in extent.sizes.items()}
    tone = extent.sizes["tone"]
    assert examples(extent, "features", task="tone") == {("prune", "tone"): tone.train}
    assert examples(extent, "train")["train", "tone"] == 4 * tone.train
    assert [*examples(extent, "train", method="frozen").values()] == [0, 0]
    drawn = workload.study_extent(study(models={"bert": CONFIG["models"]["bert"] | {"weights": "random"}}))
    again = examples(drawn, "train", method="frozen")
    assert again["prune", "tone"] == 3 * tone.train  # no seed has another's vectors
    assert [*examples(extent, "importance").values()] == [60, 60]
    # unpruned; top and bottom heads of 2 tasks at 3 fractions; 4 draws of each of 2 kinds
    assert examples(extent, "prune")["prune", "tone"] == (1 + 2 * 2 * 3 + 2 * 4) * tone.validation
    assert examples(extent, "data", task="tone") == examples(extent, "train", model="far") == {}
    fewer = workload.study_extent(study(pruning=CONFIG["pruning"] | {"draw_examples": 10}))
    assert examples(fewer, "prune")["prune", "topic"] == 13 * 50 + 8 * 10


def test_operations_of_a_job_are_those_of_its_examples(here):
    extent = workload.study_extent(study())
    values = operations(extent, graph.jobs(extent.study, Planned()))
    for stage, factor in (("train", 3), ("importance", 2), ("prune", 1)):
        passed = examples(extent, stage).items()
        lengths = {task: extent.lengths["bert", task].example for (_, task), _ in passed}
        forward = {task: throughput.forward(extent.configs["bert"], n, 16) for task, n in lengths.items()}
        expected = sum(factor * n * forward[task] for (_, task), n in passed)
        assert job_operations(extent, stage, RUN) == pytest.approx(expected, rel=1e-12)
        assert values.xs((stage, stage), level=("stage", "kind"))["bert", "tone"] > 0


@pytest.mark.parametrize("sampling", ("sqrt", "annealed"))
def test_sampling_changes_the_shares_of_tasks_but_not_the_number_of_batches(sampling):
    trained = expected_examples(study(), {"long": 160, "short": 32}, sampling)
    assert sum(trained.values()) == pytest.approx(4 * 192)
    assert trained["short"] > 4 * 32


def test_adapters_take_no_gradients_of_weights(here):
    """A step is a forward pass and the backward pass of states."""
    mixtures, training = {"pairs": ["tone", "topic"]}, CONFIG["training"] | {"lora": {"rank": 2}}
    tuned = workload.study_extent(study(mixtures=mixtures, methods=["tuned"]))
    lora = workload.study_extent(study(mixtures=mixtures, methods=["lora"], training=training))
    counts = job_operations(tuned, "train", RUN), job_operations(lora, "train", RUN | {"method": "lora"})
    assert counts[0] and counts[1] == pytest.approx(2 / 3 * counts[0])
    passed = examples(tuned, "train"), examples(lora, "train", method="lora")
    assert [*passed[0].values()] == [*passed[1].values()]


def test_the_other_ends_of_rankings_are_counted(here):
    atlas = {"rankings": ["importance", "rescored"], "fractions": [0.25, 0.5], "draws": 2, "examples": 40}
    one, both = (
        examples(
            workload.study_extent(study(methods=["tuned", "atlas"], atlas=atlas | {"bottom": b})),
            "cumulative",
        )
        for b in (False, True)
    )
    assert both["importance", "tone"] == 2 * one["importance", "tone"] > 0
    # no and all heads; three levels of two rankings, the one for all tasks and two random orders; two
    # rankings of the other task
    fewer, more = 2 + 3 * (3 + 2) + 2, 2 + 3 * (6 + 2) + 2
    assert (one["prune", "tone"], both["prune", "tone"]) == (40 * fewer, 40 * more)


def test_gates_learn_once_for_all_numbers_of_heads(here):
    """What gates learn and what follows it are the further training of any other pruning method."""
    extent = workload.study_extent(study(gates={"epochs": 3, "learning": 0.75, "rescorings": 5}))
    run = {"scope": "shared", "kept": "0.5"}

    def epochs(stage: str, pruned_by: str, method: str = "tuned") -> float:
        passed = examples(extent, stage, **run, pruning_method=pruned_by, method=method)
        return passed["train", "tone"] / extent.sizes["tone"].train

    assert epochs("pruned_run", "importance") == epochs("pruned_run", "subset") == 3
    for method in ("tuned", "frozen"):  # gradients of gates go through a frozen encoder
        assert (epochs("learn_gates", "l0", method), epochs("pruned_run", "l0", method)) == (2.25, 0.75)
    assert epochs("learn_gates", "dynamic") == 4 + 2.25  # four in place of the run's training
    assert epochs("pruned_run", "fresh") == 4 + 3
    rescored = examples(extent, "pruned_run", **run, pruning_method="rescored")
    assert rescored["importance", "tone"] == rescored["importance", "topic"] == 5 * 60


def test_every_stage_that_runs_a_model_is_counted(here):
    """And no other; what jobs of a stage compute is what the plan counts for it."""
    Path("heads.csv").write_text("layer,head\n0,1\n")
    config = study(
        models={"bert": CONFIG["models"]["bert"] | {"heads": {"mine": "heads.csv"}}},
        methods=["tuned", "frozen", "iat", "atlas", "gates"],
        mixtures={"pairs": ["tone", "topic", "match"]},
        gates={"mixtures": ["tone+topic"], "kept": [0.5], "keep_models": ["l0"],
               "pruning_methods": ["importance", "rescored", "l0", "dynamic"]},
        similarity={"measures": ["text", "cka", "fisher", "importance", "lookahead", "grad-tag"]},
        iat={"mixtures": ["tone+topic"], "controls": ["random", "rescored"], "deltas": [0.2, 0.1],
             "samplings": ["sqrt"]},
        transfer={"tasks": ["match"], "samples": [4, 16]},
    )  # fmt: skip
    extent, jobs = workload.study_extent(config), graph.jobs(config, Planned())
    values = operations(extent, jobs)
    passed = {(stage, kind) for _, stage, kind, _ in values.index}
    assert ("retrain", "importance") in passed
    assert all(STAGES[stage].reduced_by[kind] for stage, kind in passed)
    for stage, planned in graph.by_stage(jobs).items():
        known = [job_operations(extent, job.rule, job.wildcards) for job in planned]
        assert (None in known) == (stage not in STAGES), stage
        counted = values[values.index.get_level_values("stage") == stage].sum()
        assert sum(filter(None, known)) == pytest.approx(counted), stage
    others = {"predict", "measured", "probe", "probe_pretrained", "probe_random"}
    assert {stage for stage, _ in passed} == STAGES.keys() - others
    assert {"pruned_run_and_keep", "attended_after"} <= {job.rule for job in jobs}


def test_jobs_request_time_by_their_operations(here):
    """On two GPUs, and on threads; the least where nothing is trained."""
    settings = Settings(Layout(study(training=CONFIG["training"] | {"epochs": 10**9})))
    for gpus, threads, rate in ((2, 2, 2 * SLOWEST["gpu"]), (0, 4, 4 * SLOWEST["thread"])):
        requests = Requests(settings, gpus, threads, timed=True)
        assert (count := job_operations(requests.extent, "train_and_keep", RUN))
        assert requests.minutes("train_and_keep", RUN, 7) == LEAST + int(count / rate / 60) > 2 * LEAST
        assert requests.minutes("train", RUN | {"method": "frozen"}, 7) == LEAST
        assert requests.minutes("predict", RUN, 7) == 7
