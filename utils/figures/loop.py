"""Pictures of the training loop: orders, data, memory, schedules, resumption, learning."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from utils.figures.player import Film, film
from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, RED, SKY, YELLOW, new_figure, plate

VERBS = {"f": "forward", "z": "zero", "b": "backward", "c": "clip", "s": "step"}
OUTCOMES = {"right": GREEN, "clip inert": SKY, "never trains": GREY, "raises": RED, "trains wrongly": PURPLE}
PATTERNS = {"right": "", "clip inert": "", "never trains": "/", "raises": "x", "trains wrongly": "."}


def order_tiles(outcomes: dict[str, str]) -> Figure:
    """Orders of the five verbs as rows of tiles, coloured and grouped by what they come to.

    outcomes: order, a string of f z b c s -> a key of OUTCOMES; 24 orders fill three columns of eight.
    """
    figure, axes = new_figure(8.6, 3.8)
    ranked = sorted(outcomes.items(), key=lambda item: list(OUTCOMES).index(item[1]))
    rows = -(-len(ranked) // 3)
    for place, (order, outcome) in enumerate(ranked):
        column, row = divmod(place, rows)
        for i, verb in enumerate(order):
            look = {"facecolor": OUTCOMES[outcome], "hatch": PATTERNS[outcome], "edgecolor": "white", "linewidth": 0}
            axes.add_patch(plt.Rectangle((6 * column + i - 0.48, -row - 0.3), 0.96, 0.6, **look))
            ink = BLACK if outcome == "clip inert" else "white"
            style = {"ha": "center", "va": "center", "fontsize": 6.8, "bbox": plate(OUTCOMES[outcome])}
            axes.text(6 * column + i, -row, VERBS[verb], color=ink, **style)
    keys = []
    for outcome, colour in OUTCOMES.items():
        count = sum(o == outcome for o in outcomes.values())
        if count:
            look = {"facecolor": colour, "hatch": PATTERNS[outcome], "edgecolor": "white", "linewidth": 0}
            keys.append(plt.Rectangle((0, 0), 1, 1, label=f"{count} {outcome}", **look))
    axes.set(xlim=(-0.7, 16.7), ylim=(0.6 - rows, 0.7))
    axes.axis("off")
    axes.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(OUTCOMES))
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
    panels[0].set(ylabel="number drawn", ylim=(0, 1))
    panels[-1].legend(loc="upper right", fontsize=8)
    return figure


def memory_over_steps(trace: list[int], ends: list[int], unit_bytes: int) -> Figure:
    """Live bytes after each operation of a few training steps, the verbs forward, backward, step, zero shaded.

    trace: bytes alive after each operation. ends: length of the trace when each verb ended. unit_bytes: the weights.
    """
    figure, axes = new_figure(9.0, 3.4)
    live = [bytes_alive / unit_bytes for bytes_alive in trace]
    top = 1.12 * max(live)
    tints = {"forward": SKY, "backward": ORANGE, "step": GREEN, "zero": GREY}
    for place, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        name = list(tints)[place % 4]
        axes.axvspan(start, end, color=tints[name], alpha=0.25, linewidth=0)
        axes.axvline(end, color=GREY, linewidth=0.8, linestyle=":")
        style = {"ha": "center", "va": "bottom", "fontsize": 8, "rotation": 0 if end - start > len(live) / 25 else 90}
        axes.text((start + end) / 2, 1.02 * top, name, **style)
    axes.step(range(1, len(live) + 1), live, color=BLACK, linewidth=1.2, where="mid")
    peak = max(range(len(live)), key=live.__getitem__)
    axes.annotate(f"peak {live[peak]:.2f}", (peak + 1, live[peak]), xytext=(4, 2), textcoords="offset points")
    axes.set(xlabel="operation", ylabel="live memory / weights", xlim=(0, len(live)), ylim=(0, top))
    return figure


def schedule_units(per_epoch: list[float], per_batch: list[float]) -> Figure:
    """Learning rate at the start of each epoch: one schedule stepped per epoch and per batch."""
    figure, axes = new_figure(8.0, 3.0)
    axes.plot(per_batch, "o-", color=ORANGE, markersize=3, linewidth=0.8, label="counted in epochs, stepped per batch")
    axes.plot(per_epoch, color=BLUE, linewidth=2, label="counted in epochs, stepped per epoch")
    axes.plot(len(per_batch) - 1, per_batch[-1], "o", color=RED, label="where the wrong one ends")
    axes.set(xlabel="epoch", ylabel="learning rate", ylim=(0, max(per_batch) * 1.3))
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    axes.legend(loc="upper center", ncols=3, fontsize=8)
    return figure


def ragged_errors(tails: list[int], curves: dict[str, list[list[float]]]) -> Figure:
    """Relative gradient error against the size of the last piece. curves: label -> one list of errors for each tail."""
    figure, axes = new_figure(7.5, 3.2)
    for (label, errors), colour, mark in zip(curves.items(), (ORANGE, BLUE), "os", strict=False):
        means = [sum(each) / len(each) for each in errors]
        axes.plot(tails, means, mark + "-", color=colour, label=label)
        axes.fill_between(
            tails, [min(e) for e in errors], [max(e) for e in errors], color=colour, alpha=0.2, linewidth=0
        )
    axes.set(xlabel="examples in the last of four pieces (the others have 64)", ylabel="relative error of the gradient")
    axes.legend(loc="upper right")
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
            word, colour = ("differs", "white") if differs else ("same", GREY)
            axes.text(column, row, word, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(observables)), [name.replace(" ", "\n") for name in observables], fontsize=8)
    axes.set_yticks(range(len(pieces)), pieces)
    axes.set(xlim=(-0.5, len(observables) - 0.5), ylim=(len(pieces) - 0.5, -0.5), ylabel="left out")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return fig


def run_lives(starts: list[int], ends: list[int], reasons: list[str], every: int) -> Figure:
    """The processes that made one run, a row each, from step to step, with their checkpoints as dots.

    starts, ends: first and last step of each process. reasons: what ended it; SIGKILL saves nothing more, all others do.
    every: steps between checkpoints.
    """
    fig, axes = new_figure(7.4, 0.55 * len(starts) + 1.0)
    for row, (start, end, reason) in enumerate(zip(starts, ends, reasons, strict=True)):
        saves = list(range(start - start % every + every, end + 1, every))
        if reason != "SIGKILL" and end not in saves:
            saves.append(end)
        axes.barh(row, end - start, left=start, height=0.42, color=SKY)
        axes.plot(saves, [row] * len(saves), "o", color=BLUE, markersize=4, label=None if row else "checkpoint")
        style = {"textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(f"{reason} at step {end}", (end, row), xytext=(8, 0), **style)
    axes.set_yticks(range(len(starts)), [f"process {number}" for number in range(1, len(starts) + 1)])
    axes.set(xlabel="step", xlim=(0, 1.3 * max(ends)), ylim=(len(starts) - 0.4, -0.6))
    axes.legend(loc="lower left", fontsize=8)
    return fig


def silent_bugs(losses: dict[str, tuple[float, float]]) -> Figure:
    """First and last training loss of each run, an arrow from one to the other; losses: label -> (first, last) in nats."""
    fig, axes = new_figure(7.4, 0.3 * len(losses) + 0.8)
    for row, (first, last) in enumerate(losses.values()):
        colour = GREEN if row == 0 else (BLUE if last < first * 2 / 3 else RED)
        axes.annotate("", (last, row), (first, row), arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.6})
        axes.text(max(first, last) * 1.15, row, f"{first:.2f} → {last:.2f}", va="center", fontsize=8, color=colour)
    highest, lowest = max(map(max, losses.values())), min(map(min, losses.values()))
    axes.set(xscale="log", xlim=(lowest / 1.3, highest * 3), ylim=(len(losses) - 0.4, -0.6))
    axes.set_xlabel("training loss, first and last record (nats, logarithmic)")
    axes.set_yticks(range(len(losses)), list(losses))
    return fig


def decision_film(frames, points, labels, extent: float) -> Film:
    """A film of what a classifier of the plane believes, one frame a checkpoint.

    frames: [(probabilities (H, W, 3) over the square from -extent to extent, accuracy), …]; points (N, 2) with labels (N,)
    are drawn into every frame.
    """

    def frame(probabilities, accuracy: float) -> Figure:
        fig, axes = new_figure(6.0, 6.2)
        _beliefs(axes, probabilities, points, labels, extent)
        axes.set_title(f"{accuracy:.1%} of validation points")
        return fig

    shown = ((f"epoch {epoch}", frame(*each)) for epoch, each in enumerate(frames, start=1))
    return film(shown, "decision regions of the network")


def decision_panels(frames, points, labels, extent: float) -> Figure:
    """Some frames of decision_film beside each other; frames: {"epoch 1": (probabilities, accuracy), …}."""
    fig, panels = new_figure(2.5 * len(frames), 2.75, ncols=len(frames), squeeze=False)
    for axes, (name, (probabilities, accuracy)) in zip(panels[0], frames.items(), strict=True):
        _beliefs(axes, probabilities, points, labels, extent, interpolation="none")  # an SVG keeps it as small as it is
        axes.set_title(f"{name}: {accuracy:.1%} right")
    return fig


def _beliefs(axes, probabilities, points, labels, extent: float, interpolation: str | None = None) -> None:
    """The plane, coloured by what a classifier believes of each place, and the points with their true classes."""
    colours = np.array([to_rgb(colour) for colour in (SKY, YELLOW, GREEN)])  # three greys too
    square = {"origin": "lower", "extent": [-extent, extent] * 2, "interpolation": interpolation}
    axes.imshow(0.2 + 0.8 * (probabilities @ colours), **square)
    for label, marker in enumerate("os^"):
        axes.plot(*points[labels == label].T, marker, color=BLACK, markersize=2.5, markerfacecolor="white", mew=0.5)
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


def step_prices(microseconds: dict[str, float]) -> Figure:
    """CPU time per step of each named loop, and what it adds to the first."""
    fig, axes = new_figure(7.4, 0.42 * len(microseconds) + 0.8)
    base = next(iter(microseconds.values()))
    bars = axes.barh(list(microseconds), list(microseconds.values()), color=[GREY, *[SKY] * (len(microseconds) - 1)])
    labels = [
        f"{price:,.0f} µs" + (f"  (+{price - base:,.0f})" if price != base else "") for price in microseconds.values()
    ]
    axes.bar_label(bars, labels=labels, padding=4, fontsize=8)
    axes.set(xlabel="CPU time per step, µs", xlim=(0, 1.3 * max(microseconds.values())))
    axes.invert_yaxis()
    return fig
