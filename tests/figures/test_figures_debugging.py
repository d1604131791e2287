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


def test_descents_draws_each_path_on_its_parabola_and_the_last_step_as_an_arrow():
    figure = figures.descents({"short": [1.0, 0.5, 0.25], "long": [1.0, -2.0, 4.0]})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["short", "long"]
    for axes, path in zip(figure.axes, ([1.0, 0.5, 0.25], [1.0, -2.0, 4.0]), strict=True):
        curve, steps, start = axes.lines
        assert list(steps.get_xdata()) == path[:-1] and list(start.get_xdata()) == path[:1]
        assert all(y == w * w / 2 for line in (curve, steps) for w, y in zip(*line.get_data(), strict=True))
        (arrow,) = axes.texts
        assert (arrow.xyann, arrow.xy) == tuple((w, w * w / 2) for w in path[-2:])


EVENTS = [("forward pre-hook", "0"), ("forward hook", "0"), ("backward pre-hook", "0"), ("parameter hook", "0")]


def test_hook_events_puts_each_call_into_its_row_and_parts_forward_from_backward():
    events = [("forward pre-hook", "all"), *EVENTS]
    figure = figures.hook_events(events, places=["all", "0"], names=["the model", "a layer"])
    (axes,) = figure.axes
    spots = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines[:-1]}
    assert spots == {
        "forward pre-hook": [(1, 0), (2, 1)], "forward hook": [(3, 1)],
        "backward pre-hook": [(4, 1)], "parameter hook": [(5, 1)],
    }  # fmt: skip
    assert list(axes.lines[-1].get_xdata()) == [3.5, 3.5]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["the model", "a layer"]
    assert texts(figure) == ["forward", "backward"] and legend(figure) == list(spots)


def test_hook_events_refuses_a_kind_that_it_cannot_draw():
    with pytest.raises(ValueError, match="'fish hook'"):
        figures.hook_events([*EVENTS, ("fish hook", "0")], places=["0"], names=["a layer"])


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


def test_two_losses_draws_a_full_and_an_open_circle_for_each_run_and_a_line_at_the_first():
    figure = figures.two_losses({"right": (2.0, 2.5), "A": (3.0, 3.5)})
    (axes,) = figure.axes
    circles = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert [(float(line.get_xdata()[0]), int(line.get_ydata()[0])) for line in circles] == [
        (2.0, 0),
        (2.5, 0),
        (3.0, 1),
        (3.5, 1),
    ]
    assert [line.get_markerfacecolor() == "white" for line in circles] == [False, True, False, True]
    assert [2.0, 2.0] in [list(line.get_xdata()) for line in axes.lines]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["right", "A"]


def test_where_it_moves_draws_a_panel_for_each_program_and_a_cross_at_the_letter():
    figure = figures.where_it_moves({"as it stands": [[False, True]], "no mask": [[True, True]]}, at=(0, 1))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["as it stands", "no mask"]
    assert [axes.images[0].get_array().tolist() for axes in figure.axes] == [[[0, 1]], [[1, 1]]]
    assert all([*axes.lines[0].get_xdata(), *axes.lines[0].get_ydata()] == [1, 0] for axes in figure.axes)


def test_detector_table_writes_each_alarm_and_each_cost():
    figure = figures.detector_table(
        {"right": [True, True], "bug": [True, False]}, ["one", "two"], {"right": 0.0, "bug": -0.25}
    )
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["", "", "+0.00", "", "alarm", "−0.25"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["one", "two", "cost, nats"]


def test_detector_table_wants_a_verdict_of_each_detector():
    with pytest.raises(ValueError, match="'bug'"):
        figures.detector_table({"bug": [True]}, ["one", "two"], {"bug": 0.0})
