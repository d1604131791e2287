"""The processes that fetch batches: how they are started, told of signals, waited for, and how their end is told."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from multiprocessing import get_context, get_start_method
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess, parent_process
from multiprocessing.sharedctypes import RawValue
from multiprocessing.util import Finalize, get_temp_dir

from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

FAILED = "could not fetch example"  # as the error of a worker begins, with the example and what happened
HEARTBEAT = 1.0  # seconds between two looks at whether the workers are alive, while a batch is waited for
LAST_BREATH = 5.0  # seconds that a worker whose connection broke gets to end


def from_workers(loader: DataLoader, at_work: Sequence[int]) -> Iterator:
    """The batches of `loader`, whose workers are ended when it is left, however that is.

    at_work: the example that each worker is at, kept up to date by the worker; below 0 before the first.

    Raises RuntimeError, naming the example, if it cannot be fetched, its worker ends, or the loader's timeout is over.
    """
    loader.check_worker_number_rationality()  # which iter(loader) warns of
    fetched = object.__new__(_Fetched)  # else, if it fails half-way, only a traceback has it
    arrived, stuck = None, False
    try:
        with _signals_later():  # half an iterator cannot end its workers, and a half-started worker not itself
            get_temp_dir()  # for everybody's sockets: a worker's own would stay if it is killed
            fetched.__init__(loader)
            arrived = 0
        for batch in fetched:
            arrived += 1
            yield batch
    except (RuntimeError, OSError, EOFError) as error:  # OSError: a batch was on its way when its worker ended
        stuck = FAILED not in str(error)  # else they are well, and end by themselves
        if arrived is not None:
            raise _explained(error, fetched._workers, at_work, arrived) from error
        if isinstance(error, OSError):  # too many processes, or open files
            text = f"could not start {loader.num_workers} workers ({error}): use fewer, or workers=0"
            raise RuntimeError(text) from error
        raise
    finally:  # also when a traceback keeps the loader alive: workers that ignore SIGTERM would outlive the process
        if arrived is None:
            fetched._shutdown = True  # half an iterator fails at that
        workers = getattr(fetched, "_workers", [])
        try:
            if stuck or any(process.exitcode is not None for process in workers):
                _kill(workers)  # one hangs, or others may wait for a lock that it held
            fetched._shutdown_workers()
        finally:  # a second Ctrl-C may have cut that short
            _kill(workers)  # one that hangs has not ended


class _Fetched(_MultiProcessingDataLoaderIter):
    """Torch's iterator, but it tells of a worker's end where a batch is asked for.

    Torch raises an error from a signal handler, wherever this process happens to be: also where that leaves a lock closed
    for ever, and where nobody knows what the worker was fetching.
    """

    def __init__(self, loader: DataLoader):
        super().__init__(loader)
        for process in self._workers:
            process.terminate = process.kill  # SIGTERM they leave to this process
        signal_handling._remove_worker_pids(id(self))
        self._worker_pids_set = False

    def _get_data(self):
        until = time.monotonic() + self._timeout if self._timeout else float("inf")
        while (left := until - time.monotonic()) > 0:
            arrived, batch = self._try_get_data(min(left, HEARTBEAT))  # if none has, it looks at the workers
            if arrived:
                return batch
            if self._pin_memory and not self._pin_memory_thread.is_alive():
                raise RuntimeError("the thread that pins memory has ended")
        raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")


def _kill(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.kill()


class _Flag:
    """An event as torch asks it of its workers, without the lock that one of them, if killed, would never give back."""

    def __init__(self):
        self._value = RawValue("b", 0)

    def set(self) -> None:
        self._value.value = 1

    def is_set(self) -> bool:
        return bool(self._value.value)


def context_of_workers() -> BaseContext:
    """How this process starts others, with that event."""
    context = copy(get_context())
    context.Event = _Flag
    return context


STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _signals_later():
    """What asks this process to stop comes when the block is left; a worker that is started in it hears nothing of it
    until it takes the signals up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # a forked process begins with what is blocked here
    try:
        with _undisturbed():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _undisturbed():
    """No handler raises within the block, whichever thread the system tells: Ctrl-C does when it is left, and that a
    worker ended is seen later."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted
        return
    signal_handling._set_SIGCHLD_handler()  # torch's, which would take the place of the one for this block
    asked = []
    interrupt = signal.signal(signal.SIGINT, lambda *signalled: asked.append(signalled))
    child = signal.signal(signal.SIGCHLD, lambda *signalled: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, child)
        signal.signal(signal.SIGINT, interrupt)
    if asked:
        signal.raise_signal(signal.SIGINT)


def _explained(error: Exception, processes: list[BaseProcess], at_work: Sequence[int], arrived: int) -> Exception:
    """The error of a DataLoader with the example it is about; arrived: how many batches have."""
    text = str(error)
    if FAILED in text:  # last in the worker's traceback
        return RuntimeError(FAILED + text.rpartition(FAILED)[2].rstrip())
    late = "timed out" in text
    if not late:
        _await_an_end(processes)
    for process, example in zip(processes, at_work, strict=True):
        if process.exitcode is None:
            continue
        if example < 0:
            return RuntimeError(
                f"a worker ended ({_end(process.exitcode)}) before its first example. Train with fewer, or workers=0: it "
                "may have run out of memory"
            )
        return RuntimeError(
            f"the worker that fetched example {example} ended ({_end(process.exitcode)}). Fetch that example by hand, or "
            "train with workers=0, to see why; it may also have run out of memory"
        )
    if late:
        example = at_work[arrived % len(processes)]  # they take turns
        if example < 0:
            at = "it has not come to its first example. Train with fewer workers"
        else:
            at = f"it is at example {example}. Fetch that example by hand to see what it waits for"
        return RuntimeError(f"a worker has not come back with its batch ({text}): {at}, or raise worker_timeout")
    return error


def _await_an_end(processes: list[BaseProcess]) -> None:
    """Give a process whose connection broke LAST_BREATH to end: its files are closed first, its exit code comes last."""
    until = time.monotonic() + LAST_BREATH
    while time.monotonic() < until:
        if any(process.exitcode is not None for process in processes):
            return
        time.sleep(0.01)


def _end(exitcode: int) -> str:
    return f"exit code {exitcode}" if exitcode >= 0 else signal.Signals(-exitcode).name


def begin_worker(worker: int) -> None:
    """SIGTERM and Ctrl-C reach the workers too; they go on while the loop finishes its step, and end with it."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # blocked until now
    Finalize(None, _sweep, args=(get_temp_dir(),), exitpriority=0)
    if _is_orphan():
        sys.exit()  # killed by now: torch, which looks for another parent from here on, would take this one's for it


def _sweep(folder: str) -> None:
    """Remove the folder that the parent has made for everybody's sockets, if it was killed before it could."""
    if _is_orphan():
        shutil.rmtree(folder, ignore_errors=True)


def _is_orphan() -> bool:
    parent = parent_process()
    if get_start_method() == "forkserver":  # the system takes the server for the parent
        return not parent.is_alive()
    return os.getppid() != parent.pid  # at once, where is_alive() waits for other workers that were forked later
