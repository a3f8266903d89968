"""The studies that come with headspec, planned by Snakemake itself."""

import importlib
import re
import sys

import pytest

from headspec.config.loading import load, strict_yaml
from headspec.config.reference import schema, sections
from headspec.data.submission import FILES
from support.paths import ROOT
from support.running.studies import Folder

sys.path.append(str(ROOT / "docs" / "studies"))
minimal_pairs = importlib.import_module("minimal_pairs")
STUDIES = {
    path.stem: load(strict_yaml(path)) for path in sorted((ROOT / "workflow" / "studies").glob("*.yaml"))
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Folder:
    return Folder.new(tmp_path_factory.mktemp("studies") / "folder")


def test_a_study_is_named_as_its_file():
    assert [study.study for study in STUDIES.values()] == [*STUDIES]


def test_the_paper_study_matches_the_paper():
    """Models, tasks and mixtures of Li et al. 2023; sources on the hub are pinned by commit."""
    paper = STUDIES["paper"]
    assert len(paper.models) == 7 and all(m.max_length == 256 for m in paper.models.values())
    five = {"mnli", "qqp", "qnli", "ag", "sst2"}
    mixtures = {frozenset(tasks) for tasks in paper.mixture_tasks.values()}
    pairs = {frozenset((a, b)) for a in five for b in five if a != b}
    paradigm = {frozenset(("ag-pair", "qnli")), frozenset(("ag-pair", "sst2"))}
    assert len(pairs) == 10 and mixtures == pairs | paradigm | {frozenset(five)}
    assert len(paper.mixture_tasks) == 13 and paper.methods == ["tuned", "frozen"] and len(paper.seeds) >= 3
    assert paper.tasks["qqp"].metrics[0] == "f1"
    assert list(paper.tasks["qqp"].labels) == ["not_duplicate", "duplicate"]
    sources = {name: m.source for name, m in paper.models.items()}
    sources |= {name: task.source for name, task in paper.tasks.items() if task.source}
    loose = {name for name, source in sources.items() if not re.fullmatch(r"hub:.+@[0-9a-f]{40}", source)}
    assert loose == {"gpt"}  # as its comment says
    training, pruning = paper.training, paper.pruning
    assert (training.batch_size, training.epochs, training.learning_rate) == (32, 3, 2e-5)
    assert training.clip is None and training.warmup == 0
    assert (paper.importance.samples, pruning.fraction, training.weight_decay) == (10_000, 0.3, 0.0)


@pytest.mark.slow
def test_batches_of_runs_plan_their_share_and_no_tables(folder):
    every = folder.plan("runs").rules
    batch = folder.plan("runs", "--batch", "runs=1/3").rules
    assert {*every} - {*batch} == {"runs"}
    assert {*batch} == {"validation", "data", "tokenize", "features", "train", "importance", "prune"}
    for rule in ("train", "importance", "prune"):
        assert every[rule] / 4 <= batch[rule] <= every[rule] / 2


@pytest.mark.slow
def test_the_paper_study_is_planned(folder):
    """Without a network and with an empty cache."""
    plan = folder.plan("--configfile", "workflow/studies/paper.yaml")
    models, mixtures, methods, seeds = 7, 13, 2, 3
    runs, each = models * mixtures * methods * seeds, models * mixtures * methods
    assert plan.rules == {
        "validation": 6, "data": 6, "tokenize": 6 * models, "features": 6 * models,
        "train": runs, "importance": runs, "prune": runs,
        "reliability": 1, "dissociation": 1, "contrasts": 1, "figure_importance": each, "figure_matrix": each,
        "figure_curves": each, "figure_reliability": 1, "figure_dissociation": 1, "figure_fractions": models,
        "figure_matrix_parts": models, "figure_shared_fragility": 1,
    }  # fmt: skip
    assert sum(plan.rules.values()) == 2300
    messages = [m for m in plan.messages if m.startswith("Training")]
    assert "Training bert-large on ag-pair-and-qnli, frozen, seed 2" in messages
    assert "Training gpt on mnli+qqp, tuned, seed 0" in messages and len(set(messages)) == runs


def test_keys_that_restore_the_papers_method_are_in_the_config():
    """Every key named as a difference from the paper is in the config reference."""
    known = {
        f"{path}.{key}" if path else key for path, node in sections(schema()) for key in node["properties"]
    }
    page = (ROOT / "docs/methods/reproduction.md").read_text().partition("## Differences from the paper")[2]
    lines = [line for line in page.splitlines() if line.count("|") >= 5]
    named = {key for line in lines for key in re.findall(r"`([a-z][\w.<>]*)[`:]", line.split("|")[-2])}
    assert len(named) > 20
    assert {re.sub(r"^(tasks|models)\.[\w<>]+", r"\1.<name>", key) for key in named} <= known


EIGHT = {"cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte"}


def test_the_glue_study_matches_the_paper():
    """Five models, eight training sets, nine evaluated tasks; every file of the test server once."""
    glue, paper = STUDIES["glue"], STUDIES["paper"]
    assert len(glue.models) == 5 and all(paper.models[name] == m for name, m in glue.models.items())
    assert {name: set(tasks) for name, tasks in glue.mixture_tasks.items()} == {"glue": EIGHT}
    sources = [section.source for section in [*glue.models.values(), *glue.tasks.values()]]
    assert all(re.fullmatch(r"hub:.+@[0-9a-f]{40}", source) for source in sources)
    metrics = {name: set(glue.tasks[name].metrics) for name in EIGHT}
    both = {"f1", "accuracy"}
    assert metrics == dict.fromkeys(EIGHT, {"accuracy"}) | {
        "cola": {"matthews"}, "mrpc": both, "qqp": both, "stsb": {"pearson", "spearman"},
    }  # fmt: skip
    assert [glue.tasks[name].further for name in EIGHT if glue.tasks[name].further] == [
        {"mnli-mm": "validation_mismatched"}
    ]
    assert sorted([file for task in glue.tasks.values() for file in task.test] + ["WNLI"]) == sorted(FILES)
    assert glue.submissions == [("glue", "tuned"), ("glue", "iat"), ("glue", "single")]
    assert (glue.iat.alpha, glue.iat.delta) == (0.3, 0.1)
    fits = glue.transfer.draws * len(glue.transfer.samples)  # per encoder
    assert all(fits * glue.tasks[name].validation_examples <= 50_000 for name in glue.transfer.tasks)
    assert {variant.sampling for variant in glue.variants.values()} == {"proportional", "sqrt", "annealed"}
    training = glue.training.model_copy(update={"frozen": paper.training.frozen})
    assert training == paper.training and glue.importance == paper.importance


@pytest.mark.slow
def test_the_glue_study_is_planned(folder):
    """Without a network: tables of IAT; prediction files of five models, three methods, three seeds."""
    plan = folder.plan("iat", "submission", "--configfile", "workflow/studies/glue.yaml")
    models, seeds, variants = 5, 3, len(STUDIES["glue"].variants)
    runs = models * seeds * (variants + len(EIGHT))
    assert plan.rules["evaluate"] == runs and plan.rules["improvement"] == 1
    assert plan.rules["data"] == len(EIGHT) + 2 and plan.rules["split"] == 1 + 10
    assert plan.rules["few_shot"] == 2 and plan.rules["transfer"] == models * seeds * 2 * (1 + 2 + len(EIGHT))
    assert plan.rules["tokenize_split"] == models * 11
    assert plan.rules["predict"] == models * seeds * (2 + len(EIGHT))
    assert plan.rules["prediction_files"] == models * seeds * 3


@pytest.mark.slow
def test_the_decoder_study_is_planned(folder):
    path = folder.path / "data" / "pairs.csv"
    path.parent.mkdir(exist_ok=True)
    minimal_pairs.pairs(500).to_csv(path, index=False)
    plan = folder.plan("--configfile", "workflow/studies/decoder.yaml")
    assert plan.rules["importance"] == plan.rules["prune"] == 3 and "train" not in plan.rules
