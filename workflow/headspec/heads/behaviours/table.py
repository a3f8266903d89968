"""Behaviours of the heads of a decoder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import stdtrit

from headspec.errors import ModelError, listing, nearest
from headspec.heads.any_model import user_model
from headspec.heads.behaviours.function_vectors import function_vectors
from headspec.heads.behaviours.maps import captured
from headspec.heads.behaviours.name_movers import name_movers
from headspec.heads.behaviours.probe import Floats, Orders, Probe, Prompts, Tasks
from headspec.heads.behaviours.random_tokens import RANDOM_TOKENS, SHORTEST, attended
from headspec.heads.behaviours.retrieval import retrieval
from headspec.heads.behaviours.successors import successors
from headspec.models.attention.placement import device_of
from headspec.models.attention.probe_inputs import check_model
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: fewest sequences, for their variance
FEWEST = 2
#: name: returns scores and controls of sequences, each (n, layers, heads)
BEHAVIOURS: dict[str, Callable[[Probe], tuple[Floats, Floats]]] = {
    **{name: functools.partial(attended, name) for name in RANDOM_TOKENS},
    "retrieval": retrieval,
    "function_vector": function_vectors,
    "name_mover": name_movers,
    "successor": successors,
}


@torch.inference_mode(False)
def head_behaviours(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    behaviours: Sequence[str] = (*RANDOM_TOKENS,),
    *,
    start: int | None = None,
    sequences: int = 8,
    tokens: int = 48,
    tasks: Tasks | None = None,
    prompts: Prompts = (),
    orders: Orders | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Return what each head of a decoder does, compared with a control.

    By default, a sequence is the token that begins a text and two halves of `tokens` different random tokens.
    Scores are mean attention weights of the tokens of the second half:

    - ``duplicate_token``: on the token's first occurrence, if the second half repeats the first
    - ``induction``: on the token after its first occurrence, if the second half repeats the first (Olsson et
      al. 2022)
    - ``previous_token``: on the token before, if no token repeats; control: on the token 0, 2, 3, ... tokens
      back with the largest mean weight, at most `tokens`
    - ``first_token``: on the first token of the sequence (attention sink), if no token repeats; control: on
      the token of the first half with the largest mean weight

    The control of the first two is the weight at the same places if no token repeats. Four more behaviours
    read texts:

    - ``retrieval``: share of the tokens of a number, hidden in other sentences, that the model copies while
      the head attends to them more than to any other token (Wu et al. 2024); control: the same, of another
      number there
    - ``function_vector``: rise of the probability of the answer in prompts whose examples have shuffled
      answers, when the head's context vector at the last token is its mean over eight prompts with right
      answers (Todd et al. 2024); control: with its mean over eight others with shuffled answers. Every prompt
      has its own means, so that prompts are independent
    - ``name_mover``: weight of the last token of your `prompts` on the answer, such as the name that is to
      follow, where the head copies: its output for the answer, as in ``successor``, has a larger logit there
      than at the other text (Wang et al. 2023); control: the same with the two swapped
    - ``successor``: share of the tokens of `orders` for which the head's output, through W_O, the last norm
      and the unembedding, has the largest logit of the sequence's tokens at the next one, if the head reads
      W_E + MLP_0(W_E) of the token (the successor score of Gould et al. 2023); control: the same for the
      token before it (of the first token, the last)

    Parameters
    ----------
    model : a decoder of transformers that `HeadGates` takes
    tokenizer : says which token begins a text, and which are special and not drawn; by default the config
        says so
    behaviours : names of those above, or a single one
    start : id of the token that begins a text; by default of the tokenizer or, without one, of the config
    sequences : number of sequences, at least two; for ``function_vector``, of prompts for each task;
        ``successor`` has as many as tokens of `orders`
    tokens : number of tokens in each half, at least eight; ``retrieval`` hides numbers among four times as
        many
    tasks : for ``function_vector``, at least six pairs of each: ``{"opposites": [("hot", "cold"), ...]}``
    prompts : for ``name_mover``, at least two, with an answer and another text that are both in the prompt:
        ``[("Ann and Bob ran. Bob gave a cup to", "Ann", "Bob"), ...]``; let each come first equally often
    orders : for ``successor``, at least three texts of one token each in order, the first of a cycle again
        at its end: ``{"days": ["Monday", "Tuesday", ..., "Sunday", "Monday"]}``; by default those of Gould et
        al., of which the tokenizer has tokens: numbers, number words, ordinals, days, months and letters
    confidence : of the intervals
    seed : of the tokens

    Returns
    -------
    table : a row for each head and behaviour

        - layer, head, behaviour
        - score, control: means over sequences
        - se: standard error of their difference
        - low, high: interval of the difference, by t, at this confidence for all heads together (Bonferroni)
        - above: whether `low` is above 0; only such a head is of this kind, however weak it is

    Raises
    ------
    ModelError
        Heads are not found, the model is an encoder-decoder, does not read tokens or attends to later ones,
        or ``successor`` and ``name_mover`` cannot follow it from a head to the logits.
    ValueError
        There is no token that begins a text, sequences do not fit the model, a behaviour lacks what it reads,
        or another argument is invalid.

    Examples
    --------
    >>> table = headspec.head_behaviours(model, tokenizer)
    >>> table[(table["behaviour"] == "induction") & table["above"]].nlargest(5, "score")
    """
    check_model(model)
    if model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        raise ModelError(f"behaviours: got a {model.config.model_type}, expected a decoder of tokens")
    behaviours = [behaviours] if isinstance(behaviours, str) else behaviours
    for name in behaviours:
        if name not in BEHAVIOURS:
            known = listing(BEHAVIOURS)
            raise ValueError(f"behaviours: got '{name}', expected {known}.{nearest(name, BEHAVIOURS)}")
    if sequences < FEWEST:
        raise ValueError(f"sequences: got {sequences}, expected at least {FEWEST}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}, expected a number between 0 and 1")
    with user_model.measuring(model), torch.no_grad():
        asked = {
            task: [(f"Q: {text}\nA:", f" {answer}") for text, answer in pairs]
            for task, pairs in (tasks or {}).items()
        }
        probe = Probe(
            HeadGates(model), tokenizer, start, sequences, tokens, seed, asked, prompts, orders or {}
        )
        _require_causal(probe.gates)
        measured = {name: BEHAVIOURS[name](probe) for name in behaviours}
    exists = probe.gates.exists
    frames = [_table(name, *measured[name], exists, confidence) for name in behaviours]
    return pd.concat(frames, ignore_index=True)


def _require_causal(gates: HeadGates) -> None:
    """Raise ModelError if a token attends to a later one: copies of earlier tokens say nothing there."""
    later: list[bool] = []

    def receive(_: int, weights: torch.Tensor) -> None:
        later.append(bool((weights.triu(1) > 1e-6).any()))

    model = gates.model
    ids = torch.arange(1, SHORTEST, device=device_of(model))[None]
    with captured(gates, receive):
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    if any(later):
        kind = model.config.model_type
        raise ModelError(f"behaviours: got a {kind} whose tokens attend to later ones, expected a decoder")


def _table(
    name: str, scores: Floats, controls: Floats, exists: NDArray[np.bool_], confidence: float
) -> pd.DataFrame:
    """Return rows of heads, from scores and controls of sequences, (n, layers, heads)."""
    n, heads = len(scores), int(exists.sum())
    differences = (scores - controls)[:, exists]  # (n, heads)
    se = differences.std(axis=0, ddof=1) / np.sqrt(n)
    mean, reach = differences.mean(0), -stdtrit(n - 1, (1 - confidence) / 2 / heads) * se
    layer, head = np.nonzero(exists)
    return pd.DataFrame({
        "layer": layer, "head": head, "behaviour": name,
        "score": scores[:, exists].mean(0), "control": controls[:, exists].mean(0),
        "se": se, "low": mean - reach, "high": mean + reach, "above": mean - reach > 0,
    })  # fmt: skip
