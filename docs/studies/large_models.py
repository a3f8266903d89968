"""Measures prompted models with random weights: the numbers of docs/performance.md#prompted-models.

    PYTHONPATH=workflow python docs/studies/large_models.py 1B 7B gemma2-2B

writes seconds per 1,000 prompts of 200 tokens (250 are read), and GB of GPU memory, of importance and of a
mask: with the 100 tokens that all begin with read once, and with each prompt read whole.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models import devices
from headspec.models.batching import Examples
from headspec.models.language import LanguageHead
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.from_pretrained import keep_half

NAMES = "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size"
#: sizes, words, whether the head is the embedding of words
LLAMAS: dict[str, tuple[tuple[int, ...], int, bool]] = {
    "1B": ((2048, 16, 32, 8, 8192), 128256, True),
    "7B": ((4096, 32, 32, 32, 11008), 32000, False),
    "70B": ((8192, 80, 64, 8, 28672), 32000, False),
}
#: other families: type, sizes, words, and what else differs from the type's default
FAMILIES: dict[str, tuple[str, tuple[int, ...], int, dict[str, Any]]] = {
    "pythia-1B": ("gpt_neox", (2048, 16, 8, 8, 8192), 50304, {}),
    "pythia-6.9B": ("gpt_neox", (4096, 32, 32, 32, 16384), 50432, {}),
    "opt-6.7B": ("opt", (4096, 32, 32, 32, 0), 50272, {"ffn_dim": 16384, "word_embed_proj_dim": 4096}),
    "gemma2-2B": ("gemma2", (2304, 26, 8, 4, 9216), 256000, {"head_dim": 256}),
    "gemma3-4B": ("gemma3_text", (2560, 34, 8, 4, 10240), 262208, {"head_dim": 256}),
    "olmo2-7B": ("olmo2", (4096, 32, 32, 32, 11008), 100352, {}),
    "qwen3-4B": ("qwen3", (2560, 36, 32, 8, 9728), 151936, {"head_dim": 128}),
    "mistral-7B": ("mistral", (4096, 32, 32, 8, 14336), 32000, {}),
    "phi3-4B": ("phi3", (3072, 32, 32, 32, 8192), 32064, {}),
    "falcon-7B": ("falcon", (4544, 32, 71, 71, 0), 65024, {}),
    "bloom-7B": ("bloom", (4096, 30, 32, 32, 0), 250880, {}),
    "granite-2B": ("granite", (2048, 40, 32, 8, 8192), 49155, {}),
    "olmoe-7B": ("olmoe", (2048, 16, 16, 16, 1024), 50304, {}),
    "gpt2-1.5B": ("gpt2", (1600, 48, 25, 25, 6400), 50257, {}),
}


def config(name: str) -> PretrainedConfig:
    if name in LLAMAS:
        sizes, words, tied = LLAMAS[name]
        kind, more = "llama", {"tie_word_embeddings": tied}
    else:
        kind, sizes, words, more = FAMILIES[name]
    settings = dict(zip(NAMES, sizes, strict=True))
    return AutoConfig.for_model(kind, **settings, vocab_size=words, **more)


def model(of: PretrainedConfig, device: str) -> MultiTask:
    """A prompted model with two answers, in bfloat16, made on the device."""
    with torch.device(device):
        whole = AutoModelForCausalLM.from_config(of, dtype=torch.bfloat16)
    keep_half(whole)
    return MultiTask(whole.base_model, "last", {"t": ["a", "b"]}, LanguageHead(whole)).to(device)


def prompts(n: int, tokens: int, shared: int, words: int) -> Examples:
    """Random prompts; all begin with the same `shared` tokens, and go on with different ones."""
    rng = np.random.default_rng(0)
    beginning = rng.integers(0, words, shared).tolist()
    own = tokens - shared - 1
    ids = [[*beginning, i % words, *rng.integers(0, words, own).tolist()] for i in range(n)]
    frame = pd.DataFrame({"example": range(n), "label": np.arange(n) % 2.0, "input_ids": ids})
    return Examples(frame.assign(token_type_ids=None))


def measured(run: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the second run, and the peak of GPU memory in GB, nan without a GPU."""
    seconds, gpu = 0.0, torch.cuda.is_available()
    for _ in range(2):
        if gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    return seconds, torch.cuda.max_memory_allocated() / 1e9 if gpu else float("nan")


def measure(of: PretrainedConfig, n: int = 250, tokens: int = 200, shared: int = 100) -> dict[str, Any]:
    """Name: seconds and GB of `measured`."""
    device = devices.prepare("bf16", devices.MOST_THREADS)
    joint, examples, rows = (
        model(of, device.name).eval(),
        prompts(n, tokens, shared, of.vocab_size),
        np.arange(n),
    )
    none = Mask("none", None, 0.0, None, np.zeros((joint.gates.layers, joint.gates.heads), dtype=bool))

    def masked() -> None:
        with torch.no_grad(), device.cast():
            under_masks(joint, "t", examples, rows, [none], device)

    found = {"importance": measured(lambda: gate_gradients(joint, "t", examples, rows, device))}
    found["a mask, beginning read once"] = measured(masked)
    examples.__dict__["prefix"] = 0  # in the place of what was found
    return found | {"a mask, prompts read whole": measured(masked)}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for what, (seconds, memory) in measure(config(name)).items():
            print(f"{name:12}{what:30}{4 * seconds:8.2f} s{memory:8.1f} GB", flush=True)
