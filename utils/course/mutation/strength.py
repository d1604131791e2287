"""Assertion strength: the share of small changes to a lecture's code that make one of its asserts fail.

strength = killed by an assert / (killed + crashed + survived - judged equivalent). A mutant is stillborn if Python or torch
refuses the changed statement itself, if its sizes do not match, or if only the name is missing that a statement left out
would have made: it has no value that an assert could check, and does not count. A mutant that fails in any other way has
crashed, and counts against the strength.

Each mutant runs in a fork from its cell to the end of its section (the next heading), in the short form, on a CPU, under a
time limit. Proofs do not depend on each other, so only those later cells run that depend on a name which the mutant touched,
and the cells that these need. Other links (a random stream, a global switch) are not followed, which can only lower the
strength. A cell that is not a proof is shared code: its mutants also run the asserting cells of later sections that depend
on it, for SHARED seconds or at least one such cell. If a cell fails unchanged, run in the same way, its mutants are not
measured.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from utils.course import ROOT
from utils.course.mutation.fork_runner import CRASHED, KILLED, STILLBORN, SURVIVED
from utils.course.mutation.mutants import Code, Mutant, mutants_of
from utils.course.notebooks.dataflow import with_their_needs
from utils.course.notebooks.notebook import Lecture, code_hash, read
from utils.proof_text import NOT_VERIFIED

STORE = ROOT / "tests" / "strength"
EQUIVALENT = "equivalent.toml"
SAMPLE = 250  # of which about a fifth are stillborn
PATIENCE = 5  # a mutant's time limit, as a multiple of the time of its unchanged cells
LEAST = 10.0  # the least time limit, in seconds
SHARED = 10.0
MEMORY = 6 * 2**30  # bytes that one mutant may allocate
HEARTBEAT = 30.0  # seconds between two lines of progress if the output is not a terminal
NOTHING = "–"


@dataclass(frozen=True)
class Trial:
    """A mutant after its run; `cell` and `why` say where it ended and by what."""

    mutant: Mutant
    outcome: str
    why: str
    equivalent: bool = False


@dataclass(frozen=True)
class Entry:
    """A mutant that a person has judged equivalent: no assert could tell it from the original code."""

    lecture: str
    cell: str
    hash: str
    change: str
    reason: str


@dataclass(frozen=True)
class Measured:
    """What came out for one lecture."""

    lecture: Lecture
    trials: tuple[Trial, ...]
    mutants: int  # that there are; the trials may be a sample of them
    seed: int
    unmeasured: dict[str, str]  # cell id → why its mutants could not be judged
    notes: tuple[str, ...]  # about entries of the equivalents that no longer fit

    def count(self, outcome: str) -> int:
        return sum(trial.outcome == outcome and not trial.equivalent for trial in self.trials)

    @property
    def equivalent(self) -> int:
        return sum(trial.equivalent for trial in self.trials)

    @property
    def judged(self) -> int:
        return sum(map(self.count, (KILLED, CRASHED, SURVIVED)))

    @property
    def percent(self) -> float:
        return 100 * self.count(KILLED) / max(1, self.judged)

    @property
    def percent_of_all(self) -> float:
        """The same with the stillborn counted against it."""
        return 100 * self.count(KILLED) / max(1, self.judged + self.count(STILLBORN))


def strength(
    paths: list[Path],
    *,
    sample: int | None,
    seed: int,
    jobs: int,
    build: Path,
    cells: list[str] | None = None,
    store: Path = STORE,
) -> int:
    """Measure the lectures one after the other, print and store what came out; `sample` None: all mutants.

    With `cells` (ids) only their mutants run, and nothing is stored.

    Returns the exit status: 1 if a lecture could not be measured whole or an entry of the equivalents does not fit. Raises
    ValueError for a notebook or a list of equivalents that cannot be read.
    """
    entries, status = read_equivalents(store / EQUIVALENT), 0
    for path in paths:
        lecture = read(path)
        try:
            measured = measure(lecture, entries, sample=sample, seed=seed, jobs=jobs, cells=cells)
        except RuntimeError as error:
            print(f"✗ {lecture.name}: {error}", file=sys.stderr)
            status = 1
            continue
        print(report(measured))
        proposal = build / "strength" / f"{lecture.name}.toml"
        write_proposal(measured, proposal)
        print(f"the survivors as entries for {EQUIVALENT}: {proposal}")
        if not cells:
            write_result(measured, store / f"{lecture.name}.json")
        status = 1 if measured.unmeasured or measured.notes else status
    return status


def measure(
    lecture: Lecture,
    entries: list[Entry],
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
    jobs: int = 2,
    cells: list[str] | None = None,
) -> Measured:
    """Run the mutants of one lecture, or of its `cells` alone. Raises RuntimeError where a cell fails as it stands."""
    code = Code(lecture)
    known = mutants_of(code, set())
    if cells:
        code.cut_to(cells)
    rehearsal = {line["cell"]: line for line in _in_processes(code, [], 1, lecture.name)}
    everything = mutants_of(code, {name for name, line in rehearsal.items() if line["unverified"]})
    if cells:
        everything = [mutant for mutant in everything if mutant.cell.id in cells]
    chosen = everything if sample is None else draw(everything, sample, seed)
    seconds = [rehearsal[cell.id]["seconds"] for cell in code.cells]
    plan, unchanged = _plan(code, chosen, seconds)
    said = {line["trial"]: line for line in _in_processes(code, plan, jobs, lecture.name) if "trial" in line}
    failing = [n for n in range(len(chosen), len(plan)) if said[n]["outcome"] != SURVIVED]
    unmeasured, trials = {}, []
    held, notes = _held(lecture, known, entries)
    for number, mutant in enumerate(chosen):
        witness = unchanged[number]
        if witness in failing:
            unmeasured[mutant.cell.id] = said[witness]["why"]
            continue
        outcome, why = said[number]["outcome"], said[number]["why"]
        if outcome == CRASHED and _only_missing(mutant, why):
            outcome = STILLBORN
        equivalent = (mutant.cell.id, mutant.change) in held
        if equivalent and outcome == KILLED:
            notes.append(f"held equivalent, yet an assert kills it: {mutant.cell.id}, {mutant.change} ({why})")
        trials.append(Trial(mutant, outcome, why, equivalent and outcome != KILLED))
    return Measured(lecture, tuple(trials), len(everything), seed, unmeasured, tuple(notes))


def _only_missing(mutant: Mutant, why: str) -> bool:
    """Whether a statement was left out, and all that came of it is that what it makes is not there: x.a = 1 → pass."""
    left_out = re.search("⟦(.*) → pass⟧", mutant.change)
    missing = re.search(r"NameError: name '(\w+)'|AttributeError: .* has no attribute '(\w+)'|KeyError: '(.+)'$", why)
    return (
        bool(left_out and missing)
        and re.search(rf"\b{re.escape(missing[missing.lastindex])}\b", left_out[1]) is not None
    )


def draw(mutants: list[Mutant], number: int, seed: int) -> list[Mutant]:
    """At least `number` mutants (all, if there are fewer), in order: each cell gives its share, and at least one.

    A cell's own order of drawing hangs on the seed and its id alone, so that an edit elsewhere changes little.
    """
    cells: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        cells.setdefault(mutant.cell.id, []).append(mutant)
    exact = {name: number * len(group) / len(mutants) for name, group in cells.items()}
    share = {name: min(len(cells[name]), max(1, int(exact[name]))) for name in cells}
    for name in sorted(cells, key=lambda name: (int(exact[name]) - exact[name], name)):
        if sum(share.values()) < number and share[name] < len(cells[name]):
            share[name] += 1
    chosen = set()
    for name, group in cells.items():
        order = list(range(len(group)))
        random.Random(f"{seed} {name}").shuffle(order)
        chosen |= {id(group[place]) for place in order[: share[name]]}
    return [mutant for mutant in mutants if id(mutant) in chosen]


def _plan(code: Code, chosen: list[Mutant], seconds: list[float]) -> tuple[list[dict], dict[int, int]]:
    """The trials of the mutants, then those of unchanged cells; and which of the latter vouches for which mutant."""
    position = {cell.id: place for place, cell in enumerate(code.cells)}
    ways = [(position[m.cell.id], *_then(code, position[m.cell.id], m, seconds)) for m in chosen]
    trials = [
        _trial(number, way, mutant.source, mutant.lines, seconds)
        for number, (way, mutant) in enumerate(zip(ways, chosen, strict=True))
    ]
    vouching: dict[tuple, int] = {}
    for way in sorted(set(ways), key=lambda way: (-len(way), way)):
        if not any(set(way) <= set(other) for other in vouching):
            vouching[way] = len(trials)
            trials.append(_trial(len(trials), way, code.cells[way[0]].source, (0, 0), seconds))
    unchanged = {
        number: next(vouching[other] for other in vouching if set(way) <= set(other)) for number, way in enumerate(ways)
    }
    return trials, unchanged


def _trial(number: int, way: tuple[int, ...], source: str, lines: tuple[int, int], seconds: list[float]) -> dict:
    """One trial that runs `source` in place of the cell way[0], then the other cells of `way`."""
    limit = max(LEAST, PATIENCE * sum(seconds[place] for place in way))
    return {"trial": number, "at": way[0], "source": source, "lines": lines, "then": way[1:], "limit": limit}


def _then(code: Code, at: int, mutant: Mutant, seconds: list[float]) -> list[int]:
    """The cells that run after the mutated one: its section's that can notice, and for shared code those further on."""
    users = code.users(at, set(mutant.touched))
    chosen = [place for place in users if place in code.section(at)]
    if code.cells[at].index not in code.proofs:
        for place in users[len(chosen) :]:
            if chosen and sum(seconds[index] for index in [*chosen, place]) > SHARED:
                break
            chosen.append(place)
    return with_their_needs(code.uses, at + 1, chosen, code.proof_places)


def _in_processes(code: Code, trials: list[dict], jobs: int, label: str) -> list[dict]:
    """Have `fork_runner` execute the plan in `jobs` new processes without a GPU, each a share of the trials; their lines."""
    ordered = sorted(trials, key=lambda trial: trial["at"])
    total, lines = len(trials) or len(code.cells), []
    with (
        ThreadPoolExecutor(jobs) as pool,
        tqdm(total=total, desc=label, unit="mutant" if trials else "cell", leave=False, disable=None) as bar,
    ):
        spoke = time.monotonic()

        def hear(line: dict) -> None:
            nonlocal spoke
            lines.append(line)
            bar.update("trial" in line or not trials)
            if bar.disable and time.monotonic() - spoke > HEARTBEAT:
                spoke, done = time.monotonic(), sum("trial" in line or not trials for line in lines)
                print(f"{label}: {done} of {total} {'mutants' if trials else 'cells'}", file=sys.stderr, flush=True)

        work = [pool.submit(_in_a_process, code, ordered[n::jobs], bool(trials), hear) for n in range(jobs)]
        for future in work:
            future.result()
    return lines


def _in_a_process(code: Code, trials: list[dict], trials_only: bool, hear) -> None:
    plan = {
        "cells": [{"id": cell.id, "source": cell.source} for cell in code.cells],
        "trials": trials,
        "trials_only": trials_only,
        "memory": MEMORY,
        "not_verified": NOT_VERIFIED,
    }
    surroundings = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "utils.course.mutation.fork_runner"]
    problem = None
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as told:
        json.dump(plan, told)
        told.seek(0)
        worker = subprocess.Popen(
            command, stdin=told, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | surroundings
        )
        with worker:
            for text in worker.stdout:
                line = json.loads(text)
                problem = line if line.get("error") else problem
                hear(line)
        errors.seek(0)
        last = [line for line in errors.read().splitlines() if line.strip()][-1:]
    if problem:
        raise RuntimeError(f"cell {problem['cell']} fails as it stands, make it green first: {problem['error']}")
    if worker.returncode:
        raise RuntimeError(f"the run broke off with exit status {worker.returncode}: {' '.join(last)}")


# The mutants held equivalent


def read_equivalents(path: Path) -> list[Entry]:
    """The [[equivalent]] tables of a TOML file, none if there is no file. Raises ValueError for what is no such list."""
    if not path.exists():
        return []
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
        entries = [Entry(**table) for table in tables]
    except (TypeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    for entry in entries:
        if not entry.reason.strip():
            raise ValueError(f"{path}: {entry.cell}, {entry.change}: held equivalent without a reason")
    return entries


def _held(lecture: Lecture, mutants: list[Mutant], entries: list[Entry]) -> tuple[set, list[str]]:
    """(cell id, change) of the mutants held equivalent, and a note for each entry that fits no mutant any more."""
    known = {(m.cell.id, m.change): m.cell_hash for m in mutants}
    held, notes = set(), []
    for entry in entries:
        if entry.lecture != lecture.name:
            continue
        if known.get((entry.cell, entry.change)) == entry.hash:
            held.add((entry.cell, entry.change))
        else:
            notes.append(f"stale, judge it again: {entry.cell}, {entry.change} (the cell has changed since)")
    return held, notes


def write_proposal(measured: Measured, path: Path) -> None:
    """The survivors as entries that lack only the reason."""
    keys = ("lecture", "cell", "hash", "change")
    blocks = []
    for trial in measured.trials:
        if trial.outcome == SURVIVED and not trial.equivalent:
            mutant = trial.mutant
            values = (measured.lecture.name, mutant.cell.id, mutant.cell_hash, mutant.change)
            lines = [
                f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in zip(keys, values, strict=True)
            ]
            blocks.append("\n".join(["[[equivalent]]", *lines, 'reason = ""\n']))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(blocks), encoding="utf-8")


# What is kept, and what the ledger shows


def write_result(measured: Measured, path: Path) -> None:
    result = {
        "lecture": measured.lecture.name,
        "code": code_hash(measured.lecture),
        "strength": round(measured.percent, 1),
        "with stillborn": round(measured.percent_of_all, 1),
        "killed by an assert": measured.count(KILLED),
        "crashed": measured.count(CRASHED),
        "survived": measured.count(SURVIVED),
        "stillborn": measured.count(STILLBORN),
        "held equivalent": measured.equivalent,
        "mutants": measured.mutants,
        "sample": len(measured.trials),
        "seed": measured.seed,
        "torch": torch.__version__,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def stored(lecture: Lecture, store: Path = STORE) -> str:
    """What the ledger shows: "83 %", "83 % stale" if the lecture's code has changed since, "–" if it was never measured."""
    path = store / f"{lecture.name}.json"
    if not path.exists():
        return NOTHING
    result = json.loads(path.read_text(encoding="utf-8"))
    return f"{result['strength']:.0f} %" + (" stale" if result["code"] != code_hash(lecture) else "")


def report(measured: Measured) -> str:
    """The survivors and the crashed, cell by cell, and the counts."""
    lines = []
    for outcome in (SURVIVED, CRASHED):
        for trial in measured.trials:
            if trial.outcome == outcome and not trial.equivalent:
                lines.append(f"{outcome}  {trial.mutant.cell.id}  {trial.mutant.change}")
                lines += [f"          {trial.why}"] * bool(trial.why)
    lines += [f"NOT MEASURED  {cell}: unchanged it fails too, {why}" for cell, why in measured.unmeasured.items()]
    lines += measured.notes
    weak = Counter(t.mutant.cell.id for t in measured.trials if t.outcome in (CRASHED, SURVIVED) and not t.equivalent)
    if weak:
        lines += ["", "most left over: " + ", ".join(f"{cell} {n}" for cell, n in weak.most_common(8))]
    return "\n".join([*lines, "", summary(measured)])


def summary(measured: Measured) -> str:
    drawn = "all" if len(measured.trials) == measured.mutants else f"{len(measured.trials)} of {measured.mutants}"
    return (
        f"{measured.lecture.name}: strength {measured.percent:.1f} % ({drawn} mutants: "
        f"{measured.count(KILLED)} killed by an assert, {measured.count(CRASHED)} crashed, "
        f"{measured.count(SURVIVED)} survived, {measured.equivalent} held equivalent, "
        f"{measured.count(STILLBORN)} stillborn)"
    )
