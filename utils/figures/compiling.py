"""Pictures of torch.compile: the graphs of a function with the gaps between them, recompilations, kernels."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PALE, RED, SKY, new_figure

GAP = 0.6  # of a box: the room that a break takes


def captured_strips(stages: dict[str, Sequence[Sequence[str]]]) -> Figure:
    """One row a stage: a box for each captured operation, a gap with a dot wherever a graph ends and the next begins."""
    longest = max(sum(map(len, graphs)) + GAP * (len(graphs) - 1) for graphs in stages.values())
    fig, axes = new_figure(0.72 * longest + 1.6, 0.52 * len(stages) + 0.5)
    for y, graphs in enumerate(stages.values()):
        left = 0.0
        for number, graph in enumerate(graphs):
            if number:
                axes.plot(left + GAP / 2, y, "o", color=RED, markersize=5)
                left += GAP
            for name in graph:
                axes.barh(y, 0.96, left=left, height=0.7, align="center", color=SKY, edgecolor="white")
                axes.text(left + 0.48, y, name, ha="center", va="center", fontsize=8, color=BLACK)
                left += 1
    axes.set_yticks(range(len(stages)), [f"{name}: {len(graphs)}" for name, graphs in stages.items()])
    axes.set(xlim=(-0.2, longest + 0.2), ylim=(len(stages) - 0.4, -0.6), xticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("stage: graphs (a dot is a break)", fontsize=10)
    return fig


def recompilations(sizes: Sequence[int], settings: dict[str, Sequence[int]]) -> Figure:
    """Graphs compiled so far after each call, one line a setting; sizes names the calls in order.

    Raises ValueError if a setting has another number of calls.
    """
    wrong = {name: len(counts) for name, counts in settings.items() if len(counts) != len(sizes)}
    if wrong:
        raise ValueError(f"{len(sizes)} calls, but {wrong}: give every setting one count for each call")
    fig, axes = new_figure(6.6, 3.0)
    for (name, counts), colour, mark in zip(settings.items(), (BLUE, GREEN, RED), "os^", strict=True):
        axes.plot(range(len(sizes)), counts, color=colour, marker=mark, lw=1.6, label=name)
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set(xlabel="rows of the batch, call by call", ylabel="graphs compiled so far", ylim=(0, None))
    axes.legend(loc="upper left")
    return fig


def fused_kernels(operations: Sequence[str], kernels: int) -> Figure:
    """Above, a box for each operation that eager mode runs; below, the kernels that do the same, as wide together."""
    fig, axes = new_figure(0.72 * len(operations) + 1.6, 1.7)
    for left, name in enumerate(operations):
        axes.barh(0, 0.94, left=left, height=0.6, color=ORANGE, edgecolor=GREY)
        axes.text(left + 0.47, 0, name, ha="center", va="center", fontsize=8)
    width = len(operations) / kernels
    for number in range(kernels):
        axes.barh(1, width - 0.06, left=number * width, height=0.6, color=PALE, edgecolor=BLACK)
        axes.text((number + 0.5) * width, 1, f"kernel {number + 1}", ha="center", va="center", fontsize=9)
    axes.set_yticks([0, 1], [f"eager: {len(operations)}", f"compiled: {kernels}"])
    axes.set(xlim=(-0.1, len(operations) + 0.1), ylim=(1.5, -0.5), xticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return fig


def speed_ratios(ratios: dict[str, float]) -> Figure:
    """How many times as long eager mode takes, a bar a case from the line at 1: to the right compiled is faster."""
    fig, axes = new_figure(6.6, 0.42 * len(ratios) + 0.9)
    for y, ratio in enumerate(ratios.values()):
        axes.barh(y, ratio - 1, left=1, height=0.6, color=GREEN if ratio > 1 else RED)
        axes.text(max(ratio, 1), y, f" {ratio:.2f}×", va="center", fontsize=9)
    axes.axvline(1, color=BLACK, lw=1)
    axes.set_yticks(range(len(ratios)), list(ratios))
    axes.set(xlim=(0, 1.15 * max(1, *ratios.values())), ylim=(len(ratios) - 0.5, -0.5))
    axes.set_xlabel("seconds of eager mode per second of the compiled function")
    return fig
