"""Pictures of modules: what travels with them, the scale of activations through depth, what models are made of."""

from collections.abc import Sequence
from math import isfinite

from matplotlib.figure import Figure

from utils.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    new_figure,
    plate,
    signs,
)

# The largest and the smallest number above zero that a float holds, subnormal ones included.
EDGES = {"fp16": (65_504.0, 2.0**-24), "fp32": (3.4028234663852886e38, 2.0**-149)}
LINES = (RED, BLUE, GREEN, PURPLE)
PARTS = (SKY, ORANGE, GREEN, YELLOW, PURPLE)


def tile_table(table: dict[str, dict[str, bool]]) -> Figure:
    """One tile for each row and column: filled and marked "yes" where it is true, empty and marked "no" elsewhere.

    table: row -> {column: truth}. ValueError if two rows differ in their columns.
    """
    columns = list(next(iter(table.values()), {}))
    if not columns or any(list(row) != columns for row in table.values()):
        raise ValueError(
            f"the rows need the same columns in the same order, not {[list(row) for row in table.values()]}"
        )
    fig, axes = new_figure(1.15 * len(columns) + 1.8, 0.5 * len(table) + 0.5)
    for y, row in enumerate(table.values()):
        for x, true in enumerate(row.values()):
            axes.barh(y, 0.94, left=x - 0.47, height=0.88, color=SKY if true else "white", edgecolor=GREY, lw=0.8)
            axes.text(x, y, "yes" if true else "no", ha="center", va="center", color=BLACK if true else GREY)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(table)), [name.replace("_", " ") for name in table])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(table) - 0.5, -0.5))
    return fig


def activation_scales(stacks: dict[str, Sequence[float]]) -> Figure:
    """The scale after each layer, from layer 1, on a logarithmic axis; a line ends where it is 0 or not finite.

    stacks: label -> scales. Dashed lines mark the largest and smallest numbers of fp16 and fp32.
    """
    fig, axes = new_figure(7.4, 4.0)
    longest = max(map(len, stacks.values()))
    for place, ((label, scales), colour) in enumerate(zip(stacks.items(), LINES, strict=False)):
        usable = [scale if isfinite(scale) and scale > 0 else float("nan") for scale in scales]
        axes.plot(range(1, len(scales) + 1), usable, color=colour, lw=2, label=label, **signs(place, usable))
    for name, (largest, smallest) in EDGES.items():
        style = {"textcoords": "offset points", "fontsize": 8, "bbox": plate() | {"alpha": 0.8}}
        axes.annotate(f"{name}, largest: {largest:.1e}", (longest, largest), (0, 4), ha="right", **style)
        axes.annotate(f"{name}, smallest: {smallest:.1e}", (1, smallest), (4, -11), **style)
        for edge in (largest, smallest):
            axes.axhline(edge, color=GREY, lw=1, ls="--")
    axes.set(yscale="log", xlim=(1, longest), ylim=(1e-54, 1e45), xlabel="layer", ylabel="root mean square")
    axes.set_yticks([10.0**e for e in range(-45, 46, 15)])
    axes.minorticks_off()
    fig.legend(loc="outside upper center", ncols=len(stacks), frameon=False)
    return fig


def shares_by_width(widths: Sequence[int], shares: dict[str, Sequence[float]]) -> Figure:
    """What models of each width are made of, in percent, stacked from the first part upwards.

    shares: part -> percent at each width. ValueError if a part has another number of widths.
    """
    wrong = {part: len(values) for part, values in shares.items() if len(values) != len(widths)}
    if wrong:
        raise ValueError(f"{len(widths)} widths, but {wrong}: give every part one share per width")
    fig, axes = new_figure(7.4, 3.4)
    looks = {"colors": PARTS[: len(shares)], "hatch": HATCHES, "edgecolor": "white", "lw": 0}
    axes.stackplot(widths, list(shares.values()), labels=list(shares), **looks)
    ticks = [w for w in (128, 256, 512, 768, 1600, 4096, 8192) if widths[0] <= w <= widths[-1]]
    axes.set(xscale="log", xlim=(widths[0], widths[-1]), ylim=(0, 100), xlabel="width d", ylabel="% of the parameters")
    axes.set_xticks(ticks, [f"{w:,}" for w in ticks])
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True, frameon=False)
    return fig
