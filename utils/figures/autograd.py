"""Pictures of autograd: nudges, the chain rule on a graph, both modes, hooks, saved tensors, lost gradients, regions."""

from collections import defaultdict
from math import log10

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, SKY, new_figure, plate

INK = "#8A3A00"  # vermillion, dark enough for text on white
TINT, LEAF_TINT = "#FBE3CF", "#D9F0E8"  # behind black text: of vermillion, and of green


def nudge_errors(nudges: list[float], errors: list[float]) -> Figure:
    """How far a difference quotient is off, over the nudge h; both axes logarithmic, an error of 0 is not drawn.

    ValueError where there is no error to draw.
    """
    drawn = [(h, error) for h, error in zip(nudges, errors, strict=True) if error > 0]
    if not drawn:
        raise ValueError(f"none of the {len(errors)} errors is above 0: nothing to draw on a logarithmic axis")
    figure, axes = new_figure(6.4, 3.0)
    axes.loglog(*zip(*drawn, strict=True), "o-", color=BLUE, markersize=5)
    h, least = min(drawn, key=lambda pair: pair[1])
    axes.plot(h, least, "D", color=RED, markersize=8, zorder=3)
    place = {"xytext": (0, -16), "textcoords": "offset points", "ha": "center", "va": "center"}
    axes.annotate(f"least at h = $10^{{{round(log10(h))}}}$", (h, least), color=INK, **place)
    axes.set_ylim(bottom=least / 40)
    axes.invert_xaxis()
    axes.set(xlabel="distance h, smaller to the right", ylabel="error of the slope")
    return figure


# Where each number of the neuron's graph stands, and how it is computed.
NEURON = {
    "w": (0, 2, "w"), "x": (0, 0.6, "x"), "p": (1, 1.3, "p = w · x"), "b": (1, -0.1, "b"), "s": (2, 1.3, "s = p + b"),
    "h": (3, 1.3, "h = relu(s)"), "y": (3, -0.1, "y"), "e": (4, 1.3, "e = h − y"), "L": (5, 1.3, "L = e · e"),
}  # fmt: skip
APART = 1.75  # between two columns
BOX = (0.84, 0.68)  # width and height


def chain_rule(
    values: dict[str, float],
    slopes: dict[tuple[str, str], list[float]] | None = None,
    gradients: dict[str, float] | None = None,
) -> Figure:
    """The graph of L = (relu(w·x + b) − y)² with each value, and as far as given the local slopes and the gradients.

    slopes: (input, result) -> the slope of the result for this input, one for each edge between them.
    """
    figure, axes = new_figure(9.4, 3.5)
    for source, target in (("w", "p"), ("x", "p"), ("p", "s"), ("b", "s"), ("s", "h"), ("h", "e"), ("y", "e")):
        _edge(axes, source, target, (slopes or {}).get((source, target), [None])[0])
    for bend, slope in zip((-0.45, 0.45), (slopes or {}).get(("e", "L"), [None, None]), strict=True):
        _edge(axes, "e", "L", slope, bend)
    for name, (column, height, formula) in NEURON.items():
        _number_box(
            axes, (APART * column, height), formula, values[name], (gradients or {}).get(name), gradients is not None
        )
    if gradients is not None:
        _number_box(axes, (5 * APART, -0.1), "how to read a box", "value", "gradient", lower=True)
    axes.set(xlim=(-0.6, 5 * APART + 0.75), ylim=(-0.7, 2.75))
    axes.axis("off")
    return figure


def _number_box(axes: Axes, spot: tuple, formula: str, value: object, gradient: object, lower: bool) -> None:
    """A box: its formula above, its value, and in a tinted half under that its gradient, empty where it is not known yet."""
    (width, height), (x, y) = BOX, spot
    half = height / 2
    if not lower:
        y -= half / 2  # alone in the middle, where the arrows meet it
    axes.add_patch(
        Rectangle((x - width / 2, y), width, half, facecolor="white", edgecolor=BLUE, linewidth=1.4, zorder=3)
    )
    axes.text(x, y + half + 0.07, formula, ha="center", va="bottom", fontsize=9.5, zorder=4)
    size = 9 if isinstance(value, str) else 11
    axes.text(x, y + half / 2, _signed(value), ha="center", va="center", fontsize=size, zorder=4)
    if lower:
        ground = {"facecolor": TINT if gradient is not None else "white", "edgecolor": RED, "linewidth": 1.4}
        axes.add_patch(Rectangle((x - width / 2, y - half), width, half, zorder=3, **ground))
        words = "" if gradient is None else _signed(gradient)
        axes.text(x, y - half / 2, words, ha="center", va="center", fontsize=size, fontweight="bold", zorder=4)


def _edge(axes: Axes, source: str, target: str, slope: float | None, bend: float = 0) -> None:
    (x0, y0, _), (x1, y1, _) = NEURON[source], NEURON[target]
    start, end = (APART * x0 + BOX[0] / 2, y0), (APART * x1 - BOX[0] / 2, y1)
    arrow = {"arrowstyle": "-|>", "color": GREY, "connectionstyle": f"arc3,rad={bend}", "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", end, start, arrowprops=arrow, zorder=2)
    if slope is not None:
        middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - 0.6 * bend * (end[0] - start[0])
        axes.text(*middle, f"× {_signed(slope)}", ha="center", va="center", fontsize=9.5, bbox=plate(), zorder=4)


def _signed(number: object) -> str:
    return number if isinstance(number, str) else f"{number:g}".replace("-", "−")


def too_early() -> Figure:
    """The graph of x² + x²·x at x = 2, walked nearest first: the square hands on what it has, and more comes later."""
    figure, axes = new_figure(7.4, 2.6)
    spots = {"x": (0, 0.9), "square": (2.3, 0.9), "product": (4.3, 0), "sum": (6.3, 0.9)}
    boxes = {
        "x": ("x", "2"),
        "square": ("square = x · x", "4"),
        "product": ("square · x", "8"),
        "sum": ("square + product", "12"),
    }
    turns = {"sum": "turn 1", "square": "turn 2", "product": "turn 3", "x": "turn 4"}
    paid = [
        ("sum", "square", "1", 0, BLACK), ("sum", "product", "1", 0, BLACK),
        ("square", "x", "2 · 1", 0.35, BLACK), ("square", "x", "2 · 1", -0.35, BLACK),
        ("product", "square", "2, too late", 0, INK), ("product", "x", "4", -0.25, BLACK),
    ]  # fmt: skip
    for start, end, words, bend, ink in paid:
        (x0, y0), (x1, y1) = spots[start], spots[end]
        arrow = {
            "arrowstyle": "-|>", "color": RED if ink == INK else GREY, "connectionstyle": f"arc3,rad={bend}",
            "shrinkA": 30, "shrinkB": 30,
        }  # fmt: skip
        axes.annotate("", (x1, y1), (x0, y0), arrowprops=arrow, zorder=2)
        aside = 0.5 * bend
        place = (x0 + x1) / 2 - aside * (y0 - y1), (y0 + y1) / 2 + aside * (x0 - x1)
        axes.text(*place, words, ha="center", va="center", fontsize=9.5, color=ink, bbox=plate(), zorder=4)
    for number, (name, (x, y)) in enumerate(spots.items()):
        formula, value = boxes[name]
        axes.add_patch(
            Rectangle((x - 0.42, y - 0.2), 0.84, 0.4, facecolor="white", edgecolor=BLUE, linewidth=1.4, zorder=3)
        )
        axes.text(x, y, value, ha="center", va="center", fontsize=11, zorder=4)
        axes.text(x + 0.39, y + 0.17, str(number), ha="right", va="top", fontsize=9, color=INK, zorder=4)
        axes.text(x, y + 0.24, formula, ha="center", va="bottom", fontsize=9.5, zorder=4)
        axes.text(x, y - 0.25, turns[name], ha="center", va="top", fontsize=9.5, color=BLUE, zorder=4)
    axes.set(xlim=(-0.7, 7.3), ylim=(-0.6, 1.6))
    axes.axis("off")
    return figure


def score_slopes(probabilities: list[float], right: int) -> Figure:
    """Bars: the probabilities p of one example, and beside them p − y, the slopes of its cross-entropy for the scores.

    right: the place of the right class, drawn in another colour and with another pattern.
    """
    figure, panels = new_figure(7.4, 2.6, ncols=2)
    slopes = [p - (place == right) for place, p in enumerate(probabilities)]
    for axes, heights, title in zip(
        panels, (probabilities, slopes), ("p: probabilities", "p − y: slopes"), strict=True
    ):
        for place, height in enumerate(heights):
            looks = {"color": RED, "hatch": "///", "edgecolor": "white"} if place == right else {"color": BLUE}
            axes.bar(place, height, **looks, label="right kind" if place == right else "_")
        axes.axhline(0, color=BLACK, linewidth=0.8)
        axes.set(title=title, xlabel="kind", xticks=range(len(heights)), ylim=(-1, 1))
    panels[0].legend(loc="lower left", fontsize=9)
    return figure


def decision_regions(
    ticks: list[float], surface: list[list[float]], points: list[tuple], names: tuple[str, str] = ("+1", "−1")
) -> Figure:
    """Where a network of the plane says yes (above 0) and no, and the points that it learned from.

    surface[i][j]: its output at x = ticks[j], y = ticks[i]; points: (x, y, label), label above 0 for yes; names: of yes, no.
    """
    figure, axes = new_figure(5.6, 4.0)
    highest = 1 + max(abs(value) for row in surface for value in row)  # above 1, so that the levels rise
    tints = ["#F3CF86", "#FBEBCB", "#D5EBF8", "#9AD0F2"]  # orange to blue; paler where the margin is less than 1
    axes.contourf(ticks, ticks, surface, levels=[-highest, -1, 0, 1, highest], colors=tints)
    axes.contour(ticks, ticks, surface, levels=[0], colors=BLACK, linewidths=1.5)
    for sign, colour, marker, name in ((1, BLUE, "o", names[0]), (-1, RED, "^", names[1])):
        of_class = [(x, y) for x, y, label in points if label * sign > 0]
        axes.plot(*zip(*of_class, strict=True), marker, color=colour, markeredgecolor="white", markersize=7, label=name)
    axes.set(xlabel="x", ylabel="y", xlim=(ticks[0], ticks[-1]), ylim=(ticks[0], ticks[-1]), aspect="equal")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title="label")
    return figure


def sweeps(weights: int) -> Figure:
    """Forward mode and reverse mode on the same layers: what one pass of each reaches, and how many passes it takes.

    weights: of the network whose passes are named below; four of them are drawn.
    """
    figure, panels = new_figure(9.2, 3.5, ncols=2)
    sizes = (4, 3, 2, 1)
    spots = [[(layer, (size - 1) / 2 - place) for place in range(size)] for layer, size in enumerate(sizes)]
    for axes, forward in zip(panels, (True, False), strict=True):
        for layer in range(len(sizes) - 1):
            for i, start in enumerate(spots[layer]):
                for end in spots[layer + 1]:
                    taken = not forward or layer > 0 or i == 0
                    colour = (BLUE if forward else RED) if taken else "#D0D0D0"
                    arrow = {
                        "arrowstyle": "-|>",
                        "color": colour,
                        "linewidth": 1.6 if taken else 0.8,
                        "shrinkA": 9,
                        "shrinkB": 9,
                    }
                    axes.annotate("", *((end, start) if forward else (start, end)), arrowprops=arrow)
        for layer, column in enumerate(spots):
            for place, spot in enumerate(column):
                seen = not forward or layer > 0 or place == 0
                axes.plot(*spot, "o", color=(BLUE if forward else RED) if seen else "#D0D0D0", markersize=13, zorder=3)
        axes.text(0, 1.85, "weights", ha="center", fontsize=10)
        axes.text(3, 0.35, "loss", ha="center", fontsize=10)
        passes = f"{weights:,} weights: {weights:,} passes" if forward else "1 loss: 1 pass"
        reaches = "one pass: the effect of one weight" if forward else "one pass: the slope for every weight"
        axes.text(1.5, -2.15, f"{reaches}\n{passes}", ha="center", va="top", fontsize=10)
        axes.set(xlim=(-0.5, 3.5), ylim=(-2.9, 2.2), title=("forward" if forward else "reverse") + " mode")
        axes.axis("off")
    return figure


def hook_timeline(events: list[tuple[int, str, object]], names: list[str]) -> Figure:
    """Which hook of which weight is called when, from left to right, with the .grad that it found.

    events: (place of the weight, kind of hook, its .grad then) in order; names: of the weights, the first one on top.
    """
    figure, axes = new_figure(7.6, 0.55 * len(names) + 1.5)
    kinds = list(dict.fromkeys(kind for _, kind, _ in events))
    looks = dict(zip(kinds, (("o", SKY), ("s", ORANGE), ("^", GREEN)), strict=False))
    for kind in kinds:
        marker, colour = looks[kind]
        places = [(turn, place) for turn, (place, each, _) in enumerate(events, 1) if each == kind]
        axes.plot(*zip(*places, strict=True), marker, color=colour, markeredgecolor=BLACK, markersize=12, label=kind)
    for turn, (place, _, grad) in enumerate(events, 1):
        axes.annotate(f".grad {grad}", (turn, place), (0, -17), textcoords="offset points", ha="center", fontsize=9)
    axes.set(xlim=(0.4, len(events) + 0.6), ylim=(len(names) - 0.35, -0.5), xlabel="backward, from left to right")
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks([])
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(kinds), fontsize=9, frameon=False)
    return figure


def layers_of(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """For each of `count` nodes the length of the longest path to it from a node that no edge enters.

    edges: (from, to). ValueError where they run in a circle, which has no longest path.
    """
    depth = [0] * count
    for _ in range(count):
        moved = [(start, end) for start, end in edges if depth[end] <= depth[start]]
        if not moved:
            return depth
        for start, end in moved:
            depth[end] = max(depth[end], depth[start] + 1)
    raise ValueError(f"the edges {edges} run in a circle: a graph of autograd does not")


def _rows(depth: list[int], edges: list[tuple[int, int]]) -> list[float]:
    """A height for each node: the nodes of a layer are spread evenly, in the order of the mean height of their users."""
    layers, height = defaultdict(list), [0.0] * len(depth)
    for place, layer in enumerate(depth):
        layers[layer].append(place)
    for layer in sorted(layers):
        users = {place: [height[start] for start, end in edges if end == place] for place in layers[layer]}
        ranked = sorted(layers[layer], key=lambda place: -sum(users[place]) / max(1, len(users[place])))
        for rank, place in enumerate(ranked):
            height[place] = (len(ranked) - 1) / 2 - rank
    return height


def computation_graph(boxes: list[str], edges: list[tuple[int, int]], saved: list[list[str]]) -> Figure:
    """The nodes behind a tensor, the last operation on the right: backward runs to the left, as in the neuron's pictures.

    boxes: the names; edges: (place of a node, place of the node of an input), several between two nodes become one arrow
    with their number; saved: what each node keeps, [] for none. Nodes that no edge leaves are drawn as leaves.
    """
    depth = layers_of(len(boxes), edges)
    height = _rows(depth, edges)
    inner = {start for start, _ in edges}
    figure, axes = new_figure(max(5.0, 1.8 * (max(depth) + 1)), 1.3 * (max(height) - min(height) + 1) + 0.9)
    spots = [(1.6 * (max(depth) - layer), row) for layer, row in zip(depth, height, strict=True)]
    for start, end in sorted(set(edges)):
        bend = "arc3,rad=0.18" if depth[end] > depth[start] + 1 else "arc3"
        arrow = {
            "arrowstyle": "-|>",
            "color": GREY,
            "shrinkA": 28,
            "shrinkB": max(28, 4 * len(boxes[end])),
            "connectionstyle": bend,
        }
        axes.annotate("", spots[end], spots[start], arrowprops=arrow)
        if edges.count((start, end)) > 1:
            middle = [(a + b) / 2 for a, b in zip(spots[start], spots[end], strict=True)]
            axes.text(
                middle[0], middle[1] + 0.06, f"×{edges.count((start, end))}", ha="center", va="bottom", fontsize=10
            )
    for place, (name, spot) in enumerate(zip(boxes, spots, strict=True)):
        operation = place in inner
        shape = "round,pad=0.45" if operation else "circle,pad=0.35"
        style = {
            "boxstyle": shape,
            "facecolor": BLUE if operation else LEAF_TINT,
            "edgecolor": BLUE if operation else GREEN,
        }
        ink = "white" if operation else BLACK
        axes.text(*spot, name, ha="center", va="center", color=ink, fontsize=10, bbox=style, zorder=3)
        if saved[place]:
            words = "keeps " + ", ".join(saved[place])
            axes.text(spot[0], spot[1] - 0.33, words, ha="center", va="center", fontsize=9, color=INK, bbox=plate())
    axes.set(xlim=(-0.8, 1.6 * max(depth) + 0.8), ylim=(min(height) - 0.6, max(height) + 0.5))
    axes.axis("off")
    for colour, mark, label in ((BLUE, "s", "operation"), (GREEN, "o", "leaf")):
        axes.scatter([], [], marker=mark, color=colour, label=label)
    axes.plot([], [], color=GREY, label="backward goes this way")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=9, frameon=False)
    return figure


def life_of_a_step(kept: list[int], gradients: list[int], turn: int) -> Figure:
    """Bytes at each moment of a forward and its backward: what the graph keeps, and the parameters' gradients above it.

    turn: how many of the moments belong to the forward. ValueError where there is none on one of its sides.
    """
    if not 0 < turn < len(kept):
        raise ValueError(f"turn is {turn} of {len(kept)} moments: some have to be before it, and some after it")
    figure, axes = new_figure(8.0, 3.4)
    kept, gradients = ([size / 1000 for size in sizes] for sizes in (kept, gradients))
    axes.bar(range(len(kept)), kept, width=1, color=BLUE, label="kept by the graph")
    looks = {"color": ORANGE, "hatch": "///", "edgecolor": "white", "linewidth": 0}
    axes.bar(range(len(kept)), gradients, bottom=kept, width=1, label="gradients of the parameters", **looks)
    axes.axvline(turn - 0.5, color=GREY, linestyle="--")
    top = max(a + b for a, b in zip(kept, gradients, strict=True))
    for words, shift, side in (("forward", -0.9, "right"), ("backward", -0.1, "left")):
        axes.text(turn + shift, 1.09 * top, words, ha=side, va="center")
    axes.set(xlabel="operations, in the order in which they run", ylabel="thousand bytes")
    axes.set(xlim=(-0.5, len(kept) - 0.5), ylim=(0, 1.18 * top), xticks=[])
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9, frameon=False)
    return figure


def loss_and_gradient(gaps: list[float], series: dict[str, tuple[list[float], list[float]]]) -> Figure:
    """Losses and slopes over the gap between two logits; where the first series has a finite loss and no slope is shaded.

    series: name -> (losses, slopes), two of them, the careless one first; what is not finite is not drawn.
    """
    figure, panels = new_figure(9.0, 3.3, ncols=2)
    losses, slopes = next(iter(series.values()))
    lost = [gap for gap, a, b in zip(gaps, losses, slopes, strict=True) if _finite(a) and not _finite(b)]
    for axes, quantity, title in zip(panels, (0, 1), ("loss", "gradient of the larger logit"), strict=True):
        for (name, curves), colour, width in zip(series.items(), (ORANGE, BLUE), (5, 1.6), strict=True):
            shown = [value if _finite(value) else float("nan") for value in curves[quantity]]
            axes.plot(gaps, shown, color=colour, linewidth=width, label=name)
            ends = [gap for gap, value in zip(gaps, shown, strict=True) if value == value]
            if ends[-1] < gaps[-1]:
                axes.plot(ends[-1], shown[gaps.index(ends[-1])], "X", color=RED, markersize=9, zorder=4)
                axes.annotate(f"ends at {ends[-1]:g}", (ends[-1], shown[gaps.index(ends[-1])]), xytext=(6, -18),
                              textcoords="offset points", color=INK, fontsize=9.5)  # fmt: skip
        if lost:
            axes.axvspan(lost[0], lost[-1], color=SKY, alpha=0.3, linewidth=0, label="right loss, no gradient")
        axes.set(xlabel="gap between the two logits", title=title, xlim=(gaps[0], gaps[-1]))
    panels[0].legend(loc="upper left", fontsize=9)
    return figure


def _finite(value: float) -> bool:
    return abs(value) < float("inf")  # False for NaN too
