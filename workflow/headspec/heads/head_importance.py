"""Head importance of any model of transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import EncoderError, NumericalError, listing
from headspec.heads import text_batches
from headspec.heads.batches import Inputs, arguments, count, rows, without_labels
from headspec.heads.derivatives import Paths
from headspec.heads.importance import gate_derivatives, scoring
from headspec.heads.losses import Loss, own_loss
from headspec.models.attention.probe_inputs import check_model, probe_inputs
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
    tokenizer: PreTrainedTokenizerBase | None = None,
    texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    labels: Sequence[Any] | None = None,
    prompts: Sequence[str] | None = None,
    answers: Sequence[str] | None = None,
) -> NDArray[np.floating]:
    """Return the importance of every attention head: how much the loss of examples depends on its gate.

    I_h = mean over examples x of ``| dL(x) / dxi_h |`` at xi_h = 1, where xi_h multiplies the head's context
    vectors (Michel et al. 2019; Li et al. 2023, Eq. 4). Dropout is off; the model is unchanged afterwards.

    Parameters
    ----------
    model : any model of transformers that `HeadGates` takes, such as one with a task head
    batches : arguments of `model` for some examples each, such as from a DataLoader; on any device
    loss : takes the model's outputs and a batch, and returns each example's loss, (batch,). The default is
        the loss whose mean the model returns for a batch with `labels`: cross-entropy (for tokens, its mean
        over an example), squared error, or binary cross-entropy of several labels.
    per_example : whether to return derivatives of single examples
    tokenizer : for `texts` or `prompts`, which replace `batches`
    texts, labels : n texts or pairs, each with a class (its number, or its name in the config) or a score
    prompts, answers : n prompts of a language model, each with the answer that it should write; the loss is
        the mean cross-entropy of an answer's tokens

    Returns
    -------
    scores : (layers, heads), or with `per_example` signed derivatives, (examples, layers, heads); nan where
        there is no head, for example in layers without attention

    Raises
    ------
    EncoderError
        Heads are not found, the loss of examples is not known, or layers have no derivative, as of quantised
        weights.
    NumericalError
        A derivative is not finite.
    ValueError
        There are no examples, or arguments do not fit together.
    TypeError
        `model` is no model of transformers, or `tokenizer` no tokenizer.

    Examples
    --------
    >>> scores = headspec.head_importance(model, batches)
    >>> scores = headspec.head_importance(model, tokenizer=tokenizer, texts=["Fine."], labels=["good"])
    >>> scores = headspec.head_importance(model, tokenizer=tokenizer, prompts=["2 + 2 ="], answers=[" 4"])
    """
    check_model(model)
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    named = {name: value for name, value in given.items() if value is not None}
    if batches is None:
        batches = text_batches.made(model, tokenizer, named)
    elif beside := [*named, *(["tokenizer"] if tokenizer is not None else [])]:
        raise ValueError(f"got batches and {listing(beside)}; expected batches alone, or none")
    elif isinstance(batches, Mapping):
        raise ValueError("batches: got one batch; expected several, such as [batch]")
    gates: HeadGates | None = None
    found: list[torch.Tensor] = []
    paths = Paths(model)
    problem = getattr(model.config, "problem_type", None)  # which models set at the first labels
    try:
        with scoring(model), torch.enable_grad():
            for batch in batches:
                batch = arguments(batch, model.device)
                if gates is None:
                    gates = HeadGates(model, _inputs(model, batch))
                    loss = loss or own_loss(model, batch)
                assert loss is not None
                found.append(_derivatives(gates, batch, loss, paths if not found else None))
    finally:
        if hasattr(model.config, "problem_type"):
            model.config.problem_type = problem
    if gates is None:
        raise ValueError("batches: got none")
    derivatives = torch.cat(found).cpu().numpy()
    wrong = ~np.isfinite(derivatives).all(axis=(1, 2))
    if wrong.any():
        raise NumericalError(
            f"importance: nan or infinite for {wrong.sum()} of {len(wrong)} examples, such as number "
            f"{np.argmax(wrong)}"
        )
    derivatives[:, ~gates.exists] = np.nan
    return derivatives if per_example else np.abs(derivatives).mean(axis=0, dtype=float)


def _inputs(model: PreTrainedModel, batch: Inputs) -> Inputs:
    """Return inputs for finding the heads: examples of the batch if the model takes unusual inputs."""
    try:
        return probe_inputs(model)
    except EncoderError:
        return without_labels(rows(batch, slice(2), model.main_input_name))


def _derivatives(gates: HeadGates, batch: Inputs, loss: Loss, paths: Paths | None) -> torch.Tensor:
    """Return the derivatives of each example's loss with respect to the gates, (batch, layers, heads).

    Raises EncoderError where `paths` finds one without a derivative.
    """
    n = count(batch, gates.model.main_input_name)

    def losses() -> torch.Tensor:
        with paths or nullcontext():
            outputs = gates.model(**batch)
            with paths.stops() if paths else nullcontext():
                found = loss(outputs, batch)
        if not isinstance(found, torch.Tensor):
            raise ValueError(f"loss: returned a {type(found).__name__}, expected a tensor ({n},)")
        if found.shape != (n,):
            raise ValueError(f"loss: returned {tuple(found.shape)}, expected ({n},), one for each example")
        if paths:
            paths.require(found)
        return found

    return gate_derivatives(gates, losses, n).detach()
