"""What works for a type of transformers, found out on a tiny random model of it."""

import functools
import tempfile
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedModel

from headspec.cost import translated
from headspec.errors import ModelError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models import vocabulary
from headspec.models.architectures import family, refused, types
from headspec.models.attention.head_parameters import head_slices
from headspec.models.batching import Examples
from headspec.models.export.keeping import load, save
from headspec.models.export.slicing import remove_heads
from headspec.models.gates import HeadGates
from headspec.models.internals.activations import attention_maps
from headspec.models.internals.propagation import propagating
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.config_json import END, SPECIAL, positions
from support.model_types import every_type
from support.paths import ROOT
from support.tiny import CPU

TEXTS = 3
PAGE = ROOT / "docs/code/architectures.md"


def same(one: torch.Tensor, other: torch.Tensor, tolerance: float = 1e-4) -> bool:
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


def inputs(model: PreTrainedModel, gates: HeadGates) -> dict[str, Any]:
    """Texts of as many tokens, with targets for an encoder-decoder."""
    ids = torch.arange(TEXTS * 8).view(TEXTS, 8) % 90 + 7
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    if "use_cache" not in gates.inputs:
        del given["use_cache"]
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids[:, :5]
    return given


def states(
    model: PreTrainedModel, given: dict[str, Any], gates: HeadGates, values: Any = None
) -> torch.Tensor:
    gates.values = values
    try:
        output = model(**given)
        return output.logits if model.config.is_encoder_decoder else output[0]
    finally:
        gates.values = None


def check_gates(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Gates of one change no bit; each closed head is its columns of W_O at zero, and no other's."""
    ones = torch.ones(gates.layers, gates.heads)
    with torch.no_grad():
        plain = states(model, given, gates)
        assert torch.equal(plain, states(model, given, gates, ones))
        seen = [("closing none", plain)]
        for site in gates.sites:
            for head in range(site.heads):
                values = ones.clone()
                values[site.rows, head] = 0
                closed = states(model, given, gates, values)
                same_as = [other for other, states in seen if torch.equal(closed, states)]
                assert not same_as, f"closing head {head} of {site.name} is {same_as[0]}"
                seen.append((f"closing head {head} of {site.name}", closed))
                if site.output is None:
                    continue
                columns = site.columns()[head]
                original = columns.clone()
                columns.zero_()
                zeroed = states(model, given, gates)
                columns.copy_(original)
                assert same(closed, zeroed), f"head {head} of {site.name} is not its columns"


def check_gradients(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Gates of examples have gradients, which are those of a batch of one."""
    weights = torch.randn(states(model, given, gates).shape[1:], generator=torch.Generator().manual_seed(1))

    def gradients(part: dict[str, Any], texts: int) -> torch.Tensor:
        values = torch.ones(texts, gates.layers, gates.heads, requires_grad=True)
        loss = (states(model, part, gates, values) * weights).sum()
        return torch.autograd.grad(loss, values)[0]

    batch = gradients(given, TEXTS)
    assert batch.isfinite().all() and batch[:, gates.exists].abs().sum(0).gt(0).all()
    for i in range(TEXTS):
        one = {name: v[[i]] if isinstance(v, torch.Tensor) else v for name, v in given.items()}
        assert same(batch[[i]], gradients(one, 1), 1e-3), f"example {i}"


def study(model: PreTrainedModel) -> tuple[MultiTask, Examples]:
    """A model with a task, and texts of several lengths; encoder-decoders write texts."""
    ids = [list(range(7, 7 + n)) for n in (5, 8, 11, 6)]
    frame = pd.DataFrame({"example": range(4), "label": [0.0, 1.0] * 2, "token_type_ids": [None] * 4})
    frame["input_ids"] = ids
    if not model.config.is_encoder_decoder:
        return MultiTask(model, every_type.pooling(model), {"a": ["x", "y"]}).eval(), Examples(frame)
    pieces = [*SPECIAL, *(f"\u2581{i}" for i in range(len(SPECIAL), every_type.VOCABULARY))]
    tokenizer = vocabulary.tokenizer(pd.DataFrame({"piece": pieces, "score": -1.0}))
    task = {"type": "translation", "before": [], "after": [SPECIAL.index(END)], "longest": 6}
    net = MultiTask(model, "mean", {"a": task}, tokenizer=tokenizer).eval()
    return net, translated.examples(frame)


def check_study(model: PreTrainedModel) -> None:
    """Importance and a masked evaluation, as of a study."""
    net, texts = study(model)
    rows = np.arange(len(texts))
    batched = gate_gradients(net, "a", texts, rows, CPU)
    for i in rows:
        alone = gate_gradients(net, "a", texts, rows[[i]], CPU)[0]
        np.testing.assert_allclose(batched[i], alone, rtol=1e-2, atol=1e-3 * np.nanmax(np.abs(batched)))
    exists = net.gates.exists
    closed = exists & ~np.tri(*exists.shape, dtype=bool)
    masks = [Mask("none", "top", 0.0, None, np.zeros_like(closed)), Mask("a", "top", 0.5, None, closed)]
    assert np.isfinite(under_masks(net, "a", texts, rows, masks, CPU).values).all()


def check_maps(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Attention weights of every row sum to at most 1: of types with sinks to less."""
    found: dict[int, torch.Tensor] = {}
    with torch.no_grad(), attention_maps(gates, found.__setitem__):
        model(**given)
    assert sorted(found) == sorted(row for site in gates.sites for row in site.rows)
    for row, weights in found.items():
        assert weights.shape[:2] == (TEXTS, gates.site(row).heads)
        assert weights.min() >= 0 and weights.sum(-1).max() < 1 + 1e-4


def check_rows(gates: HeadGates) -> None:
    """Every head has rows, its own or those of a group, and all its columns of W_O where W_O is known."""
    known = all(site.output is not None for site in gates.sites)
    slices = head_slices(gates, "qkvo" if known else "qkv")
    for row, head in np.argwhere(gates.exists):
        own = [part for part in slices if part.heads[row, head]]
        columns = [part for part in own if known and part.parameter is gates.site(row).output.weight]
        assert sum(part.stop - part.start for part in columns) == known * gates.site(row).size
        assert len(own) > len(columns)
    for parameter in {id(each.parameter): each.parameter for each in slices}.values():
        # a row in no slice would never be trained
        own = [each for each in slices if each.parameter is parameter]
        length = parameter.shape[1 if own[0].across else 0]
        assert {row for each in own for row in range(each.start, each.stop)} == {*range(length)}


def check_relevance(model: PreTrainedModel, gates: HeadGates, given: dict[str, Any]) -> None:
    """Rules of relevance keep outputs, and give every head a finite relevance."""
    with torch.no_grad():
        plain = states(model, given, gates)
    values = torch.ones(TEXTS, gates.layers, gates.heads, requires_grad=True)
    with propagating(gates, "constant_attention"):
        output = states(model, given, gates, values)
        relevance = torch.autograd.grad(output.square().sum(), values)[0]
    assert same(output, plain) and relevance.isfinite().all()
    assert relevance[:, gates.exists].abs().sum(0).gt(0).all()


def check_positions(model: PreTrainedModel) -> None:
    """A text of as many tokens as the config is taken to allow is one."""
    config = model.config.to_dict()
    most = positions(config) if "model_type" in config else None
    if most and most <= 64 and not model.config.is_encoder_decoder:
        ids = torch.arange(most)[None] % 90 + 7
        with torch.no_grad():
            assert model(input_ids=ids, attention_mask=torch.ones_like(ids))[0].isfinite().all()


def check_removed(model: PreTrainedModel, given: dict[str, Any]) -> None:
    """A model without half its heads computes what it does with them closed."""
    gates = HeadGates(model)
    closed = gates.exists & (np.random.default_rng(0).random(gates.exists.shape) < 0.5)
    with torch.no_grad():
        expected = states(model, given, gates, 1 - torch.from_numpy(closed).float())
        smaller = remove_heads(model, closed)
        output = smaller(**given)
    assert same(output.logits if model.config.is_encoder_decoder else output[0], expected)


def check_kept(model: PreTrainedModel, given: dict[str, Any], alone: bool) -> None:
    """A model without half the heads of every layer is saved and loaded, `alone` by from_pretrained."""
    gates = HeadGates(model)
    half = gates.exists & (np.arange(gates.heads) >= gates.heads // 2)
    smaller = remove_heads(model, half)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        save(smaller, folder)
        try:
            loaded = type(model).from_pretrained(folder) if alone else load(folder)
        except RuntimeError as error:  # of sizes
            raise ModelError(str(error)) from None
        assert same(states(loaded, given, gates), states(smaller, given, gates))


def works(check: Any, *args: Any) -> bool:
    """Whether something works, or is refused in a sentence; anything else is an error."""
    try:
        check(*args)
    except ModelError:
        return False
    return True


def found(kind: str) -> dict[str, bool]:
    """What works for a type: a column of the page each. Gates and studies must."""
    torch.manual_seed(0)
    model = every_type.model(kind)
    gates = HeadGates(model)
    given = inputs(model, gates)
    check_gates(model, gates, given)
    check_gradients(model, gates, given)
    check_positions(model)
    what = {
        "attention weights": works(check_maps, model, gates, given),
        "rows for IAT": works(check_rows, gates),
        "relevance": works(check_relevance, model, gates, given),
    }
    check_study(model)
    return what | {
        "removal": works(check_removed, model, given),
        "`load`": works(check_kept, model, given, False),
        "`from_pretrained`": works(check_kept, model, given, True),
    }


def table(facts: dict[str, dict[str, bool]]) -> str:
    """The table of the page: a row for all types of a family for which the same works."""
    columns = list(next(iter(facts.values())))
    lines = ["| types | family | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    groups: dict[tuple, list[str]] = {}
    for kind, what in sorted(facts.items()):
        groups.setdefault((family({"model_type": kind}), *what.values()), []).append(kind)
    for (name, *what), kinds in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]))):
        cells = ["yes" if each else "no" for each in what]
        lines.append("| " + " | ".join([", ".join(kinds), name, *cells]) + " |")
    return "\n".join(lines)


def reasons(by_type: dict[str, str]) -> str:
    """A list of reasons, and the types of each."""
    listed: dict[str, list[str]] = {}
    for kind, reason in by_type.items():
        listed.setdefault(reason, []).append(kind)
    return "\n".join(f"- {reason}: {', '.join(kinds)}" for reason, kinds in listed.items())


def refusals() -> dict[str, str]:
    return {kind: reason for kind in types() if (reason := refused({"model_type": kind}))}


def _marks(part: str) -> tuple[str, str]:
    return f"<!-- {part}: written by python -m support.model_types.type_facts -->", f"<!-- end of {part} -->"


def on_the_page(part: str) -> str:
    """A part of docs/code/architectures.md that is written from here."""
    begin, end = _marks(part)
    return PAGE.read_text().split(begin)[1].split(end)[0].strip()


@functools.cache
def stated() -> dict[str, dict[str, bool]]:
    """What the page says that works for each type."""
    cells = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in on_the_page("types").splitlines()
    ]
    return {
        kind: dict(zip(cells[0][2:], [cell == "yes" for cell in row[2:]], strict=True))
        for row in cells[2:]
        for kind in row[0].split(", ")
    }


def write(part: str, text: str) -> None:
    """Replace a part of the page."""
    begin, end = _marks(part)
    page = PAGE.read_text()
    PAGE.write_text(f"{page.split(begin)[0]}{begin}\n\n{text}\n\n{end}{page.split(end)[1]}")


if __name__ == "__main__":
    write("types", table({kind: found(kind) for kind in every_type.taken()}))
    write("refused", reasons(refusals()))
    write("untested", reasons(every_type.NOT_BUILT))
