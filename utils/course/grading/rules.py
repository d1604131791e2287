"""How submissions are graded: the patience for them, their limits, and what else decides a grade."""

from dataclasses import dataclass, field

from utils.course.grading.sandbox import Limits


@dataclass(frozen=True)
class Patience:
    """Seconds of work (see Clock) that a worker gets: to start, for one cell, for one question."""

    start: float = 20.0
    cell: float = 60.0
    question: float = 30.0


@dataclass(frozen=True)
class Rules:
    """How submissions are graded; with the submission and the checks it decides the grade.

    notebook: also run the whole notebook in the sandbox, for its student.
    """

    seed: int
    patience: Patience = field(default_factory=Patience)
    limits: Limits = field(default_factory=Limits)
    seconds: float = 900.0  # of wall time for one submission in all
    strict: bool = False
    notebook: bool = False
