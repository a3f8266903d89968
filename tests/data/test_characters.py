"""Letters, words and sentences of texts of many scripts."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headspec.data.characters import letters, sentences, words, words_alone

HINDI = ["लड़का", "आता", "है"]  # a boy comes
HINDI_GIRL = "लड़की"
THAI = "ก่า", "ก้า"  # differ by the mark of tone
HEBREW = "בַּיִת", "בֵּית"  # by the points
NOTHING = st.sampled_from([" ", "\t", ", ", "... ", "\u201c", " \u2764\ufe0f", "\U0001f44d\U0001f3fd"])
LATIN = st.characters(max_codepoint=0x24F, categories=("L", "N"), exclude_characters="\u01f0")
SIGNS = st.sampled_from("_.,!? '\u2019\u201d-\u2026%\n")


@pytest.mark.parametrize(
    ("one", "other"), [(HINDI[0], HINDI_GIRL), THAI, HEBREW, ("ręce", "rece"), ("pêche", "péché")]
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_marks_tell_texts_apart_however_they_are_stored(one, other, form):
    stored = [letters(unicodedata.normalize(form, text)) for text in (one, other)]
    assert stored[0] != stored[1] and stored == [letters(one), letters(other)]


@given(st.text())
def test_every_visible_text_has_a_key_of_its_own(text):
    """That neither case, spaces nor how accents are stored change."""
    assert bool(letters(text)) == bool(text.strip())
    for form in ("NFC", "NFD"):
        assert letters(f" {unicodedata.normalize(form, text)}\n") == letters(text)


@example("İzmir", "")
@given(st.lists(st.one_of(LATIN, NOTHING)).map("".join), st.lists(st.one_of(LATIN, SIGNS)).map("".join))
def test_keys_words_and_sentences_of_latin_texts_are_what_they_were(key, text):
    """Held-out parts depend on keys: letters and digits alone, without marks of emoji."""
    before = re.sub(r"[\W_]+", "", key.casefold())
    assert letters(key) == (before or "".join(key.split()))
    assert words(text) == re.findall(r"\w+|[^\w\s]", text)
    assert sentences(text) == list(filter(None, re.split(r"(?<=[.!?])\s+", text)))
    plain = text.replace("İ", "i")
    assert words_alone(plain) == re.findall(r"\w+(?:['\u2019]\w+)*", plain.lower())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" ".join(HINDI) + "।", [*HINDI, "।"]),
        ("cafe\u0301 ouvert.", ["cafe\u0301", "ouvert", "."]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("这是狗。", ["这", "是", "狗", "。"]),
        ("タワーへ", ["タワー", "へ"]),
        (" ".join(HEBREW), [*HEBREW]),
        (THAI[0] + THAI[1], ["ก่", "า", "ก้", "า"]),
        ("ok \u2764\ufe0f \U0001f44d\U0001f3fd", ["ok", "\u2764\ufe0f", "\U0001f44d\U0001f3fd"]),
    ],
)
def test_words_keep_their_marks(text, found):
    assert words(text) == found
    assert words_alone(text) == [word for word in found if unicodedata.category(word[0])[0] == "L"]


@pytest.mark.parametrize(
    "parts",
    [
        ["这是狗。", "\u201c好\uff01\u201d", "他说。。", "是吗\uff1f"],
        [f"{HINDI[0]} {HINDI[2]}।", f"{HINDI_GIRL} {HINDI[2]}।", "हाँ"],
        ["نعم\u061f", "لا."],
        ["It costs 3.5.", "Really?", "\uff08是。\uff09", "Yes"],
    ],
)
@pytest.mark.parametrize("space", ["", " "])
def test_sentences_end_as_their_script_ends_them(parts, space):
    ends = [part if part[-1] not in ".?!" else part + " " for part in parts[:-1]]
    assert sentences(space.join([*ends, parts[-1]])) == parts
