"""The pictures of autograd: what is drawn is what was given, and where boxes stand. How they look is for eyes."""

import math

import pytest
from helpers.figure_text import legend, texts, words

from utils.figures import autograd as figures

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]
VALUES = {"w": 2, "x": 3, "b": -4, "y": 5, "p": 6, "s": 2, "h": 2, "e": -3, "L": 9}
SLOPES = {("w", "p"): [3], ("y", "e"): [-1], ("e", "L"): [-3, -3]}


def test_nudge_errors_marks_the_least_and_leaves_out_what_a_logarithm_cannot_show():
    figure = figures.nudge_errors([0.1, 0.01, 0.001], [1.0, 0.5, 0])
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[0.1, 1.0], [0.01, 0.5]]
    assert texts(figure) == ["least at h = $10^{-2}$"]


def test_nudge_errors_needs_an_error():
    with pytest.raises(ValueError, match="none of the 2 errors"):
        figures.nudge_errors([0.1, 0.01], [0, 0])


def test_chain_rule_shows_the_slopes_it_was_given_each_arrow_for_itself():
    shown = texts(figures.chain_rule(VALUES, SLOPES))
    assert sorted(text for text in shown if text.startswith("×")) == ["× 3", "× −1", "× −3", "× −3"]


def test_chain_rule_leaves_a_box_empty_whose_gradient_is_not_known():
    without, some = figures.chain_rule(VALUES), figures.chain_rule(VALUES, SLOPES, {"L": 1, "e": -66})
    assert "−66" in texts(some) and "−66" not in texts(without)


def test_too_early_shows_the_turns_and_what_comes_too_late():
    shown = texts(figures.too_early())
    assert [f"turn {turn}" for turn in (4, 2, 3, 1)] == [text for text in shown if text.startswith("turn")]
    assert shown.count("2 · 1") == 2 and "2, too late" in shown


def test_score_slopes_draws_p_and_p_minus_y():
    left, right = figures.score_slopes([0.25, 0.75], right=1).axes
    assert [bar.get_height() for bar in left.patches] == [0.25, 0.75]
    assert [bar.get_height() for bar in right.patches] == [0.25, -0.25]


def test_sweeps_says_how_many_passes_each_mode_takes():
    shown = words(figures.sweeps(50_890))
    assert "50,890 weights: 50,890 passes" in shown and "1 loss: 1 pass" in shown


def test_hook_timeline_puts_each_call_in_its_row_at_its_turn():
    figure = figures.hook_timeline([(1, "first", None), (1, "second", 4.0), (0, "first", None)], ["a", "b"])
    first, second = figure.axes[0].lines
    assert (first.get_xydata().tolist(), second.get_xydata().tolist()) == ([[1, 1], [3, 0]], [[2, 1]])
    assert legend(figure) == ["first", "second"]
    assert texts(figure) == [".grad None", ".grad 4.0", ".grad None"]


def test_layers_are_the_longest_paths():
    assert figures.layers_of(4, DIAMOND) == [0, 1, 1, 2]
    assert figures.layers_of(3, [(0, 2), (2, 1), (0, 1)]) == [0, 2, 1]


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="run in a circle"):
        figures.layers_of(2, [(0, 1), (1, 0)])


def test_computation_graph_names_every_node_and_what_it_keeps():
    figure = figures.computation_graph(["Add", "Exp", "Mul", "w"], DIAMOND, [[], ["result"], ["other", "self"], []])
    assert [t for t in texts(figure) if t] == ["Add", "Exp", "keeps result", "Mul", "keeps other, self", "w"]


def test_computation_graph_puts_inputs_to_the_left_and_apart():
    figure = figures.computation_graph(["Add", "Exp", "Mul", "w"], DIAMOND, [[]] * 4)
    at = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert at["Add"][0] > at["Exp"][0] == at["Mul"][0] > at["w"][0]
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


def test_life_of_a_step_piles_gradients_on_what_is_kept():
    figure = figures.life_of_a_step(kept=[1000, 3000, 2000, 0], gradients=[0, 0, 500, 4000], turn=2)
    (axes,) = figure.axes
    kept, gradients = axes.containers
    assert [bar.get_height() for bar in kept] == [1, 3, 2, 0]
    assert [(bar.get_y(), bar.get_height()) for bar in gradients] == [(1, 0), (3, 0), (2, 0.5), (0, 4)]
    (line,) = axes.lines
    assert set(line.get_xdata()) == {1.5} and texts(figure) == ["forward", "backward"]


@pytest.mark.parametrize("turn", [0, 3])
def test_life_of_a_step_needs_moments_on_both_sides(turn):
    with pytest.raises(ValueError, match=f"turn is {turn} of 3 moments"):
        figures.life_of_a_step([1, 2, 3], [0, 0, 0], turn)
