"""How gates act on the heads of a model in forward passes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from headspec.errors import ModelError
from headspec.head_arrays import CROSS
from headspec.models.attention.interface import Attended, Attention, as_written, watched
from headspec.models.attention.sites import FOLDED, Site, stacks
from headspec.models.attention.weights import by_values

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: number of dimensions of gates with examples and tokens
MOST = 4
#: takes a row and its context vectors, (batch, tokens, heads, size), and returns those to continue with
Edit = Callable[[int, torch.Tensor], torch.Tensor]
#: takes a row and its attention weights, (batch, heads, attending tokens, attended tokens)
Receiver = Callable[[int, torch.Tensor], None]
Setting = TypeVar("Setting")


@dataclass(eq=False)
class Block:
    """Settings of forward passes in a block; None inherits from the enclosing block.

    Attributes
    ----------
    has_values : whether `values` replace those of the enclosing block; None then means open gates
    values : gates, ([batch, [tokens,]] layers, heads), 1 open and 0 closed
    closed : gates, of a shape as for `values`, that multiply those of the enclosing block
    edit : sees, and may replace, the context vectors of each row
    receive : receives the attention weights of each row
    first : the first row that is called
    given : row: context vectors in place of its attention
    """

    has_values: bool = False
    values: torch.Tensor | None = None
    closed: torch.Tensor | None = None
    edit: Edit | None = None
    receive: Receiver | None = None
    first: int | None = None
    given: Mapping[int, torch.Tensor] | None = None


class Gating:
    """Gates in a model's forward passes, while a block is open or gates are set.

    Attributes
    ----------
    sites : the modules whose heads are gated
    sequences : number of sequences per example, such as choices; they share the example's gates
    folded : rows whose batch dimension holds more than examples
    attending : whether attention is being computed right now, inside a block
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.sites: list[Site] = []
        self.layers = self.heads = 0
        self.sequences = 1
        self.folded: set[int] = set()
        self.attending = False
        #: settings outside blocks, then of each open block, the innermost last
        self._blocks = [Block(has_values=True)]
        self._watching: ExitStack | None = None
        #: number of gated calls of attention
        self._gated_calls = 0
        #: row: number of tokens up to the end of its last call; for `CROSS`, of the last self-attention
        self._tokens_read: dict[int | str, int] = {}
        #: calls in this pass of sites that several layers share
        self._calls_in_pass: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        # a copy keeps the gates that were set, but not the open blocks, whose ends it would miss
        return vars(self) | {"_blocks": [dataclasses.replace(self._blocks[0])], "_watching": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._watch_if_needed()

    @property
    def values(self) -> torch.Tensor | None:
        """The gates of the next passes, ([batch, [tokens,]] layers, heads); None if all are open."""
        values = None
        for block in self._blocks:
            values = block.values if block.has_values else values
            if block.closed is not None:
                values = block.closed if values is None else _product(values, block.closed)
        return values

    @values.setter
    def values(self, values: torch.Tensor | None) -> None:
        next(block for block in reversed(self._blocks) if block.has_values).values = values
        self._watch_if_needed()

    def _last(self, setting: Callable[[Block], Setting | None], usual: Setting) -> Setting:
        """Return a setting from the innermost block that has it."""
        settings = map(setting, reversed(self._blocks))
        return next((value for value in settings if value is not None), usual)

    @contextmanager
    def opened(self, block: Block) -> Iterator[None]:
        """Apply the settings of a block; blocks may be left in any order."""
        self._blocks.append(block)
        try:
            self._watch_if_needed()
            yield
        finally:
            self._blocks.remove(block)
            self._watch_if_needed()

    @contextmanager
    def acting(self, block: Block) -> Iterator[None]:
        """Apply the settings of a block; ModelError at its end if nothing in it called attention."""
        before = self._gated_calls
        with self.opened(block):
            yield
            if self._gated_calls == before:
                raise ModelError(
                    f"gates of this {self.model.config.model_type} did not act: nothing in the block called "
                    "its attention. Exported programs, those compiled ahead of time, and replicas cannot "
                    "be gated"
                )

    def _watch_if_needed(self) -> None:
        """Watch the model only while something is set."""
        needed = len(self._blocks) > 1 or self.values is not None
        if self._watching is not None and not needed:
            watching, self._watching = self._watching, None
            self._tokens_read = {}
            watching.close()
        elif self._watching is None and needed:
            with ExitStack() as stack:
                self._watch(stack)
                self._watching = stack.pop_all()

    def _watch(self, stack: ExitStack) -> None:
        stack.enter_context(as_written())
        #: functions called before a module, with its arguments, which may return replacements
        before: dict[nn.Module, Callable[..., tuple[Any, ...] | None]] = {}
        for site in self.sites:
            if site.own:
                assert site.output is not None
                before[site.output] = functools.partial(self._before_output, site)
            else:
                stack.enter_context(watched(site.attention, functools.partial(self._attend, site)))
        for module, kinds in stacks(self.model).items():
            shared = [site for site in self.sites if site.kind in kinds and len(site.rows) > 1]
            if shared:
                before[module] = functools.partial(self._begin_pass, shared)

        def call(module: nn.Module, args: tuple[Any, ...]) -> Any:
            return before[module](args) if module in before else None

        if before:  # global, because copies of a module would include its hooks
            stack.callback(register_module_forward_pre_hook(call).remove)

    def _begin_pass(self, shared: list[Site], args: tuple[Any, ...]) -> None:
        first = self._last(lambda block: block.first, 0)
        for site in shared:
            self._calls_in_pass[site.name] = sum(row < first for row in site.rows)

    def _next_row(self, site: Site) -> int:
        """Count a call of a site and return its row; ModelError if the site has fewer rows than calls."""
        if len(site.rows) == 1:
            return site.rows[0]
        number = self._calls_in_pass.get(site.name, 0)
        if number >= len(site.rows):
            raise ModelError(
                f"'{site.name}' is called more often than once per layer. Gradient checkpointing cannot be "
                "used where layers share a module"
            )
        self._calls_in_pass[site.name] = number + 1
        return site.rows[number]

    def _given(self) -> Mapping[int, torch.Tensor]:
        return self._last(lambda block: block.given, {})

    def _attend(self, site: Site, attention: Attention, module: nn.Module, *states: torch.Tensor) -> Attended:
        """Compute attention in place of a site at the interface, and gate its heads."""
        row, given = self._next_row(site), self._given()
        if row in given:
            return site.part(given[row], 2), None
        self._count_tokens(site, row, states[0].shape[-2], states[1].shape[-2])
        self.attending = True
        try:
            context, weights = attention(*states)
        finally:
            self.attending = False
        receive = self._last(lambda block: block.receive, None)
        if receive is not None:
            weights = by_values(attention, *states) if weights is None else weights
            receive(row, site.whole(weights, 1))
            weights = None  # otherwise the model would collect the weights of all layers
        return self._gated(site, row, context), weights

    def _count_tokens(self, site: Site, row: int, tokens: int, keys: int) -> None:
        """Count the tokens up to the end of this call, including those in a cache."""
        if site.kind != CROSS:  # cross-attention follows the self-attention of its layer
            before = max(self._tokens_read.get(row, 0), keys - tokens) if tokens < keys else 0
            self._tokens_read[CROSS] = before + tokens
        self._tokens_read[row] = self._tokens_read.get(CROSS, tokens)

    def _before_output(self, site: Site, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments of a W_O with its heads gated; None if they are unchanged."""
        row, given = self._next_row(site), self._given()
        context = args[0].flatten(1, -2).unflatten(-1, (site.heads, site.size))  # tokens may be in a grid
        gated = given[row] if row in given else self._gated(site, row, context)
        return None if gated is context else (gated.flatten(-2).reshape(args[0].shape), *args[1:])

    def _gated(self, site: Site, row: int, context: torch.Tensor) -> torch.Tensor:
        """Return context vectors (batch, tokens, heads, size) after gates and edits."""
        self._gated_calls += 1
        values, edit = self.values, self._last(lambda block: block.edit, None)
        if values is not None:
            gate = self._fitting(values, row, site.heads, context).to(context.device)
            # layers may be on several devices; gradients are summed in the precision of the gate
            context = (context * site.part(gate, gate.dim() - 2)).to(context.dtype)
        return context if edit is None else site.part(edit(row, site.whole(context, 2)), 2)

    def _fitting(self, values: torch.Tensor, row: int, heads: int, context: torch.Tensor) -> torch.Tensor:
        """Return the gates of a row's heads, ([batch, tokens,] heads, 1); ValueError if unfit."""
        gate = values[..., row, :heads, None]  # ([batch, [tokens,]] heads, 1)
        if row in self.folded and max(gate.shape[:-2], default=1) > 1:
            raise ValueError(
                f"gates: got {tuple(values.shape)} for a model that folds {FOLDED} into the batch of row "
                f"{row}; expected ({self.layers}, {self.heads})"
            )
        if gate.dim() == 3:
            gate = gate[:, None]  # (batch, 1, heads, 1)
        elif gate.dim() == MOST and gate.shape[1] > 1:
            gate = self._of_tokens(gate, row, context.shape[1])
        return self._of_sequences(gate, len(context)) if gate.dim() == MOST else gate

    def _of_tokens(self, gate: torch.Tensor, row: int, tokens: int) -> torch.Tensor:
        """Return gates (batch, tokens, heads, 1) of the tokens of a call; ValueError if they are too few."""
        end = self._tokens_read.get(row, tokens)
        if end > gate.shape[1]:
            raise ValueError(f"gates: got gates of {gate.shape[1]} tokens for {end} tokens")
        return gate[:, end - tokens : end]

    def _of_sequences(self, gate: torch.Tensor, sequences: int) -> torch.Tensor:
        """Return gates (batch, tokens, heads, 1) of the sequences of a pass; ValueError if numbers differ."""
        n = len(gate)
        if n in (1, sequences):
            return gate
        if self.sequences > 1 and sequences % n == 0:  # this batch may have another number of choices
            return gate.repeat_interleave(sequences // n, dim=0)
        raise ValueError(
            f"gates: got gates of {n} examples for {sequences} sequences; expected {sequences}, or gates "
            f"({self.layers}, {self.heads}) for all, for example where beams repeat examples"
        )


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of gates ([batch, [tokens,]] layers, heads)."""
    few, many = sorted((one, other), key=torch.Tensor.dim)
    return many * (few[:, None] if (few.dim(), many.dim()) == (3, MOST) else few)
