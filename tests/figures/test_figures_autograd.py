"""The pictures of autograd: what is drawn is what was given, and where boxes stand. How they look is for eyes."""

import math

import pytest
from helpers.figure_text import legend, texts, words

from utils.figures import autograd as figures

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]


def test_layers_are_the_longest_paths():
    assert figures.layers_of(4, DIAMOND) == [0, 1, 1, 2]
    assert figures.layers_of(3, [(0, 2), (2, 1), (0, 1)]) == [0, 2, 1]


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="run in a circle"):
        figures.layers_of(2, [(0, 1), (1, 0)])


def test_computation_graph_names_every_node_and_what_it_keeps():
    figure = figures.computation_graph(["Add", "Exp", "Mul", "w"], DIAMOND, [[], ["result"], ["other", "self"], []])
    assert [t for t in texts(figure) if t] == ["Add", "Exp", "keeps result", "Mul", "keeps other, self", "w"]
    assert legend(figure) == ["operation", "leaf", "backward goes this way"]


def test_computation_graph_puts_inputs_to_the_right_and_apart():
    figure = figures.computation_graph(["Add", "Exp", "Mul", "w"], DIAMOND, [[]] * 4)
    at = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert at["Add"][0] < at["Exp"][0] == at["Mul"][0] < at["w"][0]
    assert at["Exp"][1] != at["Mul"][1]


def test_two_edges_between_two_nodes_are_one_arrow_with_a_count():
    figure = figures.computation_graph(["Mul", "w"], [(0, 1), (0, 1)], [[], []])
    arrows = [text for text in figure.axes[0].texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 1 and "×2" in words(figure)


def test_loss_and_gradient_shades_where_only_the_slope_is_lost():
    series = {
        "careless": ([1, 2, 3, math.inf], [1, math.nan, math.inf, math.nan]),
        "careful": ([1, 2, 3, 4], [1, 1, 1, 1]),
    }
    figure = figures.loss_and_gradient([0, 10, 20, 30], series)
    for axes in figure.axes:
        (strip,) = axes.patches
        assert (strip.get_x(), strip.get_x() + strip.get_width()) == (10, 20)
    left, right = figure.axes
    assert left.lines[0].get_ydata()[:3].tolist() == [1, 2, 3] and math.isnan(left.lines[0].get_ydata()[3])
    assert [t for axes in (left, right) for t in (text.get_text() for text in axes.texts)] == [
        "ends at 20",
        "ends at 0",
    ]
    assert legend(figure) == ["careless", "careful", "right loss, no gradient"]


def test_loss_and_gradient_shades_nothing_where_nothing_is_lost():
    healthy = ([1, 2], [1, 1])
    figure = figures.loss_and_gradient([0, 1], {"one": healthy, "other": healthy})
    assert not figure.axes[0].patches and not texts(figure)


def test_decision_regions_draws_each_class_where_it_is():
    points = [(0, 1, 1.0), (1, 0, -1.0), (1, 1, -1.0)]
    figure = figures.decision_regions([0, 1], [[-3, -2], [2, 3]], points)
    yes, no = figure.axes[0].lines
    assert (yes.get_xydata().tolist(), no.get_xydata().tolist()) == ([[0, 1]], [[1, 0], [1, 1]])
    assert legend(figure) == ["+1", "−1"]
