"""Reading the lists of heads that a config names, before any job."""

from __future__ import annotations

import contextlib

import pandas as pd

from headspec.config.sources import locate
from headspec.config.study import Study
from headspec.data.sources.formats import registry
from headspec.data.sources.formats.options import Options
from headspec.errors import DataError, HeadspecError, listing
from headspec.heads import head_count
from headspec.heads.listed import closed

COLUMNS = ["layer", "head"]


def read_head_list(source: str, key: str) -> list[list[int]]:
    """Read the table `source` and return [layer, head] of each listed head, from 0.

    Raises DataError, naming the config `key`, if the table is missing, empty, invalid, or repeats a head.
    """
    path = locate(source, key)

    def columns(present: list[str]) -> list[str]:
        if missing := [name for name in COLUMNS if name not in present]:
            raise DataError(f"{key}: no column {listing(missing)} in {path.name}; it has {listing(present)}")
        return COLUMNS

    frame = registry.table([path], columns, Options(key))
    numbers = frame.apply(pd.to_numeric, errors="coerce").astype(float)
    wrong = frame[(numbers.isna() | (numbers < 0) | (numbers % 1 != 0)).any(axis=1)]
    if frame.empty or len(wrong):
        got = f"layer {wrong.iloc[0, 0]}, head {wrong.iloc[0, 1]}" if len(wrong) else "no rows"
        raise DataError(f"{key}: {path.name} has {got}; expected numbers of layers and heads, from 0")
    if len(twice := frame[numbers.duplicated()]):
        raise DataError(f"{key}: {path.name} has layer {twice.iloc[0, 0]}, head {twice.iloc[0, 1]} twice")
    return numbers.astype(int).to_numpy().tolist()


def check_head_lists(study: Study) -> None:
    """Read all lists of a study and compare them with the models; raise HeadspecError if any is wrong."""
    errors: list[HeadspecError] = []
    for name, model in study.models.items():
        there = None
        with contextlib.suppress(HeadspecError):  # reported with the model
            there = head_count.exists(model, f"models.{name}")
        for of, source in model.heads.items():
            key = f"models.{name}.heads.{of}"
            try:
                heads = read_head_list(source, key)
                if there is not None:
                    closed(heads, there, key)
            except DataError as error:
                errors += error.errors
    if errors:
        raise HeadspecError.combined(errors)
