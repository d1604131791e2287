"""The pictures of number formats: what they write and draw is what they were given. How they look is for eyes."""

import numpy as np
import pytest
from helpers.figure_text import legend, texts
from matplotlib.colors import to_hex

from utils.figures import dtypes as figures


def test_bit_layouts_colour_each_field_and_write_each_bit():
    figure = figures.bit_layouts([("tiny", "01100", 2, 1, 3.0), ("full", "1011", 1, 2, -1.5)])
    (axes,) = figure.axes
    colours = [to_hex(patch.get_facecolor()) for patch in axes.patches]
    field = {to_hex(colour): name[0] for name, colour in figures.FIELD_COLOURS.items()}
    assert "".join(field[colour] for colour in colours) == "seemi" + "semm"
    assert texts(figure) == [*"01100", "tiny", "1 + 2 + 1   3", *"1011", "full", "1 + 1 + 2   -1.5"]
    assert legend(figure) == ["sign", "exponent", "mantissa", "ignored"]
    assert legend(figures.bit_layouts([("full", "1011", 1, 2, -1.5)])) == ["sign", "exponent", "mantissa"]


def test_bit_layouts_refuse_a_number_with_too_few_bits():
    with pytest.raises(ValueError, match="half: 15 bits for fields of 16"):
        figures.bit_layouts([("half", "0" * 15, 5, 10, 0.0)])


def test_ranges_begin_and_end_where_they_are_told():
    (axes,) = figures.ranges({"a": (1e-8, 1e-4, 1e4), "b": (1e-3, 1e-2, 400.0)}).axes
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert np.allclose(ends, [(1e-8, 1e-4), (1e-4, 1e4), (1e-3, 1e-2), (1e-2, 400)], rtol=1e-12)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert texts(axes.figure) == ["1e-08", "10000", "0.001", "400"]


def test_steps_and_weights_draw_some_and_count_all():
    weights, steps = np.array([0.5, 0.25, 0.1, 0.01]), np.array([0.1, 0.01, 1e-4, 1e-5])
    lost = np.array([False, True, False, True])
    figure = figures.steps_and_weights({"a": (weights, steps, lost), "b": (weights, steps, ~lost)}, {"half": 0.5}, 2)
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["a: 50 % lost", "b: 50 % lost"]
    changing, losing = first.lines[0], first.lines[2]
    assert list(changing.get_xdata()) == [0.5, 0.1] and list(losing.get_xdata()) == []
    line = next(line for line in first.lines if line.get_label() == "half")
    assert list(line.get_ydata()) == [0.05, 0.25]
    assert legend(figure) == ["changes the weight", "lost", "half"]


def test_rounding_error_draws_one_named_line_for_each_format():
    figure = figures.rounding_error(np.arange(3), {"a": np.array([1, 0.5, 0.1]), "b": np.array([1, 1, np.nan])})
    a, b = figure.axes[0].lines[:2]
    assert list(a.get_ydata()) == [1, 0.5, 0.1] and np.isnan(b.get_ydata()[2])
    assert legend(figure) == ["a", "b"]


def test_counting_tells_where_each_counter_stands_in_the_end():
    figure = figures.counting({"a": [1, 2, 2], "b": [1, 2, 3]})
    assert texts(figure) == ["a: 2", "b: 3"]
    assert [list(line.get_xdata()) for line in figure.axes[0].lines[:2]] == [[1, 2, 3]] * 2


def test_trajectories_draw_each_weight_and_their_mean():
    paths = np.array([[1.0, 1.0], [0.9, 0.7]])
    figure = figures.trajectories(paths, exact=np.array([1, 0.8]), nearest=np.ones(2))
    drawn = [list(line.get_ydata()) for line in figure.axes[0].lines if len(line.get_ydata())]
    assert drawn == [[1, 0.9], [1, 0.7], [1, 0.8], [1, 0.8], [1, 1]]


def test_second_moments_have_a_panel_for_each_kind_of_gradients():
    figure = figures.second_moments({"up": {"a": [0, 0.75], "b": [0, 0.5]}, "down": {"a": [1, 0]}})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["up", "down"]
    assert [[list(line.get_ydata()) for line in axes.lines] for axes in figure.axes] == [
        [[0, 0.75], [0, 0.5]],
        [[1, 0]],
    ]
    assert texts(figure) == ["a: 0.7500", "b: 0.5000", "a: 0.0000"]


def test_windows_count_what_survives():
    logs = np.array([-12.0, -10.5, -9.5, 0.0])
    figure = figures.windows({"values": logs}, (2.0**-9, 2.0**-6, 448.0))
    assert legend(figure) == ["normal range", "subnormals", "values: 50.0% do not become 0"]
    assert figure.axes[0].get_xlim()[0] < -12 and figure.axes[0].get_xlim()[1] > np.log2(448)
    normal, subnormal = figure.axes[0].patches[:2]
    assert (normal.get_x(), subnormal.get_x(), subnormal.get_x() + subnormal.get_width()) == (-6, -9, -6)


def test_trajectories_draw_the_mean_of_more_weights_than_they_draw():
    paths = np.array([[1.0, 1.0], [0.9, 0.7]])
    exact, mean = np.array([1, 0.8]), np.array([1, 0.75])
    figure = figures.trajectories(paths, exact=exact, nearest=np.ones(2), mean=mean, of=1000)
    drawn = [list(line.get_ydata()) for line in figure.axes[0].lines if len(line.get_ydata())]
    assert drawn == [[1, 0.9], [1, 0.7], [1, 0.75], [1, 0.8], [1, 1]]
    assert legend(figure) == ["stochastic, 2 weights", "mean of all 1,000", "exact", "to nearest"]


def test_step_film_has_a_frame_for_each_step_and_says_what_is_stored():
    film = figures.step_film([0.0, 2.0, 4.0], [(4.0, 3.5, 4.0), (4.0, 2.5, 2.0)])
    assert film.captions == ["step -0.5, stored 4", "step -1.5, stored 2"]
    assert len(set(film.frames)) == 2


def test_number_line_names_numbers_midpoints_and_what_becomes_of_each_step():
    figure = figures.number_line([0.0, 2.0, 4.0], [(4.0, 3.5, 4.0), (4.0, 2.5, 2.0)])
    named = ["0", "2", "4", "midpoint\n1", "midpoint\n3"]
    drawn = [text for text in texts(figure) if text]  # an arrow is an annotation without a text
    assert drawn == [*named, "step -1.5", "stored 2", "step -0.5", "stored 4"]
    arrows = [(note.xyann, note.xy) for note in figure.axes[0].texts if not note.get_text()]
    assert [(start[0], end[0]) for start, end in arrows] == [(4, 2.5), (2.5, 2), (4, 3.5), (3.5, 4)]


def test_descent_on_curves_places_each_run_at_its_share_of_the_steps_and_of_the_descent():
    ends = {("a", 0.1): (0.25, 0.75, 1.5), ("b", 0.1): (0.5, 1.0, 1.0)}
    figure = figures.descent_on_curves({0.1: np.array([4.0, 2.0, 1.0, 1.0])}, ends, window=2)
    curve, *others = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert (list(curve.get_xdata()), list(curve.get_ydata())) == ([50, 75, 100], [3, 1.5, 1])
    signs = [(line.get_xdata()[0], line.get_ydata()[0]) for line in others if len(line.get_xdata()) == 1]
    assert signs == [(25, 1.5), (75, 1.5), (50, 1), (100, 1)]
    both = [f"{name}: {what}" for name in "ab" for what in ("descent that arrives", "steps taken")]
    assert legend(figure) == ["fp32 at 0.1", *both]


def test_loss_curves_draw_the_mean_of_each_window_for_each_seed():
    losses = np.array([[4.0, 2.0, 1.0, 1.0, 9.0], [8.0, 6.0, 3.0, 1.0, 9.0]])  # the fifth step fills no window
    (axes,) = figures.loss_curves({"a": losses, "b": losses + 10}, window=2).axes
    drawn = [list(line.get_ydata()) for line in axes.lines if len(line.get_ydata())]
    assert drawn == [[3, 1], [7, 2], [13, 11], [17, 12]]
    assert [list(line.get_xdata()) for line in axes.lines if len(line.get_xdata())] == [[1, 3]] * 4
    assert legend(axes.figure) == ["a", "b"]


def test_loss_curves_mark_where_a_recipe_stands_after_a_quarter():
    losses = np.array([[8.0, 6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]])
    (axes,) = figures.loss_curves({"a": losses, "b": losses + 10}, window=2, quarter_of="a").axes
    mark = axes.lines[-1]
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([2, 8], [5, 5])
    assert legend(axes.figure) == ["a", "b", "a after a quarter"]


def test_loss_curves_refuse_a_window_that_is_longer_than_the_run():
    with pytest.raises(ValueError, match="a: 3 steps are less than a window of 50: take a smaller window"):
        figures.loss_curves({"a": np.ones((1, 3))}, window=50)
