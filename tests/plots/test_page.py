"""The page of a notebook: curves, maps and tables below their headings."""

import numpy as np
import pandas as pd
import pytest

import headspec


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({(0, 1): np.ones((1, 3, 3))}, "got dict, expected numbers"),
        (0.5, r"got \(\), expected \(layers, heads\)"),
        ([[1.0], [2.0, 3.0]], r"got rows of different lengths, expected \(layers, heads\)"),
    ],
    ids=str,
)
def test_what_a_page_cannot_show_is_named_by_its_heading(part, message, tmp_path):
    parts = {"Scores": np.eye(3), "Table": pd.DataFrame({"a": [1]}), "Weights": part}
    with pytest.raises(ValueError, match=f"^parts: 'Weights' is neither a table nor scores: {message}"):
        headspec.write_page(tmp_path / "page.html", parts)
    assert not [*tmp_path.iterdir()]
    headspec.write_page(tmp_path / "page.html", {name: parts[name] for name in ("Scores", "Table")})
    text = (tmp_path / "page.html").read_text()
    assert text.index("<h2>Scores") < text.index("<svg") < text.index("<h2>Table") < text.index("<td>1")
