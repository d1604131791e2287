"""The pictures of memory: what they compute is right, what they cannot draw they refuse. How they look is for eyes."""

import pytest
from helpers.figure_text import legend, texts, words

from utils.figures import memory as figures


def test_step_timeline_finds_the_peak_of_the_sum():
    parts = {"parameters": [4e6, 4e6, 4e6, 4e6], "activations": [0, 3e6, 8e6, 1e6]}
    figure = figures.step_timeline(parts, {"forward": 0, "backward": 2})
    assert "peak 12.00 MB" in words(figure) and "forward" in words(figure) and "backward" in words(figure)
    (marker,) = [line for line in figure.axes[0].lines if line.get_marker() == "v"]
    assert (list(marker.get_xdata()), list(marker.get_ydata())) == ([2], [12.0])
    assert sorted(legend(figure)) == ["activations", "parameters"]


def test_step_timeline_refuses_categories_of_different_length():
    with pytest.raises(ValueError, match=r"\[2, 3\] events"):
        figures.step_timeline({"parameters": [1, 2], "activations": [1, 2, 3]}, {"forward": 0})


def test_storage_with_views_draws_each_view_over_its_places():
    figure = figures.storage_with_views(10, {"x": (0, 10), "x[2]": (2, 4), "the end": (7, 10)})
    bars = [bar.get_paths()[0].get_extents() for bar in figure.axes[0].collections]
    assert [(bar.x0, bar.x1) for bar in bars] == [(0, 10), (0, 10), (2, 4), (7, 10)]
    assert texts(figure) == ["the storage: 40 bytes", "x: 40 bytes", "x[2]: 8 bytes", "the end: 12 bytes"]


def test_law_fit_draws_what_it_is_given():
    figure = figures.law_fit(
        [100, 200], [110, 190], (5000, 5001), {"T": [1, 2], "plain": [1e9, 4e9], "flash": [1e9, 2e9]}
    )
    dots, lines = figure.axes
    assert [list(line.get_ydata()) for line in dots.lines[1:]] == [[110, 190], [5001]]
    assert [list(line.get_ydata()) for line in lines.lines] == [[1, 4], [1, 2]]


def test_checkpoint_curve_marks_the_minimum_and_draws_the_law():
    figure = figures.checkpoint_curve([1, 4, 16], [17, 8, 17], [1.0, 1.25, 1.3], layers=16)
    memory, price = figure.axes
    law, measured = memory.lines
    assert "8 at s = 4" in words(figure)
    assert min(law.get_ydata()) == pytest.approx(8, abs=0.01) and law.get_ydata()[0] == 17
    assert list(measured.get_ydata()) == [17, 8, 17] and list(price.lines[0].get_ydata()) == [1.0, 1.25, 1.3]


def test_memory_budget_adds_up_each_bar_and_names_each_part_once():
    bars = {"plain": {"weights": 10**9, "state": 3 * 10**9}, "sharded": {"weights": 10**9, "state": 10**9}}
    figure = figures.memory_budget(bars, {"24 GB": 24 * 10**9})
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["plain: 4.0 GB", "sharded: 2.0 GB"]
    assert "24 GB" in words(figure)
    assert legend(figure) == ["weights", "state"]
    widths = [patch.get_width() for patch in figure.axes[0].patches]
    assert widths == pytest.approx([1, 3, 1, 1])
    assert [line.get_xdata()[0] for line in figure.axes[0].lines] == [24]


def test_steps_and_peak_draws_each_step_and_the_names_around_the_peak():
    parts = {"weights": [1, 1, 1, 1, 1], "the loss": [0, 2, 9, 3, 0]}
    steps = {"first": (parts, {"forward": 0, "backward": 2}), "second": (parts, {"forward": 0, "backward": 2})}
    names = ["aten.mm", "aten.exp", "aten._log_softmax_backward_data", "aten.mm", "aten.add"]
    figure = figures.steps_and_peak(steps, names, around=2, limit=("a card", 8), reach=2)
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "first: 10.00 B",
        "second: 10.00 B",
        "its top, enlarged",
    ]
    assert [label.get_text() for label in figure.axes[2].get_xticklabels()] == [
        "mm",
        "exp",
        "log_softmax_backward",
        "mm",
        "add",
    ]
    assert len({panel.get_ylim() for panel in figure.axes}) == 1 and figure.axes[0].get_ylim()[1] > 10
    for panel in figure.axes:
        assert [8, 8] in [list(line.get_ydata()) for line in panel.lines], "the card, in each panel"
    assert "a card" in words(figure)
