"""The heads of one model that one table needs, as text and as a page."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from transformers import AutoTokenizer, BertForSequenceClassification, BertForTokenClassification

from headspec.errors import HeadspecError
from headspec.pipeline.commands.from_files import examples
from headspec.pipeline.commands.from_files.heads import write_page
from support import tiny
from support.data.sources import written
from support.model_types import any_model
from support.models import qwen, word_pieces
from support.running.studies import WORDS

N = 24
#: words that the models' tokenizer knows
KNOWN = WORDS[5:]
CLASSES, TOPICS = ["no", "perhaps", "yes"], ["joy", "fear", "hope"]
#: head and labels of models
MODELS: dict[str, tuple[Any, list[str], dict[str, Any]]] = {
    "classes": (BertForSequenceClassification, CLASSES, {}),
    "scores": (BertForSequenceClassification, ["LABEL_0"], {}),
    "labels": (BertForSequenceClassification, TOPICS, {"problem_type": "multi_label_classification"}),
    "tags": (BertForTokenClassification, ["O", "B-x", "I-x", "B-y"], {}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """Folders of tiny models, by their head."""
    folder = tmp_path_factory.mktemp("models")
    for name, (head, labels, more) in MODELS.items():
        ids = {label: i for i, label in enumerate(labels)}
        config = tiny.config(
            "bert", num_labels=len(labels), id2label=dict(enumerate(labels)), label2id=ids, **more
        )
        head(config).save_pretrained(folder / name)
        word_pieces(folder / name)
    return folder


def texts(least: int = 3, most: int = 7, seed: int = 0) -> list[str]:
    rng = Random(seed)
    return [" ".join(rng.choices(KNOWN, k=rng.randint(least, most))) + f" {i}" for i in range(N)]


def lines(**columns: list[Any]) -> str:
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)


def csv(header: str, *columns: list[Any], between: str = ",") -> str:
    rows = [between.join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join([header, *rows, ""])


def every(values: list[Any]) -> list[Any]:
    return [values[i % len(values)] for i in range(N)]


A, B = texts(), texts(4, 9, seed=1)
FLAGS = (["TRUE", "FALSE"], ["FALSE", "TRUE", "FALSE"], ["FALSE"] * 4 + ["TRUE"])
SENTENCES = "\n".join(f"{KNOWN[i]}\tB-x\n{KNOWN[i + 1]}\tI-x\n{KNOWN[0]}\tO\n" for i in range(N))
#: model, file, its content, and how many examples are read
TABLES: dict[str, tuple[str, str, str, int]] = {
    "classes": ("classes", "t.csv", csv("review;stars", A, every(CLASSES), between=";"), N),
    "pairs, one without a label": (
        "classes",
        "t.tsv",
        csv("premise\thypothesis\tgold_label", A, B, ["-", *every(CLASSES)[1:]], between="\t"),
        N - 1,
    ),
    "scores of pairs": (
        "scores",
        "t.csv",
        csv("s1,s2,similarity", A, B, [f"{i / 7:.2f}" for i in range(N)]),
        N,
    ),
    "columns of flags": (
        "labels",
        "t.tsv",
        csv("comment\tjoy\tfear\thope", A, *map(every, FLAGS), between="\t"),
        N,
    ),
    "mappings of labels": (
        "labels",
        "t.jsonl",
        lines(text=A, emotions=[{"joy": i % 2, "fear": int(i % 3 == 0)} for i in range(N)]),
        N,
    ),
    "joined labels": (
        "labels",
        "t.csv",
        csv("text,labels", A, every(["joy|fear", "fear", "joy", "hope"])),
        N,
    ),
    "tags in lines": ("tags", "t.conll", SENTENCES, N),
    "lists of tags": (
        "tags",
        "t.jsonl",
        lines(tokens=[[KNOWN[i], "a", str(i)] for i in range(N)], ner=[["O", "B-y", "O"]] * N),
        N,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_all_kinds_give_a_ranking_and_a_page(name, models, tmp_path, monkeypatch):
    model, file, content, n = TABLES[name]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {file: content})
    said = write_page(str(models / model), file, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 2 and page.count("<tr") == 1 + tiny.LAYERS * tiny.HEADS
    assert said.startswith(f"{n} examples: {'words' if model == 'tags' else 'texts'}")
    assert len(said.splitlines()) > 10
    with pytest.raises(HeadspecError, match="already exists"):
        write_page(str(models / model), file, tmp_path / "page.html")


def test_a_decoder_takes_prompts_and_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "decoder").mkdir()
    qwen(tmp_path / "decoder")
    size = len(AutoTokenizer.from_pretrained("decoder"))
    any_model.model("pythia", vocab_size=size).save_pretrained("decoder")
    prompts = [f"the gentle {i} is" for i in range(N)]
    written(tmp_path, {"t.csv": csv("Prompt,Answer", prompts, [f" {word}" for word in every(KNOWN[:3])])})
    assert examples.read("t.csv").columns["prompts"] == prompts
    said = write_page("decoder", "t.csv", tmp_path / "page.html")
    assert said.startswith(f"{N} examples: prompts and answers")


def test_numbers_are_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {"t.jsonl": lines(prompt=[f"{i} + 1 =" for i in range(4)], answer=[1, 2, 3, 4])})
    assert examples.read("t.jsonl").columns["answers"] == ["1", "2", "3", "4"]


def test_spans_become_tags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spans = [[{"start": 0, "end": 2, "type": "x"}, {"start": 3, "end": 4, "type": "y"}]] * N
    written(tmp_path, {"t.jsonl": lines(words=[["a", "b", "c", str(i)] for i in range(N)], spans=spans)})
    read = examples.read("t.jsonl")
    assert (read.type, read.columns["tags"][0]) == ("spans", ["B-x", "I-x", "O", "B-y"])


MISTAKES = {
    "another label": (
        "classes",
        csv("text,label", A, every(["no", "yess", "yes"])),
        r"t.csv: labels: got 'yess'; .*'yes'\?",
    ),
    "another set": (
        "labels",
        csv("text,labels", A, every(["joy|feer", "feer", "joy"])),
        "got 'feer'; .*'fear'",
    ),
    "a head for texts": (
        "classes",
        csv("prompt,answer", A, B),
        "is a BertForSequenceClassification, but prompts and answers need a language model",
    ),
    "a head for words": (
        "tags",
        csv("text,label", A, every(CLASSES)),
        "need a sequence classification model",
    ),
    "a study": (
        "classes",
        csv("text,right,wrong", A, every([" a", " b"]), every([" c", " d"])),
        "contains a task of type answer_pairs, .* headspec new t.csv --model",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_does_not_fit_is_told(name, models, tmp_path, monkeypatch):
    model, content, told = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {"t.csv": content})
    with pytest.raises(HeadspecError, match=told):
        write_page(str(models / model), "t.csv", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
