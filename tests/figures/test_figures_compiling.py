"""The pictures of torch.compile: what they draw is what they were given."""

import pytest
from helpers.figure_text import legend, texts

from utils.figures import compiling as figures


def test_captured_strips_draws_a_box_for_each_operation_and_a_dot_for_each_break():
    figure = figures.captured_strips({"before": [["sin", "mul"], ["add"]], "after": [["sin", "mul", "add"]]})
    (axes,) = figure.axes
    assert texts(figure) == ["sin", "mul", "add"] * 2
    assert len(axes.patches) == 6 and len(axes.lines) == 1
    assert [label.get_text() for label in axes.get_yticklabels()] == ["before: 2", "after: 1"]


def test_recompilations_draws_each_setting_over_the_calls():
    settings = {"None": [1, 2, 2], "True": [1, 1, 1], "False": [1, 2, 3]}
    figure = figures.recompilations([16, 17, 32], settings)
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == list(settings.values())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["16", "17", "32"]
    assert legend(figure) == list(settings)


def test_recompilations_refuses_a_setting_of_another_length():
    with pytest.raises(ValueError, match=r"3 calls, but \{'b': 1\}"):
        figures.recompilations([1, 2, 3], {"a": [1, 1, 1], "b": [1], "c": [1, 2, 3]})


def test_launches_are_boxes_in_their_order_and_a_strange_kind_is_refused():
    fig = figures.launches({"eager mode": ["product", "other", "other"], "compiled": ["product", "fused"]}, wrap=2)
    (axes,) = fig.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["eager mode: 3", "compiled: 2"]
    assert len(axes.patches) == 5
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["a kernel that Inductor wrote", "a matrix product", "another kernel of PyTorch's"]
    with pytest.raises(ValueError, match="no colour for \\['strange'\\]"):
        figures.launches({"eager mode": ["strange"]})
