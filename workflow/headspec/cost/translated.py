"""Operations of an encoder-decoder that reads and writes texts, and a small model for measuring its speed."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForSeq2SeqLM, PretrainedConfig, PreTrainedModel

from headspec.models import vocabulary
from headspec.models.batching import Examples
from headspec.models.language import cache_name
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.config_json import END, PAD, SPECIAL
from headspec.tasks.kinds.translation.head import Writer

Step = tuple[float, Any]  # operations, and the cache after them


def empty(config: PretrainedConfig) -> PreTrainedModel:
    """Return the encoder-decoder of a `config`, without allocating its weights."""
    with torch.device("meta"):  # fused attention would read masks, which have no values here
        made = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
        return made.eval().requires_grad_(False)


def _ids(batch: int, tokens: int) -> torch.Tensor:
    return torch.empty(batch, tokens, dtype=torch.long, device="meta")


def teacher_forced(config: PretrainedConfig, source: int, target: int, batch: int) -> float:
    """Return operations per example of a teacher-forced pass, as in training; lengths are in tokens."""
    model = empty(config)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=_ids(batch, source), decoder_input_ids=_ids(batch, target), use_cache=False)
    return float(counter.get_total_flops() / batch)


def written(config: PretrainedConfig, source: int, target: int, batch: int, beams: int = 1) -> float:
    """Return operations per example of writing a text token by token.

    The encoder runs once. The decoder's first step caches keys and values of the source; every later step
    attends to one more token.
    """
    model = empty(config)
    name = cache_name(model)
    with FlopCounterMode(display=False) as counter:
        states = model.get_encoder()(input_ids=_ids(batch, source))
    read = counter.get_total_flops()

    def step(cache: Any) -> Step:
        with FlopCounterMode(display=False) as counter:
            output = model(encoder_outputs=states, decoder_input_ids=_ids(batch, 1), **{name: cache})
        return counter.get_total_flops(), output[name]

    first, cache = step(None)
    second, cache = step(cache)
    more = step(cache)[0] - second
    later = target - 1
    steps = first + later * second + more * later * (later - 1) / 2
    return float(read + beams * steps) / batch


def reduced(config: PretrainedConfig, layers: int, words: int) -> PretrainedConfig:
    """Return a config with the same architecture and widths, but few layers and words."""
    sizes = {"vocab_size": words, "encoder_layers": layers, "decoder_layers": layers}
    sizes |= {"num_layers": layers, "num_decoder_layers": layers}
    special = {"pad_token_id": SPECIAL.index(PAD), "decoder_start_token_id": SPECIAL.index(PAD)}
    ends = dict.fromkeys(("bos_token_id", "forced_bos_token_id", "forced_eos_token_id"))
    own = config.to_dict()
    kept = {name: value for name, value in sizes.items() if name in own}
    return type(config).from_dict(own | kept | special | ends | {"eos_token_id": SPECIAL.index(END)})


def model(config: PretrainedConfig, target: int) -> MultiTask:
    """Return a random model with the task `task`, which writes `target` tokens for every text."""
    encoder = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32)
    encoder.generation_config.eos_token_id = None
    pieces = [*SPECIAL, *(f"\u2581{i}" for i in range(len(SPECIAL), config.vocab_size))]
    tokenizer = vocabulary.tokenizer(pd.DataFrame({"piece": pieces, "score": -1.0}))
    classes = {"type": "translation", "before": [], "after": [SPECIAL.index(END)], "longest": target}
    return MultiTask(encoder, "mean", {"task": classes}, tokenizer=tokenizer)


def examples(texts: pd.DataFrame) -> Examples:
    """Return the examples in a table of texts, with the texts' own tokens as targets."""
    targets = texts["input_ids"].map(lambda ids: " ".join(map(str, ids)))
    frame = texts.assign(target_ids=texts["input_ids"], target=targets, label=np.float64(0))
    return Examples(frame, Writer)
