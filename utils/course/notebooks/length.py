"""How long a lecture takes a student who reads its text and its code, thinks about its claims and takes its turns."""

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.course import ROOT
from utils.course.notebooks.notebook import CLAIM, Cell, Lecture, parsed, plain_claim, text_of
from utils.course.notebooks.program import BEGIN, END

# Four readers who read every cell guessed a student's time for each lecture: within about a fifth of this.
WORDS, LINES = 150, 8  # read in a minute, of prose and of code
A_CLAIM, A_TURN = 2, 4  # minutes
STEP = 5  # minutes are told in fives
TURN = re.compile(r"^@your_turn\b|^\w+ = \.\.\.", re.MULTILINE)  # a function that the student writes, and a guess
MINUTES = re.compile(r"about \d+ minutes")


@dataclass(frozen=True)
class Length:
    """lines: of code that one sees and that are not blank, those of the program as it begins left out.

    turns: functions that the student is asked to write, and guesses.

    What the cells run is no part of it: it depends on the machine, and Run All runs them while one reads.
    """

    words: int
    lines: int
    claims: int
    turns: int

    @property
    def parts(self) -> dict[str, float]:
        """The minutes for each of these."""
        return {
            "prose": self.words / WORDS,
            "code": self.lines / LINES,
            "claims": self.claims * A_CLAIM,
            "turns": self.turns * A_TURN,
        }

    @property
    def minutes(self) -> float:
        return sum(self.parts.values())

    @property
    def rounded_minutes(self) -> int:
        """The minutes as the README and the lecture give them."""
        return max(STEP, STEP * round(self.minutes / STEP))


def length(lecture: Lecture) -> Length:
    """The length of a notebook; the signs before a claim are no words."""
    words = sum(len(_read(cell).split()) for cell in lecture.cells if cell.kind == "markdown")
    lines = sum(bool(line.strip()) for cell in lecture.code if not cell.is_folded for line in _new_lines(cell, lecture))
    turns = sum(len(TURN.findall(cell.source)) for cell in lecture.code)
    return Length(words, lines, len(lecture.claims), turns)


def _new_lines(cell: Cell, lecture: Lecture) -> list[str]:
    """The lines of a cell; of the program, which a student knows as it begins, those that the lecture adds."""
    known = {line for each in lecture.code if BEGIN in each.tags for line in each.source.splitlines()}
    of_program = {BEGIN, END} & set(cell.tags)
    return [line for line in cell.source.splitlines() if not (of_program and line in known)]


def _read(cell: Cell) -> str:
    return plain_claim(cell.source) if CLAIM.match(cell.source) else cell.source


def with_minutes(book: dict, path: Path) -> dict:
    """The JSON of the notebook `path`, tidied, with its minutes where the first cell of a lecture says "about N minutes"."""
    lecture = parsed(book, path)
    if not lecture.claims:
        return book
    title, *others = book["cells"]
    source = MINUTES.sub(f"about {length(lecture).rounded_minutes} minutes", text_of(title["source"]), count=1)
    return book | {"cells": [title | {"source": source.splitlines(keepends=True)}, *others]}


def import_closure(module: str, root: Path = ROOT) -> set[Path]:
    """The files of `utils` that one reads to know all of a module ("utils.loop.training"): its own, and what it imports,
    directly or not, wherever the import stands. A package that is imported from counts with its __init__.
    """
    files, waiting = set(), [module]
    while waiting:
        words = waiting.pop().split(".")
        for length in range(1, len(words) + 1):
            place = root.joinpath(*words[:length])
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            if words[0] != "utils" or not file.is_file() or file in files:
                continue
            files.add(file)
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    waiting += [f"{node.module}.{alias.name}" for alias in node.names]
                elif isinstance(node, ast.Import):
                    waiting += [alias.name for alias in node.names]
    return files


def measure(lectures: Sequence[Lecture], ledger: Path) -> int:
    """Print the minutes of each notebook and their parts; what its cells ran is one, where `ledger` is of a run.

    Below: the size of the code that is all of `train`.
    """
    ran = {}
    if ledger.exists():
        ran = {row["lecture"]: row["seconds"] for row in json.loads(ledger.read_text(encoding="utf-8"))["lectures"]}
    wide = max(len(lecture.name) for lecture in lectures)
    print(f"{'':<{wide}}  minutes = prose + code + claims + turns +  run    words  lines  claims  turns")
    for lecture in lectures:
        own = length(lecture)
        parts = "   ".join(f"{own.parts[name]:>{len(name)}.0f}" for name in own.parts)
        run = ran.get(lecture.name, 0) / 60
        counts = f"{own.words:>6,}  {own.lines:>5}  {own.claims:>6}  {own.turns:>5}"
        print(
            f"{lecture.name:<{wide}}  {own.minutes + run:>7.0f}   {parts}   {f'{run:.1f}' if run else '–':>4}   {counts}"
        )
    files = import_closure("utils.loop.training")
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    print(f"train: {len(files)} files, {lines:,} lines")
    return 0
