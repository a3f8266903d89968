"""The keys that tasks of all types have; stages need to import nothing else of a task's config."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from headspec.sections import (
    CLASS_NAMES,
    NUMBER,
    Count,
    Delimiter,
    Distinct,
    Encoding,
    Labels,
    Name,
    Section,
    Values,
)


class TaskKeys(Section):
    """The keys that tasks of all types have, and in a stage those of the task's own type."""

    model_config = ConfigDict(extra="allow")

    source: str | None = Field(
        None,
        description="`package:<import name>/<path>`, `hub:<owner>/<name>@<revision>`, or a local path to "
        "[files](files.md)",
    )
    subset: str | None = Field(None, description="configuration of a hub data set")
    train_split: str = Field("train", description="split (or file stem) to train on")
    validation_split: str | None = Field(
        "validation",
        description="split (or file stem) to evaluate on; without it `val`, `valid`, `dev`, `development` or "
        "a stratified part of the training split",
    )
    encoding: Encoding | None = Field(
        None, description="encoding of local text files, such as `latin-1`; by default UTF-8"
    )
    columns: Annotated[Distinct[str], Field(min_length=1)] | None = Field(
        None, description="names of the columns of CSV and TSV files without a header"
    )
    delimiter: Delimiter | None = Field(
        None, description="delimiter of CSV and TSV files, if not a comma or a tab, such as `;`"
    )
    pairs_of: str | None = Field(
        None,
        description="instead of `source`: a task whose texts are paired; the label is whether both have the "
        "same class",
    )
    text_a: str = Field(
        "text",
        description="column of the text, the first of a pair, or lists of words; without `text`, columns "
        "`text_a` and `text_b` are found",
    )
    text_b: str | None = Field(
        None,
        description="column of the second text of a pair",
    )
    label: str | Annotated[list[str], Field(min_length=1)] = Field(
        "label",
        description="column of the label, or of a translation; columns of types that have several",
    )
    type: str = Field("classification", description="what to predict")
    labels: Labels | None = Field(
        None,
        description="stored label: class name, or a list of labels; fixes the classes and their order",
    )
    filter: dict[str, Any] = Field({}, description="column: value, or list of values; other rows are dropped")
    unlabelled: Values = Field(
        [],
        description='values for missing labels, such as `""` (an empty cell), `NaN` or `-1`: rows with one '
        "are left out, and counted in the plan",
    )
    further: dict[Name, str] = Field(
        {},
        description="name in the table `iat`: another labelled split to evaluate this task's classifier on",
    )
    test: dict[Name, str] = Field(
        {},
        description="[file of the GLUE server](methods/iat.md#glue-submissions), such as `CoLA`: the split "
        "to predict, or `<subset>/<split>` of a hub data set; `filter` does not apply",
    )
    metrics: Annotated[Distinct[str], Field(min_length=1)] = Field(
        None,  # type: ignore[arg-type]  # in the config, `usual` or all `metrics` of its `Kind`
        description="[metrics](tasks-and-models.md#metrics), the main one first",
    )
    prompt: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="[prompt](tasks-and-models.md#prompts) with `{text_a}`, for pairs `{text_b}`, and for "
        "masked models `{mask}` in place of the answer",
    )
    answers: Annotated[dict[str, str], Field(min_length=2), CLASS_NAMES] | None = Field(
        None, description="class name: answer to `prompt`; for masked models one token"
    )
    shots: Annotated[int, Field(ge=0), NUMBER] = Field(
        0, description="number of answered training examples before the prompt, drawn for each seed"
    )
    calibration: bool = Field(
        False,
        description="divide probabilities of answers by those after content-free prompts (Zhao et al. 2021)",
    )
    chat: bool = Field(
        False, description="format `prompt` as a turn of a conversation, with the model's chat template"
    )
    train_examples: Count | None = Field(None, description="maximum training examples")
    validation_examples: Count | None = Field(
        None, description="maximum validation examples, or the size of the held-out part"
    )

    @property
    def paradigm(self) -> Literal["single", "pair"]:
        """`single` for single texts, `pair` for pairs of texts."""
        return "pair" if self.text_b or self.pairs_of else "single"
