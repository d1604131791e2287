"""The calculators' pictures: one for each, of one size whatever is set, so that nothing jumps while a slider moves."""

import math

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from utils.figures.dtypes import FIELD_COLOURS
from utils.figures.memory import COLOURS
from utils.figures.napkin import PARTS, same_compute
from utils.figures.style import BLACK, BLUE, GREY, ORANGE, PALE, RED, SKY, filled, new_figure, plate
from utils.figures.tensors import READER_COLOURS, flat_positions

WIDTH = 7.4
ROWS, COLUMNS, PLACES = 6, 12, 24  # of a view and of its storage, that are drawn
FAINT = 0.25
ON_WHITE = {"color": "white", "pad": 0.5, "alpha": 0.85}
YEAR = 365 * 86_400  # seconds
TIMES = {60: "minute", 3600: "hour", 86_400: "day", 30 * 86_400: "month", YEAR: "year", 100 * YEAR: "100 years"}
RANGE = (1e-60, 1e60)  # of the magnitudes that are drawn; fp64 goes on


def times(seconds: dict[str, float], labels: dict[str, str], chosen: str, caption: str) -> Figure:
    """One dot for each name on one logarithmic axis of time, labelled; the chosen one in a colour of its own."""
    fig, axes = new_figure(WIDTH, 0.42 * len(seconds) + 1.1)
    low, high = min(60, *seconds.values()), max(1000 * YEAR, *seconds.values())
    for row, (name, length) in enumerate(seconds.items()):
        colour, size = (RED, 10) if name == chosen else (SKY, 7)
        axes.hlines(row, low / 3, length, color=colour, linewidth=1.5)
        axes.plot(length, row, "o", color=colour, markersize=size)
        axes.annotate(labels[name], (length, row), xytext=(9, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(seconds)), list(seconds))
    axes.get_yticklabels()[list(seconds).index(chosen)].set_fontweight("bold")
    axes.set(xscale="log", xlim=(low / 3, high * (high / low) ** 0.15), xlabel=caption)
    apart = (high / low) ** 0.1  # so that no two of the words meet
    ticks = [low]
    for length in TIMES:
        if length >= ticks[-1] * apart or length == low:
            ticks.append(length)
    axes.set_xticks(ticks[1:], [TIMES[length] for length in ticks[1:]], fontsize=9)
    axes.minorticks_off()
    axes.set_ylim(len(seconds) - 0.4, -0.6)
    return fig


def storage(shape: tuple[int, ...], stride: tuple[int, ...], offset: int, stored: int) -> Figure:
    """The first rows and columns of a view above the first places of its storage, each place with its number.

    A place wears the colour of the row that reads it, grey if none of the view does. All axes but the last are rows.
    """
    columns = shape[-1] if shape else 1
    rows = math.prod(shape[:-1])
    fig, axes = new_figure(WIDTH, 3.9)
    starts = [_row_start(row, shape, stride, offset) for row in range(min(rows, ROWS))]
    step = stride[-1:] if shape else ()
    for row, start in enumerate(starts):
        colour = READER_COLOURS[row]
        for column, place in enumerate(flat_positions((min(columns, COLUMNS),)[: len(step)], step, start).reshape(-1)):
            _square(axes, 2 * column, row, int(place), colour, wide=2)
        if columns > COLUMNS:
            axes.text(2 * COLUMNS - 0.4, row, "…", va="center", fontsize=10)
    below = f" … {rows - ROWS:,} rows more" if rows > ROWS else ""
    axes.text(-0.9, -0.85, f"the view: {rows:,} × {columns:,}, numbered by place in the storage{below}", fontsize=9)
    y = ROWS + 1.7
    readers = _readers(shape, stride, offset, min(stored, PLACES))
    for place in range(min(stored, PLACES)):
        row = readers.get(place)
        colour = PALE if row is None else READER_COLOURS[row] if row < ROWS else GREY
        _square(axes, place - 0.5, y, place, colour, wide=1)
    more = f" … {stored - PLACES:,} places more" if stored > PLACES else ""
    axes.text(
        -0.9,
        y - 0.85,
        f"the storage, in the order of memory (pale: never read; grey: by rows not drawn){more}",
        fontsize=9,
    )
    axes.set(xlim=(-1.1, 2 * COLUMNS + 0.4), ylim=(y + 0.7, -1.3))
    axes.set_axis_off()
    return fig


def _row_start(row: int, shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> int:
    """The place of a row's first element, all axes but the last counted through."""
    for size, step in zip(reversed(shape[:-1]), reversed(stride[:-1]), strict=True):
        row, index = divmod(row, size)
        offset += index * step
    return offset


def _readers(shape: tuple[int, ...], stride: tuple[int, ...], offset: int, places: int) -> dict[int, int]:
    """The row of the view that reads each of the first `places`. Places grow along every axis of a view without expand."""
    near = [min(size, places) for size in shape]  # an index of `places` or more lies behind them, whatever the stride
    found = {}
    stack = [(0, offset, 0)]
    while stack:
        axis, place, row = stack.pop()
        if place >= places:
            continue
        if axis == len(shape):
            found[place] = row
            continue
        last = axis == len(shape) - 1
        for index in range(near[axis]):
            further = place + index * stride[axis]
            if further >= places:
                break
            stack.append((axis + 1, further, row if last else row * shape[axis] + index))
    return found


def _square(axes, x: float, y: float, place: int, colour: str, wide: float) -> None:
    axes.add_patch(plt.Rectangle((x - 0.48 * wide, y - 0.42), 0.96 * wide, 0.84, facecolor=colour, alpha=0.75, lw=0))
    text = str(place) if place < 10**7 else f"{place:.1e}"
    axes.text(x, y, text, ha="center", va="center_baseline", fontsize=8, in_layout=False)


def number(
    bits: str,
    exponent: int,
    near: tuple[str, str, str],
    at: float | None,
    limits: dict[str, tuple[float, float, float]],
    chosen: str,
    value: float,
) -> Figure:
    """A number's bits by field, its place between the numbers around it, and the range of every format.

    near: the number below, the stored one and the one above, as written; at: where the typed number lies, 0 at the one
    below, 1 and 2 at the others; None where there is no such place. limits: format -> (smallest, smallest normal,
    largest); value: the typed number's magnitude, marked in the ranges where it is finite and not 0.
    """
    fig, (fields, line, ranges) = new_figure(WIDTH, 4.6, nrows=3, height_ratios=[1, 1.1, 3.4])
    _draw_bits(fields, bits, exponent)
    _draw_line(line, near, at)
    for row, (name, (smallest, normal, largest)) in enumerate(limits.items()):
        colour = ORANGE if name == chosen else SKY
        smallest, normal, largest = (min(max(limit, RANGE[0]), RANGE[1]) for limit in (smallest, normal, largest))
        ranges.barh(row, normal - smallest, left=smallest, height=0.6, color=colour, alpha=0.35)
        ranges.barh(row, largest - normal, left=normal, height=0.6, color=colour)
    if 0 < value < math.inf:
        inside = min(max(value, 3 * RANGE[0]), RANGE[1] / 3)
        ranges.axvline(inside, color=RED, linewidth=1.2, linestyle="-" if inside == value else ":")
    ranges.set_yticks(range(len(limits)), list(limits), fontsize=9)
    ranges.set(xscale="log", xlim=(1e-60, 1e60), xlabel="magnitude (pale: subnormal; red: typed; dotted: farther out)")
    ranges.set_xticks([10.0**power for power in range(-60, 61, 20)])
    ranges.minorticks_off()
    ranges.invert_yaxis()
    return fig


def _draw_bits(axes, bits: str, exponent: int) -> None:
    kinds = ["sign"] + ["exponent"] * exponent + ["mantissa"] * (len(bits) - 1 - exponent)
    size = 8.5 if len(bits) <= 32 else 6
    for place, (digit, kind) in enumerate(zip(bits, kinds, strict=True)):
        axes.add_patch(plt.Rectangle((place, 0), 1, 1, facecolor=FIELD_COLOURS[kind], edgecolor="white", lw=0.6))
        axes.text(place + 0.5, 0.5, digit, ha="center", va="center_baseline", fontsize=size, in_layout=False)
    axes.text(0, -0.2, "sign", fontsize=8, va="top")
    axes.text(1, 1.25, "exponent", fontsize=8, va="bottom")
    axes.text(max(len(bits), 8), 1.25, "mantissa", fontsize=8, va="bottom", ha="right")
    axes.set(xlim=(0, max(len(bits), 20)), ylim=(-0.9, 2))
    axes.set_axis_off()


def _draw_line(axes, near: tuple[str, str, str], at: float | None) -> None:
    axes.plot([0, 2], [0, 0], color=GREY, linewidth=1)
    for place, text in enumerate(near):
        axes.plot(place, 0, "o", color=BLUE if place == 1 else SKY, markersize=8 if place == 1 else 6)
        axes.text(place, -0.35, text, ha=("left", "center", "right")[place], va="top", fontsize=8)
    axes.text(1, 0.3, "stored", ha="center", va="bottom", fontsize=8)
    if at is not None:
        axes.plot(at, 0, "|", color=RED, markersize=16, markeredgewidth=2)
        if abs(at - 1) > 0.1:
            axes.text(at, 0.3, "typed", ha="center", va="bottom", fontsize=8)
    axes.set(xlim=(-0.05, 2.05), ylim=(-1, 1))
    axes.set_axis_off()


def roofline(
    roofs: dict[str, float], bandwidth: float, chosen: str, point: tuple[float, float], labels: tuple[str, str]
) -> Figure:
    """FLOP/s that can be had against FLOPs for each byte: a roof for each precision, a dot for the product.

    roofs: precision -> peak FLOP/s; bandwidth: in bytes/s; point: (intensity, FLOP/s); labels: of the dot and the ridge.
    """
    fig, axes = new_figure(WIDTH, 3.9)
    ridge = roofs[chosen] / bandwidth
    left, right = min(0.1, point[0] / 3), max(1e4, 3 * ridge, 3 * point[0])
    by_peak: dict[float, list[str]] = {}
    for precision, peak in roofs.items():
        by_peak.setdefault(peak, []).append(precision)
    for peak, names in by_peak.items():
        here = chosen in names
        colour, wide = (BLUE, 2.4) if here else (GREY, 1)
        axes.plot([left, peak / bandwidth, right], [left * bandwidth, peak, peak], color=colour, linewidth=wide)
        axes.text(right, peak * 1.1, ", ".join(names), fontsize=8, ha="right", va="bottom")
    axes.plot(*point, "D", color=RED, markersize=8, zorder=5)
    place, side = ((-8, -16), "right") if point[0] > ridge else ((12, -12), "left")
    axes.annotate(labels[0], point, xytext=place, textcoords="offset points", ha=side, fontsize=9, bbox=ON_WHITE)
    low = min(left * bandwidth, point[1] / 3)
    axes.plot([ridge, ridge], [low, roofs[chosen]], ":", color=BLUE, linewidth=1)
    axes.text(ridge * 1.1, low * 1.5, labels[1], fontsize=8)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, max(roofs.values()) * 4))
    axes.set(xlabel="FLOPs for each byte moved", ylabel="FLOP/s")
    axes.minorticks_off()
    return fig


def shares(bars: dict[str, dict[str, int]], ends: dict[str, str]) -> Figure:
    """One bar of 100 % for each model, the first one yours; bars: label -> {part: amount}; ends: what stands beside each."""
    fig, axes = new_figure(WIDTH, 0.36 * len(bars) + 1.3)
    totals = [sum(parts.values()) for parts in bars.values()]
    left = [0.0] * len(bars)
    for place, (part, colour) in enumerate(zip(next(iter(bars.values())), PARTS, strict=False)):
        widths = [100 * (parts[part] / total) for parts, total in zip(bars.values(), totals, strict=True)]
        axes.barh(range(len(bars)), widths, left=left, label=part, height=0.75, **filled(place, colour))
        for row, (start, wide) in enumerate(zip(left, widths, strict=True)):
            if wide >= 5:
                inside = {"ha": "center", "va": "center", "fontsize": 8, "in_layout": False, "bbox": plate(colour)}
                axes.text(start + wide / 2, row, f"{wide:.0f}", **inside)
        left = [start + wide for start, wide in zip(left, widths, strict=True)]
    for row, label in enumerate(bars):
        axes.text(101, row, ends[label], va="center", fontsize=9)
    axes.axhline(0.5, color=BLACK, linewidth=0.8)
    axes.set_yticks(range(len(bars)), list(bars))
    axes.get_yticklabels()[0].set_fontweight("bold")
    axes.set(xlabel="share of the parameters, %", xlim=(0, 125), xticks=range(0, 101, 20))
    axes.invert_yaxis()
    fig.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return fig


def memory(bars: dict[str, dict[str, int]], chosen: str, limit: int, limit_label: str, ends: dict[str, str]) -> Figure:
    """One stacked bar of bytes for each stage; the others pale; a line that they have to end before.

    bars: label -> {part: bytes}; ends: what stands beside each.
    """
    fig, axes = new_figure(WIDTH, 3.1)
    longest = max(limit, *(sum(parts.values()) for parts in bars.values()))
    unit, name = next((u for u in ((1e15, "PB"), (1e12, "TB")) if longest >= u[0]), (1e9, "GB"))
    for row, (label, parts) in enumerate(bars.items()):
        left = 0.0
        for place, ((part, nbytes), colour) in enumerate(zip(parts.items(), COLOURS, strict=False)):
            legend = part if label == chosen else None
            look = filled(place, colour) | ({} if legend else {"facecolor": (colour, FAINT), "edgecolor": colour})
            axes.barh(row, nbytes / unit, left=left, label=legend, **look)
            left += nbytes / unit
        axes.text(
            left + 0.01 * longest / unit,
            row,
            ends[label],
            va="center",
            fontsize=9,
            bbox=ON_WHITE | {"alpha": 1},
            zorder=3,
        )
    axes.axvline(limit / unit, color=RED, linewidth=1.2, linestyle="--")
    side = "right" if limit > 0.25 * longest else "left"
    axes.text(limit / unit, -0.62, f" {limit_label} ", ha=side, va="bottom", fontsize=9)
    axes.set_yticks(range(len(bars)), list(bars))
    axes.get_yticklabels()[list(bars).index(chosen)].set_fontweight("bold")
    axes.set(xlabel=f"{name} on each GPU", xlim=(0, 1.2 * longest / unit), ylim=(len(bars) - 0.5, -1.1))
    fig.legend(loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return fig


def scaling(
    flops: float,
    best: tuple[float, float],
    yours: tuple[float, float],
    ratio: float,
    labels: tuple[str, str],
    models: dict[str, tuple[float, float]],
) -> Figure:
    """Tokens against parameters: all runs of `flops` on one falling line, `ratio` tokens a parameter on one that rises.

    best, yours: (parameters, tokens), marked and labelled; models: name -> (parameters, tokens), for comparison.
    """
    fig, axes = new_figure(WIDTH, 3.9)
    points = [best, yours, *models.values()]
    left, right = min(x for x, _ in points) / 10, max(x for x, _ in points) * 10
    low, high = min(y for _, y in points) / 20, max(y for _, y in points) * 20
    ends = [left, right]
    axes.plot(ends, same_compute(flops, ends), color=BLUE, linewidth=2)
    axes.plot(ends, [ratio * x for x in ends], ":", color=BLACK, linewidth=1)
    for name, point in models.items():
        axes.plot(*point, "^", color=GREY, markersize=5)
        axes.annotate(name, point, xytext=(5, -3), textcoords="offset points", fontsize=8)
    for point, label, sign, colour, place, side in (
        (best, labels[0], "o", BLUE, (9, 7), "left"),
        (yours, labels[1], "D", RED, (-9, -15), "right"),
    ):
        axes.plot(*point, sign, color=colour, markersize=8, zorder=5)
        style = {"fontsize": 9, "bbox": ON_WHITE, "zorder": 4}
        axes.annotate(label, point, xytext=place, textcoords="offset points", ha=side, **style)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, high))
    axes.set(xlabel="parameters N", ylabel="training tokens D")
    axes.minorticks_off()
    return fig
