"""Pictures of tensors in memory: storages, strides, views, order."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, RED, SKY, YELLOW, new_figure

READER_COLOURS = (SKY, YELLOW, GREEN, ORANGE, PURPLE, RED)  # neighbours differ in grey too


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
