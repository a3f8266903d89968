"""The list of variants of training after the branch.

Stages and figures do not import it: rules pass the entries that a job uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headspec.config.runs import REWARMED, Variant
from headspec.registry import Registry
from headspec.text_values import named

if TYPE_CHECKING:
    from headspec.config.sections.iat import IAT

#: the variant that is IAT itself
IAT_ITSELF = "top"
#: allowed values of `iat.rate`
RATES = ("continued", REWARMED)


@dataclass(frozen=True)
class Retraining:
    """A variant of training after the branch."""

    label: str  #: its name in figures, with the words of its name in the config
    heads: str = "top"  #: the heads that a task owns, a choice of `headspec.training.iat`
    module: str = "own"  #: the module of `headspec.training.variants` that treats the other heads
    dropout: bool = True
    #: the atlas measure that ranks a task's heads, in its single-task run; None: importance at the branch
    ranking: str | None = None
    uses_alpha: bool = True  #: whether tasks own a fraction alpha of heads


#: in the order of panels and rows; the position of a variant determines its style, so append new ones
RETRAININGS = Registry[Retraining](
    "variant of training",
    {
        IAT_ITSELF: Retraining("IAT"),
        "random": Retraining("random heads", heads="random"),
        "random-by-layer": Retraining("random by layer", heads="random-by-layer"),
        "bottom": Retraining("bottom heads", heads="bottom"),
        "other": Retraining("another task's heads", heads="other"),
        "lora": Retraining("LoRA", module="lora"),
        "unshared": Retraining("IAT, unshared heads", heads="unshared"),
        "rescored": Retraining("IAT, rescored", module="rescored"),
        "dropout-off": Retraining("IAT, dropout off", dropout=False),
        "leaking": Retraining("IAT, leaking", module="leaking"),
        "as-released": Retraining("IAT as released", module="leaking", dropout=False),
        "no-dropout": Retraining("MTL, no dropout", heads="all", dropout=False, uses_alpha=False),
        REWARMED: Retraining("MTL, rewarmed", heads="all", uses_alpha=False),
        "even": Retraining("even shares of heads", heads="even", uses_alpha=False),
        "alps": Retraining("ALPS's heads", ranking="alps"),
    },
)
#: names allowed in `iat.controls`
CONTROLS = tuple(name for name in RETRAININGS if name not in (IAT_ITSELF, REWARMED))
#: variants whose encoders can be transferred besides IAT
TRANSFERRED = (*CONTROLS, REWARMED)


def method(name: str) -> str:
    """Return the name of the method for a retraining with the study's alpha and delta."""
    if name == IAT_ITSELF:
        return "iat"
    return f"iat-{name}" if RETRAININGS[name].uses_alpha and RETRAININGS[name].module != "lora" else name


def encoders() -> list[str]:
    """Return the names allowed in `transfer.methods`."""
    return ["pretrained", "single", "tuned", "iat", *map(method, TRANSFERRED)]


def compared(iat: IAT, base: str, sampling: str) -> list[Variant]:
    """Return the variants compared on `iat.mixtures`, plain training first.

    `base` is its method, "tuned" or "lora", and `sampling` is `training.sampling`.
    """
    main = iat.alpha, iat.delta
    alphas, deltas = ([*dict.fromkeys(v)] for v in ([iat.alpha, *iat.alphas], [iat.delta, *iat.deltas]))
    swept = [point for point in itertools.product(alphas, deltas) if point != main]
    plain = [REWARMED] if iat.rate == REWARMED else []
    variants = [Variant(method=base, base=base, sampling=sampling)]
    variants += [_variant(name, base, sampling, *main) for name in (IAT_ITSELF, *iat.controls, *plain)]
    for name in (IAT_ITSELF, *(iat.controls if iat.sweep_controls else []), *plain):
        for alpha, delta in swept:
            if RETRAININGS[name].uses_alpha:
                suffix = f"-alpha{named(alpha)}-delta{named(delta)}"
            elif alpha == iat.alpha:
                suffix = f"-delta{named(delta)}"
            else:
                continue
            variants.append(_variant(name, base, sampling, alpha, delta, suffix))
    for other in iat.samplings:
        if other != sampling:
            resampled = f"{base}-{other}"
            variants.append(Variant(method=resampled, base=resampled, sampling=other))
            variants += [
                _variant(name, resampled, other, *main, f"-{other}") for name in (IAT_ITSELF, *plain)
            ]
    return variants


def _variant(name: str, base: str, sampling: str, alpha: float, delta: float, suffix: str = "") -> Variant:
    own = alpha if RETRAININGS[name].uses_alpha else None
    return Variant(method(name) + suffix, base, sampling, retraining=name, alpha=own, delta=delta)


def places(methods: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return the position in `TRANSFERRED` and label of each variant whose method is in `methods`."""
    used = set(methods)
    return {method(c): (i, RETRAININGS[c].label) for i, c in enumerate(TRANSFERRED) if method(c) in used}
