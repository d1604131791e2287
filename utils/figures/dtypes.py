"""Pictures of number formats: their bits, ranges, spacing, and what rounding does over many updates."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from utils.figures.player import Film, film
from utils.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALE, PURPLE, RED, SKY, new_figure

FIELD_COLOURS = {"sign": ORANGE, "exponent": SKY, "mantissa": GREEN, "ignored": PALE}  # as the calculator has them
LINE_COLOURS = (BLACK, ORANGE, BLUE, GREEN, PURPLE)
DIM = "#595959"  # text of less weight, dark enough to be read


def bit_layouts(rows: list[tuple[str, str, int, int, float]]) -> Figure:
    """One row of bits for each format, coloured by field, with the number it stands for.

    rows: (name, bits as a string of 0 and 1, exponent bits, mantissa bits, number). Bits beyond 1 + exponent + mantissa
    are drawn as ignored. ValueError if a string is shorter than its fields.
    """
    longest, drawn = max(len(digits) for _, digits, *_ in rows), set()
    fig, axes = new_figure(max(0.1 * longest + 2.4, 6), 0.36 * len(rows) + 0.7)
    for row, (name, digits, exponent, mantissa, number) in enumerate(rows):
        used = 1 + exponent + mantissa
        if len(digits) < used:
            raise ValueError(f"{name}: {len(digits)} bits for fields of {used}: give all bits of the number")
        fields = ["sign"] + ["exponent"] * exponent + ["mantissa"] * mantissa + ["ignored"] * (len(digits) - used)
        drawn.update(fields)
        for place, (digit, field) in enumerate(zip(digits, fields, strict=True)):
            box = plt.Rectangle((place, row - 0.38), 1, 0.76, facecolor=FIELD_COLOURS[field], edgecolor="white", lw=0.7)
            axes.add_patch(box)
            ink = DIM if field == "ignored" else BLACK
            axes.text(place + 0.5, row, digit, ha="center", va="center_baseline", fontsize=7, color=ink)
        axes.text(-0.6, row, name, ha="right", va="center", fontsize=9)
        text = f"1 + {exponent} + {mantissa}   {number:.10g}"
        axes.text(len(digits) + 0.8, row, text, va="center", fontsize=8)
    for field, colour in FIELD_COLOURS.items():
        if field in drawn:
            axes.scatter([], [], marker="s", s=60, color=colour, edgecolor=GREY, linewidth=0.4, label=field)
    axes.legend(loc="upper left", bbox_to_anchor=(0.05, 0), ncols=len(FIELD_COLOURS), fontsize=9)
    axes.set(xlim=(-5, longest + 18), ylim=(len(rows) - 0.4, -0.6), xticks=[], yticks=[])
    axes.set_axis_off()
    return fig


def ranges(limits: dict[str, tuple[float, float, float]]) -> Figure:
    """The positive range of each format on one logarithmic axis; the subnormal part is pale.

    limits: name -> (smallest subnormal, smallest normal, largest), all positive and finite.
    """
    fig, axes = new_figure(8.6, 0.46 * len(limits) + 0.9)
    for row, (smallest, normal, largest) in enumerate(limits.values()):
        axes.barh(row, normal - smallest, left=smallest, height=0.55, color=SKY, alpha=0.35)
        axes.barh(row, largest - normal, left=normal, height=0.55, color=SKY)
        axes.text(smallest / 3, row, f"{smallest:.3g}", ha="right", va="center", fontsize=8)
        axes.text(largest * 3, row, f"{largest:.5g}", ha="left", va="center", fontsize=8)
    axes.axvline(1, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(limits)), list(limits))
    axes.set(xscale="log", xlim=(1e-53, 1e48), xlabel="magnitude (pale: subnormal, precision fades)")
    axes.set_xticks([10.0**power for power in range(-45, 46, 15)])
    axes.minorticks_off()
    axes.invert_yaxis()
    return fig


def steps_and_weights(
    batches: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]], lines: dict[str, float], every: int = 10
) -> Figure:
    """The step of each weight over the weight, both logarithmic: a panel for each batch, which says what share is lost.

    batches: title -> (weights, steps, whether each is lost), sizes above 0. lines: label -> a step's share of the weight.
    Only one weight in `every` is drawn; the share is that of all.
    """
    fig, row = new_figure(4.2 * len(batches) + 1.6, 3.8, ncols=len(batches), squeeze=False, sharex=True, sharey=True)
    for axes, (title, (weights, steps, lost)) in zip(row[0], batches.items(), strict=True):
        weights, steps, drawn_as_lost = (each[::every] for each in (weights, steps, lost))
        for which, colour, label in ((~drawn_as_lost, BLUE, "changes the weight"), (drawn_as_lost, RED, "lost")):
            axes.plot(weights[which], steps[which], ".", color=colour, markersize=1.5, alpha=0.5, rasterized=True)
            axes.plot([], [], ".", color=colour, markersize=8, label=label)
        for (label, share), dash in zip(lines.items(), ("-", "--"), strict=False):
            ends = np.array([weights.min(), weights.max()])
            axes.plot(ends, share * ends, dash, color=BLACK, linewidth=1.4, label=label)
        axes.set(title=f"{title}: {100 * lost.mean():.0f} % lost", xlabel="weight", xscale="log", yscale="log")
    # a handful of weights close to 0, and of tiny steps, would take half of the picture
    axes.set(xlim=(2e-4, 0.5), ylim=(1e-9, 0.1))
    row[0][0].set(ylabel="step")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def rounding_error(powers: np.ndarray, worst: dict[str, np.ndarray]) -> Figure:
    """The largest relative rounding error of each format from 2^power up to the next power of two; NaN: not drawn."""
    fig, axes = new_figure(8.0, 3.8)
    for place, ((name, error), colour) in enumerate(zip(worst.items(), LINE_COLOURS, strict=False)):
        axes.plot(powers, error, color=colour, label=name, marker=MARKERS[place], markersize=4, linewidth=1.4)
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    axes.text(powers[-1], 1.15, "everything becomes 0", ha="right", fontsize=8, color=BLACK)
    axes.set(yscale="log", xlabel="magnitude: 2 to the power of", ylabel="largest relative error", ylim=(2e-4, 3))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def counting(held: dict[str, list[float]]) -> Figure:
    """What a counter holds after each addition of 1, log-log; held: format -> its values, the first after one addition."""
    fig, axes = new_figure(6.4, 3.6)
    for (name, values), colour in zip(held.items(), LINE_COLOURS[1:], strict=False):
        axes.plot(range(1, len(values) + 1), values, color=colour, linewidth=1.8)
        axes.text(len(values) * 1.1, values[-1], f"{name}: {values[-1]:,.0f}", va="center", fontsize=9)
    longest = max(map(len, held.values()))
    axes.plot([1, longest], [1, longest], color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="ones added", ylabel="counter", xlim=(1, longest * 5))
    return fig


def loss_curves(curves: dict[str, np.ndarray], window: int, quarter_of: str = "") -> Figure:
    """The loss of training, a line for each seed of each recipe, each point the mean of `window` batches.

    curves: recipe -> (seeds, steps). Recipes that lie on one another are told apart by their dashes. With `quarter_of`,
    a thin line runs from where that recipe stands after a quarter of its steps, in the mean of its seeds, to the end.
    ValueError where there are fewer steps than one window.
    """
    fig, axes = new_figure(7.6, 3.8)
    looks = (("-", 4.0, SKY), ("-", 1.8, RED), ("--", 1.8, BLACK), (":", 2.4, GREEN))
    for (name, losses), (dash, width, colour) in zip(curves.items(), looks, strict=False):
        seeds, steps = losses.shape
        points = steps // window
        if points == 0:
            raise ValueError(f"{name}: {steps} steps are less than a window of {window}: take a smaller window")
        means = losses[:, : points * window].reshape(seeds, points, window).mean(axis=2)
        middle = window * (np.arange(points) + 0.5)
        axes.plot(middle, means.T, color=colour, linestyle=dash, linewidth=width)
        axes.plot([], [], color=colour, linestyle=dash, linewidth=width, label=name)
    if quarter_of:
        losses = curves[quarter_of]
        steps = losses.shape[1]
        level = losses[:, steps // 4 - window : steps // 4].mean()
        axes.plot([steps // 4, steps], [level, level], color=GREY, linewidth=1, label=f"{quarter_of} after a quarter")
    axes.set(xlabel="step", ylabel="loss")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3)
    return fig


def number_line(numbers: list[float], steps: list[tuple[float, float, float]]) -> Figure:
    """Neighbouring numbers of a format, the midpoints between them, and where steps lead.

    steps: (start, where the step ends, what is stored) each. One row for each: the step, and below it the rounding, dashed.
    """
    fig, axes = new_figure(7.6, 0.75 * len(steps) + 1.1)
    axes.axhline(0, color=GREY, linewidth=0.8)
    middles = [(low + high) / 2 for low, high in itertools.pairwise(numbers)]
    for places, colour, name in ((numbers, BLUE, "{:.6g}"), (middles, GREY, "midpoint\n{:.6g}")):
        axes.vlines(places, 0, len(steps) + 0.3, color=colour, linewidth=0.8, linestyle=":")
        for place in places:
            axes.text(
                place,
                -0.22,
                name.format(place),
                ha="center",
                va="top",
                fontsize=9,
                color=colour if colour == BLUE else DIM,
            )
    axes.plot(numbers, [0] * len(numbers), "o", color=BLUE, markersize=8)
    for row, (start, end, stored) in enumerate(reversed(steps)):
        high, low = row + 0.95, row + 0.55
        arrow = {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 12}
        axes.annotate(
            "", (end, high), (start, high), arrowprops={"arrowstyle": "->", "color": BLACK, "linewidth": 1.8, **arrow}
        )
        axes.plot([end, end], [low, high], color=RED, linewidth=1, linestyle=":")
        rounding = {"arrowstyle": "->", "color": RED, "linewidth": 1.8, "linestyle": "--", **arrow}
        axes.annotate("", (stored, low), (end, low), arrowprops=rounding)
        axes.text(start + 0.06 * (numbers[-1] - numbers[0]), high, f"step {end - start:+.3g}", va="center", fontsize=9)
        axes.text(start + 0.06 * (numbers[-1] - numbers[0]), low, f"stored {stored:.6g}", va="center", fontsize=9)
    room = numbers[-1] - numbers[0]
    axes.set(xlim=(numbers[0] - 0.12 * room, numbers[-1] + 0.3 * room), ylim=(-0.9, len(steps) + 0.3))
    axes.set_axis_off()
    return fig


def step_film(numbers: list[float], steps: list[tuple[float, float, float]]) -> Film:
    """The film of `number_line`: one step after another from the same numbers, in the order of `steps`."""
    shown = (
        (f"step {end - start:+.3g}, stored {stored:.6g}", number_line(numbers, [(start, end, stored)]))
        for start, end, stored in steps
    )
    return film(shown, "neighbouring numbers, the midpoints between them, and a step that is rounded")


def descent_on_curves(
    curves: dict[float, np.ndarray], ends: dict[tuple[str, float], tuple[float, float, float]], window: int
) -> Figure:
    """fp32's loss over the share of its steps, a line for each learning rate; on it, where other formats end.

    curves: rate -> losses. ends: (format, rate) -> (share of the steps taken, share of the descent that arrives, loss). A
    full sign stands at the share of the descent, a hollow one at the share of the steps.
    """
    fig, axes = new_figure(7.6, 4.0)
    colours = dict(zip(curves, (BLUE, GREEN, BLACK), strict=False))
    for rate, losses in curves.items():
        means = np.convolve(losses, np.ones(window) / window, mode="valid")
        share = 100 * np.arange(window, len(losses) + 1) / len(losses)
        axes.plot(share, means, color=colours[rate], linewidth=1.6, label=f"fp32 at {rate:g}")
    names = list(dict.fromkeys(name for name, _ in ends))
    for (name, rate), (steps, descent, loss) in ends.items():
        sign = MARKERS[names.index(name)]
        axes.plot([100 * steps, 100 * descent], [loss, loss], color=colours[rate], linewidth=0.9, linestyle=":")
        axes.plot(100 * steps, loss, sign, markersize=8, markerfacecolor="white", markeredgecolor=colours[rate])
        axes.plot(100 * descent, loss, sign, markersize=8, color=colours[rate])
    for name, sign in zip(names, MARKERS, strict=False):
        axes.plot([], [], sign, markersize=8, color=GREY, label=f"{name}: descent that arrives")
        axes.plot(
            [], [], sign, markersize=8, markerfacecolor="white", markeredgecolor=GREY, label=f"{name}: steps taken"
        )
    axes.set(xlabel="percent of the steps, or of the descent", ylabel="loss", xlim=(0, 103), ylim=(0, None))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return fig


def trajectories(
    paths: np.ndarray, exact: np.ndarray, nearest: np.ndarray, mean: np.ndarray | None = None, of: int = 0
) -> Figure:
    """Weights after each update. paths: (updates, weights) rounded stochastically; exact, nearest: (updates,).

    The mean drawn is that of the paths; or `mean`, (updates,), where the paths are a few `of` more weights.
    """
    fig, axes = new_figure(6.8, 3.6)
    axes.plot(paths, color=SKY, linewidth=0.9)
    axes.plot([], [], color=SKY, label=f"stochastic, {paths.shape[1]} weights")
    if mean is None:
        axes.plot(paths.mean(axis=1), color=BLUE, linewidth=1.6, label="their mean")
    else:
        axes.plot(mean, color=BLUE, linewidth=2.4, label=f"mean of all {of:,}")
    axes.plot(exact, color=BLACK, linewidth=1.2, linestyle="--", label="exact")
    axes.plot(nearest, "-.", color=RED, linewidth=2, label="to nearest")
    axes.set(xlabel="update", ylabel="weight")
    axes.legend(loc="lower left")
    return fig


def second_moments(panels: dict[str, dict[str, list[float]]]) -> Figure:
    """Adam's second moment after each update: a panel for each kind of gradients, a line for each format.

    panels: title -> format -> values, all of one length. Each line's last value stands beside its end.
    """
    fig, row = new_figure(4.3 * len(panels), 3.1, ncols=len(panels), squeeze=False)
    for axes, (title, lines) in zip(row[0], panels.items(), strict=True):
        for (name, values), colour, dash in zip(lines.items(), (BLUE, RED), ("-", "--"), strict=False):
            axes.plot(range(1, len(values) + 1), values, color=colour, linestyle=dash, linewidth=2)
            axes.text(len(values) * 1.02, values[-1], f"{name}: {values[-1]:.4f}", va="center", fontsize=9)
        longest = max(map(len, lines.values()))
        axes.set(title=title, xlabel="update", xlim=(0, longest * 1.4), ylim=(-0.05, 1.1))
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= longest])
    row[0][0].set(ylabel="second moment")
    return fig


def windows(values: dict[str, np.ndarray], limits: tuple[float, float, float]) -> Figure:
    """Histograms of log2 magnitudes over the window that a format can hold.

    values: label -> log2 of absolute values. limits: (smallest subnormal, smallest normal, largest) of the format.
    """
    smallest, normal, largest = np.log2(limits)
    fig, axes = new_figure(7.6, 3.2)
    axes.axvspan(normal, largest, color=SKY, alpha=0.4, linewidth=0, label="normal range")
    axes.axvspan(smallest, normal, color=SKY, alpha=0.18, linewidth=0, label="subnormals")
    for (label, logs), colour, dash in zip(values.items(), (RED, BLUE), ("--", "-"), strict=False):
        inside = float((logs >= smallest - 1).mean())
        bins = np.arange(np.floor(logs.min()), np.ceil(logs.max()) + 0.25, 0.25)
        look = {"histtype": "step", "color": colour, "linewidth": 1.6, "linestyle": dash}
        axes.hist(logs, bins=bins, label=f"{label}: {inside:.1%} do not become 0", **look)
    least = min([smallest, *(logs.min() for logs in values.values())])
    axes.set(xlim=(least - 1, largest + 1), yticks=[], xlabel="magnitude: 2 to the power of")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, fontsize=9)
    return fig
