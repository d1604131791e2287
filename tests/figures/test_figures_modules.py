"""The pictures of modules: what they draw is what they were given, what they cannot draw they refuse."""

import math

import numpy as np
import pytest
import torch
from helpers.figure_text import legend, texts
from torch import nn

from utils.figures import modules as figures


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 3
        self.gain = nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(1))
        self.layers = nn.ModuleList([nn.PReLU() for _ in range(5)])


def test_module_tree_writes_each_name_into_its_dictionary():
    found = texts(figures.module_tree(Two()))
    start = found.index("model: Two")
    assert found[start : start + 9] == [
        "model: Two", "_parameters", "gain", "_buffers", "mean", "_modules", "layers", "the rest", "width",
    ]  # fmt: skip


def test_module_tree_draws_the_first_and_the_last_of_many_children():
    found = texts(figures.module_tree(Two(), "it"))
    titles = [text for text in found if ":" in text or "…" in text]
    assert titles == [
        "it: Two",
        "layers: ModuleList",
        "0, …, 4",
        "layers.0: PReLU",
        "… and 3 more …",
        "layers.4: PReLU",
    ]


def test_names_of_one_tensor_lead_to_one_box():
    first, second, third = torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(4)
    figure = figures.names_and_tensors({"a": first, "b": second, "c": first, "d": third})
    (axes,) = figure.axes
    assert texts(figure) == ["a", "b", "c", "d", "2 × 3", "2 × 3", "4"]
    a, b, c, d = (line.get_ydata()[1] for line in axes.lines)
    boxes = [patch.get_y() + patch.get_height() / 2 for patch in axes.patches]
    assert a == c > b > d and boxes == pytest.approx([a, b, d])


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


def test_loss_by_start_leaves_out_what_is_beyond_the_frame():
    figure = figures.loss_by_start({"good": [2.0, 1.0, 0.5], "wild": [1e9, math.nan, math.nan]}, guess=2.3)
    good, wild, guess = figure.axes[0].lines
    assert list(good.get_ydata()) == [2, 1, 0.5]
    assert all(map(math.isnan, wild.get_ydata()))
    assert set(guess.get_ydata()) == {2.3}
    assert legend(figure) == ["good", "wild: 1e+09, nan, …"]


def test_spread_by_layer_draws_a_ridge_for_each_layer_where_its_numbers_are():
    layers = [[1.0, 10.0, -10.0], [0.001, 0.0, math.nan]]
    figure = figures.spread_by_layer(
        {"one": {"outputs": layers, "gradients": layers}, "two": {"outputs": layers, "gradients": layers}}
    )
    assert len(figure.axes) == 4 and [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["one", "two"]
    first, second = figure.axes[0].collections
    tops = [min(ridge.get_paths()[0].vertices, key=lambda point: point[1]) for ridge in (first, second)]
    assert tops[0] == pytest.approx((1, 0.1), abs=0.06) and tops[1] == pytest.approx((-3, 1.1), abs=0.06)
    assert figure.axes[0].get_ylim()[0] > 2 > 0 == figure.axes[0].get_ylim()[1]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][-1] == "$10^{1}$"


def test_scale_by_depth_draws_each_start_over_its_law():
    figure = figures.scale_by_depth({"He": [1.0, 1.1], "own": [0.4, 0.2]}, {"He": [1.0, 1.0], "own": [0.4, 0.1]})
    drawn = [list(line.get_ydata()) for line in figure.axes[0].lines]
    assert drawn == [[1, 1], [1, 1.1], [0.4, 0.1], [0.4, 0.2]]
    assert figure.axes[0].get_yscale() == "log"


def test_scale_by_depth_draws_no_law_where_there_is_none():
    figure = figures.scale_by_depth({"He": [1.0, 1.1], "own": [0.4, 0.2]}, ylabel="signal")
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[1, 1.1], [0.4, 0.2]]
    assert figure.axes[0].get_ylabel() == "signal" and legend(figure) == ["He", "own"]


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


def test_loss_by_start_shows_the_longest_run_whole():
    figure = figures.loss_by_start({"long": [2.0] * 30, "short": [2.0] * 5}, guess=2.3)
    assert figure.axes[0].get_xlim() == (0, 30)


def test_start_film_shows_one_start_at_a_time(monkeypatch):
    frames = {}
    monkeypatch.setattr(figures, "film", lambda shown, description: frames.update(shown))
    scales = {"half": [0.5, 0.25], "whole": [1.0, 1.0]}
    figures.start_film(scales, {"half": [2.3, 2.3], "whole": [50.0, math.nan]}, guess=2.3)
    depth, training = frames["whole"].axes
    assert list(frames) == ["half", "whole"] and list(depth.lines[0].get_ydata()) == [1, 1]
    assert all(map(math.isnan, training.lines[0].get_ydata()))
    assert list(frames["half"].axes[1].lines[0].get_ydata()) == [2.3, 2.3]
    assert len({figure.axes[0].get_ylim() for figure in frames.values()}) == 1


def test_change_by_layer_draws_a_line_for_each_step():
    figure = figures.change_by_layer({"own": {10: [1e-4, 1e-2]}, "he": {10: [1e-3] * 2, 20: [1e-2] * 2}}, usual=1e-3)
    own, he = figure.axes
    assert [list(line.get_ydata()) for line in own.lines] == [[1e-4, 1e-2], [1e-3, 1e-3]]
    assert legend(figure) == ["step 10", "step 10", "step 20"] and he.get_yscale() == "log"


def test_loss_and_signal_draws_both_and_the_levels():
    runs = {"slow": ([4, 3.3], [0.8, 0.1]), "fast": ([4, 3.0, 2.0], {0: 0.5, 2: 0.9}, "more")}
    left, right = figures.loss_and_signal(runs, {"a guess": 4.2, "letters": 3.3}, "signal").axes
    assert [list(line.get_ydata()) for line in left.lines] == [[4, 3.3], [4, 3, 2], [4.2, 4.2], [3.3, 3.3]]
    assert [list(line.get_xdata()) for line in right.lines] == [[0, 1], [0, 2]]
    assert list(right.lines[1].get_ydata()) == [0.5, 0.9] and right.get_ylabel() == "signal"
    assert [text.get_text() for text in left.texts] == ["a guess", "letters"] and left.get_ylim()[0] < 2
    logarithmic = figures.loss_and_signal(runs, {"a guess": 4.2}, "signal", logarithmic=True)
    assert logarithmic.axes[1].get_yscale() == "log"


def test_numbers_in_squares_writes_each_number_and_what_is_hidden():
    figure = figures.numbers_in_squares({"scores": [[1, -math.inf], [0.25, 2]]}, "ab")
    assert [text for text in texts(figure) if text in ("1.00", "−∞", "0.25", "2.00")] == ["1.00", "−∞", "0.25", "2.00"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]


def test_learned_shares_draws_the_first_letters():
    figure = figures.learned_shares({"one": np.eye(4), "two": np.ones((4, 4))}, ["a", " ", "\n", "b"], first=3)
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == ["one", "two"]
    assert np.array_equal(figure.axes[0].images[0].get_array(), np.eye(3))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["a", "␣", "↵"]
