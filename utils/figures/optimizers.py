"""Pictures of optimizers: updates, paths down a valley, training runs, decay, clipping, learning rates over a run."""

from math import isfinite

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

from utils.figures.player import Film, film
from utils.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALE, PURPLE, RED, SKY, new_figure, plate

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
TOP = 5.0  # losses above are drawn here
Losses = dict[str, dict[float, list[float]]]  # name -> learning rate -> losses, one a seed
STYLES = ("-", "--", "-.", (0, (1.5, 1.2)))
OFFSET = {"textcoords": "offset points"}


def _name_ends(axes, names: list[str]) -> None:
    """Each line's name at its end; lines that end within a twentieth of the panel share one label, a name a row."""
    ends = [(float(line.get_xdata()[-1]), float(line.get_ydata()[-1])) for line in axes.lines]
    heights = axes.transAxes.inverted().transform(axes.transData.transform(ends))[:, 1]
    groups: list[list[int]] = []
    for place in sorted(range(len(names)), key=lambda place: -heights[place]):
        if groups and heights[groups[-1][0]] - heights[place] < 0.05:
            groups[-1].append(place)
        else:
            groups.append([place])
    for group in groups:
        label = "\n".join(names[place] for place in group)
        axes.annotate(label, ends[group[0]], xytext=(6, 0), textcoords="offset points", va="center")


def valley(paths: dict[str, np.ndarray], curvatures: tuple[float, float]) -> Figure:
    """Four paths (T, 2) down ½(a·x² + b·y²), each in a panel of its own, a dot for each step; curvatures: (a, b)."""
    fig, panels = new_figure(9.0, 4.2, nrows=2, ncols=2, sharex=True, sharey=True)
    limits = _limits(paths)
    for axes, (name, path), colour in zip(panels.flat, paths.items(), COLOURS, strict=True):
        _contours(axes, limits, curvatures)
        axes.plot(*path.T, ".-", color=colour, linewidth=1.2, markersize=4)
        axes.plot(*path[0], "o", color=BLACK, markersize=5)
        axes.plot(0, 0, "+", color=BLACK, markersize=10)
        axes.set_title(f"{name}, {len(path) - 1} steps", fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("along the valley")
    for axes in panels[:, 0]:
        axes.set_ylabel("across")
    return fig


def _limits(paths: dict[str, np.ndarray]) -> tuple[float, float, float, float]:
    everything = np.concatenate(list(paths.values()))
    (left, low), (right, high) = everything.min(0) - 0.3, everything.max(0) + 0.3
    return left, right, low, high


def _contours(axes, limits: tuple[float, float, float, float], curvatures: tuple[float, float]) -> None:
    left, right, low, high = limits
    x, y = np.meshgrid(np.linspace(left, right, 120), np.linspace(low, high, 120))
    levels = 0.5 * (curvatures[0] * x**2 + curvatures[1] * y**2)
    axes.contour(x, y, levels, levels=np.geomspace(0.1, levels.max(), 9), colors=GREY, linewidths=0.5, alpha=0.7)
    axes.set(xlim=(left, right), ylim=(low, high))


def valley_film(paths: dict[str, np.ndarray], curvatures: tuple[float, float], every: int = 4) -> Film:
    """The film of `valley`: a frame for every fourth step (or `every`) from 0 to the end of the paths."""
    last = len(next(iter(paths.values()))) - 1
    figure = valley(paths, curvatures)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once: only the paths change from frame to frame
    walks = [(axes.lines[0], path) for axes, path in zip(figure.axes, paths.values(), strict=True)]

    def frame(step: int) -> Figure:
        for line, path in walks:
            line.set_data(*path[: step + 1].T)
        return figure

    shown = ((f"step {step}", frame(step)) for step in [*range(0, last, every), last])
    return film(shown, f"paths of {', '.join(paths)}")


def valleys(kept: dict[str, Losses], own: dict[str, Losses], top: float) -> Figure:
    """Final loss by learning rate, a panel each: title -> name -> learning rate -> losses, one a seed.

    `kept` are lines: the median over the seeds, with a bar that spans them all, and a ring around the lowest. `own` are
    dots, of this machine. A loss above `top`, infinite or NaN is drawn at `top`. ValueError for a name in `own` alone.
    """
    fig, panels = new_figure(9.6, 4.2, ncols=len(kept), sharex=True, sharey=True)
    lowest = top
    for axes, (title, lines) in zip(panels, kept.items(), strict=True):
        if strangers := own[title].keys() - lines.keys():
            raise ValueError(f"{title}: no line for the dots of {', '.join(sorted(strangers))}: add it to kept")
        for place, (name, by_rate) in enumerate(lines.items()):
            look = {"color": COLOURS[place % 4], "marker": MARKERS[place], "markersize": 5}
            rates = sorted(by_rate)
            losses = [_capped(by_rate[rate], top) for rate in rates]
            middle = np.array([np.median(each) for each in losses])
            lowest = min(lowest, *(each.min() for each in losses))
            around = [
                middle - [each.min() for each in losses],
                [each.max() for each in losses] - middle,
            ]
            style = {"linestyle": STYLES[place % 4], "capsize": 2, "label": name}
            axes.errorbar(rates, middle, yerr=around, linewidth=1.5, **look, **style)
            best = int(middle.argmin())
            axes.plot(rates[best], middle[best], "o", markersize=14, markerfacecolor="none", markeredgecolor=BLACK)
            for rate, each in own[title].get(name, {}).items():
                dots = _capped(each, top)
                lowest = min(lowest, dots.min(initial=top))
                axes.plot([rate] * len(dots), dots, "o", markersize=8, color=COLOURS[place % 4], alpha=0.45)
        axes.set(xscale="log", yscale="log", xlabel="learning rate", title=title)
        axes.grid(color=PALE)
        axes.axhline(top, color=GREY, linewidth=0.8, linestyle=":")
        look = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 9}
        axes.annotate(f"{top:g} and more", (0.4, top), xytext=(0, -11), **look)
    panels[0].set_ylim(0.97 * lowest, 1.03 * top)  # shared: once all panels are drawn
    panels[0].set_ylabel("loss on new data, after the last step")
    _plain_numbers(*panels)
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=9)
    return fig


def _capped(losses: list[float], top: float) -> np.ndarray:
    return np.array([min(loss, top) if isfinite(loss) else top for loss in losses])


def draw_runs(axes, losses: dict[str, list[list[float]]], window: int, top: float = TOP) -> None:
    """Loss over a run, each value the mean of the last `window` steps: name -> losses of each step, one list a seed.

    The line is the median over the seeds, the band spans them all. What is above `top` or not finite is drawn there.
    """
    for place, (name, seeds) in enumerate(losses.items()):
        capped = np.nan_to_num(np.array(seeds), nan=top, posinf=top).clip(max=top)
        sums = np.cumsum(np.pad(capped, ((0, 0), (1, 0))), axis=1)
        means = (sums[:, window:] - sums[:, :-window]) / window
        steps, colour = range(window, capped.shape[1] + 1), COLOURS[place % 4]
        axes.fill_between(steps, means.min(axis=0), means.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        axes.plot(steps, np.median(means, axis=0), linestyle=STYLES[place % 4], color=colour, linewidth=1.8, label=name)
    axes.set(yscale="log", xlabel="step", ylabel=f"loss, mean of {window} steps" if window > 1 else "loss")


def run_losses(losses: dict[str, list[list[float]]], window: int, level: tuple[str, float]) -> Figure:
    """Loss over a run as draw_runs draws it, with a dotted line at the level: its name, and its loss."""
    fig, axes = new_figure(7.4, 3.6)
    draw_runs(axes, losses, window)
    name, height = level
    axes.axhline(height, color=BLACK, linewidth=1, linestyle=":")
    axes.annotate(name, (0.02, height), xycoords=("axes fraction", "data"), xytext=(0, -12), fontsize=9, **OFFSET)
    axes.grid(color=PALE)
    axes.legend(loc="upper right", fontsize=9)
    _plain_numbers(axes)
    return fig


def over_steps(lines: dict[str, list[float]], ylabel: str, level: tuple[str, float] | None = None) -> Figure:
    """A line for each name, a value for each step; with a level (its name, its height) dotted, and then logarithmic."""
    fig, axes = new_figure(7.4, 2.8)
    for place, (name, values) in enumerate(lines.items()):
        look = {"color": COLOURS[place % 4], "linestyle": STYLES[place % 4], "linewidth": 1.8}
        axes.plot(range(len(values)), values, label=name, **look)
    axes.set(xlabel="step", ylabel=ylabel)
    if level:
        name, height = level
        axes.set_yscale("log")
        axes.axhline(height, color=BLACK, linewidth=1, linestyle=":")
        axes.annotate(name, (0.02, height), xycoords=("axes fraction", "data"), xytext=(0, 4), fontsize=9, **OFFSET)
    axes.grid(color=PALE)
    axes.legend(loc="upper right", fontsize=9)
    return fig


def gains(kept: dict[str, list[float]], own: dict[str, list[float]]) -> Figure:
    """By how much each program's loss is below another one's: a bar for the mean, a small dot for each seed.

    name -> gains, one a seed. `own` are large pale dots, of this machine.
    """
    fig, axes = new_figure(8.4, 0.5 * len(kept) + 1.2)
    for place, (name, values) in enumerate(kept.items()):
        mean = sum(values) / len(values)
        axes.barh(place, mean, height=0.55, color=SKY)
        axes.plot(values, [place] * len(values), "o", color=BLACK, markersize=4)
        axes.plot(own.get(name, []), [place] * len(own.get(name, [])), "o", color=BLUE, markersize=10, alpha=0.45)
        axes.annotate(f"{mean:.2f}", (max([*values, mean]), place), xytext=(8, 0), va="center", **OFFSET)
    axes.set_yticks(range(len(kept)), list(kept))
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(xlabel="loss on new text, below that of the plain step", xlim=(0, None))
    return fig


def _plain_numbers(*panels) -> None:
    for axes in panels:
        axes.yaxis.set_major_locator(FixedLocator([0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 2.2, 2.5, 3, 5, 10]))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())


def runs(panels: dict[str, dict[str, list[list[float]]]], windows: tuple[int, ...], top: float) -> Figure:
    """Loss over a run, a panel each as draw_runs draws it: title -> name -> losses of each step, one list a seed."""
    fig, axes = new_figure(9.6, 3.8, ncols=len(panels))
    for each, (title, losses), window in zip(axes, panels.items(), windows, strict=True):
        draw_runs(each, losses, window, top)
        each.set_title(title)
        each.legend(loc="upper right", fontsize=9)
    _plain_numbers(*axes)
    return fig


def decay(weights: dict[str, list[float]], every: int) -> Figure:
    """What is left of a weight of 1, a value for every `every`-th step: name -> weights."""
    fig, axes = new_figure(7.4, 3.2)
    for place, path in enumerate(weights.values()):
        look = {"color": COLOURS[place % 4], "linestyle": STYLES[place % 4], "linewidth": 2}
        axes.plot([every * n for n in range(len(path))], path, **look)
    axes.set(xlabel="step", ylabel="weight", ylim=(0, 1.05))
    _name_ends(axes, list(weights))
    return fig


def clip_vectors(gradients: np.ndarray, clipped: dict[str, np.ndarray], limit: float) -> Figure:
    """Gradients (N, 2) as pale arrows and what a way of clipping makes of them, one panel a way: name -> (N, 2).

    The first panel shows the circle of radius `limit`, the second the square of that half width.
    """
    fig, panels = new_figure(8.0, 3.9, ncols=2, sharex=True, sharey=True)
    turn = np.linspace(0, 2 * np.pi, 100)
    bounds = (
        limit * np.stack([np.cos(turn), np.sin(turn)]),
        limit * np.array([[1, -1, -1, 1, 1], [1, 1, -1, -1, 1]]),
    )
    plain = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0}
    for axes, (name, vectors), bound in zip(panels, clipped.items(), bounds, strict=True):
        axes.plot(*bound, "--", color=GREY, linewidth=1)
        for before, after in zip(gradients, vectors, strict=True):
            axes.annotate("", before, (0, 0), arrowprops={"color": SKY, "linewidth": 1.2, **plain})
            axes.annotate("", after, (0, 0), arrowprops={"color": RED, "linewidth": 2, **plain})
        reach = 1.08 * max(np.abs(gradients).max(), limit)
        axes.set(
            title=name, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="gradient of one weight"
        )
    panels[0].set_ylabel("gradient of the other")
    return fig


def spike(steps: dict[str, list[float]], at: int) -> Figure:
    """Size of each step in units of the learning rate, logarithmic; the spike comes after `at` steps. name -> steps.

    The smallest step of all is written beside its place.
    """
    fig, axes = new_figure(7.4, 3.6)
    styles = ((BLUE, "-", 1.2), (SKY, "-", 5), (RED, "-", 1.8), (ORANGE, "--", 2))
    for (name, sizes), (colour, line, width) in zip(steps.items(), styles, strict=False):
        axes.plot(range(1, len(sizes) + 1), sizes, linestyle=line, color=colour, linewidth=width, label=name)
    tallest = max(sizes[at] for sizes in steps.values())
    axes.annotate("the spike", (at + 1, tallest), xytext=(8, -4), textcoords="offset points", va="center")
    smallest, step = min((size, step) for sizes in steps.values() for step, size in enumerate(sizes, start=1))
    axes.annotate(f"{smallest:.2g}", (step, smallest), xytext=(14, -4), textcoords="offset points")
    axes.set(yscale="log", xlabel="step", ylabel="step / learning rate")
    fig.legend(loc="outside upper center", ncols=len(steps), fontsize=9)
    return fig


def schedules(traces: dict[str, list[float]]) -> Figure:
    """Learning rates by epoch, one panel a trace: name -> rate at the start of each epoch, as a share of the peak."""
    fig, panels = new_figure(9.0, 4.4, nrows=2, ncols=2, sharex=True, sharey=True)
    for axes, (name, trace), colour in zip(panels.flat, traces.items(), (GREEN, BLUE, ORANGE, RED), strict=True):
        axes.fill_between(range(len(trace)), trace, color=PALE)
        axes.plot(trace, color=colour, linewidth=1.6)
        axes.plot(len(trace) - 1, trace[-1], "o", color=colour)
        look = {"ha": "right", "fontsize": 9, "bbox": plate()}
        axes.text(0.98, 0.88, f"ends at {trace[-1]:.2f}", transform=axes.transAxes, **look)
        axes.set(title=name, ylim=(0, 1.35))
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
    for axes in panels[:, 0]:
        axes.set_ylabel("learning rate / peak")
    return fig
