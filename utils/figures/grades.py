"""The picture of a class: how many points, and which task was the hardest."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from utils.figures.style import BLUE, GREEN, GREY, new_figure


def class_results(earned: list[int], points: int, share_of_task: dict[str, float]) -> Figure:
    """Left: students by points earned, of `points`. Right: the share of its points that the class earned in each task."""
    fig, (scores, tasks) = new_figure(9.0, max(3.0, 0.35 * len(share_of_task) + 1), ncols=2)
    step = max(1, round(points / 20))
    scores.hist(earned, bins=np.arange(0, points + 2 * step, step) - step / 2, color=BLUE, edgecolor="white")
    median = float(np.median(earned))
    scores.axvline(median, color=GREY, linestyle="--", label=f"median {median:g}")
    scores.legend(loc="upper left")
    scores.set(xlabel=f"points, of {points}", ylabel="students", xlim=(-step, points + step))
    for axis in (scores.xaxis, scores.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    names = list(share_of_task)[::-1]
    bars = tasks.barh(names, [share_of_task[name] for name in names], color=GREEN)
    tasks.bar_label(bars, fmt=lambda share: f"{share:.0%}", padding=3)
    tasks.set(xlabel="points that the class earned, of all", xlim=(0, 1.15))
    tasks.xaxis.set_major_formatter(PercentFormatter(1))
    return fig
