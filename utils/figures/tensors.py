"""Pictures of tensors in memory: storages, strides, views, cache lines, order."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from utils.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    new_figure,
)

INK = "#595959"  # of places that nothing reads: grey, and still readable on PALE
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
    wears the colours of all rows that read it. Of a matrix the two strides are drawn, as jumps from its first element.
    ValueError if the view is empty or reads outside the storage.
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
    depth = 1.5 if len(shape) == 2 else 0  # of the arrows below the storage
    width, height = max(rows.shape[1], stored, 12), len(rows) + 3.4 + depth
    fig, axes = new_figure(0.44 * width + 0.3, 0.44 * height + 0.3)
    for (row, column), place in np.ndenumerate(rows):
        _square(axes, column, row, place, [row])
    for place in range(stored):
        readers = [row for row in range(len(rows)) if place in rows[row]]
        _square(axes, place, len(rows) + 1.7, place, readers)
    if len(shape) == 2:
        _jumps(axes, offset, stride, len(rows) + 2.2)
    numbers = f"shape {shape}   stride {stride}   offset {offset}"
    nominal, held, read = rows.size * itemsize, stored * itemsize, np.unique(rows).size
    sizes = f"nominal {rows.size} × {itemsize} B = {nominal:,} B     stored {stored} × {itemsize} B = {held:,} B"
    axes.text(-0.5, -1.0, f"{title}    {numbers}".strip(), fontsize=10)
    axes.text(-0.5, len(rows) + 0.9, "the storage, in the order of memory (grey: never read)", fontsize=9)
    axes.text(-0.5, len(rows) + 2.8 + depth, f"{sizes}     read {read} places", fontsize=9)
    axes.set(xlim=(-0.6, width - 0.4), ylim=(len(rows) + 2.9 + depth, -1.4), aspect="equal")
    axes.set_axis_off()
    return fig


def _square(axes, x: float, y: float, place: int, rows: list[int]) -> None:
    """One square centred at (x, y) that shows its place in the storage, striped in the colours of `rows`."""
    colours = [READER_COLOURS[row % len(READER_COLOURS)] for row in rows] or [PALE]
    for k, colour in enumerate(colours):
        low = y - 0.46 + 0.92 * k / len(colours)
        axes.add_patch(plt.Rectangle((x - 0.46, low), 0.92, 0.92 / len(colours), color=colour, alpha=0.75, lw=0))
    axes.text(x, y, int(place), ha="center", va="center", fontsize=9, color=BLACK if rows else INK)


def _jumps(axes, start: int, stride: tuple[int, int], y: float) -> None:
    """The two strides of a matrix, each an arrow below its storage, from the first element to the next row or column."""
    far = max(map(abs, stride))
    for move, step, colour, dashes, x in (("column", stride[1], BLUE, "-", -0.5), ("row", stride[0], RED, "--", 5.0)):
        if step:
            depth = 0.75 if abs(step) == far else 0.35
            curve = f"arc3,rad={2 * depth / step}"  # a curve is half as deep as its control point
            style = {"arrowstyle": "->", "connectionstyle": curve, "color": colour, "linestyle": dashes}
            style |= {"linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (start + step, y), (start, y), arrowprops=style)
        words = (
            f"to the next {move}: {step:+} {'places' if abs(step) != 1 else 'place'}"
            if step
            else f"to the next {move}: stay"
        )
        axes.text(x, y + 1.1, words, fontsize=9, color=BLUE if colour == BLUE else "#B04A00")  # readable


def cache_lines(walks: dict[str, list[int]], columns: int, *, itemsize=4, line_bytes=64, rows_shown=10) -> Figure:
    """What each walk through a matrix reads, and what comes along with it since memory is fetched in whole cache lines.

    `walks`: label -> addresses in bytes from the start of a matrix with rows of `columns` numbers. Drawn are its first
    `rows_shown` rows, a small square for each number; the counts above each panel are of the whole walk. ValueError if the
    numbers of a line do not divide a row.
    """
    per_line = line_bytes // itemsize
    if columns % per_line:
        raise ValueError(
            f"rows of {columns} numbers do not hold whole lines of {per_line}: choose another line or matrix"
        )
    fig, panels = new_figure(7.4, 0.5 + len(walks) * (0.55 + 0.105 * rows_shown), nrows=len(walks), squeeze=False)
    for axes, (label, addresses) in zip(panels[:, 0], walks.items(), strict=True):
        lines = {address // line_bytes for address in addresses}
        shown = np.zeros(rows_shown * columns, dtype=int)
        for line in lines:
            shown[line * per_line : (line + 1) * per_line] = 1
        wanted = [address // itemsize for address in addresses]
        shown[[place for place in wanted if place < shown.size]] = 2
        colours = ListedColormap([PALE, SKY, BLUE])
        grid = shown.reshape(rows_shown, columns)
        axes.pcolormesh(grid, cmap=colours, vmin=0, vmax=2, edgecolors="white", linewidth=0.6)
        axes.vlines(range(0, columns + 1, per_line), 0, rows_shown, color=BLACK, linewidth=1)
        fetched = len(lines) * per_line
        counts = f"{len(lines)} lines of {line_bytes} bytes, {fetched:,} numbers fetched, {len(set(wanted))} used"
        axes.set_title(f"{label}: {counts}", loc="left", fontsize=10)
        axes.set(xlim=(-0.2, columns + 0.2), ylim=(rows_shown, 0), aspect="equal", xticks=[], yticks=[])
        axes.set_ylabel(f"rows 0 to {rows_shown - 1}", fontsize=9)
        axes.spines[["left", "bottom"]].set_visible(False)
    names = {"fetched and used": BLUE, "fetched, not used": SKY, "not fetched": PALE}
    handles = [Patch(facecolor=colour, edgecolor=GREY, label=name) for name, colour in names.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
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
        axes.set(xticks=[], yticks=[])
        axes.set_axis_off()
    return fig


def broadcast_grid(difference: np.ndarray) -> Figure:
    """All entries of predictions (n, 1) minus targets (n,), shape (n, n), in colour; marked are the n that were meant."""
    difference = np.asarray(difference)
    n, reach = len(difference), np.abs(difference).max()
    fig, axes = new_figure(5.4, 4.4)
    image = axes.imshow(difference, cmap="PuOr", vmin=-reach, vmax=reach)
    axes.plot([-0.5, n - 0.5], [-0.5, n - 0.5], color=BLACK, linewidth=2)
    title = f"({n}, 1) − ({n},): {difference.size:,} differences\nonly the {n} on the black line were meant"
    axes.set_title(title, loc="left", fontsize=10)
    axes.set(xlabel="target", ylabel="prediction")
    fig.colorbar(image, label="prediction − target")
    return fig


def who_sees_whom(splits: dict[str, np.ndarray]) -> Figure:
    """For each way of splitting heads a (T, T) matrix of bool: row t, column s says whether output t depends on token s.

    What lies above the diagonal is the future, which a causal mask forbids; it is outlined, and crossed where it is seen.
    """
    fig, panels = new_figure(7.4, 4.9, ncols=len(splits), squeeze=False, sharey=True)
    for axes, (label, seen) in zip(panels[0], splits.items(), strict=True):
        seen = np.asarray(seen, dtype=bool)
        T = len(seen)
        future = np.triu(np.ones_like(seen), 1)
        axes.pcolormesh(
            np.where(seen, np.where(future, 2, 1), 0),
            cmap=ListedColormap(["white", SKY, RED]),
            vmin=0,
            vmax=2,
            edgecolors=GREY,
            linewidth=0.6,
        )
        rows, columns = np.nonzero(seen & future)
        axes.plot(columns + 0.5, rows + 0.5, "x", color=BLACK, markersize=8, markeredgewidth=2)
        corners = [corner for t in range(T) for corner in ((t + 1, t), (t + 1, t + 1))]
        axes.plot(*zip(*corners, strict=True), color=BLACK, linewidth=2.5)
        past, leaks = int((seen & ~future).sum()), int((seen & future).sum())
        counts = f"past and itself: {past} of {T * (T + 1) // 2}\nfuture: {leaks} of {T * (T - 1) // 2}"
        axes.set_title(f"{label}\n{counts}", loc="left", fontsize=10)
        axes.set(xlim=(-0.05, T + 0.05), ylim=(T + 0.05, -0.05), aspect="equal", xlabel="token that was changed")
        axes.set_xticks(np.arange(T) + 0.5, range(T))
        axes.set_yticks(np.arange(T) + 0.5, range(T))
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
    panels[0][0].set_ylabel("output that changes")
    names = {"depends on it": SKY, "depends on it, and must not": RED, "does not depend on it": "white"}
    handles = [Patch(facecolor=colour, edgecolor=GREY, label=name) for name, colour in names.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return fig


def guessed_dice(shares: dict[str, list[float]], mean_of: int = 10, ceiling: float | None = None) -> Figure:
    """How often a network guessed the next roll of a die; `shares`: label -> the share of right guesses in each step.

    Drawn is the mean of each `mean_of` steps; the dashed line is what one can do with a fair die, one guess in six,
    and a dotted one the `ceiling`, the largest share that is possible.
    """
    fig, axes = new_figure(7.0, 3.0)
    for (label, shown), colour, mark in zip(shares.items(), (BLUE, RED, GREEN, ORANGE), MARKERS, strict=False):
        means = np.array(shown[: len(shown) // mean_of * mean_of]).reshape(-1, mean_of).mean(1)
        steps = mean_of * np.arange(1, len(means) + 1)
        axes.plot(steps, 100 * means, mark + "-", color=colour, markersize=4, label=label)
    axes.axhline(100 / 6, color=BLACK, linestyle="--", linewidth=1.2, label="1 in 6")
    if ceiling is not None:
        axes.axhline(100 * ceiling, color=BLACK, linestyle=":", linewidth=1.2, label="ceiling")
    axes.set(xlabel="step", ylabel="right guesses, %", ylim=(0, 100))
    axes.legend(loc="center right")
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
