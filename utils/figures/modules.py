"""Pictures of modules: what a module knows, what travels with it, how a start decides a run, what models are made of."""

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from utils.figures.player import Film, film
from utils.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    MARKERS,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    new_figure,
    signs,
)

DARK = "#404040"
LINES = (RED, BLUE, GREEN, PURPLE, ORANGE)
PARTS = (SKY, ORANGE, GREEN, YELLOW, PURPLE)
DICTIONARIES = ("_parameters", "_buffers", "_modules", "the rest")
BOX, ROW, GAP = 2.1, 0.21, 0.35  # inches: the width of a module's box, the height of a line in it, between two levels


def module_tree(module: object, name: str = "model") -> Figure:
    """A box for each module, its children below it; in a box its four dictionaries, and the names in each.

    module: a torch.nn.Module. Of more than three children of one kind only the first and the last are drawn.
    """
    levels = _levels(module, name)
    height = ROW * (len(DICTIONARIES) + 1)
    wide = max(map(len, levels)) * (BOX + 0.2)
    fig, axes = new_figure(wide, len(levels) * (height + GAP) - GAP + 0.1)
    for depth, level in enumerate(levels):
        top = -depth * (height + GAP)
        for place, (part, label, parent) in enumerate(level):
            middle = (place + 0.5) * wide / len(level)
            if depth:
                above = (parent + 0.5) * wide / len(levels[depth - 1])
                axes.plot([above, middle], [top + GAP, top], color=GREY, lw=1)
            if part is None:
                axes.text(middle, top - height / 2, label, ha="center", va="center")
            else:
                _box(axes, middle - BOX / 2, top, f"{label}: {type(part).__name__}", _names(part))
    axes.set(xlim=(0, wide), ylim=(-len(levels) * (height + GAP) + GAP - 0.05, 0.05))
    axes.set_axis_off()
    return fig


def _levels(module: object, name: str) -> list[list[tuple[object, str, int]]]:
    """Level by level: (a module, or None for those left out; what it is called; the place of its parent)."""
    levels = [[(module, name, 0)]]
    while below := [
        child for place, (part, label, _) in enumerate(levels[-1]) for child in _children(part, label, place)
    ]:
        levels.append(below)
    return levels


def _children(part: object, label: str, place: int) -> list[tuple[object, str, int]]:
    children = [] if part is None else list(vars(part)["_modules"].items())
    named = [(child, key if key.isidentifier() else f"{label}.{key}", place) for key, child in children]
    if len(named) > 3 and len({type(child) for child, _, _ in named}) == 1:
        return [named[0], (None, f"… and {len(named) - 2} more …", place), named[-1]]
    return named


def _names(part: object) -> list[list[str]]:
    """What stands in each of a module's dictionaries; of the rest, what a user put there."""
    rest = [key for key in vars(part) if not key.startswith("_") and key != "training"]
    return [*(list(vars(part)[kind]) for kind in DICTIONARIES[:3]), rest]


def _box(axes, left: float, top: float, title: str, names: list[list[str]]) -> None:
    height = ROW * (len(names) + 1)
    axes.add_patch(Rectangle((left, top - height), BOX, height, facecolor="white", edgecolor=GREY, lw=0.8))
    axes.add_patch(Rectangle((left, top - ROW), BOX, ROW, facecolor=PALE, edgecolor=GREY, lw=0.8))
    axes.text(left + BOX / 2, top - ROW / 2, title, ha="center", va="center", fontsize=8.5, fontweight="bold")
    for row, (kind, found) in enumerate(zip(DICTIONARIES, names, strict=True), start=1):
        shown = found if len(found) < 4 else [found[0], "…", found[-1]]
        axes.text(left + 0.06, top - ROW * (row + 0.5), kind, va="center", fontsize=7.5, color=DARK)
        axes.text(
            left + BOX - 0.06, top - ROW * (row + 0.5), ", ".join(shown) or "–", ha="right", va="center", fontsize=8
        )


def names_and_tensors(tensors: Mapping[str, object]) -> Figure:
    """Names on the left, on the right a box for each tensor; a line from every name to its tensor.

    tensors: what each name stands for, anything with a shape. Names of one and the same object share a box.
    """
    boxes = {id(tensor): tensor for tensor in tensors.values()}
    height = len(tensors) / len(boxes)
    middles = {key: 0.5 - (place + 0.5) * height for place, key in enumerate(boxes)}
    fig, axes = new_figure(5.2, 0.34 * len(tensors) + 0.2)
    for row, (name, tensor) in enumerate(tensors.items()):
        axes.text(0, -row, name, ha="right", va="center", fontsize=9)
        axes.plot([0.05, 1], [-row, middles[id(tensor)]], color=GREY, lw=1)
    for key, middle in middles.items():
        axes.add_patch(Rectangle((1, middle - 0.35), 1, 0.7, facecolor=SKY, edgecolor=GREY, lw=0.8))
        axes.text(1.5, middle, " × ".join(map(str, boxes[key].shape)), ha="center", va="center", fontsize=9)
    axes.set(xlim=(-1.2, 2.05), ylim=(0.5 - len(tensors), 0.5))
    axes.set_axis_off()
    return fig


def tile_table(table: dict[str, dict[str, bool]]) -> Figure:
    """One tile for each row and column: filled and marked "yes" where it is true, empty and marked "no" elsewhere.

    table: row -> {column: truth}. ValueError if two rows differ in their columns.
    """
    columns = list(next(iter(table.values()), {}))
    if not columns or any(list(row) != columns for row in table.values()):
        raise ValueError(
            f"the rows need the same columns in the same order, not {[list(row) for row in table.values()]}"
        )
    fig, axes = new_figure(1.15 * len(columns) + 1.8, 0.5 * len(table) + 0.5)
    for y, row in enumerate(table.values()):
        for x, true in enumerate(row.values()):
            axes.barh(y, 0.94, left=x - 0.47, height=0.88, color=SKY if true else "white", edgecolor=GREY, lw=0.8)
            axes.text(x, y, "yes" if true else "no", ha="center", va="center", color=BLACK if true else DARK)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(table)), [name.replace("_", " ") for name in table])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(table) - 0.5, -0.5))
    return fig


def loss_by_start(curves: Mapping[str, Sequence[float]], guess: float) -> Figure:
    """The loss before each step, a line for each start; what is beyond the frame or not finite is not drawn.

    guess: the loss of a model that knows nothing, a dashed line. A label says how a line that leaves the frame begins.
    """
    fig, axes = new_figure(7.4, 3.4)
    highest, longest = 2.2 * guess, max(map(len, curves.values()))
    for place, ((label, losses), colour) in enumerate(zip(curves.items(), LINES, strict=False)):
        inside = [loss if isfinite(loss) and loss < highest else float("nan") for loss in losses]
        if not isfinite(inside[0]):
            label = f"{label}: {losses[0]:.0e}, {losses[1]:.0e}, …"
        signs_at = (longest * place // 25, max(1, longest // 5))  # the first sign, and from sign to sign
        look = {"lw": 1.6, "marker": MARKERS[place], "markevery": signs_at, "markersize": 6}
        axes.plot(range(len(losses)), inside, color=colour, label=label, **look)
    axes.axhline(guess, color=BLACK, lw=1, ls="--", zorder=0)
    axes.text(longest, guess, f" ln 10 = {guess:.2f}", va="center", fontsize=9)
    axes.set(xlabel="steps", ylabel="loss of the batch", xlim=(0, longest), ylim=(0, highest))
    fig.legend(loc="outside upper center", ncols=3, frameon=False)
    return fig


def spread_by_layer(starts: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]) -> Figure:
    """Histograms of sizes on a logarithmic axis: a column for each start, a row for each quantity, a ridge for each layer.

    starts: start -> {quantity: for each layer from the first, its numbers}. Zeros and what is not finite are left out.
    """
    quantities = list(next(iter(starts.values())))
    fig, axes = new_figure(
        1.9 * len(starts) + 0.5,
        2.6 * len(quantities),
        nrows=len(quantities),
        ncols=len(starts),
        sharex="row",
        squeeze=False,
    )
    for row, quantity in enumerate(quantities):
        sizes = {name: [_exponents(layer) for layer in found[quantity]] for name, found in starts.items()}
        every = np.concatenate([layer for layers in sizes.values() for layer in layers])
        low, high = np.floor(np.quantile(every, 0.001)), np.ceil(every.max())
        for column, (name, layers) in enumerate(sizes.items()):
            _ridges(axes[row, column], layers, np.linspace(low, high, 121), LINES[row])
            axes[row, column].set_xlim(low, high)
            step = max(1, round((high - low) / 3))
            ticks = np.arange(np.ceil(low / step) * step, high + 1, step)
            axes[row, column].set_xticks(ticks, [f"$10^{{{int(tick)}}}$" for tick in ticks])
            if row == 0:
                axes[row, column].set_title(name, fontsize=10)
        axes[row, 0].set_ylabel(f"{quantity}\nlayer")
    fig.supxlabel("size of a number", fontsize=10)
    return fig


def _exponents(numbers: Sequence[float]) -> np.ndarray:
    """Logarithms to base 10 of what is finite and not zero."""
    sizes = np.abs(np.asarray(numbers, dtype=np.float64))
    return np.log10(sizes[np.isfinite(sizes) & (sizes > 0)])


def _ridges(axes, layers: Sequence[np.ndarray], edges: np.ndarray, colour: str) -> None:
    middles = (edges[1:] + edges[:-1]) / 2
    for number, layer in enumerate(layers, start=1):
        heights = np.histogram(layer, edges)[0] if len(layer) else np.zeros(len(middles))
        ridge = number - 0.9 * heights / max(1, heights.max())
        axes.fill_between(middles, ridge, number, color=colour, alpha=0.75, lw=0)
        axes.axhline(number, color=GREY, lw=0.4, zorder=0)
    axes.set_ylim(len(layers) + 0.3, 0)
    axes.set_yticks([1, *range(5, len(layers) + 1, 5)])
    axes.tick_params(labelsize=8)


def scale_by_depth(
    measured: Mapping[str, Sequence[float]],
    laws: Mapping[str, Sequence[float]] | None = None,
    ylabel: str = "root mean square",
) -> Figure:
    """The scale after each layer, from layer 1, on a logarithmic axis; what the law says, if anything, is a thin line."""
    fig, axes = new_figure(7.4, 3.4)
    longest = max(map(len, measured.values()))
    for place, ((label, scales), colour) in enumerate(zip(measured.items(), LINES, strict=False)):
        layers = range(1, len(scales) + 1)
        if laws:
            axes.plot(layers, laws[label], color=DARK, lw=0.9, label="the law" if place == 0 else None)
        axes.plot(layers, scales, color=colour, lw=1.8, label=label, **signs(place, scales))
    axes.set(yscale="log", xlim=(1, longest), xlabel="layer", ylabel=ylabel)
    fig.legend(loc="outside upper center", ncols=min(len(measured) + bool(laws), 4), frameon=False)
    return fig


def start_film(scales: Mapping[str, Sequence[float]], curves: Mapping[str, Sequence[float]], guess: float) -> Film:
    """A frame for each start: on the left the scale after each layer, on the right the loss of each batch.

    What is not finite, or far beyond the frame, is not drawn. guess: the loss of a model that knows nothing.
    """
    sizes = [scale for found in scales.values() for scale in found if isfinite(scale) and scale > 0]

    def frame(name: str) -> Figure:
        fig, (depth, training) = new_figure(7.4, 3.2, ncols=2)
        depth.plot(range(1, len(scales[name]) + 1), scales[name], color=BLUE, marker="o")
        depth.axhline(1, color=GREY, lw=0.8, ls="--")
        depth.set(yscale="log", ylim=(min(sizes) / 2, max(sizes) * 2), xlabel="layer", ylabel="scale of what comes out")
        losses = [loss if isfinite(loss) and loss < 3 * guess else float("nan") for loss in curves[name]]
        training.plot(losses, color=RED)
        training.axhline(guess, color=GREY, lw=0.8, ls="--")
        training.set(xlim=(0, len(losses)), ylim=(0, 2 * guess), xlabel="step", ylabel="loss of the batch")
        return fig

    return film(((name, frame(name)) for name in scales), "before training, the scale of each layer; then the loss")


def change_by_layer(panels: Mapping[str, Mapping[int, Sequence[float]]], usual: float) -> Figure:
    """A panel for each run: by what part of its length a step changes the weights of each layer, on a logarithmic axis.

    panels: run -> {step: the part for each layer, from the first}. usual: a dashed line.
    """
    fig, axes = new_figure(7.4, 3.4, ncols=len(panels), sharey=True, squeeze=False)
    for panel, (name, by_step) in zip(axes[0], panels.items(), strict=True):
        for place, ((step, parts), colour) in enumerate(zip(by_step.items(), LINES, strict=False)):
            layers = range(1, len(parts) + 1)
            panel.plot(layers, parts, color=colour, lw=1.6, marker=MARKERS[place], label=f"step {step:,}")
        panel.axhline(usual, color=BLACK, lw=0.8, ls="--")
        panel.set(yscale="log", xlabel="layer", title=name)
        panel.legend(frameon=False, fontsize=8)
    axes[0, 0].set_ylabel("change of a step ÷ weights")
    return fig


def loss_and_signal(
    runs: Mapping[str, Sequence], levels: Mapping[str, float], signal: str, logarithmic: bool = False
) -> Figure:
    """Left the loss of each step, right the signal; a line for each run, and a dashed one at each level of the loss.

    runs: name -> (losses, signals, …), the signals of each step, or {step: signal}. levels: words -> loss.
    """
    fig, (left, right) = new_figure(7.4, 3.4, ncols=2)
    for place, ((name, (losses, signals, *_)), colour) in enumerate(zip(runs.items(), LINES, strict=False)):
        steps, values = zip(*(signals.items() if isinstance(signals, Mapping) else enumerate(signals)), strict=True)
        look = {"color": colour, "lw": 1.6, "marker": MARKERS[place], "label": name}
        for axes, x, y in ((left, range(len(losses)), losses), (right, steps, values)):
            every = max(1, len(x) // 5)
            axes.plot(x, y, markevery=(every * place // 5, every), **look)
    for words, level in levels.items():
        left.axhline(level, color=BLACK, lw=0.8, ls="--", zorder=0)
        left.text(1.02, level, words, va="center", fontsize=8, transform=left.get_yaxis_transform())
    lowest, highest = min(levels.values()), max(levels.values())
    below = min(lowest, *(min(losses) for losses, *_ in runs.values()))
    left.set(xlabel="step", ylabel="loss of the batch", ylim=(below - 0.2, highest + 0.6))
    right.set(xlabel="step", ylabel=signal, **({"yscale": "log"} if logarithmic else {"ylim": (0, 1)}))
    fig.legend(*right.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return fig


def learned_shares(panels: Mapping[str, object], letters: Sequence[str], first: int) -> Figure:
    """A square for each panel: in row t, how large a share of each letter the letter t takes; dark is 1, white is 0.

    panels: words -> (T, T) numbers. letters: the T letters. first: how many of them are drawn.
    """
    names = [{"\n": "↵", " ": "␣"}.get(letter, letter) for letter in letters[:first]]
    fig, axes = new_figure(3.2 * len(panels), 3.4, ncols=len(panels), squeeze=False)
    for panel, (words, found) in zip(axes[0], panels.items(), strict=True):
        panel.imshow(np.asarray(found)[:first, :first], cmap="Blues", vmin=0, vmax=1)
        panel.set_title(words, fontsize=10)
        panel.set_xticks(range(len(names)), names, fontsize=7)
        panel.set_yticks(range(len(names)), names, fontsize=7)
        panel.tick_params(length=0)
    return fig


def numbers_in_squares(panels: Mapping[str, object], letters: Sequence[str]) -> Figure:
    """A square for each panel, with its numbers in it: row t is the letter that looks, a column one that it looks at.

    panels: words -> (T, T) numbers; −∞ stays white. letters: the T letters.
    """
    fig, axes = new_figure(3.6 * len(panels), 3.5, ncols=len(panels), squeeze=False)
    for panel, (words, found) in zip(axes[0], panels.items(), strict=True):
        numbers = np.asarray(found, dtype=np.float64)
        finite = np.where(np.isfinite(numbers), numbers, np.nan)
        panel.imshow(finite, cmap="Blues", vmin=0, vmax=2 * np.nanmax(finite))
        for (row, column), number in np.ndenumerate(numbers):
            shown = f"{number:.2f}" if isfinite(number) else "−∞"
            panel.text(column, row, shown, ha="center", va="center", fontsize=9, color=BLACK)
        panel.set_title(words, fontsize=10)
        panel.set_xticks(range(len(letters)), letters)
        panel.set_yticks(range(len(letters)), letters)
        panel.tick_params(length=0)
        panel.set(xlabel="the letter that is looked at")
        panel.spines[:].set_visible(False)
    axes[0, 0].set_ylabel("the letter that looks")
    return fig


def shares_by_width(widths: Sequence[int], shares: dict[str, Sequence[float]]) -> Figure:
    """What models of each width are made of, in percent, stacked from the first part upwards.

    shares: part -> percent at each width. ValueError if a part has another number of widths.
    """
    wrong = {part: len(values) for part, values in shares.items() if len(values) != len(widths)}
    if wrong:
        raise ValueError(f"{len(widths)} widths, but {wrong}: give every part one share per width")
    fig, axes = new_figure(7.4, 3.4)
    looks = {"colors": PARTS[: len(shares)], "hatch": HATCHES, "edgecolor": "white", "lw": 0}
    axes.stackplot(widths, list(shares.values()), labels=list(shares), **looks)
    ticks = [w for w in (128, 256, 512, 768, 1600, 4096, 8192) if widths[0] <= w <= widths[-1]]
    axes.set(xscale="log", xlim=(widths[0], widths[-1]), ylim=(0, 100), xlabel="width d", ylabel="% of the parameters")
    axes.set_xticks(ticks, [f"{w:,}" for w in ticks])
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True, frameon=False)
    return fig
