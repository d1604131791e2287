"""Worker processes that fetch batches: torch's DataLoader, and errors that name the example."""

import errno
import math
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from multiprocessing import get_all_start_methods, get_context, get_start_method, parent_process
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawValue
from pickle import PicklingError
from traceback import clear_frames

import torch
from torch.utils.data import DataLoader, Dataset

FAILED = "could not fetch example"  # so begins the error of a worker; the example and the cause follow
NOT_BEGUN = "before its first example"
HEARTBEAT = 1.0  # seconds between two looks at whether all workers live, while a batch is awaited
EXIT_TIMEOUT = 5.0  # seconds to wait for a worker's exit code after its connection broke
SPARE_FILES = 16  # that starting and ending workers takes for a moment
# How a closed terminal (HUP), a scheduler (USR1, USR2, as it is told to) and a used-up share of CPU time (XCPU) announce
# that a process will be killed. A CONT that precedes a scheduler's TERM only wakes it.
WARNINGS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
STOPPING = (signal.SIGINT, signal.SIGTERM, *WARNINGS)


def from_workers(fetch: Dataset, keys: Iterable, timeout: float, **options) -> Iterator:
    """The batches of `keys`, in their order, fetched by processes that end with this generator.

    fetch: answers a key with a batch; fetch.at_work holds the example that each worker is at, below 0 before its first.
    options: of torch's DataLoader.

    Raises RuntimeError, naming the example, if it cannot be fetched, its worker ends, or `timeout` seconds pass (0: never);
    ValueError if the dataset cannot be sent to a worker.
    """
    _require_files(len(fetch.at_work), options.get("prefetch_factor", 2))
    processes: list[BaseProcess] = []
    loader = DataLoader(
        fetch,
        batch_sampler=keys,
        collate_fn=_as_is,
        timeout=HEARTBEAT,
        worker_init_fn=_begin,
        multiprocessing_context=_context_listing(processes),
        generator=torch.Generator(),  # else starting the loader draws from the global stream
        **options,
    )
    iterator, arrived, handler = None, 0, None
    try:
        iterator = _started(loader)
        handler = _on_sigchld(signal.SIG_DFL)  # torch's handler would raise in the middle of a training step
        while (batch := _next(iterator, timeout)) is not None:
            arrived += 1
            yield batch
    except BaseException as error:  # also Ctrl-C
        if iterator is not None:  # it ends its workers when nothing refers to it, so the traceback must not
            clear_frames(error.__traceback__)
        not_started = bool(processes) and processes[-1].pid is None
        if not_started and isinstance(error, PicklingError | AttributeError | TypeError):
            raise ValueError(f"the dataset cannot be sent to a worker ({error}): {_sent()}") from error
        if isinstance(error, RuntimeError | OSError | EOFError):
            raise _explained(error, processes, fetch.at_work, arrived) from error
        raise
    finally:
        iterator = None
        for process in processes:
            if process.is_alive():  # not all were started, or a second Ctrl-C cut their end short
                process.kill()
        if handler is not None:
            _on_sigchld(handler)


def _require_files(workers: int, prefetch: int) -> None:
    """Raises RuntimeError if this process may not open the files that workers take: four for each one's pipes, and for each
    batch that it loads ahead two, for x and y. Torch finds out in the middle, and leaves half of the workers behind.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = SPARE_FILES + workers * (4 + 2 * prefetch)
    try:
        used = len(os.listdir("/dev/fd"))
    except OSError as error:
        used = limit if error.errno == errno.EMFILE else 0  # 0: a system that does not tell
    if limit != resource.RLIM_INFINITY and limit - used < needed:
        raise _too_few_files(workers, used + needed)


def _too_few_files(workers: int, needed: int = 0) -> RuntimeError:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return RuntimeError(
        f"this process may have {limit} files open, too few for {workers} workers and their batches: raise the limit "
        f"(ulimit -n {max(1024, 4 * limit, needed)}), or use fewer workers"
    )


def _started(loader: DataLoader) -> Iterator:
    """Its iterator. What stops a run is blocked meanwhile: a worker gets it only once it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        return iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _next(iterator: Iterator, timeout: float) -> object:
    """The next batch; None after the last. Raises TimeoutError if it takes more than `timeout` seconds."""
    until = time.monotonic() + (timeout or math.inf)
    while time.monotonic() < until:
        try:
            return next(iterator, None)
        except RuntimeError as error:
            if not str(error).startswith("DataLoader timed out"):  # after one heartbeat, with all workers alive
                raise
    raise TimeoutError(f"timed out after {timeout:g} seconds")


def _explained(error: Exception, processes: list, at_work: Sequence[int], arrived: int) -> Exception:
    """The error of a DataLoader that has yielded `arrived` batches, with the example and the next move."""
    text, workers = str(error), len(at_work)
    if FAILED in text:  # last in the worker's traceback
        return RuntimeError(FAILED + text.rpartition(FAILED)[2].rstrip())
    if "Too many open files" in text:
        return _too_few_files(workers)
    places = [f"at example {example}" if example >= 0 else NOT_BEGUN for example in at_work]
    if isinstance(error, TimeoutError):
        late = places[arrived % workers]  # they take turns
        return RuntimeError(f"a worker {text} {late}: fetch it by hand to see why, or raise worker_timeout")
    if len(processes) < workers or processes[-1].pid is None:
        return RuntimeError(f"could not start {workers} workers ({text}): use fewer, or workers=0")
    until = time.monotonic() + EXIT_TIMEOUT
    while all(process.exitcode is None for process in processes) and time.monotonic() < until:
        time.sleep(0.01)
    for process, place in zip(processes, places, strict=True):
        if process.exitcode is not None:
            end = f"exit code {process.exitcode}" if process.exitcode >= 0 else signal.Signals(-process.exitcode).name
            if place == NOT_BEGUN and start_method() != "fork":
                return RuntimeError(f"a worker ended ({end}) {place}: {_sent()}")
            return RuntimeError(
                f"a worker ended ({end}) {place}: fetch it by hand, or train with workers=0, to see why. If memory ran "
                "out, use fewer workers"
            )
    return RuntimeError(f"{workers} workers failed ({text}): use fewer, or workers=0 to see why")


def start_method() -> str:
    """How workers are started: as this process has chosen by multiprocessing.set_start_method; on Linux else by fork.

    There Python's usual way is another from 3.14 on, which cannot send a lambda to a worker, nor what a notebook defines. It
    does not tell that from a choice: who wants no fork there chooses spawn.
    """
    usual = get_all_start_methods()[0]
    chosen = get_start_method(allow_none=True) or usual
    return "fork" if sys.platform == "linux" and chosen == usual else chosen


def _sent() -> str:
    """What a dataset needs if workers are no copies of this process."""
    advice = (
        f"workers are started by {start_method()} here, and import the dataset and its collate. Define both at the top of a "
        'file and import them, with the lines that train under if __name__ == "__main__"; or use workers=0'
    )
    if sys.platform != "linux":
        return advice
    return advice + (
        '; or have them copied:\n    import multiprocessing\n    multiprocessing.set_start_method("fork", force=True)'
    )


class _Flag:
    """What torch asks of a multiprocessing.Event, without its lock: a worker that is killed while it has that keeps it, and
    this process would wait for ever.
    """

    def __init__(self):
        self.shared = RawValue("b", 0)

    def is_set(self) -> bool:
        return self.shared.value == 1

    def set(self) -> None:
        self.shared.value = 1


def _context_listing(processes: list[BaseProcess]) -> BaseContext:
    """How this process starts others, each of which is added to `processes`."""
    usual = get_context(start_method())
    context = copy(usual)

    def new_process(**options) -> BaseProcess:
        process = usual.Process(**options)
        process.terminate = process.kill  # a worker ignores the SIGTERM that torch would send
        processes.append(process)
        return process

    context.Process, context.Event = new_process, _Flag
    return context


def _on_sigchld(handler: object) -> object:
    """Set the handler and return the one before; None outside the main thread, which alone may set one."""
    if threading.current_thread() is threading.main_thread():
        return signal.signal(signal.SIGCHLD, handler)
    return None


def _begin(worker: int) -> None:
    """Ignore Ctrl-C and a scheduler's signals, which reach a worker too: the loop needs it to finish its step."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    if get_start_method() != "forkserver" and os.getppid() != parent_process().pid:
        os._exit(1)  # the parent was killed meanwhile; torch would take the process that adopts orphans for it


def _as_is(batch: object) -> object:
    return batch
