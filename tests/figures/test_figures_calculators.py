"""The calculators' pictures draw what they are given, of one size whatever that is."""

import numpy as np
import pytest
from helpers.figure_text import legend, texts
from matplotlib.colors import to_hex

from utils.figures import calculators as figures
from utils.figures.tensors import READER_COLOURS, flat_positions


def same_size(*drawn) -> bool:
    return len({tuple(figure.get_size_inches()) for figure in drawn}) == 1


def test_times_are_dots_on_one_axis():
    seconds = {"a": 3600.0, "b": 86_400.0}
    figure = figures.times(seconds, {"a": "1 hour", "b": "a day"}, "b", "8 of that kind")
    (axes,) = figure.axes
    assert [line.get_xdata()[0] for line in axes.lines] == [3600, 86_400]
    assert texts(figure) == ["1 hour", "a day"]
    assert [label.get_fontweight() for label in axes.get_yticklabels()] == ["normal", "bold"]
    assert same_size(figure, figures.times({"a": 1e-9, "b": 1e60}, {"a": "", "b": ""}, "a", ""))


@pytest.mark.parametrize(
    ("shape", "stride", "offset"),
    [((4, 6), (6, 1), 0), ((6, 2), (1, 12), 6), ((2, 3, 4), (12, 1, 3), 0), ((), (), 3), ((5,), (2,), 1)],
)
def test_storage_colours_each_place_by_the_row_that_reads_it(shape, stride, offset):
    places = flat_positions(shape, stride, offset).reshape(-1, shape[-1] if shape else 1)
    figure = figures.storage(shape, stride, offset, stored=24)
    numbers = [int(text) for text in texts(figure) if text.isdecimal()]
    assert numbers == [*places.reshape(-1), *range(24)]
    squares = figure.axes[0].patches[-24:]
    for place, square in enumerate(squares):
        rows = np.argwhere(places == place)
        expected = READER_COLOURS[rows[0][0]] if len(rows) else figures.PALE
        assert to_hex(square.get_facecolor()) == expected.lower(), place


def test_a_huge_view_is_drawn_by_its_corner():
    huge = figures.storage((10**6, 10**6, 200), (10**9, 1000, 5), 3, 10**15)
    assert same_size(huge, figures.storage((), (), 0, 1))
    assert "1,000,000,000,000 × 200" in " ".join(texts(huge)) and "999,999,999,994 rows more" in " ".join(texts(huge))
    assert "999,999,999,999,976 places more" in " ".join(texts(huge)) and "1003" in texts(huge)


def test_a_row_that_is_not_drawn_leaves_grey_places():
    figure = figures.storage((8, 2), (1, 8), 0, 16)
    colours = [to_hex(patch.get_facecolor()) for patch in figure.axes[0].patches[-16:]]
    assert [colour == figures.GREY.lower() for colour in colours] == ([False] * 6 + [True] * 2) * 2


LIMITS = {"wide": (1e-300, 1e-290, 1e290), "small": (1e-8, 1e-4, 1e4)}


def test_a_number_is_bits_a_place_and_ranges():
    figure = figures.number("01100", 2, ("0", "0.5", "1"), 1.5, LIMITS, "small", 0.75)
    fields, line, ranges = figure.axes
    field = {to_hex(colour): name[0] for name, colour in figures.FIELD_COLOURS.items()}
    assert "".join(field[to_hex(patch.get_facecolor())] for patch in fields.patches) == "seemm"
    assert [text.get_text() for text in fields.texts] == [*"01100", "sign", "exponent", "mantissa"]
    assert line.lines[-1].get_xdata()[0] == 1.5 and "typed" in [text.get_text() for text in line.texts]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ranges.patches]
    assert np.allclose(ends, [(1e-60, 1e-60), (1e-60, 1e60), (1e-8, 1e-4), (1e-4, 1e4)], rtol=1e-12)
    assert ranges.lines[-1].get_xdata()[0] == 0.75
    assert same_size(figure, figures.number("0" * 64, 11, ("nan",) * 3, None, LIMITS, "wide", 1e308))


def test_a_number_out_of_the_picture_is_dotted_at_its_edge_and_zero_is_not_drawn():
    (line,) = figures.number("000", 1, ("0",) * 3, None, LIMITS, "wide", 1e300).axes[2].lines
    assert line.get_linestyle() == ":" and line.get_xdata()[0] < 1e60
    assert len(figures.number("000", 1, ("0",) * 3, None, LIMITS, "wide", 0.0).axes[2].lines) == 0


def test_a_roof_bends_at_its_ridge_and_equal_ones_share_a_name():
    figure = figures.roofline({"a": 100.0, "b": 50.0, "c": 100.0}, 10.0, "a", (2.0, 20.0), ("20", "ridge: 10"))
    roofs = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3]
    assert [(line.get_xdata()[1], line.get_ydata()[1]) for line in roofs] == [(10, 100), (5, 50)]
    assert all(line.get_ydata()[0] == pytest.approx(10 * line.get_xdata()[0]) for line in roofs)
    assert {"a, c", "b", "20", "ridge: 10"} <= set(texts(figure))
    (dot,) = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (2, 20)


def test_shares_add_up_to_a_hundred():
    figure = figures.shares(
        {"yours": {"x": 1, "y": 3}, "other": {"x": 10**90, "y": 0}}, {"yours": "4", "other": "many"}
    )
    ends = [patch.get_x() + patch.get_width() for patch in figure.axes[0].patches]
    assert ends == [25, 100, 100, 100]
    assert {"25", "75", "100", "4", "many"} <= set(texts(figure)) and legend(figure) == ["x", "y"]


def test_memory_draws_every_stage_and_the_card():
    bars = {"none": {"w": 60 * 10**9, "g": 60 * 10**9}, "all": {"w": 10**9, "g": 10**9}}
    figure = figures.memory(bars, "all", 80 * 10**9, "the card", {"none": "120 GB", "all": "2 GB"})
    (axes,) = figure.axes
    assert [patch.get_x() + patch.get_width() for patch in axes.patches] == [60, 120, 1, 2]
    assert [patch.get_facecolor()[3] for patch in axes.patches] == [figures.FAINT] * 2 + [1] * 2
    assert axes.lines[0].get_xdata()[0] == 80 and axes.get_xlabel() == "GB on each GPU"
    assert legend(figure) == ["w", "g"] and {"120 GB", "2 GB", " the card "} <= set(texts(figure))
    more = figures.memory({"all": {"w": 10**40}}, "all", 10**9, "", {"all": ""})
    assert more.axes[0].get_xlabel() == "PB on each GPU" and same_size(figure, more)


def test_all_runs_of_a_budget_lie_on_its_line():
    figure = figures.scaling(6e22, (1e10, 1e12), (1e9, 1e13), 100, ("best", "yours"), {"other": (1e11, 1e10)})
    lines = figure.axes[0].lines
    assert np.allclose(6 * np.array(lines[0].get_xdata()) * lines[0].get_ydata(), 6e22)
    assert np.allclose(np.array(lines[1].get_ydata()) / lines[1].get_xdata(), 100)
    dots = {line.get_marker(): (line.get_xdata()[0], line.get_ydata()[0]) for line in lines[2:]}
    assert dots == {"^": (1e11, 1e10), "o": (1e10, 1e12), "D": (1e9, 1e13)}
    assert set(texts(figure)) == {"best", "yours", "other"}
