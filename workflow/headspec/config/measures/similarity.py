"""The measures of task similarity: the one list of them.

Stages and figures do not import it: rules pass what a job needs of the entries that it uses, so that a new
entry, or another label, reruns nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headspec.registry import Registry


@dataclass(frozen=True)
class SimilarityMeasure:
    """A measure of task similarity.

    Attributes
    ----------
    label : its name in figures
    rule : the rule of the workflow whose output it uses, if any
    function : as `headspec.plugins.function` takes it, of a plugin; others are in
        `headspec.similarity.measures`
    """

    label: str
    rule: str | None = None
    function: str | None = None

    @property
    def needs_training(self) -> bool:
        """Whether it compares the weights or states of models, each trained on a task alone."""
        return self.rule in ("representations", "sensitivity", "brain_encoding")


#: in the order of figures
MEASURES = Registry[SimilarityMeasure]("measure of similarity")
MEASURES |= {
    "paradigm": SimilarityMeasure("same paradigm"),
    "text": SimilarityMeasure("TextEmb", "text_embedding"),
    "dse": SimilarityMeasure("DSE", "representations"),
    "rsa": SimilarityMeasure("RSA", "representations"),
    "cka": SimilarityMeasure("CKA", "representations"),
    "fisher": SimilarityMeasure("TaskEmb", "sensitivity"),
    "head-fisher": SimilarityMeasure("TaskEmb of heads", "importance"),
    "gradient": SimilarityMeasure("gradient cosine", "sensitivity"),
    "importance": SimilarityMeasure("importance (rank)", "importance"),
    "top-heads": SimilarityMeasure("top heads (Jaccard)", "importance"),
    "cnm": SimilarityMeasure("CNM", "brain_encoding"),
}
#: rules that use a model of each task trained alone
USES_SINGLE_MODELS = ("representations", "sensitivity", "importance", "brain_encoding")
#: traits of a task that measures of plugins may read: the rule whose output they are made from
TRAITS = {
    "paradigm": None,
    "text": "text_embedding",
    "vectors": "representations",
    "importance": "importance",
    "top": "importance",
    "head_fisher": "importance",
}


def seedless(names: Iterable[str]) -> list[str]:
    """Return the measures among `names` that need no model of a single task, and so have no seed."""
    return [name for name in names if MEASURES[name].rule not in USES_SINGLE_MODELS]


def by_rule(rule: str) -> list[str]:
    """The measures that use the output of `rule`."""
    return [name for name, measure in MEASURES.items() if measure.rule == rule]


def functions(names: Iterable[str]) -> dict[str, str]:
    """The functions of the measures `names`."""
    library = "headspec.similarity.measures"
    return {name: MEASURES[name].function or f"{library}:{name.replace('-', '_')}" for name in names}


def labels(names: Iterable[str]) -> dict[str, str]:
    """The labels of the measures `names`, in the order of `MEASURES`."""
    names = set(names)
    return {name: measure.label for name, measure in MEASURES.items() if name in names}
