"""Minimal pairs that are made for studies of decoders."""

import importlib
import sys

import pytest

from support.paths import ROOT

sys.path.append(str(ROOT / "docs" / "studies"))
minimal_pairs = importlib.import_module("minimal_pairs")
PAIRS = minimal_pairs.pairs(300)


def test_every_paradigm_has_its_pairs_and_none_twice():
    assert PAIRS["UID"].value_counts().to_dict() == dict.fromkeys(minimal_pairs.PARADIGMS, 300)
    assert not PAIRS["sentence_good"].duplicated().any()
    assert PAIRS.equals(minimal_pairs.pairs(300)), "the order is drawn with a fixed seed"


@pytest.mark.parametrize("name", minimal_pairs.PARADIGMS)
def test_a_pair_differs_in_one_word(name):
    of_name = PAIRS[PAIRS["UID"] == name]
    for good, bad in zip(of_name["sentence_good"], of_name["sentence_bad"], strict=True):
        words = good.rstrip(".").split(), bad.rstrip(".").split()
        assert len(words[0]) == len(words[1])
        assert sum(a != b for a, b in zip(*words, strict=True)) == 1, (good, bad)
    assert not {*of_name["sentence_good"]} & {*of_name["sentence_bad"]}, "what is right in one is in all"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("subject_verb_agreement", "The teacher likes the lamp.", "The teacher like the lamp."),
        ("determiner_noun_agreement", "Anna bought these lamps.", "Anna bought these lamp."),
        ("anaphor_agreement", "The teacher hurt himself.", "The teacher hurt themselves."),
        ("irregular_forms", "The teacher has taken the lamp.", "The teacher has took the lamp."),
    ],
)
def test_paradigms(name, good, bad):
    assert (good, bad) in set(minimal_pairs.PARADIGMS[name]())
