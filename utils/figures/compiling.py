"""Pictures of torch.compile: its stages, the graphs of a function and the gaps between them, recompilations, kernels."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PALE, RED, SKY, new_figure

GAP = 0.6  # of a box: the room that a break takes
ROW = 15  # boxes side by side, as many as can be read at a page's width


STAGES = (  # of the compiler: name, what it makes of its input, what can be seen there, the backend that stops after it
    ("1 · your function", "Python bytecode", "", ""),
    ("2 · Dynamo", "a graph of operations,\nand its guards", "graph breaks,\nrecompilations", '"eager"'),
    ("3 · AOTAutograd", "two graphs: forward\nand backward", "rewritten\noperations", '"aot_eager"'),
    ("4 · Inductor", "source code\nof fused kernels", "what is fused,\ncasts, rounding", ""),
    ("5 · C++ or Triton", "machine code,\nkept on disk", "seconds to compile,\nlaunches", '"inductor"'),
)


def pipeline() -> Figure:
    """The stages of torch.compile from left to right: what each makes, what is seen there, which backend stops there."""
    fig, axes = new_figure(10.4, 2.9)
    for place, (name, makes, seen, backend) in enumerate(STAGES):
        axes.barh(0, 0.86, left=place, height=1, color=SKY if backend else PALE, edgecolor=GREY)
        axes.text(place + 0.43, -0.32, name, ha="center", va="center", fontsize=9.5, weight="bold")
        axes.text(place + 0.43, 0.1, makes, ha="center", va="center", fontsize=8.5)
        axes.text(place + 0.43, 0.98, seen, ha="center", va="center", fontsize=8.5, color=BLUE)
        axes.text(place + 0.43, 1.55, backend, ha="center", va="center", fontsize=9, family="monospace")
        if place:
            axes.annotate("", (place, 0), (place - 0.14, 0), arrowprops={"arrowstyle": "->", "color": BLACK})
    axes.text(-0.12, 0.98, "look for:", ha="right", va="center", fontsize=8.5, color=BLUE)
    axes.text(-0.12, 1.55, "backend=", ha="right", va="center", fontsize=9, family="monospace")
    axes.set(xlim=(-0.85, len(STAGES)), ylim=(1.8, -0.6), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return fig


def captured_strips(stages: dict[str, Sequence[Sequence[str]]]) -> Figure:
    """One row a stage: a box for each captured operation, a gap with a dot wherever a graph ends and the next begins."""
    rows = {f"{name}: {len(graphs)}": _wrapped(graphs) for name, graphs in stages.items()}
    height = sum(1 + lines[-1][1] for lines in rows.values())
    widest = max(left + width for lines in rows.values() for left, _, width, _ in lines)
    fig, axes = new_figure(0.55 * widest + 1.2, 0.5 * height + 0.5)
    top, ticks = 0, []
    for lines in rows.values():
        ticks.append(top)
        for left, line, width, name in lines:
            if name is None:
                axes.plot(left + width / 2, top + line, "o", color=RED, markersize=5)
                continue
            axes.barh(top + line, 0.96, left=left, height=0.7, align="center", color=SKY, edgecolor="white")
            size = 8 if len(name) <= 8 else 6.5
            shown = name if len(name) <= 10 else "\n".join(name.rsplit("_", 1))
            axes.text(left + 0.48, top + line, shown, ha="center", va="center", fontsize=size, color=BLACK)
        top += 1 + lines[-1][1]
    axes.set_yticks(ticks, list(rows))
    axes.set(xlim=(-0.2, widest + 0.2), ylim=(height - 0.4, -0.6), xticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("stage: graphs (a dot is a break)", fontsize=10)
    return fig


def _wrapped(graphs: Sequence[Sequence[str]]) -> list[tuple[float, int, float, str | None]]:
    """(left, line, width, operation or None for a break) of each thing that a row shows; a line holds ROW boxes."""
    things = [name for number, graph in enumerate(graphs) for name in ([None] if number else []) + list(graph)]
    left, line, placed = 0.0, 0, []
    for name in things:
        width = GAP if name is None else 1
        if left + width > ROW:
            left, line = 0.0, line + 1
        placed.append((left, line, width, name))
        left += width
    return placed


def recompilations(sizes: Sequence[int], settings: dict[str, Sequence[int]], what: str = "rows of the batch") -> Figure:
    """Graphs compiled so far after each call, one line a setting; sizes names the calls in order, by what.

    Raises ValueError if a setting has another number of calls.
    """
    wrong = {name: len(counts) for name, counts in settings.items() if len(counts) != len(sizes)}
    if wrong:
        raise ValueError(f"{len(sizes)} calls, but {wrong}: give every setting one count for each call")
    fig, axes = new_figure(6.6, 3.0)
    for (name, counts), colour, mark in zip(settings.items(), (BLUE, GREEN, RED), "os^", strict=True):
        axes.plot(range(len(sizes)), counts, color=colour, marker=mark, lw=1.6, label=name)
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set(xlabel=f"{what}, call by call", ylabel="graphs compiled so far", ylim=(0, None))
    axes.legend(loc="upper left")
    return fig


KINDS = {
    "fused": (GREEN, "a kernel that Inductor wrote"),
    "product": (BLUE, "a matrix product"),
    "attention": (ORANGE, "attention"),
    "other": (GREY, "another kernel of PyTorch's"),
}


def launches(rows: dict[str, Sequence[str]], *, wrap: int = 52) -> Figure:
    """A row of boxes for each name: its launches in order, one box each, coloured by kind (a key of KINDS).

    Raises ValueError for a kind that has no colour.
    """
    if unknown := {kind for row in rows.values() for kind in row} - set(KINDS):
        raise ValueError(f"no colour for {sorted(unknown)}: give one of {list(KINDS)}")
    lines = {name: -(-len(row) // wrap) for name, row in rows.items()}
    height = sum(lines.values()) + 0.6 * (len(rows) - 1)
    fig, axes = new_figure(10.4, 0.34 * height + 0.9)
    top, ticks = 0.0, []
    for name, row in rows.items():
        for number, kind in enumerate(row):
            place, line = number % wrap, number // wrap
            axes.barh(top + line, 0.86, left=place, height=0.72, color=KINDS[kind][0])
        ticks.append(top + (lines[name] - 1) / 2)
        top += lines[name] + 0.6
    axes.set_yticks(ticks, [f"{name}: {len(row)}" for name, row in rows.items()])
    axes.set(xlim=(-0.3, wrap + 0.3), ylim=(top - 0.9, -0.8), xticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    used = [kind for kind in KINDS if any(kind in row for row in rows.values())]
    handles = [Rectangle((0, 0), 1, 1, color=KINDS[kind][0]) for kind in used]
    axes.legend(handles, [KINDS[kind][1] for kind in used], loc="upper center", bbox_to_anchor=(0.45, 0), ncols=4)
    return fig
