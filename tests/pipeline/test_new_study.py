"""Studies of files alone: types, columns and labels are found, and the study can be planned."""

import json
import re
import subprocess
import sys
from random import Random

import pytest
import yaml

from headspec.config import loading
from headspec.cost import budget
from headspec.errors import ConfigError, DataError, HeadspecError
from headspec.pipeline import preflight
from headspec.pipeline.commands.from_files import found
from headspec.pipeline.commands.from_files.new_study import SHORT, model_source, write_study
from support.data import good_tables as good
from support.data.good_tables import Table
from support.data.sources import written
from support.running.studies import CONFIG, Folder

SEEDS = range(8)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Folder:
    return Folder.new(tmp_path_factory.mktemp("new") / "study")


@pytest.fixture
def folder(shared, monkeypatch) -> Folder:
    monkeypatch.chdir(shared.path)
    return shared


def scores(rng: Random) -> Table:
    return Table([(f"{good.text(rng)} {i}", round(rng.uniform(-5, 5), 2)) for i in range(20)])


TABLES = {
    "classification": good.classes,
    "regression": scores,
    "labels": good.label_sets,
    "tags": good.tagged,
}


def drawn(rng: Random, kind: str, folder: Folder, name: str) -> tuple[str, list[str]]:
    """A file of a random form, with columns of random names in random order beside a number of the row."""
    frame = TABLES[kind](rng).frame
    names = [f"{rng.choice('bcdfgh')}{rng.randrange(1000)} {place}" for place in range(3)]
    frame.insert(0, "id", range(7, 7 + len(frame)))
    frame.columns = names
    frame = frame[rng.sample(names, 3)]
    ending = rng.choice([*good.FORMS, ";", "|"])
    if ending in good.FORMS:
        path = f"{name}{ending}"
        data = good.FORMS[ending](frame)
    else:
        path, data = f"{name}.csv", good.as_csv(frame, delimiter=ending)
    written(folder.path, {path: data})
    return path, names


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("seed", SEEDS)
def test_types_and_columns_are_found_in_any_form(seed, kind, folder):
    path, (_, text, label) = drawn(Random(f"{seed} {kind}"), kind, folder, f"{kind}{seed}")
    keys = found.find(path).keys
    assert (keys["type"], keys["text_a"], keys["label"]) == (kind, text, label)


def test_the_study_of_several_files_can_be_planned(folder, tmp_path):
    rng = Random(3)
    files = [
        drawn(rng, kind, folder, f"all-{kind}")[0] for kind in ("classification", "regression", "labels")
    ]
    out = tmp_path / "own.yaml"
    said = write_study(files, "models/tiny-bert", out)
    assert f"headspec plan {out}" in said
    config = loading.strict_yaml(out)
    study = preflight.load(config)
    assert [task.type for task in study.tasks.values()] == ["classification", "regression", "labels"]
    assert study.mixture_tasks == {"all": tuple(study.tasks)} and config["methods"] == ["tuned", "frozen"]
    assert config["tasks"]["all-classification"]["labels"] == sorted(good.NAMES[:3])
    said = out.read_text()  # the account of each file
    assert all(
        f"  # tasks.{name}: " in said and f" of 20 training rows in {name}." in said for name in study.tasks
    )
    with pytest.raises(ConfigError, match=r"own.yaml: already exists"):
        write_study(files, "models/tiny-bert", out)
    assert preflight.problems(study)[1] == []


@pytest.mark.slow
def test_snakemake_takes_a_written_study(folder):
    rng = Random(4)
    files = [drawn(rng, kind, folder, f"two-{kind}")[0] for kind in ("classification", "labels")]
    write_study(files, "models/tiny-bert", folder.path / "two.yaml")
    command = [sys.executable, "-m", "snakemake", "--configfile", "two.yaml", "-n"]
    run = subprocess.run(command, cwd=folder.path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_label_can_be_named_and_other_columns_are_told(folder, tmp_path):
    table = good.classes(Random(1)).frame.assign(other=lambda rows: ["x", "y"] * (len(rows) // 2))
    written(folder.path, {"both.csv": good.as_csv(table)})
    first, named = found.find("both.csv"), found.find("both.csv:other")
    assert (first.keys["label"], first.others) == ("label", {"other": 2})
    assert (named.name, named.keys["label"]) == ("both-other", "other")
    write_study(["both.csv", "both.csv:other"], "models/tiny-bert", tmp_path / "s.yaml")
    assert "<file>:other" in (tmp_path / "s.yaml").read_text()


def test_rows_without_header_and_without_label_are_read(folder, tmp_path):
    rows = good.classes(Random(2), n=30).rows
    lines = [f"{text};{'' if i % 10 == 3 else label}" for i, (text, label) in enumerate(rows)]
    written(folder.path, {"bare.csv": "\n".join(lines)})
    keys = found.find("bare.csv").keys
    assert (
        keys["delimiter"] == ";" and keys["columns"] == ["column1", "column2"] and keys["unlabelled"] == [""]
    )
    write_study(["bare.csv"], "models/tiny-bert", tmp_path / "bare.yaml")
    assert "3 have no label" in (tmp_path / "bare.yaml").read_text()


def test_answers_to_compare_are_asked_of_a_model_and_others_are_pointed_elsewhere(folder, tmp_path):
    rows = [{"Text": f"one {i}", "right": " two", "wrong": " three"} for i in range(20)]
    written(folder.path, {"asked.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    keys = found.find("asked.jsonl").keys
    assert (keys["type"], keys["prompt"], keys["text_a"]) == ("answer_pairs", "{text_a}", "Text")
    free = [{"prompt": f"one {i}", "answer": f"two {i}"} for i in range(20)]
    written(folder.path, {"free.jsonl": "".join(json.dumps(row) + "\n" for row in free)})
    with pytest.raises(DataError, match=r"which a study has no task for.* headspec heads <model> free.jsonl"):
        found.find("free.jsonl")


@pytest.mark.parametrize(("labels", "missing"), [
    (["a", "b", "-"], ["-"]), (["+", "-"], []), (["a", "b", "-1"], ["-1"]), (["-1", "0", "1"], []),
    (["a", "?", "!"], []), (["a", "-"], []),
])  # fmt: skip
def test_signs_in_the_place_of_a_label_are_none(labels, missing, folder):
    rows = [f"{good.text(Random(i))} {i},{labels[i % len(labels)]}" for i in range(30)]
    written(folder.path, {"signs.csv": "\n".join(["text,label", *rows])})
    assert found.find("signs.csv").keys.get("unlabelled", []) == missing


@pytest.mark.parametrize("classes", found.SIGNS)
def test_a_study_keeps_the_sign_of_a_class(classes, folder, tmp_path):
    labels = sorted(classes) * 20
    rows = [f"{good.text(Random(i))} {i},{label}" for i, label in enumerate(labels)]
    written(folder.path, {"signed.csv": "\n".join(["text,label", *rows])})
    write_study(["signed.csv"], "models/tiny-bert", tmp_path / "signed.yaml")
    planned, problems = preflight.problems(preflight.load(loading.strict_yaml(tmp_path / "signed.yaml")))
    assert not problems and {*planned.prepared["signed"].classes} == classes


def address(rng: Random) -> str:
    """Numbers with spaces or, some in letters, with marks between them: a date or an address."""
    if rng.random() < 0.3:
        return " ".join(str(rng.randrange(10**6)) for _ in range(rng.randint(3, 20)))
    parts = (f"{rng.randrange(16**4):{rng.choice('xd')}}" for _ in range(rng.randint(2, 30)))
    return "".join(part + rng.choice(":/.-_@?=&+#~%") for part in parts)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_has_no_words_between_spaces_is_no_text(seed, kind, folder):
    rng = Random(f"addresses {seed} {kind}")
    frame = TABLES[kind](rng).frame
    beside = frame.assign(at=[f"{address(rng)}{i}" for i in range(len(frame))])
    names = {name: f"{name[0]}{rng.randrange(1000)}" for name in frame}
    beside = beside.rename(columns=names)[rng.sample([*names.values(), "at"], 3)]
    written(folder.path, {"at.jsonl": good.as_lines(beside)})
    keys = found.find("at.jsonl").keys
    assert (keys["text_a"], keys["label"], keys["type"]) == (names["text"], names["label"], kind)
    assert "text_b" not in keys


def test_tags_leave_a_second_text_out(folder):
    frame = good.tagged(Random(3)).frame
    frame["second"] = [f"{good.text(Random(i))} {i} and so on" for i in range(len(frame))]
    frame = frame.rename(columns={"text": "first"})
    written(folder.path, {"second.jsonl": good.as_lines(frame)})
    keys = found.find("second.jsonl").keys
    assert keys["type"] == "tags" and (keys["text_a"], keys.get("text_b")) == ("first", None)


def test_sentences_of_the_same_tags_are_tagged(folder):
    rows = [f"{' '.join(good.WORDS[:3])} {i},A B A C" for i in range(20)]
    written(folder.path, {"same.csv": "\n".join(["text,pos", *rows])})
    assert found.find("same.csv").keys["type"] == "tags"


def test_what_cannot_be_a_task_is_refused_by_file_and_column(folder, tmp_path):
    texts = good.classes(Random(5)).frame[["text"]]
    written(folder.path, {"alone.csv": good.as_csv(texts.assign(id=range(20)))})
    with pytest.raises(DataError, match=r"alone.csv: of id, none can be a label for the texts in text"):
        found.find("alone.csv")
    with pytest.raises(DataError, match=r"alone.csv: no column 'ids'; it has text, id. Did you mean 'id'"):
        found.find("alone.csv:ids")
    with pytest.raises(HeadspecError, match="no file or folder 'nowhere.csv'"):
        write_study(["nowhere.csv"], "models/tiny-bert", tmp_path / "n.yaml")
    with pytest.raises(ConfigError, match=r"--model: got 'robert', .* Did you mean 'roberta'"):
        model_source("robert")
    assert not list(tmp_path.iterdir())


def test_models_have_short_names_and_commits():
    for name in SHORT:
        short, source = model_source(name)
        assert short == name and len(source.partition("@")[2]) == 40
    assert model_source("hub:own/model@v1") == ("model", "hub:own/model@v1")


def test_minutes_halve_settings_until_the_plan_fits(folder):
    folder.write(CONFIG)
    config = yaml.safe_load(yaml.safe_dump(CONFIG | {"seeds": [0]}))
    slow = 3e6
    whole, _ = budget.fitted(config, 1e6, slow)
    assert whole["training"]["epochs"] == 4 and whole["pruning"]["draws"] == 4
    wall = float(re.search(r"planned: (\d+) min", budget.fitted(config, 1e6, slow)[1])[1])
    part, said = budget.fitted(config, 0.9 * wall, slow)
    assert part != whole and f"fitted to {0.9 * wall:g} minutes" in said
    assert part["training"]["epochs"] < 4 or part["importance"] != whole["importance"]
    with pytest.raises(ConfigError, match=r"--minutes: got 0.1, but the smallest study of these files takes"):
        budget.fitted(config, 0.1, slow)
