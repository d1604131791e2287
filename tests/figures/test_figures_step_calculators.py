"""Pictures of the calculators about a step draw what they are given."""

import numpy as np
from helpers.figure_text import texts

from utils.figures import step_calculators as figures


def test_memory_is_stacked_and_its_highest_place_named():
    parts = [{"weights": 1e9, "gradients": 0, "activations": n * 1e9} for n in (0, 2, 1)]
    figure = figures.step_memory(list(zip(("start", "loss", "update"), parts, strict=True)), "3 GB, loss")
    (axes,) = figure.axes
    assert axes.lines[0].get_xydata().tolist() == [[1, 3]] and "3 GB, loss" in texts(figure)
    assert max(axes.collections[-1].get_paths()[0].vertices[:, 1]) == 3


def test_buckets_stand_below_backward_where_they_begin():
    figure = figures.overlap(0.01, [(0.005, 0.005, 0.007), (0.01, 0.01, 0.012)], 0.014)
    (axes,) = figure.axes
    places = [path.get_extents().intervalx for each in axes.collections[1:] for path in each.get_paths()]
    assert np.allclose(places, [[5, 7], [10, 12]]) and axes.lines[-1].get_xdata()[0] == 14
    many = [(n / 1e3, n / 1e3, (n + 1) / 1e3) for n in range(1000)]
    assert len(figures.overlap(1.0, many, 2.0).axes[0].collections) <= figures.DRAWN + 1


def test_warm_up_and_the_rest_meet():
    rates = [0.5, 1.0, 0.9, 0.8]
    after, warmup = figures.schedule(rates, 2).axes[0].lines
    assert list(after.get_ydata()) == [0.9, 0.8] and list(warmup.get_ydata()) == [0.5, 1.0, 0.9]
    assert len(figures.schedule(rates, 0).axes[0].lines) == 1
