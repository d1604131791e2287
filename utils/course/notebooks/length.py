"""How long a lecture takes a student who reads its text and its code and thinks about its claims."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.course import ROOT
from utils.course.notebooks.notebook import CLAIM, Cell, Lecture, plain_claim

# Four readers who read every cell guessed a student's time for each lecture: within about a fifth of this.
WORDS, LINES = 150, 8  # read in a minute, of prose and of code
A_CLAIM = 2  # minutes
STEP = 5  # minutes are told in fives


@dataclass(frozen=True)
class Length:
    """lines: of code that one sees and that are not blank."""

    cells: int
    words: int
    lines: int
    claims: int

    @property
    def minutes(self) -> float:
        return self.words / WORDS + self.lines / LINES + self.claims * A_CLAIM

    @property
    def rounded_minutes(self) -> int:
        """The minutes as the README and the lecture give them."""
        return STEP * round(self.minutes / STEP)


def length(lecture: Lecture) -> Length:
    """The length of a notebook; the signs before a claim are no words."""
    words = sum(len(_read(cell).split()) for cell in lecture.cells if cell.kind == "markdown")
    seen = [cell for cell in lecture.code if not cell.raw["metadata"].get("jupyter", {}).get("source_hidden")]
    lines = sum(bool(line.strip()) for cell in seen for line in cell.source.splitlines())
    return Length(len(lecture.cells), words, lines, len(lecture.claims))


def _read(cell: Cell) -> str:
    return plain_claim(cell.source) if CLAIM.match(cell.source) else cell.source


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


def measure(lectures: Sequence[Lecture]) -> int:
    """Print the length of each notebook, and of the code that is all of `train`."""
    wide = max(len(lecture.name) for lecture in lectures)
    print(f"{'':<{wide}}  cells   words   lines  claims  minutes")
    for lecture in lectures:
        own = length(lecture)
        note = "second reading" if lecture.deeper else ""
        counts = f"{own.cells:>5}  {own.words:>6,}  {own.lines:>6,}  {own.claims:>6}  {own.minutes:>7.0f}"
        print(f"{lecture.name:<{wide}}  {counts}  {note}".rstrip())
    files = import_closure("utils.loop.training")
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    print(f"train: {len(files)} files, {lines:,} lines")
    return 0
