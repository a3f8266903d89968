"""Head gates: xi_h in `head_h(x) -> xi_h * head_h(x)` (Michel et al. 2019; Li et al. 2023).

A gate multiplies the head's context vector before W_O, whose output mixes heads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from headspec import head_arrays
from headspec.errors import ModelError
from headspec.models.attention import gate_checks
from headspec.models.attention.calls import calls_of
from headspec.models.attention.gating import MOST, Block, Edit, Gating, Receiver
from headspec.models.attention.interface import evaluating
from headspec.models.attention.past import fresh
from headspec.models.attention.placement import device_of
from headspec.models.attention.probe_inputs import check_model, on, probed, sequences
from headspec.models.attention.sites import LAYER, Site, find

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class HeadGates(Gating):
    """Gates on every attention head of an unmodified model.

    Weights and code of the model stay the same. Each row of heads is a layer; the rows of an encoder-decoder
    are the layers of one kind of attention after another (`headspec.head_arrays`). A module that several
    layers share (ALBERT) has separate gates for each layer.

    Parameters
    ----------
    model : any model of transformers
    inputs : arguments of a small forward pass, in which heads are found and checked; by default two short
        sequences, inferred from the model's config. Targets of an encoder-decoder must differ in length from
        sources, to distinguish cross-attention from self-attention.

    Attributes
    ----------
    values : None, or tensor of shape ([batch, [tokens,]] layers, heads)
        The gates, 1 open and 0 closed; None for no gates. A layer with fewer tokens uses the gates of
        the first tokens. They act until set to None, or within a block of `at`.
    layers, heads : number of rows up to that of the last attention, and largest number of heads in a row
    exists : bool (layers, heads), False past a row's heads and in layers without attention (hybrid models) or
        whose heads were all removed
    sites : the modules whose heads are gated
    first_rows : kind of attention: its first row
    sequences : number of sequences per example in `inputs`, such as choices; they share the example's gates
    folded : rows whose batch dimension also holds `FOLDED`; they take gates (layers, heads), or those of a
        single example
    attending : whether attention is being computed right now, inside a block

    Raises
    ------
    ModelError
        Heads are not found, gates do not act on them, `inputs` cannot be inferred, or the model was made
        inside torch.inference_mode.
    TypeError
        `model` is not a model of transformers.
    """

    @torch.inference_mode(False)
    def __init__(self, model: PreTrainedModel, inputs: Mapping[str, Any] | None = None) -> None:
        check_model(model)
        super().__init__(model)
        try:
            with evaluating(model):
                if inputs is None:
                    self._inputs, calls, output = probed(model)
                else:
                    self._inputs = on(device_of(model), inputs)
                    calls, output = calls_of(model, self.inputs)
                self.sequences = sequences(self.inputs)
                self.sites, self.first_rows, self.layers = find(model, self.inputs, calls)
                self.heads = max(site.heads for site in self.sites)
                self.folded = {row for site in self.sites if site.folded for row in site.rows}
                self.exists = np.zeros((self.layers, self.heads), dtype=bool)
                for site in self.sites:
                    self.exists[site.rows, : site.heads] = True
                gate_checks.check(self, output)
        except ModelError as error:
            message = f"the heads of this {model.config.model_type} cannot be gated: {error}"
            raise type(error)(message) from None

    @property
    def inputs(self) -> dict[str, Any]:
        """Arguments of the pass in which heads were found."""
        return fresh(self._inputs)

    @property
    def rows(self) -> pd.DataFrame:
        """A table of the rows of heads: row, module, tower, kind (of attention) and heads (their number).

        Towers are parts of a model such as 'vision_model' and 'text_model', or an encoder and a decoder;
        the tower is empty if there is only one. Rows without heads are left out.
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
        """Return the site of a row that has heads."""
        return next(site for site in self.sites if layer in site.rows)

    @contextmanager
    def at(self, values: torch.Tensor | np.ndarray | Sequence[Any]) -> Iterator[HeadGates]:
        """Run passes with these gates; restore the model afterwards.

        `values` are ([batch, [tokens,]] layers, heads), 1 open and 0 closed; a tensor receives gradients.
        Raises ValueError for another shape, and in passes with another number of examples or more tokens;
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
        with self.acting(Block(has_values=True, values=self._moved(values))):
            yield self

    def closed(self, heads: Any) -> AbstractContextManager[HeadGates]:
        """Run passes without these heads and those that enclosing blocks close; restore the model afterwards.

        `heads` is bool ([batch, [tokens,]] layers, heads), True to close, ``{layer: [heads]}``, or pairs
        (layer, head). Raises ValueError for anything else, and the errors of `at`.

        Examples
        --------
        >>> with headspec.HeadGates(model).closed(headspec.top_heads(scores, 0.1)):
        ...     evaluate(model)
        """
        mask = head_arrays.mask(heads, self.exists, "closed heads", MOST)
        return self._closed(torch.from_numpy(~mask).float())

    @contextmanager
    def _closed(self, values: torch.Tensor) -> Iterator[HeadGates]:
        with self.acting(Block(closed=self._moved(values))):
            yield self

    def _moved(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(device_of(self.model))

    def edited(self, edit: Edit) -> AbstractContextManager[None]:
        """Run passes in which `edit` sees, and may replace, context vectors after the gates."""
        return self.opened(Block(edit=edit))

    def watched(self) -> AbstractContextManager[None]:
        """Run passes in which `attending` tells whether attention is being computed."""
        return self.opened(Block())

    def received(self, receive: Receiver) -> AbstractContextManager[None]:
        """Run passes that give `receive` the attention weights of sites at the attention interface."""
        return self.opened(Block(receive=receive))

    def resumed(self, layer: int, context: torch.Tensor) -> AbstractContextManager[None]:
        """Run passes whose first row is `layer`, with `context` in place of its attention."""
        return self.opened(Block(first=layer, given={layer: context}))

    @contextmanager
    def recorded(self) -> Iterator[dict[int, torch.Tensor]]:
        """Run passes; yield the context vectors of the first call of each row, after the gates.

        Passes fill the mapping, row: (batch, tokens, heads, size).
        """
        found: dict[int, torch.Tensor] = {}

        def keep(row: int, context: torch.Tensor) -> torch.Tensor:
            found.setdefault(row, context)
            return context

        with self.edited(keep):
            yield found
