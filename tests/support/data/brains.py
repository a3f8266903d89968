"""Artificial brain responses: a random linear code of known features, plus noise."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from headspec.similarity.brain.responses import Responses


def smooth(rng: np.random.Generator, shape: tuple[int, int], rho: float = 0.0) -> np.ndarray:
    """Standard normal rows with autocorrelation `rho`."""
    filtered = lfilter([1], [1, -rho], rng.normal(size=(shape[0] + 50, shape[1])), axis=0)[50:]
    return (filtered * np.sqrt(1 - rho**2)).astype(np.float32)


def code(rng: np.random.Generator, features: np.ndarray, voxels: int) -> np.ndarray:
    """Responses (stimuli, voxels) of variance about 1, linear in features (stimuli, d)."""
    weights = rng.normal(size=(features.shape[1], voxels)) / np.sqrt(features.shape[1])
    return (features @ weights).astype(np.float32)


def subjects(*values: np.ndarray) -> dict[str, Responses]:
    return {f"s{i}": Responses(voxels, np.arange(voxels.shape[1]), {}) for i, voxels in enumerate(values)}


def save(folder: Path, responses: dict[str, np.ndarray], **columns: object) -> dict[str, str]:
    """Write files of stimuli and responses; returns their paths as in the config."""
    n = len(next(iter(responses.values())))
    stimuli = {
        "stimulus_id": np.arange(n),
        "text": [f"This is text {'very ' * (i % 4)}{i}." for i in range(n)],
    }
    pd.DataFrame(stimuli | columns).to_csv(folder / "stimuli.csv", index=False)
    rows = [
        (subject, i, voxels)
        for subject, values in responses.items()
        for i, voxels in enumerate(values.tolist())
    ]
    write_responses(folder, rows)
    return {"stimuli": str(folder / "stimuli.csv"), "responses": str(folder / "responses.parquet")}


def write_responses(folder: Path, rows: list[tuple]) -> None:
    frame = pd.DataFrame(rows, columns=["subject", "stimulus_id", "voxels"])
    frame.to_parquet(folder / "responses.parquet")
