"""The pictures of modules: what they draw is what they were given, what they cannot draw they refuse."""

import math

import pytest
import torch
from helpers.figure_text import legend, texts, words

from utils.figures import modules as figures


def test_tile_table_fills_the_tiles_that_are_true():
    table = {"parameter": {"saved": True, "moved": True}, "plain_tensor": {"saved": False, "moved": True}}
    (axes,) = (figure := figures.tile_table(table)).axes
    assert texts(figure) == ["yes", "yes", "no", "yes"]
    filled = [patch.get_facecolor()[:3] != (1, 1, 1) for patch in axes.patches]
    assert filled == [True, True, False, True]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["saved", "moved"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["parameter", "plain tensor"]


@pytest.mark.parametrize("table", [{}, {"a": {}}, {"a": {"x": True}, "b": {"y": True}}])
def test_tile_table_refuses_rows_of_different_columns(table):
    with pytest.raises(ValueError, match="same columns"):
        figures.tile_table(table)


def test_activation_scales_draws_what_is_finite_and_marks_the_edges():
    figure = figures.activation_scales({"one": [2.0, 4.0, math.inf, math.nan], "other": [0.5, 0.0, 0.0, 0.0]})
    one, other = (list(line.get_ydata()) for line in figure.axes[0].lines[:2])
    assert one[:2] == [2, 4] and all(map(math.isnan, one[2:]))
    assert other[0] == 0.5 and all(map(math.isnan, other[1:]))
    assert list(figure.axes[0].lines[0].get_xdata()) == [1, 2, 3, 4]
    edges = [line.get_ydata()[0] for line in figure.axes[0].lines[2:]]
    assert edges == [65_504, 2**-24, torch.finfo(torch.float32).max, 2**-149]
    assert all(word in words(figure) for word in ("fp16, largest: 6.6e+04", "fp32, smallest: 1.4e-45"))
    assert legend(figure) == ["one", "other"]


@pytest.mark.parametrize(("dtype", "name"), [(torch.float16, "fp16"), (torch.float32, "fp32")])
def test_the_edges_are_those_of_the_dtype(dtype, name):
    largest, smallest = figures.EDGES[name]
    assert largest == torch.finfo(dtype).max
    assert torch.tensor(smallest, dtype=dtype) > 0 and torch.tensor(smallest / 2, dtype=dtype) == 0


def test_shares_by_width_stacks_the_parts_to_their_sum():
    figure = figures.shares_by_width([128, 512, 2048], {"embedding": [80, 50, 10], "ffn": [20, 50, 90]})
    low, high = figure.axes[0].collections
    tops = [max(y for x, y in area.get_paths()[0].vertices if x == 512) for area in (low, high)]
    assert tops == [50, 100]
    assert legend(figure) == ["ffn", "embedding"]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["128", "256", "512", "768", "1,600"]


def test_shares_by_width_refuses_a_part_of_another_length():
    with pytest.raises(ValueError, match=r"2 widths, but \{'ffn': 1\}"):
        figures.shares_by_width([1, 2], {"embedding": [1, 2], "ffn": [1]})
