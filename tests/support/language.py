"""Tiny random language models with their heads, and a task to prompt them with."""

import inspect
import json
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer, PreTrainedModel

from headspec.models.architectures import continues
from support import models, tiny

CAUSAL = [name for name, (kind, *_) in models.MODELS.items() if continues({"model_type": kind})]
MASKED = [name for name in models.MODELS if name not in CAUSAL]
CLASSES = ["bad", "good"]
PROMPT = "saw {text_a} the house:"
FILLED = "saw {text_a} the {mask} house"


def make(name: str, folder: Path) -> Path:
    """Write a `random` model of this name."""
    kind, write_tokenizer, settings = models.MODELS[name]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    write_tokenizer(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if name in MASKED and tokenizer.mask_token is None:
        tokenizer.add_special_tokens({"mask_token": "[MASK]"})
        tokenizer.save_pretrained(folder)
    random(kind, name in MASKED, **settings, vocab_size=len(tokenizer)).save_pretrained(folder)
    return folder


def random(kind: str, masked: bool = False, **settings: Any) -> PreTrainedModel:
    """A random model with its head, whose weights and biases are larger than usual, so that heads matter."""
    config = tiny.config(kind, **settings)
    torch.manual_seed(0)
    model = (AutoModelForMaskedLM if masked else AutoModelForCausalLM).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4) if parameter.dim() == 2 else parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def talking(folder: Path) -> Any:
    """The tokenizer of a model, which gets a chat template."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def answers(folder: Path) -> dict[str, str]:
    """Class: a word that is one token after `PROMPT`, with a space before it, or in `FILLED`."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer.mask_token is None:
        words = [f" {word}" for word in models.WORDS[5:] if len(_split(tokenizer, f": {word}")) == 2]
    else:
        words = [word for word in models.WORDS[5:] if len(_split(tokenizer, f"the {word} the")) == 3]
    return dict(zip(CLASSES, words, strict=False))


def _split(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def table(n: int = 12) -> pd.DataFrame:
    """A labelled data table."""
    texts = models.TEXTS[:n]
    labels = [CLASSES[i % 2] for i in range(n)]
    return pd.DataFrame({"example": range(n), "text_a": texts, "text_b": None, "label": labels})


#: names of the keys and values of earlier tokens
NAMES = {"cache", "past_key_values"}


class Outputs(dict[str, Any]):
    """Outputs of a model, by name."""

    __getattr__ = dict.__getitem__


def renamed(model_class: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """A class that takes and returns, by another name, what `model_class` does."""
    signature = inspect.signature(model_class.forward)
    (usual,) = NAMES & signature.parameters.keys()
    (other,) = NAMES - {usual}

    def forward(self: PreTrainedModel, *inputs: Any, **named: Any) -> Outputs:
        given = {usual if name == other else name: value for name, value in named.items()}
        outputs = model_class.forward(self, *inputs, **given)
        return Outputs({other if name == usual else name: value for name, value in outputs.items()})

    parameters = [
        each.replace(name=other) if each.name == usual else each for each in signature.parameters.values()
    ]
    vars(forward)["__signature__"] = signature.replace(parameters=parameters)
    return type(model_class.__name__, (model_class,), {"forward": forward})
