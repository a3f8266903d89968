"""Style shared by the figures: colours, names, layout, legends and saving.

No figure relies on hue alone: tasks also differ by marker and lightness, methods by lightness and hatch,
orders by line style, so nothing is lost in grey.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LinearSegmentedColormap, same_color, to_hex, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from headspec import tables
from headspec.config.values import MEAN
from headspec.numbers import number
from headspec.provenance import files
from headspec.provenance.files import atomic

STYLE = Path(__file__).with_name("headspec.mplstyle")
#: decorator and context for drawing and saving every figure; overrides the user's matplotlibrc
styled = matplotlib.rc_context(fname=STYLE)

#: text width of a paper, in inches
PAGE = 6.9
#: metadata that leaves out the date, by format
UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
#: metadata field for free text, by format
DESCRIPTION = {"svg": "Description", "pdf": "Subject", "png": "Description"}
#: text after the end of a figure that readers ignore, by format
AFTER_END = {"svg": "<!-- {} -->\n", "pdf": "% {}\n", "png": "{}"}

#: white to mid blue, on which black text and outlines stand out
SHADES = LinearSegmentedColormap.from_list("headspec", ["#ffffff", "#9ecae1", "#4292c6"])
#: orange below zero, blue above; equally light, so signs are marked, too
SIGNED = LinearSegmentedColormap.from_list(
    "headspec signed", ["#e08214", "#fdd0a2", "#ffffff", "#9ecae1", "#4292c6"]
)
#: Tol's muted scheme, colour-blind safe, ordered so that neighbours differ in lightness
COLOURS = ("#332288", "#cc6677", "#117733", "#ddaa33", "#882255", "#88ccee", "#44aa99", "#999933", "#aa4499")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*")
#: id of artists that exist only for the legend
KEY = "key"
#: (mixture, task): row
Rows = dict[tuple[str, str], int]


def task_style(tasks: Sequence[str], task: str) -> dict[str, Any]:
    """Return colour and marker of `task`, one of the `tasks` of a figure."""
    index = tasks.index(task)
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def at_fraction(frame: pd.DataFrame, fraction: float) -> pd.DataFrame:
    """Return the rows of `frame` at one fraction of pruned heads."""
    return frame[(frame["fraction"] - fraction).abs() < 1e-9]


def wildcard_rows(frame: pd.DataFrame, wildcards: Any) -> pd.DataFrame:
    """Return the rows of `frame` for the job's model, mixture, method and task, if both have them."""
    for name in ("model", "mixture", "method", "task"):
        if (value := wildcards.get(name)) and name in frame:
            frame = frame[frame[name] == value]
    return frame


def stacked(seeds: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return the tables of several seeds as one, with a column `seed`."""
    return pd.concat([frame.assign(seed=seed) for seed, frame in seeds.items()], ignore_index=True)


def in_order(names: Iterable[str], order: Collection[str]) -> list[str]:
    """Return `names` in `order`, each once; names not in `order` follow."""
    names = dict.fromkeys(names)
    return [*(name for name in order if name in names), *(name for name in names if name not in set(order))]


def points(difference: float) -> str:
    """Return a difference of fractions in percentage points, as text with its sign."""
    return ("+" if round(100 * difference, 1) > 0 else "") + number(100 * difference, 1)


def mixture_panels(
    frame: pd.DataFrame, mixtures: Mapping[str, Sequence[str]], label: str
) -> tuple[Figure, dict[str, Axes], Rows]:
    """Return a figure with a panel per model and, under the name of each mixture, a row per task.

    The other values are {model: axes} and {(mixture, task): y of its row}. `mixtures` gives the order of
    rows; other mixtures of `frame` follow. `label`, of the x axis, includes its unit.
    """
    rows: Rows = {}
    labels: list[str] = []
    headings: list[int] = []
    by_mixture = {str(mixture): list(tasks.unique()) for mixture, tasks in frame.groupby("mixture")["task"]}
    for mixture in in_order(by_mixture, mixtures):
        tasks = in_order(by_mixture[mixture], (*mixtures.get(mixture, ()), MEAN))
        headings.append(len(labels))
        rows |= {(mixture, task): len(labels) + 1 + i for i, task in enumerate(tasks)}
        labels += [mixture, *tasks]
    models = list(frame["model"].unique())
    label_width = max(1.15, 0.062 * max(map(len, labels)))
    size = (label_width + 2.2 * len(models), 0.85 + 0.17 * len(labels))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
    panels[0].set_yticks(range(len(labels)), labels)
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    for heading in headings:
        panels[0].get_yticklabels()[heading].set_fontweight("bold")
    for axes, model in zip(panels, models, strict=True):
        axes.set_title(model)
        axes.set_xlabel(label)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        for heading in headings[1:]:
            axes.axhline(heading - 0.5, color="0.7", linewidth=0.5)
    return figure, dict(zip(models, panels, strict=True)), rows


def heights(rows: Rows, results: pd.DataFrame, lane: int, lanes: int) -> NDArray[np.float64]:
    """Return y of `results`, (n,), in one of the `lanes` that share 0.8 of the height of their rows."""
    ys = [rows[key] for key in zip(results["mixture"], results["task"], strict=True)]
    return np.array(ys) + 0.8 * ((lane + 0.5) / lanes - 0.5)


def interval_label(frame: pd.DataFrame) -> str:
    """Return the legend entry for the intervals of `frame`, from its column `ci_over`."""
    return f"interval over {' or '.join(sorted(frame['ci_over'].dropna().unique()))}"


def draw_intervals(axes: Axes, ys: ArrayLike, rows: pd.DataFrame, label: str = "", **look: Any) -> None:
    """Draw intervals of `rows` in per cent at heights `ys`; by default, `label` is taken from the rows."""
    low, high = 100 * rows["ci_low"], 100 * rows["ci_high"]
    axes.hlines(ys, low, high, color="black", label=label or interval_label(rows), **look)


def draw_upright(axes: Axes, x: Any, low: Any, high: Any, lane: int = 0, lanes: int = 1, **look: Any) -> None:
    """Draw intervals at `x` for one of `lanes` lines that share their x; those of later lines are thinner.

    All intervals are at their exact x, and none hides another.
    """
    width = 0.8 + (2.4 * (lanes - 1 - lane) / (lanes - 1) if lanes > 1 else 0)
    axes.vlines(x, low, high, linewidth=width, alpha=0.5, **look)


def key(axes: Axes, label: str, **look: Any) -> None:
    """Add a legend entry for a property of several marks, such as being hollow."""
    axes.plot([], label=label, **look)[0].set_gid(KEY)


def legend(figure: Figure) -> None:
    """Draw one legend under `figure` for all labels in its axes, in as few rows as its width allows.

    Labels of which nothing is drawn are left out; the entry for marks of several colours is grey.
    """
    labelled: dict[str, list[Artist]] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if _is_drawn(handle):
                labelled.setdefault(label, []).append(handle)
    entries = {label: _entry(handles) for label, handles in labelled.items()}
    for rows in range(1, len(entries) + 1):
        columns = math.ceil(len(entries) / rows)
        box = figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
        if columns == 1 or box.get_window_extent().width <= figure.bbox.width:
            more = max(0, rows - 2)  # two rows fit
            figure.set_figheight(figure.get_figheight() + 0.17 * more)
            return
        box.remove()


def _is_drawn(handle: Any) -> bool:
    """Return whether a labelled artist is drawn, or exists only for the legend."""
    if isinstance(handle, Artist) and handle.get_gid() == KEY:
        return True
    if isinstance(handle, Line2D):
        places = np.column_stack([handle.get_xdata(), handle.get_ydata()])
    elif isinstance(handle, LineCollection):
        places = np.concatenate([np.empty((0, 2)), *(path.vertices for path in handle.get_paths())])
    elif isinstance(handle, PathCollection):
        places = np.asarray(handle.get_offsets())
    else:
        return True
    return bool(np.isfinite(places.astype(float)).all(axis=1).any())


def _entry(handles: Sequence[Any]) -> Any:
    """Return the first of the artists with the same label; if lines differ in colour, a grey copy."""
    lines = [handle for handle in handles if isinstance(handle, Line2D | LineCollection)]
    if len({to_hex(colour) for line in lines for colour in to_rgba_array(line.get_color())}) < 2:
        return handles[0]
    grey, first = Line2D([], [], color="0.3"), lines[0]
    if isinstance(first, LineCollection):
        grey.set_linewidth(np.ravel(first.get_linewidth())[0])
        return grey
    grey.update_from(first)
    fill = {} if same_color(first.get_markerfacecolor(), "white") else {"markerfacecolor": "0.3"}
    grey.set(color="0.3", markeredgecolor="0.3", **fill)
    return grey


def keep_margins(figure: Figure) -> None:
    """Leave a margin also below the base of bars, where marks on the border would be cut off."""
    for axes in figure.axes:
        if not axes.images and axes.get_label() != "<colorbar>":
            axes.use_sticky_edges = False
            axes.autoscale_view()


def colour_bar(figure: Figure, image: Any, label: str, **place: Any) -> Colorbar | None:
    """Draw and return a colour bar for `image`, unless all its values are missing."""
    if not np.isfinite(np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)).any():
        return None
    bar = figure.colorbar(image, **place)
    bar.set_label(label)
    return bar


@styled
def save(figure: Figure, paths: Iterable[str | Path], dpi: int, record: dict[str, Any] | None = None) -> None:
    """Write `figure` to each of `paths`, in the format of its suffix (.svg, .png, .pdf).

    The same figure gives the same bytes: no date is written, and ids are derived from the content. The
    metadata contain `record`, that of the job that draws it (`tables.job_record`); the SHA-256 of the file
    follows the end of the figure. Bars get a margin below their base (`keep_margins`).
    """
    keep_margins(figure)
    for path in map(Path, paths):
        file_format = path.suffix.removeprefix(".")
        metadata: dict[str, Any] = {**UNDATED[file_format]}
        if record:
            metadata[DESCRIPTION[file_format]] = tables.record_text(record)
        with atomic(path) as temporary:
            figure.savefig(temporary, format=file_format, dpi=dpi, metadata=metadata)
            with open(temporary, "a", encoding="utf-8") as file:
                file.write(AFTER_END[file_format].format(files.PLACEHOLDER))
            files.embed_sha256(temporary)
