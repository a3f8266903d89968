"""The section `probes`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Distinct, Section


class Probes(Section):
    """Probes without parameters of single heads, on tasks on words, which `snakemake probes` makes."""

    methods: Annotated[Distinct[Literal["tuned", "frozen", "single", "iat", "even"]], Field(min_length=1)] = (
        Field(
            ["tuned", "single"],
            description="methods whose models are probed, beside the pretrained encoder and one with random "
            "weights",
        )
    )
    mixtures: Distinct[str] = Field([], description="mixtures, or tasks alone, to probe; by default all")
    sentences: Annotated[int, Field(ge=40), NUMBER] = Field(
        1000, description="most sentences of a task to fit probes on, and to score"
    )
