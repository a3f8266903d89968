"""The list of measures of task similarity.

Stages and figures do not import it: rules pass the entries that a job uses, so a new entry or label
reruns nothing else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headspec.registry import Registry


@dataclass(frozen=True)
class SimilarityMeasure:
    """A measure of task similarity."""

    label: str  #: its name in figures, with the words of its name in the config
    rule: str | None = None  #: the rule whose output it uses, if any
    #: of single-task models, or a plugin's (`headspec.plugins.function`); None: its name in `measures`
    function: str | None = None
    #: whether it says how much the first of two tasks would help the other
    directed: bool = False
    #: passes of a sampled example among k tasks: gradients, and losses alone
    passes: Callable[[int], tuple[float, float]] = lambda k: (1, 0)

    @property
    def needs_training(self) -> bool:
        """Whether it compares weights or states of models that were each trained on one task."""
        return self.rule in ("representations", "sensitivity", "brain_encoding")


#: modules of measures that compare all weights
WEIGHTS = "headspec.similarity"
#: in the order of figures
MEASURES = Registry[SimilarityMeasure]("measure of similarity")
MEASURES |= {
    "paradigm": SimilarityMeasure("same paradigm"),
    "text": SimilarityMeasure("text (TextEmb)", "text_embedding"),
    "dse": SimilarityMeasure("DSE", "representations"),
    "rsa": SimilarityMeasure("RSA", "representations"),
    "cka": SimilarityMeasure("CKA", "representations"),
    "fisher": SimilarityMeasure("Fisher (TaskEmb)", "sensitivity", f"{WEIGHTS}.sensitivity:fisher_cosines"),
    "head-fisher": SimilarityMeasure("head Fisher", "importance"),
    "gradient": SimilarityMeasure(
        "gradient cosine", "sensitivity", f"{WEIGHTS}.sensitivity:gradient_cosines"
    ),
    "lookahead": SimilarityMeasure(
        "look-ahead", "sensitivity", f"{WEIGHTS}.lookahead:affinity", True, lambda k: (1 / 2, (k + 1) / 2)
    ),
    "lookahead-single": SimilarityMeasure(
        "look-ahead, single",
        "sensitivity",
        f"{WEIGHTS}.lookahead:affinity_single",
        True,
        lambda k: (k / 2, (k + 1) / 2),
    ),
    "grad-tag": SimilarityMeasure("Grad-TAG", "sensitivity", f"{WEIGHTS}.grad_tag:affinity", True),
    "importance": SimilarityMeasure("importance (rank)", "importance"),
    "top-heads": SimilarityMeasure("top heads (Jaccard)", "importance"),
    "cnm": SimilarityMeasure("CNM", "brain_encoding"),
}
#: rules that use single-task models
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
    """Return the measures among `names` that need no single-task model, and so have no seed."""
    return [name for name in names if MEASURES[name].rule not in USES_SINGLE_MODELS]


def by_rule(rule: str) -> list[str]:
    """Return the measures that use the output of `rule`."""
    return [name for name, measure in MEASURES.items() if measure.rule == rule]


def functions(names: Iterable[str]) -> dict[str, str]:
    """Return the functions of the measures `names`."""
    library = "headspec.similarity.measures"
    return {name: MEASURES[name].function or f"{library}:{name.replace('-', '_')}" for name in names}
