"""How long a lecture is: cells, words, lines of code, claims, minutes to read."""

from collections.abc import Sequence
from dataclasses import dataclass

from utils.course.notebooks.notebook import CLAIM, Cell, Lecture, plain_claim

WORDS, LINES = 200, 20  # read in a minute
STEP = 5  # minutes are told in fives


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


def length(lecture: Lecture) -> Length:
    """The length of a notebook; the signs before a claim are no words."""
    words = sum(len(_read(cell).split()) for cell in lecture.cells if cell.kind == "markdown")
    lines = sum(bool(line.strip()) for cell in lecture.code if cell.id != "colab" for line in cell.source.splitlines())
    return Length(len(lecture.cells), words, lines, len(lecture.claims))


def _read(cell: Cell) -> str:
    return plain_claim(cell.source) if CLAIM.match(cell.source) else cell.source


def measure(lectures: Sequence[Lecture]) -> int:
    """Print the length of each notebook."""
    wide = max(len(lecture.name) for lecture in lectures)
    print(f"{'':<{wide}}  cells   words   lines  claims  minutes")
    for lecture in lectures:
        own = length(lecture)
        note = "second reading" if lecture.deeper else ""
        counts = f"{own.cells:>5}  {own.words:>6,}  {own.lines:>6,}  {own.claims:>6}  {own.minutes:>7.0f}"
        print(f"{lecture.name:<{wide}}  {counts}  {note}".rstrip())
    return 0
