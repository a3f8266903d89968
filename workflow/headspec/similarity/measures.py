"""The measures of task similarity by name, as functions of two tasks' traits."""

from collections.abc import Callable

from headspec.similarity.cka import cka
from headspec.similarity.cnm import cnm
from headspec.similarity.dse import dse
from headspec.similarity.fisher import fisher, head_fisher
from headspec.similarity.gradient import gradient
from headspec.similarity.paradigm import paradigm
from headspec.similarity.rsa import rsa
from headspec.similarity.shared_heads import importance, top_heads
from headspec.similarity.text import text
from headspec.similarity.traits import Traits

MEASURES: dict[str, Callable[[Traits, Traits], float]] = {
    "paradigm": paradigm,
    "text": text,
    "dse": dse,
    "rsa": rsa,
    "cka": cka,
    "fisher": fisher,
    "head-fisher": head_fisher,
    "gradient": gradient,
    "importance": importance,
    "top-heads": top_heads,
    "cnm": cnm,
}
