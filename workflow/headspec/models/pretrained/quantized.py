"""Models whose linear layers are quantised while they are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headspec.config.quantizations import QUANTIZATIONS
from headspec.errors import MissingError, ModelError

if TYPE_CHECKING:
    import torch
    from torch import nn


def check(name: str, config: dict[str, Any] | None, key: str, source: str) -> None:
    """Raise an error that names `key` if a model cannot be quantised as `name` says.

    `config` is its config.json, or None if it is not here. MissingError without the package, ModelError for a
    GGUF file or a model that is quantised already.
    """
    package = QUANTIZATIONS[name].package
    if not find_spec(package):
        raise MissingError(
            f"{key}.quantization: got '{name}', which needs the package {package} to be installed "
            "(pip install 'headspec[quantization]')"
        )
    got = f"{key}.quantization: got '{name}', expected null, because '{source}'"
    if source.endswith(".gguf"):
        raise ModelError(f"{got} is a GGUF file")
    if (config or {}).get("quantization_config"):
        raise ModelError(f"{got} is quantised already (quantization_config in config.json)")


def config(name: str, dtype: torch.dtype, skipped: Sequence[str] = ()) -> Any:
    """Return the config with which transformers quantises a model that computes in `dtype`.

    Modules whose names begin with those `skipped` stay as they are.
    """
    kind = QUANTIZATIONS[name]
    if kind.package == "torchao":
        from transformers import TorchAoConfig

        made = getattr(import_module("torchao.quantization"), kind.settings["quant_type"])()
        return TorchAoConfig(made, modules_to_not_convert=[*skipped])
    from transformers import BitsAndBytesConfig

    more = {"bnb_4bit_compute_dtype": dtype, "llm_int8_skip_modules": [*skipped]}
    return BitsAndBytesConfig(**kind.settings, **more)


def outside_encoder(model: nn.Module) -> list[str]:
    """Return the names of a language model's modules besides its encoder; none for an encoder."""
    encoder: Any = model.base_model
    return [name for name, module in model.named_children() if encoder not in (model, module)]


def keep_derivatives(model: nn.Module) -> bool:
    """Keep packed layers in training mode, in which all have a derivative; return whether there are any.

    They have no dropout, and 4 bits of bitsandbytes on a CPU have a derivative only there.
    """
    from headspec.models.attention.projections import is_packed

    packed = [module for module in model.modules() if is_packed(module)]
    for module in packed:
        module.training = True
        module.train = _stay.__get__(module)  # type: ignore[method-assign]
    return bool(packed)


def _stay(module: nn.Module, mode: bool = True) -> nn.Module:
    return module
