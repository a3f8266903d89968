"""The decoder of an encoder-decoder as a head that writes texts: targets, losses and decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from headspec.head_arrays import CROSS, DECODER, ENCODER
from headspec.tasks import task_heads
from headspec.tasks.kinds.translation.kind import UNSPACED
from headspec.tasks.kinds.translation.metrics import counted
from headspec.tasks.kinds.words.decoders import masked_means
from headspec.tasks.task_heads import Gold, Predicted, TokenHead, unless_broken

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

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
        return Gold(Targets.padded, sources=sources, ids=ids, texts=texts)

    @classmethod
    def read(cls, model: MultiTask, batch: Batch) -> None:
        logits(model.encoder, cls.pool(model, batch), batch.labels)

    @classmethod
    def attending(cls, model: MultiTask, batch: Batch) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Return what `TaskHead` does; in the decoder, the start token and all but the last token attend."""
        written = begun(model.encoder, batch.labels.ids), batch.labels.real
        source = batch.input_ids, batch.attention_mask.bool()
        return {ENCODER: source, DECODER: written, CROSS: written}

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        smoothing = self.smoothing if self.training else 0.0
        return losses(model.encoder, states, targets, smoothing)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return evidence(model.encoder, states, targets)

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        assert model.tokenizer is not None
        texts = written(model.encoder, states, targets, self.classes, model.tokenizer, self.beams)
        counts = counted(texts, targets.texts, self.classes.get(UNSPACED))
        values = torch.tensor(counts, dtype=torch.float32, device=states.device)  # (batch, b)
        return Predicted(unless_broken(values, states), texts=texts)


HEAD = Writer


#: padding of targets
NONE = -100
#: the head gets a multiple of this many rows, since oneDNN recompiles products for every new number
ROWS = 64


@dataclass
class Targets(task_heads.Targets):
    """The target texts of a batch; `ids` (batch, target tokens) are padded with `NONE`.

    `source` (batch, source tokens) is the mask of the tokens that the decoder attends to.
    """

    source: torch.Tensor
    ids: torch.Tensor
    texts: list[str]

    @property
    def real(self) -> torch.Tensor:
        """Mask of the texts' tokens, and of the decoder's inputs for them, (batch, target tokens)."""
        return self.ids != NONE

    @classmethod
    def padded(cls, sources: Sequence[int], ids: Sequence[Sequence[int]], texts: list[str]) -> Targets:
        """Return the targets for sources with these numbers of tokens."""
        lengths = torch.tensor(sources)
        source = torch.arange(int(lengths.max())) < lengths[:, None]
        return cls(source.long(), task_heads.padded(ids, NONE), texts)


def begun(encoder: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    """Return the decoder's input for `ids` (batch, target tokens), shifted by one token.

    It starts with the model's start token or, in mBART, with the last token of the text, which may be its
    language.
    """
    if hasattr(encoder, "prepare_decoder_input_ids_from_labels"):
        ahead: torch.Tensor = encoder.prepare_decoder_input_ids_from_labels(ids)
        return ahead
    first = torch.full_like(ids[:, :1], encoder.config.decoder_start_token_id)  # M2M100
    return torch.cat([first, ids[:, :-1].masked_fill(ids[:, :-1] == NONE, encoder.config.pad_token_id)], 1)


def _output(states: torch.Tensor) -> Any:
    """Return states of the encoder, (batch, source tokens, hidden), in its output format."""
    from transformers.modeling_outputs import BaseModelOutput  # slow to import, and only needed here

    return BaseModelOutput(last_hidden_state=states)


def logits(encoder: PreTrainedModel, states: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Return logits for every target token, given the tokens before it in its text, (tokens, vocabulary).

    The head, the largest matrix, skips padding. `states` (batch, source tokens, hidden) are the encoder's.
    """
    rows = torch.nonzero(targets.real.flatten()).flatten()  # (tokens,)
    filled = F.pad(rows, (0, -len(rows) % ROWS))
    only_real = encoder.get_output_embeddings().register_forward_pre_hook(
        lambda _, given: (given[0].flatten(0, 1)[filled],)
    )
    try:
        output = encoder(
            encoder_outputs=_output(states),
            attention_mask=targets.source,
            decoder_input_ids=begun(encoder, targets.ids),
            use_cache=False,
        )
    finally:
        only_real.remove()
    logits: torch.Tensor = output.logits[: len(rows)].float()
    return logits


def _text_means(values: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Average values of tokens over each text, (tokens,) to (batch,)."""
    in_rows = values.new_zeros(targets.ids.shape)
    in_rows[targets.real] = values
    return masked_means(in_rows, targets.real)


def losses(
    encoder: PreTrainedModel, states: torch.Tensor, targets: Targets, smoothing: float = 0.0
) -> torch.Tensor:
    """Return each text's mean cross-entropy, (batch,), with label smoothing (Szegedy et al. 2016)."""
    values = F.cross_entropy(
        logits(encoder, states, targets),
        targets.ids[targets.real],
        reduction="none",
        label_smoothing=smoothing,
    )
    return _text_means(values, targets)


def evidence(encoder: PreTrainedModel, states: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Return the mean, over the tokens of each text, of the largest logit, (batch,)."""
    return _text_means(logits(encoder, states, targets).amax(-1), targets)


@torch.no_grad()
def written(
    encoder: PreTrainedModel,
    states: torch.Tensor,
    targets: Targets,
    classes: dict[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    beams: int = 1,
) -> list[str]:
    """Return texts written by cached greedy or beam search.

    Beam search ranks texts by the mean log-probability of their tokens, unless the model's own settings have
    another length penalty. `states` (batch, source tokens, hidden) are the encoder's; `classes` are completed
    by `headspec.tasks.kinds.translation.encoding`.
    """
    around = torch.tensor([classes["before"] + classes["after"]], device=states.device)
    ids = encoder.generate(
        encoder_outputs=_output(states),
        attention_mask=targets.source,
        num_beams=beams,
        do_sample=False,
        max_new_tokens=classes["longest"],
        decoder_start_token_id=int(begun(encoder, around)[0, 0]),
        forced_bos_token_id=classes["before"][0] if classes["before"] else None,
    )
    return [without_marks(tokenizer, tokens, classes) for tokens in ids.tolist()]


def without_marks(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], classes: dict[str, Any]) -> str:
    """Decode tokens without special and language tokens; not all tokenizers skip the latter."""
    marks = {*classes["before"], *classes["after"]}
    return str(tokenizer.decode([token for token in ids if token not in marks], skip_special_tokens=True))
