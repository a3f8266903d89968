"""Paths of a study, and the inputs of its stages, compared with the config by hand."""

from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from snakemake.iocontainers import Wildcards

from headspec.config.runs import RUN, kept_fraction, penalty
from headspec.config.sections.training import FrozenTraining, LoRATraining, Training
from headspec.errors import ConfigError
from headspec.pipeline.figures.registry import names
from headspec.pipeline.jobs import files, job_code, pruned
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout
from support.running.studies import CONFIG, prompted, study

PAIR = "results/tiny/runs/bert/tone+topic"
IAT = {"methods": ["tuned", "frozen", "iat"], "iat": {"mixtures": ["tone+topic"]}}


#: categories of the figures of the target `all`
MAIN = "Importance", "Pruning", "Dissociation", "Similarity"


def layout(**sections: object) -> Layout:
    return Layout(study(**sections))


def run(study: Layout, method: str = "tuned", mixture: str = "tone+topic") -> Job:
    """A job of a run of the study."""
    named = {"model": "bert", "mixture": mixture, "method": method, "seed": "0"}
    return Job(study, Wildcards(fromdict=named))


def test_runs_and_their_files():
    study = layout()
    assert study.study.tasks_by_mixture["tone+topic"] == ("tone", "topic") and study.study.tasks_by_mixture[
        "match"
    ] == ("match",)
    assert study.methods == ["tuned", "frozen", "single"]
    assert study.run_files(study.mixed, "pruning.parquet") == [
        f"{PAIR}/{method}/seed{seed}/pruning.parquet" for method in ("tuned", "frozen") for seed in (0, 1)
    ]
    assert study.log(RUN, "train").startswith("results/tiny/logs/runs/{model}/")
    with pytest.raises(ConfigError, match=r"no mixture 'tone\+topics' in tiny. Did you mean 'tone\+topic'?"):
        run(study, mixture="tone+topics").task_names()


def test_tables_of_traits_are_those_of_tasks_alone():
    """Each once, though `rsa` and `cka` read the same."""
    pairs = {"pairs": ["tone", "topic", "match"]}
    measures = {"measures": ["paradigm", "text", "rsa", "cka", "top-heads", "gradient"]}
    study = layout(mixtures=pairs, similarity=measures)
    folder, seeds = "results/tiny/similarity/bert", [f"seed{seed}" for seed in (0, 1)]
    assert sorted(files.compared_tables(Job(study, Wildcards()))) == sorted([
        f"{folder}/text.parquet",
        *(f"{folder}/{seed}/{name}.parquet" for seed in seeds for name in ("sentences", "gradient")),
        *(f"results/tiny/runs/bert/{task}/single/{seed}/importance.parquet"
          for task in pairs["pairs"] for seed in seeds),
    ])  # fmt: skip


def test_traits_of_prompted_models_come_from_prompted_runs():
    asked = CONFIG["tasks"]["tone"] | {"prompt": "{text_a}:", "answers": {"good": " a", "bad": " b"}}
    tasks = dict.fromkeys("abc", asked)
    study = layout(
        models={"llama": {"source": "llama"}}, tasks=tasks, mixtures={"pairs": [*tasks]},
        methods=["prompted"], similarity={"measures": ["top-heads"]},
    )  # fmt: skip
    assert files.compared_tables(Job(study, Wildcards())) == [
        f"results/tiny/runs/llama/{task}/prompted/seed{seed}/importance.parquet"
        for seed in (0, 1) for task in tasks
    ]  # fmt: skip


def test_a_preview_is_of_the_first_method_that_a_study_has():
    first = [(run.mixture, run.method, run.seed) for run in layout().preview]
    assert first == [("tone+topic", "tuned", 0), ("tone+topic", "tuned", 1)]
    assert {run.method for run in layout(methods=["frozen"]).preview} == {"frozen"}
    assert [run.path for run in Layout(prompted({})).preview] == [
        f"llama/tone+other/prompted/seed{seed}" for seed in (0, 1)
    ]
    assert layout(mixtures={"single": ["tone"]}).preview == []


def test_files_of_a_run_are_in_the_order_of_its_tasks():
    given = layout(**IAT)
    assert files.tokens(run(given), "train") == [
        f"results/tiny/tokens/bert/{task}/train.parquet" for task in ("tone", "topic")
    ]
    assert files.features(run(given)) == [] and len(files.features(run(given, "frozen"))) == 2
    assert files.branch(run(given, "iat"), "state.pt") == f"{PAIR}/tuned/seed0/branch/0.1/state.pt"
    assert files.source_model(run(given, "pretrained", "none")) == []
    assert files.source_model(run(given)) == [f"{PAIR}/tuned/seed0/model/classifiers.json"]


# --- figures


def test_figures_in_every_format():
    study = layout(figures={"formats": ["svg", "pdf"]})
    assert study.figure("matrix.bert") == [
        f"results/tiny/figures/matrix.bert.{kind}" for kind in ("svg", "pdf")
    ]
    assert set(names(study, *MAIN)) == {
        "dissociation", "reliability", "fractions.bert", "matrix_parts.bert",
        *(f"{kind}.bert.tone+topic.{method}" for kind in ("importance", "matrix", "curves")
          for method in ("tuned", "frozen")),
    }  # fmt: skip
    assert names(study, "IAT", "Transfer") == []


@pytest.mark.parametrize(("tasks", "models", "drawn"), [(3, 2, True), (2, 2, False), (3, 1, False)])
def test_models_are_compared_if_there_are_several_and_a_mixture_of_three_tasks(tasks, models, drawn):
    study = layout(
        models={name: {"source": "models/bert"} for name in ("bert", "other")[:models]},
        mixtures={"groups": {"each": ["tone", "topic", "match"][:tasks]}},
    )
    assert ("shared_fragility" in names(study, "Dissociation")) is drawn


def test_figures_of_single_mixtures_are_left_out_where_there_are_many(monkeypatch):
    similarity = {"similarity": {"measures": ["text"]}, "mixtures": {"pairs": ["tone", "topic", "match"]}}
    every = set(names(layout(**similarity), *MAIN))
    assert {"dissociation", "matrix.bert.tone+topic.tuned", "scatter.text", "correlation"} <= every
    monkeypatch.setattr("headspec.pipeline.figures.groups.DRAWN", 0)
    few = set(names(layout(**similarity), *MAIN))
    assert few == {"scatter.text", "correlation", "similarity.bert"} and few < every


def test_the_atlas_draws_what_its_runs_have():
    figures = names(layout(methods=["tuned", "frozen", "atlas"]), "Head atlas")
    several = [name for name in figures if name.startswith(("atlas/change", "atlas/differences"))]
    assert sorted(several) == [
        "atlas/change.bert.tone+topic.tuned",
        "atlas/differences.bert.tone+topic.frozen",
        "atlas/differences.bert.tone+topic.tuned",
    ]
    assert figures.count("atlas/believe") == 1 and len(set(figures)) == len(figures)


# --- settings


def test_settings_are_those_of_the_method():
    given = layout(**IAT)
    tuned = run(given).training()
    assert tuned["epochs"] == 4 and tuned["frozen"] == FrozenTraining().model_dump()
    assert run(given, "frozen").training()["epochs"] == 3
    assert run(given, "iat").training()["sampling"] == "proportional"
    transferred = run(given).transfer_training()
    assert Training(**transferred).learning_rate == given.study.training.learning_rate
    assert transferred["epochs"] == Training().epochs != tuned["epochs"]
    assert run(given, "iat-random").variant_settings() == {"module": "own", "heads": "random", "alpha": 0.3}
    assert run(given).tokenizer()["source"] == "models/tiny-bert"
    task = Job(given, Wildcards(fromdict={"task": "tone"})).task_settings("train_examples")
    assert task["text_a"] == "sentence" and not {"metrics", "test", "train_examples"} & set(task)


def test_variants_have_what_differs_from_iat():
    controls = {
        "controls": ["as-released", "no-dropout", "rescored", "lora"],
        "rate": "rewarmed",
        "peak": 0.01,
    }
    given = layout(methods=["tuned", "iat"], iat=IAT["iat"] | controls)
    top = {"module": "own", "heads": "top", "alpha": 0.3, "peak": 0.01}
    every = {"module": "own", "heads": "all", "alpha": None, "peak": 0.01}
    assert {method: run(given, method).variant_settings() for method in given.study.retrained} == {
        "iat": top,
        "iat-as-released": top | {"module": "leaking", "dropout": False},
        "no-dropout": every | {"dropout": False},
        "iat-rescored": top | {"module": "rescored", "rescorings": 3, "samples": 60},
        "lora": top | {"module": "lora"},
        "rewarmed": every,
    }
    assert job_code.restriction(run(given, "lora")) == ["training/variants/lora.py"]
    assert given.study.trains("lora") == "all"
    assert run(given, "lora").training()["lora"] == LoRATraining().model_dump()


def test_a_method_trains_by_the_section_of_its_name():
    training = {"learning_rate": 1e-5, "decoder_learning_rate": None, "lora": {"rank": 2}}
    study = layout(methods=["tuned", "lora", "frozen", "atlas"], training=training)
    trained_by = run(study, "lora").training()
    assert trained_by["learning_rate"] == trained_by["lora"]["learning_rate"] == 2e-4
    assert (trained_by["lora"]["rank"], trained_by["lora"]["layers"]) == (2, "all")
    assert run(study).training()["lora"]["rank"] == LoRATraining().rank != 2
    assert files.features(run(study, "lora")) == []
    trained = {method: study.study.trains(method) for method in study.trained}
    assert trained == {"tuned": "all", "lora": "adapters", "frozen": "classifiers", "single": "all"}
    atlas = layout(methods=["lora", "frozen", "atlas"], atlas={"methods": ["lora", "frozen"]})
    assert atlas.before == {"lora": "frozen"}


def test_without_tuned_iat_and_tasks_alone_train_adapters():
    section = IAT["iat"] | {"controls": ["random", "alps"], "samplings": ["sqrt"], "rate": "rewarmed"}
    training = {"learning_rate": 1e-5, "lora": {"rank": 2}}
    study = layout(methods=["lora", "frozen", "iat"], training=training, iat=section)
    trained = {method: study.study.trains(method) for method in study.methods}
    assert trained.pop("frozen") == "classifiers" and {*trained.values()} == {"adapters"}
    assert study.study.continued == ["lora", "lora-sqrt"] and study.study.pruned_runs == []
    for method in ("lora", "iat", "iat-random", "lora-sqrt", "single"):
        values = run(study, method).training()
        assert values["learning_rate"] == 2e-4 and values["lora"]["rank"] == 2, method
        assert values["sampling"] == ("sqrt" if method == "lora-sqrt" else "proportional")
    assert run(study, "iat").variant_settings()["peak"] == study.study.learning_rate == 2e-4
    assert {each.method for each in study.before_and_after} == {"lora", "iat"}
    atlas = layout(methods=["lora", "iat", "atlas"], iat=IAT["iat"], atlas={"methods": ["lora", "iat"]})
    assert atlas.before == {"iat": "lora"}


def test_a_ranking_by_which_tasks_own_heads_is_of_their_own_runs():
    study = layout(methods=["tuned", "iat"], iat=IAT["iat"] | {"controls": ["alps", "random"]})
    assert study.measured == ["alps"] and layout(methods=["tuned"]).measured == []
    alps = run(study, "iat-alps")
    assert alps.variant_settings() == {"module": "own", "heads": "top", "alpha": 0.3, "ranking": "alps"}
    assert files.owner_rankings(alps) == [
        study.result("runs", alps.wildcards.model, task, "single/seed0/atlas/alps.parquet")
        for task in alps.tasks
    ]
    assert files.owner_rankings(run(study, "iat-random")) == []


def test_heavy_runs_are_those_that_train_an_encoder_prompted_and_pruned_ones():
    lora = CONFIG["training"] | {"lora": {"rank": 2}}
    assert layout(methods=["tuned", "lora", "frozen"], training=lora).heavy_runs == 6
    gates = {"pruning_methods": ["importance"], "kept": [0.2, 0.5]}
    assert layout(methods=["tuned"], gates=gates).heavy_runs == 4
    assert layout(methods=["tuned", "gates"], gates=gates).heavy_runs == 4 + 3 * 4  # whole, and two numbers
    assert Layout(prompted({})).heavy_runs == 2  # of two seeds


def test_gates_that_rank_heads_are_the_own_ones_of_tasks():
    """Those of stages that `gates` has as well, which asks for no more because of them."""
    atlas = {"rankings": ["importance", "subset", "rescored", "l0", "l0-target"]}
    study = layout(
        methods=["tuned", "frozen", "atlas"], atlas=atlas, gates={"pruning_methods": ["importance"]}
    )

    def paths(folder: str, *chosen: str) -> list[str]:
        return [f"results/tiny/runs/bert/{folder}/seed0/gates/{path}/gates.parquet" for path in chosen]

    chosen = ("subset/per_task/0.7", "l0/per_task/open", "l0-target/per_task/0.7")
    for method in ("tuned", "frozen"):
        assert pruned.rankings(run(study, method)) == paths(f"tone+topic/{method}", *chosen)
    alone = paths("match/single", "subset/shared/0.7", "l0/shared/open")
    assert pruned.rankings(run(study, "single", "match"))[:2] == alone
    assert {pruned_run.pruning_method for pruned_run in study.study.pruned_runs} == {"whole", "importance"}
    gates = {"pruning_methods": ["l0", "subset"], "kept": [0.7], "scope": ["per_task"]}
    both = layout(atlas=atlas, gates=gates)
    named = both.run_files(both.study.pruned_runs, "gates.parquet")
    assert {*paths("tone+topic/tuned", *chosen[:2])} <= {*named}
    assert pruned.rankings(run(layout())) == []


#: numbers of at most six digits
SHORT = st.floats(1e-9, 0.99).map(lambda value: float(f"{value:g}"))


@hypothesis.given(kept=SHORT, other=SHORT.filter(lambda value: value != 0.02))
def test_paths_say_what_a_pruned_run_keeps(kept, other):
    gates = {"kept": [kept], "penalties": [other], "pruning_methods": ["l0"]}
    runs = layout(gates=gates).study.pruned_runs
    for run in runs:
        name = Path(run.path).name
        assert (kept_fraction(name), penalty(name)) == (run.fraction, run.penalty)
    named = {(run.fraction, run.penalty) for run in runs}
    assert named == {(1, None), (kept, None), (None, None), (None, other)}
