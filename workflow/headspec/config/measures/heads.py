"""The list of measures of single heads, which are also rankings of heads.

Stages and figures do not import it: rules pass the entries that a job uses, so a new entry or label
reruns nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headspec.registry import Registry

#: tables of measures that every run in the atlas has, each made by its own rule
STANDARD = ("attention", "relevance", "ablation")
#: other tables in a run's `atlas/`
OTHERS = ("attended", "roles", "ablated", "cumulative")


@dataclass(frozen=True)
class HeadMeasure:
    """A measure of heads.

    A table outside `STANDARD` is named after its measure, and made for studies that rank heads by it: by its
    `function`, or by `headspec.atlas.behaviours`.
    """

    label: str  #: its name in figures, with the words of its name in the config
    #: the run's table in `atlas/` that has it; None for orders that are not in the table 'agreement'
    table: str | None = None
    #: the table from which its own is made; None: from the model and a task's examples
    made_from: str | None = None
    ranks: bool = True  #: whether `atlas.rankings` may name it: heads with the largest values matter most
    of_weights: bool = False  #: whether it reads projections, which must then be plain
    learnt: bool = False  #: whether the pruning method of this name learns it, by each task's own gates
    per_head: bool = False  #: whether its module makes a pass for each head
    decoders: bool = False  #: whether only decoders have it
    behaviour: bool = False  #: whether it is what heads do, by `headspec.atlas.behaviours`
    predicts: bool = False  #: whether it reads what a language model predicts, so only `prompted` has it
    reads: str = ""  #: what it reads of its tasks, besides the model: "texts", or "answers" with them
    from_pretrained: bool = False  #: whether its function also takes the pretrained encoder, as last argument
    function: str = ""  #: that makes its own table (`headspec.plugins.function`)


#: modules with functions that make tables
ATLAS = "headspec.atlas"
#: what heads do, by the name of its ranking
BEHAVIOURS = {
    "previous_token": "previous token", "duplicate_token": "duplicate token", "induction": "induction",
    "first_token": "first token",
}  # fmt: skip
#: sequences, texts or prompts in which behaviours are measured
SEQUENCES = 20
#: what no study can rank heads by, and why
REFUSED = {
    "name_mover": "which needs prompts that name an answer and another text that it is compared with, and "
    "no task says the latter; expected none (headspec.head_behaviours scores heads on prompts of your own, "
    "and models.<name>.heads takes the list)"
}
#: in the order of legends and rows; the place of a ranking gives its look, so a new one follows the last
MEASURES = Registry[HeadMeasure](
    "measure of heads",
    {
        "importance": HeadMeasure("importance", "relevance"),
        "importance_all": HeadMeasure("importance, all tasks", ranks=False),
        "rescored": HeadMeasure("importance, rescored"),
        "token_importance": HeadMeasure("importance by token", "relevance"),
        "gradient_x_activation": HeadMeasure("gradient × activation", "relevance"),
        "relevance": HeadMeasure("relevance (LRP)", "relevance"),
        "ablation": HeadMeasure("ablation", "ablation"),
        "mean_ablation": HeadMeasure("mean-ablation", "ablation"),
        "confidence": HeadMeasure("confidence", "attention"),
        "l0": HeadMeasure("gates, L0", learnt=True),
        "l0-target": HeadMeasure("gates, L0 with a target", learnt=True),
        "subset": HeadMeasure("gates, subset", learnt=True),
        "subset-hard": HeadMeasure("gates, subset hard", learnt=True),
        "specific": HeadMeasure(
            "importance, specific", "specific", made_from="relevance", function=f"{ATLAS}.sample:specific"
        ),
        "integrated_gradient": HeadMeasure(
            "integrated gradient", "integrated_gradient", function=f"{ATLAS}.relevance:integrated_gradient"
        ),
        "resample_ablation": HeadMeasure(
            "resampled ablation",
            "resample_ablation",
            per_head=True,
            function=f"{ATLAS}.ablation:resample_ablation",
        ),
        "exclusive": HeadMeasure(
            "importance, exclusive",
            "exclusive",
            made_from="relevance",
            function=f"{ATLAS}.exclusive:exclusive",
        ),
        "magnitude": HeadMeasure(
            "magnitude", "magnitude", of_weights=True, function=f"{ATLAS}.magnitude:magnitude"
        ),
        "ablation_size": HeadMeasure("ablation size", "ablation", ranks=False),
        "confidence_no_separator": HeadMeasure("confidence, no separator", "attention", ranks=False),
        "random": HeadMeasure("random", ranks=False),
        **{
            name: HeadMeasure(label, name, decoders=True, behaviour=True)
            for name, label in BEHAVIOURS.items()
        },
        "knockouts": HeadMeasure(
            "joint knockouts", "knockouts", per_head=True, function=f"{ATLAS}.knockouts:knockouts"
        ),
        "retrieval": HeadMeasure(
            "retrieval", "retrieval", decoders=True, behaviour=True, predicts=True, reads="texts"
        ),
        "function_vector": HeadMeasure(
            "function vector",
            "function_vector",
            decoders=True,
            behaviour=True,
            predicts=True,
            reads="answers",
        ),
        "successor": HeadMeasure("successor", "successor", decoders=True, behaviour=True, predicts=True),
        "alps": HeadMeasure(
            "ALPS", "alps", of_weights=True, from_pretrained=True, function=f"{ATLAS}.alps:alps"
        ),
    },
)


def rankings() -> list[str]:
    """Return the names allowed in `atlas.rankings`."""
    return [name for name, measure in MEASURES.items() if measure.ranks]


def tables(rankings: Iterable[str]) -> list[str]:
    """Return the tables with the measures of `rankings`."""
    return list(dict.fromkeys(table for name in rankings if (table := MEASURES[name].table)))


def own(rankings: Iterable[str]) -> dict[str, str | None]:
    """Return which of `rankings` have their own table, and the table it is made from; None for the model."""
    measures = {name: MEASURES[name] for name in rankings}
    return {name: m.made_from for name, m in measures.items() if m.table and m.table not in STANDARD}


def compared(rankings: Iterable[str]) -> list[str]:
    """Return the measures of the table 'agreement': standard ones, and `rankings` with their own table."""
    rankings = set(rankings)
    return [
        name
        for name, measure in MEASURES.items()
        if measure.table in STANDARD or (measure.table and name in rankings)
    ]


def of_weights(rankings: Iterable[str]) -> list[str]:
    """Return those of `rankings` that read projections."""
    return [name for name in rankings if MEASURES[name].of_weights]


def learnt(rankings: Iterable[str]) -> list[str]:
    """Return those of `rankings` that gates learn."""
    return [name for name in rankings if MEASURES[name].learnt]


def pruned(rankings: Iterable[str]) -> list[str]:
    """Return the names of all orders of pruning where heads are ranked by `rankings`."""
    rankings = set(rankings)
    return [*rankings, *(["importance_all"] if "importance" in rankings else []), "random"]


def places(rankings: Iterable[str]) -> dict[str, int]:
    """Return the positions in `MEASURES` of all orders of pruning except random ones."""
    return MEASURES.places({*pruned(rankings)} - {"random"})
