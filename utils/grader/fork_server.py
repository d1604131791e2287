"""A clean process that has imported what labs need and, for each submission, forks a judge and its workers.

It never reads a solution, a submission or a seed: what it does not hold, no worker forked from it can find in its memory.
The judge gets these by a line of its own, reads the lab, and asks here for workers, one after the other.
"""

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from utils.course.notebooks.lab import read_lab
from utils.grader import protocol, sandbox, worker
from utils.grader.clock import Clock
from utils.grader.copied_cells import cells_to_copy, executed_cells
from utils.grader.folders import remove
from utils.grader.judge import NotGraded, NotIsolated, RemoteAsk, judge
from utils.grader.rules import NO_ANSWER, Patience
from utils.grader.server import ENDING_SECONDS, receive, send
from utils.grader.similar import is_untouched, marks_of
from utils.grader.submission import Unreadable, read_submission

WARM = (
    "einops",
    "utils.figures.lab_results",
    "utils.loop",
    "utils.checks",
    "utils.napkin.papers",
    "utils.measure.profiler",
    "utils.measure.memory_model",
    "utils.checks.toy_problem",
    "utils.grader.probe",
    "torch._dynamo",  # which the first optimizer of a process imports, for half a second
    "encodings.idna",  # for a name of a machine, where the interpreter is in a folder that is not everybody's
)
JUDGE_MEMORY = 4 << 30  # bytes of memory that the judge of a submission may use
DESCRIPTORS = 4  # at most, in one message
WORKERS_PER_SUBMISSION = 200
PROBE_SECONDS = 60.0
LONGEST_KEPT = 200_000  # characters of the code that is shown for a task
LONGEST_LACKING = 100  # characters of what a cell says of a module that is not there
PROBE = """
from utils.grader.probe import reachable_by_layer
reachable_by_layer(file, sockets, port, pid)
"""


def main() -> None:
    """Serve the parent process over standard input, a socket, until it has gone: each request in a process of its own."""
    control = socket.socket(fileno=os.dup(0))  # its end tells that the parent has gone
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    torch.set_num_threads(1)
    for module in WARM:
        importlib.import_module(module)
    half = torch.ones(8, 8, dtype=torch.float16)
    half @ half  # makes torch detect the CPU now, which a sandboxed worker could not do
    denied = sandbox.namespaces_denied()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes of requests
    gc.freeze()  # what is here stays shared with the processes forked from here
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, DESCRIPTORS)
        if not message:
            return
        sandbox.forked(partial(_serve, control, message, descriptors, denied))
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(control: socket.socket, message: bytes, descriptors: list[int], denied: str) -> None:
    """One request; the end of this process tells the other side that all processes of the submission have ended."""
    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sandbox.die_with_parent()
    line, _held = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    cage, seconds = _settings(message)
    signal.alarm(int(seconds) + ENDING_SECONDS)
    (_execute if cage.command else _judged)(line, cage, seconds, denied)


def _settings(message: bytes) -> tuple[sandbox.Cage, float]:
    asked = json.loads(message)
    cage = sandbox.Cage(
        Path(asked["work"]),
        tuple(map(Path, asked["readable"])),
        tuple(map(Path, asked["hidden"])),
        sandbox.Limits(**asked["limits"]),
        asked["user"],
        asked["environment"],
        tuple(asked["command"]),
        asked["result"],
    )
    return cage, asked["seconds"]


def _judged(line: socket.socket, cage: sandbox.Cage, seconds: float, denied: str) -> None:
    """Run a judge for the request on `line`, and its workers; all have ended when this returns."""
    ours, theirs = socket.socketpair()
    clock = Clock()

    def work() -> None:
        ours.close()
        _judge(line, theirs, clock)

    pid = sandbox.forked(work)
    line.close()
    theirs.close()
    ended, keeper, own = os.pidfd_open(pid), None, cage
    until = time.monotonic() + seconds
    try:
        for number in range(WORKERS_PER_SUBMISSION):
            ready, _, _ = select.select([ours, ended], [], [], max(0.0, until - time.monotonic()))
            if ours not in ready or not ours.recv(1):
                return
            if keeper:
                _end(keeper, own, denied)
            own = cage._replace(work=cage.work / str(number))  # a worker must not see files of the one before
            own.work.mkdir()
            here, there = socket.socketpair()
            keeper = worker.start(own, there, denied, clock)
            there.close()
            socket.send_fds(ours, [b"w"], [here.fileno()])
            here.close()
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ended)
        ours.close()
        if keeper:
            _end(keeper, own, denied)
        clock.close()


def _end(keeper: worker.Keeper, cage: sandbox.Cage, denied: str) -> None:
    """End a worker and all that it has started, and remove what it has written."""
    keeper.end()
    if denied and os.getuid() == 0:
        worker.end_all_of(cage.user)
    if not cage.result:
        with suppress(OSError):
            remove(cage.work)


def _execute(line: socket.socket, cage: sandbox.Cage, seconds: float, denied: str) -> None:
    """A worker that becomes the cage's command, for at most this long; everything that it started has ended on return."""
    here, there = socket.socketpair()
    keeper = worker.start(cage, there, denied, Clock())
    there.close()
    keeper.wait(seconds)
    _end(keeper, cage, denied)
    here.close()
    line.close()


def _judge(line: socket.socket, zygote: socket.socket, clock: Clock) -> None:
    sandbox.die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (JUDGE_MEMORY, JUDGE_MEMORY))

    def new_worker() -> socket.socket:
        zygote.sendall(b"w")
        message, descriptors, _, _ = socket.recv_fds(zygote, 1, DESCRIPTORS)
        if not message:
            raise protocol.Broken("there are no more workers for this submission")
        return socket.socket(fileno=descriptors[0])

    job = receive(line)
    try:
        said = _probe(job, new_worker) if "canaries" in job else _graded(job, new_worker, clock)
    except Unreadable as error:
        said = {"unreadable": str(error)}
    except NotIsolated as error:
        said = {"refused": str(error)}
    except Exception as error:  # the grader's own fault, whatever it is: nobody gets a zero for it
        said = {"failed": str(error) or repr(error)}
    send(line, said)


def _graded(job: dict, new_worker: Callable[[], socket.socket], clock: Clock) -> dict:
    lab = read_lab(job["lab"])
    submission = read_submission(Path(job["path"]).read_bytes(), lab)
    until = time.monotonic() + job["seconds"]
    ask = RemoteAsk(new_worker, submission, job["secret"], Patience(**job["patience"]), until, clock, job["strict"])
    found = judge(lab, ask, job["seed"], job["follow_through"])
    ask.end()
    if any(verdict.why == NO_ANSWER for verdict in found.verdicts):
        with suppress(protocol.Broken):
            new_worker().close()  # by now the keeper of the one that was lost has said how that ended
    lacking = {name: told[1] for name, told in found.raised.items() if told[0][0] == ModuleNotFoundError.__name__}
    return {
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
        "notes": [
            *submission.notes,
            *(f"{name}: {why}" for name, why in found.skipped.items()),
            *(f"{name}: {why[:LONGEST_LACKING]} where it was graded" for name, why in lacking.items()),
            *["a process of it was killed from outside, as where memory runs out"] * clock.killed(),
        ],
        "raised": {name: list(told) for name, told in found.raised.items()},
        "isolation": ask.isolation,
        "code": {name: source[:LONGEST_KEPT] for name, source in submission.code.items()},
        "untouched": [task.name for task in lab.tasks if is_untouched(task, submission.code[task.name])],
        "statements": marks_of(submission.code),
        "written": submission.written,
        "book": _executed(job) or cells_to_copy(submission.book),
        "late": ask.may_get_further(),
    }


def _executed(job: dict) -> list[dict]:
    """The cells of the notebook that was run, [] for none. A submission may have written anything into its file."""
    return executed_cells(Path(job["executed"]).read_bytes()) if "executed" in job else []


def _probe(job: dict, new_worker: Callable[[], socket.socket]) -> dict:
    """What the sandbox says of itself, and what a worker could do all the same (see probe)."""
    conversation = new_worker()
    late = protocol.after(PROBE_SECONDS)
    isolation = protocol.receive(conversation, late)
    question = {"code": PROBE, "inputs": job["canaries"], "number": 0}
    protocol.send(conversation, question, PROBE_SECONDS)
    reply = protocol.receive(conversation, late)
    if "value" not in reply:
        raise NotGraded(f"trying what a submission can do raised {reply['raised']}")
    new_worker().close()  # by now all that the first one started must have ended, and closed its copies of the line
    ended = select.select([conversation], [], [], PROBE_SECONDS)[0] and conversation.recv(1) == b""
    return {
        "isolation": isolation,
        "did": reply["value"] | {"processes": "" if ended else "a process outlived its worker"},
    }


if __name__ == "__main__":
    main()
