"""Pictures of many ranks: collectives, a ring at work, padding, buckets that overlap with the backward, sharding."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from utils.figures.player import Film, film
from utils.figures.style import BLACK, BLUE, GREEN, ORANGE, PALE, PURPLE, RED, SKY, YELLOW, new_figure, plate

RANK_COLOURS = (SKY, ORANGE, GREEN, PURPLE)


def ring_steps(states: Sequence[Sequence[Sequence[int]]], shown: int | None = None) -> Figure:
    """A panel for the start and for each step: a row a rank, a square a chunk, with how many ranks' values it holds.

    states[step][rank][chunk]. Complete chunks are dark, those that have just arrived have a frame. shown: how many panels
    are drawn; the places of the others stay empty.
    """
    ranks = len(states[0])
    fig, panels = new_figure(1.2 * len(states), 1.6, ncols=len(states), squeeze=False)
    for number, (axes, rows) in enumerate(zip(panels[0], states, strict=True)):
        axes.set(xlim=(-0.1, ranks), ylim=(ranks - 0.4, -0.6), xticks=[], yticks=[])
        if shown is not None and number >= shown:
            axes.set_axis_off()
            continue
        before = states[max(number - 1, 0)]
        for rank, row in enumerate(rows):
            for chunk, count in enumerate(row):
                colour = BLUE if count == ranks else SKY if count > 1 else PALE
                arrived = {"edgecolor": RED, "linewidth": 1.5} if count != before[rank][chunk] else {}
                axes.barh(rank, 0.92, left=chunk, height=0.92, facecolor=colour, **arrived)
                ink = "white" if count == ranks else BLACK
                axes.text(chunk + 0.46, rank, str(count), ha="center", va="center", color=ink, fontsize=8)
        axes.set_title(f"step {number}" if number else "start", fontsize=10, loc="center")
        axes.spines[:].set_visible(False)
        axes.set_aspect("equal")
    panels[0, 0].set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    panels[0, 0].tick_params(length=0)
    return fig


def ring_film(states: Sequence[Sequence[Sequence[int]]]) -> Film:
    """The panels of ring_steps, one more in each frame."""
    names = ["start", *(f"after step {step}" for step in range(1, len(states)))]
    return film(
        ((name, ring_steps(states, shown)) for shown, name in enumerate(names, start=1)),
        f"a ring all-reduce on {len(states[0])} ranks",
    )


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


def collective_grids(own: Sequence[Sequence[int]], after: dict[str, Sequence[Sequence[int]]]) -> Figure:
    """What the ranks begin with, and what each collective leaves: a row a rank, a box a number.

    own[rank] and after[name][rank] are lists of numbers. A number that a rank began with has that rank's colour; a sum
    over all ranks is yellow.
    """
    panels = {"before": own, **after}
    widths = [max(3.5, *map(len, rows)) for rows in panels.values()]  # room for the title
    fig, grid = new_figure(
        0.36 * sum(widths) + 1.1, 2.0, ncols=len(panels), squeeze=False, gridspec_kw={"width_ratios": widths}
    )
    colour_of = {n: RANK_COLOURS[rank % 4] for rank, row in enumerate(own) for n in row}
    for axes, (name, rows) in zip(grid[0], panels.items(), strict=True):
        for rank, row in enumerate(rows):
            for place, number in enumerate(row):
                axes.barh(rank, 0.92, left=place, height=0.88, color=colour_of.get(number, YELLOW))
                axes.text(place + 0.46, rank, str(number), ha="center", va="center", fontsize=8)
        axes.set(xlim=(-0.1, max(3.5, *map(len, rows))), ylim=(len(rows) - 0.4, -0.6), xticks=[], yticks=[])
        axes.set_title(name, fontsize=10)
        axes.spines[:].set_visible(False)
    grid[0, 0].set_yticks(range(len(own)), [f"rank {rank}" for rank in range(len(own))])
    grid[0, 0].tick_params(length=0)
    return fig


def padded_shares(shares: Sequence[Sequence[int]], examples: int) -> Figure:
    """A row a rank, a box for each index that it is dealt, in order; an index that came before is red and hatched.

    shares[rank] is a list of indices; indices are dealt in turn, one to each rank.
    """
    fig, axes = new_figure(1.0 + 0.8 * max(map(len, shares)), 0.42 * len(shares) + 0.5)
    dealt = [(turn, rank) for turn in range(max(map(len, shares))) for rank in range(len(shares))]
    seen = set()
    for turn, rank in dealt:
        if turn >= len(shares[rank]):
            continue
        index = shares[rank][turn]
        again = index in seen
        seen.add(index)
        look = {"color": "white", "edgecolor": RED, "hatch": "////"} if again else {"color": RANK_COLOURS[rank % 4]}
        axes.barh(rank, 0.9, left=turn, height=0.84, **look)
        axes.text(turn + 0.45, rank, str(index), ha="center", va="center", fontsize=10, bbox=plate() if again else None)
    axes.set(xlim=(-0.1, max(map(len, shares))), ylim=(len(shares) - 0.4, -0.6), xticks=[])
    axes.set_yticks(range(len(shares)), [f"rank {rank}" for rank in range(len(shares))])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"{examples} examples, {sum(map(len, shares))} dealt")
    return fig


def backward_and_buckets(
    steps: dict[str, tuple[Sequence[float], Sequence[tuple[int, float, float]], float]], buckets_of: Sequence[int]
) -> Figure:
    """For each step two rows, as one rank saw them: the backward, cut where a gradient is there, and what is being sent.

    steps: {title: (ms at which each gradient was there, (gradients that are in it, ms of its start, of its end) of each
    bucket, ms at which backward returned)}. buckets_of: for each gradient, in order, the bucket in which the last step
    sends it; it gives the colour.
    """
    fig, panels = new_figure(8.0, 1.3 * len(steps) + 0.5, nrows=len(steps), squeeze=False, sharex=True)
    for axes, (title, (ready, sent, end)) in zip(panels[:, 0], steps.items(), strict=True):
        before = 0.0
        for at, bucket in zip(ready, buckets_of, strict=True):
            axes.barh(
                0, at - before, left=before, height=0.8, color=RANK_COLOURS[bucket], edgecolor="white", linewidth=0.6
            )
            before = at
        for number, (_, begins, ends) in enumerate(sent):
            row, colour = 1 + 0.42 * number, RANK_COLOURS[number] if len(sent) > 1 else PALE
            axes.barh(row, ends - begins, left=begins, height=0.38, color=colour, edgecolor=BLACK, linewidth=0.6)
        axes.axvline(end, color=BLACK, lw=1, ls="--")
        axes.set_yticks([0, 1.2], ["backward", "sending"])
        axes.set(ylim=(1.9, -0.6))
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, fontsize=10, loc="left")
    panels[0, 0].set_xlim(0, 1.04 * max(end for *_, end in steps.values()))
    panels[-1, 0].set_xlabel("ms from the start of the backward")
    return fig


def memory_of_stages(models: dict[str, dict[str, dict[str, float]]], limit: tuple[str, float]) -> Figure:
    """A panel for each model: a bar a stage, stacked from what a rank holds, in GB, against what its GPU has.

    models: {title: {stage: {part: GB}}}, with the same parts in each. limit: what to call it, and GB.
    """
    colours = (SKY, ORANGE, GREEN, PURPLE)
    fig, panels = new_figure(8.4, 2.9, ncols=len(models), squeeze=False)
    for axes, (title, stages) in zip(panels[0], models.items(), strict=True):
        for row, (_, parts) in enumerate(stages.items()):
            left = 0.0
            for (part, size), colour in zip(parts.items(), colours, strict=False):
                axes.barh(row, size, left=left, height=0.7, color=colour, label=part if row == 0 else None)
                left += size
            axes.text(left, row, f" {left:,.0f}", va="center", fontsize=9, bbox=plate(), zorder=5)
        tallest = max(sum(parts.values()) for parts in stages.values())
        axes.axvline(limit[1], color=RED, lw=1.2, ls="--")
        axes.set(xlim=(0, 1.18 * max(tallest, limit[1])), ylim=(len(stages) - 0.5, -0.5), xlabel="GB on each GPU")
        axes.set_yticks(range(len(stages)), list(stages))
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, fontsize=10, loc="left")
    axes.text(limit[1], len(stages) - 0.55, f" {limit[0]}", color=BLACK, fontsize=9, va="bottom", ha="left")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper right", ncols=len(labels), fontsize=9)
    return fig


def sharding_stages(ranks: int, bytes_per_parameter: dict[str, float]) -> Figure:
    """DDP and ZeRO-1, 2, 3 one below the other: a bar a rank, cut into weights, gradients and optimizer.

    bytes_per_parameter: the three, in this order, before sharding. Stage s shards the last s of them: each rank keeps
    its own piece, at the place where it lies in the whole; what it does not hold stays pale.
    """
    names = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3, FSDP")
    fig, panels = new_figure(8.4, 3.4, nrows=len(names), ncols=ranks, squeeze=False)
    colours = dict(zip(bytes_per_parameter, (SKY, ORANGE, GREEN), strict=True))
    total = sum(bytes_per_parameter.values())
    for stage, (name, row) in enumerate(zip(names, panels, strict=True)):
        cut = list(bytes_per_parameter)[len(bytes_per_parameter) - stage :]
        for rank, axes in enumerate(row):
            left, held = 0.0, 0.0
            for part, size in bytes_per_parameter.items():
                axes.barh(0, size, left=left, height=1, color=PALE, edgecolor="white")
                piece = size / ranks if part in cut else size
                begin = left + (rank * piece if part in cut else 0)
                axes.barh(0, piece, left=begin, height=1, color=colours[part], label=part)
                left, held = left + size, held + piece
            axes.set(xlim=(0, total), ylim=(-0.5, 0.5), xticks=[], yticks=[])
            axes.set_xlabel(f"{held:g} bytes", fontsize=9)
            axes.spines[:].set_visible(False)
            if stage == 0:
                axes.set_title(f"rank {rank}", fontsize=10)
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper right", ncols=3, fontsize=9)
    return fig
