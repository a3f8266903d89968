"""The list of measures of task similarity.

Stages and figures do not import it: rules pass the entries that a job uses, so a new entry or label
reruns nothing else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from headspec.registry import Registry


@dataclass(frozen=True)
class Trait:
    """A trait of a task that measures compare, read from a rule's tables of a model and seed."""

    rule: str | None  #: None: known from the config, such as the number of texts in an example
    single: bool = True  #: whether tables are those of single-task runs, and so have seeds
    trained: bool = True  #: whether it differs between tasks only after training
    by_subject: bool = False  #: whether subjects are compared individually
    read: str | None = None  #: the function that reads it


READ = "headspec.similarity.traits"
TRAITS = {
    "paradigm": Trait(None, single=False, trained=False),
    "text": Trait("text_embedding", single=False, trained=False, read=f"{READ}:text"),
    "vectors": Trait("representations", read=f"{READ}:vectors"),
    "importance": Trait("importance", trained=False, read=f"{READ}:importance"),
    "top": Trait("importance", trained=False, read=f"{READ}:top"),
    "head_fisher": Trait("importance", trained=False, read=f"{READ}:head_fisher"),
    "encoding": Trait("brain_encoding", by_subject=True, read=f"{READ}:encoding"),
}
#: trait of measures that compare all weights, in separate jobs
ALL_WEIGHTS = Trait("sensitivity")


@dataclass(frozen=True)
class SimilarityMeasure:
    """A measure of task similarity."""

    label: str  #: its name in figures, with the words of its name in the config
    of: str | None  #: what it compares, of `TRAITS`; None: all weights
    function: str  #: computes it (`headspec.plugins.function`)
    #: whether it measures how much the first of two tasks would help the other
    directed: bool = False
    #: passes of a sampled example among k tasks: gradients, and losses alone
    passes: Callable[[int], tuple[float, float]] = lambda k: (1, 0)

    @property
    def trait(self) -> Trait:
        return TRAITS[self.of] if self.of else ALL_WEIGHTS


OF_TRAITS = "headspec.similarity.measures"
#: modules of measures that compare all weights
WEIGHTS = "headspec.similarity"
#: in the order of figures
MEASURES = Registry[SimilarityMeasure](
    "measure of similarity",
    {
        "paradigm": SimilarityMeasure("same paradigm", "paradigm", f"{OF_TRAITS}:paradigm"),
        "text": SimilarityMeasure("text (TextEmb)", "text", f"{OF_TRAITS}:text"),
        "dse": SimilarityMeasure("DSE", "vectors", f"{OF_TRAITS}:dse"),
        "rsa": SimilarityMeasure("RSA", "vectors", f"{OF_TRAITS}:rsa"),
        "cka": SimilarityMeasure("CKA", "vectors", f"{OF_TRAITS}:cka"),
        "fisher": SimilarityMeasure("Fisher (TaskEmb)", None, f"{WEIGHTS}.sensitivity:fisher_cosines"),
        "head-fisher": SimilarityMeasure("head Fisher", "head_fisher", f"{OF_TRAITS}:head_fisher"),
        "gradient": SimilarityMeasure("gradient cosine", None, f"{WEIGHTS}.sensitivity:gradient_cosines"),
        "lookahead": SimilarityMeasure(
            "look-ahead",
            None,
            f"{WEIGHTS}.gradient_affinity:lookahead_affinity",
            True,
            lambda k: (1 / 2, (k + 1) / 2),
        ),
        "lookahead-single": SimilarityMeasure(
            "look-ahead, single",
            None,
            f"{WEIGHTS}.gradient_affinity:lookahead_affinity_single",
            True,
            lambda k: (k / 2, (k + 1) / 2),
        ),
        "grad-tag": SimilarityMeasure(
            "Grad-TAG", None, f"{WEIGHTS}.gradient_affinity:grad_tag_affinity", True
        ),
        "importance": SimilarityMeasure("importance (rank)", "importance", f"{OF_TRAITS}:importance"),
        "top-heads": SimilarityMeasure("top heads (Jaccard)", "top", f"{OF_TRAITS}:top_heads"),
        "cnm": SimilarityMeasure("CNM", "encoding", f"{OF_TRAITS}:cnm"),
    },
)


def seedless(names: Iterable[str]) -> list[str]:
    """Return the measures among `names` that need no single-task model, and so have no seed."""
    return [name for name in names if not MEASURES[name].trait.single]


def by_rule(rule: str) -> list[str]:
    """Return the measures that use the output of `rule`."""
    return [name for name, measure in MEASURES.items() if measure.trait.rule == rule]


def of_traits(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the measures of traits among `names`: what each compares, and its function."""
    chosen = {name: MEASURES[name] for name in names}
    return {name: {"of": each.of, "function": each.function} for name, each in chosen.items() if each.of}


def of_weights(names: Iterable[str], directed: bool) -> list[str]:
    """Return the measures of all weights in `names` that are `directed`, or not."""
    chosen = {name: MEASURES[name] for name in names}
    return [name for name, each in chosen.items() if each.of is None and each.directed == directed]


def traits(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the traits that measures compare: the rule of their tables, and the function that reads them."""
    compared = dict.fromkeys(MEASURES[name].of for name in names)
    return {
        name: {"rule": TRAITS[name].rule, "read": TRAITS[name].read, "by_subject": TRAITS[name].by_subject}
        for name in compared
        if name and TRAITS[name].rule
    }


def functions(names: Iterable[str]) -> list[str]:
    """Return the functions of these measures, and of the traits that they compare."""
    entries = *of_traits(names).values(), *traits(names).values()
    return [each.get("function") or each["read"] for each in entries]
