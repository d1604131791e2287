"""The capstone's picture: what it draws is what it was given."""

import pytest
from helpers.figure_text import texts
from matplotlib.colors import to_hex

from utils.figures import staircase as figures
from utils.figures.style import GREY, ORANGE, SKY


def test_staircases_draw_each_factor_over_the_floor_and_what_goes_down():
    figure = figures.staircases({"here": {"the floor": 1000.0, "bf16": 800.0, "fused": 2500.0}, "H200": {"floor": 2.0}})
    here, there = figure.axes
    assert [(box.get_x(), box.get_height()) for box in here.patches] == [(0, 1), (1, 0.8), (2, 2.5)]
    assert [to_hex(box.get_facecolor()).upper() for box in here.patches] == [GREY, ORANGE, SKY]
    assert [text for text in texts(figure) if text.startswith("×")] == ["× 1", "× 0.8", "× 2.5", "× 1"]
    assert [label.get_text() for label in here.get_xticklabels()] == ["the\nfloor", "bf16", "fused"]
    assert [axes.get_title(loc="left") for axes in (here, there)] == ["here", "H200"]
    assert there.get_ylim()[1] > 2.5 and there.patches[0].get_height() == 1


@pytest.mark.parametrize("machines", [{}, {"here": {}}, {"here": {"floor": 1.0}, "there": {}}])
def test_staircases_refuse_what_has_no_stairs(machines):
    with pytest.raises(ValueError, match="at least one"):
        figures.staircases(machines)
