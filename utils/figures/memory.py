"""Pictures of memory: one step over time, the activation law, checkpointing's price, budgets against cards."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from utils.figures.numbers import byte_unit
from utils.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    filled,
    new_figure,
    plate,
)

COLOURS = (BLUE, ORANGE, GREEN, SKY, PURPLE, YELLOW, RED, GREY)
LAYERS = ("", "\\\\\\", "", "", "///", "")  # where two layers that touch are the same grey


def _stacked(axes: Axes, parts: dict[str, Sequence[int]], phases: dict[str, int], top: float, scale: int) -> int:
    """Draw the layers of one step and the names of its phases; the index of its peak.

    Bytes are divided by `scale`, and `top` is the highest of the picture, so divided.
    """
    lengths = {len(series) for series in parts.values()}
    if len(lengths) != 1:
        raise ValueError(f"categories of {sorted(lengths)} events: give every category one value per event")
    total = _total(parts)
    layers = [[value / scale for value in series] for series in parts.values()]
    looks = {"colors": COLOURS[: len(parts)], "hatch": LAYERS, "edgecolor": "white", "lw": 0}
    axes.stackplot(range(len(total)), layers, labels=list(parts), step="post", **looks)
    for name, start in phases.items():
        axes.axvline(start, color=BLACK, lw=0.8, ls=":")
        axes.text(start, 1.13 * top, f" {name}", fontsize=9, va="top")
    peak = total.index(max(total))
    axes.plot(peak, total[peak] / scale, "v", color=BLACK, markersize=6)
    axes.set(xlim=(0, len(total) - 1), ylim=(0, 1.15 * top), xlabel="event of the step")
    return peak


def _total(parts: dict[str, Sequence[int]]) -> list[int]:
    return [sum(values) for values in zip(*parts.values(), strict=False)]


def step_timeline(parts: dict[str, Sequence[int]], phases: dict[str, int]) -> Figure:
    """Bytes alive after each event of a step (an operation, the birth of a tensor), stacked by category.

    parts: category -> bytes after each event, all of one length, the lowest layer first.
    phases: name -> index of its first event, in order. Raises ValueError if the lengths differ.
    """
    highest = max(_total(parts))
    scale, unit = byte_unit(highest)
    fig, axes = new_figure(7.4, 3.9)
    top = highest / scale
    peak = _stacked(axes, parts, phases, top, scale)
    axes.text(peak, top, f"   peak {top:,.2f} {unit}", va="center", fontsize=9)
    axes.set(ylabel=f"{unit} alive")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True, frameon=False)
    return fig


def steps_and_peak(
    steps: dict[str, tuple[dict, dict]], operations: Sequence[str], around: int, limit: tuple[str, int], reach: int = 5
) -> Figure:
    """Several steps on one scale beside a card, and the last one's peak enlarged, birth by birth.

    steps: title -> (parts, phases) as in step_timeline. operations: the names of the last step's. around: the index of the
    birth in the middle of the enlargement. limit: the card's name, and its bytes. reach: births on either side.
    """
    highest = max(limit[1], *(max(_total(parts)) for parts, _ in steps.values()))
    scale, unit = byte_unit(highest)
    widths = {"width_ratios": [3] * len(steps) + [2.6]}
    fig, panels = new_figure(10.4, 5.2, ncols=len(steps) + 1, sharey=True, gridspec_kw=widths)
    for axes, (title, (parts, phases)) in zip(panels, steps.items(), strict=False):
        _stacked(axes, parts, phases, highest / scale, scale)
        axes.set(title=f"{title}: {max(_total(parts)) / scale:,.2f} {unit}", xlabel="birth of a tensor")
    parts, _ = list(steps.values())[-1]
    shown = range(around - reach, around + reach + 1)
    layers = [[values[at] / scale for at in shown for _ in (0, 1)] for values in parts.values()]
    edges = [at + side for at in shown for side in (-0.5, 0.5)]
    panels[-1].stackplot(edges, layers, colors=COLOURS[: len(parts)], hatch=LAYERS, edgecolor="white", lw=0)
    names = [
        operations[at].removeprefix("aten.").removeprefix("native").strip("_").removesuffix("_data") for at in shown
    ]
    panels[-1].set_xticks(list(shown), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    panels[-1].set(title="its top, enlarged", xlim=(edges[0], edges[-1]))
    for axes in panels:
        axes.axhline(limit[1] / scale, color=RED, lw=1.4, ls="--")
    last = panels[-2]
    last.text(
        0.99, limit[1] / scale, limit[0], transform=last.get_yaxis_transform(), ha="right", va="bottom", fontsize=9
    )
    panels[0].set(ylabel=f"{unit} alive")
    handles, labels = panels[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return fig


def storage_with_views(numbers: int, views: dict[str, tuple[int, int]], itemsize: int = 4) -> Figure:
    """A storage as a bar of `numbers` numbers, and above it the tensors that look at it: name -> (first, one past last)."""
    fig, axes = new_figure(7.0, 0.5 * len(views) + 1.5)
    axes.broken_barh([(0, numbers)], (0, 0.8), facecolor=PALE, edgecolor=BLACK)
    nbytes = f"the storage: {numbers * itemsize:,} bytes"
    axes.text(numbers / 2, 0.4, nbytes, ha="center", va="center", fontsize=9)
    for row, (name, (first, end)) in enumerate(views.items(), 1):
        look = filled(row - 1, COLOURS[row - 1])
        axes.broken_barh([(first, end - first)], (row + 0.1, 0.55), **look)
        for place in (first, end):
            axes.plot([place, place], [0.8, row + 0.1], color=GREY, lw=0.8, ls=":")
        label = f"{name}: {(end - first) * itemsize:,} bytes"
        if end < 0.6 * numbers:
            axes.text(end + 0.01 * numbers, row + 0.38, label, va="center", fontsize=9)
        elif first > 0.4 * numbers:
            axes.text(first - 0.01 * numbers, row + 0.38, label, ha="right", va="center", fontsize=9)
        else:
            axes.text((first + end) / 2, row + 0.38, label, ha="center", va="center", fontsize=9, bbox=plate())
    axes.set(xlim=(-0.01 * numbers, 1.01 * numbers), ylim=(-0.1, len(views) + 0.9), xlabel="place in the storage")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return fig


def law_fit(predicted: Sequence[int], measured: Sequence[int], unseen: tuple[int, int], terms: dict) -> Figure:
    """Left: bytes measured against bytes predicted, one dot a shape; right: the law's terms as T grows.

    unseen: (predicted, measured) of a shape that the law was not fitted on.
    terms: {"T": tokens, label: bytes at each T, ...}: drawn as one line for each label.
    """
    fig, (dots, lines) = new_figure(7.4, 3.2, ncols=2)
    ends = [0.6 * min(predicted), 1.8 * unseen[0]]
    dots.plot(ends, ends, color=GREY, lw=1)
    dots.plot(predicted, measured, "o", color=BLUE, label="fitted on these")
    dots.plot(*unseen, "*", color=RED, markersize=13, label="never seen")
    dots.set(xscale="log", yscale="log", xlabel="bytes by the law", ylabel="bytes measured")
    dots.legend(loc="upper left", frameon=False)
    tokens = terms["T"]
    drawn = zip(((k, v) for k, v in terms.items() if k != "T"), COLOURS, "os^D", strict=False)
    for (label, values), colour, mark in drawn:
        lines.plot(tokens, [value / 1e9 for value in values], mark + "-", color=colour, markersize=4, label=label)
    lines.set(xscale="log", yscale="log", xlabel="tokens T", ylabel="GB kept by one layer")
    lines.set_xticks(tokens, [f"{t:,}" for t in tokens], fontsize=8)
    lines.minorticks_off()
    lines.legend(loc="upper left", frameon=False)
    return fig


def checkpoint_curve(segments: Sequence[int], peaks: Sequence[float], flops: Sequence[float], layers: int) -> Figure:
    """Peak memory (in activations of one layer) and FLOPs (1 = no checkpointing) against the number of segments.

    The grey line is segments + layers / segments.
    """
    fig, (memory, price) = new_figure(7.4, 3.1, ncols=2)
    fine = [segments[0] * (segments[-1] / segments[0]) ** (k / 60) for k in range(61)]
    memory.plot(fine, [s + layers / s for s in fine], color=GREY, lw=1, label=f"s + {layers}/s")
    memory.plot(segments, peaks, "o", color=BLUE, label="measured")
    low = peaks.index(min(peaks))
    memory.annotate(
        f"{peaks[low]:.0f} at s = {segments[low]}",
        (segments[low], peaks[low]),
        (0, 22),
        textcoords="offset points",
        ha="center",
        fontsize=9,
    )
    memory.set(ylabel="peak, activations", ylim=(0, 1.1 * max(peaks)))
    memory.legend(loc="upper center", frameon=False)
    price.plot(segments, flops, "s-", color=ORANGE)
    price.axhline(4 / 3, color=GREY, lw=1, ls=":")
    price.text(segments[-1], 4 / 3, "4/3", ha="right", va="bottom", fontsize=9)
    price.set(ylabel="FLOPs of the step, 1 = plain", ylim=(0.95, 1.4))
    for axes in (memory, price):
        axes.set(xscale="log", xlabel="segments s")
        axes.set_xticks(segments, segments)
        axes.minorticks_off()
    return fig


def memory_budget(bars: dict[str, dict[str, int]], cards: dict[str, int]) -> Figure:
    """One stacked bar of bytes for each way to train; `cards`: name -> bytes that it holds, a vertical line.

    bars: label -> {part: bytes}; a part keeps its colour over all bars. The total stands before the bar, where
    no line of a card can cross it.
    """
    parts = list(dict.fromkeys(part for bar in bars.values() for part in bar))
    longest = max(max(sum(bar.values()) for bar in bars.values()), max(cards.values()))
    fig, axes = new_figure(7.4, 0.42 * len(bars) + 1.3)
    for row, bar in enumerate(bars.values()):
        left = 0.0
        for part, nbytes in bar.items():
            place = parts.index(part)
            look = filled(place, COLOURS[place % len(COLOURS)])
            axes.barh(row, nbytes / 1e9, left=left, label=part, **look)
            left += nbytes / 1e9
    for name, size in cards.items():
        axes.axvline(size / 1e9, color=RED, lw=1.2, ls="--")
        axes.text(size / 1e9, -0.75, f"{name} ", ha="right", fontsize=9)
    axes.set_yticks(range(len(bars)), [f"{name}: {sum(bar.values()) / 1e9:,.1f} GB" for name, bar in bars.items()])
    axes.set(xlabel="GB on one card", xlim=(0, 1.03 * longest / 1e9), ylim=(len(bars) - 0.5, -1.1))
    handles, labels = axes.get_legend_handles_labels()
    first = dict(zip(reversed(labels), reversed(handles), strict=True))
    fig.legend(
        [first[part] for part in parts], parts, loc="outside lower center", ncols=min(len(parts), 3), frameon=False
    )
    return fig
