"""The capstone's picture: what it draws is what it was given."""

import pytest
from helpers.figure_text import texts
from matplotlib.colors import to_hex

from utils.figures import staircase as figures
from utils.figures.style import GREY, ORANGE, SKY


def test_staircase_draws_each_height_its_factor_and_what_goes_down():
    figure = figures.staircase(["plain fp32", "bf16", "fused AdamW"], [1000.0, 800.0, 2500.0], "cpu")
    (axes,) = figure.axes
    assert [(box.get_x(), box.get_height()) for box in axes.patches] == [(0, 1000), (1, 800), (2, 2500)]
    assert [to_hex(box.get_facecolor()).upper() for box in axes.patches] == [GREY, ORANGE, SKY]
    assert [text for text in texts(figure) if text.startswith("×")] == ["× 1.00", "× 0.80", "× 2.50"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["plain\nfp32", "bf16", "fused\nAdamW"]
    assert axes.get_ylabel() == "tokens per second"


@pytest.mark.parametrize(
    ("heights", "said"),
    [
        ([1.0, 2.0, 3.0], "0 of 2 stairs go down"),
        ([1.0, 1.0, 0.5], "1 of 2 stairs go down"),
        ([3.0, 2.0, 1.0], "2 of 2 stairs go down"),
        ([1.0], "0 of 0 stairs go down"),
    ],
)
def test_the_title_says_how_many_stairs_go_down(heights, said):
    (axes,) = figures.staircase("abc"[: len(heights)], heights, "cpu").axes
    assert axes.get_title(loc="left").startswith(f"On this machine's cpu {said}")


@pytest.mark.parametrize(("names", "heights"), [([], []), (["a", "b"], [1.0])])
def test_staircase_refuses_heights_that_do_not_match(names, heights):
    with pytest.raises(ValueError, match="names and"):
        figures.staircase(names, heights, "cpu")
