"""The list of methods, by which a run gets its model.

Stages do not import it: rules pass what a job needs. Figures that draw methods side by side do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Method:
    """How a run gets its model. A section of `training` named after the method overrides keys."""

    marker: dict[str, Any]  #: look of its markers in figures where methods differ by markers
    #: look of its bars, and fill of its markers, where methods differ by these;
    #: None for methods that these figures do not show
    bar: dict[str, Any] | None = None
    fill: str | None = None
    #: {"all", "adapters", "classifiers", "nothing"}; adapters are trained with the classifiers
    trains: str = "all"
    before: str | None = None  #: the method whose heads the atlas compares with this one's
    about: str | None = None  #: its description in the config reference; None if `methods` may not name it


#: in the order of figures and of the summary
METHODS = {
    "tuned": Method(
        marker={"marker": "o", "color": "#332288"},
        bar={"facecolor": "#77aadd", "edgecolor": "black"},
        fill="#77aadd",
        before="frozen",
        about="all weights are trained",
    ),
    "lora": Method(
        marker={"marker": "P", "color": "#0099aa"},
        bar={"facecolor": "#bbddaa", "edgecolor": "black", "hatch": "......"},
        fill="#bbddaa",
        trains="adapters",
        before="frozen",
        about="only low-rank adapters and the classifiers, in much less memory",
    ),
    "iat": Method(marker={"marker": "s", "color": "#117733"}, before="tuned"),
    "frozen": Method(
        marker={"marker": "D", "color": "0.45"},
        bar={"facecolor": "#e8eef4", "edgecolor": "black", "hatch": "//////"},
        fill="white",
        trains="classifiers",
        about="only the classifiers, as a control",
    ),
    "single": Method(marker={"marker": "^", "color": "#882255"}, fill="black"),
    "prompted": Method(
        marker={"marker": "v", "color": "#aa7700"},
        bar={"facecolor": "#ddcc77", "edgecolor": "black"},
        fill="#ddcc77",
        trains="nothing",
        about="nothing, the model answers each task's `prompt`",
    ),
}
#: what `methods` may name
NAMED = tuple(name for name, method in METHODS.items() if method.about)
#: these, and sections that are run as part of a study
LISTED = (*NAMED, "iat", "atlas", "gates", "probes", "grouping")
#: methods whose encoder learns
LEARNING = tuple(name for name in NAMED if METHODS[name].trains in ("all", "adapters"))


def alone(names: Iterable[str]) -> str:
    """Return the method of single-task runs: `single`, or the first method of a study that trains nothing."""
    named = [name for name in names if name in NAMED]
    trained = [name for name in named if METHODS[name].trains != "nothing"]
    return named[0] if named and not trained else "single"


def prompts(names: Iterable[str]) -> bool:
    """Return whether a method of a study trains nothing, but prompts models with its tasks."""
    return any(name in METHODS and METHODS[name].trains == "nothing" for name in names)
