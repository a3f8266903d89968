"""Head importance of any model of transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import NumericalError
from headspec.heads.any_model import user_model
from headspec.heads.any_model.batches import Inputs, count
from headspec.heads.any_model.losses import Loss
from headspec.heads.any_model.scored import Scored
from headspec.heads.any_model.scores import SCORES, Score, chosen
from headspec.models.attention.probe_inputs import check_model
from headspec.models.attention.sites import FOLDED
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@torch.inference_mode(False)
def head_importance(
    model: PreTrainedModel,
    batches: Iterable[Inputs] | None = None,
    loss: Loss | None = None,
    per_example: bool = False,
    *,
    score: str = "gradient",
    normalize: str | None = None,
    corrupted: Iterable[Inputs] | Sequence[str] | None = None,
    inputs: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    labels: Sequence[Any] | None = None,
    prompts: Sequence[str] | None = None,
    answers: Sequence[str] | None = None,
) -> NDArray[np.floating]:
    """Return the importance of every attention head: how much the loss of examples depends on it.

    By default, I_h = mean over examples x of ``| dL(x) / dxi_h |`` at xi_h = 1, where xi_h multiplies the
    head's context vectors (Michel et al. 2019; Li et al. 2023, Eq. 4). Dropout is off; the model is unchanged
    afterwards.

    Parameters
    ----------
    model : any model of transformers that `HeadGates` takes, such as one with a task head
    batches : arguments of `model` for some examples each, such as from a DataLoader; on any device
    loss : takes the model's outputs and a batch, and returns each example's loss, (batch,). The default is
        the loss whose mean the model returns for a batch with `labels`: cross-entropy (for tokens, its mean
        over an example), squared error, or binary cross-entropy of several labels.
    per_example : whether to return values of single examples, whose mean is the score; with `gradient`,
        signed derivatives
    score : mean over examples of

        - ``gradient``: absolute derivative by the gate, as above
        - ``signed``: minus the derivative, the first-order estimate of ``ablation``
        - ``tokens``: sum over tokens of absolute derivatives by a gate on each token (code released with
          Michel et al. 2019)
        - ``integrated``: minus the derivative, averaged while all gates go from 0 to 1 together
          (Sundararajan et al. 2017); summed over heads, the rise of the loss when all are closed
        - ``ablation``: exact rise of the loss with the head closed; a pass for each head
        - ``knockouts``: estimate of ``ablation`` from as many passes, each without a twentieth of the heads;
          for standard errors and metrics, use `joint_knockouts`
        - ``mean_ablation``: rise with the head's context vectors replaced by their mean over the tokens of
          the half of the examples that lacks the example itself
        - ``resample_ablation``: rise with them replaced by those of another example, half of all further on
          (Chan et al. 2022), or of the `corrupted` one (activation patching)
        - ``attribution``: first-order estimate of the latter (attribution patching; Syed et al. 2023)

        or ``magnitude``: the Frobenius norm of W_V W_O, which needs neither batches nor loss
    normalize : "layer" divides scores by the square root of the layer's sum of squares (as Michel et al.)
    corrupted : batches like `batches`, or prompts or texts as many as `prompts` or `texts`, with as many
        tokens in each example; for `attribution` and `resample_ablation`
    inputs : arguments with which heads are found, as in `HeadGates`; by default the usual ones, or the first
        batch
    tokenizer : for `texts` or `prompts`, which replace `batches`
    texts, labels : n texts or pairs, each with a class (its number, or its name in the config) or a score
    prompts, answers : n prompts of a language model, each with the answer that it should write; the loss is
        the mean cross-entropy of an answer's tokens

    Returns
    -------
    scores : (layers, heads), or with `per_example` (examples, layers, heads); nan where there is no head, for
        example in layers without attention

    Raises
    ------
    ModelError
        Heads are not found, the loss of examples is not known, or layers have no derivative, such as those
        with quantised weights; with `magnitude`, W_V or W_O are not matrices of floats.
    NumericalError
        A value is not finite.
    ValueError
        There are no examples, or arguments do not fit together.
    TypeError
        `model` is not a model of transformers, or `tokenizer` is not a tokenizer.

    Examples
    --------
    >>> scores = headspec.head_importance(model, batches)
    >>> scores = headspec.head_importance(model, batches, score="ablation")
    >>> scores = headspec.head_importance(model, score="magnitude")
    >>> scores = headspec.head_importance(model, tokenizer=tokenizer, texts=["Fine."], labels=["good"])
    >>> scores = headspec.head_importance(model, tokenizer=tokenizer, prompts=["2 + 2 ="], answers=[" 4"])
    """
    check_model(model)
    rule = chosen(score, corrupted is not None)
    if normalize not in (None, "layer"):
        raise ValueError(f"normalize: got {normalize!r}, expected 'layer' or None")
    if normalize and per_example:
        raise ValueError("normalize: got 'layer' for single examples; expected per_example=False")
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    clean = user_model.read(model, batches, tokenizer, given)
    if rule.weights is not None:
        if per_example:
            raise ValueError(f"per_example: got True with score '{score}', which needs no examples")
        some = batches is not None or texts is not None or prompts is not None
        batch = next(clean, None) if some else None
        gates = HeadGates(model, inputs) if batch is None else user_model.gated(model, batch, inputs)
        return _normalized(rule.weights(gates), normalize)
    if corrupted is None:
        pairs = _pairs(score, clean, model.main_input_name)
    elif batches is None:
        beside = "prompts" if texts is None else "texts"
        pairs = user_model.with_corrupted(
            clean, user_model.read(model, None, tokenizer, given | {beside: corrupted})
        )
    else:
        pairs = user_model.with_corrupted(clean, user_model.read(model, corrupted, None, {}))
    values, exists = scored_values(model, rule, pairs, loss, inputs)
    wrong = ~np.isfinite(values).all(axis=(1, 2))
    if wrong.any():
        raise NumericalError(
            f"importance: nan or infinite for {wrong.sum()} of {len(wrong)} examples, such as number "
            f"{np.argmax(wrong)}"
        )
    values[:, ~exists] = np.nan
    if per_example:
        return values
    return _normalized((np.abs(values) if rule.absolute else values).mean(axis=0, dtype=float), normalize)


def _normalized(scores: NDArray[np.floating], normalize: str | None) -> NDArray[np.floating]:
    normalized: NDArray[np.floating] = scores / by_layer(scores) if normalize else scores
    return normalized


def _pairs(score: str, batches: Iterable[Inputs], main: str) -> Iterable[user_model.Pair]:
    """Return batches, with donors if a score compares examples. Raises ValueError for a lone example then."""
    rule = SCORES[score]
    if not (rule.averaged or rule.donors):
        return ((batch, None, None) for batch in batches)
    every = [*batches]
    if sum(count(batch, main) for batch in every) == 1:
        raise ValueError(f"batches: got one example; score '{score}' compares examples")
    return user_model.with_others(every, main)


def scored_values(
    model: PreTrainedModel,
    rule: Score,
    pairs: Iterable[user_model.Pair],
    loss: Loss | None,
    inputs: Mapping[str, Any] | None,
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Return values of examples, (n, layers, heads), and which heads exist.

    Raises ValueError without examples, or if the model folds them and the score does not allow for it.
    """
    parts: list[torch.Tensor] = []
    scored: Scored | None = None
    with user_model.measuring(model), ExitStack() as stack, torch.enable_grad():
        if rule.averaged:
            pairs = [*pairs]
        for batch, donors, shift in user_model.shown(pairs, "batches"):
            if scored is None:
                scored = Scored(
                    *user_model.heads_and_loss(model, batch, loss, inputs), rule.derivative, stack
                )
                folded = bool(scored.gates.folded)
                if folded and not rule.by_example:
                    (got,) = (name for name, other in SCORES.items() if other is rule)
                    able = ", ".join(name for name, other in SCORES.items() if other.by_example)
                    raise ValueError(
                        f"score: got '{got}' for a model that folds {FOLDED} into its batch; expected {able}"
                    )
                if rule.averaged:
                    scored.average(each for each, *_ in pairs)
            for part in user_model.one_by_one(batch, model.main_input_name) if folded else [batch]:
                assert rule.values is not None
                parts += scored.values(rule.values, part, donors, shift)
    if scored is None:
        raise ValueError("batches: got none")
    values, exists = torch.cat(parts).cpu().numpy(), scored.gates.exists
    return values if rule.solved is None else rule.solved(values, exists), exists


def by_layer(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the root of the sum of squares of each layer, (layers, 1); 1 where it is 0."""
    norm = np.sqrt(np.nansum(np.square(scores), axis=1, keepdims=True))
    return np.where(norm > 0, norm, 1.0)
