"""What heads do: their behaviours on random tokens, and attention maps, by a model's own attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import stdtrit

from headspec import head_arrays
from headspec.errors import ModelError, listing, nearest
from headspec.heads.any_model import own
from headspec.heads.any_model.batches import arguments
from headspec.models.attention.gating import Receiver
from headspec.models.attention.past import fresh
from headspec.models.attention.placement import device_of
from headspec.models.attention.probe_inputs import check_model
from headspec.models.gates import HeadGates
from headspec.models.internals import activations
from headspec.models.pretrained.config_json import positions
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: fewest sequences, for their variance, and fewest tokens, so that chance is low
FEWEST, SHORTEST = 2, 8
#: sequences in a pass
AT_ONCE = 8


class Behaviour(NamedTuple):
    """What a head may attend to.

    Attributes
    ----------
    again : whether only tokens of the second half attend
    distance : tokens back to the one attended to, in repeats of n tokens: times n, and added; None for the
        first token
    control : 'fresh' second halves, which repeat nothing, or 'others', the mean weight of all other tokens
    """

    again: bool
    distance: tuple[int, int] | None
    control: str


FRESH, OTHERS = "fresh", "others"
BEHAVIOURS = {
    "previous_token": Behaviour(False, (0, 1), OTHERS),
    "duplicate_token": Behaviour(True, (1, 0), FRESH),
    "induction": Behaviour(True, (1, -1), FRESH),
    "first_token": Behaviour(False, None, OTHERS),
}
Floats = NDArray[np.float64]


@torch.inference_mode(False)
def attention_maps(
    model: PreTrainedModel, batch: Mapping[str, Any], heads: Any = None
) -> dict[tuple[int, int], NDArray[np.float32]]:
    """Return the attention weights of heads on a batch.

    They are those of the model's own attention function, also a fused one, without `output_attentions`.

    Parameters
    ----------
    model : any model of transformers that `HeadGates` takes
    batch : arguments of the model for some examples
    heads : bool (layers, heads), ``{layer: [heads]}``, or pairs (layer, head); by default all

    Returns
    -------
    maps : (layer, head): (examples, tokens, tokens attended to); rows sum to 1, unless a model has sinks

    Raises
    ------
    ModelError
        Heads are not found, or attention that a model computes itself returns no weights.
    ValueError
        `heads` names heads that the model does not have.

    Examples
    --------
    >>> maps = headspec.attention_maps(model, tokenizer("A fine film.", return_tensors="pt"), {3: [0, 2]})
    """
    check_model(model)
    given = arguments(dict(batch), device_of(model))
    maps: dict[tuple[int, int], NDArray[np.float32]] = {}
    with own.measuring(model), torch.no_grad():
        gates = own.gated(model, given)
        chosen = gates.exists if heads is None else head_arrays.mask(heads, gates.exists)

        def receive(row: int, weights: torch.Tensor) -> None:
            for head in np.flatnonzero(chosen[row]).tolist():
                maps[row, head] = weights[:, head].float().cpu().numpy()

        with captured(gates, receive):
            model(**fresh(given))
    return maps


@contextmanager
def captured(gates: HeadGates, receive: Receiver) -> Iterator[None]:
    """Pass every row's attention weights to `receive`, from its own functions if it can be."""
    if any(site.own for site in gates.sites):
        with activations.attention_maps(gates, receive):
            yield
    else:
        with gates.received(receive):
            yield


@torch.inference_mode(False)
def head_behaviours(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    behaviours: Sequence[str] = (*BEHAVIOURS,),
    *,
    start: int | None = None,
    sequences: int = 8,
    tokens: int = 48,
    confidence: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Return what each head of a decoder attends to, beside a control.

    A sequence is the token that begins a text and `tokens` different random ones, twice (Olsson et al. 2022).
    Scores are mean attention weights:

    - ``previous_token``: of the token before; control: the mean over all other tokens
    - ``duplicate_token``: from a token's second occurrence to its first
    - ``induction``: from a token's second occurrence to the token after the first
    - ``first_token``: of the first token of the sequence (attention sink); control as of ``previous_token``

    The control of the second and third is the weight at the same places of sequences whose second half is of
    other random tokens.

    Parameters
    ----------
    model : a decoder of transformers that `HeadGates` takes
    tokenizer : says which token begins a text, and which are special and not drawn; by default the config
    behaviours : names of those above
    start : id of the token that begins a text, for a tokenizer without one
    sequences : their number, at least two
    tokens : in each half, at least eight
    confidence : of the intervals
    seed : of the tokens

    Returns
    -------
    table : a row for each head and behaviour

        - layer, head, behaviour
        - score, control: means over sequences
        - se: standard error of their difference
        - low, high: interval of the difference, by t, at this confidence for all heads together (Bonferroni)
        - above: whether `low` is above 0; only such a head is of this kind

    Raises
    ------
    ModelError
        Heads are not found, or the model is no decoder.
    ValueError
        There is no token that begins a text, or sequences do not fit the model.

    Examples
    --------
    >>> table = headspec.head_behaviours(model, tokenizer)
    >>> table[(table["behaviour"] == "induction") & table["above"]].nlargest(5, "score")
    """
    check_model(model)
    for name in behaviours:
        if name not in BEHAVIOURS:
            known = listing(BEHAVIOURS)
            raise ValueError(f"behaviours: got '{name}', expected {known}.{nearest(name, BEHAVIOURS)}")
    if sequences < FEWEST:
        raise ValueError(f"sequences: got {sequences}, expected at least {FEWEST}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}, expected a number between 0 and 1")
    repeated, new = _sequences(model, tokenizer, start, sequences, tokens, seed)
    with own.measuring(model), torch.no_grad():
        gates = HeadGates(model)
        scores = _weights(gates, repeated, behaviours, tokens)
        controls = _weights(gates, new, behaviours, tokens)
    frames = []
    for name in behaviours:
        fresh_control = BEHAVIOURS[name].control == FRESH
        score, control = scores[name][0], controls[name][0] if fresh_control else scores[name][1]
        frames.append(_table(name, score, control, gates.exists, confidence))
    return pd.concat(frames, ignore_index=True)


def _sequences(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    start: int | None,
    n: int,
    tokens: int,
    seed: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sequences that repeat their tokens, and those that do not, (n, 1 + 2 * tokens) each."""
    if model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        raise ModelError(f"behaviours: got a {model.config.model_type}, expected a decoder of tokens")
    config = model.config.get_text_config()
    first = getattr(tokenizer, "bos_token_id", None) if tokenizer else getattr(config, "bos_token_id", None)
    first = start if start is not None else first
    if first is None:
        raise ValueError("tokenizer: got one without a BOS token; expected start, the id of another token")
    words = config.vocab_size
    if not 0 <= first < words:
        raise ValueError(f"start: got {first}, expected the id of one of {words} tokens")
    most = positions(config.to_dict())
    if tokens < SHORTEST or (most and 1 + 2 * tokens > most):
        upper = f" and at most {(most - 1) // 2}" if most else ""
        raise ValueError(f"tokens: got {tokens}, expected at least {SHORTEST}{upper}")
    special = {first, *(getattr(tokenizer, "all_special_ids", None) or ())}
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        ids = getattr(config, name, None)
        special |= {*(ids if isinstance(ids, (list, tuple)) else [ids])}
    drawn = np.array(
        [word for word in range(min(words, len(tokenizer or range(words)))) if word not in special]
    )
    if len(drawn) < 2 * tokens:
        raise ValueError(f"tokens: got {tokens}, expected at most half of the {len(drawn)} of the vocabulary")
    rng = np.random.default_rng(derive(seed, "behaviours"))
    rows = np.stack([rng.choice(drawn, 2 * tokens, replace=False) for _ in range(n)])
    begins = np.full((n, 1), first)
    repeated = np.concatenate([begins, rows[:, :tokens], rows[:, :tokens]], axis=1)
    device = device_of(model)
    return torch.from_numpy(repeated).to(device), torch.from_numpy(np.concatenate([begins, rows], 1)).to(
        device
    )


def _weights(
    gates: HeadGates, ids: torch.Tensor, behaviours: Sequence[str], tokens: int
) -> dict[str, tuple[Floats, Floats]]:
    """Return mean weights (n, layers, heads) of the tokens of each behaviour, and of all other tokens."""
    found = {name: tuple(np.zeros((2, len(ids), *gates.exists.shape))) for name in behaviours}
    places = {name: _places(BEHAVIOURS[name], tokens) for name in behaviours}
    for at in range(0, len(ids), AT_ONCE):
        part = ids[at : at + AT_ONCE]

        def receive(row: int, weights: torch.Tensor, at: int = at, part: torch.Tensor = part) -> None:
            totals = weights.sum(-1, dtype=torch.float32)  # (batch, heads, tokens); less than 1 with sinks
            for name, (queries, keys) in places.items():
                own_weights = weights[:, :, queries, keys].float()  # (batch, heads, queries)
                others = totals[:, :, queries] - own_weights
                seen = torch.as_tensor(queries, device=weights.device)  # tokens but the one attended to
                for values, each in zip(found[name], (own_weights, others / seen), strict=True):
                    values[at : at + len(part), row, : weights.shape[1]] = each.mean(-1).cpu().numpy()

        with ExitStack() as stack:
            stack.enter_context(captured(gates, receive))
            gates.model(input_ids=part, attention_mask=torch.ones_like(part))
    return {name: (values[0], values[1]) for name, values in found.items()}


def _places(behaviour: Behaviour, tokens: int) -> tuple[list[int], list[int]]:
    """Return the places of tokens that attend, and of those that they attend to."""
    queries = [*range(1 + tokens, 1 + 2 * tokens)] if behaviour.again else [*range(2, 1 + 2 * tokens)]
    if behaviour.distance is None:
        return queries, [0] * len(queries)
    halves, back = behaviour.distance
    return queries, [query - halves * tokens - back for query in queries]


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
