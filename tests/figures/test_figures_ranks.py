"""The pictures of many ranks: what they draw is what they were given."""

import pytest
from helpers.figure_text import legend, texts
from matplotlib.colors import to_hex

from utils.figures import ranks as figures
from utils.figures.style import BLUE, PALE, RED, SKY


def test_ring_steps_draws_every_chunk_of_every_rank_at_every_step():
    figure = figures.ring_steps([[[1, 1], [1, 1]], [[1, 2], [1, 1]], [[2, 2], [1, 1]]])
    assert len(figure.axes) == 3
    assert texts(figure) == list("1111" + "1211" + "2211")
    assert [axes.get_title(loc="center") for axes in figure.axes] == ["start", "step 1", "step 2"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["rank 0", "rank 1"]
    assert [to_hex(box.get_facecolor()).upper() for box in figure.axes[1].patches] == [PALE, BLUE, PALE, PALE]
    boxes = figure.axes[2].patches
    assert [box.get_x() for box in boxes] == [0, 1, 0, 1]
    assert [box.get_y() + box.get_height() / 2 for box in boxes] == pytest.approx([0, 0, 1, 1])


def test_ring_steps_tells_a_chunk_on_the_way_from_a_complete_one():
    figure = figures.ring_steps([[[2, 3, 1]] * 3])
    assert [to_hex(box.get_facecolor()).upper() for box in figure.axes[0].patches[:3]] == [SKY, BLUE, PALE]


def test_bucket_timeline_draws_what_is_sent_after_the_backward_in_red():
    figure = figures.bucket_timeline({"fast": [(5, 5, 6), (10, 10, 11)], "slow": [(5, 5, 12), (10, 12, 19)]}, 10)
    fast, slow = figure.axes
    assert (fast.get_title(loc="left"), slow.get_title(loc="left")) == (
        "fast: 1.00 ms not hidden",
        "slow: 9.00 ms not hidden",
    )
    assert texts(figure) == ["0", "1"] * 2
    red = {
        axes: [(box.get_x(), box.get_width()) for box in axes.patches if to_hex(box.get_facecolor()).upper() == RED]
        for axes in (fast, slow)
    }
    assert red[fast] == [(6, 0), (10, 1)] and red[slow] == [(10, 2), (12, 7)]
    backward = [(box.get_x(), box.get_width()) for box in slow.patches if box.get_y() < 0]
    assert backward == [(0, 5), (5, 5)]
    assert [line.get_xdata()[0] for line in slow.lines] == [10]


def test_bytes_per_rank_draws_a_line_a_stage_and_the_memory():
    stages = {"DDP": [9, 9], "1": [6, 5], "2": [5, 3], "3": [4, 2]}
    figure = figures.bytes_per_rank([1, 2], {"small": stages, "large": stages}, 7)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["small", "large"]
    for axes in figure.axes:
        *lines, memory = axes.lines
        assert [list(line.get_ydata()) for line in lines] == list(stages.values())
        assert list(lines[0].get_xdata()) == [1, 2] and set(memory.get_ydata()) == {7}
    assert legend(figure) == list(stages) and texts(figure) == ["7 GB"]
