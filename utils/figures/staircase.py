"""The picture of the capstone: how fast the program is on each stair, on one machine beside others."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from utils.figures.style import BLUE, GREY, ORANGE, SKY, new_figure, plate, svg

__all__ = ["staircases", "svg"]


def staircases(machines: Mapping[str, Mapping[str, float]]) -> Figure:
    """For each machine its stairs, {name: speed}, as factors over its first one; a stair that goes down is orange.

    ValueError if there is no machine, or one without stairs.
    """
    if not machines or not all(machines.values()):
        raise ValueError(f"machines {list(machines)}: at least one, and each with at least one stair")
    widths = [len(stairs) for stairs in machines.values()]
    fig, every = new_figure(10.0, 3.4, ncols=len(machines), width_ratios=widths, sharey=True, squeeze=False)
    for axes, (machine, stairs) in zip(every[0], machines.items(), strict=True):
        speeds = list(stairs.values())
        factors = [speed / speeds[0] for speed in speeds]
        for place, factor in enumerate(factors):
            falls = place > 0 and factor < factors[place - 1]
            colour = GREY if place == 0 else ORANGE if falls else SKY
            axes.bar(place, factor, width=1.0, align="edge", color=colour, edgecolor="white")
            axes.annotate(
                f"× {factor:.3g}",
                (place + 0.5, factor),
                (0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
                bbox=plate(),
            )
        axes.axhline(1, color=BLUE, linewidth=1, linestyle=":", zorder=0.5)
        labels = [name.replace(" ", "\n") for name in stairs]
        axes.set_xticks([place + 0.5 for place in range(len(stairs))], labels, fontsize=8)
        axes.set(xlim=(0, len(stairs)))
        axes.tick_params(axis="x", length=0)
        axes.set_title(machine, fontsize=9.5)
    top = max(speed / next(iter(stairs.values())) for stairs in machines.values() for speed in stairs.values())
    every[0, 0].set(ylim=(0, 1.15 * top), ylabel="times as fast as the floor")
    return fig
