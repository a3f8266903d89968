"""Names of tasks, random tables, and helpers to inspect figures."""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from headspec.plots.drawing.style import save
from headspec.tables import FLAG, FLOAT
from support.schemas import SCHEMAS

SMALL = ["sentiment", "topic-pair"]
LARGE = ["mnli", "qqp", "qnli", "topic-pair", "sst2"]
NINE = ["cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"]
LONG = ["rotten-tomatoes-sentences", "topic-pair-of-bbc-news", "imdb"]


def frame(name: str, rows: list[dict]) -> pd.DataFrame:
    """Rows as the table `name`, with the columns and types of its schema; missing values are null."""
    return pa.Table.from_pylist(rows, schema=pa.schema(SCHEMAS[name].columns)).to_pandas()


def made(name: str, seed: int = 0, /, **columns: object) -> pd.DataFrame:
    """Random rows of the table `name`, one for each combination of those `columns` that are lists.

    Other numbers are between 0 and 1, most p near 0, ends of intervals 0.05 from the value before them; flags
    are mostly false, and text is null.
    """
    rng, lists = (
        np.random.default_rng(seed),
        {n: v for n, v in columns.items() if isinstance(v, list | range)},
    )
    rows = pd.DataFrame(list(itertools.product(*lists.values())), columns=list(lists))
    rows, before = rows.assign(**{n: v for n, v in columns.items() if n not in lists}), ""
    schema = SCHEMAS[name].columns
    for column, kind in schema.items():
        value, _, end = column.rpartition("_")
        if column in rows:
            continue
        if end in ("low", "high"):
            rows[column] = rows[value if value in rows else before] + (0.05 if end == "high" else -0.05)
        elif kind == FLOAT:
            rows[before := column] = rng.random(len(rows)) ** (3 if column.startswith("p_") else 1)
        elif column == "below_chance":  # of few models, and only of those at chance
            rows[column] = False
        else:
            rows[column] = rng.random(len(rows)) < 0.3 if kind == FLAG else None
    return pa.Table.from_pandas(rows, pa.schema(schema), preserve_index=False).to_pandas()


def words(artists: Iterable[Text]) -> list[str]:
    """What is written by texts, as those of tick labels, titles and legends."""
    return [text.get_text() for text in artists]


def outlines(axes) -> list[tuple[float, float]]:
    """(column, row) of every outlined cell."""
    patches = [patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    return [(patch.get_x() + 0.5, patch.get_y() + 0.5) for patch in patches]


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


def assert_readable(figure: Figure) -> None:
    """There are texts, which neither overlap nor leave the figure."""
    drawn = texts(figure)
    assert len(drawn) > 5
    words = [text for text, _ in drawn]
    low, high = np.array([box.extents for _, box in drawn]).reshape(-1, 2, 2).swapaxes(0, 1)
    inside = figure.bbox.padded(1)
    beyond = ((low < inside.min) | (high < low) | (high > inside.max)).any(axis=1)
    assert not beyond.any(), [words[i] for i in np.flatnonzero(beyond)]
    low, high = low + 1, high - 1  # they may touch
    meet = ((low[:, None] <= high) & (low <= high[:, None])).all(axis=-1)
    pairs = np.argwhere(np.triu(meet, 1))
    assert not len(pairs), [(words[i], words[j]) for i, j in pairs]


def assert_same_bytes(draw: Callable[[], Figure], folder: Path, *more: str) -> None:
    """Two figures that `draw` gives are the same SVG file, and the same files of `more` formats."""
    for run in ("a", "b"):
        figure = draw()
        save(figure, [folder / run / "f.svg"], 80)
        figure.set_layout_engine("none")  # the layout of the SVG file, which takes longest
        save(figure, [folder / run / f"f.{kind}" for kind in more], 80)
    for kind, start in {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}.items():
        if kind in ("svg", *more):
            content = (folder / "a" / f"f.{kind}").read_bytes()
            assert content.startswith(start)
            assert content == (folder / "b" / f"f.{kind}").read_bytes()
