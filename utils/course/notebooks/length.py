"""How long a lecture takes a student who reads its text and its code and thinks about its claims."""

from collections.abc import Sequence
from dataclasses import dataclass

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
