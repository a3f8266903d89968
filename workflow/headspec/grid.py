"""How many heads a model has by its config, and whether the config's parts of them are any."""

from __future__ import annotations

from headspec.architectures import cached, folder, settings
from headspec.errors import EncoderError, HeadspecError
from headspec.maps import prune_count
from headspec.sections import Model
from headspec.study import Study

#: what configs call the numbers of layers and of heads
LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")


def size(model: Model, key: str) -> tuple[int, int] | None:
    """Layers and heads in each; None where only loading the model would tell (GGUF, not fetched)."""
    path = cached(model) if model.source.startswith("hub:") else folder(model, key)
    own = settings(path, key, model.source) if path else {}
    layers, heads = (next((own[name] for name in names if name in own), None) for names in (LAYERS, HEADS))
    return (layers, heads) if layers and heads else None


def check(study: Study) -> None:
    """Refuse, with one EncoderError for all of them, parts of a model's heads that are less than one head."""
    parts = {"pruning.fraction": study.pruning.fraction}
    if study.iat.mixtures:
        parts |= {"iat.alpha": study.iat.alpha}
        parts |= {f"iat.alphas.{i}": part for i, part in enumerate(study.iat.alphas)}
    problems = []
    for name, model in study.models.items():
        try:
            known = size(model, f"models.{name}")
        except HeadspecError:  # `architectures.check` says what is wrong with the model
            continue
        if known is None:
            continue
        layers, heads = known
        problems += [
            f"{key}: got {part:g}, less than one of the {layers} x {heads} heads of models.{name}; "
            f"expected at least {1 / (layers * heads):.3g}"
            for key, part in parts.items()
            if prune_count(part, layers * heads) == 0
        ]
    if problems:
        raise EncoderError("\n".join(problems))
