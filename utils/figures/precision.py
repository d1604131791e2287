"""Pictures of mixed precision: a step and its dtypes, gradients and fp16's edges, loss curves, a scale and its skips."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from utils.figures.player import Film, film
from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, new_figure, signs

COLOURS = (BLACK, ORANGE, GREEN, BLUE, RED, PURPLE, SKY)
DTYPES = {"float32": SKY, "bfloat16": ORANGE, "float16": YELLOW, "float64": PURPLE}  # drawn in GREY if none of these
STATIONS = {  # of a training step: where each tensor is drawn
    "weights": (0.0, 1.0),
    "16-bit copies": (1.0, 1.0),
    "logits": (2.0, 1.0),
    "loss": (3.0, 1.0),
    "gradient of\nthe logits": (3.0, 0.0),
    "gradient of\nthe copies": (2.0, 0.0),
    ".grad": (1.0, 0.0),
    "Adam's averages": (0.0, 0.0),
}
OPERATIONS = (
    "cast",
    "matrix\nproducts",
    ".float(),\nthen loss",
    "backward\nof the loss",
    "matrix\nproducts",
    "cast",
    "Adam",
    "step",
)
PATTERNS = {"bfloat16": "///", "float16": "...", "float64": "xxx"}


def dtype_table(columns: dict[str, dict[str, object]]) -> Figure:
    """One row of boxes for each column: the dtype of each operation's result, as a colour.

    columns: name -> {operation: torch dtype}; all columns have the same operations, in the same order. ValueError if not.
    """
    names = list(next(iter(columns.values())))
    if any(list(column) != names for column in columns.values()):
        raise ValueError(f"columns of different operations: give each of {', '.join(columns)} the same")
    fig, axes = new_figure(0.26 * len(names) + 1.1, 0.42 * len(columns) + 1.9)
    found = [[str(dtype).removeprefix("torch.") for dtype in column.values()] for column in columns.values()]
    for row, dtypes in enumerate(found):
        colours = [DTYPES.get(dtype, GREY) for dtype in dtypes]
        patterns = [PATTERNS.get(dtype, "") for dtype in dtypes]
        axes.bar(range(len(names)), 0.86, 0.9, bottom=row - 0.43, color=colours, hatch=patterns, edgecolor="white")
    for dtype in dict.fromkeys(dtype for dtypes in found for dtype in dtypes):
        look = {"color": DTYPES.get(dtype, GREY), "hatch": PATTERNS.get(dtype, ""), "edgecolor": "white", "lw": 0}
        axes.bar([0], [0], label=dtype, **look)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=9)
    axes.set_yticks(range(len(columns)), list(columns))
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(len(columns) - 0.5, -0.5))
    fig.legend(loc="outside upper center", ncols=len(DTYPES), frameon=False, title="dtype that comes out")
    return fig


def step_dtypes(dtypes: dict[str, object]) -> Figure:
    """One training step as a ring of tensors: forward above, backward below, each box with its dtype and its colour.

    dtypes: station -> torch dtype, for all of STATIONS in that order. ValueError if not.
    """
    if list(dtypes) != list(STATIONS):
        raise ValueError(f"the stations of a step are {', '.join(map(repr, STATIONS))}")
    fig, axes = new_figure(7.6, 3.4)
    places = [(2.1 * x, 1.6 * y) for x, y in STATIONS.values()]
    for (name, dtype), (x, y) in zip(dtypes.items(), places, strict=True):
        word = str(dtype).removeprefix("torch.")
        box = {"boxstyle": "round,pad=0.4", "facecolor": DTYPES.get(word, GREY), "edgecolor": BLACK, "alpha": 0.75}
        axes.text(x, y, f"{name}\n{word}", ha="center", va="center", fontsize=9, bbox=box, zorder=3)
    for operation, start, end in zip(OPERATIONS, places, places[1:] + places[:1], strict=True):
        across, right = start[1] == end[1], end[0] > start[0]
        room = (0.72 if right else -0.72, 0) if across else (0, 0.42 if end[1] > start[1] else -0.42)
        ends = [(start[0] + room[0], start[1] + room[1]), (end[0] - room[0], end[1] - room[1])]
        axes.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "-|>", "color": BLACK, "lw": 1.4})
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        shift, align = ((0, 0.16), "bottom") if across else ((0.12, 0), "center")
        axes.text(
            middle[0] + shift[0],
            middle[1] + shift[1],
            operation,
            ha="center" if across else "left",
            va="bottom" if across else align,
            fontsize=8,
        )
    axes.set(xlim=(-1.0, 7.3), ylim=(-0.6, 2.3))
    axes.axis("off")
    return fig


def gradient_histogram(panels: dict[str, Sequence[float]], edges: dict[str, float]) -> Figure:
    """One histogram a panel, on a common axis of powers of two; the zones of fp16 are shaded, with the share in each.

    panels: title -> base-2 logarithms of magnitudes. edges: {"zero": log2 of the largest that becomes 0, "subnormal": log2
    of the smallest normal number}.
    """
    fig, all_axes = new_figure(7.4, 1.9 * len(panels) + 0.6, nrows=len(panels), sharex=True, squeeze=False)
    low = min(float(np.min(values)) for values in panels.values()) - 1
    high = max(16.0, *(float(np.max(values)) for values in panels.values())) + 1
    zero, normal = edges["zero"], edges["subnormal"]
    bins = np.arange(np.floor(low), np.ceil(high) + 0.5, 0.5)
    for axes, (title, values) in zip(all_axes[:, 0], panels.items(), strict=True):
        values = np.asarray(values)
        zones = ((low, zero, RED, "0 in fp16"), (zero, normal, YELLOW, "subnormal"), (normal, 16.0, GREEN, "normal"))
        axes.hist(values, bins=bins, color=BLUE, zorder=2)
        top = axes.get_ylim()[1]
        for start, end, colour, name in zones:
            inside = np.mean((values > start) & (values <= end)) if start > low else np.mean(values <= end)
            axes.axvspan(start, end, color=colour, alpha=0.16, lw=0, zorder=0)
            axes.text((start + end) / 2, 1.24 * top, f"{name}\n{inside:.1%}", ha="center", va="top", fontsize=9)
        for edge in (zero, normal, 16.0):
            axes.axvline(edge, color=BLACK, lw=0.9, ls=":")
        axes.set(title=title, ylabel="gradients", xlim=(low, high), ylim=(0, 1.26 * top))
    all_axes[-1, 0].set_xlabel("magnitude, as a power of two (dotted: smallest, smallest normal, largest of fp16)")
    return fig


def loss_curves(curves: dict[str, Sequence[float]], dashed: Sequence[str] = ()) -> Figure:
    """Loss against step, logarithmic; each curve has its last value in the legend; those named in `dashed` are dashed."""
    fig, axes = new_figure(7.4, 3.9)
    for place, ((name, losses), colour) in enumerate(zip(curves.items(), COLOURS, strict=False)):
        style = (0, (5, 4)) if name in dashed else "-"
        look = {"color": colour, "ls": style, "lw": 1.7, **signs(place, losses)}
        axes.plot(range(1, len(losses) + 1), losses, label=f"{name}: {losses[-1]:.3g}", **look)
    axes.set(yscale="log", xlabel="step", ylabel="training loss")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="after the last step")
    return fig


def scale_history(scales: Sequence[float], skipped: Sequence[int]) -> Figure:
    """The scale before each step, as a power of two, and a mark at each step that was skipped."""
    fig, axes = new_figure(7.4, 3.0)
    powers = np.log2(np.asarray(scales, dtype=float))
    axes.step(range(len(powers)), powers, where="post", color=BLUE, lw=1.6, label="scale")
    axes.plot(skipped, powers[list(skipped)], "x", color=RED, ms=8, mew=2, label=f"skipped: {len(skipped)} steps")
    axes.set(xlabel="step", ylabel="scale, as a power of two")
    axes.legend(loc="lower right")
    return fig


def scale_film(scales: Sequence[float], skipped: Sequence[int], magnitudes: Sequence[float], frames: int = 15) -> Film:
    """The scale up to a step, and where it puts the gradients of one step among fp16's numbers; a frame for each step.

    magnitudes: base-2 logarithms of the gradients without a scale.
    """
    powers, magnitudes = np.log2(np.asarray(scales, dtype=float)), np.asarray(magnitudes)
    bins = np.arange(np.floor(magnitudes.min()), powers.max() + np.ceil(magnitudes.max()) + 1)
    edges, names = (bins[0], -25, -14, 16, bins[-1]), ("0", "subnormal", "normal", "inf")  # of fp16, as powers of two
    top = 150 * np.histogram(magnitudes, bins)[0].max() / len(magnitudes)

    def frame(step: int) -> Figure:
        fig, (left, right) = new_figure(8.0, 3.0, ncols=2, width_ratios=(1.2, 1))
        left.step(range(step + 1), powers[: step + 1], where="post", color=BLUE, lw=1.6)
        seen = [each for each in skipped if each <= step]
        left.plot(seen, powers[seen], "x", color=RED, ms=7, mew=2)
        left.set(xlabel="step (×: skipped)", ylabel="scale, as a power of two")
        left.set(xlim=(0, len(powers)), ylim=(powers.min() - 1, powers.max() + 1))
        shares = np.full(len(magnitudes), 100 / len(magnitudes))
        right.hist(magnitudes + powers[step], bins=bins, weights=shares, color=BLUE)
        for start, end, colour, name in zip(edges, edges[1:], (RED, YELLOW, GREEN, RED), names, strict=False):
            right.axvspan(start, end, color=colour, alpha=0.16, lw=0, zorder=0)
            right.text((start + end) / 2, 0.97 * top, name, ha="center", va="top", fontsize=9)
        right.set(xlabel="gradient · scale, as a power of two", ylabel="% of the gradients")
        right.set(xlim=(bins[0], bins[-1]), ylim=(0, top))
        return fig

    steps = sorted({*np.linspace(0, len(powers) - 1, frames).astype(int).tolist()})
    return film(((f"step {step}, scale 2^{powers[step]:.0f}", frame(step)) for step in steps), "dynamic loss scaling")


def scaling_errors(errors: dict[str, Sequence[float]], amaxes: Sequence[float]) -> Figure:
    """Above: the largest absolute value at each step; below: the relative error of each way to choose the scale."""
    fig, (above, below) = new_figure(7.4, 4.2, nrows=2, sharex=True)
    above.step(range(len(amaxes)), amaxes, where="mid", color=BLACK)
    above.set(yscale="log", ylabel="amax")
    for (name, values), colour, style in zip(errors.items(), (GREEN, RED, BLUE), "os^", strict=False):
        below.plot(range(len(values)), values, style + "-", color=colour, ms=3.5, label=name)
    below.set(yscale="log", xlabel="step", ylabel="relative error")
    shares = (0.01, 0.03, 0.1, 0.3, 1.0)
    below.set_yticks(shares, [f"{share:.0%}" for share in shares])
    below.yaxis.set_minor_formatter(NullFormatter())
    least, most = (choose(map(choose, errors.values())) for choose in (min, max))
    below.set_ylim(min(least / 1.2, 0.02), max(most * 1.2, 0.5))
    fig.legend(loc="outside upper center", ncols=len(errors), frameon=False)
    return fig


def precision_bars(times: dict[str, tuple[float, bool]], peaks: dict[str, int]) -> Figure:
    """Two rows of bars: the time of a step against the first one's, and the bytes at its peak.

    times: precision -> (part of the first one's time, whether it was measured); what was not is hatched. peaks: precision ->
    bytes.
    """
    fig, (left, right) = new_figure(7.6, 2.9, ncols=2, width_ratios=(len(times), len(peaks)))
    for place, (share, measured) in enumerate(times.values()):
        look = {"color": BLUE} if measured else {"facecolor": "white", "edgecolor": BLUE, "hatch": "///"}
        left.bar(place, share, 0.7, **look)
        left.text(place, share + 0.02, f"{share:.2f}", ha="center", va="bottom", fontsize=9)
    left.set_xticks(range(len(times)), list(times))
    left.set(
        title="time of a step, H200, attention written out\n(hatched: forecast)", ylim=(0, 1.15), ylabel="float32 = 1"
    )
    for place, nbytes in enumerate(peaks.values()):
        right.bar(place, nbytes / 1e6, 0.7, color=ORANGE)
        right.text(place, 1.01 * nbytes / 1e6, f"{nbytes / 1e6:.1f}", ha="center", va="bottom", fontsize=9)
    right.set_xticks(range(len(peaks)), list(peaks))
    right.set(title="peak of your program", ylim=(0, 1.15 * max(peaks.values()) / 1e6), ylabel="MB")
    return fig


def apart_from(
    reference: Sequence[float], curves: dict[str, Sequence[float]], another: Sequence[float], window: int = 20
) -> Figure:
    """What each curve lies above or below the reference, as a mean over `window` steps; `another` start of it in grey."""
    fig, axes = new_figure(7.4, 3.4)

    def distance(losses: Sequence[float]) -> np.ndarray:
        return np.convolve(np.subtract(losses, reference), np.ones(window) / window, mode="valid")

    steps = np.arange(window, len(reference) + 1)
    axes.plot(steps, distance(another), color=GREY, lw=3, label="float32, another start")
    for place, (name, losses) in enumerate(curves.items()):
        axes.plot(steps, distance(losses), color=COLOURS[1 + place], lw=1.6, label=name, **signs(place, steps))
    axes.axhline(0, color=BLACK, lw=0.9)
    axes.set(xlabel="step", ylabel="training loss − float32's")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return fig
