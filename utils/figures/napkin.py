"""Pictures of a training run planned on a napkin: model against data, days, memory by device, parameters by part."""

import numpy as np
from matplotlib.figure import Figure

from utils.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, filled, new_figure, plate

LINES = (BLUE, RED, GREEN, PURPLE)
DASHES = ("-", "--", "-.", (0, (6, 1, 1, 1, 1, 1)))
PARTS = (SKY, ORANGE, GREEN, YELLOW, PURPLE, RED)
ON_WHITE = {"fontsize": 8, "bbox": {"color": "white", "pad": 0.5, "alpha": 0.85}}  # readable where lines cross


def same_compute(flops: float, parameters: np.ndarray) -> np.ndarray:
    """Tokens that use up `flops` by 6 N D, for each number of parameters. ValueError if anything is not above zero."""
    parameters = np.asarray(parameters, dtype=float)
    if flops <= 0 or (parameters <= 0).any():
        raise ValueError(f"flops={flops!r} and the parameters must be above zero to share out compute")
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
    axes.text(1.2e8, 3.2e9, f"{tokens_per_parameter:g} tokens a parameter", fontsize=8, rotation=31, va="bottom")
    for (label, flops), colour, dash in zip(budgets.items(), LINES, DASHES, strict=False):
        best = (flops / (6 * tokens_per_parameter)) ** 0.5
        tokens, name = same_compute(flops, parameters), f"{label}: {flops:.3g} FLOPs"
        axes.plot(parameters, tokens, color=colour, linestyle=dash, label=name)
        axes.plot(best, tokens_per_parameter * best, "o", color=colour)
        place = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(f"{best / 1e9:.3g}B", (best, tokens_per_parameter * best), color=colour, **place, **ON_WHITE)
    for label, wall in walls.items():
        axes.axvline(wall, color=GREY, linewidth=1)
        axes.text(wall, 1.4e8, f" {label}", rotation=90, color=GREY, ha="right", va="bottom", **ON_WHITE)
    for label, (size, tokens) in models.items():
        axes.plot(size, tokens, "^", color=ORANGE, markersize=6)
        axes.annotate(label, (size, tokens), xytext=(-6, 6), textcoords="offset points", ha="right", **ON_WHITE)
    axes.set(xscale="log", yscale="log", xlim=(1e8, 1e12), ylim=(1e8, 1e14))
    axes.set(xlabel="parameters N", ylabel="training tokens D")
    fig.legend(loc="outside upper center", ncols=len(budgets), fontsize=8, frameon=False)
    return fig


def days_by_mfu(runs: dict[str, float], marks: dict[str, tuple[float, float]]) -> Figure:
    """Days of a run against MFU. runs: label -> days at an MFU of 1; marks: label -> (MFU, days at it)."""
    fig, axes = new_figure(7.4, 3.4)
    shares = np.linspace(0.1, 1, 200)
    for (label, days), colour, dash in zip(runs.items(), LINES, DASHES, strict=False):
        axes.plot(shares, days / shares, color=colour, linestyle=dash, label=label)
    for label, (share, days) in marks.items():
        axes.plot(share, days, "o", color=BLACK, markersize=5)
        text = f"{label}: {share:.3g}, {days:,.1f} days"
        axes.annotate(text, (share, days), xytext=(6, 5), textcoords="offset points", fontsize=8)
    axes.set(xlim=(0.1, 1.08), ylim=(0, None), xlabel="MFU (share of the dense bf16 peak)", ylabel="days")
    axes.legend(loc="upper right", fontsize=8, frameon=False)
    return fig


def what_binds(days: np.ndarray, by_compute: np.ndarray, by_memory: dict[str, float]) -> Figure:
    """The largest model against the days of a run: what compute allows (a curve), what each memory allows (lines).

    days, by_compute: (n,), parameters; by_memory: label -> parameters. Below both a model fits and can be trained in time.
    """
    fig, axes = new_figure(7.4, 3.6)
    axes.plot(
        days, np.asarray(by_compute) / 1e9, color=BLUE, linewidth=2, label="bound by compute, 20 tokens a parameter"
    )
    for (label, size), colour in zip(by_memory.items(), (RED, ORANGE, GREEN, PURPLE), strict=False):
        axes.axhline(size / 1e9, color=colour, linewidth=1)
        crosses_late = size > np.median(by_compute)  # then the curve is far from the left end of the line
        end, side = (days[0] * 1.05, "left") if crosses_late else (days[-1] * 0.95, "right")
        axes.text(end, size / 1e9 * 1.06, f"{label}: {size / 1e9:.3g}B", fontsize=8, color=colour, ha=side)
    axes.set(xscale="log", yscale="log", xlabel="days of the run", ylabel="parameters, billions")
    axes.set(xlim=(days[0], days[-1]))
    fig.legend(loc="outside upper center", fontsize=8, frameon=False)
    return fig


def stacked_bars(
    bars: dict[str, dict[str, float]],
    unit: str,
    limit: float | None = None,
    limit_label: str = "",
    ends: dict[str, str] | None = None,
) -> Figure:
    """One horizontal bar for each label, made of its parts; `limit`: a line to fit below.

    bars: label -> {part: amount in `unit`}; ends: label -> what stands at its end (default: the sum).
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
    for row, (label, total) in enumerate(zip(bars, starts, strict=True)):
        end, style = ends[label] if ends else f"{total:,.4g} {unit}", {"va": "center", "fontsize": 9, "bbox": plate()}
        axes.annotate(end, (total, row), xytext=(6, 0), textcoords="offset points", **style)
    if limit is not None:
        axes.axvline(limit, color=BLACK, linewidth=1)
        axes.text(limit, -0.62, f" {limit_label}", fontsize=8, va="bottom")
    axes.set(xlabel=unit, xlim=(0, 1.25 * starts.max()))
    if "%" in unit:
        axes.set_xticks(range(0, 101, 20))
    axes.invert_yaxis()
    fig.legend(loc="outside lower center", ncols=len(names[0]), fontsize=8, frameon=False)
    return fig
