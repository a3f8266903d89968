"""The section `brain`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Distinct, Section


class Brain(Section):
    """Brain responses to texts, for cognitive-neural mapping (measure `cnm`); not used by default."""

    stimuli: str = Field(
        description="table (Parquet, CSV, TSV, JSON lines) with columns stimulus_id and text, in order of "
        "presentation; with a column passage, all stimuli of a passage stay in one fold"
    )
    responses: str = Field(
        description="Parquet table with columns subject, stimulus_id and voxels (a list of numbers); "
        "repeated rows of a subject and stimulus are averaged"
    )
    regression: Literal["ridge", "network"] = Field(
        "ridge",
        description="model that predicts voxels from sentence vectors: ridge regression with a penalty for "
        "each voxel, or the network of Luo et al. (2022) with one hidden layer",
    )
    folds: Annotated[int, Field(ge=2), NUMBER] = Field(
        5, description="folds of cross-validation, each of consecutive stimuli"
    )
    voxels: Literal["all", "reliable"] = Field(
        "all",
        description="`reliable`: in each fold, only voxels that other subjects' responses predict in the "
        "training part",
    )
    nuisance: Distinct[str] = Field(
        [],
        description="variables to regress out of responses and vectors: `length` (characters), `position` "
        "(in the passage, else among all stimuli), `frequency` (mean log frequency of the words in the "
        "training texts of the compared tasks), or numeric columns of the stimuli",
    )
