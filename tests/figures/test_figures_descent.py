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
