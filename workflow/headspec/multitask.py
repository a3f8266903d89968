"""The multi-task model: one encoder, one linear head per task."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedConfig, PreTrainedModel

from headspec.batching import Batch
from headspec.devices import Device
from headspec.encoders import pretrained
from headspec.gates import HeadGates
from headspec.tables import atomic

#: what configs call the dropout before a classifier, the more special name first
DROPOUTS = [
    "classifier_dropout", "classifier_dropout_prob", "cls_dropout", "seq_classif_dropout",
    "hidden_dropout_prob", "resid_pdrop",
]  # fmt: skip


def classifier_dropout(config: PreTrainedConfig) -> float:
    """The dropout that the architecture has before a classifier; 0 where it knows none (Llama)."""
    rates = [getattr(config, name, None) for name in DROPOUTS]
    return next((rate for rate in rates if rate is not None), 0.0)


def saved_encoder(folder: Path) -> tuple[PreTrainedModel, str]:
    """The encoder of a model that `MultiTask.save` saved, without its classifiers, and its pooling."""
    return pretrained(folder), json.loads((folder / "heads.json").read_text())["pooling"]


class MultiTask(nn.Module):
    """A pretrained encoder shared by tasks, with gates on its attention heads.

    Parameters
    ----------
    encoder : the pretrained encoder
    pooling : {"first", "mean", "last"}
        What represents a text: the first token (through the pretrained pooler, where there is
        one), the mean over its tokens, or the last of them.
    classes : dict of task: class names, or None for regression
    """

    def __init__(self, encoder: PreTrainedModel, pooling: str, classes: dict[str, list[str] | None]) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.gates = HeadGates(encoder)
        self.dropout = nn.Dropout(classifier_dropout(encoder.config))
        self.new_heads(classes)

    def new_heads(self, classes: dict[str, list[str] | None]) -> None:
        """Untrained classifiers of these tasks, instead of those there are."""
        self.classes, hidden = classes, self.encoder.config.hidden_size
        # a list, because a task may have a name that a module may not
        self.heads = nn.ModuleList()
        for names in classes.values():
            head = nn.Linear(hidden, len(names) if names else 1)
            nn.init.normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)
            self.heads.append(head)

    def attend_for_gradients(self, device: Device) -> None:
        """On a CPU, attention as plain products: the backward pass of fused attention is slower there."""
        if device.name == "cpu" and self.encoder.config._attn_implementation == "sdpa":
            self.encoder.set_attn_implementation("eager")

    def pool(self, batch: Batch) -> torch.Tensor:
        """Text vectors, (batch, hidden), of a padded batch."""
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids
        output = self.encoder(**inputs)
        states = output.last_hidden_state  # (batch, tokens, hidden)
        if self.pooling == "mean":
            weight = batch.attention_mask[..., None].to(states.dtype)
            return (states * weight).sum(1) / weight.sum(1)
        if self.pooling == "last":
            return states[torch.arange(len(states), device=states.device), batch.attention_mask.sum(1) - 1]
        pooled = getattr(output, "pooler_output", None)
        return states[:, 0] if pooled is None else pooled

    def logits(self, task: str, pooled: torch.Tensor) -> torch.Tensor:
        """Scores, (batch, classes) or (batch, 1) for regression, of text vectors."""
        return self.heads[list(self.classes).index(task)](self.dropout(pooled))

    def losses(self, task: str, pooled: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Every example's loss, (batch,): cross-entropy, or squared error for regression."""
        logits = self.logits(task, pooled).float()
        if self.classes[task] is None:
            return F.mse_loss(logits[:, 0], labels.float(), reduction="none")
        return F.cross_entropy(logits, labels.long(), reduction="none")

    def predictions(self, task: str, pooled: torch.Tensor) -> torch.Tensor:
        """Class indices, or scores for regression, (batch,); nan where a logit is not finite."""
        logits = self.logits(task, pooled).float()
        found = logits[:, 0] if self.classes[task] is None else logits.argmax(1).float()
        return found.masked_fill(~logits.isfinite().all(1), torch.nan)

    def save(self, folder: str | Path) -> None:
        """model.safetensors (the encoder's names; heads as ``heads.<n>``), config.json, heads.json."""
        folder = Path(folder)
        state = dict(self.encoder.state_dict())
        state |= {f"heads.{name}": value for name, value in self.heads.state_dict().items()}
        state = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        with atomic(folder / "model.safetensors") as path:
            save_file(state, path, metadata={"format": "pt"})
        with atomic(folder / "config.json") as path:
            path.write_text(self.encoder.config.to_json_string())
        with atomic(folder / "heads.json") as path:
            path.write_text(json.dumps({"pooling": self.pooling, "classes": self.classes}, indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> MultiTask:
        """The model that `save` saved."""
        folder = Path(folder)
        classes = json.loads((folder / "heads.json").read_text())["classes"]
        state = load_file(folder / "model.safetensors")
        model = cls(*saved_encoder(folder), classes)
        model.heads.load_state_dict(
            {name.removeprefix("heads."): value for name, value in state.items() if name.startswith("heads.")}
        )
        return model.eval()
