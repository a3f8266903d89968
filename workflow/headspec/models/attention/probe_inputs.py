"""Arguments of a small forward pass, inferred from a model's config."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.errors import ModelError, listing
from headspec.models.attention.calls import Call, calls_of
from headspec.models.attention.parallel import processes
from headspec.models.attention.placement import device_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: targets are shorter than sources, which distinguishes attention to the source
TEXTS, TOKENS, TARGETS = 2, 4, 3
SAMPLES = 4000  # of a waveform; a few frames remain
GIVE = "expected `inputs`, the arguments of a small forward pass"


class UnusualInputs(ModelError):
    """A model whose inputs cannot be inferred from its config."""


def probed(model: PreTrainedModel) -> tuple[dict[str, Any], list[Call], Any]:
    """Return inputs that a model takes, and the calls and the output of their pass, as `calls_of` does.

    Inputs are token ids, pixels, mel features or a waveform, and the targets of a decoder. Raises
    UnusualInputs if the model does not take such inputs alone.
    """
    usual, refused = _inputs(model), None
    for inputs in (usual, *_other_forms(model, usual)):
        try:
            return inputs, *calls_of(model, inputs)
        except Exception as error:  # the model's code may raise anything
            refused = refused or error
    reason = str(refused).strip().split("\n")[0]
    even = f", or numbers of heads, also of keys, that {n} divides" if (n := processes(model)) > 1 else ""
    raise UnusualInputs(f"it does not take {listing(usual)} alone ({reason}); {GIVE}{even}") from refused


def probe_names(model: PreTrainedModel) -> set[str]:
    """Return the names of all inputs that `probed` may return; UnusualInputs if there are none."""
    return {*_inputs(model)}


def _inputs(model: PreTrainedModel) -> dict[str, Any]:
    device, config = device_of(model), model.config
    words = getattr(config.get_text_config(), "vocab_size", TEXTS * TOKENS)  # CANINE reads any character
    ids = torch.arange(TEXTS * TOKENS, device=device).view(TEXTS, TOKENS) % words
    main = model.main_input_name
    if main == "input_ids":
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    else:
        generator = torch.Generator().manual_seed(0)
        values = torch.randn(_shape(model, main), generator=generator)
        inputs = {main: values.to(device, model.dtype)}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :TARGETS]
    if "use_cache" in inspect.signature(model.forward).parameters:
        inputs["use_cache"] = False
    return inputs


def _other_forms(model: PreTrainedModel, usual: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield other forms of token ids for classifiers: with one end each, a single text, and choices."""
    ids, end = usual.get("input_ids"), getattr(model.config.get_text_config(), "eos_token_id", None)
    if ids is None:
        return
    alone = {name: value for name, value in usual.items() if name != "decoder_input_ids"}
    if isinstance(end, int):
        ended = torch.where(ids == end, TEXTS * TOKENS, ids)
        ended[:, -1] = end
        yield alone | {"input_ids": ended}
    yield {name: value[:1] if isinstance(value, torch.Tensor) else value for name, value in usual.items()}
    yield {
        name: value.view(TEXTS, 2, -1) if isinstance(value, torch.Tensor) else value
        for name, value in alone.items()
    }


def _shape(model: PreTrainedModel, name: str) -> tuple[int, ...]:
    config = model.config
    if name == "pixel_values" and (side := getattr(config, "image_size", None)):
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        return TEXTS, getattr(config, "num_channels", 3), height, width
    if name == "input_features" and (bins := getattr(config, "num_mel_bins", None)):
        return TEXTS, bins, 2 * getattr(config, "max_source_positions", TOKENS)
    if name == "input_values":
        return TEXTS, SAMPLES
    raise UnusualInputs(f"its main input is {name}; {GIVE}")


def check_model(model: Any) -> None:
    """Raise TypeError if `model` is not of transformers, ModelError if it was made in inference mode."""
    if not hasattr(getattr(model, "config", None), "get_text_config"):
        parts = model.named_children() if isinstance(model, nn.Module) else ()
        inside = next((name for name, part in parts if hasattr(part, "main_input_name")), None)
        hint = f", such as its .{inside}" if inside else ""
        raise TypeError(f"model: got {type(model).__name__}, expected a model of transformers{hint}")
    if any(tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        raise ModelError(
            "model: made inside torch.inference_mode, where nothing has derivatives; load it outside of it"
        )


def on(device: torch.device, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a model with their tensors on a device; copy inference-mode tensors."""

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return (value.clone() if value.is_inference() else value).to(device)

    return {name: moved(value) for name, value in inputs.items()}


def sequences(inputs: Mapping[str, Any]) -> int:
    """Return the number of sequences that a model reads per example: several for multiple choice."""
    ids = inputs.get("input_ids")
    return ids.shape[1] if isinstance(ids, torch.Tensor) and ids.dim() == 3 else 1
