"""The section `similarity`, and the rules that its measures depend on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Distinct, Section

Measure = Literal[
    "paradigm", "text", "dse", "rsa", "cka", "fisher", "head-fisher", "gradient", "importance", "top-heads",
    "cnm",
]  # fmt: skip


#: rule of the workflow: the measures that use its output
MEASURED_BY: dict[str, tuple[Measure, ...]] = {
    "text_embedding": ("text",),
    "representations": ("dse", "rsa", "cka"),
    "sensitivity": ("fisher", "gradient"),
    "importance": ("head-fisher", "importance", "top-heads"),
    "brain_encoding": ("cnm",),
}
#: rules that use a model of each task trained alone
USES_SINGLE_MODELS = ("representations", "sensitivity", "importance", "brain_encoding")


class Similarity(Section):
    """Similarity of the tasks of `mixtures.pairs`, to correlate with their dissociation."""

    measures: Distinct[Measure] = Field(
        [],
        description="measures of similarity; all but `paradigm` and `text` also train each task of "
        "`mixtures.pairs` alone (method `single`); `cnm` needs the section `brain`",
    )
    sentences: str | None = Field(
        None,
        description="text file, one sentence per line, on which `dse`, `rsa` and `cka` compare models; by "
        "default validation texts of the tasks of `mixtures.pairs`, the same number from each where possible",
    )
    max_sentences: Annotated[int, Field(ge=10), NUMBER] = Field(
        600, description="maximum number of sentences, drawn at random"
    )
    samples: Annotated[int, Field(ge=10), NUMBER] = Field(
        500, description="training samples per task for `text`, `fisher` and `gradient`"
    )

    @property
    def compares_models(self) -> bool:
        """Whether a configured measure compares models of single tasks."""
        return any(self.asked(rule) for rule in USES_SINGLE_MODELS)

    def asked(self, rule: str) -> list[Measure]:
        """The configured measures that use the output of `rule`."""
        return [measure for measure in self.measures if measure in MEASURED_BY[rule]]
