"""Letters, words and sentences in any script, by Unicode properties."""

import unicodedata
from collections.abc import Iterable

import regex

#: ASCII characters that are neither letters nor digits
OTHERS_ASCII = bytes(i for i in range(128) if not chr(i).isalnum())
#: characters other than letters, digits and their marks (accents): symbols with their marks, invisible
#: characters (DI), and marks that enclose a digit in an emoji
OTHERS = regex.compile(r"(?V1)[^\p{L}\p{N}\p{M}\p{DI}]\p{M}*|^\p{M}+|[\p{DI}--\p{L}]|\p{Me}")
#: letters of scripts without spaces between words: ideographs, Hiragana, Thai, Lao, Khmer, Burmese
UNSPACED = r"[\p{Ideographic}\p{Hiragana}[\p{Line_Break=Complex_Context}&&\p{L}]]"
#: a letter of these scripts, or a run of letters and digits of other scripts, with marks and joiners
WORD = rf"(?:{UNSPACED}\p{{M}}*|(?:[\p{{L}}\p{{N}}_--{UNSPACED}][\p{{M}}\u200c\u200d]*)++)"
WORDS = regex.compile(rf"(?V1){WORD}|(?![\s\p{{DI}}])\X")
#: a letter of these scripts, or what stands between spaces in others
BETWEEN_SPACES = regex.compile(rf"(?V1){UNSPACED}|[\S--{UNSPACED}]++")
WORDS_ALONE = regex.compile(rf"(?V1){WORD}(?:['’]{WORD})*")
#: sentence ends: after . ! or ? and a space; in other scripts, after marks that end sentences and closing
#: brackets and quotes, even without a space
SENTENCE_END = regex.compile(
    r"(?V1)(?<=[.!?])\s+|(?<=[\p{STerm}--[.!?．]][\p{Pe}\p{Pf}]*)(?![\p{STerm}\p{Pe}\p{Pf}])\s*"
)

#: letters by the only language that uses them, or `OTHER`; ideographs may also be Japanese
SCRIPTS = {
    "zh": regex.compile(r"\p{Ideographic}"),
    "ja": regex.compile(r"[\p{Hiragana}\p{Katakana}]"),
    "ko": regex.compile(r"\p{Hangul}"),
    (OTHER := "other"): regex.compile(r"(?V1)[\p{Line_Break=Complex_Context}&&\p{L}]"),
}
LETTER = regex.compile(r"\p{L}")
WORDED = regex.compile(r"[\p{L}\p{So}]|^\p{S}+$")  # a letter or an emoji, or a sign alone
#: minimum share of a script's letters in texts of its language; Latin words have several letters
MOSTLY = 0.25
#: minimum ratio of Kana to ideographs in Japanese
KANA = 0.05


def letters(text: str) -> str:
    """Return the case-folded letters and digits of a text, or all but white space if it has none (emoji)."""
    if text.isascii():  # ten times as fast
        kept = text.lower().encode().translate(None, OTHERS_ASCII).decode()
    else:
        # accents have several encodings; the lower case of a Turkish İ has a separate dot
        text = unicodedata.normalize("NFC", text).replace("İ", "i").casefold()
        text = unicodedata.normalize("NFC", text)
        kept = OTHERS.sub("", text)
    return kept or "".join(text.split())


def words(text: str) -> list[str]:
    """Return words and other visible characters; in scripts without spaces, each letter is a word."""
    words: list[str] = WORDS.findall(text)
    return words


def spaced_words(text: str) -> list[str]:
    """Return the parts of a text between spaces: a web address or a file name is one.

    In scripts without spaces, each letter is one. If most parts have neither a letter nor a symbol, as in
    dates, these are left out.
    """
    parts = BETWEEN_SPACES.findall(text)
    worded = [part for part in parts if WORDED.search(part)]
    return parts if 2 * len(worded) >= len(parts) else worded


def words_alone(text: str) -> list[str]:
    """Return the words of a text in lower case, with apostrophes inside but no other characters."""
    lowered: list[str] = WORDS_ALONE.findall(text.lower())
    return lowered


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [sentence for sentence in SENTENCE_END.split(text) if sentence]


def unspaced(texts: Iterable[str]) -> str | None:
    """Return the language of texts in scripts of `SCRIPTS`: `zh`, `ja`, `ko` or `other`; else None."""
    together = "".join(texts)
    n = {language: len(letter.findall(together)) for language, letter in SCRIPTS.items()}
    if not any(n.values()) or sum(n.values()) < MOSTLY * len(LETTER.findall(together)):
        return None
    if n["ja"] > KANA * n["zh"]:
        n["ja"] += n.pop("zh")
    return max(n, key=lambda language: n[language])
