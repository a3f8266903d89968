"""The figure of few-shot transfer: its lines are the means of the table, and its texts can be read."""

from __future__ import annotations

import numpy as np
import pytest

from headspec.config.variants import places
from headspec.plots.training import transfer
from support.data.transfers import METHODS, NINE, summarised
from support.figures import assert_readable, assert_same_bytes, labelled

#: half of them, of every kind
CONTROLS = places(["iat-random", "iat-other", "lora", "iat-as-released", "no-dropout"])


def draw(summary, controls):
    return transfer.draw(summary, "t", {"t": "accuracy"}, controls)


def test_lines_are_the_means_of_the_table():
    means = summarised({"glue": NINE}, METHODS)
    axes = draw(means, {}).axes
    assert [panel.get_title() for panel in axes] == ["full fine-tuning", "linear classifier"]
    (line,) = labelled(axes[1], "multi-task + IAT")
    rows = means[(means["method"] == "iat") & (means["tuning"] == "linear")].sort_values("samples")
    np.testing.assert_allclose(line.get_ydata(), 100 * rows["value"])
    np.testing.assert_allclose(line.get_xdata(), rows["samples"], rtol=0.2)
    assert len(labelled(axes[0], "single-task, each")) == len(NINE)
    assert labelled(axes[0], "chance")[0].get_ydata()[0] == 50


@pytest.mark.parametrize(
    ("mixtures", "methods"),
    [
        ({"glue": NINE}, METHODS),
        ({"a+b": ["a", "b"], "a-mixture-with-a-long-name-of-several-words": NINE}, [*METHODS, *CONTROLS]),
        ({}, ["pretrained"]),
    ],
    ids=["glue", "controls", "pretrained"],
)
@pytest.mark.slow
def test_texts_neither_overlap_nor_leave_the_figure(tmp_path, mixtures, methods):
    assert_readable(draw(summarised(mixtures, methods), CONTROLS))
    assert_same_bytes(lambda: draw(summarised(mixtures, methods), CONTROLS), tmp_path)


def test_close_tick_labels_are_left_out():
    assert transfer._tick_labels([4, 16, 32, 100]) == ["4", "16", "32", "100"]
    assert transfer._tick_labels([4, 5, 100, 101]) == ["4", "", "100", ""]
    assert transfer._tick_labels([8]) == ["8"]
