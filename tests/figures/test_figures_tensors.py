"""The pictures: what they compute is right, what they cannot draw they refuse. How they look is for eyes."""

import numpy as np
import pytest
import torch
from helpers.figure_text import words

from utils.figures import tensors as figures


@pytest.mark.parametrize(
    ("shape", "stride", "offset"),
    [((3, 4), (4, 1), 0), ((4, 3), (1, 4), 0), ((3, 3), (4, 1), 1), ((3, 4), (0, 1), 2), ((2, 2, 3), (6, 0, 2), 1)],
)
def test_flat_positions_are_where_torch_reads(shape, stride, offset):
    view = torch.arange(24).as_strided(shape, stride, offset)
    assert figures.flat_positions(shape, stride, offset).tolist() == view.tolist()


def test_flat_positions_refuse_a_missing_stride():
    with pytest.raises(ValueError, match=r"\(3, 4\) and stride \(4,\)"):
        figures.flat_positions((3, 4), (4,))


def test_storage_layout_counts_nominal_stored_and_read():
    shown = words(figures.storage_layout((3, 3), (4, 1), 1, stored=12, title="slice"))
    assert "nominal 9 × 4 B = 36 B" in shown and "stored 12 × 4 B = 48 B" in shown and "read 9 places" in shown
    expanded = words(figures.storage_layout((3, 4), (0, 1), itemsize=2))
    assert "nominal 12 × 2 B = 24 B" in expanded and "stored 4 × 2 B = 8 B" in expanded and "read 4 places" in expanded


def test_storage_layout_draws_scalars_and_three_axes():
    assert "nominal 1 × 4 B = 4 B" in words(figures.storage_layout((), ()))
    assert "nominal 24 × 4 B = 96 B" in words(figures.storage_layout((2, 3, 4), (12, 4, 1)))


@pytest.mark.parametrize(
    ("shape", "stride", "offset", "stored", "message"),
    [
        ((3, 4), (4, 1), 0, 11, "0 to 11 leave a storage of 11"),
        ((4,), (-1,), 0, 4, "-3 to 0 leave"),
        ((0, 3), (3, 1), 0, 4, "no elements"),
    ],
)
def test_storage_layout_refuses_what_lies_outside(shape, stride, offset, stored, message):
    with pytest.raises(ValueError, match=message):
        figures.storage_layout(shape, stride, offset, stored=stored)


def test_cache_lines_counts_what_is_fetched_and_what_is_used():
    walks = {"row": [4 * k for k in range(64)], "column": [256 * k for k in range(64)]}
    row, column = (axes.get_title(loc="left") for axes in figures.cache_lines(walks, 64).axes)
    assert row == "row: 4 lines of 64 bytes, 64 numbers fetched, 64 used"
    assert column == "column: 64 lines of 64 bytes, 1,024 numbers fetched, 64 used"
    wide = figures.cache_lines(walks, 64, line_bytes=128).axes[0].get_title(loc="left")
    assert wide == "row: 2 lines of 128 bytes, 64 numbers fetched, 64 used"


def test_cache_lines_colours_each_number_by_its_line():
    (panel,) = figures.cache_lines({"": [0, 260]}, 64, rows_shown=2).axes
    shown = np.asarray(panel.collections[0].get_array()).reshape(2, 64)
    assert shown[0].tolist() == [2] + [1] * 15 + [0] * 48 and shown[1].tolist() == [1, 2] + [1] * 14 + [0] * 48
    with pytest.raises(ValueError, match="rows of 60 numbers"):
        figures.cache_lines({"": [0]}, 60)


def test_broadcast_grid_counts_all_differences():
    (panel, _) = figures.broadcast_grid(np.arange(3)[:, None] - np.arange(3)).axes
    assert panel.get_title(loc="left") == "(3, 1) − (3,): 9 differences\nonly the 3 on the black line were meant"
    assert np.asarray(panel.images[0].get_array()).tolist() == [[0, -1, -2], [1, 0, -1], [2, 1, 0]]


def test_who_sees_whom_counts_past_and_future():
    right, wrong = np.tril(np.ones((4, 4), dtype=bool)), np.ones((4, 4), dtype=bool)
    panels = figures.who_sees_whom({"right": right, "wrong": wrong}).axes
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == [
        "right\npast and itself: 10 of 10\nfuture: 0 of 6",
        "wrong\npast and itself: 10 of 10\nfuture: 6 of 6",
    ]
    crosses = panels[1].lines[0].get_xydata() - 0.5
    assert sorted(map(tuple, crosses)) == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)], "column, row"


def test_guessed_dice_draws_means_in_percent():
    (panel,) = figures.guessed_dice({"honest": [0.0, 0.2, 0.1, 0.3, 0.9]}, mean_of=2).axes
    curve, chance = panel.lines
    assert curve.get_label() == "honest"
    assert np.allclose(curve.get_xydata(), [[2, 10], [4, 20]]), "the last step has no partner"
    assert np.allclose(chance.get_ydata(), 100 / 6)
    (panel,) = figures.guessed_dice({"cheat": [0.2, 0.6]}, mean_of=1, ceiling=0.6875).axes
    assert np.allclose(panel.lines[2].get_ydata(), 68.75) and panel.lines[2].get_label() == "ceiling"


def test_the_other_pictures_of_lecture_01_label_what_they_are_given():
    story = figures.resident_story([("made", 268_435_456), ("freed", 0)])
    assert "268.4 MB" in words(story) and "0.0 MB" in words(story)
    reads = figures.sparse_reads(np.array([0, 5]), 10, {"the file": 2_800_000_000_000, "disk": 4096})
    assert "2,800,000,000,000 B" in words(reads) and "4,096 B" in words(reads)
    trap = figures.order_trap(np.zeros((4, 4)), {"(a h)": np.zeros((4, 2, 2)), "(h a)": np.zeros((4, 2, 2))})
    assert [axes.get_title(loc="left") for axes in trap.axes] == ["the image", "(a h)", "(h a)"]
