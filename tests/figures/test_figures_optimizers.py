"""The pictures of optimizers: what is drawn is what was given. How they look is for eyes."""

import io

import numpy as np
import pytest
from helpers.figure_text import legend, words
from PIL import Image

from utils.figures import optimizers as figures

PATHS = {"a": np.array([[-4.0, 1.0], [-2.0, -1.0], [0.5, 0.0]]), "b": np.array([[-4.0, 1.0], [-3.0, 0.5], [-1.0, 0.2]])}


def test_valley_frame_draws_each_path_up_to_its_step():
    figure = figures.valley_frame(PATHS, step=1, curvatures=(1, 25))
    axes = figure.axes[0]
    (a, b, bottom) = axes.lines
    assert (list(a.get_xdata()), list(a.get_ydata())) == ([-4.0, -2.0], [1.0, -1.0])
    assert list(b.get_xdata()) == [-4.0, -3.0] and a.get_markevery() == b.get_markevery() == [1]
    assert a.get_marker() != b.get_marker() and (bottom.get_xdata()[0], bottom.get_ydata()[0]) == (0, 0)
    assert legend(figure) == ["a", "b"] and axes.get_title(loc="left") == "step 1"


def test_valley_frame_holds_all_paths_whole_at_every_step():
    limits = [figures.valley_frame(PATHS, step, (1, 25)).axes[0].get_xlim() for step in (0, 2)]
    assert limits[0] == limits[1] == pytest.approx((-4.3, 0.8))


def test_valley_film_has_a_frame_for_every_third_step_and_the_last():
    path = {"a": np.linspace([-4.0, 1.0], [0.0, 0.0], 9)}
    film = figures.valley_film(path, curvatures=(1, 25))
    with Image.open(io.BytesIO(film.gif)) as gif:
        assert gif.format == "GIF" and gif.n_frames == 4  # steps 0, 3, 6 and 8
    assert film.description == "paths of a over 8 steps"


def test_spike_draws_the_steps_from_1_and_marks_the_spike():
    figure = figures.spike({"SGD": [1.0, 1.0, 1e6, 1.0], "Adam": [1.0, 1.0, 2.0, 0.1]}, at=2)
    sgd, adam, mark = figure.axes[0].lines
    assert (list(sgd.get_xdata()), list(sgd.get_ydata())) == ([1, 2, 3, 4], [1, 1, 1e6, 1])
    assert list(adam.get_ydata()) == [1, 1, 2, 0.1] and mark.get_xdata()[0] == 3
    assert figure.axes[0].get_yscale() == "log" and legend(figure) == ["SGD", "Adam"]
    spike, smallest = figure.axes[0].texts
    assert spike.get_text() == "the spike" and (smallest.get_text(), smallest.xy) == ("0.1", (4, 0.1))


def test_schedules_say_where_each_ends():
    traces = {"a": [1.0, 0.5], "b": [0.0, 0.25], "c": [1.0, 1.0], "d": [1.0, 0.0]}
    figure = figures.schedules(traces)
    assert words(figure) == "ends at 0.50 ends at 0.25 ends at 1.00 ends at 0.00"
    assert [list(axes.lines[0].get_ydata()) for axes in figure.axes] == list(traces.values())
    assert [axes.get_title(loc=place) for axes in figure.axes for place in ("left", "center")].count("c") == 1


def test_schedules_refuse_another_number_of_traces_than_panels():
    with pytest.raises(ValueError, match="shorter"):
        figures.schedules({"a": [1.0, 0.5]})
