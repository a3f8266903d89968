"""The sections `atlas`, with its treebank, and `probes`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config import methods
from headspec.config.measures import heads
from headspec.config.measures.heads import own
from headspec.sections import NUMBER, Distinct, Fraction, OneOf, Section

Ranking = Annotated[str, OneOf(heads.rankings, plugged=True, refused=heads.REFUSED)]
Measured = Annotated[str, OneOf(methods.METHODS)]


class Treebank(Section):
    """Sentences with dependency trees."""

    source: str = Field(description="a CoNLL-U file (`*.conllu`), or a table or folder as for tasks")
    subset: str | None = Field(None, description="configuration of a hub treebank, such as `en_ewt`")
    split: str = Field("validation", description="split of a hub treebank, or file stem in a folder")
    words: str = Field("words", description="column of a sentence's words")
    head: str = Field("head", description="column with the number of each word's head, 0 for the root")
    relation: str = Field("deprel", description="column of each word's relation to its head")


class Atlas(Section):
    """The head atlas, which `snakemake atlas` makes: measures of every single head."""

    methods: Annotated[Distinct[Measured], Field(min_length=1)] = Field(
        ["tuned", "frozen"],
        description="methods whose heads are measured; `frozen` is the pretrained encoder",
    )
    mixtures: Distinct[str] = Field(
        [], description="mixtures, or tasks alone, to measure; by default all mixtures"
    )
    examples: Annotated[int, Field(ge=40), NUMBER] = Field(
        1000, description="maximum validation examples per task on which heads are measured"
    )
    treebank: Treebank | None = Field(
        None,
        description="sentences for roles of heads; by default validation texts, without syntactic roles",
    )
    sentences: Annotated[int, Field(ge=50), NUMBER] = Field(2000, description="maximum sentences for roles")
    relevance: Literal["constant_attention", "attnlrp"] = Field(
        "constant_attention",
        description="rules of relevance propagation: by Ali et al. (2022), or Achtibat et al. (2024), where "
        "attention weights have relevance, too",
    )
    rankings: Annotated[Distinct[Ranking], Field(min_length=1)] = Field(
        [
            "importance", "token_importance", "gradient_x_activation", "relevance", "confidence", "ablation",
            "mean_ablation", "rescored",
        ],
        description="[measures](methods/atlas.md#measures) by which heads are pruned cumulatively, besides "
        "random orders; `rescored`: importance, recomputed after every step; `l0` to `subset-hard`: "
        "[gates](methods/atlas.md#which-measure-to-believe) with the settings of `gates`",
    )  # fmt: skip
    bottom: bool = Field(
        False,
        description="also prune each ranking from the bottom",
    )
    fractions: Annotated[Distinct[Fraction], Field(min_length=1)] = Field(
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
        description="fractions of heads to prune cumulatively, besides none, all and `pruning.fraction`",
    )
    draws: Annotated[int, Field(ge=2), NUMBER] = Field(
        10,
        description="random orders of pruning for each seed",
    )

    same_layers: Distinct[Ranking] = Field(
        [],
        description="rankings, of `rankings`, that are also compared with `draws` random orders with as many "
        "heads of each layer at every fraction",
    )

    @property
    def measured(self) -> list[str]:
        """The rankings that their own modules measure from the model, without behaviours."""
        measured = [name for name, table in own(self.rankings).items() if table is None]
        return [name for name in measured if name not in self.behaviours]

    @property
    def behaviours(self) -> list[str]:
        """The rankings by behaviours of heads."""
        return [name for name in self.rankings if heads.MEASURES[name].behaviour]

    @property
    def derived(self) -> dict[str, str]:
        """The rankings that their own modules compute from another table of measures, and this table."""
        return {name: table for name, table in own(self.rankings).items() if table}

    @property
    def ablations(self) -> list[str]:
        """The ablations to measure: by zero, and by the mean output if heads are ranked by it."""
        return [
            measure for measure in ("ablation", "mean_ablation") if measure in ("ablation", *self.rankings)
        ]


class Probes(Section):
    """Parameter-free probes of single heads, on tasks on words, which `snakemake probes` makes."""

    methods: Annotated[Distinct[Literal["tuned", "frozen", "single", "iat", "even"]], Field(min_length=1)] = (
        Field(
            ["tuned", "single"],
            description="methods whose models are probed, besides the pretrained encoder and one with random "
            "weights",
        )
    )
    mixtures: Distinct[str] = Field([], description="mixtures, or tasks alone, to probe; by default all")
    sentences: Annotated[int, Field(ge=40), NUMBER] = Field(
        1000, description="maximum sentences per task for fitting probes, and for scoring them"
    )
