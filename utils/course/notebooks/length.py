"""How long a lecture is, and the limits of an evening: cells, words, lines of code, claims, minutes to read."""

from collections.abc import Sequence
from dataclasses import dataclass

from utils.course.notebooks.notebook import CLAIM, Cell, Lecture, plain_claim

WORDS, LINES = 200, 20  # read in a minute
STEP = 5  # minutes are told in fives
MOST = {"cells": 130, "words": 5_000, "claims": 35, "minutes": 75}
FEWEST_CLAIMS = 20


@dataclass(frozen=True)
class Length:
    """lines: of code that are not blank, without the cell that only Colab runs."""

    cells: int
    words: int
    lines: int
    claims: int

    @property
    def minutes(self) -> float:
        return self.words / WORDS + self.lines / LINES

    @property
    def told(self) -> int:
        """The minutes as the README and the lecture give them."""
        return STEP * round(self.minutes / STEP)

    @property
    def too_much(self) -> list[str]:
        """What is beyond the limits of an evening, in words."""
        found = [
            f"{getattr(self, name):,.0f} {name}, more than {most:,}"
            for name, most in MOST.items()
            if getattr(self, name) > most
        ]
        few = [f"{self.claims} claims, fewer than {FEWEST_CLAIMS}"] if self.claims < FEWEST_CLAIMS else []
        return found + few


def length(lecture: Lecture) -> Length:
    """The length of a notebook; the signs before a claim are no words."""
    words = sum(len(_read(cell).split()) for cell in lecture.cells if cell.kind == "markdown")
    lines = sum(bool(line.strip()) for cell in lecture.code if cell.id != "colab" for line in cell.source.splitlines())
    return Length(len(lecture.cells), words, lines, len(lecture.claims))


def _read(cell: Cell) -> str:
    return plain_claim(cell.source) if CLAIM.match(cell.source) else cell.source


def measure(lectures: Sequence[Lecture]) -> int:
    """Print the length of each notebook, and what is beyond an evening, which a second reading may be."""
    wide = max(len(lecture.name) for lecture in lectures)
    print(f"{'':<{wide}}  cells   words   lines  claims  minutes")
    for lecture in lectures:
        own = length(lecture)
        limits = [] if lecture.number is None else own.too_much
        note = "second reading" if lecture.deeper else "; ".join(limits)
        counts = f"{own.cells:>5}  {own.words:>6,}  {own.lines:>6,}  {own.claims:>6}  {own.minutes:>7.0f}"
        print(f"{lecture.name:<{wide}}  {counts}  {note}".rstrip())
    return 0
