"""Pictures of optimizers: paths down a valley, steps around a spike, learning rates over a run."""

import io

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from utils.figures.loop import Film
from utils.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALE, PURPLE, RED, SKY, new_figure

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


def valley_frame(paths: dict[str, np.ndarray], step: int, curvatures: tuple[float, float]) -> Figure:
    """The first `step` steps of each path (T, 2) down ½(a·x² + b·y²), over its contours; curvatures: (a, b)."""
    fig, axes = new_figure(7.0, 3.3)
    everything = np.concatenate(list(paths.values()))
    (left, low), (right, high) = everything.min(0) - 0.3, everything.max(0) + 0.3
    x, y = np.meshgrid(np.linspace(left, right, 120), np.linspace(low, high, 120))
    levels = 0.5 * (curvatures[0] * x**2 + curvatures[1] * y**2)
    axes.contour(x, y, levels, levels=np.geomspace(0.1, levels.max(), 9), colors=GREY, linewidths=0.5, alpha=0.7)
    for (name, path), colour, mark in zip(paths.items(), COLOURS, MARKERS, strict=False):
        walked = path[: step + 1]
        look = {"marker": mark, "markevery": [len(walked) - 1], "markersize": 7, "markeredgecolor": "white"}
        axes.plot(*walked.T, "-", color=colour, linewidth=1.3, label=name, **look)
    axes.plot(0, 0, "+", color=BLACK, markersize=9)
    axes.set(xlim=(left, right), ylim=(low, high), xlabel="along the valley", ylabel="across", title=f"step {step}")
    axes.legend(loc="upper right", ncols=2, fontsize=8)
    return fig


def valley_film(paths: dict[str, np.ndarray], curvatures: tuple[float, float], every: int = 3) -> Film:
    """The film of valley_frame, a frame for every third step (or `every`) from 0 to the end of the paths."""
    last = len(next(iter(paths.values()))) - 1
    steps = [*range(0, last, every), last]
    pictures = []
    for step in steps:
        png = io.BytesIO()
        valley_frame(paths, step, curvatures).savefig(png, format="png", dpi=80)
        pictures.append(Image.open(png).convert("RGB").quantize(128, dither=Image.Dither.NONE))
    file = io.BytesIO()
    times = [120] * (len(pictures) - 1) + [2500]  # milliseconds; the last frame stays longer
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=True)
    return Film(file.getvalue(), f"paths of {', '.join(paths)} over {last} steps")


def spike(steps: dict[str, list[float]], at: int) -> Figure:
    """Size of each step in units of the learning rate, logarithmic; the spike comes after `at` steps. name -> steps.

    The smallest step of all is written beside its place.
    """
    fig, axes = new_figure(7.4, 3.4)
    styles = ((BLUE, ":", 2), (SKY, "-", 5), (RED, "-", 1.8), (ORANGE, "--", 2))
    for (name, sizes), (colour, line, width) in zip(steps.items(), styles, strict=False):
        axes.plot(range(1, len(sizes) + 1), sizes, line, color=colour, linewidth=width, label=name)
    axes.axvline(at + 1, color=GREY, linestyle=":", linewidth=1)
    axes.annotate("the spike", (at + 1, 1e4), xytext=(6, 0), textcoords="offset points", color=GREY)
    smallest, step = min((size, step) for sizes in steps.values() for step, size in enumerate(sizes, start=1))
    axes.annotate(f"{smallest:.2g}", (step, smallest), xytext=(6, 8), textcoords="offset points")
    axes.set(yscale="log", xlabel="step", ylabel="size of the step / learning rate")
    axes.legend(loc="upper right", ncols=2, fontsize=8)
    return fig


def schedules(traces: dict[str, list[float]]) -> Figure:
    """Learning rates by epoch, one panel a trace: name -> rate at the start of each epoch, as a share of the peak."""
    fig, panels = new_figure(9.0, 4.4, nrows=2, ncols=2, sharex=True, sharey=True)
    for axes, (name, trace), colour in zip(panels.flat, traces.items(), (GREEN, BLUE, ORANGE, RED), strict=True):
        axes.fill_between(range(len(trace)), trace, color=PALE)
        axes.plot(trace, color=colour, linewidth=1.6)
        axes.plot(len(trace) - 1, trace[-1], "o", color=colour)
        axes.text(0.98, 0.88, f"ends at {trace[-1]:.2f}", transform=axes.transAxes, ha="right", fontsize=8)
        axes.set(title=name, ylim=(0, 1.25))
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
    for axes in panels[:, 0]:
        axes.set_ylabel("rate / peak")
    return fig
