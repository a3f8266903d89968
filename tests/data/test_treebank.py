"""Treebanks are read, and refused with the sentence and the reason."""

import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest

from headspec.data.sources import treebank
from headspec.errors import DataError, MissingError
from support.data.hub import cache_dataset, offline

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


@pytest.fixture(autouse=True)
def few(request, monkeypatch):
    """Treebanks of one sentence, but for the test of their number."""
    if "number" not in request.node.name:
        monkeypatch.setattr(treebank, "FEWEST", 1)


def settings(source, **more):
    values = {"subset": None, "split": "validation", "words": "words", "head": "head", "relation": "deprel"}
    return SimpleNamespace(source=str(source), **values | more)


def table(**columns) -> pd.DataFrame:
    values = {"words": [WORDS], "head": [HEADS], "deprel": [RELATIONS]} | columns
    return pd.DataFrame(values)


def refused(tmp_path, **columns) -> str:
    table(**columns).to_parquet(tmp_path / "bank.parquet")
    with pytest.raises(DataError) as error:
        treebank.read_treebank(settings(tmp_path / "bank.parquet"))
    return str(error.value)


def test_conllu(tmp_path):
    """Syntactic words are the units: ranges and empty nodes are left out, and counted."""
    path = tmp_path / "en.conllu"
    path.write_text(f"{DOGS}\n\n{DOGS.replace('dogs', 'again')}")  # without an empty line at the end
    frame, counts = treebank.read_treebank(settings(path))
    assert list(frame["name"]) == ["dogs", "again"] and list(frame["sentence"]) == [0, 1]
    for row in frame.itertuples():
        assert (row.words, row.head, row.relation) == (WORDS, HEADS, RELATIONS)
    assert counts == {"sentences": 2, "words": 10, "multiword_tokens": 2, "empty_nodes": 2}


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "jsonl"])
def test_tables(tmp_path, kind):
    path = tmp_path / f"bank.{kind}"
    frame = table(sentence_id=["dogs"])
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        path.write_text(json.dumps(frame.iloc[0].to_dict()) + "\n")
    else:
        lists = ["words", "head", "deprel"]
        frame[lists] = frame[lists].map(lambda items: " ".join(map(str, items)))
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    read, counts = treebank.read_treebank(settings(path))
    row = read.iloc[0]
    assert (row["name"], row["words"], row["head"], row["relation"]) == ("dogs", WORDS, HEADS, RELATIONS)
    assert counts == {"sentences": 1, "words": 5}


def test_splits_of_a_folder(tmp_path):
    table().to_parquet(tmp_path / "validation.parquet")
    (tmp_path / "other.conllu").write_text(DOGS)
    assert treebank.read_treebank(settings(tmp_path))[0].loc[0, "name"] == "row 1"
    assert treebank.read_treebank(settings(tmp_path, split="other"))[0].loc[0, "name"] == "dogs"
    with pytest.raises(DataError, match=r"treebank.split: .* 'validaton'; .* Did you mean 'validation'\?"):
        treebank.read_treebank(settings(tmp_path, split="validaton"))
    with pytest.raises(MissingError, match=r"treebank.source: no file .* Did you mean 'other.conllu'\?"):
        treebank.read_treebank(settings(tmp_path / "othr.conllu"))


def test_words_of_another_column(tmp_path):
    table().rename(columns={"words": "tokens"}).to_parquet(tmp_path / "bank.parquet")
    with pytest.raises(DataError, match=r"treebank.words: no column 'token' .* Did you mean 'tokens'\?"):
        treebank.read_treebank(settings(tmp_path / "bank.parquet", words="token"))
    assert treebank.read_treebank(settings(tmp_path / "bank.parquet", words="tokens"))[1]["words"] == 5


@pytest.mark.parametrize(
    ("heads", "reason"),
    [([2, 1, 4, 0, 4], "words 1 -> 2 -> 1 form a cycle"),
     ([4, 4, 3, 0, 4], "words 3 -> 3 form a cycle"),
     ([2, 3, 4, 5, 1], "it has no root; the heads of words 1 -> 2 -> 3 -> 4 -> 5 -> 1 form a cycle"),
     ([4, 0, 4, 0, 4], "it has 2 roots, words 2, 4"),
     ([4, 4, 4, 0, 6], r"word 5 \('.'\) has head 6, expected 0 \(the root\) to 5"),
     ([4, -1, 4, 0, 4], r"word 2 \('do'\) has head -1, expected"),
     ([4, 4, None, 0, 4], r"word 3 \('n't'\) has no head"),
     ([4, 4, 0, 4], "it has 5 words, 4 heads and 5 relations")],
)  # fmt: skip
def test_sentences_that_are_not_trees(tmp_path, heads, reason):
    message = refused(tmp_path, words=[WORDS] * 2, head=[HEADS, heads], deprel=[RELATIONS] * 2)
    assert re.search(rf"treebank.source: 1 of 2 sentences .*: sentence 2 \(row 2\): .*{reason}", message)


def test_other_refusals(tmp_path):
    assert "has no words" in refused(tmp_path, words=[[]], head=[[]], deprel=[[]])
    assert "word 2 is empty" in refused(tmp_path, words=[["Dogs", "", "n't", "bark", "."]])
    assert "word 1 ('Dogs') has no relation" in refused(tmp_path, deprel=[["_", *RELATIONS[1:]]])
    assert "has 0 sentences" in refused(tmp_path, words=[], head=[], deprel=[])
    many = refused(tmp_path, words=[WORDS] * 9, head=[[0] * 5] * 9, deprel=[RELATIONS] * 9)
    assert "9 of 9 sentences" in many and "sentence 3 (row 3)" in many and "sentence 4" not in many
    for text, reason in (
        ("", "has 0 sentences"),
        (DOGS.replace("_\t4\tnsubj", "_\t_\tnsubj"), "sentence 1 (dogs): word 1 ('Dogs') has no head"),
    ):
        (tmp_path / "x.conllu").write_text(text)
        with pytest.raises(DataError) as error:
            treebank.read_treebank(settings(tmp_path / "x.conllu"))
        assert reason in str(error.value)


def test_sentences_of_tasks_have_no_trees():
    a = pd.DataFrame({"text_a": ["It's good. Is it? Yes!", "Fine."], "text_b": [None, None]})
    b = pd.DataFrame({"text_a": ["Is it?"], "text_b": ["A 2.5-inch disk"]})
    frame = treebank.from_texts({"a": a, "b": b})
    assert frame["words"].tolist() == [
        ["It", "'", "s", "good", "."], ["Is", "it", "?"], ["Yes", "!"], ["Fine", "."],
        ["A", "2", ".", "5", "-", "inch", "disk"],
    ]  # fmt: skip
    assert frame["name"].tolist() == ["a"] * 4 + ["b"] and frame["head"].isna().all()


def test_sentences_of_tasks_in_other_scripts():
    texts = {"text_a": ["लड़का आता है। वह छोटा है।", "这是狗。好！"], "text_b": [None, None]}
    assert treebank.from_texts({"a": pd.DataFrame(texts)})["words"].tolist() == [
        ["लड़का", "आता", "है", "।"], ["वह", "छोटा", "है", "।"], ["这", "是", "狗", "。"], ["好", "！"],
    ]  # fmt: skip


def test_the_number_of_sentences(tmp_path):
    table().loc[[0] * 50].to_parquet(tmp_path / "bank.parquet")
    assert treebank.read_treebank(settings(tmp_path / "bank.parquet"))[1]["sentences"] == 50
    table().loc[[0] * 49].to_parquet(tmp_path / "bank.parquet")
    with pytest.raises(DataError, match="treebank.source: .* has 49 sentences; expected at least 50"):
        treebank.read_treebank(settings(tmp_path / "bank.parquet"))
    with pytest.raises(DataError, match="^atlas.treebank: .* the validation texts, which have 2 sentences"):
        treebank.from_texts({"a": pd.DataFrame({"text_a": ["Is it? Yes!"], "text_b": [None]})})


def test_a_treebank_of_the_hub(tmp_path, monkeypatch):
    offline(monkeypatch, tmp_path / "cache")
    (tmp_path / "made").mkdir()
    made = table(sent_id=["dogs"]).rename(columns={"words": "tokens"})
    made.to_parquet(tmp_path / "made" / "validation.parquet")
    cache_dataset(tmp_path / "made", tmp_path / "cache", "someone/trees")
    source = settings("hub:someone/trees", words="tokens")
    frame, _ = treebank.read_treebank(source)
    row = frame.iloc[0]
    assert (row["name"], row["words"], row["head"], row["relation"]) == ("dogs", WORDS, HEADS, RELATIONS)
    source.split = "validatoin"
    with pytest.raises(DataError, match=r"no split 'validatoin'; it has .* Did you mean 'validation'\?"):
        treebank.read_treebank(source)
