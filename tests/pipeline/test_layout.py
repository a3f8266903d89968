"""Paths of a study, and the inputs of its stages, compared with the config by hand."""

from copy import deepcopy

import pytest
from snakemake.iocontainers import Wildcards

from headspec.config.loading import load
from headspec.errors import ConfigError
from headspec.pipeline.inputs import Inputs, workflow_path
from headspec.pipeline.layout import RUN, Layout
from headspec.pipeline.pruned_runs import PrunedRuns
from headspec.pipeline.settings import Settings
from support.running.studies import CONFIG

PAIR = "results/tiny/runs/bert/tone+topic"


def layout(**more: object) -> Layout:
    return Layout(load(deepcopy(CONFIG) | more))


def wildcards(**values: object) -> Wildcards:
    return Wildcards(fromdict={name: str(value) for name, value in values.items()})


def run_wildcards(**other: object) -> Wildcards:
    return wildcards(**{"model": "bert", "mixture": "tone+topic", "method": "tuned", "seed": 0, **other})


def test_runs_and_their_files():
    study = layout()
    assert study.mixtures["tone+topic"] == ("tone", "topic") and study.mixtures["match"] == ("match",)
    assert study.methods == ["tuned", "frozen", "single"]
    assert study.run_files(study.mixed, "pruning.parquet") == [
        f"{PAIR}/{method}/seed{seed}/pruning.parquet" for method in ("tuned", "frozen") for seed in (0, 1)
    ]
    assert study.log(RUN, "train").startswith("results/tiny/logs/runs/{model}/")


def test_a_mixture_that_the_study_lacks_is_named():
    with pytest.raises(ConfigError, match=r"no mixture 'tone\+topics' in tiny. Did you mean 'tone\+topic'?"):
        Settings(layout()).tasks(run_wildcards(mixture="tone+topics"))


def test_figures_of_single_mixtures_are_left_out_where_there_are_many(monkeypatch):
    similarity = {
        "similarity": {"measures": ["text"]},
        "mixtures": {"pairs": ["tone", "topic", "match"]},
    }
    every = set(layout(**similarity).main_figures)
    assert {"dissociation", "matrix.bert.tone+topic.tuned", "scatter.text", "correlation"} <= every
    monkeypatch.setattr("headspec.pipeline.layout.DRAWN", 0)
    few = set(layout(**similarity).main_figures)
    assert few == {"scatter.text", "correlation", "similarity.bert"} and few < every


def test_figures_in_every_format():
    study = layout(figures={"formats": ["svg", "pdf"]})
    assert study.figure("matrix.bert") == [
        f"results/tiny/figures/matrix.bert.{kind}" for kind in ("svg", "pdf")
    ]
    assert set(study.main_figures) == {
        "dissociation", "reliability", "fractions.bert",
        *(f"{kind}.bert.tone+topic.{method}" for kind in ("importance", "matrix", "curves")
          for method in ("tuned", "frozen")),
    }  # fmt: skip
    assert study.iat_figures == study.transfer_figures == []


def test_settings_are_those_of_the_method():
    given = Settings(layout(methods=["tuned", "frozen", "iat"], iat={"mixtures": ["tone+topic"]}))
    assert given.training_settings(run_wildcards())[
        "epochs"
    ] == 4 and "frozen" not in given.training_settings(run_wildcards())
    assert given.training_settings(run_wildcards(method="frozen"))["epochs"] == 3
    assert given.training_settings(run_wildcards(method="iat"))["sampling"] == "proportional"
    assert given.variant_settings(run_wildcards(method="iat-random")) == {"heads": "random", "alpha": 0.3}
    changed = {
        "controls": ["as-released", "no-dropout", "rescored", "lora"],
        "rate": "rewarmed",
        "peak": 0.01,
    }
    given = Settings(layout(methods=["tuned", "iat"], iat={"mixtures": ["tone+topic"], **changed}))
    assert {m: given.variant_settings(run_wildcards(method=m)) for m in given.layout.retrained} == {
        "iat": {"heads": "top", "alpha": 0.3, "peak": 0.01},
        "iat-as-released": {"heads": "top", "alpha": 0.3, "peak": 0.01, "module": "leaking",
                            "dropout": False},
        "no-dropout": {"heads": "all", "alpha": None, "peak": 0.01, "dropout": False},
        "iat-rescored": {"heads": "top", "alpha": 0.3, "peak": 0.01, "module": "rescored", "rescorings": 3,
                         "samples": 60},
        "lora": {"heads": "top", "alpha": 0.3, "peak": 0.01, "module": "lora"},
        "rewarmed": {"heads": "all", "alpha": None, "peak": 0.01},
    }  # fmt: skip
    assert given.variant_modules(run_wildcards(method="lora")) == ["training/variants/lora.py"]
    assert given.settings("pruning", "draws") == {"draws": 4}
    assert given.model_settings("source")(run_wildcards()) == {"source": "models/tiny-bert"}
    task = given.task_settings("train_examples")(wildcards(task="tone"))
    assert task["text_a"] == "sentence" and not {"metrics", "test", "train_examples"} & set(task)


def test_a_method_trains_by_the_section_of_its_name():
    training = {"learning_rate": 1e-5, "decoder_learning_rate": None, "lora": {"rank": 2}}
    study = layout(methods=["tuned", "lora", "frozen", "atlas"], training=training)
    given = Settings(study)
    settings = given.training_settings(run_wildcards(method="lora"))
    assert settings["learning_rate"] == settings["lora"]["learning_rate"] == 2e-4
    assert (settings["lora"]["rank"], settings["lora"]["layers"]) == (2, "all")
    assert (
        "lora" not in given.training_settings(run_wildcards())
        and Inputs(given).features(run_wildcards(method="lora")) == []
    )
    trained = {method: study.trains(method) for method in study.trained}
    assert trained == {"tuned": "all", "lora": "adapters", "frozen": "classifiers", "single": "all"}
    assert study.trainings == sum(run.method != "frozen" for run in study.study.runs) == 6
    gates = {"pruning_methods": ["importance"], "kept": [0.2, 0.5]}
    assert layout(methods=["tuned"], gates=gates).trainings == 4
    assert layout(methods=["tuned", "gates"], gates=gates).trainings == 4 + 3 * 4  # whole, and two numbers
    atlas = layout(methods=["lora", "frozen", "atlas"], atlas={"methods": ["lora", "frozen"]})
    assert atlas.before == {"lora": "frozen"}
    control = layout(methods=["tuned", "iat"], iat={"mixtures": ["tone+topic"], "controls": ["lora"]})
    assert control.trains("lora") == "all"
    assert "lora" not in Settings(control).training_settings(run_wildcards(method="lora"))


def test_files_of_a_run_are_in_the_order_of_its_tasks():
    given = Inputs(Settings(layout(methods=["tuned", "frozen", "iat"], iat={"mixtures": ["tone+topic"]})))
    assert given.tokens("train")(run_wildcards()) == [
        f"results/tiny/tokens/bert/{task}/train.parquet" for task in ("tone", "topic")
    ]
    assert given.features(run_wildcards()) == [] and len(given.features(run_wildcards(method="frozen"))) == 2
    assert given.branch("state.pt")(run_wildcards(method="iat")) == f"{PAIR}/tuned/seed0/branch/0.1/state.pt"
    assert given.source_model(run_wildcards(method="pretrained", mixture="none")) == []
    assert given.source_model(run_wildcards()) == [f"{PAIR}/tuned/seed0/model/classifiers.json"]


def test_gates_that_rank_heads_are_the_own_ones_of_tasks():
    """Those of stages that `gates` has as well, which asks for no more because of them."""
    atlas = {"rankings": ["importance", "subset", "rescored", "l0", "l0-target"]}
    study = layout(
        methods=["tuned", "frozen", "atlas"], atlas=atlas, gates={"pruning_methods": ["importance"]}
    )
    given = PrunedRuns(Inputs(Settings(study)))
    chosen = ("subset/per_task/0.7", "l0/per_task/open", "l0-target/per_task/0.7")
    pair_files = [f"{PAIR}/tuned/seed0/gates/{path}/gates.parquet" for path in chosen]
    assert given.rankings(run_wildcards()) == pair_files
    assert given.rankings(run_wildcards(method="frozen")) == [
        name.replace("tuned", "frozen") for name in pair_files
    ]
    assert given.rankings(run_wildcards(mixture="match", method="single"))[:2] == [
        f"results/tiny/runs/bert/match/single/seed0/gates/{method}/gates.parquet"
        for method in ("subset/shared/0.7", "l0/shared/open")
    ]
    assert {pruned_run.pruning_method for pruned_run in study.study.pruned_runs} == {"whole", "importance"}
    named = PrunedRuns(
        Inputs(
            Settings(
                layout(
                    atlas=atlas,
                    gates={"pruning_methods": ["l0", "subset"], "kept": [0.7], "scope": ["per_task"]},
                )
            )
        )
    )
    assert {*pair_files[:2]} <= {*named.files("gates.parquet")}
    assert PrunedRuns(Inputs(Settings(layout()))).rankings(run_wildcards()) == []


@pytest.mark.parametrize(
    ("path", "named"), [("texts/a.csv", "texts/a.csv"), ("/elsewhere/b", "/elsewhere/b")]
)
def test_files_below_the_folder_are_named_from_there(tmp_path, monkeypatch, path, named):
    monkeypatch.chdir(tmp_path)
    assert workflow_path(path) == named and workflow_path(tmp_path / "x" / "c") == "x/c"


def test_the_atlas_draws_what_its_runs_have():
    figures = layout(methods=["tuned", "frozen", "atlas"]).atlas_figures
    assert "atlas/change.bert.tone+topic.tuned" in figures
    assert {"atlas/differences.bert.tone+topic.tuned", "atlas/differences.bert.tone+topic.frozen"} <= {
        *figures
    }
    assert not [name for name in figures if name.startswith("atlas/change") and name.endswith(".frozen")]
    assert not [name for name in figures if name.startswith("atlas/differences.bert.match")]
    assert figures.count("atlas/believe") == 1 and len(set(figures)) == len(figures)
