"""The verdicts on one submission, reached in a process that student code never enters: it asks, and compares.

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

MESSAGE = 4_000  # characters kept of a message
FEW = 3  # cells left out one by one
MOST_TOLD = 100  # cells of which it is kept what they raised


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
        secret: str,
        patience: Patience,
        until: float,
        strict: bool = False,
    ):
        self.new_worker, self.submission, self.patience, self.strict = new_worker, submission, patience, strict
        self.until = until  # by time.monotonic(): what is asked later is not answered
        self.numbers = random.Random(secret)
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
            ours = running is None or running.startswith("given-")  # without the lab's own cells nothing is graded
            if ours or running in self.skipped or time.monotonic() > self.until:
                raise Lost(f"the notebook's cells could not be run: {error}") from error
            self._skip(running, f"this cell was left out: with it the notebook came to no end ({error})")
            return
        self.worker = worker

    def _skip(self, name: str, why: str) -> None:
        """Run no such cell again. A cell can end others, later: after a few, all are left out that are no task's."""
        self.skipped[name] = why
        own = [each for each, _ in self.submission.cells if not each.startswith(("code-", "given-"))]
        if len(self.skipped) == FEW and not set(own) <= self.skipped.keys():
            self.skipped = dict.fromkeys(own, why)

    def _run_one(self, worker: socket.socket, name: str) -> None:
        """Hear that the cell `name` has begun and ended, in these words. Broken for any others."""
        if protocol.receive(worker, self._left(self.patience.cell)) != {"begun": name}:
            raise protocol.Broken("it said something else")
        said = protocol.receive(worker, self._left(self.patience.cell))
        if type(said) is not dict or said.pop("ended", None) != name or set(said) not in ({"value"}, {"raised"}):
            raise protocol.Broken("it said something else")
        if "raised" in said and len(self.raised) < MOST_TOLD:
            self.raised[name] = _told(said["raised"])

    def _left(self, seconds: float) -> float:
        """So many seconds, or those that are left for the submission. Lost if none are."""
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
    """Whether what the layers of a sandbox came to keeps a submission from files and from the network."""
    return all(states.get(layer) == sandbox.ON for layer in sandbox.ISOLATING)


def _told(said: object) -> tuple[tuple[str, ...], str]:
    """What a worker says was raised, in the form in which lab.described would have said it, whatever came."""
    if type(said) is tuple and len(said) == 2 and type(said[0]) is tuple and said[0]:
        return tuple(str(kind)[:100] for kind in said[0][:10]), str(said[1])[:MESSAGE]
    return ("RuntimeError",), "an exception that did not say what it is"


def judge(lab: Lab, ask: RemoteAsk, seed: int) -> list[Verdict]:
    """Every check of the lab, in order. The hidden ones are run last, so that no other's message can tell of them."""
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
    """ "" if the check passes, else what it says."""
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
    except Exception as error:  # what the student's code raised, or a value that the check did not foresee
        asked = "\n".join(getattr(error, "__notes__", []))
        return f"{type(error).__name__}: {error}\n{asked}".strip()
    return ""


@contextlib.contextmanager
def _stopped_at(until: float):
    """Lost is raised in the block at that time: an answer can be made to keep the check itself busy."""

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
