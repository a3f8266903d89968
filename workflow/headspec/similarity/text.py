"""TextEmb: how alike the texts of two tasks are to the pretrained model."""

from headspec.similarity.traits import Traits, cosine


def text(a: Traits, b: Traits) -> float:
    """Cosine between the mean pretrained vectors of the tasks' training texts (TextEmb; Vu et al. 2020)."""
    return cosine(a["text"], b["text"])
