"""The pictures of optimizers: what is drawn is what was given. How they look is for eyes."""

import math

import numpy as np
import pytest
from helpers.figure_text import legend, words

from utils.figures import optimizers as figures

PATHS = {"a": np.array([[-4.0, 1.0], [-2.0, -1.0], [0.5, 0.0]]), "b": np.array([[-4.0, 1.0], [-3.0, 0.5], [-1.0, 0.2]])}


def title(axes) -> str:
    return axes.get_title(loc="left") or axes.get_title()


def test_over_steps_draws_each_line_and_the_level_if_there_is_one():
    (axes,) = figures.over_steps({"a": [1.0, 0.5], "b": [2.0, 3.0, 4.0]}, "norm", level=("the limit", 1.5)).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[1.0, 0.5], [2.0, 3.0, 4.0], [1.5, 1.5]]
    assert axes.get_yscale() == "log" and [text.get_text() for text in axes.texts] == ["the limit"]
    (axes,) = figures.over_steps({"a": [1.0, 0.5]}, "factor").axes
    assert axes.get_yscale() == "linear" and len(axes.lines) == 1 and axes.get_ylabel() == "factor"


def test_valley_draws_each_path_whole_in_a_panel_of_its_own():
    paths = PATHS | {"c": PATHS["a"], "d": PATHS["b"]}
    figure = figures.valley(paths, curvatures=(1, 25))
    assert [title(axes) for axes in figure.axes] == [f"{name}, 2 steps" for name in paths]
    for axes, path in zip(figure.axes, paths.values(), strict=True):
        assert np.array_equal(np.stack(axes.lines[0].get_data()).T, path)


def test_valley_film_walks_from_the_first_step_to_the_last(monkeypatch):
    paths = dict.fromkeys("abcd", np.linspace([-4.0, 1.0], [0.0, 0.0], 8))
    film = figures.valley_film(paths, curvatures=(1, 25), every=3)
    assert film.captions == ["step 0", "step 3", "step 6", "step 7"] and len(set(film.frames)) == 4

    def walked(shown, _):
        return [[axes.lines[0].get_xydata().copy() for axes in figure.axes] for _, figure in shown]

    monkeypatch.setattr(figures, "film", walked)
    for step, panels in zip((0, 3, 6, 7), figures.valley_film(paths, curvatures=(1, 25), every=3), strict=True):
        for (name, path), drawn in zip(paths.items(), panels, strict=True):
            assert np.array_equal(drawn, path[: step + 1]), name


def test_valleys_draw_medians_ring_the_lowest_and_dot_this_machines():
    kept = {
        "one": {"a": {0.1: [2.0, 1.0, 3.0], 1.0: [0.5, 0.6, 0.4], 10.0: [math.nan, math.inf, 99.0]}},
        "two": {"a": {1.0: [1.0]}},
    }
    figure = figures.valleys(kept, {"one": {"a": {1.0: [0.55, 99.0]}}, "two": {}}, top=4.0)
    left, right = figure.axes
    line, ring = left.lines[0], next(each for each in left.lines if each.get_markersize() == 14)
    dots = next(each for each in left.lines if each.get_markersize() == 8)
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0.1, 1.0, 10.0], [2.0, 0.5, 4.0])
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (1.0, 0.5)
    assert (list(dots.get_xdata()), list(dots.get_ydata())) == ([1.0, 1.0], [0.55, 4.0])
    assert not [each for each in right.lines if each.get_markersize() == 8] and legend(figure) == ["a"]
    with pytest.raises(ValueError, match="one: no line for the dots of b: add it to kept"):
        figures.valleys(kept, {"one": {"b": {1.0: [1.0]}}, "two": {}}, top=4.0)


def test_runs_draw_the_median_of_the_seeds_over_a_window():
    panels = {"one": {"a": [[1.0, 3.0, 5.0]], "b": [[2.0, math.nan, 2.0], [2.0, 2.0, 2.0]]}, "two": {"c": [[1.0, 2.0]]}}
    figure = figures.runs(panels, windows=(2, 1), top=8.0)
    left, right = figure.axes
    a, b = left.lines
    assert (list(a.get_xdata()), list(a.get_ydata())) == ([2, 3], [2.0, 4.0])
    assert list(b.get_ydata()) == [(2 + (2 + 8) / 2) / 2] * 2  # NaN is drawn at the top
    assert list(right.lines[0].get_ydata()) == [1.0, 2.0]
    assert legend(figure) == ["a", "b", "c"] and [title(axes) for axes in figure.axes] == ["one", "two"]


def test_decay_names_each_line_at_its_end():
    figure = figures.decay({"a": [1.0, 0.5], "b": [1.0, 0.9]}, every=20)
    assert [list(line.get_xdata()) for line in figure.axes[0].lines] == [[0, 20]] * 2
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[1.0, 0.5], [1.0, 0.9]]
    assert [(text.get_text(), text.xy) for text in figure.axes[0].texts] == [("b", (20, 0.9)), ("a", (20, 0.5))]


def test_lines_that_end_together_share_a_label():
    figure = figures.decay({"a": [1.0, 0.5], "b": [1.0, 0.9], "c": [1.0, 0.49]}, every=1)
    assert [text.get_text() for text in figure.axes[0].texts] == ["b", "a\nc"]


def test_clip_vectors_draws_each_gradient_before_and_after():
    gradients = np.array([[3.0, 4.0], [0.1, 0.2]])
    ways = {"norm": np.array([[0.6, 0.8], [0.1, 0.2]]), "value": np.array([[1.0, 1.0], [0.1, 0.2]])}
    figure = figures.clip_vectors(gradients, ways, limit=1.0)
    for axes, (name, after) in zip(figure.axes, ways.items(), strict=True):
        assert title(axes) == name
        tips = [tuple(arrow.xy) for arrow in axes.texts]
        assert tips == [tuple(tip) for pair in zip(gradients, after, strict=True) for tip in pair]


def test_spike_draws_the_steps_from_1_and_marks_the_spike():
    figure = figures.spike({"SGD": [1.0, 1.0, 1e6, 1.0], "Adam": [1.0, 1.0, 2.0, 0.1]}, at=2)
    sgd, adam = figure.axes[0].lines
    assert (list(sgd.get_xdata()), list(sgd.get_ydata())) == ([1, 2, 3, 4], [1, 1, 1e6, 1])
    assert list(adam.get_ydata()) == [1, 1, 2, 0.1]
    assert figure.axes[0].get_yscale() == "log" and legend(figure) == ["SGD", "Adam"]
    spike, smallest = figure.axes[0].texts
    assert (spike.get_text(), spike.xy) == ("the spike", (3, 1e6))
    assert (smallest.get_text(), smallest.xy) == ("0.1", (4, 0.1))


def test_schedules_say_where_each_ends():
    traces = {"a": [1.0, 0.5], "b": [0.0, 0.25], "c": [1.0, 1.0], "d": [1.0, 0.0]}
    figure = figures.schedules(traces)
    assert words(figure) == "ends at 0.50 ends at 0.25 ends at 1.00 ends at 0.00"
    assert [list(axes.lines[0].get_ydata()) for axes in figure.axes] == list(traces.values())
    assert [axes.get_title(loc=place) for axes in figure.axes for place in ("left", "center")].count("c") == 1


def test_schedules_refuse_another_number_of_traces_than_panels():
    with pytest.raises(ValueError, match="shorter"):
        figures.schedules({"a": [1.0, 0.5]})


def test_run_losses_draw_the_level_with_its_name():
    figure = figures.run_losses({"a": [[4.0, 3.0, 2.0]]}, window=1, level=("pairs", 2.5))
    line, level = figure.axes[0].lines
    assert list(line.get_ydata()) == [4, 3, 2] and set(level.get_ydata()) == {2.5}
    assert [text.get_text() for text in figure.axes[0].texts] == ["pairs"]


def test_gains_draw_the_mean_the_seeds_and_this_machine():
    figure = figures.gains({"a": [0.1, 0.3], "b": [0.4]}, {"b": [0.5]})
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0.2, 0.4])
    assert [list(line.get_xdata()) for line in axes.lines] == [[0.1, 0.3], [], [0.4], [0.5]]
    assert [text.get_text() for text in axes.texts] == ["0.20", "0.40"]
    assert axes.yaxis_inverted()
