"""Pictures that end the labs, of the student's own numbers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import BLUE, GREEN, PURPLE, RED, new_figure

LINES = (BLUE, RED, GREEN, PURPLE)


def attention_map(weights, words: list[str]) -> Figure:
    """One panel for each head: rows are queries, columns keys, dark is much attention; a dot marks each row's largest.

    weights: (H, T, T), shares that sum to 1 along the last axis; words: T labels. ValueError if they do not fit together.
    """
    weights = np.asarray(weights)
    if weights.ndim != 3 or weights.shape[1:] != (len(words), len(words)):
        raise ValueError(f"weights of shape {weights.shape} for {len(words)} words: give (heads, words, words)")
    fig, panels = new_figure(7.4, 2.7, ncols=len(weights), sharey=True, squeeze=False)
    for head, (axes, shares) in enumerate(zip(panels[0], weights, strict=True)):
        axes.imshow(shares, cmap="Greys", vmin=0, vmax=1)
        axes.plot(shares.argmax(-1), range(len(words)), ".", color=RED, markersize=4)
        axes.set_title(f"head {head}", fontsize=9)
        axes.set_xticks(range(len(words)), words, rotation=90, fontsize=7)
    panels[0][0].set_yticks(range(len(words)), words, fontsize=7)
    panels[0][0].set_ylabel("query")
    fig.supxlabel("key", fontsize=9)
    return fig


def stream_scales(streams: dict[str, Sequence[float]]) -> Figure:
    """The scale of each stream before the first block and after each, on a logarithmic axis; its last value in the legend.

    streams: label -> scales above zero. ValueError if they are not equally long.
    """
    lengths = {label: len(scales) for label, scales in streams.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(
            f"streams of different lengths, {lengths}: give each one scale before the blocks and one after each"
        )
    fig, axes = new_figure(7.4, 3.4)
    for (label, scales), colour in zip(streams.items(), LINES, strict=False):
        axes.plot(range(len(scales)), scales, color=colour, lw=2, label=f"{label}: {scales[-1]:.3g}")
    axes.set(yscale="log", xlim=(0, len(scales) - 1), xlabel="block", ylabel="root mean square of the stream")
    fig.legend(loc="outside upper center", ncols=len(streams), frameon=False)
    return fig
