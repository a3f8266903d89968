"""The section `brain`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Distinct, Section


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
        "predict](similarity.md#how-a-score-is-made)",
    )
    nuisance: Distinct[str] = Field(
        [],
        description="variables to regress out of responses and vectors: `length` (characters), `position` "
        "(in the passage, or among all stimuli), `frequency` (mean log frequency of words in training "
        "texts), or numeric columns of the stimuli",
    )
