"""Bugs that people have reported, each planted in three loops of different style: its detector sees it.

A bug is an edit of a loop's file in loops/: the right text and the wrong one. Each changes what the loop computes.
"""

import re
import tempfile
import warnings
from functools import cache
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.caught import assert_caught
from right_loops import RIGHT

from utils.checks.any_loop import detectors, examine
from utils.checks.toy_problem import ToyProblem, plain_config, run_until_killed
from utils.device import own_random_streams
from utils.loop.metrics import cross_entropy_sum

LOOPS = Path(__file__).parent / "loops"
STYLES = ("functions", "a_class", "closures")

# For each bug: the detector that sees it, and in each style the right text and the wrong one.
BUGS = {
    "accumulation: each part's mean counts in full": (
        "accumulation_equals_big_batch",
        (" * (counted(y_part) / max(1, counted(y)))", ""),
        ("(value * share).backward()", "value.backward()"),
        ("backward(value * part / whole)", "backward(value)"),
    ),
    "accumulation: the mean of the parts' means": (
        "accumulation_equals_big_batch",
        ("(counted(y_part) / max(1, counted(y)))", "(1 / accumulation)"),
        ("(value * share).backward()", "(value / self.accumulation).backward()"),
        ("value * part / whole", "value / accumulation"),
    ),
    "accumulation: examples are counted, not targets": (
        "accumulation_counts_tokens",
        ("counted(y_part) / max(1, counted(y))", "len(y_part) / len(y)"),
        ("labels.ne(-100).sum() / targets", "len(labels) / len(y)"),
        ("value * part / whole", "value * len(ys) / len(y)"),
    ),
    "accumulation: the gradients are cleared before each part": (
        "accumulation_equals_big_batch",
        ("            value.backward()\n", "            optimizer.zero_grad()\n            value.backward()\n"),
        ("            (value * share)", "            self.optimizer.zero_grad()\n            (value * share)"),
        ("            if ys.numel():\n", "            optimizer.zero_grad()\n            if ys.numel():\n"),
    ),
    "rate: the schedule advances with each part": (
        "rate_follows_schedule",
        ("            total += value.item()\n", "            total += value.item()\n            scheduler.step()\n"),
        ("self.set_rate(self.done)", "self.set_rate(self.done * self.accumulation)"),
        ("= rate(number)", "= rate(number * accumulation)"),
    ),
    "rate: the schedule is a step ahead": (
        "rate_follows_schedule",
        ("    optimizer.step()\n    scheduler.step()\n", "    scheduler.step()\n    optimizer.step()\n"),
        ("self.set_rate(self.done)", "self.set_rate(self.done + 1)"),
        ("= rate(number)", "= rate(number + 1)"),
    ),
    "rate: the schedule advances once an epoch": (
        "rate_follows_schedule",
        ("(math.pi * step / steps)", "(math.pi * (step // 3) / steps)"),
        ("self.set_rate(self.done)", "self.set_rate(self.epoch)"),
        ("= rate(number)", "= rate(place[0])"),
    ),
    "average: updated before the step": (
        "average_is_validated",
        (
            "            value = train_step(model, optimizer, scheduler, loss, x, y, accumulation)\n"
            "            if ema:\n                update_average(average, model, ema)\n",
            "            if ema:\n                update_average(average, model, ema)\n"
            "            value = train_step(model, optimizer, scheduler, loss, x, y, accumulation)\n",
        ),
        (
            "        self.optimizer.step()\n"
            "        if self.averaged:\n            self.averaged.update_parameters(self.model)\n",
            "        if self.averaged:\n            self.averaged.update_parameters(self.model)\n"
            "        self.optimizer.step()\n",
        ),
        (
            "        optimizer.step()\n        for name, p in model.named_parameters():\n"
            "            shadow[name].lerp_(p.detach(), 1 - ema)\n",
            "        for name, p in model.named_parameters():\n            shadow[name].lerp_(p.detach(), 1 - ema)\n"
            "        optimizer.step()\n",
        ),
    ),
    "average: the decay and its rest exchanged": (
        "average_is_validated",
        ("a.mul_(decay).add_(p, alpha=1 - decay)", "a.mul_(1 - decay).add_(p, alpha=decay)"),
        ("self.ema * average + (1 - self.ema) * weight", "(1 - self.ema) * average + self.ema * weight"),
        ("lerp_(p.detach(), 1 - ema)", "lerp_(p.detach(), ema)"),
    ),
    "average: the weights are validated in its place": (
        "average_is_validated",
        ("average if ema else model, loss", "model, loss"),
        ("self.averaged.module if self.averaged else self.model", "self.model"),
        ("with averaged() if ema else nullcontext():", "with nullcontext():"),
    ),
    "epochs: all in one order": (
        "epochs_have_orders_of_their_own",
        ("manual_seed(1_000 * seed + epoch)", "manual_seed(1_000 * seed)"),
        ("manual_seed(self.seed * 777 + self.epoch)", "manual_seed(self.seed * 777)"),
        ("manual_seed(31 * seed + epoch)", "manual_seed(31 * seed)"),
    ),
    "epochs: the short last batch is lost": (
        "epochs_are_complete",
        ("math.ceil(len(data) / batch_size)", "len(data) // batch_size"),
        ("tolist()\n\n    def step", "tolist()[: len(self.data) // self.batch_size * self.batch_size]\n\n    def step"),
        ("parts = order.split(size)", "parts = order[: len(order) // size * size].split(size)"),
    ),
    "resumed: at the start of the epoch": (
        "resumes_exactly: position in the data",
        ('    progress.update(state["progress"])\n', '    progress.update(state["progress"], place=0)\n'),
        ('"seen_in_epoch", "done"', '"done"'),
        ('state["number"], state["place"],', 'state["number"], (state["place"][0], 0),'),
    ),
    "resumed: in the epoch before": (
        "resumes_exactly: order of the next epoch",
        (
            '    progress.update(state["progress"])\n',
            '    progress.update(state["progress"])\n    progress["epoch"] -= progress["place"] == 0\n',
        ),
        (
            "            setattr(self, name, state[name])\n",
            "            setattr(self, name, state[name])\n        self.epoch -= self.seen_in_epoch == 0\n",
        ),
        (
            'state["number"], state["place"],',
            'state["number"], (state["place"][0] - (not state["place"][1]), state["place"][1]),',
        ),
    ),
    "resumed: without momentum": (
        "resumes_exactly: momentum",
        (
            "    for name, part in parts.items():\n        part.load",
            '    for name, part in parts.items():\n        if name != "optimizer":\n            part.load',
        ),
        ('        self.optimizer.load_state_dict(state["optimizer"])\n', ""),
        ('        optimizer.load_state_dict(state["optimizer"])\n', ""),
    ),
    "resumed: without the best weights": (
        "resumes_exactly: early stopping",
        (
            '    progress.update(state["progress"])\n',
            '    progress.update(state["progress"] | {"best_weights": None})\n',
        ),
        ('"best", "best_weights", "since_best"', '"best", "since_best"'),
        ('best, best_weights = state["best"]', 'best, _ = state["best"]'),
    ),
    "best: the tensors are the live ones": (
        "best_weights_are_those_validated",
        ("copy.deepcopy(model.state_dict())", "model.state_dict()"),
        ("copy.deepcopy(self.model.state_dict())", "self.model.state_dict()"),
        ("copy.deepcopy(model.state_dict())", "model.state_dict()"),
    ),
    "stopping: compared with the last loss": (
        "stopping_follows_the_loss",
        (
            '                    progress["waited"] += 1\n',
            '                    progress["waited"] += 1\n                    best["val_loss"] = val_loss\n',
        ),
        (
            "        if loss < self.lowest:\n",
            "        if loss >= self.lowest:\n            self.lowest = loss\n        else:\n",
        ),
        ("        if better:\n            lowest = loss\n", "        lowest = loss\n"),
    ),
}
PLANTED = [(name, style) for name in BUGS for style in STYLES]


def source_of(style: str) -> str:
    return (LOOPS / f"{style}.py").read_text(encoding="utf-8")


def loop_from(source: str, loop: str = "loop"):
    """The loop of a file with this text: the value of this expression in it."""
    names = {"__name__": "a_loop"}
    exec(source, names)
    return eval(loop, names)


@cache
def right(style: str):
    return loop_from(source_of(style))


def wrong(name: str, style: str):
    """The loop of this style with the bug in it."""
    old, new = BUGS[name][1 + STYLES.index(style)]
    assert source_of(style).count(old) == 1, f"{old!r} stands {source_of(style).count(old)} times in {style}.py"
    return loop_from(source_of(style).replace(old, new))


@pytest.mark.parametrize(("name", "style"), PLANTED)
def test_a_reported_bug_is_seen(name, style):
    with own_random_streams(0):
        assert_caught(detectors()[BUGS[name][0]], wrong(name, style))
        detectors()[BUGS[name][0]](right(style))


# Best weights that are not the best, wherever a loop keeps them: (loop of right_loops.py, right text, wrong text, alarm).
BEST_KEPT = {
    "a copy of the last file": (
        "like torch's ImageNet example",
        ("is_best, best_loss = test_loss < best_loss,", "is_best, best_loss = True,"),
        r"the best file are those after step 6, the best were step 2's \(model_best.pth.tar\)",
    ),
    "arrays of a flat dict": (
        "arrays and JSON",
        ('valid_loss < progress["best"]', 'valid_loss > progress["best"]'),
        r"the best file are those after step 6, the best were step 2's \(best.npz\)",
    ),
    "put back into the model": (
        "closures",
        ("if value < best_loss:", "if value < best_loss + 1.5:"),
        "the loop ends with the weights after step 3, the best were step 2's",
    ),
    "the model itself": (
        "callbacks",
        ("copy.deepcopy(learner.model)", "learner.model"),
        "4 of 4 saved tensors are the model's own",
    ),
    "its loss alone": (
        "callbacks",
        ("self.lowest, self.best_model = value,", "self.lowest, self.best_model = value / 2,"),
        r"best is {'val_loss': 0.5}",
    ),
}


@pytest.mark.parametrize("kept", BEST_KEPT)
def test_the_best_weights_are_looked_for_where_the_loop_keeps_them(kept):
    name, (old, new), alarm = BEST_KEPT[kept]
    source = (Path(__file__).parent / "right_loops.py").read_text(encoding="utf-8")
    assert source.count(old) == 1
    detector = detectors()["best_weights_are_those_validated"]
    with own_random_streams(0):
        detector(RIGHT[name])
        assert re.search(alarm, str(assert_caught(detector, loop_from(source.replace(old, new), f"RIGHT[{name!r}]"))))


# ---- each bug is really there ----------------------------------------------------------------------------------------


class Scored:
    """Cross-entropy in training; in each validation the next of `factors` times it."""

    def __init__(self, factors):
        self.factors, self.factor, self.in_training = iter(factors), 1.0, False

    def __call__(self, outputs, targets):
        total = cross_entropy_sum(outputs, targets)
        if not outputs.requires_grad and self.in_training:
            self.factor = next(self.factors)
        self.in_training = outputs.requires_grad
        return total if self.in_training else total * self.factor


def numbers(loop) -> str:
    """What a loop computes in four runs: weights, histories, what is best. Two of them are killed, and resumed."""
    computed = []
    settings = {"steps": 15, "accumulation": 3, "lr": 0.1, "momentum": 0.9, "schedule": "cosine", "ema": 0.7}
    for others in ({}, {"patience": 2}, {"save_every": 4}, {"save_every": 3}):  # saved in an epoch, and after it
        problem, config = ToyProblem(tokens=True), plain_config(val_every=1, **settings, **others)
        killed = "save_every" in others
        loss = Scored(count(1) if killed else cycle((3, 1, 2, 1.5, 4)))
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            if killed:
                run_until_killed(loop, ToyProblem(tokens=True), config, 8 * 3, val=problem.val, run=folder, loss=loss)
            result = problem.run(loop, config, problem.val, folder, loss)
        computed += [problem.model.state_dict(), result.history, result.best, result.best_weights]
    return repr(computed)


@cache
def right_numbers(style: str) -> str:
    return numbers(right(style))


@pytest.mark.parametrize("style", STYLES)
def test_the_right_loop_computes_the_same_numbers_again(style):
    assert numbers(right(style)) == right_numbers(style)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "style"), PLANTED)
def test_a_reported_bug_changes_what_the_loop_computes(name, style):
    assert numbers(wrong(name, style)) != right_numbers(style)


# ---- the right loops, and what the alarms advise ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_the_right_loop_raises_no_alarm(style):
    verdicts = examine(right(style))
    passed = {name for name, verdict in verdicts.items() if verdict == "passes"}
    assert passed >= {detector for detector, *_ in BUGS.values()}
    assert [verdict for name, verdict in verdicts.items() if not verdict.startswith(("passes", "not judged: "))] == []


class Forgotten(NamedTuple):
    """A line that is not there, or in the wrong place: its alarm names code that the right text has."""

    advice: str
    detector: str
    old: str
    new: str = ""
    file: str = "loops/functions.py"
    loop: str = "loop"  # an expression in the names of the file


NO_GRAD, COPY = "with torch.no_grad():\n        for rows", "copy.deepcopy(model.state_dict())"
OTHERS = "../helpers/other_loops.py"
FORGOTTEN = (
    Forgotten("optimizer.zero_grad()", "gradients_are_fresh", "    optimizer.zero_grad()\n"),
    Forgotten(
        "optimizer.step()",
        "steps_have_gradients",
        "    optimizer.step()\n",
        "    optimizer.zero_grad()\n    optimizer.step()\n",
    ),
    Forgotten(
        "model.parameters()", "steps_have_gradients", "SGD(model.parameters(), lr", "SGD([*model.parameters()][:-1], lr"
    ),
    Forgotten("model.train()", "trains_in_train_mode", "    model.train()\n"),
    Forgotten("model.eval()", "validates_in_eval_mode", "    model.eval()\n"),
    Forgotten("torch.no_grad()", "validation_keeps_no_graph", NO_GRAD, "if True:\n        for rows"),
    Forgotten(".item()", "log_holds_no_graph", "total += value.item()", "total += value"),
    Forgotten(COPY, "best_weights_are_those_validated", COPY, "model.state_dict()"),
    Forgotten(
        "optimizer.state_dict()",
        "resumes_exactly: momentum",
        '"optimizer": self.optimizer.state_dict()',
        '"optimizer": torch.optim.SGD(self.model.parameters(), self.lr, self.momentum).state_dict()',
        "loops/a_class.py",
    ),
    Forgotten(
        "optimizer.step()",
        "clip_binds",
        "        norm = nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf)\n        optimizer.step()\n",
        "        optimizer.step()\n        norm = nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf)\n",
        "right_loops.py",
        'RIGHT["functions"]',
    ),
    Forgotten(
        "optimizer.zero_grad()",
        "frozen_weights_stay",
        "        optimizer.zero_grad()\n        train_loss.backward()\n",
        "        optimizer.zero_grad(set_to_none=False)\n        train_loss.backward()\n",
        "right_loops.py",
        'RIGHT["like torch\'s ImageNet example"]',
    ),
    Forgotten(
        "shuffle=True",
        "sorted_data_is_shuffled",
        "batch_size, shuffle=True):\n            optimizer.zero_grad(set_to_none=False)",
        "batch_size):\n            optimizer.zero_grad(set_to_none=False)",
        "right_loops.py",
        'RIGHT["a generator"]',
    ),
    Forgotten(
        "scaler.step(optimizer)",
        "loss_scale_leaves_no_trace",
        "        scaler.step(optimizer)\n        scaler.update()\n",
        '        if precision == "fp16":\n            optimizer.step()\n'
        "        else:\n            scaler.step(optimizer)\n            scaler.update()\n",
        OTHERS,
        'STYLES["a step that GradScaler skips"]',
    ),
    Forgotten(
        "scaler.unscale_(optimizer)",
        "clip_sees_unscaled_gradients",
        "        self.scaler.unscale_(self.optimizer)\n",
        "",
        OTHERS,
        'STYLES["a class with a file of its own"]',
    ),
    Forgotten(
        "torch.autocast",
        "precision_takes_effect",
        '        with torch.autocast("cpu", DTYPES.get(self.precision), enabled=self.precision in DTYPES):\n',
        "        if True:\n",
        OTHERS,
        'STYLES["a class with a file of its own"]',
    ),
)


@pytest.mark.parametrize("line", FORGOTTEN, ids=[f"{line.advice} {line.detector}" for line in FORGOTTEN])
def test_an_alarm_names_the_line_that_was_forgotten_and_with_it_there_is_none(line):
    right_source = (Path(__file__).parent / line.file).read_text(encoding="utf-8")
    assert right_source.count(line.old) == 1 and line.advice in line.old.replace("self.", "")
    right_loop, wrong_loop = (
        loop_from(source, line.loop) for source in (right_source, right_source.replace(line.old, line.new))
    )
    with own_random_streams(0):
        assert line.advice in str(assert_caught(detectors()[line.detector], wrong_loop))
        detectors()[line.detector](right_loop)
