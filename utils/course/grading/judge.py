"""The verdicts on one submission, decided in a process that never runs student code: it sends questions and compares.

The checks are those of the lab's solution, run here with a secret seed; the questions in them go to a worker.
"""

import builtins
import contextlib
import io
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from utils.course.grading import protocol, sandbox
from utils.course.grading.submission import Submission
from utils.course.notebooks.lab import Lab, Task, points_of
from utils.course.notebooks.notebook import Cell
from utils.lab.ask import Ask, check_names, rebuilt

MESSAGE = 4_000  # characters of a message that are kept
FEW = 3  # cells that are skipped one by one
MOST_TOLD = 100  # cells whose exceptions are kept


@dataclass(frozen=True)
class Patience:
    """Seconds of wall time that a worker gets: to start, for one cell, for one question."""

    start: float = 20.0
    cell: float = 60.0
    question: float = 30.0


@dataclass(frozen=True)
class Verdict:
    """One check: its points, the points earned, and the message for the student if it failed."""

    task: str
    check: str
    hidden: bool
    points: int
    earned: int
    message: str = ""


class Lost(BaseException):
    """The worker died, hangs or sends invalid messages. A BaseException, so that no check catches it."""


class NotIsolated(Exception):
    """No code of the submission was run."""


class RemoteAsk(Ask):
    """Questions the student's code in a worker, which starts at the first question and again after it was lost.

    strict: raise NotIsolated rather than run a line of it where it could read or send what it likes.
    """

    def __init__(
        self,
        new_worker: Callable[[], socket.socket],
        submission: Submission,
        secret: str,
        patience: Patience,
        until: float,
        strict: bool = False,
    ):
        self.new_worker, self.submission, self.patience, self.strict = new_worker, submission, patience, strict
        self.until = until  # by time.monotonic(): later questions are not answered
        self.numbers = random.Random(secret)
        self.worker: socket.socket | None = None
        self.skipped: dict[str, str] = {}  # cells that no worker survived, and why
        self.raised: dict[str, tuple] = {}  # cells that raised in their last run
        self.isolation: dict[str, str] = {}

    def begin(self) -> None:
        """Start a worker and run the cells in it. Lost if no worker survives that."""
        while self.worker is None:
            self._load()

    def _load(self) -> None:
        worker = self.new_worker()
        running = None
        number = self._number()
        self.raised = {}
        try:
            self.isolation = protocol.receive(worker, self._left(self.patience.start))
            if self.strict and not isolated(self.isolation):
                raise NotIsolated(", ".join(f"{layer}: {self.isolation[layer]}" for layer in sandbox.ISOLATING))
            cells = [cell for cell in self.submission.cells if cell[0] not in self.skipped]
            load = {"cells": cells, "given": self.submission.given, "number": number}
            protocol.send(worker, load, self._left(self.patience.start))
            for running, _ in cells:
                self._run_one(worker, running)
            running = None
            if protocol.receive(worker, self._left(self.patience.cell)) != {"number": number}:
                raise protocol.Broken("it said something else")
        except (protocol.Broken, Lost) as error:
            worker.close()
            lab_cell = running is None or running.startswith(
                "given-"
            )  # without the lab's own cells grading is impossible
            if lab_cell or running in self.skipped or time.monotonic() > self.until:
                raise Lost(f"the notebook's cells could not be run: {error}") from error
            self._skip(running, f"this cell was left out: with it the notebook came to no end ({error})")
            return
        self.worker = worker

    def _skip(self, name: str, why: str) -> None:
        """Do not run this cell again. A cell may break later ones: after a few, skip all cells that belong to no task."""
        self.skipped[name] = why
        student_cells = [each for each, _ in self.submission.cells if not each.startswith(("code-", "given-"))]
        if len(self.skipped) == FEW and not set(student_cells) <= self.skipped.keys():
            self.skipped = dict.fromkeys(student_cells, why)

    def _run_one(self, worker: socket.socket, name: str) -> None:
        """Receive the two messages that the cell `name` has begun and ended. Broken for any others."""
        if protocol.receive(worker, self._left(self.patience.cell)) != {"begun": name}:
            raise protocol.Broken("it said something else")
        message = protocol.receive(worker, self._left(self.patience.cell))
        if (
            type(message) is not dict
            or message.pop("ended", None) != name
            or set(message) not in ({"value"}, {"raised"})
        ):
            raise protocol.Broken("it said something else")
        if "raised" in message and len(self.raised) < MOST_TOLD:
            self.raised[name] = _told(message["raised"])

    def _left(self, seconds: float) -> float:
        """`seconds`, or fewer if the submission has less time left. Lost if it has none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise Lost("the time for one submission is used up")
        return min(seconds, left)

    def _number(self) -> int:
        return self.numbers.getrandbits(62)

    def _value(self, code: str, inputs: dict):
        number = self._number()
        try:
            protocol.send(
                self.worker, {"code": code, "inputs": inputs, "number": number}, self._left(self.patience.question)
            )
            reply = protocol.receive(self.worker, self._left(self.patience.question))
            if type(reply) is not dict or reply.get("number") != number or len({"value", "raised"} & set(reply)) != 1:
                raise protocol.Broken("it answered something else")
        except protocol.Broken as error:
            self.end()
            raise Lost(f"no answer: {error}") from error
        if "raised" in reply:
            raise rebuilt(*_told(reply["raised"]))
        return reply["value"]

    def end(self) -> None:
        if self.worker:
            self.worker.close()
        self.worker = None


def isolated(states: dict[str, str]) -> bool:
    """Whether the sandbox layers that are on keep a submission from files and from the network."""
    return all(states.get(layer) == sandbox.ON for layer in sandbox.ISOLATING)


def _told(said: object) -> tuple[tuple[str, ...], str]:
    """The exception that a worker reports, in the form of lab.described, whatever the worker has sent."""
    if type(said) is tuple and len(said) == 2 and type(said[0]) is tuple and said[0]:
        return tuple(str(kind)[:100] for kind in said[0][:10]), str(said[1])[:MESSAGE]
    return ("RuntimeError",), "an exception that did not say what it is"


def judge(lab: Lab, ask: RemoteAsk, seed: int) -> list[Verdict]:
    """Every check of the lab, in order. The hidden ones run last, so that no other check's message can reveal them."""
    pairs = [(task, check) for task in lab.tasks for check in task.checks]
    reached = {
        check.id: _judged(task, check, ask, seed)
        for task, check in sorted(pairs, key=lambda pair: pair[1] is pair[0].hidden)
    }
    return [reached[check.id] for _, check in pairs]


def _judged(task: Task, check: Cell, ask: RemoteAsk, seed: int) -> Verdict:
    points, hidden = points_of(check), check is task.hidden
    message = _run(check, ask, seed)
    earned = 0 if message else points
    return Verdict(task.name, check.id, hidden, points, earned, message[:MESSAGE])


def _run(check: Cell, ask: RemoteAsk, seed: int) -> str:
    """The message of the check, or "" if it passes."""
    try:
        with _stopped_at(ask.until), contextlib.redirect_stdout(io.StringIO()):
            ask.begin()
            names = check_names(ask, seed) | {"__name__": "check", "__builtins__": vars(builtins).copy()}
            exec(compile(check.source, check.id, "exec"), names)
    except Lost as error:
        return f"{error}. Does it loop for ever, end the process, or use too much memory?"
    except NotImplementedError as error:
        return f"not solved yet: {error}"
    except AssertionError as error:
        return str(error) or "a check failed"
    except NotIsolated:
        raise
    except Exception as error:  # raised by the student's code, or by the check at an unexpected value
        asked = "\n".join(getattr(error, "__notes__", []))
        return f"{type(error).__name__}: {error}\n{asked}".strip()
    return ""


@contextlib.contextmanager
def _stopped_at(until: float):
    """Raise Lost in the block at that time: an answer may be made to keep the check itself busy."""

    def stop(number, frame):
        raise Lost("the time for one submission is used up")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, until - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def as_record(verdicts: list[Verdict]) -> list[dict]:
    return [asdict(verdict) for verdict in verdicts]
