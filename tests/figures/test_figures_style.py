"""What a picture tells by colour it also tells without: in grey, in print, to those who see colours otherwise."""

import io
import math
import re
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from helpers import figure_text  # noqa: F401  (no window)
from helpers.readable import unreadable
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from utils.figures import (
    debugging,
    dtypes,
    fashion,
    flops,
    lab_results,
    memory,
    modules,
    napkin,
    precision,
)
from utils.figures.style import STYLE, new_figure, short_numbers, signs, svg

PARTS = {part: 1.0 + place for place, part in enumerate("abcdef")}
RISING = [1.0, 2.0, 3.0, 4.0]
BARS = {
    "stacked_bars": lambda: napkin.stacked_bars({"x": PARTS}, "GB"),
    "shares": lambda: flops.shares({"x": PARTS}),
    "anatomy": lambda: flops.anatomy({"x": PARTS}),
    "memory_budget": lambda: memory.memory_budget({"x": PARTS}, {"card": 10}),
    "step_shares": lambda: debugging.step_shares(dict(zip("abcde", (1, 2, 3, 4, 5), strict=True)), 9),
}
LINES = {
    "model_against_data": lambda: napkin.model_against_data({"a": 1e20, "b": 1e21, "c": 1e22}, {}, {}),
    "roofline": lambda: flops.roofline(dict.fromkeys("abcd", (1000000000000.0, 100000000000.0))),
    "once_and_each": lambda: flops.once_and_each({1: 2e-4, 9: 3e-4}, 2e-4, 1e-5),
    "gradient_norms": lambda: debugging.gradient_norms(dict.fromkeys("abcd", RISING)),
    "debugging.loss_curves": lambda: debugging.loss_curves(dict.fromkeys("abcdefg", RISING)),
    "precision.loss_curves": lambda: precision.loss_curves(dict.fromkeys("abcdef", RISING)),
    "loss_by_start": lambda: modules.loss_by_start(dict.fromkeys("abc", RISING), 2.3),
    "scale_by_depth": lambda: modules.scale_by_depth(dict.fromkeys("abcd", RISING), dict.fromkeys("abcd", RISING)),
    "stream_scales": lambda: lab_results.stream_scales(dict.fromkeys("abcd", RISING)),
    "rounding_error": lambda: dtypes.rounding_error(np.arange(4), dict.fromkeys("abcde", np.array(RISING))),
    "epoch_curves": lambda: fashion.epoch_curves({key: [RISING] for key in "abc"}, "loss"),
    "norms_watched": lambda: fashion.norms_watched(dict.fromkeys("ab", RISING), 1.0),
}


def grey(colour) -> float:
    """How light a colour looks, 0 to 1: its luminance as sRGB has it, on a scale of equal steps."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722))) ** (1 / 2.4)


def seen(colour) -> float:
    """The same, of a colour that lets the white below it through."""
    *rgb, alpha = to_rgba(colour)
    return grey([1 - alpha * (1 - part) for part in rgb])


@pytest.mark.parametrize("name", BARS)
def test_parts_that_touch_differ_without_colour(name):
    parts = [patch for patch in BARS[name]().axes[0].patches if patch.get_facecolor()[:3] != (0, 0, 0)]
    assert len(parts) >= 5
    for one, other in pairwise(parts):
        apart = abs(seen(one.get_facecolor()) - seen(other.get_facecolor()))
        patterns = [
            each.get_hatch()
            for each in (one, other)
            if abs(seen(each.get_edgecolor()) - seen(each.get_facecolor())) > 0.15
        ]
        assert len(set(patterns)) == 2 or apart > 0.1, (one.get_label(), other.get_label())


@pytest.mark.parametrize("name", LINES)
def test_lines_differ_without_colour(name):
    figure = LINES[name]()
    lines = [line for line in figure.axes[0].lines if not line.get_label().startswith("_")]
    looks = [(line.get_marker(), str(line.get_linestyle()), line.get_linewidth() > 2.5) for line in lines]
    assert len(looks) >= 2 and len(set(looks)) == len(looks), looks


def test_one_style_for_all_also_after_a_figure_was_made():
    assert {key: matplotlib.rcParams[key] for key in STYLE} == STYLE
    debugging.loss_curves({"a": RISING, "b": RISING})
    assert {key: matplotlib.rcParams[key] for key in STYLE} == STYLE


def test_a_line_without_a_finite_value_is_drawn_as_nothing():
    for values in ([math.nan] * 3, [math.inf] * 3, [math.nan, 2.0, 3.0]):
        figure, axes = new_figure()
        axes.plot(values, **signs(1, values))
        svg(figure)
        assert len(axes.lines) == 1 and (axes.lines[0].get_marker() != "None") == (2.0 in values)


def test_shorter_numbers_leave_the_letters_as_large_as_they_were():
    figure, axes = new_figure()
    axes.imshow([[0, 1], [1, 0]])
    axes.set(xlabel="GB alive", ylabel="step")
    file = io.StringIO()
    figure.savefig(file, format="svg")  # letters as shapes, as in a notebook's output
    written, shorter = file.getvalue(), short_numbers(file.getvalue())
    factors = re.findall(r"(?:scale|matrix)\([^)]*\)", written)
    assert "scale(0.015625)" in factors, "there is something to lose"
    assert re.findall(r"(?:scale|matrix)\([^)]*\)", shorter) == factors
    assert len(shorter) < len(written)


def test_words_that_cannot_be_read_are_found():
    axes = (fig := Figure()).add_subplot()  # not pyplot's: conftest.py looks at those
    axes.plot([0, 1], [0, 1])
    axes.set(xlabel="steps", title="A line")
    assert unreadable(fig) == []
    axes.text(0.5, 0.5, "one label")
    axes.text(0.5, 0.52, "another")
    axes.text(0.1, 0.8, "pale", color="#E69F00")
    axes.add_patch(Rectangle((0.6, 0.05), 0.3, 0.2, color="#303030"))
    axes.text(0.7, 0.12, "in the dark")
    overlap, pale, dark = unreadable(fig)
    assert re.match("'another' lies on 'one label', |'one label' lies on 'another', ", overlap)
    assert pale == "'pale': contrast 2.25" and dark.startswith("'in the dark': contrast 1.")
