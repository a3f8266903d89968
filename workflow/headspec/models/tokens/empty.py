"""Texts without tokens, for which a model can predict nothing."""

from collections.abc import Iterable, Sized

from headspec.errors import EncoderError


def check(examples: Iterable[int], sequences: Iterable[Sized], key: str = "") -> None:
    """Raise EncoderError if an example has no tokens: an empty text, to which the tokenizer adds none."""
    empty = [example for example, ids in zip(examples, sequences, strict=True) if not len(ids)]
    if empty:
        raise EncoderError(
            f"{key}{': ' if key else ''}{len(empty)} empty texts, the first that of example {empty[0]}, have "
            "no tokens, because the tokenizer adds no special tokens; expected data without empty texts, "
            "or another model"
        )
