"""The pictures of debugging: what is drawn is what was given, what cannot be drawn is refused."""

import pytest
from helpers.figure_text import legend, texts, words

from utils.figures import debugging as figures


def test_gradient_norms_draws_each_network_on_a_logarithmic_axis():
    figure = figures.gradient_norms({"vanishing": [1e-9, 1e-4, 1.0], "healthy": [2.0, 3.0, 2.0]})
    (axes,) = figure.axes
    assert axes.get_yscale() == "log" and legend(figure) == ["vanishing", "healthy"]
    assert [list(line.get_ydata()) for line in axes.lines] == [[1e-9, 1e-4, 1.0], [2.0, 3.0, 2.0]]
    assert list(axes.lines[0].get_xdata()) == [1, 2, 3]


def test_patching_map_writes_each_share_into_its_place():
    figure = figures.patching_map([[-0.0, 1], [0.25, 0]], layers=["input", "copy"])
    axes = figure.axes[0]
    assert axes.images[0].get_array().tolist() == [[0, 1], [0.25, 0]] and axes.images[0].get_clim() == (0, 1)
    assert texts(figure) == ["0", "1", "0.25", "0"]
    assert [text.get_position() for text in axes.texts] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["input", "copy"]


def test_patching_map_wants_a_name_for_each_row():
    with pytest.raises(ValueError, match="2 rows of the map and 1 names"):
        figures.patching_map([[0, 1], [1, 0]], layers=["input"])


def test_step_shares_stacks_the_parts_and_draws_what_computes_below():
    parts = {"data": 1_000_000, "forward": 2_000_000, "backward": 4_000_000, "optimizer": 2_000_000, "idle": 1_000_000}
    figure = figures.step_shares(parts, computing=6_000_000)
    boxes = [(patch.get_x(), patch.get_width()) for patch in figure.axes[0].patches]
    assert boxes == [(0, 1), (1, 2), (3, 4), (7, 2), (9, 1), (0, 6)]
    assert legend(figure) == ["data 10%", "forward 20%", "backward 40%", "optimizer 20%", "idle 10%"]
    assert "60%" in words(figure) and figure.axes[0].get_xlim() == (0, 10)


def test_loss_curves_draws_the_first_run_thick():
    figure = figures.loss_curves({"healthy": [1.0, 0.1], "broken": [1.0, 0.9]})
    (axes,) = figure.axes
    thick, thin = axes.lines
    assert [list(line.get_ydata()) for line in (thick, thin)] == [[1.0, 0.1], [1.0, 0.9]]
    assert thick.get_linewidth() > thin.get_linewidth() and axes.get_yscale() == "log"
    assert legend(figure) == ["healthy", "broken"]
