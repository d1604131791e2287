"""How every picture of the course looks: the palette, the font sizes, an empty figure in that style; and one as a file."""

import io
import re
from collections.abc import Iterable
from math import isfinite

import matplotlib.pyplot as plt
from IPython import get_ipython
from matplotlib.figure import Figure
from matplotlib_inline.backend_inline import set_matplotlib_formats

# Okabe and Ito's palette (2008): eight colours that stay apart for every kind of colour vision.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY, PALE = "#7F7F7F", "#F2F2F2"

# The same order for those who see no colour, and in print: signs on lines, patterns in areas.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "///", "...", "", "\\\\\\", "xxx")

STYLE = {
    "figure.dpi": 110,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.edgecolor": "white",  # no frame, but readable where lines pass behind it
    "legend.framealpha": 0.85,
    "hatch.linewidth": 0.8,
}
plt.rcParams.update(STYLE)  # for good: titles and legends are made after new_figure has returned
if get_ipython() is not None:
    set_matplotlib_formats("svg")  # sharp on every screen


def new_figure(width: float = 7.0, height: float = 3.2, **subplots) -> tuple[Figure, object]:
    """A figure of `width` by `height` inches in the course's style, and its axes as in plt.subplots."""
    fig, axes = plt.subplots(figsize=(width, height), layout="constrained", **subplots)
    plt.close(fig)  # whoever returns it to a notebook shows it; pyplot would show the first one a second time
    return fig, axes


# What makes an SVG the same each time: no random ids. Its text stays text, for search and for screen readers.
SAME = {"svg.hashsalt": "honest-training-loop", "svg.fonttype": "none"}
TAG = re.compile(r"<[^>]+>")
NUMBER = re.compile(r"(?:scale|matrix)\([^)]*\)|-?\d+\.\d{3,}")  # a factor is no coordinate, and stays: it comes first
LEADING = re.compile(r">( +)(?=[^\s<])")  # blanks before a label, which SVG would drop


def svg(figure: Figure) -> bytes:
    """A figure as SVG, the same bytes for the same picture: opaque, since it is shown on white pages and on black ones."""
    file = io.StringIO()
    with plt.rc_context(SAME):
        figure.savefig(file, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    text = short_numbers(file.getvalue())
    text = LEADING.sub(lambda blanks: ">" + "\N{NO-BREAK SPACE}" * len(blanks[1]), text)
    text = text.replace("'DejaVu Sans', 'Bitstream Vera Sans'", "'DejaVu Sans', Verdana")
    return ("\n".join(line.rstrip() for line in text.splitlines()) + "\n").encode()


def short_numbers(text: str) -> str:
    """An SVG whose coordinates have two digits: a hundredth of a point is no loss, and saves a third. Its words stay.

    So do factors: matplotlib draws letters 64 times too large and scales them by 0.015625, which 0.02 is not.
    """

    def shortened(found: re.Match) -> str:
        return found[0] if found[0].endswith(")") else f"{float(found[0]):.2f}"

    return TAG.sub(lambda tag: NUMBER.sub(shortened, tag[0]), text)


def signs(place: int, values: Iterable[float], spacing: float = 0.14) -> dict:
    """How to plot the line of `values` at `place` of several: with its own marker, now and then, not all at the same x.

    A line without a finite value has no place for one, and matplotlib fails to find it.
    """
    if not any(map(isfinite, values)):
        return {}
    return {"marker": MARKERS[place % len(MARKERS)], "markevery": (0.03 * place, spacing), "markersize": 5}


def filled(place: int, colour: str) -> dict:
    """How to fill the part at `place` of several: with its own pattern, and a fine white line around it."""
    return {"facecolor": colour, "hatch": HATCHES[place % len(HATCHES)], "edgecolor": "white", "linewidth": 0.5}


def plate(colour: str = "white") -> dict:
    """What lies behind a text so that it can be read on lines and patterns."""
    return {"facecolor": colour, "edgecolor": "none", "pad": 1}
