"""Names of tasks, artificial tables, and helpers to inspect figures."""

from __future__ import annotations

import itertools

import pandas as pd
import pyarrow as pa
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from support.schemas import SCHEMAS

SMALL = ["sentiment", "topic-pair"]
LARGE = ["mnli", "qqp", "qnli", "topic-pair", "sst2"]
NINE = ["cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"]
LONG = ["rotten-tomatoes-sentences", "topic-pair-of-bbc-news", "imdb"]


def frame(name: str, rows: list[dict]) -> pd.DataFrame:
    """Rows as the table `name`, with the columns and types of its schema; missing values are null."""
    columns = SCHEMAS[name].columns
    values = {column: [row.get(column) for row in rows] for column in columns}
    return pa.table(values, schema=pa.schema(list(columns.items()))).to_pandas()


def labelled(axes, label: str) -> list:
    """Artists of `axes` with this legend entry."""
    handles, labels = axes.get_legend_handles_labels()
    return [handle for handle, entry in zip(handles, labels, strict=True) if entry == label]


def texts(figure) -> list[tuple[str, Bbox]]:
    """Every drawn text, with its position in pixels."""
    figure.draw_without_rendering()
    beyond = set()  # tick labels outside the axes exist, but are not drawn
    for axes, name in itertools.product(figure.axes, "xy"):
        axis = getattr(axes, f"{name}axis")
        low, high = sorted(axis.get_view_interval())
        beyond |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
        beyond |= {tick.label2 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    visible = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in visible if text not in beyond]
