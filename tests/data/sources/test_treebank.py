"""Treebanks are read, and refused with the sentence and the reason."""

import re
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from headspec.data.sources import treebank
from headspec.errors import DataError, MissingError
from support.data.hub import cache_dataset, offline
from support.data.sources import save

# with a multi-word token ("don't") and an empty node
DOGS = """# sent_id = dogs
# text = Dogs don't bark.
1	Dogs	dog	NOUN	NNS	_	4	nsubj	4:nsubj	_
2-3	don't	_	_	_	_	_	_	_	SpaceAfter=No
2	do	do	AUX	VBP	_	4	aux	4:aux	_
3	n't	not	PART	RB	_	4	advmod	4:advmod	_
4	bark	bark	VERB	VB	_	0	root	0:root	_
4.1	loudly	loudly	ADV	RB	_	_	_	4:advmod	_
5	.	.	PUNCT	.	_	4	punct	4:punct	_
"""
WORDS, HEADS = ["Dogs", "do", "n't", "bark", "."], [4, 4, 4, 0, 4]
RELATIONS = ["nsubj", "aux", "advmod", "root", "punct"]
COLUMNS = {"words": "words", "head": "head", "relation": "deprel"}


@pytest.fixture(autouse=True)
def few(request, monkeypatch):
    """Treebanks of one sentence, except in tests of their number."""
    if "number" not in request.node.name:
        monkeypatch.setattr(treebank, "FEWEST", 1)


def read(source: Any, **more: Any) -> tuple[pd.DataFrame, dict[str, int]]:
    values = {"source": str(source), "subset": None, "split": "validation", **COLUMNS}
    return treebank.read_treebank(SimpleNamespace(**values | more))


def refused(source: Any, **more: Any) -> str:
    with pytest.raises(DataError) as error:
        read(source, **more)
    return str(error.value)


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"words": [WORDS], "head": [HEADS], "deprel": [RELATIONS]} | columns)


def check(row: Any) -> None:
    """Compare a row with the sentence."""
    assert (row["name"], row["words"], row["head"], row["relation"]) == ("dogs", WORDS, HEADS, RELATIONS)


def test_syntactic_words_of_conllu_are_the_units(tmp_path):
    """Ranges and empty nodes are left out, and counted."""
    path = tmp_path / "en.conllu"
    path.write_text(f"{DOGS}\n\n{DOGS}")  # without an empty line at the end
    frame, counts = read(path)
    assert frame["sentence"].tolist() == [0, 1]
    for _, row in frame.iterrows():
        check(row)
    assert counts == {"sentences": 2, "words": 10, "multiword_tokens": 2, "empty_nodes": 2}


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".tsv", ".jsonl"])
def test_tables_have_lists_or_texts_with_spaces(tmp_path, ending):
    frame = table(sentence_id=["dogs"])
    if ending in (".csv", ".tsv"):
        lists = ["words", "head", "deprel"]
        frame[lists] = frame[lists].map(lambda items: " ".join(map(str, items)))
    found, counts = read(save(frame, tmp_path / f"bank{ending}"))
    check(found.iloc[0])
    assert counts == {"sentences": 1, "words": 5}


def test_splits_and_columns_are_found_by_name(tmp_path):
    save(table(), tmp_path / "validation.parquet")
    save(table().rename(columns={"words": "tokens"}), tmp_path / "more.parquet")
    (tmp_path / "other.conllu").write_text(DOGS)
    assert read(tmp_path)[0].loc[0, "name"] == "row 1"
    assert read(tmp_path, split="other")[0].loc[0, "name"] == "dogs"
    assert read(tmp_path, split="more", words="tokens")[1]["words"] == 5
    for settings, said in (
        ({"split": "validaton"}, r"treebank.split: .* 'validaton'; .* Did you mean 'validation'\?"),
        ({"split": "more", "words": "token"}, r"treebank.words: no column 'token' .* mean 'tokens'\?"),
    ):
        assert re.search(said, refused(tmp_path, **settings))
    with pytest.raises(MissingError, match=r"treebank.source: no file .* Did you mean 'other.conllu'\?"):
        read(tmp_path / "othr.conllu")


def test_a_treebank_of_the_hub(tmp_path, monkeypatch):
    offline(monkeypatch, tmp_path / "cache")
    made = table(sent_id=["dogs"]).rename(columns={"words": "tokens"})
    save(made, tmp_path / "made" / "validation.parquet")
    cache_dataset(tmp_path / "made", tmp_path / "cache", "someone/trees")
    check(read("hub:someone/trees", words="tokens")[0].iloc[0])
    message = refused("hub:someone/trees", split="validatoin")
    assert re.search(r"no split 'validatoin'; it has .* Did you mean 'validation'\?", message)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"head": [2, 1, 4, 0, 4]}, "the heads of words 1 -> 2 -> 1 form a cycle"),
        ({"head": [4, 4, 3, 0, 4]}, "the heads of words 3 -> 3 form a cycle"),
        ({"head": [2, 3, 4, 5, 1]}, "it has no root; the heads of words 1 -> 2 -> 3 -> 4 -> 5 -> 1 form"),
        ({"head": [4, 0, 4, 0, 4]}, "it has 2 roots, words 2, 4"),
        ({"head": [4, 4, 4, 0, 6]}, "word 5 ('.') has head 6, expected 0 (the root) to 5"),
        ({"head": [4, -1, 4, 0, 4]}, "word 2 ('do') has head -1, expected"),
        ({"head": [4, 4, None, 0, 4]}, "word 3 ('n't') has no head"),
        ({"head": [4, 4, 0, 4]}, "it has 5 words, 4 heads and 5 relations"),
        ({"words": [], "head": [], "deprel": []}, "it has no words"),
        ({"words": ["Dogs", "", "n't", "bark", "."]}, "word 2 is empty"),
        ({"deprel": ["_", *RELATIONS[1:]]}, "word 1 ('Dogs') has no relation"),
    ],
)
def test_sentences_that_are_not_trees_are_refused(tmp_path, changed, reason):
    columns = {name: [cells[0], changed.get(name, cells[0])] for name, cells in table().items()}
    message = refused(save(table(**columns), tmp_path / "bank.parquet"))
    assert message.startswith("atlas.treebank.source: 1 of 2 sentences of ")
    assert f": sentence 2 (row 2): {reason}" in message


def test_at_most_three_problems_and_names_of_sentences_are_shown(tmp_path):
    columns = {"words": [WORDS] * 9, "head": [[0] * 5] * 9, "deprel": [RELATIONS] * 9}
    many = refused(save(table(**columns), tmp_path / "bank.parquet"))
    assert "9 of 9 sentences" in many and "sentence 3 (row 3)" in many and "sentence 4" not in many
    (tmp_path / "x.conllu").write_text(DOGS.replace("_\t4\tnsubj", "_\t_\tnsubj"))
    assert "sentence 1 (dogs): word 1 ('Dogs') has no head" in refused(tmp_path / "x.conllu")
    numbers = table(words=[[1]], head=[["0"]], deprel=[["root"]])
    message = refused(save(numbers, tmp_path / "numbers.parquet"))
    assert "sentence 1 (row 1): word 1 (1) is not text" in message


def test_the_number_of_sentences(tmp_path):
    path = tmp_path / "bank.parquet"
    assert read(save(table().loc[[0] * 50], path))[1]["sentences"] == 50
    said = "has {} sentences; expected at least 50"
    assert said.format(49) in refused(save(table().loc[[0] * 49], path))
    (tmp_path / "x.conllu").write_text("")
    assert said.format(0) in refused(tmp_path / "x.conllu")
    with pytest.raises(DataError, match="^atlas.treebank: .* the validation texts, which have 2 sentences"):
        treebank.from_texts({"a": pd.DataFrame({"text_a": ["Is it? Yes!"], "text_b": [None]})})


def test_sentences_of_tasks_have_no_trees():
    texts = ["It's good. Is it? Yes!", "Fine.", "लड़का आता है। वह छोटा है।", "这是狗。好！"]
    a = pd.DataFrame({"text_a": texts, "text_b": None})
    b = pd.DataFrame({"text_a": ["Is it?"], "text_b": ["A 2.5-inch disk"]})
    frame = treebank.from_texts({"a": a, "b": b})
    assert frame["words"].tolist() == [
        ["It", "'", "s", "good", "."], ["Is", "it", "?"], ["Yes", "!"], ["Fine", "."],
        ["लड़का", "आता", "है", "।"], ["वह", "छोटा", "है", "।"], ["这", "是", "狗", "。"], ["好", "！"],
        ["A", "2", ".", "5", "-", "inch", "disk"],
    ]  # fmt: skip
    assert frame["name"].tolist() == ["a"] * 8 + ["b"] and frame["head"].isna().all()
