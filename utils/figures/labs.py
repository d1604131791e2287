"""Pictures that end the labs, of the student's own numbers."""

import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import RED, new_figure


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
