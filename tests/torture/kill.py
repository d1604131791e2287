"""SIGKILL at random instants: every restart goes on from the newest checkpoint that was saved, to the same bits."""

import random
import signal
import time
from functools import partial
from pathlib import Path

import torch
from helpers.resumable_run import same
from torture.tally import Tally
from torture.victims import Victim, lines_of_a_save, start, train_to_the_end

from utils.loop import checkpoint

KILLS_PER_RUN = 4
RUNS_PER_KILL = 10  # at the most: a run may end before its instant comes, but not every run
STEP_SECONDS = 0.02  # about, between two saves


def kill(folder: Path, count: int, seed: int = 0) -> Tally:
    """Kill runs `count` times, every second time inside a save; every second run fetches its examples by two workers."""
    tally, draw = Tally("SIGKILL at random instants"), random.Random(seed)
    lines = lines_of_a_save(folder / "measured")
    expected = finish(folder / "uninterrupted")
    runs = 0
    while tally.count < count:
        runs += 1
        if runs > RUNS_PER_KILL * (count + 1):
            tally.wrong.append("runs end before they are killed: nothing was tried")
            break
        here, workers = folder / f"run-{runs}", 2 * (runs % 2)
        for _ in range(min(KILLS_PER_RUN, count - tally.count)):
            inside = tally.count % 2 == 0
            victim, code = _kill(here, workers, draw, lines if inside else None)
            if code == 0:
                break  # it ended before its instant came
            if code != -signal.SIGKILL:
                tally.wrong.append(f"{here}: a restart ended with {code}: {last_line(here)}")
                break
            tally.count += 1
            tally.notes["inside a save"] += inside
            tally.notes["with workers"] += workers > 0
            check_newest(here / "run", victim.steps, tally)
        outcome = finish(here, workers=workers)
        if outcome is None:
            tally.wrong.append(f"{here}: the last restart failed: {last_line(here)}")
        elif not same(outcome, expected):
            tally.wrong.append(f"{here}: other bits than the uninterrupted run's")
        tally.notes["runs"] += 1
    return tally


def _kill(here: Path, workers: int, draw: random.Random, lines: int | None) -> tuple[Victim, int]:
    """Start the run in `here`, kill it, in a save if `lines` says of how many lines one consists; (victim, exit code)."""
    here.mkdir(exist_ok=True)
    saves = draw.randrange(3)
    instant = (saves, draw.randrange(lines), signal.SIGKILL) if lines else None
    victim = start(partial(train_to_the_end, here, workers=workers), here / "log", instant)
    if instant:
        return victim, victim.end()
    victim.wait_for(saves)
    time.sleep(draw.random() * 2 * STEP_SECONDS)
    return victim, victim.end(signal.SIGKILL)


def check_newest(run: Path, saved: list[int], tally: Tally) -> None:
    """A restart will load the newest that was said to be saved, or one that has its name but was not yet said to be."""
    newest_saved = max(saved, default=0)
    damaged = []
    newest = checkpoint.load_newest(run / "checkpoints", say=damaged.append)
    found = newest["progress"]["step"] if newest else 0
    if found < newest_saved or damaged:
        tally.lost.append(f"{run}: saved {newest_saved}, found {found}; {'; '.join(damaged) or 'nothing is damaged'}")


def finish(here: Path, **options) -> dict | None:
    """The outcome of the run in `here`, started once more; None if it fails."""
    here.mkdir(exist_ok=True)
    code = start(partial(train_to_the_end, here, **options), here / "log").end()
    return torch.load(here / "outcome") if code == 0 else None


def last_line(here: Path) -> str:
    """What the run in `here` printed last."""
    return ["", *(here / "log").read_text().splitlines()][-1]
