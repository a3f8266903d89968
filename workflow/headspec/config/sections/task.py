"""The section `tasks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from headspec.config.sections.base import NUMBER, OF_CLASSES, Count, Distinct, Encoding, Labels, Name, Section
from headspec.tasks.continuations import pair_types
from headspec.tasks.translation import classes as translation
from headspec.tasks.words.word_types import TYPES, WORDS

#: type of task: its metrics; those of words follow
OF_TEXTS = {
    "classification": ("accuracy", "f1", "matthews"),
    "regression": ("pearson", "spearman"),
    translation.NAME: translation.METRICS,
}
OF_PAIRS = dict.fromkeys(pair_types.TYPES, pair_types.METRICS)
METRICS = OF_TEXTS | OF_PAIRS | {name: kind.metrics for name, kind in TYPES.items()}

#: keys of evaluations, on which neither the tables of a task nor training depend
EVALUATED = {"metrics", *translation.EVALUATED}
#: keys of the method `prompted`, on which the tables of a task do not depend
PROMPTED = {"prompt", "answers", "shots", "calibration", "chat"}

if TYPE_CHECKING:
    Metric = str
    TaskType = str
else:
    Metric = Literal[tuple(metric for metrics in METRICS.values() for metric in metrics)]
    TaskType = Literal[tuple(METRICS)]


class Task(Section):
    """A labelled data set."""

    source: str | None = Field(
        None,
        description="`package:<import name>/<path>`, `hub:<owner>/<name>@<revision>`, or a local path to "
        "[files](files.md): a table, a folder with one per split, or a folder or file of texts per class",
    )
    subset: str | None = Field(None, description="configuration of a hub data set")
    train_split: str = Field("train", description="split (or file stem) to train on")
    validation_split: str | None = Field(
        "validation",
        description="split (or file stem) to evaluate on, by default also `val`, `valid` or `dev`; if there "
        "is none, a stratified part of the training split is held out",
    )
    encoding: Encoding | None = Field(
        None, description="encoding of local text files, such as `latin-1`; by default UTF-8"
    )
    columns: Annotated[Distinct[str], Field(min_length=1)] | None = Field(
        None, description="names of the columns of CSV and TSV files without a header line"
    )
    pairs_of: str | None = Field(
        None,
        description="instead of `source`: another task, whose texts are paired; the label says whether both "
        "have the same class",
    )
    text_a: str = Field(
        "text",
        description="column of the text, or of the first of a pair; in a table without `text`, columns "
        "`text_a` and `text_b` are found; for tasks on words, by default `words`, lists of words; of "
        "`minimal_pairs`, by default `sentence_good`, the acceptable text",
    )
    text_b: str | None = Field(
        None,
        description="column of the second text of a pair; of `minimal_pairs`, by default `sentence_bad`",
    )
    label: str | Annotated[list[str], Field(min_length=1)] = Field(
        "label",
        description="column of the label, or for translation of the target text; for tasks on words the "
        "column, or the list of columns, of the annotation, by default "
        + ", ".join(f"`{', '.join(kind.columns)}` ({name})" for name, kind in TYPES.items())
        + "; for `answer_pairs` the columns of the right and of the wrong answer, by default `right, wrong`",
    )
    type: TaskType = Field(
        "classification",
        description="what to predict: a class; a score; a text (`translation`, by an encoder-decoder); of "
        "[words](words.md#types) `tags` to `roles`; or which of two continuations is right "
        "([pairs](tasks-and-models.md#pairs), for the method `prompted`)",
    )
    source_language: str | None = Field(
        None,
        description="of translation by models with tokens of languages, such as `en_XX`",
    )
    target_language: str | None = Field(None, description="the same of the target")
    prefix: str | None = Field(
        None,
        description="for translation: text before every source, such as T5's `translate English to German: `",
    )
    beams: Count = Field(
        1,
        description="for translation: unfinished texts that evaluations follow at each token; with 1, the "
        "likeliest alone",
    )
    labels: Labels | None = Field(
        None,
        description="stored label: class name, or a list of labels; fixes the classes and their order, of "
        "which F1 is of the second",
    )
    filter: dict[str, Any] = Field({}, description="column: value, or list of values; other rows are dropped")
    further: dict[Name, str] = Field(
        {},
        description="name: another labelled split to evaluate this task's classifier on; so named in the "
        "table `iat`",
    )
    test: dict[Name, str] = Field(
        {},
        description="prediction file of the GLUE server, such as `CoLA`: the split whose predictions "
        "`snakemake submission` writes to it, labelled or not; `<subset>/<split>`: of another subset of a "
        "hub data set; `filter` does not apply",
    )
    metrics: Annotated[Distinct[Metric], Field(min_length=1)] | None = Field(
        None,
        description="the main one first; by default accuracy, for regression spearman and pearson, for "
        "others all of their type",
    )
    prompt: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="[prompt](tasks-and-models.md#prompts) of the method `prompted`, with the fields "
        "`{text_a}`, of pairs `{text_b}`, and for masked models `{mask}`, the place of the answer",
    )
    answers: Annotated[dict[str, str], Field(min_length=2), OF_CLASSES] | None = Field(
        None, description="class name: answer to `prompt`; for masked models one token"
    )
    shots: Annotated[int, Field(ge=0), NUMBER] = Field(
        0, description="answered training examples before the prompt, drawn by each of `seeds`"
    )
    calibration: bool = Field(
        False,
        description="divide the probabilities of answers by those after prompts without content (Zhao et "
        "al. 2021)",
    )
    chat: bool = Field(
        False, description="put `prompt` as a turn of a conversation, by the model's chat template"
    )
    train_examples: Count | None = Field(None, description="most training examples")
    validation_examples: Count | None = Field(
        None, description="most validation examples, or the size of the held-out part"
    )

    @model_validator(mode="before")
    @classmethod
    def _columns_of_type(cls, values: Any) -> Any:
        """The default columns of a task on words or on pairs."""
        name = str(values.get("type")) if isinstance(values, dict) else ""
        if name in pair_types.TYPES:
            return pair_types.TYPES[name] | values
        if (kind := TYPES.get(name)) is None:
            return values
        columns = kind.columns[0] if len(kind.columns) == 1 else list(kind.columns)
        return {"text_a": WORDS, "label": columns, **values}

    @property
    def all_metrics(self) -> list[str]:
        if self.metrics:
            return list(self.metrics)
        of_type = {"classification": ["accuracy"], "regression": ["spearman", "pearson"]}
        return of_type.get(self.type) or list(METRICS[self.type])

    @property
    def paradigm(self) -> Literal["single", "pair"]:
        """`single` for examples of one text, `pair` for examples of two."""
        return "pair" if self.text_b or self.pairs_of else "single"
