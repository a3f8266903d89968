"""What a masked language model does with the states of its encoder, for the tokens of some answers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


class MaskedHead(nn.Module):
    """The language-model head of a masked model: states (batch, hidden) to logits (batch, tokens).

    The transform before the output embedding differs between architectures, so the model's own code runs,
    with an encoder that returns these states.

    Parameters
    ----------
    config : of the model
    n : number of tokens
    """

    def __init__(self, config: PreTrainedConfig, n: int) -> None:
        super().__init__()
        from transformers import AutoModelForMaskedLM  # slow to import

        with torch.device("meta"):
            self.model: Any = AutoModelForMaskedLM.from_config(config, dtype=torch.float32)
        setattr(self.model, self.model.base_model_prefix, _States())
        output = self.model.get_output_embeddings()
        self.model.set_output_embeddings(nn.Linear(output.in_features, n))
        for module in self.model.modules():  # some have the bias of the output embedding a second time
            bias = getattr(module, "bias", None)
            if (
                bias is not None
                and module is not self.tokens
                and any(bias is each for each in (output.bias, self.tokens.bias))
            ):
                module.register_parameter("bias", None)
        self.to_empty(device="cpu")

    @classmethod
    def of(cls, model: PreTrainedModel, tokens: Sequence[int]) -> MaskedHead:
        """The head of a masked language model, restricted to `tokens`."""
        head = cls(model.config, len(tokens))
        output, state = model.get_output_embeddings(), model.state_dict()
        assert isinstance(output, nn.Linear)
        with torch.no_grad():
            for name, parameter in head.model.named_parameters():
                if not any(parameter is own for own in head.tokens.parameters()):
                    parameter.copy_(state[name])
            head.tokens.weight.copy_(output.weight[list(tokens)])
            head.tokens.bias.copy_(output.bias[list(tokens)] if output.bias is not None else 0)
        return head

    @property
    def tokens(self) -> nn.Linear:
        """The rows of the output embedding."""
        found = self.model.get_output_embeddings()
        assert isinstance(found, nn.Linear)
        return found

    @property
    def bias(self) -> nn.Parameter:
        """Of the logits, (tokens,)."""
        return self.tokens.bias

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        self.model.base_model.states = states[:, None].float()
        unread = torch.zeros(len(states), 1, dtype=torch.long, device=states.device)
        with torch.autocast(states.device.type, enabled=False):  # as `AnswerRows`
            return self.model(input_ids=unread, attention_mask=unread + 1).logits[:, 0]


class _States(nn.Module):
    """An encoder that returns the states that it is given."""

    states: torch.Tensor

    def forward(self, *_: Any, **__: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=self.states)
