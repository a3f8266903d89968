"""The sections `similarity` and `brain`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.measures import similarity
from headspec.config.measures.similarity import MEASURES, seedless
from headspec.sections import NUMBER, Distinct, OneOf, Section

Measure = Annotated[str, OneOf(similarity.MEASURES, plugged=True)]


class Similarity(Section):
    """Similarity of the tasks of `mixtures.pairs`, to correlate with their dissociation."""

    measures: Distinct[Measure] = Field(
        [], description="[measures](methods/similarity.md); `cnm` needs the section `brain`"
    )
    sentences: str | None = Field(
        None,
        description="text file with a sentence per line, on which `dse`, `rsa` and `cka` compare models; by "
        "default validation texts, the same number per task",
    )
    max_sentences: Annotated[int, Field(ge=10), NUMBER] = Field(
        600, description="maximum sentences, drawn at random"
    )
    samples: Annotated[int, Field(ge=10), NUMBER] = Field(
        500,
        description="training samples per task for `text`, `fisher`, `gradient`, `lookahead`, "
        "`lookahead-single` and `grad-tag`",
    )

    @property
    def compares_models(self) -> bool:
        """Whether a configured measure compares single-task models."""
        return len(seedless(self.measures)) < len(self.measures)

    def comparing(self, trait: str) -> list[Measure]:
        """Return the configured measures that compare a trait."""
        return [measure for measure in self.measures if MEASURES[measure].of == trait]


class Brain(Section):
    """Brain responses to texts, for cognitive-neural mapping (measure `cnm`)."""

    stimuli: str = Field(
        description="table with columns `stimulus_id` and `text`, in order of presentation; stimuli of a "
        "`passage`, an optional column, stay in one fold"
    )
    responses: str = Field(
        description="Parquet table with columns `subject`, `stimulus_id` and `voxels` (a list of numbers); "
        "repetitions are averaged"
    )
    regression: Literal["ridge", "network"] = Field(
        "ridge",
        description="ridge regression with a penalty for each voxel, or the network of Luo et al. (2022)",
    )
    folds: Annotated[int, Field(ge=2), NUMBER] = Field(
        5, description="folds of cross-validation, of consecutive stimuli"
    )
    voxels: Literal["all", "reliable"] = Field(
        "all",
        description="`reliable`: those that [other subjects' responses "
        "predict](methods/similarity.md#how-a-score-is-made)",
    )
    nuisance: Distinct[str] = Field(
        [],
        description="variables to regress out of responses and vectors: `length` (characters), `position` "
        "(in the passage, or among all stimuli), `frequency` (mean log frequency of words in training "
        "texts), or numeric columns of the stimuli",
    )
