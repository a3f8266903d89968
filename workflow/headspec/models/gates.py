"""Head gates: xi_h in `head_h(x) -> xi_h * head_h(x)` (Michel et al. 2019; Li et al. 2023).

A gate multiplies the head's context vector before W_O, whose output mixes heads.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from headspec import head_arrays
from headspec.errors import ModelError
from headspec.head_arrays import CROSS
from headspec.models.attention import gate_checks, known
from headspec.models.attention.interface import Attended, Attention, as_written, evaluating, watched
from headspec.models.attention.probe_inputs import check_model, on, probe_inputs, sequences
from headspec.models.attention.sites import FOLDED, LAYER, Site, find, stacks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: dimensions of gates of examples and tokens
MOST = 4
#: takes a row and its context vectors, (batch, tokens, heads, size), and returns those to continue with
Edit = Callable[[int, torch.Tensor], torch.Tensor]
#: takes a row and its attention weights, (batch, heads, attending tokens, attended tokens)
Receiver = Callable[[int, torch.Tensor], None]


class HeadGates:
    """Gates on every attention head of an unmodified model.

    Weights and code of the model stay the same. A row of heads is a layer; an encoder-decoder has the layers
    of each kind of attention, one kind after the other (`headspec.head_arrays`). A module that several layers
    share (ALBERT) has gates for each.

    Parameters
    ----------
    model : any model of transformers
    inputs : arguments of a small forward pass, in which heads are found and checked; by default two short
        sequences of inputs that the model's config names. Targets of an encoder-decoder must differ from
        sources in length, which distinguishes cross-attention from self-attention.

    Attributes
    ----------
    values : None, or tensor of shape ([batch, [tokens,]] layers, heads)
        The gates, 1 open and 0 closed; None for no gates. A layer with fewer tokens takes the first. They act
        until they are set to None, or in a block of `at`.
    layers, heads : number of rows up to the last with heads, and largest number of heads in a row
    exists : bool (layers, heads), False in layers without attention (hybrid models) and past a row's heads
    sites : the modules whose heads are gated
    first_rows : kind of attention: its first row
    inputs : arguments of the pass in which heads were found
    sequences : sequences of an example there, such as choices, which its gates act on
    folded : rows whose batch is not the one of examples, because `FOLDED` are in it; they take gates
        (layers, heads), or those of one example
    attending : in a block, whether the attention of a row is being computed

    Raises
    ------
    ModelError
        Heads are not found, or gates do not act on them.
    TypeError
        `model` is not a model of transformers.
    """

    @torch.inference_mode(False)
    def __init__(self, model: PreTrainedModel, inputs: Mapping[str, Any] | None = None) -> None:
        check_model(model)
        self.model = model
        self.sites: list[Site] = []
        self.attending = False
        #: what gates do: outside blocks, and in each block that is open, the last one last
        self._blocks: dict[object, dict[str, Any]] = {None: {"values": None}}
        self._acting: ExitStack | None = None
        self._acted = 0  # calls of attention
        #: row: the number of tokens up to the end of its last call; `CROSS`: of the last self-attention
        self._ends: dict[int | str, int] = {}
        self._calls: dict[str, int] = {}  # calls in this pass, for sites that several layers share
        try:
            given = probe_inputs(model) if inputs is None else inputs
            self.inputs = on(next(model.parameters()).device, given)
            self.sequences = sequences(self.inputs)
            key = known.structure(model, self.inputs)
            found = known.get(model, key)
            with evaluating(model):
                self.sites, self.first_rows, self.layers = found or find(model, self.inputs)
                self.heads = max(site.heads for site in self.sites)
                self.folded = {row for site in self.sites if site.folded for row in site.rows}
                self.exists = np.zeros((self.layers, self.heads), dtype=bool)
                for site in self.sites:
                    self.exists[site.rows, : site.heads] = True
                if not found:
                    gate_checks.check(self)
                    known.keep(model, key, known.Heads(self.sites, self.first_rows, self.layers))
        except ModelError as error:
            model_type = model.config.model_type
            raise ModelError(f"the heads of this {model_type} cannot be gated: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        # a copy has the gates that were set, and no part in blocks that it will not see the end of
        return vars(self) | {"_blocks": {None: dict(self._blocks[None])}, "_acting": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._act()

    @property
    def rows(self) -> pd.DataFrame:
        """A table of the rows of heads: row, module, tower, kind of attention, heads.

        Towers are parts of a model such as 'vision_model' and 'text_model', or an encoder and a decoder;
        empty if there is one. A row without attention is left out.
        """
        stems = [LAYER.split(site.name)[0].split(".") for site in self.sites]
        common = len(os.path.commonprefix(stems))
        several = len({*map(tuple, stems)}) > 1
        found = [
            (row, site.name, stem[common] if several else "", site.kind, site.heads)
            for site, stem in zip(self.sites, stems, strict=True)
            for row in site.rows
        ]
        return pd.DataFrame(sorted(found), columns=["row", "module", "tower", "kind", "heads"])

    def kind(self, layer: int) -> str:
        """Return the kind of attention of a row."""
        return [kind for kind, first in self.first_rows.items() if first <= layer][-1]

    def site(self, layer: int) -> Site:
        """Return the module that computes a row."""
        return next(site for site in self.sites if layer in site.rows)

    def _now(self, name: str, usual: Any = None) -> Any:
        """Return a setting of the last block that has it."""
        return next((block[name] for block in reversed(self._blocks.values()) if name in block), usual)

    @property
    def values(self) -> torch.Tensor | None:
        """The gates of the next passes, ([batch, [tokens,]] layers, heads); None if all are open."""
        values = None
        for block in self._blocks.values():
            values = block.get("values", values)
            if (closed := block.get("closed")) is not None:
                values = closed if values is None else _product(values, closed)
        return values

    @values.setter
    def values(self, values: torch.Tensor | None) -> None:
        next(block for block in reversed(self._blocks.values()) if "values" in block)["values"] = values
        self._act()

    @contextmanager
    def _block(self, **settings: Any) -> Iterator[None]:
        """Act with these settings; blocks may be left in any order."""
        key = object()
        self._blocks[key] = settings
        try:
            self._act()
            yield
        finally:
            del self._blocks[key]
            self._act()

    def _act(self) -> None:
        """Watch the model while something is set, and leave it alone otherwise."""
        wanted = len(self._blocks) > 1 or self.values is not None
        if self._acting is not None and not wanted:
            acting, self._acting = self._acting, None
            self._ends = {}
            acting.close()
        elif self._acting is None and wanted:
            with ExitStack() as stack:
                self._watch(stack)
                self._acting = stack.pop_all()

    def _watch(self, stack: ExitStack) -> None:
        stack.enter_context(as_written())
        takers: dict[nn.Module, Callable[..., tuple[Any, ...] | None]] = {}
        for site in self.sites:
            if site.own:
                assert site.output is not None
                takers[site.output] = functools.partial(self._project, site)
            else:
                stack.enter_context(watched(site.attention, functools.partial(self._attend, site)))
        for module, kinds in stacks(self.model).items():
            shared = [site for site in self.sites if site.kind in kinds and len(site.rows) > 1]
            if shared:
                takers[module] = functools.partial(self._begin, shared)

        def take(module: nn.Module, args: tuple[Any, ...]) -> Any:
            return takers[module](args) if module in takers else None

        if takers:  # a hook of a module would be copied with it
            stack.callback(register_module_forward_pre_hook(take).remove)

    @contextmanager
    def at(self, values: torch.Tensor | np.ndarray | Sequence[Any]) -> Iterator[HeadGates]:
        """Run passes with these gates; afterwards the model is as before.

        `values` are ([batch, [tokens,]] layers, heads), 1 open and 0 closed; gradients reach a tensor. Raises
        ValueError if they have another shape; so does a pass with another number of examples, or more tokens.
        ModelError at the end of the block if nothing in it called attention.

        Examples
        --------
        >>> xi = torch.ones(len(batch["labels"]), gates.layers, gates.heads, requires_grad=True)
        >>> with gates.at(xi):
        ...     model(**batch).loss.backward()
        """
        if not isinstance(values, torch.Tensor):
            values = torch.from_numpy(head_arrays.array(values, "gates"))
        if values.shape[-2:] != self.exists.shape or values.dim() > MOST:
            expected = f"([batch, [tokens,]] {self.layers}, {self.heads})"
            raise ValueError(f"gates: got {tuple(values.shape)}, expected {expected}")
        with self._gating(values=values):
            yield self

    @contextmanager
    def _gating(self, **gates: torch.Tensor) -> Iterator[None]:
        device, acted = next(self.model.parameters()).device, self._acted
        with self._block(**{name: values.to(device) for name, values in gates.items()}):
            yield
            if self._acted == acted:
                raise ModelError(
                    f"gates of this {self.model.config.model_type} did not act: nothing in the block called "
                    "its attention. Exported programs, those compiled ahead of time, and replicas cannot "
                    "be gated"
                )

    def closed(self, heads: Any) -> AbstractContextManager[HeadGates]:
        """Run passes without these heads, and those of blocks around this one; afterwards as before.

        `heads` is bool ([batch, [tokens,]] layers, heads), True is closed, or ``{layer: [heads]}``, or pairs
        (layer, head); else ValueError.

        Examples
        --------
        >>> with headspec.HeadGates(model).closed(headspec.top_heads(scores, 0.1)):
        ...     evaluate(model)
        """
        mask = head_arrays.mask(heads, self.exists, "closed heads", MOST)
        return self._closed(torch.from_numpy(~mask).float())

    @contextmanager
    def _closed(self, values: torch.Tensor) -> Iterator[HeadGates]:
        with self._gating(closed=values):
            yield self

    def _begin(self, shared: list[Site], args: tuple[Any, ...]) -> None:
        first = self._now("first", 0)
        for site in shared:
            self._calls[site.name] = sum(row < first for row in site.rows)

    def _row(self, site: Site) -> int:
        """Return the row of a site that is called now."""
        if len(site.rows) == 1:
            return site.rows[0]
        number = self._calls.get(site.name, 0)
        if number >= len(site.rows):
            raise ModelError(
                f"'{site.name}' is called more often than in a pass. Gradient checkpointing cannot be used "
                "where layers share a module"
            )
        self._calls[site.name] = number + 1
        return site.rows[number]

    def _attend(self, site: Site, attention: Attention, module: nn.Module, *states: torch.Tensor) -> Attended:
        """Watch a module: compute attention and gate its heads."""
        layer = self._row(site)
        given, receive = self._now("given", {}), self._now("receive")
        if layer in given:
            return given[layer], None
        self._count(site, layer, states[0].shape[-2], states[1].shape[-2])
        self.attending = True
        try:
            context, weights = attention(*states)
        finally:
            self.attending = False
        if receive is not None:
            if weights is None:
                raise ModelError(
                    f"the attention of this {self.model.config.model_type} cannot be captured: no weights"
                )
            receive(layer, weights)
            weights = None  # otherwise the model would collect the weights of all layers
        return self._gated(layer, context), weights

    def _count(self, site: Site, layer: int, tokens: int, keys: int) -> None:
        """Count the tokens up to the end of this call: after those in a cache, or of another layer's."""
        if site.kind != CROSS:  # which follows the self-attention of its layer
            before = max(self._ends.get(layer, 0), keys - tokens) if tokens < keys else 0
            self._ends[CROSS] = before + tokens
        self._ends[layer] = self._ends.get(CROSS, tokens)

    def _project(self, site: Site, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments of a W_O whose heads are gated."""
        layer, given = self._row(site), self._now("given", {})
        context = args[0].flatten(1, -2).unflatten(-1, (site.heads, site.size))  # tokens may be in a grid
        gated = given[layer] if layer in given else self._gated(layer, context)
        return None if gated is context else (gated.flatten(-2).reshape(args[0].shape), *args[1:])

    def _gated(self, layer: int, context: torch.Tensor) -> torch.Tensor:
        """Return context vectors (batch, tokens, heads, size) times the gates, as edited."""
        self._acted += 1
        values, edit = self.values, self._now("edit")
        if values is not None:
            gate = values[..., layer, : context.shape[2], None]  # ([batch, [tokens,]] heads, 1)
            if layer in self.folded and max(gate.shape[:-2], default=1) > 1:
                raise ValueError(
                    f"gates: got {tuple(values.shape)} for a model that folds {FOLDED} into the batch of row "
                    f"{layer}; expected ({self.layers}, {self.heads})"
                )
            if gate.dim() == 3:
                gate = gate[:, None]  # (batch, 1, heads, 1)
            elif gate.dim() == 4 and gate.shape[1] > 1:
                gate = self._of_tokens(gate, layer, context.shape[1])
            if gate.dim() == 4:
                gate = self._matched(gate, context)
            # layers of one model may be on several devices; gradients are summed in the precision of the gate
            context = (context * gate.to(context.device)).to(context.dtype)
        return context if edit is None else edit(layer, context)

    def _of_tokens(self, gate: torch.Tensor, layer: int, tokens: int) -> torch.Tensor:
        """Return gates (batch, tokens, heads, 1) of the tokens of a call; else ValueError."""
        end = self._ends.get(layer, tokens)
        if end > gate.shape[1]:
            raise ValueError(f"gates: got those of {gate.shape[1]} tokens for {end} tokens")
        return gate[:, end - tokens : end]

    def _matched(self, gate: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Return gates (batch, tokens, heads, 1) of the sequences of a pass; else ValueError."""
        n, rows = len(gate), len(context)
        if n in (1, rows):
            return gate
        if self.sequences > 1 and rows % n == 0:  # choices, as many as this batch has
            return gate.repeat_interleave(rows // n, dim=0)
        raise ValueError(
            f"gates: got those of {n} examples for {rows} sequences; expected as many, or gates "
            f"({self.layers}, {self.heads}) for all, such as where beams repeat examples"
        )

    def edited(self, edit: Edit) -> AbstractContextManager[None]:
        """Run passes whose context vectors `edit` sees, after the gates, and may replace."""
        return self._block(edit=edit)

    def watched(self) -> AbstractContextManager[None]:
        """Run passes in which `attending` says whether attention is being computed."""
        return self._block()

    def received(self, receive: Receiver) -> AbstractContextManager[None]:
        """Run passes whose attention weights are given to `receive`; attention must return them."""
        return self._block(receive=receive)

    def resumed(self, layer: int, context: torch.Tensor) -> AbstractContextManager[None]:
        """Run passes that call rows from `layer` on, whose attention is not computed: it is `context`."""
        return self._block(first=layer, given={layer: context})

    @contextmanager
    def recorded(self) -> Iterator[dict[int, torch.Tensor]]:
        """Run passes whose context vectors are kept, by row: of the first call of each."""
        found: dict[int, torch.Tensor] = {}

        def keep(row: int, context: torch.Tensor) -> torch.Tensor:
            found.setdefault(row, context)
            return context

        with self.edited(keep):
            yield found


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of gates ([batch, [tokens,]] layers, heads)."""
    few, many = sorted((one, other), key=torch.Tensor.dim)
    return many * (few[:, None] if (few.dim(), many.dim()) == (3, MOST) else few)
