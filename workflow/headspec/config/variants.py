"""The list of variants of training after the branch.

Stages and figures do not import it: rules pass the entries that a job uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headspec.config.runs import REWARMED, Variant
from headspec.config.values import named
from headspec.registry import Registry

if TYPE_CHECKING:
    from headspec.config.sections.iat import IAT

#: the variant that is IAT itself
IAT_ITSELF = "top"
#: what `iat.rate` may be
RATES = ("continued", REWARMED)


@dataclass(frozen=True)
class Kind:
    """A variant of training after the branch."""

    label: str  #: its name in figures, with the words of its name in the config
    heads: str = "top"  #: the heads that a task owns, a choice of `headspec.training.iat`
    module: str = "own"  #: the module of `headspec.training.variants` that treats the other heads
    dropout: bool = True
    uses_alpha: bool = True  #: whether tasks own a fraction alpha of heads


#: in the order of panels and rows; the place of a variant gives its look, so a new one follows the last
KINDS = Registry[Kind](
    "variant of training",
    {
        IAT_ITSELF: Kind("IAT"),
        "random": Kind("random heads", heads="random"),
        "random-by-layer": Kind("random by layer", heads="random-by-layer"),
        "bottom": Kind("bottom heads", heads="bottom"),
        "other": Kind("another task's heads", heads="other"),
        "lora": Kind("LoRA", module="lora"),
        "unshared": Kind("IAT, unshared heads", heads="unshared"),
        "rescored": Kind("IAT, rescored", module="rescored"),
        "dropout-off": Kind("IAT, dropout off", dropout=False),
        "leaking": Kind("IAT, leaking", module="leaking"),
        "as-released": Kind("IAT as released", module="leaking", dropout=False),
        "no-dropout": Kind("MTL, no dropout", heads="all", dropout=False, uses_alpha=False),
        REWARMED: Kind("MTL, rewarmed", heads="all", uses_alpha=False),
        "even": Kind("even shares of heads", heads="even", uses_alpha=False),
    },
)
#: what may be named in `iat.controls`
CONTROLS = tuple(name for name in KINDS if name not in (IAT_ITSELF, REWARMED))
#: variants whose encoders can be transferred beside IAT
TRANSFERRED = (*CONTROLS, REWARMED)


def method(kind: str) -> str:
    """Return the method of a kind with the study's alpha and delta."""
    if kind == IAT_ITSELF:
        return "iat"
    return f"iat-{kind}" if KINDS[kind].uses_alpha and KINDS[kind].module != "lora" else kind


def encoders() -> list[str]:
    """Return the names allowed in `transfer.methods`."""
    return ["pretrained", "single", "tuned", "iat", *map(method, TRANSFERRED)]


def planned(iat: IAT, sampling: str) -> list[Variant]:
    """Return the variants compared on `iat.mixtures`, plain training first, given `training.sampling`."""
    main = iat.alpha, iat.delta
    alphas, deltas = ([*dict.fromkeys(v)] for v in ([iat.alpha, *iat.alphas], [iat.delta, *iat.deltas]))
    swept = [point for point in itertools.product(alphas, deltas) if point != main]
    plain = [REWARMED] if iat.rate == REWARMED else []
    variants = [Variant(method="tuned", base="tuned", sampling=sampling)]
    variants += [_variant(kind, "tuned", sampling, *main) for kind in (IAT_ITSELF, *iat.controls, *plain)]
    for kind in (IAT_ITSELF, *(iat.controls if iat.sweep_controls else []), *plain):
        for alpha, delta in swept:
            if KINDS[kind].uses_alpha:
                suffix = f"-alpha{named(alpha)}-delta{named(delta)}"
            elif alpha == iat.alpha:
                suffix = f"-delta{named(delta)}"
            else:
                continue
            variants.append(_variant(kind, "tuned", sampling, alpha, delta, suffix))
    for other in iat.samplings:
        if other != sampling:
            base = f"tuned-{other}"
            variants.append(Variant(method=base, base=base, sampling=other))
            variants += [_variant(kind, base, other, *main, f"-{other}") for kind in (IAT_ITSELF, *plain)]
    return variants


def _variant(kind: str, base: str, sampling: str, alpha: float, delta: float, suffix: str = "") -> Variant:
    own = alpha if KINDS[kind].uses_alpha else None
    return Variant(method(kind) + suffix, base, sampling, heads=kind, alpha=own, delta=delta)


def settings(variant: Variant, iat: IAT, samples: int, peak: float) -> dict[str, Any]:
    """Return how a variant differs from IAT, for the job that trains it.

    `samples` is `importance.samples`, and `peak` is `training.learning_rate`.
    """
    kind = KINDS[str(variant.heads)]
    values: dict[str, Any] = {"heads": kind.heads, "alpha": variant.alpha}
    if kind.module != "own":
        values["module"] = kind.module
    if kind.module == "rescored":
        values |= {"rescorings": iat.rescorings, "samples": samples}
    if not kind.dropout:
        values["dropout"] = False
    if iat.rate == REWARMED:
        values["peak"] = peak if iat.peak is None else iat.peak
    return values


def places(methods: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return place among `TRANSFERRED` and label of each variant whose method is one of `methods`."""
    used = set(methods)
    return {method(c): (i, KINDS[c].label) for i, c in enumerate(TRANSFERRED) if method(c) in used}
