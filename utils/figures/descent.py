"""Pictures of gradient descent for a first reader: a slope, one step, and the losses of a run."""

import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import BLUE, GREEN, GREY, RED, SKY, new_figure, plate


def slope_at_a_point(values, losses, here: float, loss: float, slope: float) -> Figure:
    """The loss as one parameter takes `values` (n,), and at the value `here` the straight line with the slope `slope`."""
    fig, axes = new_figure(7.0, 3.2)
    axes.plot(values, losses, color=BLUE, label="the loss")
    reach = (max(values) - min(values)) / 5
    line = np.array([here - reach, here + reach])
    named = f"its slope where it stands: {slope:.3f}"
    axes.plot(line, loss + slope * (line - here), color=RED, linewidth=2, label=named)
    axes.plot([here], [loss], "o", color=RED)
    end = here - np.sign(slope) * reach
    low = min(losses) - 0.15 * (max(losses) - min(losses))
    axes.annotate("", (end, low), (here, low), arrowprops={"arrowstyle": "->", "color": GREEN, "linewidth": 1.8})
    side = {"ha": "left"} if slope > 0 else {"ha": "right"}
    axes.text(here + np.sign(slope) * reach / 8, low, "downhill", va="center", **side)
    axes.set_ylim(bottom=low - 0.1 * (max(losses) - min(losses)))
    axes.set(xlabel="value of the parameter; all others stay as they are", ylabel="loss")
    axes.legend()
    return fig


def one_step(rates, losses, slope: float, marked: dict[float, str]) -> Figure:
    """The loss after one step, by its learning rate, beside what the slope alone promises; rates (n,) begin with 0.

    slope: by how much the loss falls for each unit of learning rate, at a rate of 0. marked: rate → words.
    """
    fig, axes = new_figure(7.0, 3.2)
    rates, losses = np.asarray(rates), np.asarray(losses)
    top = losses.max()
    axes.plot(rates, losses, color=BLUE, label="the loss after the step")
    promised = losses[0] - slope * rates
    seen = promised > losses.min() - 0.25 * (top - losses.min())
    axes.plot(rates[seen], promised[seen], "--", color=RED, label="what the slope promises")
    axes.axhline(losses[0], color=GREY, linewidth=0.8)
    axes.text(rates[-1], losses[0], "before the step", ha="right", va="bottom", fontsize=8)
    for rate, words in marked.items():
        loss = np.interp(rate, rates, losses)
        axes.plot([rate], [loss], "o", color=BLUE)
        axes.annotate(words, (rate, loss), (6, 8), textcoords="offset points", fontsize=9, bbox=plate())
    axes.set(xlabel="learning rate of the step", ylabel="loss")
    axes.legend()
    return fig


def losses_of_a_run(losses, steps: int, knows_nothing: float) -> Figure:
    """The loss of each step as a dot, its mean over each epoch of `steps` as a line, and the loss of pure guessing."""
    fig, axes = new_figure(7.0, 3.2)
    losses = np.asarray(losses)
    axes.plot(np.arange(len(losses)), losses, ".", color=SKY, markersize=3, label="the batch of a step")
    for epoch, start in enumerate(range(0, len(losses), steps)):
        part = losses[start : start + steps]
        ends, height = (start, start + len(part)), [part.mean()] * 2
        axes.plot(ends, height, color=BLUE, linewidth=2.2, label=None if epoch else "the mean of an epoch")
    axes.axhline(knows_nothing, color=RED, linestyle="--", linewidth=1.2)
    axes.text(
        len(losses),
        knows_nothing,
        f"a model that knows nothing: {knows_nothing:.2f}",
        ha="right",
        va="bottom",
        fontsize=9,
    )
    axes.set(xlabel="step", ylabel="loss", ylim=(0, 1.15 * max(losses.max(), knows_nothing)))
    axes.set_xticks(range(0, len(losses) + 1, steps))
    axes.legend(markerscale=3)
    return fig


def path_of_the_loss(path, losses) -> Figure:
    """The loss of all pictures after each step (n + 1,), red where a step raised it, and of each step's own batch (n,)."""
    fig, axes = new_figure(7.0, 3.4)
    path, at = np.asarray(path), np.arange(len(path))
    rises = path[1:] > path[:-1]
    axes.plot(at[1:] - 1, losses, ".", color=GREY, markersize=3, alpha=0.6, label="its own batch, before the step")
    for which, colour, name in ((~rises, BLUE, "the step lowered it"), (rises, RED, "the step raised it")):
        gaps = np.full(which.sum(), np.nan)
        x = np.stack([at[:-1][which], at[1:][which], gaps], axis=1).ravel()
        y = np.stack([path[:-1][which], path[1:][which], gaps], axis=1).ravel()
        axes.plot(x, y, color=colour, linewidth=1.8, label=f"all pictures: {name}")
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))
    axes.legend()
    return fig
