"""Tokenizers of models, tables of tokens, and special tokens around texts and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from tokenizers import processors

from headspec import tables
from headspec.config.sections.model import Model
from headspec.errors import ModelError, listing
from headspec.models import vocabulary as made
from headspec.models.architectures import writes
from headspec.models.pretrained import checks, config_json, folders
from headspec.models.pretrained.config_json import heads_by_layer, is_described
from headspec.models.pretrained.folders import folder
from headspec.models.pretrained.from_pretrained import location, silence
from headspec.models.pretrained.model_files import has_vocabulary
from headspec.tables import FLOAT, INT, Schema
from headspec.tasks.parts import Classes
from headspec.tasks.tokens import encoding

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


def check_not_empty(examples: Iterable[int], sequences: Iterable[Sized], key: str = "") -> None:
    """Raise ModelError if an example has no tokens, as an empty text has without special tokens."""
    empty = [example for example, ids in zip(examples, sequences, strict=True) if not len(ids)]
    if empty:
        raise ModelError(
            f"{key}{': ' if key else ''}{len(empty)} empty texts, the first that of example {empty[0]}, have "
            "no tokens, because the tokenizer adds no special tokens; expected data without empty texts, "
            "or another model"
        )


def special_tokens(tokenizer: PreTrainedTokenizerBase, target: bool = False) -> tuple[list[int], list[int]]:
    """Return the special tokens that start and end texts or, with `target`, texts that the model writes."""
    text = {"text_target" if target else "text": "a"}
    probe = tokenizer(**text, return_special_tokens_mask=True)
    special = list(zip(probe["input_ids"], probe["special_tokens_mask"], strict=True))
    start, end = (
        [token for token, _ in takewhile(lambda pair: pair[1], side)] for side in (special, special[::-1])
    )
    return start, end[::-1]


def around(ids: list[int], start: Sequence[int], end: Sequence[int] = ()) -> list[int]:
    """Return the tokens of a text between special tokens, without adding any that it already has.

    Chats have them, as `apply_chat_template` of transformers writes them.
    """
    before = [] if ids[: len(start)] == [*start] else start
    after = [] if ids[len(ids) - len(end) :] == [*end] else end
    return [*before, *ids, *after]


def once(ids: Sequence[int], start: list[int], end: list[int]) -> slice:
    """Return the slice of a text's tokens in which special tokens that it already had are not doubled."""
    ids = list(ids)
    first = len(start) if ids[: 2 * len(start)] == 2 * start else 0
    last = len(end) if ids[first:][-2 * len(end) :] == 2 * end else 0
    return slice(first, len(ids) - last)


def following(ids: Callable[[str], list[int]], prompt: str, answer: str) -> list[int]:
    """Return the tokens of an answer after a prompt; an empty list if a token spans both."""
    before, whole = ids(prompt), ids(prompt + answer)
    return whole[len(before) :] if whole[: len(before)] == before else []


TOKENS = Schema(
    {"example": INT, "label": FLOAT, "input_ids": pa.list_(INT), "token_type_ids": pa.list_(pa.int8())},
    keys=1,
    paths=(
        "tokens/{model}/{task}/train.parquet",
        "tokens/{model}/{task}/validation.parquet",
        "tokens/{model}/{task}/further/{split}.parquet",
        "tokens/{model}/{task}/test/{file}.parquet",
        "tokens/{model}/sentences.parquet",
        "tokens/{model}/stimuli.parquet",
        "prompts/{model}/{task}/seed{seed}/train.parquet",
        "prompts/{model}/{task}/seed{seed}/validation.parquet",
    ),
    about={
        "input_ids": "tokens, not padded",
        "token_type_ids": "text of a pair that each token is of; null without token types",
    },
)


def schema(columns: Schema) -> Schema:
    """Return `TOKENS` with the additional `columns` of a kind of task."""
    return Schema(TOKENS.columns | columns.columns, TOKENS.keys)


def tokenizer(model: Model, key: str, vocabulary: str = "") -> PreTrainedTokenizerBase:
    """Return the model's tokenizer, which returns token types if and only if the model uses them.

    `vocabulary` is the path of the table `vocabulary`, for a model that the config describes. Raises
    ModelError if the tokenizer cannot be loaded, has more tokens than the model has embeddings, or is slow,
    except for encoder-decoders; and the errors of `folders.folder`.
    """
    from transformers import AutoTokenizer  # slow to import, and only needed here

    silence()
    if is_described(model):
        return made.tokenizer(tables.read(vocabulary))
    path = folder(model, key, "tokenizer")
    checks.check_tokenizer_files(path, model, key)
    try:
        loaded = AutoTokenizer.from_pretrained(**location(path), trust_remote_code=False)
        config = None if path.is_file() else _config(path)
    except Exception as error:
        missing = isinstance(error.__context__, FileNotFoundError)  # transformers does not name it
        reason = str(error.__context__ if missing else error).strip().split("\n")[0]
        raise ModelError(
            f"{key}.source: the tokenizer of '{model.source}' cannot be loaded: {reason}"
        ) from None
    if (names := loaded.vocab_files_names) and not has_vocabulary(path):  # transformers silently makes one up
        raise ModelError(
            f"{key}.source: '{model.source}' has no vocabulary; expected {listing(sorted(names.values()))}"
        )
    if config:
        embeddings = getattr(config.get_text_config(), "vocab_size", None)
        checks.check_tokens(1 + max(loaded.get_vocab().values()), embeddings, model, key)
    unify_settings(loaded, config)
    if config and config.is_encoder_decoder:  # Marian's and M2M100's are slow; all end texts with a token
        return loaded
    if not loaded.is_fast:
        raise ModelError(f"{key}.source: '{model.source}' has no fast tokenizer (tokenizer.json)")
    if not loaded.num_special_tokens_to_add(pair=True):
        delimit(loaded)
    return loaded


def unify_settings(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig | None) -> None:
    """Make a tokenizer truncate and pad at the end, and return token types only if the model uses them.

    Otherwise this would depend on the tokenizer's files, or on how it was used before.
    """
    types = getattr(config, "type_vocab_size", 0) or 0
    tokenizer.model_input_names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (types > 1)
    tokenizer.padding_side = tokenizer.truncation_side = "right"


def job_tokenizer(job: Any) -> PreTrainedTokenizerBase:
    """Return a job's tokenizer; raises the errors of `tokenizer` and `folders.as_planned`."""
    model, key = Model.from_params(job.params.model), f"models.{job.wildcards.model}"
    with folders.as_planned(job.params.version, model, key, "tokenizer"):
        return tokenizer(model, key, *job.input.get("vocabulary", ()))


def _config(path: Path) -> PretrainedConfig:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(**location(path), trust_remote_code=False)


def kinds_of_attention(model: Model, key: str) -> dict[str, int]:
    """Return the number of layers of each kind of attention in an encoder-decoder.

    It is empty for other models, and for hub models that are not in the cache.
    """
    content = config_json.config_of(model, key) or {}
    if not writes(content):
        return {}
    if not is_described(model):
        content = _config(folder(model, key, "tokenizer")).to_dict()  # with defaults that config.json omits
    heads = heads_by_layer(content)
    assert heads is not None
    return {kind: len(layers) for kind, layers in heads.items()}


def delimit(tokenizer: PreTrainedTokenizerBase) -> None:
    """Make a tokenizer that adds no special tokens (GPT, GPT-2, Qwen) end every text with one.

    Otherwise nothing would separate the texts of a pair. The token is the separator, else the end of text,
    else (GPT) the unknown token. Fine-tuning teaches its meaning (Radford et al. 2018).
    """
    end = tokenizer.sep_token or tokenizer.eos_token or tokenizer.unk_token
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", end],
        pair=["$A", end, "$B:1", f"{end}:1"],
        special_tokens=[(end, tokenizer.convert_tokens_to_ids(end))],
    )


def encode(
    tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Classes
) -> tuple[pd.DataFrame, int]:
    """Return the table 'tokens' and the number of truncated examples; ModelError if one has no tokens."""
    frame, truncated = encoding(classes).encode(tokenizer, table, max_length, classes)
    check_not_empty(frame["example"], frame["input_ids"])
    return frame, truncated
