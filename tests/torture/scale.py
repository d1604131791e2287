"""Long logs, large files, many checkpoints and steps: what they cost does not grow with them.

Counted, not timed: lines of Python, bytes read, and the most memory held, each in a process of its own.
"""

import json
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torture.tally import Tally
from torture.victims import start

from utils.data import TensorData, TokenFile, Windows
from utils.device import pick_device
from utils.loop import checkpoint
from utils.loop import training as loop
from utils.loop.config import Config
from utils.loop.run_folder import RunFolder

STEPS = 10**9  # asked for
KEPT = 3
TOKENS, CONTEXT, SYMBOLS = 5 * 10**9, 64, 50  # of two bytes each: 10 GB
ALLOWED = {"lines": (1.1, 200), "bytes": (1.1, 1 << 18), "memory": (1.0, 32 << 20)}  # times as much, and as much more


def scale(folder: Path, count: int, seed: int = 0) -> Tally:
    """A log of `count` records, a hundredth as many checkpoints, a run of 10⁹ steps, and a file of 10 GB."""
    tally = Tally("long logs, large files, many checkpoints")
    for trial in (_history, _end_of_many_steps, _checkpoints, _tokens):
        here = folder / trial.__name__.strip("_")
        here.mkdir()
        try:
            trial(here, count, tally)
        except (RuntimeError, ValueError) as error:
            tally.wrong.append(f"{here.name}: {error}")
    return tally


# --- what it costs --------------------------------------------------------------------------------------------


def measured(here: Path, work: Callable[[Callable[[], None]], None]) -> dict[str, int]:
    """Lines, bytes and memory of `work` in a new process, up to where it calls what it is given."""
    here.mkdir(exist_ok=True)
    code = start(partial(_measure, here, work), here / "log").end()
    if code:
        raise RuntimeError(f"what should be measured ended with {code}: {(here / 'log').read_text()[-500:]}")
    return json.loads((here / "costs").read_text())


class Reached(BaseException):
    """There is nothing more to measure."""


def _measure(here: Path, work: Callable[[Callable[[], None]], None]) -> None:
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count

    def reached() -> None:
        sys.settrace(None)
        raise Reached

    held, read = _resident_bytes(), _bytes_read()
    sys.settrace(count)
    try:
        work(reached)
        raise RuntimeError("it never came to where the measurement should end")
    except Reached:
        pass
    finally:
        sys.settrace(None)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    costs = {"lines": lines, "bytes": _bytes_read() - read, "memory": max(0, most - held)}
    (here / "costs").write_text(json.dumps(costs))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def _must_cost_the_same(what: str, small: dict[str, int], large: dict[str, int], tally: Tally) -> None:
    for unit, (times, more) in ALLOWED.items():
        tally.count += 1
        if large[unit] > times * small[unit] + more:
            tally.wrong.append(f"{what}: {large[unit]:,} {unit}, not {small[unit]:,}")


# --- a run --------------------------------------------------------------------------------------------------


def _run(folder: Path | None, steps: int = STEPS) -> loop.Result:
    torch.manual_seed(1)
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    config = Config(
        steps=steps, batch_size=4, device="cpu", log_every=1, save_every=0, keep=KEPT, warmup=5, schedule="cosine"
    )  # fmt: skip
    return loop.train(nn.Linear(2, 2), TensorData(x, (x[:, 0] > 0).long()), None, config, run=folder)


@contextmanager
def _each_step_first(do: Callable[[int], None]):
    """Within the block, each step of training begins with a call of do(its number, from 1 in this process)."""
    step, made = loop.train_step, iter(range(1, sys.maxsize))

    def stepping(*arguments) -> None:
        do(next(made))
        step(*arguments)

    loop.train_step = stepping
    try:
        yield
    finally:
        loop.train_step = step


def _to_the_first_step(folder: Path | None, reached: Callable[[], None], steps: int = STEPS) -> None:
    with _each_step_first(lambda number: reached()):
        _run(folder, steps)


def _some_steps(folder: Path, steps: int) -> None:
    def stop(number: int) -> None:
        if number == steps:
            os.kill(os.getpid(), signal.SIGTERM)

    with _each_step_first(stop):
        _run(folder)


def _train(here: Path, work: Callable[[], None], code: int) -> None:
    ended = start(work, here / "log").end()
    if ended != code:
        raise RuntimeError(f"a run ended with {ended}, not {code}: {(here / 'log').read_text()[-500:]}")


def _moved_to(folder: Path, run: Path, step: int) -> None:
    """The run of `run` in `folder`, as if it had come to `step`."""
    folder.mkdir()
    (folder / "run.json").write_text((run / "run.json").read_text())
    saved = checkpoint.load(checkpoint.find(run / "checkpoints")[-1])
    saved["progress"]["step"] = saved["scheduler"]["last_epoch"] = step
    checkpoint.save(folder / "checkpoints", step, saved)


def _history(here: Path, count: int, tally: Tally) -> None:
    """To resume behind a long log costs what it costs behind a short one, and a run of 10⁹ steps begins like one of 10."""
    short, long = here / "short", here / "long"
    _train(here, partial(_some_steps, short, 10), 143)
    _moved_to(long, short, count)
    record = (short / "log.jsonl").read_text().splitlines()[-1].replace('"step": 10,', '"step": {step},', 1)
    records = (record.replace("{step}", str(step)) + "\n" for step in range(1, count + 8))
    with open(long / "log.jsonl", "w") as log:
        log.writelines(records)
        log.write(record[:40])  # a crashed run came seven steps further, and into the eighth
    costs = {run: measured(here / f"of-{run.name}", partial(_to_the_first_step, run)) for run in (short, long)}
    _must_cost_the_same(f"resume at step {count}", costs[short], costs[long], tally)
    fresh = {
        steps: measured(here / f"of-{steps}", partial(_to_the_first_step, None, steps=steps)) for steps in (10, STEPS)
    }
    _must_cost_the_same("begin a run of 10⁹ steps", fresh[10], fresh[STEPS], tally)
    _train(here, partial(_some_steps, long, 5), 143)
    with open(long / "log.jsonl") as log:
        steps = [json.loads(line)["step"] for line in log]
    tally.count += len(steps)
    if steps != list(range(1, count + 6)):
        tally.lost.append(f"{len(steps)} records of {count + 5}, from {steps[:1]} to {steps[-1:]}")


def _end_of_many_steps(here: Path, count: int, tally: Tally) -> None:
    """The last of 10⁹ steps, whose number has a digit more: its checkpoint is found."""
    _train(here, partial(_some_steps, here / "begun", 2), 143)
    _moved_to(here / "late", here / "begun", STEPS - 3)
    _train(here, partial(_run, here / "late"), 0)
    found = [checkpoint.load(path)["progress"]["step"] for path in checkpoint.find(here / "late" / "checkpoints")]
    tally.count += 1
    if found != [STEPS - 3, STEPS]:
        tally.lost.append(f"after {STEPS:,} steps there are checkpoints of {found}")
    _train(here, partial(_to_the_first_step, here / "late", lambda: os._exit(9)), 0)  # nothing is left to do


def _checkpoints(here: Path, count: int, tally: Tally) -> None:
    """The ten thousandth checkpoint costs what the tenth did, and so does to begin behind it; three are kept."""
    few, many = (here / name for name in ("few", "many"))
    for folder, saves in ((few, 10), (many, count // 100)):
        _train(here, partial(_save_often, folder, range(1, saves + 1)), 0)
        tally.count += saves
        kept = sorted(path.name for path in (folder / "checkpoints").iterdir())
        if [int(name.split("-")[1]) for name in kept] != list(range(saves - KEPT + 1, saves + 1)):
            tally.wrong.append(f"after {saves} saves the folder holds {kept}")
    steps = {few: range(11, 12), many: range(count // 100 + 1, count // 100 + 2)}
    load = {f: measured(here / f"load-{f.name}", partial(_load, f)) for f in steps}
    _must_cost_the_same(f"load after {count // 100} saves", load[few], load[many], tally)
    save = {f: measured(here / f"save-{f.name}", partial(_save_often, f, steps[f])) for f in steps}
    _must_cost_the_same(f"save after {count // 100} saves", save[few], save[many], tally)


def _load(folder: Path, reached: Callable[[], None]) -> None:
    checkpoint.load_newest(folder / "checkpoints")
    reached()


def _save_often(folder: Path, steps: Iterable[int], reached: Callable[[], None] = lambda: None) -> None:
    run = RunFolder(folder, Config(keep=KEPT), 1)
    with run:
        run.open_for_writing(0, pick_device("cpu"))
        for step in steps:
            run.save({"model": {"weight": torch.ones(4)}, "progress": {"step": step, "best": None}}, step, 0.0)
    reached()


# --- a large file -------------------------------------------------------------------------------------------


def _tokens(here: Path, count: int, tally: Tally) -> None:
    """Windows at both ends of a file of 10 GB hold what was written there; to train on it takes no memory for it."""
    ends = {0: np.arange(200, dtype="<u2") % SYMBOLS, TOKENS - 200: (7 * np.arange(200, dtype="<u2") + 3) % SYMBOLS}
    paths = {"small": here / "small", "large": here / "large"}
    for path, size in ((paths["small"], 4000), (paths["large"], TOKENS)):
        with open(path, "wb") as file:
            file.truncate(2 * size)  # sparse: what was never written is read as zeros
            for place, tokens in zip((0, size - 200), ends.values(), strict=True):
                file.seek(2 * place)
                file.write(tokens.tobytes())
    large = Windows(TokenFile(str(paths["large"]), "<u2", 0, TOKENS).open(), CONTEXT, 1)
    first, last = ends.values()
    for i, written in (
        (0, first[: CONTEXT + 1]),
        (99, first[99 : 100 + CONTEXT]),
        (len(large) - 1, last[-CONTEXT - 1 :]),
    ):
        x, y = large[i]
        tally.count += 1
        if x.tolist() != written[:-1].tolist() or y.tolist() != written[1:].tolist():
            tally.wrong.append(f"window {i:,} is not what was written there")
    tally.count += 1
    if len(large) != TOKENS - CONTEXT or len(pickle.dumps(large)) > 1000:
        tally.wrong.append(f"{len(large):,} windows, {len(pickle.dumps(large)):,} bytes for a worker")
    sizes = {"small": 4000, "large": TOKENS}
    costs = {name: measured(here / f"of-{name}", partial(_train_on, paths[name], sizes[name])) for name in sizes}
    ours = {unit: costs["large"][unit] for unit in ("memory", "bytes")} | {
        "lines": 0
    }  # an order of so many is computed
    _must_cost_the_same("train on 10 GB of tokens", costs["small"], ours, tally)
    for path in paths.values():
        path.unlink()


def _train_on(path: Path, size: int, reached: Callable[[], None]) -> None:
    windows = Windows(TokenFile(str(path), "<u2", 0, size).open(), CONTEXT, 1)
    model = nn.Sequential(nn.Embedding(SYMBOLS, 8), nn.Linear(8, SYMBOLS))
    loop.train(model, windows, None, Config(steps=20, batch_size=8, device="cpu"))
    reached()
