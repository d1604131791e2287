"""Pictures of work and time: a layer's three products, a training step, where 6ND bends, launches, the roofline."""

import pickle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from utils.figures.numbers import prefixed
from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, filled, new_figure, plate

SERIES = (SKY, ORANGE, GREEN, PURPLE, YELLOW, RED)
LINES = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
STYLES = ("-", "-", "-", "--", "-.", ":")  # so that roofs of one height stay apart
CURVES = (ORANGE, PURPLE)  # under a roofline, beside its LINES
RIDGES = "osD^vP"
PLACES = [  # of a label beside its point, in points: to the right below, to the left above, and then further away
    *(((7, -10), "left"), ((-6, 6), "right"), ((7, 4), "left"), ((-6, -12), "right")),
    *(((0, y), "center") for y in (9, -16)),
    *(((x, y), side) for y in (-22, 18, -34, 30) for x, side in ((7, "left"), (-6, "right"), (0, "center"))),
]
CLEARLY = 1.5  # times as far as its own point is any other point from a label, so that nobody takes it for that one's


def three_products(tokens: int, inputs: int, outputs: int) -> Figure:
    """The three matrix products that train a layer y = xW, as rectangles in proportion, a row for each.

    Hatched rectangles are gradients. x is (tokens, inputs) and W (inputs, outputs).
    """
    x, W, y = (tokens, inputs), (inputs, outputs), (tokens, outputs)
    flops = f"2 · {tokens} · {inputs} · {outputs} = {2 * tokens * inputs * outputs:,} FLOPs"
    rows = [
        ("forward", [("x", x, SKY), ("W", W, ORANGE), ("y", y, SKY)]),
        ("gradient of the weights", [("xᵀ", x[::-1], SKY), ("dy", y, SKY), ("dW", W, ORANGE)]),
        ("gradient of the input", [("dy", y, SKY), ("Wᵀ", W[::-1], ORANGE), ("dx", x, SKY)]),
    ]
    gap = max(tokens, inputs, outputs) / 3
    words_at = 3 * gap + max(sum(shape[1] for _, shape, _ in matrices) for _, matrices in rows)
    fig, axes = new_figure(7.4, 4.4)
    top = 0.0
    for words, matrices in rows:
        height = max(shape[0] for _, shape, _ in matrices)
        middle, left = top - height / 2, 0.0
        for (name, (high, wide), colour), sign in zip(matrices, "@= ", strict=True):
            hatch = "////" if name.startswith("d") else ""
            look = {"facecolor": colour, "edgecolor": "white", "hatch": hatch, "linewidth": 0.5}
            axes.add_patch(Rectangle((left, middle - high / 2), wide, high, **look))
            centred = {"ha": "center", "va": "center"}
            axes.text(left + wide / 2, middle, name, fontsize=11, bbox=plate(colour), **centred)
            axes.text(left + wide / 2, middle - high / 2 - gap / 4, f"{high} × {wide}", fontsize=8, **centred)
            axes.text(left + wide + gap / 2, middle, sign, fontsize=12, **centred)
            left += wide + gap
        axes.text(words_at, middle, f"{words}\n{flops}", va="center", fontsize=9)
        top -= height + 0.9 * gap
    axes.set(xlim=(-gap / 4, words_at + 5 * gap), ylim=(top + gap / 4, gap / 4), aspect="equal")
    axes.set_axis_off()
    return fig


def shares(rows: dict[str, dict[str, float]], title: str = "") -> Figure:
    """One bar of 100 % for each row; `rows`: label -> {part: amount}, every row with the same parts, any unit.

    Each percentage stands above its part, unless that is a sliver of less than 4 %.
    """
    fig, axes = new_figure(7.4, 0.75 * len(rows) + 1.2)
    parts = list(next(iter(rows.values())))
    left = np.zeros(len(rows))
    for place, (part, colour) in enumerate(zip(parts, SERIES, strict=False)):
        widths = np.array([100 * row[part] / sum(row.values()) for row in rows.values()])
        axes.barh(list(rows), widths, left=left, label=part, height=0.5, **filled(place, colour))
        for row, (start, width) in enumerate(zip(left, widths, strict=True)):
            if width >= 4:  # less has no room for it
                axes.text(start + width / 2, row - 0.3, f"{width:.1f} %", ha="center", fontsize=9)
        left += widths
    axes.set(xlim=(0, 100), xlabel="share, %", ylim=(len(rows) - 0.65, -0.65))
    axes.set_title(title, loc="left")
    fig.legend(ncols=len(parts), loc="outside lower center", fontsize=9, frameon=False)
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
    fig.legend(ncols=len(parts), loc="outside lower center", fontsize=9, frameon=False)
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


def once_and_each(seconds: dict[int, float], once: float, each: float) -> Figure:
    """Time of a step against its batch, both logarithmic, over the line once + batch · each and its two parts.

    seconds: batch -> seconds of a step, drawn as dots; once, each: in seconds. ValueError for what is not positive.
    """
    _all_positive({f"seconds[{batch}]": value for batch, value in seconds.items()}, "time")
    _all_positive({"once": once, "each": each, "batches": min(seconds)}, "value")
    fig, axes = new_figure(7.4, 3.6)
    batches = np.geomspace(min(seconds), 1.25 * max(seconds), 100)  # not far beyond what was timed
    axes.plot(batches, 1e6 * (once + batches * each), color=BLUE, linewidth=2, label="once + batch · each")
    paid_once, paid_each = f"once: {1e6 * once:,.0f} µs", f"batch · each: {1e6 * each:.2g} µs for a picture"
    axes.axhline(1e6 * once, color=ORANGE, linestyle=":", linewidth=1.6, label=paid_once)
    axes.plot(batches, 1e6 * batches * each, color=GREEN, linestyle="--", linewidth=1.6, label=paid_each)
    axes.plot(list(seconds), [1e6 * value for value in seconds.values()], "o", color=BLACK, markersize=5, label="timed")
    lowest = min(once, *seconds.values())
    axes.set(xscale="log", yscale="log", xlabel="pictures in a step", ylabel="µs for a step")
    axes.set(xlim=(batches[0] / 1.2, batches[-1]), ylim=(1e6 * lowest / 12, None))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.legend(loc="upper left", fontsize=9, frameon=False)
    return fig


def launch_timeline(
    launches: list[tuple[float, float]], kernels: list[tuple[float, float]], stops: dict[str, float]
) -> Figure:
    """The CPU's launches over the GPU's kernels, (begin, end) of each in µs; `stops`: label -> what that clock reads."""
    fig, axes = new_figure(7.4, 2.5)
    rows = (("CPU launches", launches, ORANGE), ("GPU executes", kernels, SKY))
    for row, (_, spans, colour) in enumerate(rows):
        for number, (begin, end) in enumerate(spans, 1):
            axes.barh(row, end - begin, left=begin, height=0.45, color=colour, edgecolor="white")
            axes.text((begin + end) / 2, row, str(number), ha="center", va="center", fontsize=9)
    for label, stop in stops.items():
        axes.axvline(stop, color=RED, linestyle="--", linewidth=1.2, ymax=0.84)
        axes.text(stop, -0.52, f"{label}: {stop:.0f} µs", ha="left" if stop < 80 else "right", va="bottom", fontsize=9)
    axes.set(xlabel="µs", xlim=(0, 1.04 * max(*stops.values(), kernels[-1][1])), ylim=(1.5, -0.9))
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    return fig


def roofline(
    machines: dict[str, tuple[float, float]],
    points: dict[str, tuple[float, float]] | None = None,
    title: str = "",
    curves: dict[str, list[tuple[float, float]]] | None = None,
) -> Figure:
    """Attainable FLOP/s against arithmetic intensity (FLOPs for each byte moved), both logarithmic.

    `machines`: label -> (peak FLOP/s, bandwidth bytes/s), one roof each, its ridge marked; `points`: label ->
    (intensity, FLOP/s) of programs that were measured; `curves`: label -> such pairs, in order, drawn as a dashed line.
    ValueError for a peak, a bandwidth, a point or a place of a curve that is not positive.
    """
    points, curves = points or {}, curves or {}
    places = [(label, pair) for label, curve in curves.items() for pair in curve]
    for label, pair in [*machines.items(), *points.items(), *places]:
        _all_positive({f"{label}[{place}]": value for place, value in enumerate(pair)}, "roofline value")
    fig, axes = new_figure(7.4, 4.4)
    ridges = {label: peak / bandwidth for label, (peak, bandwidth) in machines.items()}
    intensities = [*ridges.values(), *(x for x, _ in points.values())]
    left, right = min(0.05, 0.5 * min(intensities)), 12 * max(intensities)  # a label fits beside each point
    looks = zip(LINES, STYLES, RIDGES, strict=True)
    for (label, (peak, bandwidth)), (colour, style, mark) in zip(machines.items(), looks, strict=False):
        ridge = ridges[label]
        name = f"{label}: {prefixed(peak, 'FLOP/s')}, {prefixed(bandwidth, 'B/s')}, ridge at {ridge:.3g}"
        roof, sign = ([left, ridge, right], [left * bandwidth, peak, peak]), {"marker": mark, "markevery": [1]}
        axes.plot(*roof, linestyle=style, color=colour, linewidth=2, label=name, markersize=7, **sign)
    for (label, curve), colour in zip(curves.items(), CURVES, strict=False):
        axes.plot(*zip(*curve, strict=True), linestyle="--", color=colour, linewidth=1.6, label=label)
    labels = []
    for number, (label, (x, rate)) in enumerate(points.items()):
        axes.plot([x], [rate], "D", color=BLACK, markersize=4)
        offset, side = PLACES[number % 2]
        style = {"textcoords": "offset points", "ha": side, "fontsize": 8, "bbox": plate() | {"alpha": 0.8}}
        labels.append(axes.annotate(label, (x, rate), xytext=offset, zorder=3, **style))
    lowest = min([left * bandwidth for _, bandwidth in machines.values()] + [rate for _, rate in points.values()])
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(lowest / 5, None))
    axes.set(xlabel="arithmetic intensity, FLOP/byte", ylabel="FLOP/s")
    axes.set_title(title, loc="left")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, fontsize=8, frameon=False)
    _part_labels(fig, labels)
    return fig


def _part_labels(fig: Figure, labels: list[Annotation]) -> None:
    """Move labels of points, in order, so that none hides a label, a point or a ridge, or stands as near to another's point.

    A label that does not, stays; one that does, goes where it hides no roof either, if there is such a place.
    """
    if not labels:
        return
    copy = pickle.loads(pickle.dumps(fig))  # a second layout of the figure itself would not be quite the first
    copy.draw_without_rendering()  # only then are the ends of the axes known
    (axes,) = copy.axes
    for label, moved in zip(labels, _places(axes, axes.texts), strict=True):
        label.set(position=moved[0], ha=moved[1])


def _places(axes: Axes, labels: list[Annotation]) -> list[tuple[tuple[float, float], str]]:
    """The offset and the side of each label."""
    points = {label: axes.transData.transform(label.xy) for label in labels}
    drawn = [(line, axes.transData.transform_path(line.get_path())) for line in axes.lines if len(line.get_xdata()) > 1]
    roofs = [path for _, path in drawn]
    marks = [Bbox.from_bounds(x - 3, y - 3, 6, 6) for x, y in points.values()]
    marks += [
        Bbox.from_bounds(x - 5, y - 5, 10, 10)
        for x, y in (path.vertices[1] for line, path in drawn if line.get_markevery())
    ]
    frame = axes.get_window_extent()
    taken = []  # the boxes of the labels that have their place

    def hidden(label: Annotation) -> tuple[int, bool, int]:
        """How much is wrong with its place, whether it could be another point's, and how many roofs lie under it."""
        box = label.get_window_extent().padded(1)
        outside = (frame.x0 > box.x0) + (frame.x1 < box.x1) + (frame.y0 > box.y0)
        covered = sum(box.overlaps(other) for other in [*taken, *marks])
        distances = {each: _distance(box, *place) for each, place in points.items()}
        own = distances.pop(label)
        other = min(distances.values(), default=np.inf)
        under = sum(roof.intersects_bbox(box, filled=False) for roof in roofs)
        return outside + covered + (other < own), other < CLEARLY * own, under

    for label in labels:
        first = (label.get_position(), label.get_ha())
        costs = {}
        for offset, side in [first, *PLACES]:
            label.set(position=offset, ha=side)
            costs.setdefault((offset, side), hidden(label))
        offset, side = min(costs, key=costs.get) if any(costs[first][:2]) else first
        label.set(position=offset, ha=side)
        taken.append(label.get_window_extent())
    return [(label.get_position(), label.get_ha()) for label in labels]


def _distance(box: Bbox, x: float, y: float) -> float:
    """From a point to the nearest side of a box, 0 inside."""
    return float(np.hypot(max(box.x0 - x, 0, x - box.x1), max(box.y0 - y, 0, y - box.y1)))


def _all_positive(values: dict[str, float], what: str) -> None:
    for label, value in values.items():
        if not value > 0:
            raise ValueError(f"{label}: {what} {value} is not positive, and a logarithmic axis has no place for it")
