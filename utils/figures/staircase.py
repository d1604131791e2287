"""The picture of the capstone: tokens per second, stair by stair."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from utils.figures.style import BLUE, GREY, ORANGE, SKY, new_figure, plate, svg

__all__ = ["staircase", "svg"]


def staircase(names: Sequence[str], tokens_per_second: Sequence[float], where: str) -> Figure:
    """One stair for each name, as high as its tokens per second, with its factor over the first one; orange goes down.

    ValueError if there are not as many heights as names, or none.
    """
    if not names or len(names) != len(tokens_per_second):
        raise ValueError(
            f"{len(names)} names and {len(tokens_per_second)} heights: one height for each of at least one"
        )
    fig, axes = new_figure(9.0, 3.4)
    first, top = tokens_per_second[0], max(tokens_per_second)
    for place, height in enumerate(tokens_per_second):
        falls = place > 0 and height < tokens_per_second[place - 1]
        colour = GREY if place == 0 else ORANGE if falls else SKY
        axes.bar(place, height, width=1.0, align="edge", color=colour, edgecolor="white")
        axes.text(
            place + 0.5,
            height + 0.02 * top,
            f"× {height / first:.2f}",
            ha="center",
            va="bottom",
            fontsize=9,
            bbox=plate(),
        )
    axes.axhline(first, color=BLUE, linewidth=1, linestyle=":", zorder=0.5)
    labels = [name.replace(" ", "\n", 1) for name in names]
    axes.set_xticks([place + 0.5 for place in range(len(names))], labels, fontsize=8.5)
    axes.set(xlim=(0, len(names)), ylim=(0, 1.15 * top), ylabel="tokens per second")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", length=0)
    down = sum(right < left for left, right in pairwise(tokens_per_second))
    axes.set_title(
        f"On this machine's {where} {down} of {len(names) - 1} stairs go down (orange); × is the factor over the first"
    )
    return fig
