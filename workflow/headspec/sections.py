"""The sections of the study config, typed, with defaults: what a user may write, key by key.

The schema and the reference table in the README are generated from these models and from `Study`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headspec.fields import (
    NUMBER,
    Checksum,
    Count,
    Distinct,
    Fraction,
    Labels,
    Name,
    NotNegative,
    PartBelowOne,
    Positive,
)

#: what tables say where a task's name could stand, and so cannot name one
RESERVED = ("none", "random", "random_by_layer", "mean")

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]
Method = Literal["tuned", "frozen", "single"]
Sampling = Literal["proportional", "sqrt", "annealed"]
Heads = Literal["top", "bottom", "random", "random-by-layer", "other", "lora"]
Pooling = Literal["auto", "first", "mean", "last"]
Measure = Literal[
    "paradigm", "text", "dse", "rsa", "cka", "fisher", "head-fisher", "gradient", "importance", "top-heads",
    "cnm",
]  # fmt: skip
#: rule of the workflow: the measures of similarity that rest on what it makes
MEASURED_BY: dict[str, tuple[Measure, ...]] = {
    "text_embedding": ("text",),
    "representations": ("dse", "rsa", "cka"),
    "sensitivity": ("fisher", "gradient"),
    "importance": ("head-fisher", "importance", "top-heads"),
    "encoding": ("cnm",),
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)


class Model(Section):
    """A pretrained encoder."""

    source: str = Field(
        description="`package:<import name>/<folder>`, `hub:<owner>/<name>@<revision>`, "
        "or the path of a local folder with config, tokenizer and safetensors weights, or of a GGUF file"
    )
    sha256: Checksum | None = Field(
        None, description="SHA-256 of the weights file, or its beginning; checked on loading"
    )
    pooling: Pooling = Field(
        "auto",
        description="sentence vector: first token, mean over tokens, last token; "
        "`auto` takes the architecture's convention",
    )
    max_length: Annotated[int, Field(ge=8), NUMBER] = Field(
        128, description="tokens per example; longer texts are truncated and counted"
    )


class Task(Section):
    """A labelled data set."""

    source: str | None = Field(
        None,
        description="`package:<import name>/<path>`, `hub:<owner>/<name>@<revision>`, or a local "
        "path: one table (Parquet, CSV, TSV, JSON lines), a folder with one table per split, "
        "or a folder with one folder of text files per class",
    )
    subset: str | None = Field(None, description="configuration of a hub data set, such as `sst2`")
    train_split: str = Field("train", description="split (or file stem) to train on")
    validation_split: str | None = Field(
        "validation",
        description="split (or file stem) to evaluate on; where the source has none, "
        "a stratified part of the training split is held out",
    )
    pairs_of: str | None = Field(
        None,
        description="instead of `source`: build a same-class-or-not pair task from this task",
    )
    text_a: str = Field("text", description="column of the text, or of a pair's first text")
    text_b: str | None = Field(None, description="column of a pair's second text")
    label: str = Field("label", description="column of the label")
    type: Literal["classification", "regression"] = Field(
        "classification", description="predict one of several classes, or a score"
    )
    labels: Labels | None = Field(
        None,
        description="stored label: class name, or the list of labels; also fixes the classes and their order",
    )
    filter: dict[str, Any] = Field({}, description="column: value, or list of values, of the rows to keep")
    further: dict[Name, str] = Field(
        {},
        description="name: split of the source (labelled) on which models are evaluated too, as a task of "
        "that name with this task's classifier, in the table `iat`",
    )
    test: dict[Name, str] = Field(
        {},
        description="name of a prediction file of the GLUE server, such as `CoLA`: split of the source, "
        "labels not needed, whose predictions `snakemake submission` writes to it; `<subset>/<split>` is "
        "one of another subset of the hub data set; `filter` does not apply",
    )
    metrics: Annotated[Distinct[Metric], Field(min_length=1)] | None = Field(
        None, description="the first is the main one; default accuracy, or Spearman for regression"
    )
    train_examples: Count | None = Field(None, description="at most this many training examples")
    validation_examples: Count | None = Field(
        None, description="at most this many validation examples, or the size of the held-out part"
    )

    @property
    def all_metrics(self) -> list[str]:
        if self.metrics:
            return list(self.metrics)
        return ["accuracy"] if self.type == "classification" else ["spearman", "pearson"]

    @property
    def paradigm(self) -> Literal["single", "pair"]:
        """Whether an example is one text or two."""
        return "pair" if self.text_b or self.pairs_of else "single"


class Mixtures(Section):
    """Which tasks share an encoder."""

    pairs: Distinct[str] = Field([], description="every pair of these tasks is a mixture")
    groups: dict[Name, Distinct[str]] = Field({}, description="name: tasks of a mixture of any size")
    single: Distinct[str] = Field([], description="tasks that are also trained alone (method `single`)")


class FrozenTraining(Section):
    """What differs when only the classifiers learn."""

    learning_rate: Positive = Field(1e-3, description="peak, decays linearly to 0")
    epochs: Count = Field(10, description="passes over the training examples")


class Training(Section):
    """Fine-tuning."""

    epochs: Count = Field(3, description="passes over the training examples")
    batch_size: Count = Field(32, description="examples per step, all of one task")
    learning_rate: Positive = Field(2e-5, description="peak, decays linearly to 0")
    weight_decay: NotNegative = Field(0.0, description="of AdamW")
    warmup: PartBelowOne = Field(0.0, description="part of the steps over which the rate rises")
    clip: Positive | None = Field(1.0, description="largest norm of the gradient; `null` does not clip it")
    sampling: Sampling = Field(
        "proportional", description="how often each task's batches come (Stickland & Murray 2019)"
    )
    checkpoint_minutes: NotNegative = Field(
        5.0, description="time between checkpoints, from which an interrupted run continues"
    )
    frozen: FrozenTraining = FrozenTraining()


class Importance(Section):
    """Head importance: the gradient of the loss with respect to a gate on the head."""

    samples: Annotated[int, Field(ge=10), NUMBER] = Field(
        10_000, description="training samples per task (all, where a task has fewer)"
    )


class Pruning(Section):
    """Important attention-head pruning (IAP)."""

    fraction: Fraction = Field(0.3, description="main fraction of heads to prune")
    fractions: Distinct[Fraction] = Field(
        [0.1, 0.2, 0.3, 0.4, 0.5], description="fractions of the curves of top and bottom heads"
    )
    draws: Annotated[int, Field(ge=2), NUMBER] = Field(
        20, description="random masks at the main fraction, of each kind"
    )
    draw_examples: Annotated[int | None, Field(ge=1), NUMBER] = Field(
        None,
        description="validation examples per task under each random mask, another part for each, so "
        "that all take part in turn; all of them by default",
    )


class Dissociation(Section):
    """Statistics of the pruning matrix."""

    resamples: Annotated[int, Field(ge=100), NUMBER] = Field(
        2000, description="bootstrap resamples, and permutations, of the validation examples"
    )
    confidence: Annotated[float, Field(gt=0, lt=1), NUMBER] = Field(
        0.95, description="level of the intervals"
    )
    distinct: Fraction = Field(0.10, description="mean dissociation from which a dissociation is distinct")


class Similarity(Section):
    """How alike tasks are, to be correlated with how they dissociate; over the tasks of `mixtures.pairs`."""

    measures: Distinct[Measure] = Field(
        [],
        description="measures of similarity; all but `paradigm` and `text` add a run of method `single` for "
        "each task of `mixtures.pairs`; `cnm` needs `brain`",
    )
    probe: str | None = Field(
        None,
        description="text file with one sentence a line, on which `dse`, `rsa` and `cka` compare models; by "
        "default sentences of the validation texts of the tasks of `mixtures.pairs`, as many of each if "
        "there are",
    )
    probe_sentences: Annotated[int, Field(ge=10), NUMBER] = Field(
        600, description="at most this many sentences of the probe"
    )
    samples: Annotated[int, Field(ge=10), NUMBER] = Field(
        500, description="training samples per task of `text`, `fisher` and `gradient`"
    )

    def asked(self, rule: str) -> list[Measure]:
        """The measures of the config that rest on what `rule` makes."""
        return [measure for measure in self.measures if measure in MEASURED_BY[rule]]


class Brain(Section):
    """Brain responses to texts, for cognitive-neural mapping (`cnm`); none by default."""

    stimuli: str = Field(
        description="table (Parquet, CSV, TSV, JSON lines) with columns stimulus_id and text, in the order "
        "of presentation; stimuli with the same value in a column passage stay in one fold"
    )
    responses: str = Field(
        description="Parquet table with columns subject, stimulus_id and voxels (a list of numbers); several "
        "rows of a subject and stimulus are repetitions and are averaged"
    )
    regression: Literal["ridge", "network"] = Field(
        "ridge",
        description="from sentence vectors to voxels: ridge with a penalty for each voxel, or the network "
        "with one hidden layer of Luo et al. (2022)",
    )
    folds: Annotated[int, Field(ge=2), NUMBER] = Field(
        5, description="of cross-validation, contiguous in the order of the stimuli"
    )
    voxels: Literal["all", "reliable"] = Field(
        "all",
        description="`reliable`: only voxels that other subjects' responses predict, within the training "
        "part of each fold",
    )
    nuisance: Distinct[str] = Field(
        [],
        description="what is regressed out of responses and vectors: `length` (characters), `position` (in "
        "the passage, or among all), `frequency` (mean log frequency of the words, in the training texts of "
        "the compared tasks), or numeric columns of the stimuli",
    )


class IAT(Section):
    """Important attention-head training: the end of training again, each task moving only its own heads.

    It goes on from a `tuned` run, whose own end is what it is compared with.
    """

    mixtures: Distinct[str] = Field(
        [],
        description="mixtures, by name (`a+b` of `mixtures.pairs`, or a group), that are trained so; none by "
        "default. Their tasks are also trained alone (method `single`), to compare",
    )
    alpha: Fraction = Field(0.3, description="part of all heads that a task owns: its most important ones")
    delta: PartBelowOne = Field(0.1, description="part of the training, at its end, in which only they move")
    projections: Literal["qkv", "qkvo"] = Field(
        "qkv",
        description="what of a head is its task's own: its rows of W_Q, W_K and W_V, or also its columns of "
        "W_O, which otherwise trains as everything else",
    )
    controls: Distinct[Literal["bottom", "random", "random-by-layer", "other", "lora"]] = Field(
        ["random"],
        description="the same with other heads: each task's least important, random ones, random ones with "
        "the task's number in each layer, another task's; `lora`: adapters of the same size, not heads",
    )
    alphas: Distinct[Fraction] = Field(
        [], description="more values of alpha to compare, each with every delta"
    )
    deltas: Distinct[PartBelowOne] = Field([], description="more values of delta, each with every alpha")
    samplings: Distinct[Sampling] = Field(
        [], description="ways of sampling tasks to compare with `training.sampling`, with and without IAT"
    )
    reserve: PartBelowOne = Field(
        0.2,
        description="part of the training before which its state is kept: the largest delta that can be had "
        "without training again",
    )


class Transfer(Section):
    """Few-shot transfer: how well encoders learn a task that they have not seen, from a few examples."""

    tasks: Distinct[str] = Field(
        [],
        description="tasks to learn so, none by default; neither they nor tasks made of their texts may be "
        "in a mixture of `iat.mixtures`",
    )
    samples: Annotated[Distinct[Count], Field(min_length=1)] = Field(
        [4, 16, 32, 100],
        description="training examples; of one draw, fewer are among more, and every class is there",
    )
    draws: Annotated[int, Field(ge=2), NUMBER] = Field(
        5, description="random draws of the examples, the same for every encoder and seed"
    )
    methods: Annotated[
        Distinct[
            Literal[
                "pretrained",
                "single",
                "tuned",
                "iat",
                "iat-bottom",
                "iat-random",
                "iat-random-by-layer",
                "iat-other",
                "lora",
            ]
        ],
        Field(min_length=1),
    ] = Field(
        ["pretrained", "single", "tuned", "iat"],
        description="whose encoders: `pretrained`, as it is; `single`, after each task of `iat.mixtures` "
        "alone; `tuned` and `iat`, after each of these mixtures; or a control of `iat.controls`",
    )
    tuning: Annotated[Distinct[Literal["full", "linear"]], Field(min_length=1)] = Field(
        ["full", "linear"],
        description="what learns: `full`, the encoder and a new classifier; `linear`, a linear head on the "
        "encoder's fixed vectors, logistic regression or ridge",
    )
    steps: Count = Field(
        100, description="of `full`, for any number of examples, so that more of them are not more training"
    )
    batch_size: Count = Field(16, description="of `full`, examples per step at most")
    learning_rate: Positive | None = Field(
        None, description="of `full`, peak; by default, and all else in any case, as in `training`"
    )
    penalty: Positive = Field(
        1.0,
        description="of `linear`, on its squared weights, against the sum of losses; vectors are scaled to a "
        "mean variance of 1, so that it means the same for every encoder",
    )


class Figures(Section):
    """The look of the figures."""

    formats: Annotated[Distinct[Literal["svg", "png", "pdf"]], Field(min_length=1)] = Field(
        ["svg", "png"], description="file types in which every figure is written"
    )
    dpi: Annotated[int, Field(ge=50), NUMBER] = Field(200, description="resolution of PNG files")
