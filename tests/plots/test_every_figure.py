"""Every figure, of random tables: texts can be read, bytes repeat, and captions render."""

import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any, get_args, get_origin

import docutils.core
import jinja2
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from headspec.config import pruning_methods, variants
from headspec.config.measures import heads as head_measures
from headspec.config.measures import similarity as similarity_measures
from headspec.config.study import plain
from headspec.pipeline.commands.report import opening
from headspec.pipeline.figures import registry
from headspec.plots.atlas.heads import ROLES
from headspec.statistics.correlation import correlation, paired
from headspec.statistics.dissociation.parts import PARTS
from support.data import iat, transfers
from support.data.explored import HOSTILE, study
from support.figures import LARGE, LONG, NINE, SMALL, assert_readable, assert_same_bytes, made
from support.paths import ROOT
from support.schemas import SCHEMAS
from support.tiers import cases

#: tasks, seeds, layers and heads, models
CASES = {
    "small": (SMALL, 2, (6, 12), ["minilm"]),
    "one": (LONG[:1], 1, (6, 12), ["minilm"]),
    "long": (LONG, 2, (2, 2), ["bert-base", "minilm", "roberta-base"]),
    "nine": (NINE, 3, (12, 12), ["minilm"]),
    "large": (LARGE, 1, (24, 16), ["minilm", "another-long-model-name"]),
}
SIMILARITY = {name: measure.label for name, measure in similarity_measures.MEASURES.items()}
HEADS = {name: measure.label for name, measure in head_measures.MEASURES.items()}
RANKINGS = head_measures.MEASURES.labels(head_measures.pruned(head_measures.rankings()))
WAYS = pruning_methods.PRUNING_METHODS.labels(["whole", "importance", "l0", "subset"])
#: what configs name and figures label
LABELLED = {
    "similarity": similarity_measures.MEASURES, "heads": head_measures.MEASURES,
    "pruning methods": pruning_methods.PRUNING_METHODS,
    "controls": {name: variants.RETRAININGS[name] for name in variants.CONTROLS},
}  # fmt: skip
#: parameter of `draw`: the table that it is
TABLES = {
    "roles": "head_roles", "curves": "pruning_curves", "differences": "task_differences", "gains": "sharing",
    "counts": "role_counts", "kinds": "kept_kinds", "changes": "probe_changes", "encoding": "brain_encoding",
    "summaries": "brain_encoding_summary",
}  # fmt: skip
#: values of the columns of all tables, but for those of `own`
VALUES: dict[str, Any] = {
    "method": ["tuned", "frozen"], "fraction": [0.1, 0.3, 0.5], "fold": range(2), "order": ["top", "bottom"],
    "kind": ["split_half", "seeds", "tasks"], "ranking": list(RANKINGS), "label": [None, "NOUN", "VERB", "X"],
    "scope": ["shared", "per_task"], "what": ["seeds", "tasks"], "subject": ["s1", "s2", "s3"], "a": "mean",
    "voxel": range(40), "step": [0, 5], "way": ["importance", "l0"], "direction": ["to", "from"],
    "predictor": "baseline+all", "held_out": 1, "metric": "accuracy", "ci_over": "examples", "n": 10,
    "n_pruned": 20, "n_folds": 5, "penalty": None, "unpruned_at_chance": False, "role": list(ROLES)[:3],
    "part": list(PARTS),
}  # fmt: skip
#: those of single tables: `before`, `mixture` and `method` of probed runs, and so on
OWN: dict[str, list[dict[str, Any]]] = {
    "probes": [
        dict(mixture="none", method=["random", "pretrained"], task="pos", heads=["best", "mean"]),
        dict(mixture="pos", method="single", task="pos", heads=["best", "mean"]),
        dict(mixture="all", method="tuned", task="pos", heads=["best", "mean"]),
    ],
    "probe_changes": [
        dict(before="pretrained", mixture="pos", method="single", task="pos", heads="best"),
        dict(before="single", mixture="all", method="tuned", task="pos", heads="best"),
    ],
    "kept_kinds": [dict(kind=["encoder", "cross"], heads=float(n), fraction=n / 9) for n in (1, 5, 9)],
    "role_counts": [dict(heads=float(n), fraction=n / 9) for n in (1, 5, 9)],
    "agreement": [dict(measure_a=a, measure_b=b) for a, b in itertools.combinations(HEADS, 2)],
    "shared_fragility": [
        dict(models=models, n_models=models.count(",") + 1, r=[0.5], p_holm=[0.03])
        for models in ("minilm, bge-small", "minilm, bert", "minilm, bge-small, bert")
    ],
    "task_differences": [dict(against="others")], "matrix_parts": [dict(model="minilm")],
    "probed": [dict(label=["NOUN", "VERB", "X"])],
}  # fmt: skip


def table(
    name: str, values: dict[str, Any], own: list[dict[str, Any]] | None = None, draw: int = 0
) -> pd.DataFrame:
    """Random rows of the table `name` for all `values` of its columns; `own` are instead of these."""
    columns = {column: values[column] for column in SCHEMAS[name].columns if column in values}
    parts = own or OWN.get(name) or [{}]
    return pd.concat(
        [made(name, i + draw, **columns | part) for i, part in enumerate(parts)], ignore_index=True
    )


def predictions(tasks: list[str], seed: int) -> pd.DataFrame:
    """Predictions that are right, with seed 1 of another task than the first alone."""
    label = np.arange(20.0) % 2
    rows = [dict(task=t, label=label, prediction=label * (seed != 1 or t != tasks[0])) for t in tasks]
    unpruned = dict(pruned_for="none", ranking="random", draw=0, fraction=0.0)
    return pd.concat(map(pd.DataFrame, rows)).assign(**unpruned)


def pairs_arguments(values: dict[str, Any], runs: dict[str, Any]) -> dict[str, Any]:
    """Tables and arguments of the figures of runs, mixtures and similarity."""
    tasks, seeds = runs["task"], runs["seed"]
    pairs = {"+".join(pair): list(pair) for pair in itertools.combinations(tasks, 2)}
    paradigms = {task: ("single", "pair")[i % 2] for i, task in enumerate(tasks)}
    measures = list(SIMILARITY) if len(tasks) < 6 else ["text", "rsa"]
    ends = [dict(task_a=a, task_b=b, subject=None, measure=measures) for a, b in pairs.values()]
    similarity = table("similarity", values | {"between_seeds": None}, ends)
    combined = table("combined", values | {"fraction": 0.3})
    random = dict(pruned_for=["random", "random_by_layer"], order=None, fraction=0.3, draw=range(5))
    pruning = [dict(pruned_for="none", fraction=0.0), dict(pruned_for=tasks), random]
    gains = [dict(mixture=task, method="single", task=task) for task in tasks]
    gains += [dict(mixture=name, task=pair, difference=-0.123) for name, pair in pairs.items()]
    directed = [dict(source=a, target=b) for a, b in itertools.permutations(tasks, 2)]
    return dict(
        labels=SIMILARITY, paradigms=paradigms, similarity=similarity, combined=combined,
        correlation=correlation(paired(similarity, combined, paradigms, "tuned"), 0),
        pruning={seed: table("pruning", runs, pruning, seed) for seed in seeds},
        predictions={seed: predictions(tasks, seed) for seed in seeds}, groups=[tasks[:2], tasks[2:]],
        dissociation=table("dissociation", values | {"task": tasks}), mixtures=pairs | {"all": tasks},
        gains=table("sharing", runs | {"unpruned_at_chance": True}, gains),
    ) | {"gains predictions": table("gain_predictions", runs, directed)}  # fmt: skip


def training_arguments(case: str) -> dict[str, Any]:
    """Tables and arguments of the figures of IAT and transfer."""
    tasks, seeds, section = iat.CASES[case if case in iat.CASES else "whole"]
    config = iat.study(tasks, seeds, section)
    special, combined, dissociation = iat.specialization_tables(tasks, seeds)
    controls = variants.places(["iat-random", "iat-other", "lora", "iat-as-released", "no-dropout"])
    mixtures = {"a+b": ["a", "b"], "a-mixture-with-a-long-name-of-several-words": tasks}
    fits = ({}, ["pretrained"]) if case == "one" else (mixtures, [*transfers.METHODS, *controls])
    return dict(
        improvement=iat.improvement_table(config), scores=iat.iat_table(config), mixture="all", tasks=tasks,
        labels=iat.labels(config), metrics=iat.metrics(tasks) | {"t": "accuracy"}, task="t",
        variants=[*map(plain, config.variants.values())], specialization=special, combined=combined,
        dissociation=dissociation, summary=transfers.summarised(*fits), controls=controls,
    )  # fmt: skip


def gates_arguments(runs: dict[str, Any]) -> dict[str, Any]:
    """Tables and arguments of the figures of kept heads."""
    numbers = [dict(way="whole", fraction=1.0, heads=40.0)]
    numbers += [dict(fraction=fraction, heads=160 * fraction) for fraction in VALUES["fraction"]]
    budgets = table("budgets", runs | {"task": [*runs["task"], "mean"], "against": None}, numbers)
    shared = runs | {"task": None, "scope": "shared", "against": None}
    counts, kinds = (
        table(name, shared, [*OWN[name], OWN[name][-1] | {"way": "whole", "fraction": 1.0}])
        for name in ("role_counts", "kept_kinds")
    )
    return dict(
        labels=WAYS, places=pruning_methods.PRUNING_METHODS.places(WAYS), counts=counts, kinds=kinds,
        gates=table("gates", shared, numbers), overlap=table("overlap", runs),
        budgets=budgets.assign(metric=budgets["task"].where(budgets["task"].eq("mean"), "accuracy")),
    )  # fmt: skip


def heads_arguments(values: dict[str, Any], runs: dict[str, Any]) -> dict[str, Any]:
    """Tables and arguments of the figures of the head atlas and of probes."""
    tasks, probed = runs["task"], table("probed", runs)
    sharing = [dict(mixture=task, method="single", task=task, difference=None) for task in tasks]
    sharing += [dict(mixture="all", method=["tuned", "even"])]
    sharing += [dict(mixture="+".join(pair), task=list(pair)) for pair in itertools.combinations(tasks, 2)]
    return dict(
        heads=table("heads", runs | {"method": ["tuned", "frozen"], "label": None}), labels=HEADS | RANKINGS,
        belief=table("belief", values | {"task": "mean"}), cumulative=predictions(tasks, 0),
        roles=table("head_roles", runs | {"seed": 0, "role": "syntactic", "relation": "nmod:poss"}),
        sharing=table("sharing", runs, sharing), mixtures=values["mixture"],
        probed=[probed.assign(right=probed.index % 10)] * 2, shown=[("pretrained", 1), ("alone", 1)],
    )  # fmt: skip


@cache
def given(case: str, group: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of columns, and arguments by their names, for figures of a folder of `headspec.plots`."""
    tasks, n, (layers, heads), models = CASES[case]
    if group != "atlas":  # some compare tasks
        tasks = [*tasks, "imdb", "sst2"][: max(3, len(tasks))]
    mixtures = ["+".join(pair) for pair in itertools.combinations(tasks, 2)]
    values = VALUES | dict(
        model=models, mixture=[*mixtures, "all"], seed=range(n), layer=range(layers), head=range(heads),
        task=[*tasks, "mean"], against=[None, *tasks], measure=list(HEADS), seed_a=range(n),
    )  # fmt: skip
    runs = values | {"task": tasks, "model": models[0], "mixture": "all", "method": "tuned"}
    arguments: dict[str, Any] = dict(
        tasks=tasks, fraction=0.3, main=0.3, distinct=0.1, metrics=dict.fromkeys(tasks, "accuracy"),
        method="tuned", before="frozen", joint="all", measure="rsa",
        places=head_measures.places(head_measures.rankings()),
    )  # fmt: skip
    if group == "training":
        return runs, arguments | training_arguments(case)
    if group == "gates":
        return runs, arguments | gates_arguments(runs)
    return (
        (runs, arguments | heads_arguments(values, runs))
        if group
        else (values, arguments | pairs_arguments(values, runs))
    )


def drawn(name: str, case: str) -> Figure:
    """A figure of random tables, its arguments by their names as in the workflow."""
    group = name.rpartition("/")[0]
    path, _, function = FIGURES[name].partition(".py:")
    draw = getattr(import_module(f"headspec.plots.{path.replace('/', '.')}"), function)
    values, have = given(case, group)
    arguments: dict[str, Any] = {}
    for parameter, kind in inspect.signature(draw, eval_str=True).parameters.items():
        schema, value = TABLES.get(parameter, parameter), have.get(f"{name} {parameter}", have.get(parameter))
        if value is not None:
            arguments[parameter] = value
        elif pd.DataFrame not in (kind.annotation, *get_args(kind.annotation)):
            continue
        elif get_origin(kind.annotation) is Mapping:
            arguments[parameter] = {seed: table(schema, values, draw=seed) for seed in values["seed"]}
        else:
            arguments[parameter] = table(schema, values)
    return draw(**arguments)


#: name: its function
FIGURES = {figure.name: figure.drawn_by for figure in registry.FIGURES}
#: all figures with texts of every length
DRAWN = cases(itertools.product(FIGURES, CASES), {(name, "long") for name in [*FIGURES][::4]}.__contains__)


@pytest.mark.parametrize(("name", "case"), DRAWN)
def test_texts_neither_overlap_nor_leave_the_figure(name, case):
    assert_readable(drawn(name, case))


@pytest.mark.parametrize("entries", LABELLED.values(), ids=LABELLED)
def test_a_label_has_the_words_of_the_name_in_the_config(entries):
    """So that what a figure shows can be found in tables and config."""
    plain = {
        name: re.sub("[ -]", "", entry.label.lower().replace("×", "x")) for name, entry in entries.items()
    }
    assert not [name for name, label in plain.items() if any(w not in label for w in re.split("[-_]", name))]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.thorough
def test_same_tables_same_bytes(name, tmp_path):
    assert_same_bytes(lambda: drawn(name, "small"), tmp_path, *["png", "pdf"][: 1 + (name == "matrix")])


@pytest.mark.thorough
def test_figures_load_neither_torch_nor_pyplot():
    """Those of all modules, for what one loads the others would load as well."""
    paths = [path.relative_to(ROOT / "workflow") for path in (ROOT / "workflow/headspec/plots").rglob("*.py")]
    modules = ", ".join(".".join(path.with_suffix("").parts) for path in paths)
    code = f"import sys, {modules}; print({{'torch', 'matplotlib.pyplot'}} & set(sys.modules))"
    path = {"PYTHONPATH": str(ROOT / "workflow")}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


REPORT = ROOT / "workflow" / "report"
STRICT = {"halt_level": 2, "report_level": 5}
CAPTIONS = {str(path.relative_to(REPORT).with_suffix("")): path for path in REPORT.rglob("*.rst")}


@pytest.mark.parametrize("caption", sorted(CAPTIONS))
def test_captions_render(caption):
    config = {"study": "demo", "models": {"minilm": {}}, "tasks": dict.fromkeys(SMALL), "seeds": [0, 1]}
    wildcards = SimpleNamespace(
        model="minilm", mixture="sentiment+topic-pair", method="tuned", measure="rsa", task="t"
    )
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(CAPTIONS[caption].read_text())
    for draw_examples in (None, 37):
        params = SimpleNamespace(draw_examples=draw_examples)
        text = template.render(snakemake=SimpleNamespace(config=config, wildcards=wildcards, params=params))
        assert "<p" in docutils.core.publish_string(text, writer="html", settings_overrides=STRICT).decode()
        noisy = caption in ("matrix", "curves") and draw_examples is not None
        assert noisy == ("a different sample of 37 validation" in text)


def test_the_report_begins_with_the_finding_and_lists_the_figures_that_exist(tmp_path):
    """It has words for every figure; names cannot become code, and nothing is said of other figures."""
    study(tmp_path / "results" / "small", tasks=("a", HOSTILE[0]))
    (folder := tmp_path / "results" / "small" / "figures" / "atlas").mkdir(parents=True)
    for name in ("dissociation.svg", "similarity.model.png", "atlas/believe.png"):
        (folder.parent / name).write_bytes(b"<svg/>" * 5000)
    figures = [each._replace(title=f"title of {each.name}") for each in registry.FIGURES]
    found = opening(folder.parents[1], figures, None)
    assert found["image"][0].startswith("data:image/svg+xml;base64,")
    assert [name for *_, name in found["figures"]] == ["dissociation", "similarity", "atlas/believe"]
    every = [(f.category, f.title, f.name) for f in figures]
    config = {"study": "demo", "models": {"minilm": {}}, "tasks": {}, "seeds": [0]}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(CAPTIONS["workflow"].read_text())
    for part in (found, found | {"figures": every, "found": [HOSTILE[0]]}):
        text = template.render(snakemake=SimpleNamespace(config=config | {"opening": part}))
        html = docutils.core.publish_string(text, writer="html", settings_overrides=STRICT).decode()
        assert html.index("<ul><li>") < html.index("<img ") < html.index("When one transformer")
        assert "<script>" not in html and html.count("title of ") == len(part["figures"])


def test_every_figure_has_a_caption():
    assert set(CAPTIONS) == {*FIGURES, "workflow"}
