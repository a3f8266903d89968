"""The section `similarity`."""

from typing import Annotated

from pydantic import Field

from headspec.config.measures.similarity import MEASURES, seedless
from headspec.config.sections.base import NUMBER, Distinct, OneOf, Section

Measure = Annotated[str, OneOf("headspec.config.measures.similarity:MEASURES", plugged=True)]


class Similarity(Section):
    """Similarity of the tasks of `mixtures.pairs`, to correlate with their dissociation."""

    measures: Distinct[Measure] = Field(
        [], description="[measures](similarity.md); `cnm` needs the section `brain`"
    )
    sentences: str | None = Field(
        None,
        description="text file, a sentence per line, on which `dse`, `rsa` and `cka` compare models; by "
        "default validation texts, as many of each task",
    )
    max_sentences: Annotated[int, Field(ge=10), NUMBER] = Field(
        600, description="most sentences, drawn at random"
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

    def asked(self, rule: str) -> list[Measure]:
        """Return the configured measures that use the output of `rule`."""
        return [measure for measure in self.measures if MEASURES[measure].trait.rule == rule]
