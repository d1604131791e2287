"""Pictures of the calculators about a step: its memory, its communication, its learning rate. Of one size each."""

from matplotlib.figure import Figure

from utils.figures.memory import COLOURS
from utils.figures.style import BLUE, GREY, ORANGE, RED, filled, new_figure

WIDTH = 7.4
DRAWN = 60  # buckets, at most; more of them are thinner than a pixel


def step_memory(moments: list[tuple[str, dict[str, int]]], label: str) -> Figure:
    """Live bytes over a step as stacked bands, in order; `label` stands at the highest place."""
    figure, axes = new_figure(WIDTH, 3.4)
    totals = [sum(parts.values()) for _, parts in moments]
    top, at = max(totals), max(range(len(totals)), key=totals.__getitem__)
    unit, name = next((u for u in ((1e12, "TB"), (1e9, "GB")) if top >= u[0]), (1e6, "MB"))
    below = [0.0] * len(moments)
    for place, (part, colour) in enumerate(zip(moments[0][1], COLOURS, strict=False)):
        above = [low + parts[part] / unit for low, (_, parts) in zip(below, moments, strict=True)]
        axes.fill_between(range(len(moments)), below, above, label=part, **filled(place, colour))
        below = above
    axes.plot(at, top / unit, "o", color=RED)
    axes.annotate(label, (at, top / unit), xytext=(0, 8), textcoords="offset points", ha="center", fontsize=9)
    words = [when for when, _ in moments]
    middle = words.index("loss")
    axes.set_xticks([0, middle / 2, middle, (middle + len(words) - 1) / 2, len(words) - 1])
    axes.set_xticklabels(["start", "forward", "loss", "backward", "update"])
    axes.set(ylabel=f"{name} alive", ylim=(0, 1.18 * top / unit), xlim=(0, len(moments) - 1))
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def overlap(backward: float, buckets: list[tuple[float, float, float]], at_once: float) -> Figure:
    """The backward pass above, the all-reduces below it, in milliseconds; a line where one all-reduce would end."""
    figure, axes = new_figure(WIDTH, 2.5)
    axes.broken_barh([(0, 1e3 * backward)], (1.1, 0.7), facecolor=BLUE)
    every = -(-len(buckets) // DRAWN)
    for first in range(0, len(buckets), every):
        begins, ends = buckets[first][1], buckets[min(first + every, len(buckets)) - 1][2]
        axes.broken_barh([(1e3 * begins, 1e3 * (ends - begins))], (0.1, 0.7), facecolor=ORANGE, edgecolor="white")
    end = max(backward, buckets[-1][2])
    axes.axvline(1e3 * backward, color=GREY, linestyle=":", linewidth=1)
    axes.axvline(1e3 * at_once, color=RED, linestyle="--", linewidth=1.2)
    axes.text(1e3 * at_once, 2.02, "one all-reduce, after backward ", ha="right", va="bottom", fontsize=9)
    axes.set_yticks([1.45, 0.45], ["backward", "all-reduce"])
    axes.set(xlabel="milliseconds", xlim=(0, 1.02e3 * max(end, at_once)), ylim=(0, 2.5))
    return figure


def schedule(rates: list[float], warmup: int) -> Figure:
    """The learning rate of each step; the warm-up in a colour of its own."""
    figure, axes = new_figure(WIDTH, 2.8)
    axes.plot(range(warmup, len(rates)), rates[warmup:], color=BLUE)
    if warmup:
        axes.plot(range(warmup + 1), [*rates[:warmup], rates[min(warmup, len(rates) - 1)]], color=ORANGE)
    axes.set(xlabel="step", ylabel="learning rate", ylim=(0, 1.08 * max(rates)), xlim=(0, max(1, len(rates) - 1)))
    axes.text(0.99, 0.97, f"at most {max(rates):.3g}", transform=axes.transAxes, ha="right", va="top")
    return figure
