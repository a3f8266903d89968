"""CNM: whether two models' representations predict the same voxels of the brain."""

from headspec.similarity.traits import Traits, cosine


def cnm(a: Traits, b: Traits) -> float:
    """Cosine of the models' encoding scores over a subject's voxels (CogTaskonomy; Luo et al. 2022)."""
    return cosine(a["encoding"], b["encoding"])
