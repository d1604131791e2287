"""The picture of the ledger: what became of each lecture's claims."""

from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREY, ORANGE, PALE, SKY, new_figure

COLOURS = (BLUE, SKY, ORANGE, GREY)


def claims_by_lecture(rows: dict[str, dict[str, int]]) -> Figure:
    """One bar for each lecture, as long as its claims are many; `rows`: title -> {what became of them: how many}.

    Every row has the same parts, in the order of drawing. Raises ValueError for more parts than there are colours.
    """
    parts = list(next(iter(rows.values())))
    if len(parts) > len(COLOURS):
        raise ValueError(f"{len(parts)} parts ({', '.join(parts)}): at most {len(COLOURS)} can be told apart")
    fig, axes = new_figure(7.6, 0.27 * len(rows) + 1.2)
    for place, row in enumerate(rows.values()):
        left = 0
        for part, colour in zip(parts, COLOURS, strict=False):
            axes.barh(place, row[part], left=left, color=colour, label=part, edgecolor="white", lw=0.6)
            if row[part] >= 3:
                ink = BLACK if colour in (SKY, ORANGE) else "white"
                axes.text(left + row[part] / 2, place, row[part], ha="center", va="center", fontsize=8, color=ink)
            left += row[part]
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set(xlabel="claims, each with its proof", ylim=(len(rows) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=PALE)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    first = dict(zip(reversed(labels), reversed(handles), strict=True))
    totals = [f"{part}: {sum(row[part] for row in rows.values())}" for part in parts]
    fig.legend([first[part] for part in parts], totals, loc="outside upper left", ncols=2, frameon=False)
    return fig
