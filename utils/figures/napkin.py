"""Pictures of a training run planned on a napkin: model against data, days, bytes and parameters by what they belong to."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, filled, new_figure, plate

LINES = (BLUE, RED, GREEN, PURPLE)
DASHES = ("-", "--", "-.", (0, (6, 1, 1, 1, 1, 1)))
PARTS = (SKY, ORANGE, GREEN, YELLOW, PURPLE, RED)
ON_WHITE = {"fontsize": 8, "bbox": {"color": "white", "pad": 0.5, "alpha": 0.85}}  # readable where lines cross


def same_compute(flops: float, parameters: np.ndarray) -> np.ndarray:
    """Tokens that use up `flops` by 6 N D, for each number of parameters. ValueError if anything is not above zero."""
    parameters = np.asarray(parameters, dtype=float)
    if flops <= 0 or (parameters <= 0).any():
        raise ValueError(f"flops={flops!r} and the parameters must be above zero to divide compute")
    return flops / (6 * parameters)


def model_against_data(
    budgets: dict[str, float],
    walls: dict[str, float],
    models: dict[str, tuple[float, float]],
    tokens_per_parameter: float = 20,
) -> Figure:
    """Tokens against parameters, both logarithmic: one line for each budget of FLOPs, one wall for each memory.

    budgets: label -> FLOPs; walls: label -> the most parameters that fit; models: label -> (parameters, tokens).
    The dotted line has that many tokens per parameter; a dot marks where it meets each budget.
    """
    fig, axes = new_figure(7.4, 4.4)
    parameters = np.geomspace(1e8, 1e12, 200)
    axes.plot(parameters, tokens_per_parameter * parameters, ":", color=BLACK, linewidth=1)
    words, start = f"{tokens_per_parameter:g} tokens for each parameter", (1.3e8, 1.3e8 * tokens_per_parameter)
    along = {"rotation": 19.5, "rotation_mode": "anchor", "xytext": (0, 4), "textcoords": "offset points"}
    axes.annotate(words, start, fontsize=8, **along)
    for (label, flops), colour, dash in zip(budgets.items(), LINES, DASHES, strict=False):
        best = (flops / (6 * tokens_per_parameter)) ** 0.5
        tokens, name = same_compute(flops, parameters), f"{label}: {flops:.3g} FLOPs"
        axes.plot(parameters, tokens, color=colour, linestyle=dash, label=name)
        axes.plot(best, tokens_per_parameter * best, "o", color=colour)
        place = {"xytext": (14, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(f"{best / 1e9:.3g}B", (best, tokens_per_parameter * best), **place, **ON_WHITE)
    for label, wall in walls.items():
        axes.axvline(wall, color=GREY, linewidth=1)
        beside = {"xytext": (-3, 0), "textcoords": "offset points", "ha": "right", "va": "bottom"}
        axes.annotate(label, (wall, 1.4e8), rotation=90, **beside, **ON_WHITE)
    for label, (size, tokens) in models.items():
        axes.plot(size, tokens, "^", color=ORANGE, markersize=7, markeredgecolor=BLACK, markeredgewidth=0.6)
        right = any(0.5 < np.log10(size / wall) + 0.5 < 1 for wall in walls.values())  # a wall stands close on the left
        below = any(0.8 < 6 * size * tokens / flops < 1.25 for flops in budgets.values())  # a line comes from above
        place = {"xytext": (7 if right else -7, -7 if below else 5), "textcoords": "offset points"}
        axes.annotate(label, (size, tokens), ha="left" if right else "right", va="center", **place, **ON_WHITE)
    axes.set(xscale="log", yscale="log", xlim=(1e8, 1e12), ylim=(1e8, 1e14))
    axes.set(xlabel="parameters N", ylabel="training tokens D")
    fig.legend(loc="outside upper center", ncols=len(budgets), fontsize=8, frameon=False)
    return fig


def what_binds(
    days: np.ndarray,
    by_compute: np.ndarray,
    by_memory: dict[str, float],
    at: float | None = None,
) -> Figure:
    """The largest model against the days of a run: what compute allows (a curve), what each memory allows (lines).

    days, by_compute: (n,), parameters; by_memory: label -> parameters. Below both a model fits and can be trained in time.
    at: a number of days to mark on the curve.
    """
    fig, axes = new_figure(7.4, 3.9)
    by_compute = np.asarray(by_compute) / 1e9
    axes.plot(days, by_compute, color=BLUE, linewidth=2, label="bound by compute, 20 tokens for each parameter")
    for (label, size), colour, dash in zip(by_memory.items(), (RED, ORANGE, GREEN, PURPLE), DASHES, strict=False):
        billions = size / 1e9
        axes.axhline(billions, color=colour, linestyle=dash, linewidth=1.4)
        crosses_late = billions > np.median(by_compute)  # then the curve is far from the left end of the line
        end, side = (days[0] * 1.05, "left") if crosses_late else (days[-1] * 0.95, "right")
        above = {"xytext": (0, 4), "textcoords": "offset points"}
        axes.annotate(f"{label}: {billions:.3g}B", (end, billions), fontsize=8, ha=side, **above)
    if at is not None:
        size = float(np.exp(np.interp(np.log(at), np.log(days), np.log(by_compute))))
        axes.vlines(at, 0, size, color=BLACK, linestyle=":", linewidth=1)  # down to the axis
        axes.plot(at, size, "o", color=BLACK, markersize=6, zorder=3)
        beside = {"xytext": (8, -4), "textcoords": "offset points", "va": "top"}
        axes.annotate(f"{at:g} days: {size:.3g}B", (at, size), **beside, **ON_WHITE)
    axes.set(xscale="log", yscale="log", xlabel="days of the run", ylabel="parameters, billions")
    lowest = min(*by_compute, *(n / 1e9 for n in by_memory.values()))
    axes.set(xlim=(days[0], days[-1]), ylim=(0.8 * lowest, None))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    fig.legend(loc="outside upper center", fontsize=8, frameon=False)
    return fig


def bytes_of_a_parameter(recipes: dict[str, dict[str, int]]) -> Figure:
    """What training keeps for one parameter, a bar for each recipe: label -> {part: bytes}; the same part, the same colour.

    ValueError if there is none, or a part has no bytes.
    """
    if not recipes or any(size <= 0 for parts in recipes.values() for size in parts.values()):
        raise ValueError(f"recipes={recipes!r}: give at least one, and more than 0 bytes for each part")
    fig, axes = new_figure(7.4, 0.8 * len(recipes) + 0.9)
    colours = dict(zip(dict.fromkeys(part for parts in recipes.values() for part in parts), PARTS, strict=False))
    for label, parts in recipes.items():
        start = 0
        for part, size in parts.items():
            axes.barh(label, size, left=start, height=0.72, color=colours[part], edgecolor="white", linewidth=2)
            words = part.replace(" of ", " of\n")
            axes.annotate(f"{words}\n{size}", (start + size / 2, label), ha="center", va="center", fontsize=8)
            start += size
    most = max(sum(parts.values()) for parts in recipes.values())
    axes.set(xlim=(0, most), xticks=range(0, most + 1, 2), xlabel="bytes for each parameter")
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    return fig


def transformer_parameters(layers: int, width: int, vocabulary: int, totals: bool = True) -> Figure:
    """A Transformer from token ids to scores, with the shape of each matrix. totals: its parameters, too."""
    fig, axes = new_figure(7.4, 3.3)
    axes.set(xlim=(0, 100), ylim=(0, 46))
    axes.axis("off")

    def box(
        left: float, wide: float, colour: str, title: str, lines: str, bottom: float = 12, high: float = 20
    ) -> None:
        shape = {"boxstyle": "round,pad=0,rounding_size=1.2", "facecolor": colour, "edgecolor": BLACK, "linewidth": 0.8}
        axes.add_patch(FancyBboxPatch((left, bottom), wide, high, **shape))
        axes.text(left + wide / 2, bottom + high - 2.2, title, ha="center", va="top", fontsize=9, fontweight="bold")
        axes.text(left + wide / 2, bottom + high - 7, lines, ha="center", va="top", fontsize=8, linespacing=1.35)

    def arrow(start: float, end: float) -> None:
        axes.annotate("", (end, 22), (start, 22), arrowprops={"arrowstyle": "-|>", "color": BLACK, "linewidth": 1})

    square = width**2
    frame = {"boxstyle": "round,pad=0,rounding_size=1.5", "facecolor": "none", "edgecolor": BLACK, "linestyle": "--"}
    axes.add_patch(FancyBboxPatch((25.5, 8), 49, 29, **frame))
    block, table, four, two = (
        (
            f": 12 d² = {12 * square:,} each",
            f"V d =\n{vocabulary * width:,}",
            f"\n4 d² = {4 * square:,}",
            f"8 d² = {8 * square:,}",
        )
        if totals
        else ("", f"V = {vocabulary:,}", "", "")
    )
    axes.text(50, 39, f"one block, L = {layers} times in a row{block}", ha="center", fontsize=9)
    box(1, 19, SKY, "embedding", f"V × d\n\n{table}")
    box(27.5, 21.5, ORANGE, "attention", f"queries, keys,\nvalues, output:\nfour of d × d{four}")
    box(52, 20.5, YELLOW, "MLP", f"d × 4d and\n4d × d\n\n{two}")
    box(80, 19, "#FFFFFF", "LM head", "the embedding\nmatrix again" + ("\n\n0 more" if totals else ""))
    arrow(20, 25.5), arrow(49, 52), arrow(74.5, 80)
    axes.text(10.5, 9.5, "token ids in", ha="center", va="top", fontsize=8)
    axes.text(89.5, 9.5, "V scores out", ha="center", va="top", fontsize=8)
    axes.text(
        50, 4.5, f"d = {width:,} numbers for each token travel along the arrows", ha="center", va="top", fontsize=8
    )
    return fig


def stacked_bars(
    bars: dict[str, dict[str, float]],
    unit: str,
    limit: float | None = None,
    limit_label: str = "",
    ends: dict[str, str] | None = None,
) -> Figure:
    """One horizontal bar for each label, made of its parts; `limit`: a line to end before, then each label says if it does.

    bars: label -> {part: amount in `unit`}; ends: label -> what stands at its end, without a limit (default: the sum).
    ValueError if there are none or two bars differ in their parts.
    """
    names = [tuple(parts) for parts in bars.values()]
    if not names or any(other != names[0] for other in names):
        raise ValueError(f"the bars need the same parts in the same order, not {sorted(set(names))}")
    fig, axes = new_figure(7.4, 0.45 * len(bars) + 1.3)
    starts = np.zeros(len(bars))
    for place, (part, colour) in enumerate(zip(names[0], PARTS, strict=False)):
        widths = np.array([parts[part] for parts in bars.values()])
        axes.barh(list(bars), widths, left=starts, label=part, **filled(place, colour))
        starts += widths
    if limit is None:
        for row, (label, total) in enumerate(zip(bars, starts, strict=True)):
            end, style = (
                ends[label] if ends else f"{total:,.4g} {unit}",
                {"va": "center", "fontsize": 9, "bbox": plate()},
            )
            axes.annotate(end, (total, row), xytext=(6, 0), textcoords="offset points", **style)
    else:  # the sums stand on the left, where no line crosses them
        verdicts = ["fits" if total < limit else "does not fit" for total in starts]
        lines = [f"{n}\n{total:,.4g} {unit}, {word}" for n, total, word in zip(bars, starts, verdicts, strict=True)]
        axes.set_yticks(range(len(bars)), lines)
        axes.axvline(limit, color=BLACK, linewidth=1.4)
        axes.annotate(limit_label, (limit, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=9)
    axes.set(xlabel=unit, xlim=(0, (1.25 if limit is None else 1.03) * starts.max()))
    if "%" in unit:
        axes.set_xticks(range(0, 101, 20))
    axes.invert_yaxis()
    fig.legend(loc="outside lower center", ncols=len(names[0]), fontsize=8, frameon=False)
    return fig
