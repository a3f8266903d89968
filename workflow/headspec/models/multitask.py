"""The multi-task model: one encoder, and a head for each task (`headspec.tasks.heads`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from headspec.models import saved
from headspec.models.architectures import remembers
from headspec.models.batching import Batch
from headspec.models.devices import Device
from headspec.models.encoders import classifier_dropout
from headspec.models.gates import HeadGates
from headspec.models.tokens.continuations import attention
from headspec.tasks import heads
from headspec.tasks.classes import Classes
from headspec.tasks.heads import Head, Predicted, Targets

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from headspec.models.language.head import LanguageHead


class MultiTask(nn.Module):
    """A pretrained encoder shared by tasks, with gates on its attention heads.

    Parameters
    ----------
    encoder : the pretrained encoder
    pooling : {"first", "cls", "mean", "last", "mask"}
        The vector of a text: its first token (through the pretrained pooler, if there is one, or as it is),
        the mean over its tokens, its last token, or that of its mask, which the batch has as its only word.
    classes : dict of task: `Classes`
    head : of the language model that is prompted with tasks; classifiers are restricted to tokens of answers
    tokenizer : of a model that writes texts

    Attributes
    ----------
    hidden : size of the states of tokens
    remembers : whether tokens see earlier ones alone, and can go on from the keys and values of these
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        pooling: str,
        classes: Mapping[str, Classes],
        head: LanguageHead | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.head, self.tokenizer = encoder, pooling, head, tokenizer
        self.gates = HeadGates(encoder)
        self.hidden: int = encoder.config.get_text_config().hidden_size
        self.remembers = remembers(encoder.config.to_dict())
        self.dropout = nn.Dropout(classifier_dropout(encoder.config))
        self.new_classifiers(classes)

    def new_classifiers(self, classes: Mapping[str, Classes]) -> None:
        """Replace the heads by untrained ones for these tasks."""
        self.classes = classes
        built = (heads.head_class(of_task).build(self, of_task) for of_task in classes.values())
        self.classifiers = nn.ModuleList(built)  # because names of tasks can be invalid as names of modules

    @property
    def heads(self) -> list[Head]:
        """The heads of the tasks, in order."""
        return cast("list[Head]", [*self.classifiers])

    def set_beams(self, beams: Mapping[str, int]) -> None:
        """Follow several texts at once while those of a task are written."""
        for task, followed in beams.items():
            self.classifier(task).beams = followed

    def classifier(self, task: str) -> Head:
        """The head of a task."""
        return self.heads[list(self.classes).index(task)]

    @cached_property
    def shares_prefix(self) -> bool:
        """Whether what texts begin with can be read once for all of them."""
        if not self.remembers:
            return False
        # loads transformers' models, which few jobs need here
        from headspec.models.language import shared_prefix

        return shared_prefix.possible(self.encoder)

    def attend_for_gradients(self, device: Device) -> None:
        """Use unfused attention on a CPU, where the backward pass of fused attention is slower."""
        if device.name == "cpu" and self.encoder.config._attn_implementation == "sdpa":
            self.encoder.set_attn_implementation("eager")

    def pool(self, batch: Batch) -> torch.Tensor:
        """What heads take, of a padded batch: vectors of texts, states of words or tokens, ...,
        (batch, ..., hidden)."""
        return batch.kind.pool(self, batch)

    def read(self, batch: Batch) -> None:
        """Run every layer on a batch; the decoder of an encoder-decoder reads the target texts."""
        batch.kind.read(self, batch)

    def attending(self, batch: Batch) -> list[torch.Tensor]:
        """For each layer, the mask of the tokens that attend in `read`, (batch, tokens)."""
        by_kind = batch.kind.attending(self, batch)
        return [by_kind[self.gates.kind(layer)][1] for layer in range(self.gates.layers)]

    def evidence(self, task: str, pooled: torch.Tensor, labels: Targets) -> torch.Tensor:
        """What each example's prediction follows from, a logit, or the sum or mean of some, (batch,)."""
        return self.classifier(task).evidence(self, pooled, labels)

    def logits(self, task: str, pooled: torch.Tensor, labels: Targets | None = None) -> torch.Tensor:
        """Logits of whole examples, (batch, classes); of continuations in `labels`, log-likelihoods."""
        return self.classifier(task).logits(self, pooled, labels)

    def losses(self, task: str, pooled: torch.Tensor, labels: Targets) -> torch.Tensor:
        """The loss of each example, (batch,)."""
        return self.classifier(task).losses(self, pooled, labels)

    def predict(self, task: str, pooled: torch.Tensor, labels: Targets | None = None) -> Predicted:
        """What the head of a task predicts; `labels` where predictions are made of or compared with them."""
        return self.classifier(task).predict(self, pooled, labels)

    def predictions(self, task: str, pooled: torch.Tensor, labels: Targets | None = None) -> torch.Tensor:
        """The values of `predict`, (batch,) or (batch, b)."""
        return self.predict(task, pooled, labels).values

    def output(self, batch: Batch) -> Any:
        """The encoder's output; of an encoder-decoder that of its encoder."""
        inputs: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids
        if batch.branches is not None:
            inputs |= attention(batch.branches, self.encoder.dtype)
        if batch.prefix:
            from headspec.models.language import shared_prefix

            return shared_prefix.output(self.encoder, batch.prefix, inputs)
        if self.remembers:
            inputs["use_cache"] = False  # it would keep keys and values of all layers, for no one
        writes = self.encoder.config.is_encoder_decoder
        return (self.encoder.get_encoder() if writes else self.encoder)(**inputs)

    def vectors(self, batch: Batch) -> torch.Tensor:
        """Text vectors, (batch, hidden)."""
        output = self.output(batch)
        states = output.last_hidden_state  # (batch, tokens, hidden)
        if self.pooling == "mask":
            assert batch.words is not None
            return (batch.words.to(states.dtype) @ states)[:, 0]
        if self.pooling == "mean":
            weight = batch.attention_mask[..., None].to(states.dtype)
            return (states * weight).sum(1) / weight.sum(1)
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "last":
            rows = torch.arange(states.shape[0], device=states.device)
            return states[rows, batch.attention_mask.sum(1) - 1]
        pooled = getattr(output, "pooler_output", None)
        return states[:, 0] if pooled is None else pooled

    def save(self, folder: str | Path, origin: dict[str, str] | None = None) -> None:
        """Write the model as `headspec.models.saved.write` does.

        Parameters
        ----------
        origin : of an encoder that is as it was loaded but for adapters (`encoders.origin`)
        """
        described = {
            "pooling": self.pooling, "classes": self.classes, "language_model": self.head is not None,
        }  # fmt: skip
        saved.write(Path(folder), self.encoder, self.classifiers, described, self.tokenizer, origin)

    @classmethod
    def load(cls, folder: str | Path) -> MultiTask:
        """Load a model written by `save`; raises as `headspec.models.saved.read`."""
        parts = saved.read(Path(folder))
        model = cls(parts.encoder, parts.pooling, parts.classes, parts.head, parts.tokenizer)
        model.classifiers.load_state_dict(parts.classifiers)
        return model.eval()
