"""The figure of few-shot transfer: its lines are the means of the table."""

import numpy as np

from headspec.plots import transfer
from support.data.transfers import METHODS, summarised
from support.figures import NINE, labelled


def test_lines_are_the_means_of_the_table():
    means = summarised({"glue": NINE}, METHODS)
    axes = transfer.draw_transfer(means, "t", {"t": "accuracy"}, {}).axes
    assert [panel.get_title() for panel in axes] == ["full fine-tuning", "linear classifier"]
    (line,) = labelled(axes[1], "multi-task + IAT")
    rows = means[(means["method"] == "iat") & (means["tuning"] == "linear")].sort_values("samples")
    np.testing.assert_allclose(line.get_ydata(), 100 * rows["value"])
    np.testing.assert_allclose(line.get_xdata(), rows["samples"], rtol=0.2)
    assert len(labelled(axes[0], "single-task, each")) == len(NINE)
    assert labelled(axes[0], "chance")[0].get_ydata()[0] == 50


def test_close_tick_labels_are_left_out():
    assert transfer._tick_labels([4, 16, 32, 100]) == ["4", "16", "32", "100"]
    assert transfer._tick_labels([4, 5, 100, 101]) == ["4", "", "100", ""]
    assert transfer._tick_labels([8]) == ["8"]
