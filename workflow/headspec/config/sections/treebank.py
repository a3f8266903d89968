"""The section `atlas.treebank`."""

from pydantic import Field

from headspec.config.sections.base import Section


class Treebank(Section):
    """Sentences with dependency trees."""

    source: str = Field(description="a CoNLL-U file (`*.conllu`), or a table or folder as for tasks")
    subset: str | None = Field(None, description="configuration of a hub treebank, such as `en_ewt`")
    split: str = Field("validation", description="split of a hub treebank, or file stem in a folder")
    words: str = Field("words", description="column of a sentence's words")
    head: str = Field("head", description="column of the number of each word's head, 0 for the root")
    relation: str = Field("deprel", description="column of each word's relation to its head")
