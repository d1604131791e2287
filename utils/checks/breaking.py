"""A bug of the zoo, planted in a small run, beside the right run: what the losses show, and what its detector says.

for line in listing(): print(line)
print(report("1"))
"""

import contextlib
import difflib
import io
import math
import re
import tempfile
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from utils.checks.toy_problem import BATCH, EXAMPLES, ToyProblem, Train, norm_of, plain_config, run_until_killed
from utils.checks.zoo import PLANTED, Planted, planted_in_loop
from utils.data.datasets import IGNORE, TensorData
from utils.loop import train as right_loop

STEPS, ROWS = 72, 12
OTHER_SEEDS = (1, 2, 3)
ROUNDING = 1e-5  # nats
CLEAR = 2  # a gap this many times what another seed makes is a difference that one sees
WIDTH = 80  # columns of a terminal
BARS = "▁▂▃▄▅▆▇█"


# ---- the bugs and the runs in which they are at work -----------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """In what run a bug is at work. config: changes of plain_config; problem: options of ToyProblem.

    prepare: changes the problem before the run. killed: the run is killed half-way, and started again. told: what a reader
    must know of the two.
    """

    config: dict = field(default_factory=dict)
    problem: dict = field(default_factory=dict)
    prepare: Callable[[ToyProblem], None] = lambda problem: None
    killed: bool = False
    told: str = ""

    def __str__(self) -> str:
        """ "72 steps on 22 examples: optimizer sgd, lr 0.1, batch_size 8, dropout 0.5"."""
        config = {"steps": STEPS, "optimizer": "sgd", "lr": 0.1, "batch_size": BATCH} | self.config | self.problem
        settings = ", ".join(f"{name} {value}" for name, value in config.items() if name != "steps")
        return f"{config['steps']} steps on {EXAMPLES} examples: {settings}{self.told and f'; {self.told}'}"


def _sort_by_class(problem: ToyProblem) -> None:
    order = problem.data.y.argsort(stable=True)
    problem.data.x, problem.data.y = problem.data.x[order], problem.data.y[order]


def _ignore_targets(problem: ToyProblem) -> None:
    problem.data.y[::3] = IGNORE


def _detach_in_mid_run(problem: ToyProblem) -> None:
    """No gradient reaches the first layer from step STEPS / 2 on."""
    passes = []

    def detach(module, inputs, outputs):
        passes.extend([None] * torch.is_grad_enabled())
        return outputs.detach() if len(passes) > STEPS // 2 else outputs

    problem.model[1].register_forward_hook(detach)


def _mislead_validation(problem: ToyProblem) -> None:
    problem.val = ToyProblem.adverse().val


MICRO_BATCHES = {"accumulation": 4}
CLIPPED = {"clip": 0.1, "lr": 0.5}
RESTARTED = "killed after half of the steps, and started again"
COSINE = {"schedule": "cosine", "warmup": 12}
SETTINGS = {  # by number; without an entry, plain SGD on the toy problem
    6: Setting(CLIPPED | {"precision": "fp16"}),
    7: Setting({"precision": "fp16", "optimizer": "adamw", "lr": 0.01}),
    8: Setting(COSINE | MICRO_BATCHES | {"final_lr": 0.5}),
    9: Setting(COSINE),
    10: Setting(problem={"dropout": 0.5}),
    11: Setting(problem={"dropout": 0.5}),
    17: Setting(MICRO_BATCHES | {"batch_size": 10}),
    18: Setting(MICRO_BATCHES, {"tokens": True}),
    16: Setting(prepare=_sort_by_class, told="the data are sorted by class"),
    19: Setting(MICRO_BATCHES),
    20: Setting(MICRO_BATCHES),
    21: Setting(problem={"draws": True}),
    23: Setting({"momentum": 0.9}, killed=True, told=RESTARTED),
    24: Setting(problem={"noise": True}, killed=True, told=RESTARTED),
    25: Setting(prepare=_mislead_validation, told="the validation labels are wrong, so that the best comes early"),
    40: Setting({"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.5}),
    41: Setting({"momentum": 0.9}, prepare=_detach_in_mid_run, told="the first layer is detached half-way"),
    45: Setting({"batch_size": EXAMPLES + 1, "drop_last": True}),
    50: Setting({"precision": "bf16", "lr": 0.01}),
    51: Setting({"patience": 3}),
    52: Setting(
        {"batch_size": 1, "steps": ROWS, "nonfinite": "skip"},
        prepare=_ignore_targets,
        told="a third of the targets count nowhere",
    ),
} | dict.fromkeys((3, 4, 5), Setting(CLIPPED))


def bugs() -> dict[str, Planted]:
    """The numbered bugs of the zoo that are planted in a loop: "1", "2", …; where several share a number, "8a", "8b"."""
    numbered = sorted((bug for bug in PLANTED if bug.bug), key=lambda bug: bug.bug)
    count, used, named = Counter(bug.bug for bug in numbered), Counter(), {}
    for bug in numbered:
        letter = "abcdefgh"[used[bug.bug]] if count[bug.bug] > 1 else ""
        used[bug.bug] += 1
        named[f"{bug.bug}{letter}"] = bug
    return named


def find(asked: str) -> str:
    """The number of the bug that is asked for, by its number or its name. ValueError, with the nearest, if none is."""
    names = {_plain(name): key for key, bug in bugs().items() for name in (key, bug.name)}
    if _plain(asked) in names:
        return names[_plain(asked)]
    near = sorted({names[name] for name in difflib.get_close_matches(_plain(asked), names, n=3, cutoff=0.4)})
    guess = "the nearest: " + ", ".join(f"{key} ({bugs()[key].name})" for key in near) if near else "no name is like it"
    raise ValueError(f"no bug {asked!r}; {guess}; python -m utils break lists all {len(bugs())}")


def _plain(name: str) -> str:
    """ "Zero_grad forgotten" → "zero-grad-forgotten"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def detector_of(bug: Planted) -> str:
    if isinstance(bug.detector, partial):
        return f"{bug.detector.func.__name__}({', '.join(map(repr, bug.detector.keywords.values()))})"
    return bug.detector.__name__


def listing() -> list[str]:
    """One line a bug: number, what is wrong, the detector that catches it."""
    return [f"{key:>3} {bug.name:<43} {detector_of(bug).split('(')[0]}" for key, bug in bugs().items()]


# ---- a run -----------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a run leaves behind. Losses by step, in nats per target; None where no target counted."""

    losses: dict[int, float | None]
    val_losses: dict[int, float]
    weights: list[Tensor]
    kept: tuple[float, float] | None  # the best validation loss: as reported, and of the weights that were kept as best
    warned: list[str]
    error: str = ""  # what ended the run, if it did not end by itself

    def values(self) -> list[float | None]:
        """All losses in order: what curves are compared by."""
        return [*self.losses.values(), *self.val_losses.values()]


def run_of(train: Train, setting: Setting, seed: int = 0) -> Run:
    """Run a loop in a setting: silent, on the CPU, with the same first weights and data for every seed."""
    problem = _problem(setting)
    steps = setting.config.get("steps", STEPS)
    every = {"log_every": steps // ROWS, "val_every": steps // ROWS, "save_every": steps // 2}
    config = plain_config(**{"steps": steps, "seed": seed} | every | setting.config)
    result, error = None, ""
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(io.StringIO()),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("always")
        run = folder if setting.killed else None
        try:
            if setting.killed:
                run_until_killed(train, problem, config, steps // 2 + 2, val=problem.val, run=run)
                problem = _problem(setting)  # a new process begins with the first weights
            result = problem.run(train, config, problem.val, run)
        except (FloatingPointError, ValueError) as raised:
            error = f"{type(raised).__name__}: {raised}"
        records = result.history if result else []
    return Run(
        losses={record["step"]: record["loss"] for record in records if "loss" in record},
        val_losses={record["step"]: record["val_loss"] for record in records if "val_loss" in record},
        weights=[p.detach().double() for p in problem.model.parameters()],
        kept=_kept(problem, result) if result and result.best_weights and isinstance(problem.val, TensorData) else None,
        warned=list(dict.fromkeys(re.split(r"\. |\n", str(warning.message))[0] for warning in caught)),
        error=error,
    )


def _problem(setting: Setting) -> ToyProblem:
    problem = ToyProblem(**setting.problem)
    setting.prepare(problem)
    return problem


def _kept(problem: ToyProblem, result) -> tuple[float, float]:
    weights = [result.best_weights[name] for name, _ in problem.model.named_parameters()]
    return result.best["val_loss"], problem.mean_loss(weights, problem.val.x, problem.val.y)


# ---- side by side ----------------------------------------------------------------------------------------------------


@dataclass
class Comparison:
    """The right run, the broken one, and what the detector says of the broken loop ("" if it lets it pass)."""

    bug: Planted
    setting: Setting
    right: Run
    broken: Run
    others: list[Run]  # right, with other seeds
    says: str

    @property
    def gap(self) -> float:
        """The largest difference between a loss of the two runs; infinite if one run lacks a loss that the other has."""
        return _gap(self.right, self.broken)

    @property
    def noise(self) -> float:
        """The largest difference that another seed makes to the right run."""
        return max(_gap(self.right, other) for other in self.others)


def _gap(one: Run, other: Run) -> float:
    if one.losses.keys() != other.losses.keys() or one.val_losses.keys() != other.val_losses.keys():
        return math.inf
    gaps = [0.0]
    for a, b in zip(one.values(), other.values(), strict=True):
        if None not in (a, b) and math.isfinite(a) and math.isfinite(b):
            gaps.append(abs(a - b))
        elif str(a) != str(b):  # NaN is not equal to itself
            gaps.append(math.inf)
    return max(gaps)


def compare(bug: Planted) -> Comparison:
    """Plant a bug, run, and ask its detector about both loops.

    Raises AssertionError if the detector raises an alarm on the loop without the bug.
    """
    setting = SETTINGS.get(bug.bug, Setting())
    right = run_of(right_loop, setting)
    others = [run_of(right_loop, setting, seed) for seed in OTHER_SEEDS]
    if false_alarm := _complaint(bug, right_loop):
        raise AssertionError(f"{detector_of(bug)} raises an alarm on the right loop: {false_alarm}")
    with planted_in_loop(bug) as wrong:
        return Comparison(bug, setting, right, run_of(wrong, setting), others, _complaint(bug, wrong))


def _complaint(bug: Planted, loop: Train) -> str:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            bug.detector(loop)
        except AssertionError as error:
            return str(error)
    return ""


# ---- the report ------------------------------------------------------------------------------------------------------


def report(key: str) -> str:
    """All that is known of a bug of `bugs()` and its run, for a terminal of WIDTH columns."""
    return told(compare(bugs()[key]), key)


def told(found: Comparison, key: str) -> str:
    paragraphs = [f"Bug {key}: {found.bug.name}", f"{found.setting}.", *chart(found), in_words(found)]
    return "\n\n".join(map(_wrapped, [*paragraphs, verdict(found), detection(found)]))


def _wrapped(text: str) -> str:
    return text if "\n" in text else textwrap.fill(text, WIDTH, break_on_hyphens=False)


def chart(found: Comparison) -> list[str]:
    """A table of the losses, and a line of bars for each run."""
    right, broken = found.right, found.broken
    steps = sorted({*right.losses, *broken.losses})
    rows = ["       training loss         validation loss", "step   right      broken     right      broken"]
    for step in steps:
        cells = [run.get(step, "-") for run in (right.losses, broken.losses, right.val_losses, broken.val_losses)]
        rows.append(f"{step:>4}   {''.join(f'{_number(cell):<11}' for cell in cells)}".rstrip())
    bars = []
    for what, curves in (
        ("training", (right.losses, broken.losses)),
        ("validation", (right.val_losses, broken.val_losses)),
    ):
        values = [[curve.get(step) for step in steps] for curve in curves]
        for name, line in zip(("right", "broken"), _bars(values), strict=True):
            bars.append(f"{what:<11}{name:<7} {line}")
    return ["\n".join(rows), "\n".join(bars)]


def _number(loss: float | str | None) -> str:
    if loss is None or isinstance(loss, str):
        return loss or "none"
    return f"{loss:.4f}" if abs(loss) < 1000 else f"{loss:.2e}"


def _bars(curves: list[list[float | None]]) -> list[str]:
    """A character a loss, all curves on one scale; a space where there is no loss, × where it is not finite."""
    finite = [loss for curve in curves for loss in curve if loss is not None and math.isfinite(loss)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    size = (high - low) or 1.0

    def bar(loss: float | None) -> str:
        if loss is None:
            return " "
        return BARS[round((loss - low) / size * (len(BARS) - 1))] if math.isfinite(loss) else "×"

    return ["".join(map(bar, curve)) for curve in curves]


def in_words(found: Comparison) -> str:
    """The final figures."""
    right, broken = found.right, found.broken
    words = []
    for name, run in (("right", right), ("broken", broken)):
        if run.error:
            words.append(f"The {name} run stops: {run.error}.")
        elif run.losses:
            step = max(run.losses)
            words.append(
                f"After step {step} the {name} run has a training loss of {_number(run.losses[step])} and a validation "
                f"loss of {_number(run.val_losses.get(step))}."
            )
    if all(torch.equal(a, b) for a, b in zip(right.weights, broken.weights, strict=True)):
        words.append("The final weights are the same, to the bit.")
    elif not (right.error or broken.error):
        apart = norm_of([a - b for a, b in zip(right.weights, broken.weights, strict=True)]) / norm_of(right.weights)
        words.append(f"The final weights differ: their distance is {apart:.2g} of the right ones' norm.")
    if broken.kept and not math.isclose(*broken.kept, rel_tol=1e-3):
        words.append(
            f"The broken run reports {broken.kept[0]:.4f} as its best validation loss; the weights that it kept as the "
            f"best have {broken.kept[1]:.4f}."
        )
    words += [f"It warns: {text}" for text in broken.warned if text not in right.warned]
    return " ".join(words)


def verdict(found: Comparison) -> str:
    """Whether the losses show the bug: against the right run, and against what another seed does."""
    right, broken = found.right, found.broken
    if right.error and not broken.error:
        return "No loss shows the bug: the right loop refuses this run, and the broken one has losses like any other."
    if broken.error:
        return "This bug is loud here: the run stops."
    hidden = "The losses do not show the bug:"
    if found.gap < ROUNDING:
        same = "every digit is the same in both runs" if found.gap == 0 else "the two runs differ by rounding only"
        return f"{hidden} {same}."
    if len(broken.losses) < len(right.losses):
        return "The losses show the bug only by their number: the broken run stops early."
    if math.isinf(found.gap):
        return "The losses show the bug: the broken run has one that is not a number."
    if found.gap < CLEAR * found.noise:
        return (
            f"{hidden} the two runs differ by at most {found.gap:.2g} nats, and another seed changes the right run by up "
            f"to {found.noise:.2g}. Chance alone makes curves like these."
        )
    return (
        f"Beside the right run the losses show that something is different: by up to {found.gap:.2g} nats, where another "
        f"seed makes {found.noise:.2g}.{_alone(found)}"
    )


def _alone(found: Comparison) -> str:
    """What somebody would think of the broken run who has no right one beside it."""
    right, broken = (list(run.losses.values()) for run in (found.right, found.broken))
    if broken[-1] < right[-1] - found.noise:
        return f" But it is the broken run that seems to learn better: its training loss ends at {broken[-1]:.2f}."
    if broken[-1] < 0.8 * broken[0]:
        return (
            f" Alone, the broken run looks healthy: its training loss falls from {broken[0]:.2f} to {broken[-1]:.2f}."
        )
    return ""


def detection(found: Comparison) -> str:
    name = detector_of(found.bug)
    if not found.says:
        return f"{name} lets the broken loop pass as well."
    return f"{name} passes the right loop. Of the broken one it says: {' '.join(found.says.split())}"
