"""The verdicts on one submission, reached in a process that student code never enters: it asks, and compares.

The checks are those of the lab's solution, run here with a secret seed; the questions in them go to a worker.
"""

import builtins
import contextlib
import io
import random
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass

from utils.course.grading import frames, sandbox
from utils.course.grading.submission import Submission
from utils.course.labs import Lab, Task, points_of
from utils.course.notebook import Cell
from utils.lab import Ask, check_names, rebuilt

MESSAGE = 4_000  # characters kept of a message


@dataclass(frozen=True)
class Patience:
    """Seconds of wall time that a worker gets: to start, for one cell, for one question."""

    start: float = 20.0
    cell: float = 60.0
    question: float = 30.0


@dataclass(frozen=True)
class Verdict:
    """One check: its points, those earned, and what the student is told if it failed."""

    task: str
    check: str
    hidden: bool
    points: int
    earned: int
    message: str = ""


class Lost(BaseException):
    """The worker died, hangs or talks nonsense. No check catches it: a check catches Exceptions."""


class NotIsolated(Exception):
    """Nothing of the submission was run."""


class RemoteAsk(Ask):
    """Asks the student's code in a worker, started when it is first asked for, and again after it was lost.

    strict: raise NotIsolated rather than run a line of it where it could read or send what it likes.
    """

    def __init__(
        self,
        new_worker: Callable[[], socket.socket],
        submission: Submission,
        seed: int,
        patience: Patience,
        strict: bool = False,
    ):
        self.new_worker, self.submission, self.patience, self.strict = new_worker, submission, patience, strict
        self.numbers = random.Random(f"numbers of {seed}")
        self.worker: socket.socket | None = None
        self.skipped: dict[str, str] = {}  # cells that no worker survived, and why
        self.raised: dict[str, tuple] = {}  # cells that raised when they were last run
        self.isolation: dict[str, str] = {}

    def begin(self) -> None:
        """Have a worker that has run the cells. Lost if none survives even that."""
        while self.worker is None:
            self._load()

    def _load(self) -> None:
        worker = self.new_worker()
        running = None
        number = self._number()
        self.raised = {}
        try:
            self.isolation = frames.receive(worker, self.patience.start)
            if self.strict and not isolated(self.isolation):
                raise NotIsolated(", ".join(f"{layer}: {self.isolation[layer]}" for layer in sandbox.ISOLATING))
            cells = [cell for cell in self.submission.cells if cell[0] not in self.skipped]
            load = {"cells": cells, "given": self.submission.given, "number": number}
            frames.send(worker, load, self.patience.start)
            while (said := frames.receive(worker, self.patience.cell)).get("number") != number:
                running = said.get("begun")
                if "raised" in said:
                    self.raised[said["ended"]] = said["raised"]
        except (frames.Broken, AttributeError, TypeError, KeyError) as error:
            worker.close()
            if running in dict(self.submission.cells) and running not in self.skipped:
                self.skipped[running] = f"this cell was left out: with it the notebook came to no end ({error})"
                return
            raise Lost(f"the notebook's cells could not be run: {error}") from error
        self.worker = worker

    def _number(self) -> int:
        return self.numbers.getrandbits(62)

    def _value(self, code: str, inputs: dict):
        number = self._number()
        try:
            frames.send(self.worker, {"code": code, "inputs": inputs, "number": number}, self.patience.question)
            reply = frames.receive(self.worker, self.patience.question)
            if type(reply) is not dict or reply.get("number") != number or len({"value", "raised"} & set(reply)) != 1:
                raise frames.Broken("it answered something else")
        except frames.Broken as error:
            self.end()
            raise Lost(f"no answer: {error}") from error
        if "raised" in reply:
            raise _raised(reply["raised"])
        return reply["value"]

    def end(self) -> None:
        if self.worker:
            self.worker.close()
        self.worker = None


def isolated(states: dict[str, str]) -> bool:
    """Whether what the layers of a sandbox came to keeps a submission from files and from the network."""
    return all(states.get(layer) == sandbox.ON for layer in sandbox.ISOLATING)


def _raised(told: object) -> Exception:
    try:
        kinds, text = told
        return rebuilt(tuple(map(str, kinds)), str(text))
    except (TypeError, ValueError):
        return RuntimeError("an exception that did not say what it is")


def judge(lab: Lab, ask: RemoteAsk, seed: int) -> list[Verdict]:
    """Every check of the lab, in order."""
    return [_judged(task, check, ask, seed) for task in lab.tasks for check in task.checks]


def _judged(task: Task, check: Cell, ask: RemoteAsk, seed: int) -> Verdict:
    points, hidden = points_of(check), check is task.hidden
    message = _run(check, ask, seed)
    earned = 0 if message else points
    return Verdict(task.name, check.id, hidden, points, earned, message[:MESSAGE])


def _run(check: Cell, ask: RemoteAsk, seed: int) -> str:
    """ "" if the check passes, else what it says."""
    try:
        ask.begin()
        names = check_names(ask, seed) | {"__name__": "check", "__builtins__": vars(builtins).copy()}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(check.source, check.id, "exec"), names)
    except Lost as error:
        return f"{error}. Does it loop for ever, end the process, or use too much memory?"
    except NotImplementedError as error:
        return f"not solved yet: {error}"
    except AssertionError as error:
        return str(error) or "a check failed"
    except NotIsolated:
        raise
    except Exception as error:  # what the student's code raised, or a value that the check did not foresee
        asked = "\n".join(getattr(error, "__notes__", []))
        return f"{type(error).__name__}: {error}\n{asked}".strip()
    return ""


def as_record(verdicts: list[Verdict]) -> list[dict]:
    return [asdict(verdict) for verdict in verdicts]
