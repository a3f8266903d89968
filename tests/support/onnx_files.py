"""ONNX files of models, as torch exports them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from support.tiny import VOCABULARY


class States(nn.Module):
    """The last hidden state of a model, which is the output of exported encoders."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Pooled(States):
    """The pooler's output as well."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return output.last_hidden_state, output.pooler_output


def export(model: nn.Module, path: Path, outputs: type[States] = States) -> Path:
    """Export the model with torch, which stores equal tensors once."""
    model.set_attn_implementation("eager")
    model.config.use_cache = False
    ids = torch.arange(5, 19).view(2, 7)
    names, axes = ["input_ids", "attention_mask"], {0: "batch", 1: "tokens"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            outputs(model.eval()), (ids, torch.ones_like(ids)), path, input_names=names,
            dynamic_axes={name: axes for name in names}, dynamo=False,
        )  # fmt: skip
    return path


def tokens(vocabulary: int = VOCABULARY) -> pd.DataFrame:
    """Random tokens of texts of several lengths, in columns of the table 'tokens'."""
    rng = np.random.default_rng(0)
    ids = [rng.integers(5, vocabulary, length).tolist() for length in (16, 9, 4)]
    return pd.DataFrame({"input_ids": ids, "token_type_ids": None})
