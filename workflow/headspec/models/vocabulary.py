"""Vocabularies of models with random weights, and their tokenizers.

Pieces are learnt from training texts by SentencePiece's unigram model (Kudo 2018, aclanthology.org/P18-1007).
A token before the source names the language of the target (Johnson et al. 2017, aclanthology.org/Q17-1024).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from headspec.errors import DataError
from headspec.models.pretrained.config_json import END, PAD, SPECIAL, UNKNOWN
from headspec.tables import FLOAT, INT, TEXT, Schema

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


VOCABULARY = Schema(
    {"token": INT, "piece": TEXT, "score": FLOAT},
    keys=1,
    row="token of a [described model](methods/translation.md#a-translator-of-your-own)",
    paths=("vocabulary/{model}.parquet",),
    about={
        "token": "its number",
        "piece": "its letters, with ▁ for a space; special tokens and languages first",
        "score": "log-probability in the training texts; 0 of special tokens and languages",
    },
)
#: SentencePiece's messages, with the bound, for a size that does not fit the texts
TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")
TOO_LARGE = re.compile(r"set it to a value <= (\d+)")


def language_token(language: str) -> str:
    """Return the token of a language."""
    return f">>{language}<<"


def language_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Return the token of each language in a tokenizer made by `tokenizer`."""
    added = (str(token) for token in tokenizer.get_added_vocab())
    return {token[2:-2]: token for token in added if token == language_token(token[2:-2])}


def pieces(texts: Iterable[str], size: int, languages: Iterable[str], key: str) -> pd.DataFrame:
    """Make the table `vocabulary` of `size` tokens, with one for each of `languages`; it is deterministic.

    Raises DataError, naming the config `key`, if the texts have more distinct characters than
    `size`, or too few pieces.
    """
    import sentencepiece  # a package of studies

    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(" ".join(text.split()) for text in texts), model_writer=written,
            model_type="unigram", vocab_size=size, normalization_rule_name="nfkc", character_coverage=1.0,
            pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece=PAD, eos_piece=END, unk_piece=UNKNOWN,
            control_symbols=[language_token(language) for language in languages],
            num_threads=1,  # sums of several threads round differently each time
            minloglevel=2,
        )  # fmt: skip
    except RuntimeError as error:
        bounds = {"least": TOO_SMALL.search(str(error)), "most": TOO_LARGE.search(str(error))}
        for bound, limit in bounds.items():
            if limit:
                raise DataError(
                    f"{key}: got {size} for the training texts, expected at {bound} {limit[1]}"
                ) from None
        raise
    made = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    tokens = range(len(made))
    columns = {"token": tokens, "piece": map(made.id_to_piece, tokens), "score": map(made.get_score, tokens)}
    return pd.DataFrame({name: list(values) for name, values in columns.items()})


def tokenizer(vocabulary: pd.DataFrame) -> PreTrainedTokenizerBase:
    """Return the tokenizer for a table `vocabulary`; it splits texts as SentencePiece does."""
    from transformers import PreTrainedTokenizerFast  # slow to import, and only needed here

    names = vocabulary["piece"].tolist()
    unigram = models.Unigram(
        list(zip(names, vocabulary["score"].tolist(), strict=True)), unk_id=SPECIAL.index(UNKNOWN)
    )
    made = Tokenizer(unigram)
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), spaces, normalizers.Strip()])
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, SPECIAL.index(END))]
    )
    languages = [name for name in names if name.startswith(">>") and name == language_token(name[2:-2])]
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, eos_token=END, unk_token=UNKNOWN,
        additional_special_tokens=[AddedToken(name, rstrip=True, special=True) for name in languages],
        model_input_names=["input_ids", "attention_mask"], clean_up_tokenization_spaces=False,
    )  # fmt: skip
