"""The measures by name: functions of two tasks' traits. `headspec.study` lists the names for the config."""

from collections.abc import Callable

from headspec.similarity import Traits
from headspec.similarity.cka import cka
from headspec.similarity.cnm import cnm
from headspec.similarity.dse import dse
from headspec.similarity.fisher import fisher, head_fisher
from headspec.similarity.gradient import gradient
from headspec.similarity.importance import importance, top_heads
from headspec.similarity.paradigm import paradigm
from headspec.similarity.rsa import rsa
from headspec.similarity.text import text

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
