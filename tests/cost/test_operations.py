"""Operations of models by hand and as torch counts them, and examples that pass in the jobs of a study."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForSeq2SeqLM, T5Config, T5ForConditionalGeneration

from headspec.cost import graph, throughput, translated, workload
from headspec.cost.graph import job_operations, loads, operations
from headspec.cost.passes import PURPOSES, expected_examples
from headspec.cost.requests import LEAST, SLOWEST, Requests
from headspec.cost.stages import STAGES
from headspec.cost.workload import Extent, Lengths, Size
from headspec.data import prepare
from headspec.data.tasks_read import TasksRead
from headspec.heads.masks import masks
from headspec.heads.pruning import predictions
from headspec.models.batching import Examples
from headspec.models.devices import SIZES
from headspec.models.multitask import MultiTask
from headspec.pipeline.layout import Layout
from headspec.tasks.kinds.translation import head as decoding
from support.language import renamed
from support.running.studies import CONFIG, prompted, study
from support.tiers import cases
from support.tiny import CPU, ENCODER_DECODERS, HEADS, LAYERS, TYPES, VOCABULARY, encoder

T, WIDTH, INNER = 12, 32, 48
ATTENTION = 4 * LAYERS * WIDTH * T**2
RUN = {"model": "bert", "mixture": "tone+topic", "method": "tuned", "seed": "0"}
#: tokens of a text to translate and of its translation, and a batch in which the head is given no row in vain
SOURCE, TARGET, BATCH = 9, 5, decoding.ROWS


def extent_of(**sections: Any) -> Extent:
    return workload.study_extent(study(**sections))


def examples(extent: Extent, stage: str, **wildcards: str) -> dict[tuple[str, str], float]:
    """(pass, task): examples of a job."""
    return {(load.purpose, load.task): load.examples for load, _ in loads(extent, stage, RUN | wildcards)}


# --- operations of a model


def test_operations_of_bert_by_hand():
    """2 P T for the P weights of the layers, 4 L d t^2 for attention, 2 d^2 for the pooler."""
    matrices = LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    for batch in (1, 5):
        expected = 2 * matrices * T + ATTENTION + 2 * WIDTH**2
        assert throughput.forward(encoder("bert").config, T, batch) == expected


@pytest.mark.parametrize("kind", TYPES)
def test_every_architecture_can_be_counted(kind):
    full = encoder(kind)
    assert throughput.forward(full.config, T, 4) >= ATTENTION
    assert throughput.parameters(full.config) == sum(p.numel() for p in full.parameters())


def test_operations_of_marian_by_hand():
    """A multiplication and an addition count as two."""
    config = encoder("marian").config
    width, inner, words = config.d_model, config.encoder_ffn_dim, config.vocab_size
    matrices = 4 * width**2 + 2 * width * inner
    read = config.encoder_layers * (2 * matrices * SOURCE + 4 * width * SOURCE**2)
    cross = 4 * width**2 * SOURCE + 4 * width**2 * TARGET + 4 * width * SOURCE * TARGET
    alone = 2 * matrices * TARGET + 4 * width * TARGET**2
    by_hand = read + config.decoder_layers * (cross + alone) + 2 * width * words * TARGET
    assert translated.teacher_forced(config, SOURCE, TARGET, 1) == by_hand
    saved = config.decoder_layers * 4 * width * (TARGET**2 - TARGET * (TARGET + 1) / 2)
    assert translated.written(config, SOURCE, TARGET, 1) == pytest.approx(by_hand - saved)


@pytest.mark.parametrize("kind", cases(ENCODER_DECODERS, {"marian", "t5"}.__contains__))
def test_operations_of_translations_are_those_that_torch_counts_in_the_model(kind):
    model = encoder(kind, eos_token_id=None, forced_eos_token_id=None)
    model.generation_config.eos_token_id = None
    model.set_attn_implementation("eager")  # torch does not count fused attention on a CPU
    ids, targets = torch.full((BATCH, SOURCE), 7), torch.full((BATCH, TARGET), 8)
    mask = torch.ones_like(ids)
    labels = decoding.Targets(mask, targets, [""] * BATCH)
    classes = {"before": [], "after": [8], "longest": TARGET}
    tokenizer = translated.model(translated.reduced(model.config, 1, 97), TARGET).tokenizer

    def counted(beams: int | None = None) -> float:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            states = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
            if beams:
                decoding.written(model, states, labels, classes, tokenizer, beams)
            else:
                decoding.losses(model, states, labels)
        return counter.get_total_flops() / BATCH

    config = encoder(kind).config
    assert translated.teacher_forced(config, SOURCE, TARGET, BATCH) == pytest.approx(counted(), rel=1e-9)
    for beams in (1, 3):
        written = translated.written(config, SOURCE, TARGET, BATCH, beams)
        assert written == pytest.approx(counted(beams), rel=1e-9)


def test_operations_of_writing_are_counted_by_either_name_of_the_cache():
    """The one that transformers 5.24 introduces, and the older one."""
    config = encoder("t5").config

    class OtherConfig(T5Config):
        model_type = "t5-other"

    class Other(renamed(T5ForConditionalGeneration)):  # type: ignore[misc]
        config_class = OtherConfig

    AutoModelForSeq2SeqLM.register(OtherConfig, Other)
    found = translated.written(OtherConfig.from_dict(config.to_dict()), SOURCE, TARGET, BATCH)
    assert found == translated.written(config, SOURCE, TARGET, BATCH)


def test_operations_of_pruning_prompted_models_are_those_that_run():
    """On a small model: counted while tasks are evaluated under masks, and planned from lengths alone."""
    prefix, own = 24, 8
    n = SIZES["cpu"][0] // (own + prefix // 8)
    wide = {"hidden_size": 256, "intermediate_size": 512}  # as in large models, attention itself costs little
    llama = encoder("llama", attn_implementation="eager", **wide)
    rng = np.random.default_rng(0)
    shared = rng.integers(5, VOCABULARY, prefix).tolist()
    ids = [[*shared, 5 + i, *rng.integers(5, VOCABULARY, own - 1)] for i in range(n)]
    frame = pd.DataFrame({"example": range(n), "label": np.arange(n) % 2.0, "input_ids": ids})
    prompts = Examples(frame.assign(token_type_ids=None))
    config, tasks = prompted({}), ("tone", "other")
    shape = config.pruning.model_dump(include={"fraction", "fractions", "heads", "draws", "bottom"})
    planned = masks({task: rng.random((LAYERS, HEADS)) for task in tasks}, seed=0, **shape)
    with FlopCounterMode(display=False) as counter:
        predictions(
            MultiTask(llama, "last", dict.fromkeys(tasks, ["a", "b"])),
            dict.fromkeys(tasks, prompts), planned, CPU,
        )  # fmt: skip

    extent = Extent(config, dict.fromkeys(tasks, Size(n, n, None, None, "")), {"llama": llama.config})
    job = {"model": "llama", "mixture": "tone+other", "method": "prompted", "seed": "0"}
    pruned = []
    for once in (0, prefix):
        for task in tasks:
            extent.lengths["llama", task] = Lengths(own, prompt=prefix + own, shared=once)
        pruned.append(job_operations(extent, "prune", job))
    assert pruned[1] == pytest.approx(counter.get_total_flops(), rel=0.05)
    assert pruned[0] > 3 * pruned[1]
    importance = job_operations(extent, "importance", job)
    assert importance > 1.5 * pruned[1] / len(planned), "importance reads prompts whole"


def test_operations_of_written_answers_are_those_that_run():
    """Each token is a pass over what is new, with a head of the whole vocabulary."""
    prompt, new = 40, 12
    wide = {"hidden_size": 256, "intermediate_size": 512}
    llama = encoder("llama", attn_implementation="eager", **wide)
    study = prompted({}, type="generation", label="label", max_new_tokens=new, answers=...)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        cache = llama(input_ids=torch.ones(1, prompt, dtype=torch.long), use_cache=True).past_key_values
        read = counter.get_total_flops()
        for _ in range(new):
            ids = torch.ones(1, 1, dtype=torch.long)
            cache = llama(input_ids=ids, past_key_values=cache, use_cache=True).past_key_values
    steps = counter.get_total_flops() - read + 2 * new * 256 * llama.config.vocab_size
    size = Size(30, 30, None, None, "")
    extent = Extent(study, dict.fromkeys(study.tasks, size), {"llama": llama.config})
    extent.lengths["llama", "tone"] = Lengths(prompt, prompt=prompt)
    assert extent.written("llama", "tone") == pytest.approx(steps, rel=0.1)
    extent.lengths["llama", "other"] = extent.lengths["llama", "tone"]
    wildcards = {"model": "llama", "mixture": "tone+other", "method": "prompted", "seed": "0"}
    found = [load for load, _ in loads(extent, "prune", wildcards)]
    assert [(load.purpose, load.task) for load in found] == [
        ("prune", "tone"), ("write", "tone"), ("prune", "other"), ("write", "other"),
    ]  # fmt: skip
    assert {load.purpose for load, _ in loads(extent, "importance", wildcards)} == {"importance"}


# --- the model whose speed is measured


@pytest.mark.parametrize("kind", ("bert", "distilbert", "modernbert", "llama", "lfm2"))
def test_the_measured_model_has_the_same_widths_and_fewer_layers(kind):
    full = encoder(kind).config
    small = throughput.reduced(full)
    assert small.num_hidden_layers == throughput.LAYERS < full.num_hidden_layers
    assert (small.hidden_size, small.num_attention_heads) == (full.hidden_size, full.num_attention_heads)
    texts = throughput.random_examples(5, T)
    assert np.array_equal(texts.lengths, [T] * 5) and texts.vocabulary().max() < small.vocab_size
    rates = throughput.measure(full, T, 4, CPU, 0.0)
    assert set(rates) == set(PURPOSES) and min(rates.values()) > 0


@pytest.mark.parametrize("kind", cases(ENCODER_DECODERS, {"marian", "t5"}.__contains__))
def test_the_measured_translator_ends_no_text_early(kind):
    full = encoder(kind).config
    small = throughput.reduced(full)
    assert throughput.parameters(small) < throughput.parameters(full) or small.vocab_size > full.vocab_size
    model: MultiTask = translated.model(small, TARGET).eval()
    batch = throughput.random_examples(3, TARGET, writes=True).batch(np.arange(3))
    with torch.no_grad():
        states = decoding._output(model.pool(batch))
        ids = model.encoder.generate(encoder_outputs=states, max_new_tokens=TARGET, num_beams=1)
    assert ids.shape == (3, TARGET + 1)
    assert all(rate > 0 for rate in throughput.measure(full, TARGET, 2, CPU, 0.0).values())


def test_a_figure_is_drawn_to_measure_the_start_of_light_jobs():
    exec(throughput.FIGURE, {})


# --- examples of a job


def test_examples_of_a_run(here):
    extent = extent_of()
    assert extent.problems == [] and all(n.counted for n in extent.lengths.values())
    prepared = {name: prepare.prepare(name, task, 0) for name, task in extent.study.tasks.items()}
    assert {n: len(p.train) for n, p in prepared.items()} == {n: s.train for n, s in extent.sizes.items()}
    tone = extent.sizes["tone"]
    assert examples(extent, "features", task="tone") == {("prune", "tone"): tone.train}
    assert examples(extent, "train")["train", "tone"] == 4 * tone.train
    assert [*examples(extent, "train", method="frozen").values()] == [0, 0]
    drawn = extent_of(models={"bert": CONFIG["models"]["bert"] | {"weights": "random"}})
    again = examples(drawn, "train", method="frozen")
    assert again["prune", "tone"] == 3 * tone.train  # no seed has another's vectors
    assert [*examples(extent, "importance").values()] == [60, 60]
    # unpruned; top and bottom heads of 2 tasks at 3 fractions; 4 draws of each of 2 kinds
    assert examples(extent, "prune")["prune", "tone"] == (1 + 2 * 2 * 3 + 2 * 4) * tone.validation
    assert examples(extent, "data", task="tone") == examples(extent, "train", model="far") == {}
    fewer = extent_of(pruning=CONFIG["pruning"] | {"draw_examples": 10})
    assert examples(fewer, "prune")["prune", "topic"] == 13 * 50 + 8 * 10


def test_operations_of_a_job_are_those_of_its_examples(here):
    """With adapters, a step is a forward pass and the backward pass of states, without weights."""
    extent = extent_of()
    values = operations(extent, graph.jobs(extent.study, TasksRead()))
    for stage, factor in (("train", 3), ("importance", 2), ("prune", 1)):
        passed = examples(extent, stage).items()
        lengths = {task: extent.lengths["bert", task].example for (_, task), _ in passed}
        forward = {task: throughput.forward(extent.configs["bert"], n, 16) for task, n in lengths.items()}
        expected = sum(factor * n * forward[task] for (_, task), n in passed)
        assert job_operations(extent, stage, RUN) == pytest.approx(expected, rel=1e-12)
        assert values.xs((stage, stage), level=("stage", "purpose"))["bert", "tone"] > 0
    lora = extent_of(methods=["tuned", "lora"], training=CONFIG["training"] | {"lora": {"rank": 2}})
    adapted = job_operations(lora, "train", RUN | {"method": "lora"})
    assert adapted == pytest.approx(2 / 3 * job_operations(extent, "train", RUN))
    passed = examples(lora, "train", method="lora"), examples(extent, "train")
    assert [*passed[0].values()] == [*passed[1].values()]


@pytest.mark.parametrize("sampling", ("sqrt", "annealed"))
def test_sampling_changes_the_shares_of_tasks_but_not_the_number_of_batches(sampling):
    trained = expected_examples(study(), {"long": 160, "short": 32}, sampling)
    assert sum(trained.values()) == pytest.approx(4 * 192)
    assert trained["short"] > 4 * 32


def test_the_other_ends_of_rankings_are_counted(here):
    atlas = {"rankings": ["importance", "rescored"], "fractions": [0.25, 0.5], "draws": 2, "examples": 40}
    one, both = (
        examples(extent_of(methods=["tuned", "atlas"], atlas=atlas | {"bottom": bottom}), "cumulative")
        for bottom in (False, True)
    )
    assert both["importance", "tone"] == 2 * one["importance", "tone"] > 0
    # no and all heads; three levels of two rankings, the one for all tasks and two random orders; two
    # rankings of the other task
    fewer, more = 2 + 3 * (3 + 2) + 2, 2 + 3 * (6 + 2) + 2
    assert (one["prune", "tone"], both["prune", "tone"]) == (40 * fewer, 40 * more)


def test_gates_learn_once_for_all_numbers_of_heads(here):
    """What gates learn and what follows it are the further training of any other pruning method."""
    extent = extent_of(gates={"epochs": 3, "learning": 0.75, "rescorings": 5})
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
    extent = extent_of(
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
    jobs = graph.jobs(extent.study, TasksRead())
    values = operations(extent, jobs)
    passed = {(stage, kind) for _, stage, kind, _ in values.index}
    assert ("retrain", "importance") in passed
    assert all(STAGES[stage].reduced_by[kind] for stage, kind in passed)
    for stage, planned in graph.by_stage(jobs).items():
        known = [job_operations(extent, job.rule, job.wildcards) for job in planned]
        assert (None in known) == (stage not in STAGES), stage
        counted = values[values.index.get_level_values("stage") == stage].sum()
        assert sum(filter(None, known)) == pytest.approx(counted), stage
    others = {"predict", "measured", "behaviour", "probe", "probe_pretrained", "probe_random"}
    assert {stage for stage, _ in passed} == STAGES.keys() - others
    assert {"pruned_run_and_keep", "attended_after"} <= {job.rule for job in jobs}


def test_jobs_request_time_by_their_operations(here):
    """On two GPUs, and on threads; the least where nothing is trained."""
    layout = Layout(study(training=CONFIG["training"] | {"epochs": 10**9}))
    for gpus, threads, rate in ((2, 2, 2 * SLOWEST["gpu"]), (0, 4, 4 * SLOWEST["thread"])):
        requests = Requests(layout, gpus, threads, timed=True)
        assert (count := job_operations(requests.extent, "train_and_keep", RUN))
        assert requests.minutes("train_and_keep", RUN) == LEAST + int(count / rate / 60) > 2 * LEAST
        assert requests.minutes("train", RUN | {"method": "frozen"}) == LEAST
        assert requests.minutes("predict", RUN) == 4 * 60
