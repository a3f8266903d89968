"""The decoder of an encoder-decoder as a head that writes texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from headspec.head_arrays import CROSS, DECODER, ENCODER
from headspec.tasks.kinds.translation import decoding
from headspec.tasks.kinds.translation.decoding import begun
from headspec.tasks.kinds.translation.kind import UNSPACED
from headspec.tasks.kinds.translation.metrics import counted
from headspec.tasks.task_heads import Gold, Predicted, TokenHead, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.multitask import MultiTask


class Writer(TokenHead):
    """The model's own decoder and language-model head, without further weights."""

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model, classes)
        self.classes = classes

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        sources, ids = frame["input_ids"].str.len().tolist(), frame["target_ids"].tolist()
        texts = frame["target"].tolist()
        return Gold(decoding.Targets.padded, sources=sources, ids=ids, texts=texts)

    @classmethod
    def read(cls, model: MultiTask, batch: Batch) -> None:
        decoding.logits(model.encoder, cls.pool(model, batch), batch.labels)

    @classmethod
    def attending(cls, model: MultiTask, batch: Batch) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """As in `TaskHead`; in the decoder, its first token and all of the text except the last attend."""
        written = begun(model.encoder, batch.labels.ids), batch.labels.real
        source = batch.input_ids, batch.attention_mask.bool()
        return {ENCODER: source, DECODER: written, CROSS: written}

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        smoothing = self.smoothing if self.training else 0.0
        return decoding.losses(model.encoder, states, targets, smoothing)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return decoding.evidence(model.encoder, states, targets)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        assert model.tokenizer is not None
        texts = decoding.written(model.encoder, states, targets, self.classes, model.tokenizer, self.beams)
        counts = counted(texts, targets.texts, self.classes.get(UNSPACED))
        values = torch.tensor(counts, dtype=torch.float32, device=states.device)  # (batch, b)
        return Predicted(unless_broken(values, states), texts=texts)


HEAD = Writer
