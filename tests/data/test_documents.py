"""JSON documents with rows in the innermost of nested lists, as data sets of questions have them."""

import json

import pytest

from headspec.data.sources.formats import registry
from headspec.data.sources.formats.options import Options
from headspec.errors import DataError

CONTEXT = "The Denver Broncos beat the Carolina Panthers. The Broncos won in Denver."
WON = ("Denver Broncos", 4)


def document() -> dict:
    """A document as SQuAD's, of three questions on two contexts."""

    def question(name: str, *answers: tuple[str, int]) -> dict:
        gold = [{"text": text, "answer_start": start} for text, start in answers]
        return {"id": name, "question": f"Who {name}?", "answers": gold, "is_impossible": not gold}

    first = {"context": CONTEXT, "qas": [question("lost"), question("won", WON, ("Denver", 66))]}
    second = {"context": "Snow fell.", "qas": [question("fell", ("Snow", 0))]}
    return {"version": "v2.0", "data": [{"title": "A", "paragraphs": [first]}, {"paragraphs": [second]}]}


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_of_questions_is_a_table(tmp_path, indent):
    path = tmp_path / "train.json"
    path.write_text(json.dumps(document(), indent=indent))
    options = Options("tasks.q.source")
    assert {"question", "context", "answers", "title"} <= {*registry.names(path, options)}
    table = registry.table([path], lambda _: ["question", "context", "answers"], options)
    assert table["question"].tolist() == ["Who lost?", "Who won?", "Who fell?"]
    assert table["context"].tolist() == [CONTEXT, CONTEXT, "Snow fell."]
    found = [[(answer["text"], answer["answer_start"]) for answer in of_row] for of_row in table["answers"]]
    assert found == [[], [WON, ("Denver", 66)], [("Snow", 0)]]


def test_a_document_without_a_list_is_refused(tmp_path):
    lacking = document()
    del lacking["data"][1]["paragraphs"][0]["qas"]
    path = tmp_path / "train.json"
    path.write_text(json.dumps(lacking))
    with pytest.raises(DataError, match="object 2 of 2 lacks the list 'qas'"):
        registry.names(path, Options("tasks.q.source"))


def test_lines_with_a_list_called_data_stay_lines(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"data": [{"x": 1}], "text": "a"}\n{"data": [], "text": "b"}\n')
    table = registry.table([path], lambda _: ["text"], Options("tasks.q.source"))
    assert table["text"].tolist() == ["a", "b"]
