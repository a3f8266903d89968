"""Saving and loading of models without some heads, in folders laid out as on the hub."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers import AutoConfig, PreTrainedModel

from headspec.errors import ModelError
from headspec.models.attention.parallel import require_whole
from headspec.models.attention.plain_weights import not_finite
from headspec.models.attention.probe_inputs import check_model
from headspec.models.attention.projections import is_plain
from headspec.models.export import card, structure
from headspec.models.export.dequantised import packed, without_quantizer
from headspec.models.export.slicing import remove_heads
from headspec.progress import log

#: config entry of transformers 4 after `prune_heads`: heads by layer
PRUNED = "pruned_heads"
#: arguments that say where files are
WHERE = ("revision", "subfolder", "cache_dir", "token", "local_files_only")

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase, ProcessorMixin


def save(
    model: PreTrainedModel,
    folder: str | Path,
    tokenizer: PreTrainedTokenizerBase | ProcessorMixin | None = None,
    *,
    score: str | None = None,
    curve: pd.DataFrame | None = None,
) -> None:
    """Write a model, whole or without some heads, as model.safetensors and config.json, and its card.

    `headspec.load` loads it; where the config's own head counts describe it, ``from_pretrained`` of
    transformers does, too, else a warning is logged. The card, README.md, says which heads are left out and
    what loads the model; one that headspec has not written, or that was edited, is kept. A model from
    quantised files, such as GGUF, is saved as floats if its weights have been dequantised, else as
    transformers saves it.

    Parameters
    ----------
    model : any model of transformers, such as from `headspec.remove_heads`
    folder : made if needed; may be uploaded to the hub as it is
    tokenizer : tokenizer or processor to write next to it
    score : for the card, the score by which heads were chosen, as in `headspec.head_importance`
    curve : for the card, from `headspec.head_curve`: the whole model with heads closed

    Raises
    ------
    ModelError
        Its weights are not those that its config describes, are divided over processes, or are quantised in a
        form that is not saved; or it has adapters, or had them when heads were removed.
    TypeError
        `model` is not a model of transformers.

    Examples
    --------
    >>> headspec.save(small, "small", tokenizer, score="gradient", curve=curve)
    >>> small = headspec.load("small")
    """
    check_model(model)
    try:
        require_whole(model)
    except ModelError as error:
        raise ModelError(f"this {model.config.model_type} cannot be saved: {error}") from None
    _check_merged(model)
    with torch.device("meta"):
        again = _class(type(model), model.config)(copy.deepcopy(model.config))
    described, found = _described(again), _described(model)
    quantised = re.compile("|".join(rf"{re.escape(name)}(\.|$)" for name in packed(model)) or "$")
    for name in sorted(described.keys() | found.keys()):
        if quantised.match(name):
            continue
        got, expected = (each.get(name, "missing") for each in (found, described))
        if got != expected:
            model_type = model.config.model_type
            raise ModelError(
                f"this {model_type} does not match its config: '{name}' is {got}, expected {expected}"
            )
    whole = without_quantizer(model) if all(map(is_plain, model.parameters())) else model
    quantizer: Any = getattr(whole, "hf_quantizer", None)
    if quantizer is not None and not quantizer.is_serializable():
        method = getattr(quantizer.quantization_config.quant_method, "value", "a method")
        raise ModelError(
            f"this {model.config.model_type} is quantised by {method}, which transformers does not save; "
            "remove_heads(model, {}) returns a floating-point model"
        )
    whole.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    card.write(model, Path(folder), score, curve)
    if structure.of(model.config).get("modules"):
        log.warning(
            "%s: headspec.load reads it, from_pretrained of transformers does not, because the config has no "
            "numbers for the heads that are left", folder,
        )  # fmt: skip


def _check_merged(model: PreTrainedModel) -> None:
    """Raise ModelError if the model has adapters of peft, or had them when heads were removed."""
    modules = dict(model.named_modules())
    adapted = any(type(module).__module__.partition(".")[0] == "peft" for module in modules.values())
    found = structure.of(model.config)
    if adapted or (found and structure.renamed(found, model)["modules"].keys() - modules.keys()):
        had = "has adapters" if adapted else "had adapters when heads were removed"
        raise ModelError(
            f"this {model.config.model_type} {had}, which a saved model cannot contain; merge them before "
            "heads are removed: remove_heads(model.merge_and_unload(), heads)"
        )


def _described(model: PreTrainedModel) -> dict[str, Any]:
    """Return the class of each module and the shape of each parameter, by name."""
    kinds = {name: type(module).__name__ for name, module in model.named_modules() if name}
    return kinds | {name: tuple(p.shape) for name, p in model.named_parameters(remove_duplicate=False)}


def load(folder: str | Path, **kwargs: Any) -> PreTrainedModel:
    """Load a model saved by `headspec.save`, or by ``save_pretrained`` after `headspec.remove_heads`.

    Heads are removed before the weights, which must be safetensors, are read. Models that transformers 4
    saved after its `prune_heads` can be loaded, too.

    Parameters
    ----------
    folder : path, or name on the hub
    kwargs : of ``from_pretrained``, such as `dtype` and `device_map`

    Raises
    ------
    ModelError
        The config names no class of transformers, or weights are not finite.

    Examples
    --------
    >>> small = headspec.load("small")
    """
    config = AutoConfig.from_pretrained(folder, **{name: kwargs[name] for name in WHERE if name in kwargs})
    name = (config.architectures or ["none"])[0]
    model_class = getattr(transformers, name, None)
    if not (isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)):
        raise ModelError(
            f"{folder}: architectures in its config is '{name}', expected a model of transformers"
        )
    if heads := getattr(config, PRUNED, None):
        like = remove_heads(model_class(config), {int(layer): own for layer, own in heads.items()})
        setattr(config, structure.KEY, structure.of(like.config))
        delattr(config, PRUNED)
    model = _class(model_class, config).from_pretrained(folder, config=config, use_safetensors=True, **kwargs)
    model.__class__ = model_class
    if problem := not_finite(model):
        raise ModelError(f"{folder}: {problem}")
    return model


def _class(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return a class whose models have only the heads in their config, even before weights are loaded."""
    found = structure.of(config)
    if not found:
        return model_class

    def init(self: Any, config: PreTrainedConfig, *args: Any, **kwargs: Any) -> None:
        model_class.__init__(self, config, *args, **kwargs)
        own = structure.renamed(found, self)
        structure.apply(self, own["modules"])
        emptied = [name for name, change in own["modules"].items() if change.keys() & {"constant", "zeros"}]
        self._keys_to_ignore_on_load_missing = {  # which files of headspec 1.0 lack
            *(self._keys_to_ignore_on_load_missing or ()),
            *(rf"^{re.escape(name)}\.weight$" for name in emptied),
        }
        structure.tie(self, own["tied"])
        setattr(self.config, structure.KEY, own)

    return type(
        model_class.__name__, (model_class,), {"__init__": init, "__module__": model_class.__module__}
    )
