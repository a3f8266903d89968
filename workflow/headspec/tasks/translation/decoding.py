"""Texts that an encoder-decoder writes: the targets of a batch, their loss, and what the model decodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F

from headspec.tasks.words.head import of_sentences

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: what targets have in place of tokens after their end
NONE = -100
#: the head is given a multiple of these: for every other number of rows, oneDNN would compile products anew
ROWS = 64


@dataclass
class Targets:
    """The target texts of a batch, all tensors on one device.

    Attributes
    ----------
    source : (batch, source tokens), mask of the tokens that the decoder attends to
    ids : (batch, target tokens), `NONE` after the end of a text
    texts : the texts themselves
    """

    source: torch.Tensor
    ids: torch.Tensor
    texts: list[str]

    @property
    def real(self) -> torch.Tensor:
        """Mask of the tokens of the texts, and of those that the decoder reads in their places."""
        return self.ids != NONE

    def __getitem__(self, rows: slice) -> Targets:
        return Targets(self.source[rows], self.ids[rows], self.texts[rows])

    def to(self, device: str, non_blocking: bool = True) -> Targets:
        source, ids = (each.to(device, non_blocking=non_blocking) for each in (self.source, self.ids))
        return Targets(source, ids, self.texts)


def padded(targets: Sequence[Sequence[int]]) -> np.ndarray:
    """Tokens of targets, (batch, target tokens)."""
    ids = np.full((len(targets), max(map(len, targets))), NONE, dtype=np.int64)
    for row, of_text in zip(ids, targets, strict=True):
        row[: len(of_text)] = of_text
    return ids


def begun(encoder: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    """What the decoder reads to write `ids` (batch, target tokens): one token later, after its first one.

    The first one is the model's own, or for mBART the last token of the text, which may be its language.
    """
    if hasattr(encoder, "prepare_decoder_input_ids_from_labels"):
        return encoder.prepare_decoder_input_ids_from_labels(ids)
    first = torch.full_like(ids[:, :1], encoder.config.decoder_start_token_id)  # M2M100
    return torch.cat([first, ids[:, :-1].masked_fill(ids[:, :-1] == NONE, encoder.config.pad_token_id)], 1)


def _output(states: torch.Tensor) -> Any:
    """States of the encoder as it returns them."""
    from transformers.modeling_outputs import BaseModelOutput  # slow to import, and only needed here

    return BaseModelOutput(last_hidden_state=states)


def logits(encoder: PreTrainedModel, states: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Logits of every token of the targets, given those before it in its text, (tokens, vocabulary).

    The head, the largest matrix, is given these tokens alone, not what pads the shorter texts.

    Parameters
    ----------
    states : of the encoder, (batch, source tokens, hidden)
    """
    rows = torch.nonzero(targets.real.flatten()).flatten()
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
    return output.logits[: len(rows)].float()


def _by_text(of_tokens: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Mean of the numbers of the tokens of each text, (tokens,) to (batch,)."""
    in_rows = of_tokens.new_zeros(targets.ids.shape)
    in_rows[targets.real] = of_tokens
    return of_sentences(in_rows, targets.real)


def losses(
    encoder: PreTrainedModel, states: torch.Tensor, targets: Targets, smoothing: float = 0.0
) -> torch.Tensor:
    """The loss of each text, (batch,): the mean cross-entropy of its tokens.

    Parameters
    ----------
    states : as of `logits`
    smoothing : share of a token's probability that is given to all tokens alike (Szegedy et al. 2016)
    """
    of_tokens = F.cross_entropy(
        logits(encoder, states, targets),
        targets.ids[targets.real],
        reduction="none",
        label_smoothing=smoothing,
    )
    return _by_text(of_tokens, targets)


def evidence(encoder: PreTrainedModel, states: torch.Tensor, targets: Targets) -> torch.Tensor:
    """The mean over the tokens of each text of the largest logit, (batch,); parameters as of `logits`."""
    return _by_text(logits(encoder, states, targets).amax(-1), targets)


@torch.no_grad()
def written(
    encoder: PreTrainedModel,
    states: torch.Tensor,
    targets: Targets,
    classes: dict[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    beams: int = 1,
) -> list[str]:
    """The texts that the model writes: at every token the likeliest, with a cache of what it has read.

    With several beams, the likeliest of the texts found by following so many at once, by the mean
    log-probability of their tokens (unless the model's own settings have another penalty of length).

    Parameters
    ----------
    states : of the encoder, (batch, source tokens, hidden)
    classes : `Classes` of the task, as `headspec.tasks.translation.tokens` completes them
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
    return [without_marks(tokenizer, of_text, classes) for of_text in ids.tolist()]


def without_marks(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], classes: dict[str, Any]) -> str:
    """The text of tokens, without special ones; not all tokenizers count languages among these."""
    marks = {*classes["before"], *classes["after"]}
    return tokenizer.decode([token for token in ids if token not in marks], skip_special_tokens=True)
