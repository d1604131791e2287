"""Pictures of autograd: the graph behind a tensor, a loss and its gradient, what a small network believes."""

from collections import defaultdict

from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, SKY, new_figure


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
    """The nodes behind a tensor, the last operation on the left, in the direction in which backward runs.

    boxes: the names; edges: (place of a node, place of the node of an input), several between two nodes become one arrow
    with their number; saved: what each node keeps, [] for none. Nodes that no edge leaves are drawn as leaves.
    """
    depth = layers_of(len(boxes), edges)
    height = _rows(depth, edges)
    inner = {start for start, _ in edges}
    figure, axes = new_figure(1.75 * (max(depth) + 1), 1.3 * (max(height) - min(height) + 1) + 0.9)
    spots = [(1.6 * layer, row) for layer, row in zip(depth, height, strict=True)]
    for start, end in sorted(set(edges)):
        bend = "arc3,rad=0.18" if depth[end] > depth[start] + 1 else "arc3"
        arrow = {"arrowstyle": "-|>", "color": GREY, "shrinkA": 30, "shrinkB": 30, "connectionstyle": bend}
        axes.annotate("", spots[end], spots[start], arrowprops=arrow)
        if edges.count((start, end)) > 1:
            middle = [(a + b) / 2 for a, b in zip(spots[start], spots[end], strict=True)]
            axes.text(*middle, f"×{edges.count((start, end))}", ha="center", va="bottom", fontsize=9, color=GREY)
    for place, (name, spot) in enumerate(zip(boxes, spots, strict=True)):
        colour = BLUE if place in inner else GREEN
        shape = "round,pad=0.45" if place in inner else "circle,pad=0.35"
        style = {"boxstyle": shape, "facecolor": colour, "edgecolor": "none"}
        axes.text(*spot, name, ha="center", va="center", color="white", fontsize=10, bbox=style, zorder=3)
        if saved[place]:
            words = "keeps " + ", ".join(saved[place])
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # an arrow may pass behind the words
            axes.text(
                spot[0] - 0.16, spot[1] - 0.3, words, ha="center", va="center", fontsize=8, color=RED, bbox=ground
            )
    axes.set(xlim=(-0.8, 1.6 * max(depth) + 0.8), ylim=(min(height) - 0.6, max(height) + 0.5))
    axes.axis("off")
    for colour, mark, label in ((BLUE, "s", "operation"), (GREEN, "o", "leaf")):
        axes.scatter([], [], marker=mark, color=colour, label=label)
    axes.plot([], [], color=GREY, label="backward goes this way")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8, frameon=False)
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
                              textcoords="offset points", color=RED, fontsize=9)  # fmt: skip
        if lost:
            axes.axvspan(lost[0], lost[-1], color=SKY, alpha=0.3, linewidth=0, label="right loss, no gradient")
        axes.set(xlabel="gap between the two logits", title=title, xlim=(gaps[0], gaps[-1]))
    panels[0].legend(loc="upper left", fontsize=8)
    return figure


def _finite(value: float) -> bool:
    return abs(value) < float("inf")  # False for NaN too


def decision_regions(ticks: list[float], surface: list[list[float]], points: list[tuple]) -> Figure:
    """Where a network of the plane says yes (above 0) and no, and the points that it learned from.

    surface[i][j]: its output at x = ticks[j], y = ticks[i]; points: (x, y, label), label above 0 for yes.
    """
    figure, axes = new_figure(5.6, 4.0)
    highest = max(abs(value) for row in surface for value in row)
    tints = ["#F3CF86", "#FBEBCB", "#D5EBF8", "#9AD0F2"]  # orange to blue; paler where the margin is less than 1
    axes.contourf(ticks, ticks, surface, levels=[-highest, -1, 0, 1, highest], colors=tints)
    axes.contour(ticks, ticks, surface, levels=[0], colors=BLACK, linewidths=1.5)
    for sign, colour, marker, name in ((1, BLUE, "o", "+1"), (-1, RED, "^", "−1")):
        of_class = [(x, y) for x, y, label in points if label * sign > 0]
        axes.plot(*zip(*of_class, strict=True), marker, color=colour, markeredgecolor="white", markersize=7, label=name)
    axes.set(xlabel="x", ylabel="y", xlim=(ticks[0], ticks[-1]), ylim=(ticks[0], ticks[-1]), aspect="equal")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title="label")
    return figure
