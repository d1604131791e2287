"""Pictures of debugging: gradient norms, steps that are too long, hooks, patching, a step's time, silent bugs."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    filled,
    new_figure,
    signs,
)

COLOURS = (RED, ORANGE, GREEN, PURPLE, BLUE, SKY, GREY, BLACK)
CURVES = (GREEN, RED, BLACK, ORANGE, PURPLE, SKY, BLUE)


def gradient_norms(norms: dict[str, Sequence[float]]) -> Figure:
    """Norm of the gradient of each weight matrix, first layer to last, one line a network; logarithmic."""
    fig, axes = new_figure(7.4, 3.4)
    for (name, values), colour, mark in zip(norms.items(), COLOURS, MARKERS, strict=False):
        axes.plot(range(1, len(values) + 1), values, mark + "-", color=colour, markersize=4, lw=1.4, label=name)
    axes.set(yscale="log", xlabel="weight matrix, from the input to the output", ylabel="norm of the gradient")
    axes.set_xticks(range(1, max(map(len, norms.values())) + 1, 2))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def descents(paths: dict[str, Sequence[float]]) -> Figure:
    """The loss w²/2 and the steps of gradient descent on it, a panel for each path of weights; the last step is an arrow."""
    fig, panels = new_figure(7.8, 2.6, ncols=len(paths), squeeze=False)
    for axes, (name, path) in zip(panels[0], paths.items(), strict=True):
        losses = [w * w / 2 for w in path]
        curve = np.linspace(-1.15, 1.15, 101) * max(map(abs, path))
        axes.plot(curve, curve**2 / 2, color=GREY, lw=1.2)
        axes.plot(path[:-1], losses[:-1], "o-", color=BLUE, markersize=4, lw=1.2)
        arrow = {"arrowstyle": "->", "color": RED, "linewidth": 1.6}
        axes.annotate("", (path[-1], losses[-1]), (path[-2], losses[-2]), arrowprops=arrow)
        axes.plot(path[0], losses[0], "D", color=BLACK, markersize=6, zorder=3)
        axes.set(title=name, xlabel="weight w")
    panels[0][0].set_ylabel("loss w²/2")
    return fig


KINDS = {  # of hooks: the sign that stands for each
    "forward pre-hook": (">", BLUE),
    "forward hook": ("o", BLUE),
    "backward pre-hook": ("<", RED),
    "backward hook": ("s", RED),
    "parameter hook": ("*", GREEN),
}


def hook_events(events: Sequence[tuple[str, str]], places: Sequence[str], names: Sequence[str]) -> Figure:
    """When each hook fires: events (kind, place) in the order of their calls, a row for each place.

    ValueError for a kind that is not in KINDS.
    """
    if unknown := sorted({kind for kind, _ in events} - set(KINDS)):
        raise ValueError(f"unknown kinds of hooks {unknown}: {', '.join(KINDS)}")
    fig, axes = new_figure(7.8, 0.45 * len(places) + 1.5)
    for kind, (sign, colour) in KINDS.items():
        spots = [(time, places.index(place)) for time, (name, place) in enumerate(events, 1) if name == kind]
        if spots:
            size = 12 if sign == "*" else 8
            axes.plot(*zip(*spots, strict=True), sign, color=colour, markersize=size, label=kind, ls="none")
    turn = next((time for time, (kind, _) in enumerate(events, 1) if not kind.startswith("forward")), len(events) + 1)
    axes.axvline(turn - 0.5, color=GREY, lw=1.2, ls="--")
    for middle, word in (((1 + turn) / 2 - 0.5, "forward"), ((turn + len(events)) / 2, "backward")):
        axes.text(middle, -0.8, word, ha="center", va="center")
    axes.set_yticks(range(len(places)), names)
    axes.set(xlabel="call", xlim=(0.3, len(events) + 0.7), ylim=(len(places) - 0.4, -1.2))
    axes.set_xticks(range(2, len(events) + 1, 2))
    axes.grid(axis="y", color="#E0E0E0", lw=0.8)
    axes.set_axisbelow(True)
    fig.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return fig


def patching_map(heat: Sequence[Sequence[float]], layers: Sequence[str]) -> Figure:
    """What share of the clean answer a patch recovers, 0 to 1: a row for each layer, a column for each position.

    Raises ValueError if there is not one name for each row.
    """
    if len(heat) != len(layers):
        raise ValueError(f"{len(heat)} rows of the map and {len(layers)} names of layers: give one for each")
    fig, axes = new_figure(5.6, 0.5 * len(heat) + 1.1)
    image = axes.imshow(heat, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, values in enumerate(heat):
        for column, share in enumerate(values):
            written = f"{share + 0.0:g}"  # without the sign of -0.0
            axes.text(column, row, written, ha="center", va="center", color="white" if share > 0.5 else BLACK)
    axes.set_xticks(range(len(heat[0])))
    axes.set_yticks(range(len(layers)), layers)
    axes.set(xlabel="position", ylabel="patched behind")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    fig.colorbar(image, label="share recovered")
    return fig


def step_shares(nanoseconds: dict[str, int], computing: int) -> Figure:
    """One step as a stacked bar of its parts, and below it the time in which the device computed; milliseconds."""
    total = sum(nanoseconds.values())
    fig, axes = new_figure(7.4, 1.9)
    left = 0.0
    colours = (SKY, BLUE, ORANGE, GREEN, GREY)
    for place, ((name, spent), colour) in enumerate(zip(nanoseconds.items(), colours, strict=True)):
        width = spent / 1e6
        axes.barh(1, width, left=left, label=f"{name} {spent / total:.0%}", **filled(place, colour))
        left += width
    axes.barh(0, computing / 1e6, color=BLACK, height=0.5)
    axes.text(computing / 1e6, 0, f"  {computing / total:.0%}", va="center", fontsize=9)
    axes.set_yticks([1, 0], ["the step", "operators\nrunning"])
    axes.set(xlabel="milliseconds", xlim=(0, total / 1e6), ylim=(-0.5, 1.6))
    fig.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=9)
    return fig


def loss_curves(curves: dict[str, Sequence[float]]) -> Figure:
    """Training loss by step of several runs, logarithmic; the first drawn thick, the one to compare with."""
    fig, axes = new_figure(7.6, 3.6)
    for place, ((name, losses), colour) in enumerate(zip(curves.items(), CURVES, strict=False)):
        look = {"lw": 1.4, "zorder": 3, **signs(place, losses)} if place else {"lw": 3.2, "zorder": 2}
        axes.plot(losses, color=colour, label=name, **look)
    axes.set(xlabel="step", ylabel="training loss, nats", xlim=(0, len(losses) - 1), yscale="log")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def two_losses(runs: dict[str, tuple[float, float]]) -> Figure:
    """Loss on the training text and in validation after each run, a row each; the first run is the one to compare with."""
    fig, axes = new_figure(7.4, 0.28 * len(runs) + 1.1)
    for row, (training, validation) in enumerate(runs.values()):
        colour = GREEN if row == 0 else BLUE
        axes.plot((training, validation), (row, row), color=colour, lw=1.2, zorder=2)
        axes.plot(training, row, "o", color=colour, markersize=7, zorder=3)
        axes.plot(validation, row, "o", color=colour, markersize=9, markerfacecolor="white", mew=1.5, zorder=2.5)
    reference, _ = next(iter(runs.values()))
    axes.axvline(reference, color=GREY, lw=1.2, zorder=1)
    axes.set_yticks(range(len(runs)), list(runs))
    axes.set(xlabel="loss in nats after the last step", ylim=(len(runs) - 0.4, -0.6))
    axes.plot([], [], "o", color=BLACK, markersize=7, label="on the training text")
    axes.plot([], [], "o", color=BLACK, markersize=9, markerfacecolor="white", mew=1.5, label="as validate says")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def where_it_moves(tables: dict[str, Sequence[Sequence[bool]]], at: tuple[int, int]) -> Figure:
    """Which places of which windows moved when the letter at (window, place) was changed: a panel for each program."""
    fig, panels = new_figure(7.8, 2.5, ncols=len(tables), squeeze=False, sharey=True)
    row, place = at
    for axes, (name, table) in zip(panels[0], tables.items(), strict=True):
        axes.imshow(np.array(table, dtype=float), cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
        axes.plot(place, row, "x", color=RED, markersize=8, mew=2)
        axes.set(title=name, xlabel="place")
    panels[0][0].set_ylabel("window")
    return fig


def detector_table(passes: dict[str, Sequence[bool]], detectors: Sequence[str], costs: dict[str, float]) -> Figure:
    """Which detector (a column) gave an alarm at which program (a row), and on the right what each has cost in nats."""
    if odd := [name for name, row in passes.items() if len(row) != len(detectors)]:
        raise ValueError(f"{odd} have not one verdict for each of {len(detectors)} detectors")
    fig, axes = new_figure(7.4, 0.32 * len(passes) + 0.9)
    for row, (name, verdicts) in enumerate(passes.items()):
        for column, passed in enumerate(verdicts):
            colour, word = ("#EDEDED", "") if passed else (RED, "alarm")
            axes.barh(row, 0.94, left=column - 0.47, height=0.84, color=colour)
            axes.text(column, row, word, ha="center", va="center", color=BLACK, fontsize=9)
        axes.text(
            len(detectors) - 0.15,
            row,
            f"{costs[name] + 0.0:+.2f}".replace("-", "−"),
            ha="center",
            va="center",
            fontsize=9,
        )
    axes.set_xticks(range(len(detectors) + 1), [*detectors, "cost, nats"])
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(passes)), list(passes))
    axes.set(xlim=(-0.55, len(detectors) + 0.3), ylim=(len(passes) - 0.45, -0.55))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return fig
