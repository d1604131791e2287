"""The pictures of the honest-loop lecture: the numbers they print are the numbers they were given."""

import numpy as np
import pytest
from helpers.figure_text import words

from utils.figures import loop as figures


def test_order_tiles_count_each_outcome_and_name_what_follows_forward():
    shown = words(figures.order_tiles({"fzbcs": "right", "fbcsz": "right", "fsbcz": "raises"}))
    assert "2 right zero · backward · clip · step backward" in shown and "1 raises step · backward" in shown


def test_fetch_timeline_draws_fetches_above_steps():
    figure = figures.fetch_timeline({"0 workers": ([(5.0, 6.0), (7.0, 8.0)], [(6.0, 7.0), (8.0, 9.0)])})
    boxes = [bar.get_paths()[0].get_extents() for bar in figure.axes[0].collections]
    assert [box.x0 for box in boxes] == [0, 2, 1, 3]
    assert boxes[0].y1 < boxes[2].y0


def test_fetches_that_overlap_lie_below_each_other():
    figure = figures.fetch_timeline({"2 workers": ([(5.0, 6.0), (5.5, 6.5)], [(6.0, 7.0), (7.0, 8.0)])})
    first, second, *_ = [bar.get_paths()[0].get_extents() for bar in figure.axes[0].collections]
    assert first.y1 <= second.y0


def test_token_weights_draw_weights_as_areas():
    figure = figures.token_weights([4, 1])
    above, below = ([p for p in axes.patches[1::2] if p.get_width()] for axes in figure.axes)
    areas = [patch.get_width() * patch.get_height() for patch in above]
    assert len(areas) == len(below) == 5 and areas[4] == pytest.approx(4 * areas[0])
    assert len({patch.get_width() for patch in below}) == 1
    assert "1/8 each 1/2 1/5 each 1/5" in words(figure)


def test_order_tiles_refuse_an_unknown_outcome():
    with pytest.raises(ValueError, match="wins"):
        figures.order_tiles({"fzbcs": "wins"})


def test_worker_draws_count_the_different_numbers():
    figure = figures.worker_draws({"a": ([0.1, 0.2], [0.1, 0.2]), "b": ([0.1, 0.2], [0.3, 0.4])})
    titles = " ".join(axes.get_title(loc=place) for axes in figure.axes for place in ("left", "center"))
    assert "2 different draws" in titles and "4 different draws" in titles


def test_resume_matrix_says_what_differs():
    shown = words(
        figures.resume_matrix({"nothing": {"loss": False, "weights": False}, "rng": {"loss": True, "weights": False}})
    )
    assert shown.split() == ["same", "same", "differs", "same"]


def test_run_lives_say_how_each_process_ended_and_what_was_lost():
    saves = [[4, 8, 12, 13], [16, 20], [24]]
    figure = figures.run_lives([0, 13, 20], [13, 23, 24], ["SIGTERM", "SIGKILL", "finished"], saves)
    shown = words(figure)
    assert all(text in shown for text in ("SIGTERM after step 13", "SIGKILL after step 23", "finished after step 24"))
    assert [list(line.get_xdata()) for line in figure.axes[0].lines] == saves
    lost = [patch.get_width() for patch in figure.axes[0].patches if patch.get_hatch()]
    assert lost == [3]


def test_the_price_of_saving_is_least_where_both_prices_are_equal():
    figure = figures.price_of_saving(60.0, 12_000.0, {300.0: 0.2, 1200.0: 0.1, 4800.0: 0.2})
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    saving, failing, whole = (lines[name].get_ydata() for name in ("to saving", "to failures", "in all, by your rule"))
    at_best = int(whole.argmin())
    assert abs(saving[at_best] / failing[at_best] - 1) < 0.05
    assert list(lines["simulated"].get_ydata()) == [20.0, 10.0, 20.0]


def test_decision_film_has_a_frame_for_each_checkpoint():
    plane = np.full((20, 20, 3), 1 / 3)
    shares = {"epoch 1": 0.3, "epoch 2": 0.6, "epoch 9": 0.9}
    frames = {name: (plane, share) for name, share in shares.items()}
    film = figures.decision_film(frames, np.zeros((6, 2)), np.arange(6) % 3, extent=1.0)
    assert film.captions == ["epoch 1", "epoch 2", "epoch 9"] and len(set(film.frames)) == 3


def test_step_prices_are_told_beside_the_bare_loop():
    bars = words(figures.step_prices({"bare": 1000.0, "ours": 1060.0}))
    assert "1,060 µs  (+60)" in bars and "1,000 µs" in bars


def test_a_step_that_costs_less_than_the_bare_one_has_a_minus_and_no_plus():
    assert "940 µs  (−60)" in words(figures.step_prices({"bare": 1000.0, "ours": 940.0}))


def test_run_curves_draw_what_the_log_has_and_skip_what_it_lacks():
    records = [
        {"step": 5, "loss": 2.0, "lr": 0.1, "grad_norm": 3.0},
        {"step": 10, "loss": None, "lr": 0.2, "grad_norm": 4.0},
        {"step": 10, "val_loss": 1.5, "val_accuracy": 0.5},
    ]
    figure = figures.run_curves(records, "first")
    drawn = [[list(map(float, part)) for part in line.get_data()] for axes in figure.axes for line in axes.lines]
    assert drawn == [[[5], [2.0]], [[10], [1.5]], [[5, 10], [0.1, 0.2]], [[5, 10], [3.0, 4.0]]]
    losses = figure.axes[0]
    assert [text.get_text() for text in losses.get_legend().get_texts()] == ["training", "validation"]
    assert "first" in [losses.get_title(loc=place) for place in ("left", "center")]


def test_validation_curves_draw_each_start_and_name_each_mode_once():
    figure = figures.validation_curves({"on": [[3.0, 2.0], [3.1, 2.2]], "off": [[3.0, 1.9], [3.2, 2.5]]}, every=25)
    (axes,) = figure.axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[25, 50]] * 4
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["on", "off"]
