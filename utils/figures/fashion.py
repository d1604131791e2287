"""Pictures of the FashionMNIST lab: images, learning curves, confusion, luck."""

import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, RED, SKY, new_figure, plate


def image_columns(columns: dict[str, np.ndarray], limit: float | None = None) -> Figure:
    """One column of pictures per label; `columns`: label -> images (n, H, W).

    Black is the lowest value of each picture; with a `limit`, one scale for all: -limit is black, 0 grey, limit white.
    """
    scale = {} if limit is None else {"vmin": -limit, "vmax": limit}
    rows = max(len(images) for images in columns.values())
    fig, axes = new_figure(0.92 * len(columns), 0.95 * rows + 0.35, nrows=rows, ncols=len(columns), squeeze=False)
    for column, (label, images) in zip(axes.T, columns.items(), strict=True):
        column[0].set_title(label, loc="center", fontsize=8)
        for row, panel in enumerate(column):
            _hide_axes(panel)
            if row < len(images):
                panel.imshow(images[row], cmap="gray", **scale)
    return fig


def through_the_network(
    image: np.ndarray, sums: np.ndarray, kept: np.ndarray, scores: np.ndarray, names: tuple[str, ...]
) -> Figure:
    """One image (H, W), and what comes out of each part of a network: its sums, what ReLU keeps of them, its scores.

    sums, kept: (n,), a bar each; scores: one for each name, the highest is green.
    """
    fig, axes = new_figure(8.0, 3.6, ncols=4, width_ratios=(1, 1, 1, 1.2))
    titles = (f"Flatten\n{image.size} grey values", f"Linear\n{len(sums)} weighted sums",
              f"ReLU\n{(kept > 0).sum()} of {len(kept)} stay above 0", f"Linear\n{len(scores)} scores")  # fmt: skip
    for panel, title in zip(axes, titles, strict=True):
        panel.set_title(title, loc="center", fontsize=9)
    axes[0].imshow(image, cmap="gray")
    _hide_axes(axes[0])
    reach = 1.05 * np.abs(sums).max()
    for panel, values in zip(axes[1:3], (sums, kept), strict=True):
        panel.barh(range(len(values)), values, color=[RED if value < 0 else BLUE for value in values])
        panel.axvline(0, color=BLACK, linewidth=0.8)
        panel.set(xlim=(-reach, reach), ylim=(len(values) - 0.5, -0.5), yticks=[])
    axes[3].barh(
        range(len(names)), scores, color=[GREEN if k == np.argmax(scores) else BLUE for k in range(len(names))]
    )
    axes[3].axvline(0, color=BLACK, linewidth=0.8)
    axes[3].set(ylim=(len(names) - 0.5, -0.5))
    axes[3].set_yticks(range(len(names)), names, fontsize=8)
    for panel in axes[1:]:
        panel.tick_params(axis="x", labelsize=8)
        panel.spines["left"].set_visible(False)
    return fig


def epoch_curves(curves: dict[str, list[list[float]]], ylabel: str) -> Figure:
    """Something measured once an epoch; `curves`: label -> one list per seed, drawn in one colour per label."""
    fig, axes = new_figure(7.0, 3.0)
    for (label, seeds), colour, mark in zip(curves.items(), (BLUE, RED, GREEN, ORANGE), MARKERS, strict=False):
        for k, values in enumerate(seeds):
            name = label if k == 0 else None
            axes.plot(
                range(1, len(values) + 1), values, mark + "-", color=colour, markersize=4.5, alpha=0.8, label=name
            )
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


def chances(images: np.ndarray, chances: np.ndarray, labels: list[int], names: tuple[str, ...]) -> Figure:
    """Images (n, H, W) in a row, below each the probability (n, K) of every kind as a bar; that of its label is green."""
    fig, axes = new_figure(7.0, 4.4, nrows=2, ncols=len(images), squeeze=False, height_ratios=(1, 1.6))
    for panel, bars, image, given, label in zip(*axes, images, np.asarray(chances), np.asarray(labels), strict=True):
        panel.imshow(image, cmap="gray")
        _hide_axes(panel)
        panel.set_title(names[label], loc="center", fontsize=9)
        bars.barh(range(len(names)), given, color=[GREEN if k == label else BLUE for k in range(len(names))])
        for k, chance in enumerate(given):
            if chance >= 0.01:
                bars.text(chance, k, f" {chance:.0%}", va="center", fontsize=8)
        bars.set(xlim=(0, 1.2), ylim=(len(names) - 0.5, -0.5), xticks=[])
        bars.set_yticks(range(len(names)), names if bars is axes[1, 0] else [""] * len(names), fontsize=8)
    return fig


def mistakes(images: np.ndarray, captions: list[str]) -> Figure:
    """Images (n, H, W) in rows of six, a caption under each."""
    rows = -(-len(images) // 6)
    fig, axes = new_figure(8.4, 1.9 * rows, nrows=rows, ncols=6, squeeze=False)
    for panel in axes.flat:
        _hide_axes(panel)
    for panel, image, caption in zip(axes.flat, images, captions, strict=False):
        panel.imshow(image, cmap="gray")
        panel.set_title(caption, loc="left", fontsize=8)
    return fig


def saliency(images: np.ndarray, maps: np.ndarray, captions: list[str]) -> Figure:
    """Images (n, H, W) in a row, each with its caption; below it its saliency (n, H, W), the brightest the largest."""
    fig, axes = new_figure(1.15 * len(images), 2.75, nrows=2, ncols=len(images), squeeze=False)
    for column, image, heat, caption in zip(axes.T, images, maps, captions, strict=True):
        for panel, shown, colours in zip(column, (image, heat), ("gray", "cividis"), strict=True):
            panel.imshow(shown, cmap=colours)
            _hide_axes(panel)
        column[0].set_title(caption, loc="left", fontsize=8)
    return fig


def norms_watched(norms: dict[str, list[float]], limit: float) -> Figure:
    """Gradient norms by step, before and after clipping at `limit`, say; the limit is a line."""
    fig, axes = new_figure(7.0, 3.0)
    for (label, values), colour, mark in zip(norms.items(), (SKY, RED), "ox", strict=False):
        axes.plot(range(1, len(values) + 1), values, mark, color=colour, markersize=4, label=label)
    axes.axhline(limit, color=BLACK, linewidth=1.2)
    axes.annotate(f"limit {limit:g}", (0.01, limit), xycoords=("axes fraction", "data"), xytext=(0, -4),
                  textcoords="offset points", va="top", fontsize=9, bbox=plate())  # fmt: skip
    axes.set(xlabel="step", ylabel="norm of the gradient", ylim=(0, None))
    axes.legend(loc="upper right", markerscale=1.5)
    return fig


def seeds(scores: dict[str, list[float]], xlabel: str) -> Figure:
    """Scores, as shares, on one line: a dot for each run, in a colour and a sign of its own for each label."""
    fig, axes = new_figure(7.0, 1.7)
    for (label, values), colour, mark in zip(scores.items(), (BLUE, RED, GREEN), "oXs", strict=False):
        size, edge = (7, "white") if mark == "o" else (11, BLACK)
        axes.plot([100 * value for value in values], [0] * len(values), mark, color=colour, markersize=size,
                  markeredgecolor=edge, markeredgewidth=0.6, alpha=0.8, label=label)  # fmt: skip
    axes.set(xlabel=xlabel, yticks=[], ylim=(-1, 1))
    axes.spines["left"].set_visible(False)
    fig.legend(loc="outside upper center", ncols=len(scores))
    return fig


def judges(scores: np.ndarray, whiskers: list[float], ylabel: str) -> Figure:
    """Scores (runs, judges) as shares: a column of dots for each judge, and the whisker of run 0 beside it."""
    fig, axes = new_figure(7.4, 3.4)
    places = np.arange(1, scores.shape[1] + 1)
    for k, run in enumerate(scores):
        axes.plot(places, 100 * run, "o", color=SKY, markersize=4, alpha=0.7, label="twenty runs" if k == 0 else None)
    axes.errorbar(places + 0.22, 100 * scores[0], yerr=100 * np.array(whiskers), fmt="o", color=BLUE, markersize=4.5,
                  capsize=2.5, linewidth=1, label="run 0, with its whisker")  # fmt: skip
    axes.axhline(100 * scores.mean(), color=GREY, linewidth=1)
    axes.set(xlabel="judge", ylabel=ylabel, xticks=places)
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def differences(
    here: dict[str, list[float]], kept: dict[str, list[float]], xlabel: str, pictures: dict[str, float] | None = None
) -> Figure:
    """Differences to a program, seed by seed: a row for each change, a dot for each seed `here`.

    Above the dots the mean of those that were `kept`, with its 95 % interval; with a second, thinner one, which has the
    whisker that the `pictures` give in it, too.
    """
    fig, axes = new_figure(7.4, 0.62 * len(here) + 1.3)
    for row, (name, values) in enumerate(here.items()):
        many = np.array(kept[name])
        label = (
            (f"{len(values)} seeds, here", f"the mean of {len(many)} seeds, with its whisker")
            if row == 0
            else (None,) * 2
        )
        axes.plot(values, [row + 0.16] * len(values), "o", color=BLUE, markersize=5, alpha=0.7, label=label[0])
        half = 1.96 * many.std(ddof=1) / len(many) ** 0.5
        thick = 3 if pictures else 1.5
        axes.errorbar(many.mean(), row - 0.2, xerr=half, fmt="D", color=ORANGE, markersize=5, capsize=3,
                      elinewidth=thick, label=label[1])  # fmt: skip
        if pictures:
            both = np.hypot(half, pictures[name])
            axes.errorbar(many.mean(), row - 0.2, xerr=both, fmt="none", ecolor=ORANGE, elinewidth=1, capsize=5,
                          label="with the whisker of the pictures, too" if row == 0 else None)  # fmt: skip
    axes.axvline(0, color=BLACK, linewidth=1)
    axes.set_yticks(range(len(here)), list(here))
    axes.set(xlabel=xlabel, ylim=(len(here) - 0.5, -0.6))
    fig.legend(loc="outside upper center", ncols=2)
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


def _hide_axes(panel) -> None:
    panel.set_axis_off()
    panel.set(xticks=[], yticks=[])
