"""Letters, words and sentences of texts in any script, by properties of Unicode characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import regex

#: what is neither letter nor digit in ASCII
OTHERS_ASCII = bytes(i for i in range(128) if not chr(i).isalnum())
#: what is neither letter, digit nor mark of one, such as an accent: symbols with their marks, invisible
#: characters (DI), and what encloses a digit in an emoji
OTHERS = regex.compile(r"(?V1)[^\p{L}\p{N}\p{M}\p{DI}]\p{M}*|^\p{M}+|[\p{DI}--\p{L}]|\p{Me}")
#: letters of scripts that have no spaces between words: ideographs, Hiragana, Thai, Lao, Khmer, Burmese
UNSPACED = r"[\p{Ideographic}\p{Hiragana}[\p{Line_Break=Complex_Context}&&\p{L}]]"
#: a letter of these scripts, or a run of letters and digits of the others, with their marks and joiners
WORD = rf"(?:{UNSPACED}\p{{M}}*|(?:[\p{{L}}\p{{N}}_--{UNSPACED}][\p{{M}}\u200c\u200d]*)++)"
WORDS = regex.compile(rf"(?V1){WORD}|(?![\s\p{{DI}}])\X")
WORDS_ALONE = regex.compile(rf"(?V1){WORD}(?:['’]{WORD})*")
#: after . ! or ? and a space; after what ends sentences in other scripts, and the brackets and quotes that
#: it closes, also without a space
SENTENCE_END = regex.compile(
    r"(?V1)(?<=[.!?])\s+|(?<=[\p{STerm}--[.!?．]][\p{Pe}\p{Pf}]*)(?![\p{STerm}\p{Pe}\p{Pf}])\s*"
)

#: letters by the language that alone is written with them, or `OTHER`; ideographs may be Japanese, too
SCRIPTS = {
    "zh": regex.compile(r"\p{Ideographic}"),
    "ja": regex.compile(r"[\p{Hiragana}\p{Katakana}]"),
    "ko": regex.compile(r"\p{Hangul}"),
    (OTHER := "other"): regex.compile(r"(?V1)[\p{Line_Break=Complex_Context}&&\p{L}]"),
}
LETTER = regex.compile(r"\p{L}")
#: share of letters of such scripts from which a text is in one, for a word of Latin has several
MOSTLY = 0.25
#: share of Kana, to ideographs, from which these are Japanese
KANA = 0.05


def letters(text: str) -> str:
    """What tells a text from others: its letters and digits with their marks, ignoring case.

    Of a text without any, such as one of emoji, everything but white space.
    """
    if text.isascii():  # ten times as fast
        found = text.lower().encode().translate(None, OTHERS_ASCII).decode()
    else:
        # equal however accents are stored; the lower case of a Turkish İ has a dot of its own
        text = unicodedata.normalize("NFC", text).replace("İ", "i").casefold()
        text = unicodedata.normalize("NFC", text)
        found = OTHERS.sub("", text)
    return found or "".join(text.split())


def words(text: str) -> list[str]:
    """The words of a text; every other visible character is a word of its own.

    Scripts without spaces between words have a word for every letter.
    """
    return WORDS.findall(text)


def words_alone(text: str) -> list[str]:
    """The words of a text in lower case, with apostrophes inside, and nothing else."""
    return WORDS_ALONE.findall(text.lower())


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [sentence for sentence in SENTENCE_END.split(text) if sentence]


def unspaced(texts: Iterable[str]) -> str | None:
    """The language of texts in which spaces do not separate all words: `zh`, `ja`, `ko` or `other`.

    None unless at least `MOSTLY` of the letters are of such scripts.
    """
    together = "".join(texts)
    n = {language: len(letter.findall(together)) for language, letter in SCRIPTS.items()}
    if not any(n.values()) or sum(n.values()) < MOSTLY * len(LETTER.findall(together)):
        return None
    if n["ja"] > KANA * n["zh"]:
        n["ja"] += n.pop("zh")
    return max(n, key=lambda language: n[language])
