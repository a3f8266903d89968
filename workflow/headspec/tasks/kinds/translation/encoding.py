"""Tokens of sources and of target texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from headspec import per_example
from headspec.errors import ModelError, listing, nearest
from headspec.models import vocabulary
from headspec.models.architectures import WRITES
from headspec.tables import INT, TEXT, Schema
from headspec.tasks.kinds.translation.kind import UNSPACED
from headspec.tasks.kinds.translation.metrics import labels, signatures
from headspec.tasks.tokens import Encoding

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

COLUMNS = Schema(
    {"target_ids": pa.list_(INT), "target": TEXT},
    keys=0,
    about={
        "target_ids": "in translation, tokens of the target, with its end and language",
        "target": "in translation, the target",
    },
)


def set_languages(tokenizer: PreTrainedTokenizerBase, classes: Mapping[str, Any], key: str = "") -> None:
    """Set the languages of a task in a tokenizer; raise ModelError if it does not have one, or needs one."""
    names = {"source_language": "src_lang", "target_language": "tgt_lang"}
    if marked := sorted(vocabulary.language_tokens(tokenizer)):  # which a text before the source tells
        names = {"target_language": ""}
    known = marked or sorted(getattr(tokenizer, "lang_code_to_id", {}))
    for setting, name in names.items():
        language = classes[setting]
        if language is None and known:
            some = listing(known[:8])
            raise ModelError(
                f"{key}.{setting}: missing, expected one of the tokenizer's languages: {some}, ..."
            )
        if language is not None and language not in known:
            expected = f"one of {listing(known[:8])}, ...{nearest(language, known)}" if known else (
                "none: it has no tokens of languages; a text before every source is the key prefix"
            )  # fmt: skip
            raise ModelError(f"{key}.{setting}: the tokenizer has no '{language}'; expected {expected}")
        if language is not None and name:
            setattr(tokenizer, name, language)


class PairEncoding(Encoding):
    """Sources, and the targets that the model writes, each cut after `max_length` tokens."""

    columns = COLUMNS
    writes = True

    def begin(self, tokenizer: PreTrainedTokenizerBase, classes: Mapping[str, Any], key: str = "") -> str:
        """Set the languages and return the prefix; raise as `set_languages`."""
        set_languages(tokenizer, classes, key)
        return classes["prefix"] or ""

    def marks(self, classes: dict[str, Any]) -> list[int]:
        return [*classes["before"], *classes["after"]]

    def ends(self, classes: dict[str, Any]) -> list[int]:
        return list(classes["after"])

    def signatures(self, classes: Mapping[str, Any]) -> dict[str, str]:
        return signatures(classes.get(UNSPACED))

    def completed(
        self,
        tokenizer: PreTrainedTokenizerBase,
        classes: Any,
        max_length: int,
        key: str,
        family: str = WRITES,
    ) -> dict[str, Any]:
        """Add to `Classes` what a model needs to write texts; raise as `set_languages`.

        `before` and `after` are special tokens around target texts, such as languages; `longest` is the most
        tokens of a text. Where the target's language stands before sources, `prefix` begins with it.
        """
        set_languages(tokenizer, classes, key)
        whole = tokenizer(text_target="a")["input_ids"]
        text = tokenizer(text_target="a", add_special_tokens=False)["input_ids"]
        start = next(i for i in range(len(whole)) if whole[i : i + len(text)] == text)
        around = {"before": whole[:start], "after": whole[start + len(text) :]}
        mark = vocabulary.language_tokens(tokenizer).get(classes["target_language"])
        prefix = {"prefix": f"{mark} {classes['prefix'] or ''}"} if mark else {}
        return {**classes, **around, **prefix, "longest": max_length}

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        prefix = self.begin(tokenizer, classes)
        targets = table["label"].tolist()
        sources = [prefix + text for text in table["text_a"]]
        ids, truncated = [], np.zeros(len(table), dtype=bool)
        for texts in ({"text": sources}, {"text_target": targets}):
            whole = tokenizer(**texts, verbose=False)["input_ids"]
            cut = tokenizer(**texts, truncation=True, max_length=max_length)["input_ids"]
            ids.append(cut)
            truncated |= np.array([len(tokens) > max_length for tokens in whole])
        columns = {
            "example": table["example"],
            **per_example.columns("label", labels(targets, classes.get(UNSPACED))),
            "input_ids": ids[0],
            "token_type_ids": None,
            "target_ids": ids[1],
            "target": targets,
        }
        return pd.DataFrame(columns, index=table.index), int(truncated.sum())


ENCODING = PairEncoding()
