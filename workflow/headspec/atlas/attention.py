"""Statistics of heads' attention weights on the tasks' examples."""

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
import torch

from headspec.atlas.sample import measure_folds, sampled
from headspec.head_arrays import CROSS, ENCODER, spread
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device, require_finite
from headspec.models.internals.activations import attention_maps
from headspec.models.multitask import MultiTask
from headspec.progress import Progress


class Tokens:
    """Kinds of tokens in a padded batch, each bool (batch, tokens), and their distances.

    Attributes
    ----------
    real : tokens that are not padding
    separators : special tokens after the first position, including the end token
    words : real tokens except separators; all real tokens of a text that has only separators
    but_end : real tokens except separators at the end (mBART has two); all real tokens of a text that has
        only separators
    distances : numbers of tokens between positions, (tokens, tokens) float
    """

    def __init__(self, ids: torch.Tensor, real: torch.Tensor, separators: Collection[int]) -> None:
        self.real = real.bool()
        special = torch.isin(ids, ids.new_tensor(sorted(separators)))
        place = torch.arange(special.shape[1], device=special.device)
        self.separators = special & self.real & (place > 0)
        words = self.real & ~self.separators
        word_follows = words.flip(1).cumsum(1).flip(1) > 0  # includes the token itself
        self.words = self._unless_empty(words)
        self.but_end = self._unless_empty(self.real & word_follows)
        self.distances = (place[:, None] - place).abs().float()  # (tokens, tokens)

    def _unless_empty(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.where(tokens.any(1, keepdim=True), tokens, self.real)


def statistics(weights: torch.Tensor, tokens: Tokens, seen: Tokens | None = None) -> dict[str, torch.Tensor]:
    """Return statistics of one layer's attention, each (batch, heads), a mean over a text's attending tokens.

    =========================  =======================================================================
    confidence                 largest weight (Voita et al. 2019). The end token neither attends nor is
                               attended to, since it is not a real token, as they argue.
    confidence_no_separator    the same without any separator, including the one between two texts
    confidence_with_separator  the same with all tokens
    to_separator               weight on all separators, including the end token
    to_first                   weight on the first token, be it [CLS], the start of the text or a word
    to_self                    weight of a token on itself
    distance                   mean distance in tokens, weighted by attention
    entropy                    in nats
    entropy_relative           entropy divided by its maximum, the logarithm of the number of tokens that
                               can be attended to (fewer in decoders, and in windows); tokens that can
                               attend to only one token are left out
    =========================  =======================================================================

    Unless stated otherwise, all real tokens attend, special tokens too, and count equally. Weights are
    not renormalised over the tokens that remain. Rows of `weights`, (batch, heads, tokens, tokens), attend to
    columns. With `seen`, the attended tokens of another text, the statistics `OF_PLACES` are left out.
    """
    weights, across = weights.float(), seen is not None
    seen = seen or tokens

    def mean(values: torch.Tensor, attending: torch.Tensor) -> torch.Tensor:
        """Average (batch, heads, tokens) to (batch, heads)."""
        total = torch.where(attending[:, None], values, 0).sum(-1)
        return total / attending.sum(1)[:, None].clamp(min=1)

    def largest(attending: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Average the largest weight on `chosen` tokens, (batch, tokens), to (batch, heads)."""
        return mean(weights.masked_fill(~chosen[:, None, None], 0).amax(-1), attending)

    real = tokens.real
    entropy = torch.special.entr(weights).sum(-1)  # (batch, heads, tokens)
    # masked where all heads are zero; a single head's zero may be underflow
    reachable = (weights > 0).any(1).sum(-1)  # (batch, tokens)
    place_columns = {} if across else {
        "to_self": mean(weights.diagonal(dim1=-2, dim2=-1), real),
        "distance": mean((weights * tokens.distances).sum(-1), real),
    }  # fmt: skip
    return {
        "confidence": largest(tokens.but_end, seen.but_end),
        "confidence_no_separator": largest(tokens.words, seen.words),
        "confidence_with_separator": largest(real, seen.real),
        "to_separator": mean((weights * seen.separators[:, None, None]).sum(-1), real),
        "to_first": mean(weights[..., 0], real),
        **place_columns,
        "entropy": mean(entropy, real),
        "entropy_relative": mean(entropy / reachable.clamp(min=2).log()[:, None], real & (reachable > 1)),
    }


MEASURES = (
    "confidence", "confidence_no_separator", "confidence_with_separator", "to_separator", "to_first",
    "to_self", "distance", "entropy", "entropy_relative",
)  # fmt: skip
#: statistics that compare positions in one text, which cross-attention does not have
OF_PLACES = ("to_self", "distance")


def sides(model: MultiTask, batch: Batch, separators: Collection[int]) -> dict[str, tuple[Tokens, ...]]:
    """Return, by kind of attention, the tokens that attend; in cross-attention also those attended to."""
    attending = batch.head.attending(model, batch)
    tokens = {kind: Tokens(*kind_tokens, separators) for kind, kind_tokens in attending.items()}
    return {kind: (own, tokens[ENCODER]) if kind == CROSS else (own,) for kind, own in tokens.items()}


@torch.no_grad()
def attention_measures(
    model: MultiTask,
    examples: Mapping[str, Examples],
    wanted: int,
    separators: Collection[int],
    device: Device,
) -> pd.DataFrame:
    """Return `statistics` of every head on at most `wanted` examples per task (`headspec.atlas.sample`).

    They are computed in float32 at any precision of the device: in bf16, a row's weights do not sum to 1.
    `separators` are ids of tokens that separate and end texts, from `headspec.models.word_tokens`. The
    table has the schema `headspec.atlas.sample.HEAD_FOLDS`. Raises NumericalError if a weight is not finite.
    """
    drawn = {task: sampled(task, len(e), wanted) for task, e in examples.items()}
    progress = Progress(sum(map(len, drawn.values())), "examples")
    frames = []
    for task, rows in drawn.items():
        values = _example_values(model, examples[task], rows, separators, device, progress)
        everywhere = [i for i, name in enumerate(MEASURES) if name not in OF_PLACES]
        names, what = examples[task].example[rows], f"attention weights, task '{task}'"
        require_finite(values[:, everywhere], what, names, device)
        by_layer = spread(values, model.gates.exists)
        frames += [measure_folds(task, name, by_layer[:, i]) for i, name in enumerate(MEASURES)]
    return pd.concat(frames, ignore_index=True)


def _example_values(
    model: MultiTask, examples: Examples, rows: np.ndarray, separators: Collection[int], device: Device,
    progress: Progress,
) -> np.ndarray:  # fmt: skip
    """Return statistics of each example, (len(rows), measures, existing heads), in the order of `rows`.

    Statistics that a layer does not have are nan.
    """
    model.to(device.name)
    layers: dict[int, torch.Tensor] = {}  # of one batch, each (batch, measures, heads)
    tokens: dict[str, tuple[Tokens, ...]]  # of one batch

    def receive(layer: int, weights: torch.Tensor) -> None:
        by_measure = statistics(weights, *tokens[model.gates.kind(layer)])
        none = torch.full_like(by_measure["confidence"], torch.nan)
        layers[layer] = torch.stack([by_measure.get(name, none) for name in MEASURES], dim=1)

    def batch_values(batch: Batch) -> torch.Tensor:
        nonlocal tokens
        layers.clear()
        tokens = sides(model, batch, separators)
        model.read(batch)
        return torch.cat([layers[layer] for layer in sorted(layers)], dim=2)  # (batch, measures, heads)

    with attention_maps(model.gates, receive):
        return examples.values(batch_values, rows, device, progress)
