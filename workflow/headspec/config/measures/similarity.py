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
    """A trait of a task that measures compare, read from the tables of a model and seed."""

    #: of its tables in the folder of results, with the wildcards `model`, `seed`, `task`, and `method` of
    #: single-task runs; None: known from the config, such as the number of texts in an example
    path: str | None
    single: bool = True  #: whether tables are those of single-task runs, and so have seeds
    trained: bool = True  #: whether it differs between tasks only after training
    by_subject: bool = False  #: whether subjects are compared individually
    read: str | None = None  #: the function that reads it


READ = "headspec.similarity.traits"
OF_SEED = "similarity/{model}/seed{seed}"
IMPORTANCE = "runs/{model}/{task}/{method}/seed{seed}/importance.parquet"
TRAITS = {
    "paradigm": Trait(None, single=False, trained=False),
    "text": Trait("similarity/{model}/text.parquet", single=False, trained=False, read=f"{READ}:text"),
    "vectors": Trait(f"{OF_SEED}/sentences.parquet", read=f"{READ}:vectors"),
    "importance": Trait(IMPORTANCE, trained=False, read=f"{READ}:importance"),
    "top": Trait(IMPORTANCE, trained=False, read=f"{READ}:top"),
    "head_fisher": Trait(IMPORTANCE, trained=False, read=f"{READ}:head_fisher"),
    "encoding": Trait(
        "similarity/{model}/seed{seed}/brain_encoding.parquet", by_subject=True, read=f"{READ}:encoding"
    ),
}
#: trait of measures that compare all weights, each in jobs of its own
ALL_WEIGHTS = Trait(f"{OF_SEED}/{{measure}}.parquet")


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


def of_weights(names: Iterable[str]) -> list[str]:
    """Return the measures among `names` that compare all weights."""
    return [name for name in names if MEASURES[name].of is None]


def entries(names: Iterable[str], method: str) -> dict[str, dict[str, Any]]:
    """Return what the job that compares tasks has to know of the measures in `names`.

    `method` is that of single-task runs.
    """
    found = {}
    for name in names:
        measure, trait = MEASURES[name], MEASURES[name].trait
        path = trait.path and trait.path.replace("{method}", method).replace("{measure}", name)
        found[name] = {
            "of": measure.of, "function": measure.function, "directed": measure.directed, "path": path,
            "read": trait.read, "single": trait.single, "by_subject": trait.by_subject,
        }  # fmt: skip
    return found


def functions(names: Iterable[str]) -> list[str]:
    """Return the functions of the measures of traits among `names`, and those that read the traits."""
    chosen = [MEASURES[name] for name in names if MEASURES[name].of]
    return list(dict.fromkeys(f for each in chosen for f in (each.function, each.trait.read) if f))
