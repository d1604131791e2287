"""A loop of fifty lines, and silent bugs to plant in it, different ones for each seed. Lab 09 repairs them.

If you are about to take that lab: this file contains its answer.
"""

import ast
import builtins
import copy
import difflib
import inspect
import math
import random
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import nn

from utils.data.datasets import IGNORE


def train(model, data, val, steps, lr=0.1, size=8, parts=3, clip=math.inf, warmup=3, seed=0, state=None):
    """Train the model itself up to step `steps`, starting from `state` if an earlier call returned one."""
    x, y = data
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))
    )
    epoch_steps = math.ceil(len(x) / size)
    log = {"loss": [], "norm": [], "rate": [], "val_loss": []}
    first, best, lowest = 0, None, math.inf
    if state is not None:
        first, best, lowest = state["step"], state["best"], state["lowest"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"])
    for step in range(first, steps):
        epoch, place = divmod(step, epoch_steps)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed + epoch))
        batch = order[place * size : (place + 1) * size]
        counted = (y[batch] != IGNORE).sum()
        total = 0.0
        model.train()
        optimizer.zero_grad()
        for part in batch.tensor_split(parts):
            loss = F.cross_entropy(model(x[part]), y[part], reduction="sum") / counted
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        log["norm"].append(norm.item())
        log["rate"].append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
        log["loss"].append(total)
        if place == epoch_steps - 1:
            losses, counts = [], []
            model.eval()
            with torch.no_grad():
                for vx, vy in zip(val[0].split(size), val[1].split(size), strict=True):
                    losses.append(F.cross_entropy(model(vx), vy, reduction="sum").item())
                    counts.append((vy != IGNORE).sum().item())
            val_loss = sum(losses) / sum(counts)
            log["val_loss"].append(val_loss)
            if val_loss < lowest:
                lowest, best = val_loss, copy.deepcopy(model.state_dict())
    state = {
        "step": steps,
        "best": best,
        "lowest": lowest,
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "schedule": schedule.state_dict(),
        "random": torch.get_rng_state(),
    }
    return {"log": log, "best": best, "state": state}


@dataclass(frozen=True)
class Bug:
    """kind: the promise of the loop that it breaks; changes: (text that occurs once in the right loop, its replacement)."""

    kind: str
    changes: tuple[tuple[str, str], ...]


def _bug(kind: str, *changes: str) -> Bug:
    return Bug(kind, tuple(zip(changes[::2], changes[1::2], strict=True)))


def deeper(line: str) -> str:
    """The line, indented by one more level."""
    return line.replace("\n", "\n    ")


SOURCE = inspect.getsource(train)
# Whole lines, each with the line break before it, so that a text matches at one indentation only.
ZERO = "\n        optimizer.zero_grad()"
CLIP = "\n        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)"
STEP = "\n        optimizer.step()"
SCHEDULE = "\n        schedule.step()"
RATE = '\n        log["rate"].append(schedule.get_last_lr()[0])'
NORM = '\n        log["norm"].append(norm.item())'
MODE = "\n        model.train()"
BACKWARD = "\n            loss.backward()"
LOOP = "\n    for step in range(first, steps):"
VALIDATE = "\n            losses, counts = [], []"
BEST = "copy.deepcopy(model.state_dict())\n    state"
FIRST = 'first, best, lowest = state["step"], state["best"], state["lowest"]'
OPTIMIZER = '\n        optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))'
MODEL = '"model": copy.deepcopy(model.state_dict())'

BUGS = {
    "the last, short batch of an epoch is left out": _bug("examples", "math.ceil(len(x) / size)", "len(x) // size"),
    "every epoch in the same order": _bug("examples", "seed + epoch", "seed"),
    "a new order at every step": _bug("examples", "seed + epoch", "seed + step"),
    "each batch is one example short": _bug("examples", "(place + 1) * size]", "(place + 1) * size - 1]"),
    "gradients are never zeroed": _bug("gradients", ZERO, ""),
    "gradients are zeroed for each part": _bug("gradients", ZERO, "", BACKWARD, deeper(ZERO) + BACKWARD),
    "targets that do not count are counted": _bug("gradients", "(y[batch] != IGNORE).sum()", "len(batch)"),
    "the mean of the parts' means": _bug("gradients", '], reduction="sum") / counted', "]) / parts"),
    "clipped after the step": _bug("steps", CLIP + NORM, "", STEP, STEP + CLIP + NORM),
    "each part is clipped": _bug("steps", CLIP, "", BACKWARD, BACKWARD + deeper(CLIP)),
    "the warm-up begins with a rate of 0": _bug("steps", "(step + 1) / warmup,", "step / warmup,"),
    "the schedule moves once an epoch": _bug("steps", SCHEDULE, "", VALIDATE, deeper(SCHEDULE) + VALIDATE),
    "the norm is logged as it is after clipping": _bug("reports", "norm.item())", "min(norm.item(), clip))"),
    "the rate is logged as it is after the step": _bug("reports", RATE, "", SCHEDULE, SCHEDULE + RATE),
    "the loss of the last part is logged": _bug("reports", "append(total)", "append(loss.item() * parts)"),
    "the validation loss is a mean of means": _bug(
        "reports", "sum(losses) / sum(counts)", "sum(a / b for a, b in zip(losses, counts, strict=True)) / len(losses)"
    ),
    "validated in training mode": _bug("validation", "\n            model.eval()", ""),
    "trained in evaluation mode from the second epoch on": _bug(
        "validation", MODE, "", LOOP, "\n    model.train()" + LOOP
    ),
    "the best weights go on changing": _bug("validation", BEST, "model.state_dict()\n    state"),
    "the best are always the newest": _bug("validation", "lowest, best = val_loss, copy", "best = copy"),
    "resumed without the optimizer's state": _bug("resuming", OPTIMIZER, ""),
    "resumed with a schedule that begins anew": _bug(
        "resuming", '\n        schedule.load_state_dict(state["schedule"])', ""
    ),
    "resumed without the random stream": _bug("resuming", '\n        torch.set_rng_state(state["random"])', ""),
    "resumed without what was best": _bug("resuming", FIRST, 'first = state["step"]'),
    "the momentum in the state goes on changing": _bug("resuming", OPTIMIZER, OPTIMIZER.replace("copy.deepcopy", "")),
    "the weights in the state go on changing": _bug("resuming", MODEL, '"model": model.state_dict()'),
}
KINDS = tuple(dict.fromkeys(bug.kind for bug in BUGS.values()))

# Other words for names of the loop. Each seed's loop is written in words of its own, so that a repair of it is no repair
# of another one, and the right loop above is a repair of none.
WORDS = {
    "epoch_steps": ("batches", "per_epoch", "turns"),
    "first": ("begun", "done", "start"),
    "place": ("at", "index", "position"),
    "order": ("drawn", "permutation", "shuffled"),
    "batch": ("chosen", "examples", "rows"),
    "counted": ("labelled", "targets", "valid"),
    "total": ("running", "summed", "whole"),
    "part": ("chunk", "micro", "piece"),
    "loss": ("cost", "error", "share"),
    "norm": ("length", "magnitude", "size_of_all"),
    "losses": ("costs", "errors", "sums"),
    "counts": ("amounts", "numbers", "sizes"),
    "vx": ("inputs", "seen", "xs"),
    "vy": ("answers", "labels", "ys"),
    "val_loss": ("held_out", "val_cost", "val_mean"),
}
NAME = re.compile(rf"(?<![\w.\"])({'|'.join(WORDS)})(?![\w\"])")  # not in quotes: those are keys of the log
LIBRARIES = {"copy": copy, "math": math, "torch": torch, "F": F, "nn": nn, "IGNORE": IGNORE}
MOST_CHANGED = 10  # lines, in a repair: more than any five bugs need, fewer than lie between the loops of two seeds


def with_bugs(*names: str) -> str:
    """The source of the loop with these bugs of BUGS in it. ValueError if two of them change the same text."""
    source = SOURCE
    for name in names:
        for right, wrong in BUGS[name].changes:
            if source.count(right) != 1:
                raise ValueError(
                    f"{name!r} does not fit beside the others: {right!r} occurs {source.count(right)} times"
                )
            source = source.replace(right, wrong)
    return source


def chosen(seed: int, bugs: int = 5) -> tuple[str, ...]:
    """The names of the bugs for a seed, each of a different kind. ValueError for more bugs than there are kinds."""
    if not 1 <= bugs <= len(KINDS):
        raise ValueError(f"{bugs} bugs, but there are {len(KINDS)} kinds: choose 1 to {len(KINDS)}")
    draw = random.Random(seed)
    while True:
        names = [
            draw.choice([name for name, bug in BUGS.items() if bug.kind == kind]) for kind in draw.sample(KINDS, bugs)
        ]
        try:
            with_bugs(*names)
        except ValueError:
            continue
        return tuple(names)


def planted(seed: int, bugs: int = 5) -> str:
    """The source of a loop with that many silent bugs, different ones for each seed, in words of that seed's own."""
    return _in_words_of(seed, with_bugs(*chosen(seed, bugs)))


def _in_words_of(seed: int, source: str) -> str:
    draw = random.Random(f"words of {seed}")
    words = {name: draw.choice(others) for name, others in WORDS.items()}
    return NAME.sub(lambda found: words[found[0]], source)


def loop_from(source: str) -> Callable:
    """The function `train` that this source defines."""
    names = dict(LIBRARIES)
    exec(compile(source, "<the loop>", "exec"), names)
    return names["train"]


def changed_lines(source: str, given: str) -> list[str]:
    """What was changed in `given` to make `source`: "- " and a line that went, "+ " and a line that came.

    Comments, blank lines and line breaks within a statement do not count. SyntaxError for what is not Python.
    """
    before, after = _without_layout(given), _without_layout(source)
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]  # without two lines of headings
    return [f"{line[0]} {line[1:].strip()}" for line in lines if line[0] != "@"]


@cache  # a check compares dozens of loops with one and the same
def _without_layout(source: str) -> tuple[str, ...]:
    return tuple(ast.unparse(ast.parse(textwrap.dedent(source))).splitlines())


def lines_changed(source: str, given: str) -> int:
    """How many lines of `given` were changed to make `source`; one that was moved counts once."""
    marks = [line[0] for line in changed_lines(source, given)]
    return max(marks.count("-"), marks.count("+"))


def borrowed(source: str) -> list[str]:
    """The names that a source uses and neither binds nor finds where loop_from runs it; and each import and `exec`."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(source))))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    shut = {"__import__", "compile", "eval", "exec", "getattr", "globals", "open", "vars"}
    ready = (set(dir(builtins)) | bound) - shut
    used = {node.id for node in nodes if isinstance(node, ast.Name)} - ready - set(LIBRARIES)
    ways_out = {"builtins", "importlib", "os", "sys"}  # torch.sys.modules holds every module
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {name for name in attributes if name in ways_out or name.startswith("__")}
    return sorted(used | {"import" for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)})
