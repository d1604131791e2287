"""The pictures of the honest-loop lecture: the numbers they print are the numbers they were given."""

import numpy as np
import pytest
from helpers.figure_text import legend, words

from utils.figures import loop as figures


def test_order_tiles_count_each_outcome_and_name_every_verb():
    figure = figures.order_tiles({"fzbcs": "right", "fbcsz": "right", "fsbcz": "raises"})
    assert legend(figure) == ["2 right", "1 raises"]
    assert [text.get_text() for text in figure.axes[0].texts[:5]] == ["forward", "zero", "backward", "clip", "step"]
    assert len(figure.axes[0].texts) == len(figure.axes[0].patches) == 15


def test_order_tiles_refuse_an_unknown_outcome():
    with pytest.raises(ValueError, match="wins"):
        figures.order_tiles({"fzbcs": "wins"})


def test_worker_draws_count_the_different_numbers():
    figure = figures.worker_draws({"a": ([0.1, 0.2], [0.1, 0.2]), "b": ([0.1, 0.2], [0.3, 0.4])})
    titles = " ".join(axes.get_title(loc=place) for axes in figure.axes for place in ("left", "center"))
    assert "2 different draws" in titles and "4 different draws" in titles


def test_memory_over_steps_names_the_peak():
    figure = figures.memory_over_steps([100, 250, 50], [1, 2, 3], unit_bytes=100)
    assert [text.get_text() for text in figure.axes[0].texts] == ["forward", "backward", "step", "peak 2.50"]


def test_schedule_units_mark_where_the_wrong_one_ends():
    figure = figures.schedule_units([1.0, 0.5, 0.0], [1.0, 0.0, 1.0])
    marker = figure.axes[0].lines[-1]
    assert (list(marker.get_xdata()), list(marker.get_ydata())) == ([2], [1.0])


def test_ragged_errors_draw_the_mean_of_each_tail():
    figure = figures.ragged_errors([1, 2], {"a": [[0.2, 0.4], [0.1, 0.1]], "b": [[0.0, 0.0], [0.0, 0.0]]})
    assert list(figure.axes[0].lines[0].get_ydata()) == pytest.approx([0.3, 0.1])


def test_resume_matrix_says_what_differs():
    shown = words(
        figures.resume_matrix({"nothing": {"loss": False, "weights": False}, "rng": {"loss": True, "weights": False}})
    )
    assert shown.split() == ["same", "same", "differs", "same"]


def test_run_lives_say_how_each_process_ended():
    figure = figures.run_lives([0, 13, 36], [13, 38, 60], ["SIGTERM", "SIGKILL", "finished"], every=4)
    shown = words(figure)
    assert all(text in shown for text in ("SIGTERM at step 13", "SIGKILL at step 38", "finished at step 60"))
    assert [list(line.get_xdata()) for line in figure.axes[0].lines] == [
        [4, 8, 12, 13],
        [16, 20, 24, 28, 32, 36],
        [40, 44, 48, 52, 56, 60],
    ]


def test_silent_bugs_show_both_losses():
    assert "1.00 → 0.25" in words(figures.silent_bugs({"right": (1.0, 0.2), "bug": (1.0, 0.25)}))


def test_decision_film_has_a_frame_for_each_checkpoint():
    plane = np.full((20, 20, 3), 1 / 3)
    film = figures.decision_film(
        [(plane, 0.3), (plane, 0.6), (plane, 0.9)], np.zeros((6, 2)), np.arange(6) % 3, extent=1.0
    )
    assert film.captions == ["epoch 1", "epoch 2", "epoch 3"] and len(set(film.frames)) == 3


def test_step_prices_are_told_beside_the_bare_loop():
    bars = words(figures.step_prices({"bare": 1000.0, "ours": 1060.0}))
    assert "1,060 µs  (+60)" in bars and "1,000 µs" in bars


def test_text_curve_names_its_opponents():
    shown = words(figures.text_curve([(1, 3.0), (2, 2.5)], (2, 2.6), {"fair die": 4.17}))
    assert "fair die 4.17" in shown
