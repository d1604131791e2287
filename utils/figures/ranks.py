"""Pictures of many ranks: a ring at work, buckets that overlap with the backward, bytes per rank."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, RED, SKY, new_figure


def ring_steps(states: Sequence[Sequence[Sequence[int]]]) -> Figure:
    """A panel for the start and for each step: a row a rank, a square a chunk, with how many ranks' values it holds.

    states[step][rank][chunk]. Complete chunks are dark.
    """
    ranks = len(states[0])
    fig, panels = new_figure(1.2 * len(states), 1.6, ncols=len(states), squeeze=False)
    for number, (axes, rows) in enumerate(zip(panels[0], states, strict=True)):
        for rank, row in enumerate(rows):
            for chunk, count in enumerate(row):
                colour = BLUE if count == ranks else SKY if count > 1 else PALE
                axes.barh(rank, 0.92, left=chunk, height=0.92, color=colour)
                ink = "white" if count == ranks else BLACK
                axes.text(chunk + 0.46, rank, str(count), ha="center", va="center", color=ink, fontsize=8)
        axes.set(xlim=(-0.1, ranks), ylim=(ranks - 0.4, -0.6), xticks=[], yticks=[])
        axes.set_title(f"step {number}" if number else "start", fontsize=10, loc="center")
        axes.spines[:].set_visible(False)
        axes.set_aspect("equal")
    panels[0, 0].set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    panels[0, 0].tick_params(length=0)
    return fig


def bucket_timeline(networks: dict[str, Sequence[tuple[float, float, float]]], backward_ms: float) -> Figure:
    """For each network two rows: the backward, cut where a bucket is ready, and the bars of the buckets being sent.

    networks: {name: (ready, begins, ends) of each bucket, in ms from the start of the backward}. What is sent after the
    backward's end is red: nothing hides it.
    """
    fig, panels = new_figure(7.6, 1.25 * len(networks) + 0.5, nrows=len(networks), squeeze=False, sharex=True)
    last = max(times[-1][2] for times in networks.values())
    for axes, (name, times) in zip(panels[:, 0], networks.items(), strict=True):
        before = 0.0
        for number, (ready, begins, ends) in enumerate(times):
            axes.barh(0, ready - before, left=before, height=0.8, color=ORANGE, edgecolor="white")
            axes.text((before + ready) / 2, 0, str(number), ha="center", va="center", fontsize=8)
            hidden = max(begins, min(ends, backward_ms))
            axes.barh(1, hidden - begins, left=begins, height=0.8, color=SKY, edgecolor="white")
            axes.barh(1, ends - hidden, left=hidden, height=0.8, color=RED, edgecolor="white")
            before = ready
        axes.axvline(backward_ms, color=BLACK, lw=1, ls="--")
        axes.set(xlim=(0, 1.04 * last), ylim=(1.6, -0.6))
        axes.set_yticks([0, 1], ["backward", "sending"])
        axes.tick_params(axis="y", length=0)
        axes.set_title(f"{name}: {times[-1][2] - backward_ms:.2f} ms not hidden", fontsize=10, loc="left")
    panels[-1, 0].set_xlabel("ms from the start of the backward")
    return fig


def bytes_per_rank(ranks: Sequence[int], models: dict[str, dict[str, Sequence[float]]], memory: float) -> Figure:
    """A panel a model: gigabytes on the fullest rank against the number of ranks, a line a stage, and a GPU's memory."""
    fig, panels = new_figure(8.4, 3.4, ncols=len(models), squeeze=False, sharey=True)
    styles = tuple(zip((GREY, ORANGE, PURPLE, GREEN), "os^D", strict=True))
    for axes, (model, stages) in zip(panels[0], models.items(), strict=True):
        for (name, gigabytes), (colour, mark) in zip(stages.items(), styles, strict=True):
            axes.plot(ranks, gigabytes, color=colour, marker=mark, markersize=4, lw=1.6, label=name)
        axes.axhline(memory, color=BLACK, lw=1, ls="--")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("ranks")
        axes.set_title(model, loc="left")
        axes.set_xticks(ranks[::2], [str(count) for count in ranks[::2]])
    panels[0, 0].set_ylabel("GB per rank: weights,\ngradients, optimizer")
    panels[0, 0].text(ranks[-1], 0.95 * memory, f"{memory:g} GB", ha="right", va="top", fontsize=9)
    panels[0, -1].legend(loc="lower left", fontsize=9)
    return fig
