"""The verdicts on one submission, decided in a process that never runs student code: it sends questions and compares.

The checks are those of the lab's solution, run here with a secret seed; the questions in them go to a worker.
"""

import builtins
import contextlib
import hashlib
import io
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from utils.course.notebooks.lab import Lab, Task, points_of
from utils.course.notebooks.notebook import Cell
from utils.grader import protocol, sandbox
from utils.grader.clock import Clock
from utils.grader.rules import FOLLOW_THROUGH, NO_ANSWER, RAISED, UNSOLVED, WRONG, Patience
from utils.grader.similar import is_untouched
from utils.grader.submission import Submission, depends_on, with_reference
from utils.lab.ask import Ask, check_names, exception_from

MESSAGE = 4_000  # characters of a message that are kept
FEW = 3  # cells that are skipped one by one
MOST_TOLD = 100  # cells whose exceptions are kept
SENDING = 600.0  # seconds of wall time for a worker to take a message: it reads before all else
LONGEST_LINE = 200  # characters of a line of the student's that is quoted
TIME_IS_UP = "the time for one submission is used up"
AT_WORK = 0.8  # the share of the time at work from which no busy machine was the reason that time was up


@dataclass(frozen=True)
class Verdict:
    """One check: its points, the points earned (some, if it failed behind an `ask.earned`), and the message if it failed.

    why: WRONG, RAISED, NO_ANSWER or UNSOLVED, "" if it passed at once. place: where it was raised (see _place).
    reference: the tasks before this one that had failed, and with our code of which it was asked again; message, why and
    place are of the first time.
    """

    task: str
    check: str
    hidden: bool
    points: int
    earned: int
    message: str = ""
    why: str = ""
    place: dict | None = None
    reference: tuple[str, ...] = ()


class Lost(BaseException):
    """The worker died, hangs or sends invalid messages. A BaseException, so that no check catches it."""


class NotIsolated(Exception):
    """No code of the submission was run."""


class NotGraded(Exception):
    """The grader itself failed, for example to start a worker: nothing is known of the submission."""


class RemoteAsk(Ask):
    """Questions the student's code in a worker, which starts at the first question and again after it was lost.

    clock: how long the workers have been at work. strict: raise NotIsolated rather than run a line of it where it could read
    or send what it likes. `late`: whether it came to `until`.
    """

    def __init__(
        self,
        new_worker: Callable[[], socket.socket],
        submission: Submission,
        secret: str,
        patience: Patience,
        until: float,
        clock: Clock,
        strict: bool = False,
    ):
        self.new_worker, self.submission, self.patience, self.strict = new_worker, submission, patience, strict
        self.clock, self.until = clock, until  # by time.monotonic(): later questions are not answered
        self.late, self.begun = False, time.monotonic()
        self.numbers = random.Random(secret)
        self.worker: socket.socket | None = None
        self.skipped: dict[str, str] = {}  # cells that no worker survived, and why
        self.raised: dict[str, tuple] = {}  # cells that raised in their last run
        self.isolation: dict[str, str] = {}

    def may_get_further(self) -> bool:
        """Whether it was not the submission that kept it from its end: the machine was busy, or killed a worker."""
        waited = self.clock.read() < AT_WORK * (time.monotonic() - self.begun)
        return self.clock.killed() or (self.late and waited)

    def use(self, submission: Submission) -> None:
        """From now on question a worker of its own that has run these cells."""
        self.end()
        self.submission = submission

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
            self.isolation = protocol.receive(worker, self._late(self.patience.start))
        except protocol.Broken as error:
            raise NotGraded(f"no process could be started for it: {error}") from error
        if self.strict and not sandbox.isolated(self.isolation):
            raise NotIsolated(", ".join(f"{layer}: {self.isolation[layer]}" for layer in sandbox.ISOLATING))
        try:
            cells = [cell for cell in self.submission.cells if cell[0] not in self.skipped]
            protocol.send(worker, {"cells": cells, "given": self.submission.given, "number": number}, SENDING)
            spent = dict.fromkeys(self._own_cells(), 0.0)
            for running, _ in cells:
                begun = self.clock.read()
                self._run_one(worker, running)
                if running in spent:
                    spent[running] += self.clock.read() - begun
                if sum(spent.values()) > self.patience.own:
                    running = max(spent, key=spent.get)
                    raise protocol.Broken("cells of one's own take too long together, and this one longest")
            running = None
            if protocol.receive(worker, self._late(self.patience.cell)) != {"number": number}:
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
        own = self._own_cells()
        if len(self.skipped) == FEW and not set(own) <= self.skipped.keys():
            self.skipped = dict.fromkeys(own, why)

    def _own_cells(self) -> list[str]:
        """The cells that are neither the lab's nor of a task."""
        tasks = {f"code-{name}" for name in self.submission.code}
        return [name for name, _ in self.submission.cells if name not in tasks and not name.startswith("given-")]

    def _run_one(self, worker: socket.socket, name: str) -> None:
        """Receive the two messages that the cell `name` has begun and ended. Broken for any others."""
        if protocol.receive(worker, self._late(self.patience.cell)) != {"begun": name}:
            raise protocol.Broken("it said something else")
        message = protocol.receive(worker, self._late(self.patience.cell))
        if type(message) is not dict or message.pop("ended", None) != name:
            raise protocol.Broken("it said something else")
        place = message.pop("place", None)
        if set(message) not in ({"value"}, {"raised"}):
            raise protocol.Broken("it said something else")
        if "raised" in message and len(self.raised) < MOST_TOLD:
            self.raised[name] = (*_exception_reported(message["raised"]), _place(place, self.submission))

    def _late(self, seconds: float) -> Callable[[], bool]:
        """Whether the worker has been at work for `seconds` from now. Lost if the submission has no time left."""
        until = self.clock.read() + seconds

        def late() -> bool:
            if time.monotonic() > self.until:
                self.late = True
                raise Lost(TIME_IS_UP)
            return self.clock.read() > until

        late()
        return late

    def _number(self) -> int:
        return self.numbers.getrandbits(62)

    def _value(self, code: str, inputs: dict):
        number = self._number()
        try:
            protocol.send(self.worker, {"code": code, "inputs": inputs, "number": number}, SENDING)
            reply = protocol.receive(self.worker, self._late(self.patience.question))
            if type(reply) is not dict or reply.get("number") != number or len({"value", "raised"} & set(reply)) != 1:
                raise protocol.Broken("it answered something else")
        except (protocol.Broken, Lost) as error:
            self.end()
            raise Lost(f"no answer: {error}") from error
        if "raised" in reply:
            kinds, text = _exception_reported(reply["raised"])
            # What begins a line of a message means something, and is the check's to say.
            error = exception_from(kinds, "\n    ".join(text.splitlines()))
            error.place = _place(reply.get("place"), self.submission)
            raise error
        return reply["value"]

    def end(self) -> None:
        if self.worker:
            self.worker.close()
        self.worker = None


def _exception_reported(said: object) -> tuple[tuple[str, ...], str]:
    """The exception that a worker reports, in the form of lab.kinds_and_text_of, whatever the worker has sent."""
    if type(said) is tuple and len(said) == 2 and type(said[0]) is tuple and said[0]:
        return tuple(str(kind)[:100] for kind in said[0][:10]), str(said[1])[:MESSAGE]
    return ("RuntimeError",), "an exception that did not say what it is"


def _place(said: object, submission: Submission) -> dict | None:
    """{"cell", "line", "function", "source"}: the line of the student's at which a worker says that it was raised; None for
    no line of theirs, whatever the worker has sent.
    """
    if type(said) is not tuple or [type(part) for part in said] != [str, int, str]:
        return None
    cell, line, function = said
    lines = dict(submission.cells).get(cell, "").splitlines()
    if cell.startswith("given-") or not 0 < line <= len(lines):
        return None
    source = lines[line - 1].strip()[:LONGEST_LINE]
    return {"cell": cell, "line": line, "function": function if function.isidentifier() else "", "source": source}


@dataclass(frozen=True)
class Judgement:
    """verdicts: one for each check of the lab, in order. raised and skipped: see RemoteAsk; nothing of a hidden check."""

    verdicts: tuple[Verdict, ...]
    raised: dict[str, tuple]
    skipped: dict[str, str]


def judge(lab: Lab, ask: RemoteAsk, seed: int, follow_through: bool = True) -> Judgement:
    """Every check of the lab. The hidden ones run last, and what is told of the cells is fixed before they do: a worker that
    has seen a hidden question must find no way to tell the next one, or its student.
    """
    visible = {task.check.id: _judge_check(task, task.check, ask, seed) for task in lab.tasks}
    raised, skipped = dict(ask.raised), dict(ask.skipped)
    hidden = {task.hidden.id: _judge_check(task, task.hidden, ask, seed) for task in lab.tasks if task.hidden}
    found = visible | hidden
    if follow_through:
        _follow_through(lab, ask, seed, found)
    return Judgement(tuple(found[check.id] for task in lab.tasks for check in task.checks), raised, skipped)


def _follow_through(lab: Lab, ask: RemoteAsk, seed: int, found: dict[str, Verdict]) -> None:
    """Ask the failed checks of a task again with our code of the tasks before it that failed too, if it depends on them.

    To itself a submission gains nothing by reading our code: by now the points of those tasks are decided, and the tasks
    come in order. Of what a worker says now only the points are kept; it may still tell another submission (see the README).
    """
    submission, in_use = ask.submission, []
    failed = {verdict.task for verdict in found.values() if verdict.earned < verdict.points}
    for task in lab.tasks:
        ours = [name for name in depends_on(lab, task, submission.code) if name in failed]
        if task.name not in failed or not ours or is_untouched(task, submission.code[task.name]):
            continue
        if ours != in_use:  # else the worker that has run them answers on
            ask.use(with_reference(submission, lab, ours, task))
            in_use = ours
        for check in task.checks:
            before = found[check.id]
            if before.earned < before.points:
                again = int(_judge_check(task, check, ask, seed).earned * FOLLOW_THROUGH)
                found[check.id] = replace(before, earned=max(before.earned, again), reference=tuple(ours))
        if all(found[check.id].earned == found[check.id].points for check in task.checks):
            failed.remove(task.name)  # the student's own is good enough for the tasks after it
    ask.use(submission)


def seed_of(seed: int, check: str) -> int:
    """The seed of one check: a question that hands it over says nothing about the other checks.

    It has the 31 bits that every generator takes; `seed` has those of a secret, which nobody finds by trying.
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {check}".encode()).digest()[:4]) >> 1


def _judge_check(task: Task, check: Cell, ask: RemoteAsk, seed: int) -> Verdict:
    points, hidden = points_of(check), check is task.hidden
    ask.points = 0
    why, message, place = _run(check, ask, seed_of(seed, check.id))
    earned = ask.points if why else points
    return Verdict(task.name, check.id, hidden, points, earned, message[:MESSAGE], why, place)


def _run(check: Cell, ask: RemoteAsk, seed: int) -> tuple[str, str, dict | None]:
    """(why it failed, the message, the place in the student's code), all of them empty if the check passes."""
    try:
        with _stop_at(ask), contextlib.redirect_stdout(io.StringIO()):
            ask.begin()
            names = check_names(ask, seed) | {"__name__": "check", "__builtins__": vars(builtins).copy()}
            exec(compile(check.source, check.id, "exec"), names)
    except Lost as error:
        return NO_ANSWER, f"{error}. Does it loop for ever, end the process, or use too much memory?", None
    except NotImplementedError as error:
        return UNSOLVED, f"not solved yet: {error}", getattr(error, "place", None)
    except AssertionError as error:
        raised = error.__cause__  # what an expectation met in place of a value
        return RAISED if raised else WRONG, str(error) or "a check failed", getattr(raised, "place", None)
    except (NotIsolated, NotGraded):
        raise
    except Exception as error:  # raised by the student's code, or by the check at an unexpected value
        asked = "\n".join(getattr(error, "__notes__", []))
        why = RAISED if hasattr(error, "place") else WRONG
        return why, f"{type(error).__name__}: {error}\n{asked}".strip(), getattr(error, "place", None)
    return "", "", None


@contextlib.contextmanager
def _stop_at(ask: RemoteAsk):
    """Raise Lost in the block when the submission's time is up: an answer may be made to keep the check itself busy."""

    def stop(number, frame):
        ask.late = True
        raise Lost(TIME_IS_UP)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, ask.until - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
