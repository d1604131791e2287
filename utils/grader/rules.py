"""How submissions are graded: the patience for them, their limits, and what else decides a grade."""

from dataclasses import dataclass, field

from utils.grader.sandbox import Limits

# The share of its points that a check earns which passes only with our version of an earlier task, since the student's
# failed. All of them: for that task the points are lost already, and nobody pays twice for one mistake.
FOLLOW_THROUGH = 1.0
WRONG, RAISED, NO_ANSWER, UNSOLVED = "wrong", "raised", "no answer", "unsolved"  # why a check was not passed


@dataclass(frozen=True)
class Patience:
    """Seconds of work (see Clock) that a worker gets: to start, for one cell, for one question, for all cells of the
    student's own together. Limits.cpu leaves as much again for all else.
    """

    start: float = 20.0
    cell: float = 60.0
    question: float = 30.0
    own: float = 120.0


@dataclass(frozen=True)
class Rules:
    """How submissions are graded; with the submission and the checks it decides the grade.

    notebook: also run the whole notebook in the sandbox, for its student. follow_through: also ask tasks again with our
    code of an earlier one that failed.
    """

    seed: int
    patience: Patience = field(default_factory=Patience)
    limits: Limits = field(default_factory=Limits)
    seconds: float = 900.0  # of wall time for one submission in all
    strict: bool = False
    notebook: bool = False
    follow_through: bool = True
