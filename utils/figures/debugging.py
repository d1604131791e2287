"""Pictures of debugging: gradient norms by layer, activation patching, a step's time, loss curves of silent bugs."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PURPLE, RED, SKY, filled, new_figure, signs

COLOURS = (RED, ORANGE, GREEN, PURPLE, BLUE, SKY, GREY, BLACK)
CURVES = (GREEN, RED, BLACK, ORANGE, PURPLE, SKY, BLUE)


def gradient_norms(norms: dict[str, Sequence[float]]) -> Figure:
    """Norm of the gradient of each weight matrix, first layer to last, one line a network; logarithmic."""
    fig, axes = new_figure(7.4, 3.4)
    for (name, values), colour, mark in zip(norms.items(), COLOURS, MARKERS, strict=False):
        axes.plot(range(1, len(values) + 1), values, mark + "-", color=colour, markersize=4, lw=1.4, label=name)
    axes.set(yscale="log", xlabel="weight matrix, from the input to the output", ylabel="norm of the gradient")
    axes.set_xticks(range(1, max(map(len, norms.values())) + 1, 2))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def patching_map(heat: Sequence[Sequence[float]], layers: Sequence[str]) -> Figure:
    """What share of the clean answer a patch recovers, 0 to 1: a row for each layer, a column for each position.

    Raises ValueError if there is not one name for each row.
    """
    if len(heat) != len(layers):
        raise ValueError(f"{len(heat)} rows of the map and {len(layers)} names of layers: give one for each")
    fig, axes = new_figure(5.6, 0.5 * len(heat) + 1.1)
    image = axes.imshow(heat, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, values in enumerate(heat):
        for column, share in enumerate(values):
            written = f"{share + 0.0:g}"  # without the sign of -0.0
            axes.text(column, row, written, ha="center", va="center", color="white" if share > 0.5 else GREY)
    axes.set_xticks(range(len(heat[0])))
    axes.set_yticks(range(len(layers)), layers)
    axes.set(xlabel="position", ylabel="patched behind")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    fig.colorbar(image, label="share recovered")
    return fig


def step_shares(nanoseconds: dict[str, int], computing: int) -> Figure:
    """One step as a stacked bar of its parts, and below it the time in which the device computed; milliseconds."""
    total = sum(nanoseconds.values())
    fig, axes = new_figure(7.4, 1.9)
    left = 0.0
    colours = (SKY, BLUE, ORANGE, GREEN, GREY)
    for place, ((name, spent), colour) in enumerate(zip(nanoseconds.items(), colours, strict=True)):
        width = spent / 1e6
        axes.barh(1, width, left=left, label=f"{name} {spent / total:.0%}", **filled(place, colour))
        left += width
    axes.barh(0, computing / 1e6, color=BLACK, height=0.5)
    axes.text(computing / 1e6, 0, f"  {computing / total:.0%}", va="center", fontsize=9)
    axes.set_yticks([1, 0], ["the step", "operators\nrunning"])
    axes.set(xlabel="milliseconds", xlim=(0, total / 1e6), ylim=(-0.5, 1.6))
    fig.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=9)
    return fig


def loss_curves(curves: dict[str, Sequence[float]]) -> Figure:
    """Training loss by step of several runs, logarithmic; the first drawn thick, the one to compare with."""
    fig, axes = new_figure(7.6, 3.6)
    for place, ((name, losses), colour) in enumerate(zip(curves.items(), CURVES, strict=False)):
        look = {"lw": 1.4, "zorder": 3, **signs(place, losses)} if place else {"lw": 3.2, "zorder": 2}
        axes.plot(losses, color=colour, label=name, **look)
    axes.set(xlabel="step", ylabel="training loss, nats", xlim=(0, len(losses) - 1), yscale="log")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return fig
