"""Number of heads according to a model's config, and numbers and fractions of them that cannot be pruned."""

from __future__ import annotations

from headspec.config.sections.model import Model
from headspec.config.study import Study
from headspec.errors import EncoderError, HeadspecError
from headspec.heads.ranking import prune_count
from headspec.models.pretrained.config_json import stacks
from headspec.models.pretrained.described import content

#: names of the number of layers and of the number of heads in model configs
LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")


def size(model: Model, key: str) -> tuple[int, int] | None:
    """Layers, and heads per layer; None where only loading the model would tell (not fetched).

    The layers of an encoder-decoder are those of all its kinds of attention.
    """
    config = content(model, key) or {}
    if grid := stacks(config):
        return sum(grid[0].values()), grid[1]
    layers, heads = (
        next((config[name] for name in names if name in config), None) for names in (LAYERS, HEADS)
    )
    return (layers, heads) if layers and heads else None


def check(study: Study) -> None:
    """Raise one EncoderError that lists every setting that prunes none of a model's heads, all, or more."""
    fractions = {"pruning.fraction": study.pruning.fraction}
    if study.iat.mixtures:
        fractions |= {"iat.alpha": study.iat.alpha}
        fractions |= {f"iat.alphas.{i}": alpha for i, alpha in enumerate(study.iat.alphas)}
    problems = []
    for name, model in study.models.items():
        try:
            shape = size(model, f"models.{name}")
        except HeadspecError:  # reported by `checks.check`
            continue
        if shape is None:
            continue
        layers, heads = shape
        problems += [
            f"{key}: got {fraction:g}, less than one of the {layers} x {heads} heads of models.{name}; "
            f"expected at least {1 / (layers * heads):.3g}"
            for key, fraction in fractions.items()
            if prune_count(fraction, layers * heads) == 0
        ]
        problems += [
            f"pruning.heads.{i}: got {number}, more than the {layers} x {heads} heads of models.{name}"
            for i, number in enumerate(study.pruning.heads)
            if number > layers * heads
        ]
        problems += [
            f"gates.kept.{i}: got {fraction:g}, all of the {layers} x {heads} heads of models.{name}; "
            f"expected at most {1 - 1 / (layers * heads):.3g}"
            for i, fraction in enumerate(study.gates.kept)
            if prune_count(1 - fraction, layers * heads) == 0
        ]
    if problems:
        raise EncoderError("\n".join(problems))
