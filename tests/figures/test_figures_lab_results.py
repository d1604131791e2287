"""The pictures that end the labs draw what they are given and refuse what does not fit."""

import numpy as np
import pytest
import torch
from helpers.figure_text import legend

from utils.figures import lab_results as figures


def test_an_attention_map_has_a_panel_for_each_head_and_marks_each_rows_largest():
    weights = torch.tensor([[[1.0, 0.0], [0.2, 0.8]], [[1.0, 0.0], [0.6, 0.4]]])
    figure = figures.attention_map(weights, ["to", "be"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["head 0", "head 1"]
    assert [axes.lines[0].get_xdata().tolist() for axes in figure.axes] == [[0, 1], [0, 0]]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["to", "be"]
    assert np.array_equal(figure.axes[1].images[0].get_array(), weights[1])


def test_an_attention_map_refuses_words_that_do_not_fit():
    with pytest.raises(ValueError, match=r"\(1, 2, 2\) for 3 words"):
        figures.attention_map(np.ones((1, 2, 2)), ["a", "b", "c"])


def test_streams_are_drawn_from_before_the_first_block_on_with_their_last_scale():
    figure = figures.stream_scales({"yours": [1.0, 1.5, 2.0], "loud": [1.0, 20.0, 345.6]})
    (axes,) = figure.axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[0, 1, 2]] * 2
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1.0, 1.5, 2.0], [1.0, 20.0, 345.6]]
    assert legend(figure) == ["yours: 2", "loud: 346"] and axes.get_yscale() == "log"


def test_streams_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"'yours': 2, 'loud': 1"):
        figures.stream_scales({"yours": [1.0, 1.5], "loud": [1.0]})


RUN = [
    {"step": step, "loss": 4.0 - step, "targets": 100, "seconds": 2.0, "waited": 0.5, "bytes": 3_000_000 + step}
    for step in range(3)
]


def test_a_run_is_drawn_as_its_loss_with_validations_its_speed_its_waiting_and_its_memory():
    log = [*RUN[:2], RUN[2] | {"val": 2.5, "accuracy": 0.5}]
    figure = figures.run_report(log, resumed_at=1)
    drawn = {axes.get_title(loc="left"): axes.lines[0].get_ydata().tolist() for axes in figure.axes}
    assert drawn == {
        "loss, nats": [4.0, 3.0, 2.0],
        "targets per second": [50.0] * 3,
        "share of time waiting": [0.25] * 3,
        "most memory held, MB": [3.0, 3.000001, 3.000002],
    }
    assert all(list(axes.lines[1].get_xdata()) == [1, 1] for axes in figure.axes)
    dots = figure.axes[0].lines[2]
    assert (list(dots.get_xdata()), list(dots.get_ydata())) == ([2], [2.5])


def test_a_run_without_validations_has_no_dots_and_an_empty_one_no_picture():
    assert len(figures.run_report(RUN, resumed_at=1).axes[0].lines) == 2
    with pytest.raises(ValueError, match="an empty log"):
        figures.run_report([], resumed_at=0)


def test_alarms_fill_a_tile_where_an_instrument_speaks_and_mark_rows():
    rows = {"right": {"order": False, "rate": False}, "bug": {"order": True, "rate": False}}
    (axes,) = figures.alarms(rows, marked=["bug"]).axes
    assert axes.images[0].get_array().tolist() == [[0, 0], [1, 0]]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["order", "rate"]
    assert [(text.get_text(), text.get_fontweight()) for text in axes.get_yticklabels()] == [
        ("right", "normal"),
        ("bug", "bold"),
    ]
    with pytest.raises(ValueError, match="rows with different columns: give each of them order, rate"):
        figures.alarms(rows | {"other": {"rate": True}})
