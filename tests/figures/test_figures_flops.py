"""The pictures of work and time: what they compute is right, what they cannot draw they refuse."""

import numpy as np
import pytest
from helpers.figure_text import legend, texts

from utils.figures import flops as figures


def test_rates_are_labelled_with_their_factor():
    figure = figures.rates({"slow": 2e6, "fast": 3e9}, title="here")
    assert texts(figure) == ["2 MFLOP/s   ×1", "3 GFLOP/s   ×1,500"]
    assert figure.axes[0].get_xscale() == "log" and figure.axes[0].get_title(loc="left") == "here"


def test_shares_fill_each_bar_to_100_percent():
    figure = figures.shares({"work": {"a": 1, "b": 3}, "time": {"a": 5.0, "b": 0.1}})
    widths = np.array([bar.get_width() for bar in figure.axes[0].patches]).reshape(2, 2)  # part, row
    assert widths[:, 0].tolist() == [25, 75]
    assert widths.sum(axis=0) == pytest.approx([100, 100])
    assert texts(figure) == ["25.0 %", "98.0 %", "75.0 %", ""]  # a sliver is not labelled
    assert legend(figure) == ["a", "b"]


def test_anatomy_stacks_parts_and_writes_the_sum():
    figure = figures.anatomy({"plain": {"forward": 2, "backward": 4}, "frozen": {"forward": 2, "input": 2}})
    bars = [(bar.get_x(), bar.get_width()) for bar in figure.axes[0].patches]
    assert bars == [(0, 2), (0, 2), (2, 4), (2, 0), (6, 0), (2, 2)]
    assert texts(figure) == ["6", "4"] and legend(figure) == ["forward", "backward", "input"]


def test_where_6nd_bends_draws_percent_over_the_law():
    figure = figures.where_6nd_bends({"counted": ([0.5, 6], [0.0833, 1.0])}, {"model": (16, 2.47)})
    line, dots, mark = figure.axes[0].lines[:3]
    assert np.allclose(line.get_ydata(), 100 * np.asarray(line.get_xdata()) / 6)
    assert line.get_xdata()[0] < 0.5 and line.get_xdata()[-1] > 16
    assert list(dots.get_ydata()) == pytest.approx([8.33, 100])
    assert list(mark.get_ydata()) == pytest.approx([247])
    assert "model" in texts(figure)


def test_roofline_bends_at_the_ridge_and_holds_its_points():
    figure = figures.roofline({"chip": (1e12, 1e11), "other": (1e12, 2e11)}, {"add": (0.1, 5e9)}, title="roofs")
    roof = figure.axes[0].lines[0]
    x, y = map(np.asarray, (roof.get_xdata(), roof.get_ydata()))
    assert y[0] / x[0] == pytest.approx(1e11) and x[1:].tolist()[0] == 10 and y[1:].tolist() == [1e12, 1e12]
    assert roof.get_markevery() == [1] and figure.axes[0].get_ylim()[0] < 5e9
    assert legend(figure) == [
        "chip: 1 TFLOP/s, 100 GB/s, ridge at 10",
        "other: 1 TFLOP/s, 200 GB/s, ridge at 5",
    ]
    assert texts(figure) == ["add"] and list(figure.axes[0].lines[-1].get_xdata()) == [0.1]
    assert figure.axes[0].get_xlim()[0] <= 0.05


def test_roofline_without_points_draws_the_roofs():
    assert len(figures.roofline({"chip": (1e12, 1e11)}).axes[0].lines) == 1


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: figures.rates({"stopped": 0.0}), "stopped: rate 0.0 is not positive"),
        (lambda: figures.rates({"lost": float("nan")}), "lost: rate nan"),
        (lambda: figures.roofline({"chip": (1e12, -1.0)}), r"chip\[1\]: roofline value -1.0"),
        (lambda: figures.roofline({"chip": (1e12, 1e11)}, {"copy": (0.0, 1e9)}), r"copy\[0\]: roofline value 0.0"),
    ],
)
def test_what_a_logarithmic_axis_cannot_hold_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
