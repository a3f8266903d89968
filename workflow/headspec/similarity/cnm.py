"""CNM: whether two models' representations predict the same places in the brain."""

from headspec.similarity import Traits, cosine


def cnm(a: Traits, b: Traits) -> float:
    """Cosine over a subject's voxels of how well each model predicts them (CogTaskonomy; Luo et al. 2022)."""
    return cosine(a["encoding"], b["encoding"])
