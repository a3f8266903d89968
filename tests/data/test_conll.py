"""Files with a line for each word."""

import pytest

from headspec.data.sources.formats import conll
from headspec.data.sources.formats.options import Options
from headspec.errors import DataError

CONLLU = """\
# sent_id = a
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\t_\t_\t2\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t0\troot\t_\t_
2.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_

1\tYes\tyes\tINTJ\t_\t_\t0\troot\t_\t_
"""


def file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_conllu_has_its_columns_and_leaves_out_what_is_no_word(tmp_path):
    frame, counts = conll.read_sentences(file(tmp_path, "a.conllu", CONLLU), "tasks.pos.source")
    assert frame["words"].tolist() == [["do", "n't"], ["Yes"]]
    assert frame["upos"].tolist() == [["AUX", "PART"], ["INTJ"]]
    assert frame["deprel"].tolist() == [["aux", "root"], ["root"]]
    assert frame[conll.LINE].tolist() == [2, 7] and frame[conll.NAME].fillna("").tolist() == ["a", ""]
    assert counts == {"multiword_tokens": 1, "empty_nodes": 1}


def test_columns_are_numbered_and_marks_of_documents_left_out(tmp_path):
    text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nYes UH O\n"
    path = file(tmp_path, "a.conll", text)
    frame, counts = conll.read_sentences(path, "tasks.ner.source")
    assert [*frame] == ["1", "2", "3", conll.LINE, conll.NAME]
    assert conll.names(path, Options("tasks.ner.source")) == [*frame]
    assert frame["1"].tolist() == [["EU", "rejects"], ["Yes"]]
    assert frame["3"].tolist() == [["B-ORG", "O"], ["O"]]
    assert frame[conll.LINE].tolist() == [3, 7] and not counts


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.conllu", "1\tx\n", "line 1 of a.conllu has 2 columns; CoNLL-U has ten, separated by tabs"),
        (
            "a.conllu",
            CONLLU.replace("2\tn't", "3\tn't"),
            "line 4 of a.conllu has word number '3', expected 2",
        ),
        ("a.conll", "a B\nb\n", "line 2 of a.conll has 1 columns; the first has 2"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, name, text, problem):
    with pytest.raises(DataError) as error:
        conll.read_sentences(file(tmp_path, name, text), "tasks.pos.source")
    assert str(error.value) == f"tasks.pos.source: {problem}"
