"""How methods look where a figure draws them side by side."""

from typing import Any

#: by method: look of its markers
METHOD_MARKERS: dict[str, dict[str, Any]] = {
    "tuned": {"marker": "o", "color": "#332288"},
    "lora": {"marker": "P", "color": "#0099aa"},
    "iat": {"marker": "s", "color": "#117733"},
    "frozen": {"marker": "D", "color": "0.45"},
    "single": {"marker": "^", "color": "#882255"},
    "prompted": {"marker": "v", "color": "#aa7700"},
}
#: by method of pairs: look of its bars
BARS: dict[str, dict[str, Any]] = {
    "tuned": {"facecolor": "#77aadd", "edgecolor": "black"},
    "lora": {"facecolor": "#bbddaa", "edgecolor": "black", "hatch": "......"},
    "frozen": {"facecolor": "#e8eef4", "edgecolor": "black", "hatch": "//////"},
    "prompted": {"facecolor": "#ddcc77", "edgecolor": "black"},
}
#: by method: fill of markers whose shape says something else
FILLS = {"tuned": "#77aadd", "lora": "#bbddaa", "frozen": "white", "single": "black", "prompted": "#ddcc77"}
