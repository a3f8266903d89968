"""The measures of task similarity: the one list of them.

Stages and figures do not import it: rules pass what a job needs of the entries that it uses, so that a new
entry, or another label, reruns nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class SimilarityMeasure:
    """A measure of task similarity.

    Attributes
    ----------
    label : its name in figures
    module : of `headspec/similarity/`, whose function has the name of the measure, with _ for -
    rule : the rule of the workflow whose output it uses, if any
    """

    label: str
    module: str
    rule: str | None = None

    @property
    def needs_training(self) -> bool:
        """Whether it compares the weights or states of models, each trained on a task alone."""
        return self.rule in ("representations", "sensitivity", "brain_encoding")


#: in the order of figures
MEASURES = {
    "paradigm": SimilarityMeasure("same paradigm", "paradigm"),
    "text": SimilarityMeasure("TextEmb", "text", "text_embedding"),
    "dse": SimilarityMeasure("DSE", "dse", "representations"),
    "rsa": SimilarityMeasure("RSA", "rsa", "representations"),
    "cka": SimilarityMeasure("CKA", "cka", "representations"),
    "fisher": SimilarityMeasure("TaskEmb", "fisher", "sensitivity"),
    "head-fisher": SimilarityMeasure("TaskEmb of heads", "fisher", "importance"),
    "gradient": SimilarityMeasure("gradient cosine", "gradient", "sensitivity"),
    "importance": SimilarityMeasure("importance (rank)", "shared_heads", "importance"),
    "top-heads": SimilarityMeasure("top heads (Jaccard)", "shared_heads", "importance"),
    "cnm": SimilarityMeasure("CNM", "cnm", "brain_encoding"),
}
#: rules that use a model of each task trained alone
USES_SINGLE_MODELS = ("representations", "sensitivity", "importance", "brain_encoding")
#: measures that no model of a single task has a part in, and so no seed
SEEDLESS = tuple(name for name, measure in MEASURES.items() if measure.rule not in USES_SINGLE_MODELS)


def by_rule(rule: str) -> list[str]:
    """The measures that use the output of `rule`."""
    return [name for name, measure in MEASURES.items() if measure.rule == rule]


def modules(names: Iterable[str]) -> dict[str, str]:
    """The modules of the measures `names`."""
    return {name: MEASURES[name].module for name in names}


def labels(names: Iterable[str]) -> dict[str, str]:
    """The labels of the measures `names`, in the order of `MEASURES`."""
    names = set(names)
    return {name: measure.label for name, measure in MEASURES.items() if name in names}
