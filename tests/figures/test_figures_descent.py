"""Pictures of a slope and of a step: the numbers that were handed over are the ones drawn."""

import numpy as np

from utils.figures import descent


def test_the_line_has_the_slope_and_touches_the_loss_where_the_parameter_stands():
    values = np.linspace(-2, 2, 41)
    axes = descent.slope_at_a_point(values, values**2, 1.0, 1.0, 2.0).axes[0]
    line = axes.lines[1]
    (left, right), (low, high) = line.get_data()
    assert (high - low) / (right - left) == 2 and (low + high) / 2 == 1 and (left + right) / 2 == 1


def test_downhill_points_against_the_slope():
    for slope in (2.0, -2.0):
        values = np.linspace(-2, 2, 41)
        axes = descent.slope_at_a_point(values, slope * values, 1.0, slope, slope).axes[0]
        (arrow,) = (text for text in axes.texts if hasattr(text, "arrow_patch") and text.arrow_patch)
        assert np.sign(arrow.xy[0] - arrow.xyann[0]) == -np.sign(slope)


def test_a_step_begins_at_the_loss_before_it_and_promises_a_straight_line():
    rates = np.linspace(0, 1, 11)
    axes = descent.one_step(rates, (rates - 0.5) ** 2, 1.0, {0.5: "here"}).axes[0]
    loss, promise = axes.lines[:2]
    assert (
        np.allclose(promise.get_ydata(), 0.25 - promise.get_xdata()) and promise.get_ydata()[0] == loss.get_ydata()[0]
    )
    assert any(text.get_text() == "here" and text.xy == (0.5, 0.0) for text in axes.texts)


def test_the_losses_of_a_run_stand_at_their_steps_with_the_mean_of_each_epoch():
    axes = descent.losses_of_a_run([4.0, 2.0, 1.0, 3.0, 0.5], 2, 3.5).axes[0]
    dots, *means, nothing = axes.lines
    assert dots.get_ydata().tolist() == [4.0, 2.0, 1.0, 3.0, 0.5]
    assert [(list(line.get_xdata()), line.get_ydata()[0]) for line in means] == [
        ([0, 2], 3),
        ([2, 4], 2),
        ([4, 5], 0.5),
    ]
    assert list(nothing.get_ydata()) == [3.5, 3.5]


def test_a_path_is_red_where_it_rises_and_leaves_no_step_out():
    _, lowered, raised = descent.path_of_the_loss([3.0, 2.0, 2.5, 1.0], [3.1, 2.1, 2.2]).axes[0].lines
    assert raised.get_xdata()[:2].tolist() == [1, 2] and raised.get_ydata()[:2].tolist() == [2.0, 2.5]
    assert lowered.get_xdata().tolist()[:2] == [0, 1] and lowered.get_xdata().tolist()[3:5] == [2, 3]
