"""The pictures of lecture 00: what they compute and print is right, what they cannot draw they refuse."""

import numpy as np
import pytest
from helpers.figure_text import legend, texts

from utils import napkin
from utils.figures import napkin as figures


def written(figure) -> str:
    """All that stands in the panels, and in the legends."""
    return " ".join(texts(figure) + legend(figure))


def test_runs_on_one_line_cost_the_same():
    sizes = np.array([1e9, 1e10, 1e11])
    tokens = figures.same_compute(6e21, sizes)
    assert tokens.tolist() == [1e12, 1e11, 1e10]
    assert [napkin.training_flops_6nd(int(n), int(d)) for n, d in zip(sizes, tokens, strict=True)] == [6 * 10**21] * 3


@pytest.mark.parametrize(("flops", "sizes"), [(0, [1e9]), (-1.0, [1e9]), (1e21, [1e9, 0])])
def test_compute_that_cannot_be_divided_is_refused(flops, sizes):
    with pytest.raises(ValueError, match="above zero"):
        figures.same_compute(flops, sizes)


def test_the_map_marks_the_optimum_that_napkin_finds():
    figure = figures.model_against_data({"ours": 1.2e22}, {"wall": 5e9}, {"GPT-3": (174.6e9, 300e9)})
    parameters, tokens = napkin.chinchilla_optimal(1.2e22)
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in dots] == [pytest.approx((parameters, tokens))]
    shown = written(figure)
    assert "10B" in shown and "GPT-3" in shown and "wall" in shown and "ours: 1.2e+22 FLOPs" in shown
    assert "20 tokens for each parameter" in shown


def test_the_dotted_line_has_the_tokens_asked_for():
    figure = figures.model_against_data({"ours": 6e22}, {}, {}, tokens_per_parameter=100)
    line = figure.axes[0].lines[0]
    assert np.allclose(line.get_ydata() / line.get_xdata(), 100)
    assert "100 tokens for each parameter" in written(figure) and "10B" in written(figure)


def test_what_binds_draws_the_curve_and_labels_each_memory():
    figure = figures.what_binds(np.array([1.0, 100.0]), np.array([3e9, 30e9]), {"alone": 5e9, "sharded": 160e9})
    curve, *walls = figure.axes[0].lines
    assert curve.get_ydata().tolist() == [3, 30]
    assert [line.get_ydata()[0] for line in walls] == [5, 160]
    assert "alone: 5B" in written(figure) and "sharded: 160B" in written(figure)


def test_what_binds_marks_a_number_of_days_on_the_curve():
    days = np.geomspace(1, 10_000, 100)
    figure = figures.what_binds(days, 3e9 * np.sqrt(days), {"alone": 5e9}, at=16)
    dot = figure.axes[0].lines[-1]
    assert (dot.get_marker(), dot.get_xdata()[0]) == ("o", 16)
    assert dot.get_ydata()[0] == pytest.approx(12)
    assert "16 days: 12B" in written(figure)


def test_a_parameter_s_bytes_lie_side_by_side():
    recipes = {"fp32": {"weight": 4, "gradient": 4}, "mixed": {"weight": 2, "master copy of the weight": 4}}
    figure = figures.bytes_of_a_parameter(recipes)
    bars = [(patch.get_x(), patch.get_width()) for patch in figure.axes[0].patches]
    assert bars == [(0, 4), (4, 4), (0, 2), (2, 4)]
    colours = [patch.get_facecolor() for patch in figure.axes[0].patches]
    assert colours[0] == colours[2] and len(set(colours)) == 3
    assert "master copy of\nthe weight\n4" in written(figure)


@pytest.mark.parametrize("recipes", [{}, {"fp32": {"weight": 0}}])
def test_a_part_without_bytes_is_refused(recipes):
    with pytest.raises(ValueError, match="recipes="):
        figures.bytes_of_a_parameter(recipes)


def test_the_transformer_carries_its_parameters():
    shown = written(figures.transformer_parameters(layers=40, width=5120, vocabulary=50_257))
    assert "4 d² = 104,857,600" in shown and "8 d² = 209,715,200" in shown and "257,315,840" in shown
    assert "L = 40 times" in shown and "12 d² = 314,572,800" in shown


def test_the_transformer_can_leave_the_counting_to_the_reader():
    shown = written(figures.transformer_parameters(layers=40, width=5120, vocabulary=50_257, totals=False))
    assert "four of d × d" in shown and "L = 40 times" in shown and "50,257" in shown
    assert "d²" not in shown and "V d" not in shown


def test_bars_are_as_long_as_their_parts_together():
    figure = figures.stacked_bars({"a": {"x": 1.0, "y": 2.0}, "b": {"x": 0.5, "y": 0.0}}, "GB")
    ends = [patch.get_x() + patch.get_width() for patch in figure.axes[0].patches]
    assert ends == [1.0, 0.5, 3.0, 0.5]
    assert "3 GB" in written(figure) and "0.5 GB" in written(figure)


def test_a_limit_is_named_and_each_bar_says_whether_it_fits():
    figure = figures.stacked_bars({"a": {"x": 3.0}, "b": {"x": 2.0}}, "GB", 2.5, "the card")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["a\n3 GB, does not fit", "b\n2 GB, fits"]
    assert written(figure).startswith("the card") and figure.axes[0].lines[0].get_xdata()[0] == 2.5


def test_the_end_of_a_bar_may_say_something_else():
    figure = figures.stacked_bars({"a": {"x": 100.0}}, "%", ends={"a": "124,439,808"})
    assert "124,439,808" in written(figure) and "100 %" not in written(figure)


@pytest.mark.parametrize("bars", [{}, {"a": {"x": 1.0}, "b": {"y": 1.0}}])
def test_bars_of_different_parts_are_refused(bars):
    with pytest.raises(ValueError, match="same parts"):
        figures.stacked_bars(bars, "GB")
