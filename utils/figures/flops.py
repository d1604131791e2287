"""Pictures of work and time: rates, shares, the anatomy of a training step, where 6ND bends, the roofline."""

import numpy as np
from matplotlib.figure import Figure

from utils.figures.numbers import prefixed
from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, filled, new_figure, plate

SERIES = (SKY, ORANGE, GREEN, PURPLE, YELLOW, RED)
LINES = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
STYLES = ("-", "-", "-", "--", "-.", ":")  # so that roofs of one height stay apart
RIDGES = "osD^vP"


def rates(flops_per_second: dict[str, float], title: str = "") -> Figure:
    """FLOP/s of each program, as bars on a logarithmic axis, labelled with how many times the slowest it is."""
    _all_positive(flops_per_second, "rate")
    fig, axes = new_figure(7.4, 0.42 * len(flops_per_second) + 1.1)
    slowest = min(flops_per_second.values())
    bars = axes.barh(list(flops_per_second), list(flops_per_second.values()), color=SKY)
    labels = [f"{prefixed(rate, 'FLOP/s')}   ×{rate / slowest:,.0f}" for rate in flops_per_second.values()]
    axes.bar_label(bars, labels=labels, padding=4)
    axes.set(xscale="log", xlim=(slowest / 10, max(flops_per_second.values()) * 100), xlabel="FLOP/s, logarithmic")
    axes.set_title(title, loc="left")
    axes.invert_yaxis()
    return fig


def shares(rows: dict[str, dict[str, float]], title: str = "") -> Figure:
    """One bar of 100 % for each row; `rows`: label -> {part: amount}, every row with the same parts, any unit."""
    fig, axes = new_figure(7.4, 0.55 * len(rows) + 1.3)
    parts = list(next(iter(rows.values())))
    left = np.zeros(len(rows))
    for place, (part, colour) in enumerate(zip(parts, SERIES, strict=False)):
        widths = np.array([100 * row[part] / sum(row.values()) for row in rows.values()])
        bars = axes.barh(list(rows), widths, left=left, label=part, **filled(place, colour))
        written = [f"{w:.1f} %" if w >= 6 else "" for w in widths]
        axes.bar_label(bars, written, label_type="center", fontsize=9, bbox=plate(colour))
        left += widths
    axes.set(xlim=(0, 100), xlabel="share, %")
    axes.set_title(title, loc="left")
    axes.invert_yaxis()
    axes.legend(ncols=len(parts), loc="upper center", bbox_to_anchor=(0.5, -0.4), fontsize=9, frameon=False)
    return fig


def anatomy(steps: dict[str, dict[str, float]]) -> Figure:
    """FLOPs of a training step for each weight and token; `steps`: label -> {part: FLOPs}, stacked in that order."""
    fig, axes = new_figure(7.4, 0.45 * len(steps) + 1.5)
    parts = list(dict.fromkeys(part for step in steps.values() for part in step))
    left = np.zeros(len(steps))
    for place, (part, colour) in enumerate(zip(parts, SERIES, strict=False)):
        widths = np.array([step.get(part, 0) for step in steps.values()], dtype=float)
        axes.barh(list(steps), widths, left=left, label=part, **filled(place, colour))
        left += widths
    for row, total in enumerate(left):
        axes.text(total + 0.08, row, f"{total:.3g}", va="center", bbox=plate(), zorder=3)
    axes.axvline(6, color=GREY, linestyle=":", linewidth=1)
    axes.set(xlabel="FLOPs for each weight and token", xlim=(0, 1.12 * left.max()))
    axes.invert_yaxis()
    axes.legend(ncols=len(parts), loc="upper center", bbox_to_anchor=(0.5, -0.15), fontsize=9, frameon=False)
    return fig


def where_6nd_bends(
    counted: dict[str, tuple[list[float], list[float]]], marks: dict[str, tuple[float, float]]
) -> Figure:
    """What attention adds to the FLOPs of the weights, in %, against T/d, both logarithmic.

    `counted`: label -> (T/d, extra cost as a fraction), drawn as dots over the line T/(6d); `marks`: label ->
    (T/d, extra cost) of models, written beside their dot.
    """
    fig, axes = new_figure(7.4, 3.9)
    everything = [x for xs, _ in counted.values() for x in xs] + [x for x, _ in marks.values()]
    line = np.geomspace(min(everything) / 1.5, max(everything) * 3, 50)
    axes.plot(line, 100 * line / 6, color=GREY, linewidth=1, label="T/(6d)")
    for (label, (xs, extra)), colour in zip(counted.items(), LINES, strict=False):
        axes.plot(xs, [100 * value for value in extra], "o", color=colour, label=label, markersize=5)
    for label, (x, extra) in marks.items():
        axes.plot([x], [100 * extra], "D", color=RED, markersize=6)
        axes.annotate(label, (x, 100 * extra), xytext=(9, -5), textcoords="offset points", fontsize=9)
    axes.axhline(100, color=BLACK, linestyle=":", linewidth=1)
    axes.text(line[0], 108, "as much as all weights together", fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="sequence length T / width d", ylabel="attention's extra FLOPs, %")
    axes.set_yticks([1, 10, 100, 1000], ["1 %", "10 %", "100 %", "1000 %"])
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.legend(loc="lower right", fontsize=9, frameon=False)
    return fig


def roofline(
    machines: dict[str, tuple[float, float]], points: dict[str, tuple[float, float]] | None = None, title: str = ""
) -> Figure:
    """Attainable FLOP/s against arithmetic intensity (FLOPs for each byte moved), both logarithmic.

    `machines`: label -> (peak FLOP/s, bandwidth bytes/s), one roof each, its ridge marked; `points`: label ->
    (intensity, FLOP/s) of programs that were measured. ValueError for a peak, a bandwidth or a point that is not
    positive.
    """
    points = points or {}
    for label, pair in [*machines.items(), *points.items()]:
        _all_positive({f"{label}[{place}]": value for place, value in enumerate(pair)}, "roofline value")
    fig, axes = new_figure(7.4, 4.4)
    ridges = {label: peak / bandwidth for label, (peak, bandwidth) in machines.items()}
    intensities = [*ridges.values(), *(x for x, _ in points.values())]
    left, right = min(0.05, *intensities), 12 * max(intensities)
    looks = zip(LINES, STYLES, RIDGES, strict=True)
    for (label, (peak, bandwidth)), (colour, style, mark) in zip(machines.items(), looks, strict=False):
        ridge = ridges[label]
        name = f"{label}: {prefixed(peak, 'FLOP/s')}, {prefixed(bandwidth, 'B/s')}, ridge at {ridge:.3g}"
        roof, sign = ([left, ridge, right], [left * bandwidth, peak, peak]), {"marker": mark, "markevery": [1]}
        axes.plot(*roof, linestyle=style, color=colour, linewidth=2, label=name, markersize=7, **sign)
    for number, (label, (x, rate)) in enumerate(points.items()):  # labels by turns below right and above left
        place, side = ((-6, 6), "right") if number % 2 else ((7, -10), "left")
        axes.plot([x], [rate], "D", color=BLACK, markersize=4)
        style = {"textcoords": "offset points", "ha": side, "fontsize": 8, "bbox": plate() | {"alpha": 0.8}}
        axes.annotate(label, (x, rate), xytext=place, zorder=3, **style)
    lowest = min([left * bandwidth for _, bandwidth in machines.values()] + [rate for _, rate in points.values()])
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(lowest / 5, None))
    axes.set(xlabel="arithmetic intensity, FLOP/byte", ylabel="FLOP/s")
    axes.set_title(title, loc="left")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, fontsize=8, frameon=False)
    return fig


def _all_positive(values: dict[str, float], what: str) -> None:
    for label, value in values.items():
        if not value > 0:
            raise ValueError(f"{label}: {what} {value} is not positive, and a logarithmic axis has no place for it")
