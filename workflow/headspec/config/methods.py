"""The methods, by which a run gets its model."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """How a run gets its model. A section of `training` named after the method overrides keys."""

    #: {"all", "adapters", "classifiers", "nothing"}; adapters are trained with the classifiers
    trains: str = "all"
    before: str | None = None  #: the method whose heads the atlas compares with this one's
    about: str | None = None  #: its description in the config reference; None if `methods` may not name it


#: in the order of figures and of the summary
METHODS = {
    "tuned": Method(before="frozen", about="all weights are trained"),
    "lora": Method("adapters", "frozen", "only low-rank adapters and the classifiers, in much less memory"),
    "iat": Method(),  # as plain training, which also precedes it
    "frozen": Method("classifiers", about="only the classifiers, as a control"),
    "single": Method(),
    "prompted": Method("nothing", about="nothing, the model answers each task's `prompt`"),
}
#: what `methods` may name
NAMED = tuple(name for name, method in METHODS.items() if method.about)
#: these, and sections that are run as part of a study
LISTED = (*NAMED, "iat", "atlas", "gates", "probes", "grouping")
#: methods whose encoder learns
LEARNING = tuple(name for name in NAMED if METHODS[name].trains in ("all", "adapters"))


def alone(names: Iterable[str]) -> str:
    """Return the method of single-task runs: `single`, or a study's first method if it trains nothing."""
    named = [name for name in names if name in NAMED]
    trained = [name for name in named if METHODS[name].trains != "nothing"]
    return named[0] if named and not trained else "single"


def prompts(names: Iterable[str]) -> bool:
    """Return whether any of these methods trains nothing, but prompts models."""
    return any(name in METHODS and METHODS[name].trains == "nothing" for name in names)
