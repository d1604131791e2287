"""Every picture of the course: functions that take numbers and return a matplotlib Figure.

The only module that imports matplotlib. Figures are light, labelled and safe for colour-blind readers.
"""

import base64
import io

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

# Okabe and Ito's palette (2008): eight colours that stay apart for every kind of colour vision.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY, PALE = "#7F7F7F", "#F2F2F2"

STYLE = {
    "figure.dpi": 110,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
}


def new_figure(width: float = 7.0, height: float = 3.2, **subplots) -> tuple[Figure, object]:
    """A figure of `width` by `height` inches in the course's style, and its axes as in plt.subplots."""
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(figsize=(width, height), layout="constrained", **subplots)
    plt.close(fig)  # whoever returns it to a notebook shows it; pyplot would show the first one a second time
    return fig, axes


# ── 01 tensors and strides ───────────────────────────────────────────────────────────────────────

READER_COLOURS = (SKY, ORANGE, GREEN, YELLOW, PURPLE, RED)


def flat_positions(shape: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> np.ndarray:
    """Where each element of a view lies in its storage: offset + Σ index·stride, an integer array of `shape`.

    Strides and offset count elements, not bytes. Raises ValueError if shape and stride differ in length.
    """
    if len(shape) != len(stride):
        raise ValueError(f"shape {shape} and stride {stride} differ in length: give one stride per axis")
    places = np.full(shape, offset)
    for axis, step in zip(np.indices(shape), stride, strict=True):
        places += axis * step
    return places


def storage_layout(shape, stride, offset=0, *, stored=None, itemsize=4, title="") -> Figure:
    """Draw a view above the storage it looks into: which index reads which place, and how many bytes that is.

    `shape`, `stride`, `offset`: as a tensor reports them (elements). `stored`: elements in the storage (default: up
    to the last one read). `itemsize`: bytes per element. All axes but the last become rows, and a place
    wears the colours of all rows that read it. ValueError if the view is empty or reads outside the storage.
    """
    shape, stride = tuple(shape), tuple(stride)
    places = flat_positions(shape, stride, offset)
    if places.size == 0:
        raise ValueError(f"shape {shape} has no elements: there is nothing to draw")
    rows = places.reshape(-1, shape[-1] if shape else 1)
    stored = int(rows.max()) + 1 if stored is None else stored
    if rows.min() < 0 or rows.max() >= stored:
        reach = f"{rows.min()} to {rows.max()}"
        raise ValueError(f"places {reach} leave a storage of {stored}: check stride and offset")
    width, height = max(rows.shape[1], stored, 12), len(rows) + 3.4
    fig, axes = new_figure(0.44 * width + 0.3, 0.44 * height + 0.3)
    for (row, column), place in np.ndenumerate(rows):
        _square(axes, column, row, place, [row])
    for place in range(stored):
        readers = [row for row in range(len(rows)) if place in rows[row]]
        _square(axes, place, len(rows) + 1.7, place, readers)
    numbers = f"shape {shape}   stride {stride}   offset {offset}"
    claimed, held, read = rows.size * itemsize, stored * itemsize, np.unique(rows).size
    sizes = f"claimed {rows.size} × {itemsize} B = {claimed:,} B     stored {stored} × {itemsize} B = {held:,} B"
    axes.text(-0.5, -1.0, f"{title}    {numbers}".strip(), fontsize=10)
    axes.text(-0.5, len(rows) + 0.9, "the storage, in the order of memory (grey: never read)", fontsize=9)
    axes.text(-0.5, len(rows) + 2.8, f"{sizes}     read {read} places", fontsize=9)
    axes.set(xlim=(-0.6, width - 0.4), ylim=(len(rows) + 2.9, -1.4), aspect="equal")
    axes.set_axis_off()
    return fig


def _square(axes, x: float, y: float, place: int, rows: list[int]) -> None:
    """One square centred at (x, y) that shows its place in the storage, striped in the colours of `rows`."""
    colours = [READER_COLOURS[row % len(READER_COLOURS)] for row in rows] or [PALE]
    for k, colour in enumerate(colours):
        low = y - 0.46 + 0.92 * k / len(colours)
        axes.add_patch(plt.Rectangle((x - 0.46, low), 0.92, 0.92 / len(colours), color=colour, alpha=0.75, lw=0))
    axes.text(x, y, int(place), ha="center", va="center", fontsize=9, color=BLACK if rows else GREY)


def memory_walk(walks: dict[str, list[int]], line_bytes: int = 64) -> Figure:
    """The address of each step of a walk through memory, in bytes from its start, and its cache lines.

    `walks`: label -> addresses in the order they are read.
    """
    fig, panels = new_figure(7.4, 3.0, ncols=len(walks), sharey=True, squeeze=False)
    for axes, (label, addresses) in zip(panels[0], walks.items(), strict=True):
        lines = sorted({address // line_bytes for address in addresses})
        axes.hlines([line * line_bytes for line in lines], 0, len(addresses), color=GREY, linewidth=0.3)
        axes.plot(range(len(addresses)), addresses, ".", color=BLUE, markersize=4)
        axes.set_title(f"{label}: {len(lines)} cache lines", loc="left", fontsize=10)
        axes.set_xlabel("step of the walk")
    panels[0][0].set_ylabel("bytes from the start")
    return fig


def resident_story(story: list[tuple[str, int]]) -> Figure:
    """Resident memory after each line of a program: `story` holds (the line, bytes above the start)."""
    fig, axes = new_figure(7.4, 0.45 * len(story) + 0.9)
    labels, grown = zip(*story, strict=True)
    bars = axes.barh(range(len(story)), [size / 1e6 for size in grown], color=SKY)
    axes.bar_label(bars, labels=[f"{size / 1e6:,.1f} MB" for size in grown], padding=4)
    axes.set_yticks(range(len(story)), labels, family="monospace")
    axes.set(xlabel="resident memory above the start, MB", xlim=(0, 1.2 * max(grown) / 1e6))
    axes.invert_yaxis()
    return fig


def order_trap(image: np.ndarray, groups: dict[str, np.ndarray]) -> Figure:
    """An image (H, W) beside montages of its four pieces; `groups`: pattern -> pieces (4, h, w)."""
    fig, panels = new_figure(7.4, 2.8, ncols=1 + len(groups))
    panels[0].imshow(image, cmap="cividis")
    panels[0].set_title("the image", loc="left", fontsize=9)
    for axes, (pattern, pieces) in zip(panels[1:], groups.items(), strict=True):
        a, b, c, d = (np.pad(piece, 1, constant_values=np.nan) for piece in pieces)
        axes.imshow(np.block([[a, b], [c, d]]), cmap="cividis")
        axes.set_title(pattern, loc="left", fontsize=9, family="monospace")
    for axes in panels:
        axes.set_axis_off()
    return fig


def sparse_reads(starts: np.ndarray, total: int, sizes: dict[str, int]) -> Figure:
    """Where windows were read in a file of `total` items (above); `sizes`: bytes of each kind (log scale)."""
    fig, (where, bars) = new_figure(7.4, 3.4, nrows=2, height_ratios=[1, 3])
    where.vlines(starts / total, 0, 1, color=BLUE, linewidth=1)
    where.set(xlim=(0, 1), yticks=[], xlabel="position in the file: 0 = first token, 1 = last")
    where.set_title(f"{len(starts)} windows, each drawn far wider than it is", loc="left", fontsize=10)
    drawn = bars.barh(list(sizes), [max(size, 1) for size in sizes.values()], color=SKY)
    bars.bar_label(drawn, labels=[f"{size:,} B" for size in sizes.values()], padding=4)
    bars.set(xscale="log", xlim=(1, 1e17), xlabel="bytes, each tick a thousand times the last")
    bars.set_xticks([1, 1e3, 1e6, 1e9, 1e12], ["1 B", "1 kB", "1 MB", "1 GB", "1 TB"])
    bars.minorticks_off()
    bars.invert_yaxis()
    return fig


# ── 09 the honest training loop: orders, data, memory, accumulation ──────────────────────────────

VERBS = {"f": "forward", "z": "zero", "b": "backward", "c": "clip", "s": "step"}
OUTCOMES = {"right": GREEN, "clip inert": SKY, "never trains": GREY, "raises": RED, "trains wrongly": PURPLE}


def order_tiles(outcomes: dict[str, str]) -> Figure:
    """Orders of the five verbs as rows of tiles, coloured and grouped by what they come to.

    outcomes: order, a string of f z b c s -> a key of OUTCOMES; 24 orders fill three columns of eight.
    """
    figure, axes = new_figure(10.5, 3.8)
    ranked = sorted(outcomes.items(), key=lambda item: list(OUTCOMES).index(item[1]))
    rows = -(-len(ranked) // 3)
    for place, (order, outcome) in enumerate(ranked):
        column, row = divmod(place, rows)
        for i, verb in enumerate(order):
            axes.add_patch(plt.Rectangle((6 * column + i - 0.48, -row - 0.3), 0.96, 0.6, color=OUTCOMES[outcome]))
            ink = "black" if outcome == "clip inert" else "white"
            axes.text(6 * column + i, -row, VERBS[verb], ha="center", va="center", fontsize=7.5, color=ink)
    for outcome, colour in OUTCOMES.items():
        count = sum(o == outcome for o in outcomes.values())
        if count:
            axes.scatter([], [], marker="s", color=colour, label=f"{count} {outcome}")
    axes.set(xlim=(-0.7, 16.7), ylim=(0.6 - rows, 0.7))
    axes.axis("off")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(OUTCOMES))
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
    tints = {"forward": SKY, "backward": ORANGE, "step": GREEN, "zero": GREY}
    for place, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        name = list(tints)[place % 4]
        axes.axvspan(start, end, color=tints[name], alpha=0.25, linewidth=0, label=name if place < 4 else None)
    axes.step(range(1, len(live) + 1), live, color=BLACK, linewidth=1.2, where="mid")
    peak = max(range(len(live)), key=live.__getitem__)
    axes.annotate(f"peak {live[peak]:.2f}", (peak + 1, live[peak]), xytext=(4, 2), textcoords="offset points")
    axes.set(xlabel="operation", ylabel="live memory / weights", xlim=(0, len(live)), ylim=(0, max(live) * 1.12))
    axes.legend(loc="upper left", ncols=4, fontsize=8)
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
    for (label, errors), colour in zip(curves.items(), (ORANGE, BLUE), strict=False):
        means = [sum(each) / len(each) for each in errors]
        axes.plot(tails, means, "o-", color=colour, label=label)
        axes.fill_between(
            tails, [min(e) for e in errors], [max(e) for e in errors], color=colour, alpha=0.2, linewidth=0
        )
    axes.set(xlabel="examples in the last of four pieces (the others have 64)", ylabel="relative error of the gradient")
    axes.legend(loc="upper right")
    return figure


# ── lecture 09, the loop ─────────────────────────────────────────────────────────────────────────


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


# ── lecture 11, the FashionMNIST lab ─────────────────────────────────────────────────────────────


def image_columns(columns: dict[str, np.ndarray]) -> Figure:
    """One column of pictures per label; `columns`: label -> images (n, H, W), black is the lowest value."""
    rows = max(len(images) for images in columns.values())
    fig, axes = new_figure(0.92 * len(columns), 0.95 * rows + 0.35, nrows=rows, ncols=len(columns), squeeze=False)
    for column, (label, images) in zip(axes.T, columns.items(), strict=True):
        column[0].set_title(label, loc="center", fontsize=8)
        for row, panel in enumerate(column):
            panel.set_axis_off()
            if row < len(images):
                panel.imshow(images[row], cmap="gray")
    return fig


def epoch_curves(curves: dict[str, list[list[float]]], ylabel: str) -> Figure:
    """Something measured once an epoch; `curves`: label -> one list per seed, drawn in one colour per label."""
    fig, axes = new_figure(7.0, 3.0)
    for (label, seeds), colour in zip(curves.items(), (BLUE, RED, GREEN, ORANGE), strict=False):
        for k, values in enumerate(seeds):
            name = label if k == 0 else None
            axes.plot(range(1, len(values) + 1), values, "o-", color=colour, markersize=4, alpha=0.8, label=name)
    epochs = max(len(values) for seeds in curves.values() for values in seeds)
    axes.set(xlabel="epoch", ylabel=ylabel, xticks=range(1, epochs + 1))
    axes.legend()
    return fig


def confusion(counts: np.ndarray, names: tuple[str, ...]) -> Figure:
    """Counts (K, K) of true class (row) and answer (column), each row coloured by its shares."""
    fig, axes = new_figure(7.0, 5.6)
    shares = counts / counts.sum(1, keepdims=True).clip(1)
    axes.imshow(shares, cmap="cividis", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        colour = BLACK if shares[row, column] > 0.5 else "white"
        axes.text(column, row, int(count), ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="the model's answer", ylabel="the label")
    axes.spines[:].set_visible(False)
    return fig


def mistakes(images: np.ndarray, captions: list[str]) -> Figure:
    """Images (n, H, W) in rows of six, a caption under each."""
    rows = -(-len(images) // 6)
    fig, axes = new_figure(8.4, 1.9 * rows, nrows=rows, ncols=6, squeeze=False)
    for panel in axes.flat:
        panel.set_axis_off()
    for panel, image, caption in zip(axes.flat, images, captions, strict=False):
        panel.imshow(image, cmap="gray")
        panel.set_title(caption, loc="left", fontsize=8)
    return fig


def norms_watched(norms: dict[str, list[float]], limit: float) -> Figure:
    """The gradient's norm before clipping, by step; `limit` is where clipping would begin."""
    fig, axes = new_figure(7.0, 3.0)
    for (label, values), colour in zip(norms.items(), (SKY, RED), strict=False):
        axes.plot(range(1, len(values) + 1), values, ".", color=colour, markersize=3, label=label)
    axes.axhline(limit, color=BLACK, linewidth=1.2)
    axes.annotate(f"limit {limit:g}", (0.01, limit), xycoords=("axes fraction", "data"), va="top", fontsize=9)
    axes.set(xlabel="step", ylabel="norm of the gradient", ylim=(0, None))
    axes.legend(loc="upper right", markerscale=4)
    return fig


def luck(chosen_on: np.ndarray, elsewhere: np.ndarray) -> Figure:
    """Scores of equally good candidates on the images that choose one, and on others, in %; the chosen one is marked."""
    fig, axes = new_figure(5.2, 3.8)
    best = chosen_on.argmax()
    axes.plot(100 * chosen_on, 100 * elsewhere, "o", color=SKY)
    axes.plot(100 * chosen_on[best], 100 * elsewhere[best], "o", color=RED, markersize=9, label="the one we would pick")
    axes.axvline(100 * chosen_on.mean(), color=GREY, linewidth=1)
    axes.axhline(100 * elsewhere.mean(), color=GREY, linewidth=1, label="averages")
    axes.set(xlabel="% right on the images that choose", ylabel="% right on fresh images")
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def accuracies(scores: dict[str, list[float]], images: int) -> Figure:
    """Accuracy of each seed (dot) with the 95 % interval that `images` test images leave open; one row per model."""
    fig, axes = new_figure(7.0, 0.8 * len(scores) + 1.2)
    for row, values in enumerate(scores.values()):
        for k, p in enumerate(values):
            half = 1.96 * (p * (1 - p) / images) ** 0.5
            height = row + 0.16 * (k - (len(values) - 1) / 2)
            axes.errorbar(100 * p, height, xerr=100 * half, fmt="o", color=BLUE, markersize=5, capsize=3)
    axes.set_yticks(range(len(scores)), list(scores))
    axes.set(xlabel=f"% of {images:,} test images right", ylim=(len(scores) - 0.5, -0.5))
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


class Film:
    """An animated GIF that shows itself in a notebook and in a page made of it."""

    def __init__(self, gif: bytes, description: str):
        self.gif, self.description = gif, description

    def _repr_html_(self) -> str:
        content = base64.b64encode(self.gif).decode()
        return f'<img alt="{self.description}" src="data:image/gif;base64,{content}">'


def decision_film(frames, points, labels, extent: float, seconds_per_frame: float = 0.2) -> Film:
    """A film of what a classifier of the plane believes, one frame a checkpoint.

    frames: [(probabilities (H, W, 3) over the square from -extent to extent, accuracy), …]; points (N, 2) with labels (N,)
    are drawn into every frame.
    """
    colours = np.array([to_rgb(colour) for colour in (SKY, ORANGE, GREEN)])
    pictures = []
    for epoch, (probabilities, accuracy) in enumerate(frames, start=1):
        fig, axes = new_figure(3.6, 3.8)
        axes.imshow(0.2 + 0.8 * (probabilities @ colours), origin="lower", extent=[-extent, extent] * 2)
        for label, marker in enumerate("os^"):
            axes.plot(*points[labels == label].T, marker, color=BLACK, markersize=2.5, markerfacecolor="white", mew=0.5)
        axes.set(xticks=[], yticks=[], title=f"epoch {epoch:2d}: {accuracy:.1%} of validation points")
        png = io.BytesIO()
        fig.savefig(png, format="png", dpi=90)
        pictures.append(Image.open(png).convert("RGB").quantize(48, dither=Image.Dither.NONE))
    file = io.BytesIO()
    times = [round(1000 * seconds_per_frame)] * (len(pictures) - 1) + [2000]  # the last frame stays longer
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=True)
    return Film(file.getvalue(), f"decision regions over {len(frames)} epochs")


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
