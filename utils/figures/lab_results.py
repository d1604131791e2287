"""Pictures that end the labs, of the student's own numbers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import BLUE, GREEN, GREY, PURPLE, RED, new_figure, signs

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
    for place, ((label, scales), colour) in enumerate(zip(streams.items(), LINES, strict=False)):
        axes.plot(
            range(len(scales)), scales, color=colour, lw=2, label=f"{label}: {scales[-1]:.3g}", **signs(place, scales)
        )
    axes.set(yscale="log", xlim=(0, len(scales) - 1), xlabel="block", ylabel="root mean square of the stream")
    fig.legend(loc="outside upper center", ncols=len(streams), frameon=False)
    return fig


def run_report(log: list[dict], resumed_at: int) -> Figure:
    """Four panels over the steps of a run: loss, throughput, share of time waiting, memory; a line where it resumed.

    log: records with step, loss, targets, seconds, waited, bytes, and some with val. ValueError for an empty one.
    """
    if not log:
        raise ValueError("an empty log: there is nothing to draw")
    steps = [record["step"] for record in log]
    panels = {
        "loss, nats": [record["loss"] for record in log],
        "targets per second": [record["targets"] / record["seconds"] for record in log],
        "share of time waiting": [record["waited"] / record["seconds"] for record in log],
        "most memory held, MB": [record["bytes"] / 1e6 for record in log],
    }
    fig, axes = new_figure(8.4, 5.0, nrows=2, ncols=2, sharex=True)
    for panel, (label, values), colour in zip(axes.flat, panels.items(), LINES, strict=True):
        panel.plot(steps, values, color=colour, lw=1)
        panel.axvline(resumed_at, color=GREY, lw=1, ls="--")
        panel.set_title(label, loc="left", fontsize=10)
    validated = [(record["step"], record["val"]) for record in log if "val" in record]
    if validated:
        axes[0][0].plot(*zip(*validated, strict=True), "o", color=RED, markersize=5, label="validation")
        axes[0][0].legend(frameon=False)
    axes[1][0].set_ylim(0, 1)
    for panel in axes[0][1], axes[1][1]:
        panel.set_ylim(0, None)
    fig.supxlabel("step", fontsize=9)
    return fig


def alarms(matrix: dict[str, dict[str, bool]], marked: Sequence[str] = ()) -> Figure:
    """Which instrument (columns) speaks about which loop (rows): True is a filled tile; rows in `marked` are bold and red.

    Raises ValueError if the rows have other columns than the first one.
    """
    columns = list(next(iter(matrix.values())))
    if any(list(row) != columns for row in matrix.values()):
        raise ValueError(f"rows with different columns: give each of them {', '.join(columns)}")
    fig, axes = new_figure(7.4, 0.25 * len(matrix) + 1.4)
    axes.imshow([list(row.values()) for row in matrix.values()], cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=50, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(matrix)), list(matrix), fontsize=9)
    for label in axes.get_yticklabels():
        if label.get_text() in marked:
            label.set(fontweight="bold")
    axes.set_xticks([k - 0.5 for k in range(1, len(columns))], minor=True)
    axes.set_yticks([k - 0.5 for k in range(1, len(matrix))], minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    return fig
