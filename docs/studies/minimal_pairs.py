"""Writes minimal pairs of four paradigms, in the form and after the kinds of BLiMP (Warstadt et al. 2020).

    python docs/studies/minimal_pairs.py data/pairs.csv

writes the columns UID, sentence_good and sentence_bad, for tasks of the type `minimal_pairs`. Sentences are
combinations of the words below, in an order drawn with a fixed seed; those of a pair differ in one word.
"""

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

Pair = tuple[str, str]

#: singular and plural
PEOPLE = [
    (name, f"{name}s")
    for name in (
        "teacher", "doctor", "guest", "actor", "student", "driver", "waiter", "dancer", "lawyer", "farmer",
        "senator", "customer",
    )
]  # fmt: skip
THINGS = [
    (name, f"{name}s")
    for name in (
        "lamp", "chair", "book", "picture", "bottle", "window", "jacket", "ticket", "report", "car", "hat",
        "garden",
    )
]  # fmt: skip
#: after a singular subject, and after a plural one
VERBS = [
    (f"{name}s", name)
    for name in (
        "like", "admire", "know", "hate", "remember", "notice", "want", "describe", "hide", "avoid", "see",
        "clean",
    )
]  # fmt: skip
#: past, of what people do to themselves
REFLEXIVE = ["hurt", "described", "saw", "helped", "blamed", "introduced", "hid", "admired"]
#: past and participle that differ
IRREGULAR = [
    ("took", "taken"), ("broke", "broken"), ("hid", "hidden"), ("stole", "stolen"), ("saw", "seen"),
    ("chose", "chosen"), ("drew", "drawn"), ("forgot", "forgotten"), ("gave away", "given away"),
    ("threw away", "thrown away"),
]  # fmt: skip
NAMES = ["Anna", "David", "Laura", "Peter", "Susan", "Robert", "Maria", "Thomas"]
PAST = ["bought", "found", "lost", "sold", "liked", "wanted", "noticed", "cleaned"]
DETERMINERS = [("this", "these"), ("that", "those")]


def subject_verb() -> Iterator[Pair]:
    """The teacher *likes* / *like* the lamp."""
    for people, verb, thing, number in itertools.product(PEOPLE, VERBS, THINGS, (0, 1)):
        good, bad = (f"The {people[number]} {verb[n]} the {thing[0]}." for n in (number, 1 - number))
        yield good, bad


def determiner_noun() -> Iterator[Pair]:
    """Anna bought these *lamps* / *lamp*."""
    for name, verb, both, thing, number in itertools.product(NAMES, PAST, DETERMINERS, THINGS, (0, 1)):
        good, bad = (f"{name} {verb} {both[number]} {thing[n]}." for n in (number, 1 - number))
        yield good, bad


def anaphor() -> Iterator[Pair]:
    """The teachers hurt *themselves* / *himself*."""
    for people, verb, single, when, number in itertools.product(
        PEOPLE, REFLEXIVE, ("himself", "herself"), ("", " yesterday", " again", " last week"), (0, 1)
    ):
        words = single, "themselves"
        good, bad = (f"The {people[number]} {verb} {words[n]}{when}." for n in (number, 1 - number))
        yield good, bad


def irregular() -> Iterator[Pair]:
    """The teacher *took* / *taken* the lamp, and: The teacher has *taken* / *took* the lamp."""
    for people, verb, thing, number in itertools.product(PEOPLE, IRREGULAR, THINGS, (0, 1)):
        helped = "has " if number else ""
        good, bad = (f"The {people[0]} {helped}{verb[n]} the {thing[0]}." for n in (number, 1 - number))
        yield good, bad


PARADIGMS: dict[str, Callable[[], Iterator[Pair]]] = {
    "subject_verb_agreement": subject_verb,
    "determiner_noun_agreement": determiner_noun,
    "anaphor_agreement": anaphor,
    "irregular_forms": irregular,
}


def pairs(n: int = 1000) -> pd.DataFrame:
    """`n` minimal pairs of every paradigm, no sentence good in two; the same ones at every call."""
    rows = []
    for name, paradigm in PARADIGMS.items():
        every = list(paradigm())
        random.Random(name).shuffle(every)
        rows += [(name, good, bad) for good, bad in [*dict(every).items()][:n]]
    return pd.DataFrame(rows, columns=["UID", "sentence_good", "sentence_bad"])


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    pairs().to_csv(path, index=False)
