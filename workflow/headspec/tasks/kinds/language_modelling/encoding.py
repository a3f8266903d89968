"""Tokens of texts, those that are predicted, and the score of the best constant prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from headspec import per_example
from headspec.errors import ModelError
from headspec.models.architectures import CONTINUES, WRITES
from headspec.models.tokenization import special_tokens
from headspec.seeds import derive
from headspec.tables import INT, Schema
from headspec.tasks.parts import Classes
from headspec.tasks.tokens import Encoding

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase


#: share of a text's tokens that is masked, at least one token (Devlin et al. 2019)
MASKED = 0.15
#: target of a token that predicts nothing
NONE = -1
COLUMNS = Schema(
    {"targets": pa.list_(INT)},
    keys=0,
    about={
        "targets": "in language modelling, the next or masked token that each token predicts; -1 for none",
    },
)


class Predicted(NamedTuple):
    """The tokens of a text: `ids` that the model reads, and `targets` that each predicts, or `NONE`.

    `size` is the number of UTF-8 bytes of predicted characters and of those without tokens, such as spaces.
    """

    ids: list[int]
    targets: list[int]
    size: int


def predicted_tokens(
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[str],
    examples: Sequence[int],
    max_length: int,
    causal: bool,
) -> tuple[list[Predicted], int]:
    """Return the tokens of texts, cut after `max_length`, and how many texts were cut.

    Special tokens are not predicted, nor is a causal model's first token, which has no context. A masked
    model predicts the share `MASKED` of a text's tokens, chosen by the numbers `examples`, so that they are
    the same in every run and epoch, and under every mask of heads.
    """
    start, end = ("".join(tokenizer.convert_ids_to_tokens(ids)) for ids in special_tokens(tokenizer))
    rows = [text.removeprefix(start).removesuffix(end) for text in rows]  # the tokenizer adds these
    encoded = tokenizer(
        rows,
        truncation=True,
        max_length=max_length,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    whole = tokenizer(rows, verbose=False)["input_ids"]
    predicted = []
    for row, (text, example, ids) in enumerate(zip(rows, examples, encoded["input_ids"], strict=True)):
        real = ~np.array(encoded["special_tokens_mask"][row], dtype=bool)
        sizes = _sizes(text, np.array(encoded["offset_mapping"][row]), real)
        if causal:
            real[:1] = False
            targets = [*np.where(real, ids, NONE)[1:].tolist(), NONE]
        else:
            real = _masked(real, example)
            targets = np.where(real, ids, NONE).tolist()
            ids = np.where(real, tokenizer.mask_token_id, ids).tolist()
        predicted.append(Predicted(ids, targets, int(sizes[real].sum())))
    return predicted, sum(len(ids) > max_length for ids in whole)


def _masked(real: np.ndarray, example: int) -> np.ndarray:
    """Choose the masked tokens of an example, bool (tokens,)."""
    places = np.flatnonzero(real)
    rng = np.random.default_rng(derive(0, "masked tokens", int(example)))
    n = min(len(places), max(1, round(MASKED * len(places))))
    chosen = np.zeros_like(real)
    chosen[rng.choice(places, n, replace=False)] = True
    return chosen


def _sizes(text: str, offsets: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return the number of bytes between the ends of tokens, (tokens,); 0 for special tokens."""
    ends = np.maximum.accumulate(np.where(real, offsets[:, 1], 0))
    starts = np.concatenate([[0], ends[:-1]])
    return np.array([len(text[a:b].encode()) for a, b in zip(starts, ends, strict=True)])


def counts(targets: Sequence[Sequence[int]], sizes: Sequence[int]) -> np.ndarray:
    """Return the labels of texts, (n, 4), for `headspec.tasks.kinds.language_modelling.data`."""
    predicted = [np.array([token for token in row if token != NONE], dtype=int) for row in targets]
    tokens, places, often = np.unique(np.concatenate(predicted), return_inverse=True, return_counts=True)
    lengths = np.array(list(map(len, predicted)))
    owner = np.repeat(np.arange(len(predicted)), lengths)
    bits = -np.log2(often / max(1, often.sum()))[places]
    right = places == (often.argmax() if len(tokens) else -1)
    blind = [np.bincount(owner, weights, minlength=len(predicted)) for weights in (right, bits)]
    return np.stack([lengths, np.array(sizes), *blind], axis=1).astype(float)


class OwnTokens(Encoding):
    """Encoding of texts and the tokens that they predict."""

    columns = COLUMNS

    def completed(
        self, tokenizer: PreTrainedTokenizerBase, classes: Any, max_length: int, key: str, family: str
    ) -> Classes:
        """Add `causal`, whether the model predicts the next token; ModelError if it can predict none."""
        if family == WRITES:
            raise ModelError(
                f"{key}.type: got 'text', which encoder-decoders do not support; use an encoder or a decoder"
            )
        if family != CONTINUES and tokenizer.mask_token is None:
            raise ModelError(f"{key}.type: got 'text', but the model's tokenizer has no mask token")
        return {**classes, "causal": family == CONTINUES}

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        rows, examples = table["text_a"].tolist(), table["example"].tolist()
        predicted, cut = predicted_tokens(tokenizer, rows, examples, max_length, classes["causal"])
        ids, targets, sizes = map(list, zip(*predicted, strict=True))
        columns = {"input_ids": ids, "token_type_ids": None, "targets": targets}
        labels = per_example.columns("label", counts(targets, sizes))
        return pd.DataFrame({"example": table["example"]} | columns | labels), cut


ENCODING = OwnTokens()
