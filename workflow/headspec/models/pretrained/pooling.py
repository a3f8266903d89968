"""The pooling of a model, from the config or the model's files; imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headspec.errors import ModelError, listing
from headspec.models.architectures import CONTINUES, WRITES, family
from headspec.models.pretrained.config_json import settings
from headspec.models.pretrained.folders import tensors
from headspec.models.pretrained.model_files import MODULES, TOKENIZER, pooling_file, read

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

#: settings that name a mode, or have a switch for each; the default is the mean
NAMED, SWITCHES = "pooling_mode", {"pooling_mode_mean_tokens": True}
#: the pooling of each mode
MODES = {"cls": "cls", "mean": "mean", "lasttoken": "last"}


class Pooled(NamedTuple):
    """A pooling, and the reason for it."""

    pooling: str
    reason: str


TRANSLATOR = Pooled("mean", "an encoder-decoder")


def chosen_pooling(path: Path | None, model: Model, key: str) -> Pooled:
    """Return the pooling of a model, and the reason; `path` is None for a model that the config describes.

    ``auto`` follows the files of sentence-transformers (ModelError if invalid), else the convention of the
    model's type.
    """
    if model.pooling != "auto":
        return Pooled(model.pooling, f"{key}.pooling")
    if path is None:
        return TRANSLATOR
    try:
        if said := pooling_file(path):
            return Pooled(_mode(path, said), said)
    except ModelError as error:
        raise ModelError(
            f"{key}.pooling: got auto, but in '{model.source}' {error}; write what to use instead: first, "
            "cls, mean or last"
        ) from None
    convention = _convention(path, family(settings(path, key, model.source)))
    place = "the cache" if model.source.startswith("hub:") else "its folder"
    lacks = "" if path.is_file() or (path / MODULES).exists() else f"; no {MODULES} in {place}"
    return Pooled(convention.pooling, f"{convention.reason}{lacks}")


def _convention(path: Path, family: str) -> Pooled:
    """Return the pooling of models of a family; for an encoder, the one of its pretraining."""
    if family == CONTINUES:
        return Pooled("last", "it continues texts")
    if family == WRITES:
        return TRANSLATOR
    if path.is_file() or any(".pooler." in f".{name}" for name in tensors(path)):
        return Pooled("first", "its weights have a pooler")
    if (path / TOKENIZER).exists() and not read(path, TOKENIZER, dict).get("cls_token"):
        return Pooled("mean", "its tokenizer has no class token")
    return Pooled("first", "its tokenizer puts a class token first")


def _mode(path: Path, name: str) -> str:
    """Return the pooling in the settings of a module; ModelError if they do not name one of `MODES`."""
    config = read(path, name, dict)
    switches = (name for name, on in (SWITCHES | config).items() if on and name.startswith(f"{NAMED}_"))
    named = config.get(NAMED) or [name.removeprefix(f"{NAMED}_") for name in switches]
    if isinstance(named, str):
        named = named.split("+")
    modes = list(named) if isinstance(named, Iterable) else [named]
    modes = [str(mode).removesuffix("_tokens").removesuffix("_token") for mode in modes]
    if len(modes) != 1 or modes[0] not in MODES:
        raise ModelError(f"{name} has {listing(modes)}, expected one of {listing(MODES)}")
    return MODES[modes[0]]
