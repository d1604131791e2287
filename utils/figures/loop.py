"""Pictures of the training loop: orders, data, memory, schedules, resumption, learning."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from utils.figures.player import Film, film
from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, RED, SKY, YELLOW, new_figure

VERBS = {"f": "forward", "z": "zero", "b": "backward", "c": "clip", "s": "step"}
OUTCOMES = {"right": GREEN, "clip inert": SKY, "never trains": GREY, "raises": RED, "trains wrongly": PURPLE}
LOST = "lost, and made again"
STATIONS = ("none", "fresh", "clipped", "used", "none")  # of a gradient, after forward, backward, clip, step and zero


def stations() -> Figure:
    """The five verbs as a circle, and what lies in .grad on the way from one to the next."""
    figure, axes = new_figure(5.6, 4.4)
    colours = {"none": GREY, "fresh": ORANGE, "clipped": BLUE, "used": PURPLE}
    verbs = ("forward", "backward", "clip", "step", "zero")
    turn = 2 * np.pi / len(verbs)
    for n, (verb, station) in enumerate(zip(verbs, STATIONS, strict=True)):
        begin, end = np.pi / 2 - turn * (n + 0.24), np.pi / 2 - turn * (n + 0.76)
        way = np.linspace(begin, end, 40)
        axes.plot(np.cos(way), np.sin(way), color=colours[station], linewidth=5, solid_capstyle="butt")
        arrow = {"arrowstyle": "-|>,head_width=0.5,head_length=0.7", "color": colours[station], "linewidth": 0}
        before, tip = end + 0.02, end - 0.06
        ends = [(np.cos(angle), np.sin(angle)) for angle in (tip, before)]
        axes.annotate("", ends[0], ends[1], arrowprops=arrow)
        middle = (begin + end) / 2
        inside = (0.66 * np.cos(middle), 0.66 * np.sin(middle))
        axes.text(*inside, station, ha="center", va="center", fontsize=11)
        place = (np.cos(np.pi / 2 - turn * n), np.sin(np.pi / 2 - turn * n))
        axes.text(*place, verb, ha="center", va="center", fontsize=12, weight="bold")
    axes.text(0, 0, ".grad", ha="center", va="center", fontsize=13, family="monospace")
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.15, 1.15), aspect="equal")
    axes.axis("off")
    return figure


def order_tiles(outcomes: dict[str, str], rows: int = 6) -> Figure:
    """Orders of the five verbs, what comes after forward, in columns by what they come to.

    outcomes: order, a string of f z b c s that begins with f -> a key of OUTCOMES.
    """
    if unknown := set(outcomes.values()) - set(OUTCOMES):
        raise ValueError(f"unknown outcomes {sorted(unknown)}: one of {', '.join(OUTCOMES)}")
    columns = []  # (outcome, how many in all where its first column begins, orders)
    for outcome in OUTCOMES:
        own = [order for order, found in outcomes.items() if found == outcome]
        columns += [(outcome, 0 if n else len(own), own[n : n + rows]) for n in range(0, len(own), rows)]
    figure, axes = new_figure(2.05 * len(columns), 2.6)
    for x, (outcome, count, orders) in enumerate(columns):
        if count:
            axes.text(x - 0.47, -0.85, f"{count} {outcome}", fontsize=11, weight="bold", va="center")
        tint = [0.35 * part + 0.65 for part in to_rgb(OUTCOMES[outcome])]
        for y, order in enumerate(orders):
            axes.add_patch(plt.Rectangle((x - 0.47, y - 0.4), 0.94, 0.8, facecolor=tint, edgecolor="none"))
            words = " · ".join(VERBS[verb] for verb in order[1:])
            axes.text(x, y, words, ha="center", va="center", fontsize=8.5)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(rows - 0.4, -1.3))
    axes.axis("off")
    return figure


def fetch_timeline(times: dict[str, tuple[list, list]]) -> Figure:
    """When batches are fetched and steps are made; times: title -> intervals (began, ended) of fetches and of steps."""
    figure, panels = new_figure(8.0, 0.95 * len(times) + 0.6, nrows=len(times), sharex=True, squeeze=False)
    for axes, (title, (fetches, steps)) in zip(panels[:, 0], times.items(), strict=True):
        start = fetches[0][0]
        for row, (intervals, colour) in enumerate(((fetches, YELLOW), (steps, SKY))):
            bars = [(began - start, ended - began) for began, ended in intervals]
            overlap = any(later < began + length for (began, length), (later, _) in pairwise(bars))
            height = 0.42 if overlap else 0.84  # two at a time lie one below the other
            for n, (began, length) in enumerate(bars):
                low = row - 0.42 + (n % 2 * height if overlap else 0)
                axes.broken_barh([(began, length)], (low, height), facecolor=colour, edgecolor="white")
                axes.text(began + length / 2, low + height / 2, n, ha="center", va="center", fontsize=8)
        axes.set_yticks([0, 1], ["fetch", "step"])
        axes.set(ylim=(1.6, -0.6))
        axes.set_title(title, fontsize=10)
    panels[-1, 0].set_xlabel("seconds; the number is that of the batch")
    return figure


def token_weights(lengths: list[int]) -> Figure:
    """What each token of some padded sequences weighs in the gradient: squares whose area is the weight.

    lengths: how many tokens of each sequence count. Above: the mean of the sequences' means; below: sums, divided once.
    """
    longest, count, k = max(lengths), sum(lengths), len(lengths)
    ways = {
        f"each loss a mean, divided by {k}": [k * length for length in lengths],
        f"sums, divided once by {count}": [count] * k,
    }
    heaviest = 1 / (k * min(lengths))
    figure, panels = new_figure(9.0, 3.0, nrows=2)
    for axes, colour, (title, divisors) in zip(panels, (ORANGE, BLUE), ways.items(), strict=True):
        for row, (length, divisor) in enumerate(zip(lengths, divisors, strict=True)):
            for place in range(longest):
                box = plt.Rectangle((place - 0.46, row - 0.46), 0.92, 0.92, facecolor=PALE, edgecolor="none")
                axes.add_patch(box)
                side = 0.92 * (1 / divisor / heaviest) ** 0.5 if place < length else 0
                corner = (place - side / 2, row - side / 2)
                axes.add_patch(plt.Rectangle(corner, side, side, facecolor=colour, edgecolor="none"))
            axes.text(longest, row, f"1/{divisor} each" if length > 1 else f"1/{divisor}", va="center")
        axes.set(xlim=(-0.6, longest + 4), ylim=(k - 0.4, -0.6), aspect="equal", xticks=[], yticks=[], title=title)
        axes.axis("off")
    return figure


def worker_draws(epochs: dict[str, tuple[list[float], list[float]]]) -> Figure:
    """What each example drew in two epochs, one panel a loader. epochs: title -> (first epoch, second epoch)."""
    figure, panels = new_figure(9.0, 2.8, ncols=len(epochs), sharey=True)
    for axes, (title, (first, second)) in zip(panels, epochs.items(), strict=True):
        n = len(first)
        axes.plot(range(n), first, "o", color=BLUE, label="epoch 1")
        axes.plot(range(n, 2 * n), second, "D", color=ORANGE, label="epoch 2")
        axes.axvline(n - 0.5, color=GREY, linewidth=0.8)
        axes.set(title=f"{title}\n{len({*first, *second})} different draws", xlabel="example, in order of arrival")
    panels[0].set(ylabel="number drawn", ylim=(-0.04, 1.04))
    panels[-1].legend(loc="upper right", fontsize=8)
    return figure


def schedules(ours: list[float], torchs: list[float], end: int) -> Figure:
    """Two learning rates by step; `end` is the step that the schedule was made for."""
    fig, axes = new_figure(7.0, 2.8)
    axes.plot(torchs, color=ORANGE, linewidth=5, alpha=0.6, label="torch's CosineAnnealingLR after LinearLR")
    axes.plot(ours, color=BLUE, linewidth=1.8, label="ours, clamped")
    axes.axvline(end, color=GREY, linestyle=":", linewidth=1)
    axes.annotate("planned end", (end, max(ours)), xytext=(4, -4), textcoords="offset points", color=GREY)
    axes.set(xlabel="step", ylabel="learning rate", ylim=(0, 1.25 * max(ours)), xlim=(0, len(ours)))
    axes.legend(loc="upper right", ncols=2, frameon=False)
    return fig


def resume_matrix(matrix: dict[str, dict[str, bool]]) -> Figure:
    """What a resumed run shows (columns) when one piece of its checkpoint was left out (rows): True where it differs."""
    pieces, observables = list(matrix), list(next(iter(matrix.values())))
    fig, axes = new_figure(8.2, 0.36 * len(pieces) + 1.5)
    for row, piece in enumerate(pieces):
        for column, name in enumerate(observables):
            differs = matrix[piece][name]
            box = plt.Rectangle((column - 0.46, row - 0.42), 0.92, 0.84, color=RED if differs else PALE, lw=0)
            axes.add_patch(box)
            word = "differs" if differs else "same"
            axes.text(column, row, word, ha="center", va="center", fontsize=8, color=BLACK)
    axes.set_xticks(range(len(observables)), [name.replace(" ", "\n") for name in observables], fontsize=8)
    axes.set_yticks(range(len(pieces)), pieces)
    axes.set(xlim=(-0.5, len(observables) - 0.5), ylim=(len(pieces) - 0.5, -0.5), ylabel="left out")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return fig


def run_lives(starts: list[int], ends: list[int], reasons: list[str], saves: list[list[int]]) -> Figure:
    """The processes that made one run, a row each, from step to step, with their saves as dots; what was lost is hatched.

    starts, ends: first and last step of each process. reasons: what ended it. saves: the steps after which it saved.
    """
    fig, axes = new_figure(7.4, 0.55 * len(starts) + 1.0)
    for row, (start, end, reason) in enumerate(zip(starts, ends, reasons, strict=True)):
        kept = max([start, *saves[row]])
        axes.barh(row, kept - start, left=start, height=0.42, color=SKY)
        if end > kept:
            axes.barh(row, end - kept, left=kept, height=0.42, color="white", edgecolor=ORANGE, hatch="///", label=LOST)
        axes.plot(saves[row], [row] * len(saves[row]), "o", color=BLUE, markersize=4, label=None if row else "a save")
        style = {"textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(f"{reason} after step {end}", (end, row), xytext=(8, 0), **style)
    axes.set_yticks(range(len(starts)), [f"process {number}" for number in range(1, len(starts) + 1)])
    axes.set_xticks(sorted({*starts, max(ends)}))
    axes.set(xlabel="steps made", xlim=(0, 1.35 * max(ends)), ylim=(len(starts) - 0.4, -0.6))
    axes.legend(loc="lower left", fontsize=8)
    return fig


def price_of_saving(save: float, between: float, simulated: dict[float, float]) -> Figure:
    """The share of a run that is lost by how often one saves: to saving, to failures, in all; and simulated, as dots.

    save: seconds that a save takes. between: mean seconds between failures. simulated: {interval in seconds: share lost}.
    """
    fig, axes = new_figure(6.6, 3.2)
    intervals = np.geomspace(min(simulated), max(simulated), 200)
    saving, failing = save / intervals, intervals / (2 * between)
    run = 1 + saving + failing  # seconds that the run takes for one second of training
    axes.plot(intervals / 60, 100 * saving / run, color=BLUE, ls="--", label="to saving")
    axes.plot(intervals / 60, 100 * failing / run, color=ORANGE, ls=":", lw=2, label="to failures")
    axes.plot(intervals / 60, 100 * (saving + failing) / run, color=BLACK, label="in all, by your rule")
    axes.plot([i / 60 for i in simulated], [100 * s for s in simulated.values()], "o", color=GREEN, label="simulated")
    axes.set_xscale("log")
    ticks = [2, 5, 10, 20, 50, 100, 200]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="minutes from one save to the next", ylabel="% of the run lost", ylim=(0, 45))
    axes.legend(fontsize=8, loc="upper center")
    return fig


def validation_curves(curves: dict[str, list[list[float]]], every: int) -> Figure:
    """The loss on new text over some runs: name -> losses after every so many steps, one list a start."""
    figure, axes = new_figure(7.0, 3.4)
    for (name, runs), colour in zip(curves.items(), (BLUE, ORANGE), strict=True):
        for number, losses in enumerate(runs):
            steps = [every * (place + 1) for place in range(len(losses))]
            axes.plot(steps, losses, color=colour, linewidth=2, label=None if number else name)
    axes.set(xlabel="steps", ylabel="loss on new text", xlim=(0, None))
    axes.grid(color=PALE)
    axes.legend(loc="upper left")
    return figure


def decision_film(frames, points, labels, extent: float) -> Film:
    """A film of what a classifier of the plane believes, one frame a checkpoint.

    frames: {"epoch 1": (probabilities (H, W, 3) over the square from -extent to extent, accuracy), …}; points (N, 2)
    with labels (N,) are drawn into every frame.
    """

    def frame(name: str, probabilities, accuracy: float) -> Figure:
        fig, axes = new_figure(6.0, 6.2)
        _beliefs(axes, probabilities, points, labels, extent, markersize=5)
        axes.set_title(f"{name}: {accuracy:.1%} of the validation points right")
        return fig

    return film(((name, frame(name, *each)) for name, each in frames.items()), "decision regions of the network")


def decision_panels(frames, points, labels, extent: float) -> Figure:
    """Some frames of decision_film beside each other; frames: {"epoch 1": (probabilities, accuracy), …}."""
    fig, panels = new_figure(2.5 * len(frames), 2.75, ncols=len(frames), squeeze=False)
    for axes, (name, (probabilities, accuracy)) in zip(panels[0], frames.items(), strict=True):
        _beliefs(axes, probabilities, points, labels, extent, interpolation="none")  # an SVG keeps it as small as it is
        axes.set_title(f"{name}: {accuracy:.1%} right")
    return fig


def _beliefs(axes, probabilities, points, labels, extent: float, interpolation=None, markersize: float = 2.5) -> None:
    """The plane, coloured by what a classifier believes of each place, and the points with their true classes."""
    colours = np.array([to_rgb(colour) for colour in (SKY, YELLOW, GREEN)])  # three greys too
    square = {"origin": "lower", "extent": [-extent, extent] * 2, "interpolation": interpolation}
    axes.imshow(0.2 + 0.8 * (probabilities @ colours), **square)
    for label, marker in enumerate("os^"):
        look = {"color": BLACK, "markersize": markersize, "markerfacecolor": "white", "mew": 0.5}
        axes.plot(*points[labels == label].T, marker, **look)
    axes.set(xticks=[], yticks=[])


def text_curve(train: list[tuple[int, float]], val: tuple[int, float], opponents: dict[str, float]) -> Figure:
    """Training loss by step, the validation loss at the end, and constant opponents as lines; nats per letter."""
    fig, axes = new_figure(7.0, 3.2)
    axes.plot(*zip(*train, strict=True), color=BLUE, label="training loss")
    axes.plot(*val, "o", color=RED, label=f"validation loss {val[1]:.3f}")
    for name, nats in opponents.items():
        axes.axhline(nats, color=GREY, linestyle=":", linewidth=1)
        axes.annotate(
            f"{name} {nats:.2f}", (val[0], nats), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8
        )
    axes.set(xlabel="step", ylabel="nats per letter", xlim=(0, val[0] * 1.01), ylim=(0, 1.1 * max(opponents.values())))
    axes.legend(loc="lower left", frameon=False)
    return fig


def _signed(number: float) -> str:
    """With its sign, in whole numbers: +60, −60."""
    return f"{number:+,.0f}".replace("-", "−")


def step_prices(microseconds: dict[str, float]) -> Figure:
    """CPU time per step of each named loop, and what it adds to the first."""
    fig, axes = new_figure(7.4, 0.42 * len(microseconds) + 0.8)
    base = next(iter(microseconds.values()))
    bars = axes.barh(list(microseconds), list(microseconds.values()), color=[GREY, *[SKY] * (len(microseconds) - 1)])
    labels = [
        f"{price:,.0f} µs" + (f"  ({_signed(price - base)})" if price != base else "")
        for price in microseconds.values()
    ]
    axes.bar_label(bars, labels=labels, padding=4, fontsize=8)
    axes.set(xlabel="CPU time per step, µs", xlim=(0, 1.3 * max(microseconds.values())))
    axes.invert_yaxis()
    return fig


def run_curves(records: list[dict], title: str) -> Figure:
    """The log of a run by step: training and validation loss, learning rate, norm of the gradient before clipping."""
    fig, (losses, *others) = new_figure(10.0, 2.9, ncols=3)
    losses.plot(*_logged(records, "loss"), ".-", color=BLUE, markersize=3, linewidth=1, label="training")
    losses.plot(*_logged(records, "val_loss"), "o-", color=RED, markersize=5, linewidth=1, label="validation")
    losses.set(xlabel="step", ylabel="nats per target", title=title)
    losses.legend(fontsize=8)
    for axes, key, name in zip(others, ("lr", "grad_norm"), ("learning rate", "norm of the gradient"), strict=True):
        axes.plot(*_logged(records, key), ".-", color=BLACK, markersize=3, linewidth=1)
        axes.set(xlabel="step", title=name)
        axes.set_ylim(bottom=0)
    return fig


def _logged(records: list[dict], key: str) -> tuple[list[int], list[float]]:
    """The steps and the values of the records that have a value under `key`."""
    found = [(record["step"], record[key]) for record in records if record.get(key) is not None]
    return [step for step, _ in found], [value for _, value in found]
