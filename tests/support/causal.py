"""Tiny random causal language models with their heads, and a task to prompt them with."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from support import models, tiny

KINDS = ["gpt2", "openai-gpt", "llama", "qwen2", "qwen3", "mistral"]
CLASSES = ["bad", "good"]
PROMPT = "saw {text_a} the house:"


def make(kind: str, folder: Path) -> Path:
    """Write a model of this type, with larger weights than usual, so that heads matter."""
    _, write_tokenizer, settings = models.MODELS[kind]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    write_tokenizer(folder)
    size = len(AutoTokenizer.from_pretrained(folder))
    common = {"vocab_size": size} if kind in tiny.NATIVE_SIZES else tiny._SIZE | {"vocab_size": size}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **(common | tiny._OWN.get(kind, {}) | settings))
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4)
    model.save_pretrained(folder)
    return folder


def answers(folder: Path) -> dict[str, str]:
    """Class: a word that is one token after `PROMPT`."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = [f" {word}" for word in models.WORDS[5:] if len(_split(tokenizer, f": {word}")) == 2]
    return dict(zip(CLASSES, words, strict=False))


def _split(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def table(n: int = 12) -> pd.DataFrame:
    """A labelled data table."""
    texts = models.TEXTS[:n]
    labels = [CLASSES[i % 2] for i in range(n)]
    return pd.DataFrame({"example": range(n), "text_a": texts, "text_b": None, "label": labels})
