"""The processes that fetch batches: whoever ends or is interrupted, that is told where a batch is asked for; none stays."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from helpers.paths import ROOT
from torch.utils.data import Dataset
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

import utils.data.order
import utils.data.workers
from utils.data import TensorData
from utils.data.order import Order, batches

INTERRUPTED = """
import os, signal, threading, torch
from utils.loop import Config, train
from utils.data import spiral
from utils.models import MLP
torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
threading.Timer(3, lambda: os.killpg(0, signal.SIGINT)).start()
train(MLP((2, 8, 3)), spiral().train, None, Config(steps=10**6, workers=2))
"""


def test_a_connection_that_breaks_is_told_by_the_worker_that_ended():
    """As when it ends while a batch is on its way."""
    worker = multiprocessing.get_context("fork").Process(target=os._exit, args=(7,))
    worker.start()
    broken = ConnectionResetError(104, "Connection reset by peer")
    told = utils.data.workers._explained(broken, [worker], [5], 0)
    assert "the worker that fetched example 5 ended (exit code 7)" in str(told)


def test_a_worker_whose_connection_breaks_long_before_it_has_ended():
    codes = itertools.chain([None] * 20, itertools.repeat(-signal.SIGKILL))
    worker = type("Worker", (), {"exitcode": property(lambda self: next(codes)), "sentinel": 0})()
    told = utils.data.workers._explained(EOFError(), [worker], [5], 0)
    assert "the worker that fetched example 5 ended (SIGKILL)" in str(told)


class Exits(Dataset):
    def __init__(self, code: int):
        self.code = code

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 3:  # in the first batch of the second worker
            os._exit(self.code)
        return torch.zeros(3), i


@pytest.mark.parametrize("code", [0, 7])
def test_a_worker_that_ends_before_the_loader_is_whole(monkeypatch, code):
    """It may be at its first example while the loader is still being built."""
    whole = _MultiProcessingDataLoaderIter._reset

    def slow(loader, *arguments, **options):
        whole(loader, *arguments, **options)
        os.waitid(os.P_PID, loader._workers[1].pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "_reset", slow)
    signal_handling._set_SIGCHLD_handler()  # as the first loader does
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)]
    stream = batches(Exits(code), Order(8, 2, shuffle=False), 0, 4, workers=2)
    with pytest.raises(RuntimeError, match=rf"fetched example 3 ended \(exit code {code}\)"):
        list(stream)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)] == handlers


def test_a_worker_s_end_is_told_where_a_batch_is_asked_for_and_nowhere_else():
    """What this process does meanwhile goes on: an error out of a signal handler could leave a lock closed."""
    data = TensorData(torch.arange(800.0)[:, None], torch.arange(800))
    stream = batches(data, Order(800, 4), 0, 200, workers=2)
    next(stream)
    for worker in multiprocessing.active_children():
        worker.kill()
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert sum(range(10**6)) == 499_999_500_000  # SIGCHLD has come, and any handler of Python's has run
    with pytest.raises(RuntimeError, match=r"the worker that fetched example \d+ ended \(SIGKILL\)"):
        list(stream)


@pytest.fixture
def waited_for_in_vain(monkeypatch) -> list[BaseProcess]:
    """The processes that went on when whoever waited for their end gave up."""
    join, in_vain = BaseProcess.join, []

    def noted(process, timeout=None):
        join(process, timeout)
        if process.exitcode is None:
            in_vain.append(process)

    monkeypatch.setattr(BaseProcess, "join", noted)
    return in_vain


class FailsWhileAnotherWrites(Dataset):
    def __init__(self, folder: Path):
        self.begun, self.written = folder / "begun", folder / "written"

    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i == 1:
            self.begun.touch()
            time.sleep(0.3)
            self.written.touch()
            return torch.zeros(3), i
        while not self.begun.exists():
            time.sleep(0.01)
        raise KeyError("no such file")


def test_a_worker_that_is_well_ends_what_it_is_at_when_another_fails(tmp_path):
    data = FailsWhileAnotherWrites(tmp_path)
    with pytest.raises(RuntimeError, match="could not fetch example 0"):
        list(batches(data, Order(2, 1, shuffle=False), 0, 2, workers=2))
    assert data.written.exists()


class ExitsAtOnce(TensorData):
    def __getitems__(self, indices):
        os._exit(3)


def test_a_worker_that_ends_with_a_batch_of_pure_data_is_told_with_the_first_of_it():
    data = ExitsAtOnce(torch.arange(8.0)[:, None], torch.arange(8))
    with pytest.raises(RuntimeError, match=r"the worker that fetched example [04] ended \(exit code 3\)"):
        list(batches(data, Order(8, 4, shuffle=False), 0, 2, workers=2))


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (lambda worker: os._exit(3), r"a worker ended \(exit code 3\) before its first example"),
        (lambda worker: time.sleep(100), r"timed out after 1 seconds\): it has not come to its first example"),
    ],
)
def test_a_worker_in_trouble_before_its_first_example(monkeypatch, waited_for_in_vain, trouble, told):
    monkeypatch.setattr(utils.data.order, "begin_worker", trouble)
    data = TensorData(torch.arange(8.0)[:, None], torch.arange(8))
    with pytest.raises(RuntimeError, match=told):
        list(batches(data, Order(8, 4), 0, 2, workers=2, timeout=1))
    assert waited_for_in_vain == []


def test_workers_that_cannot_all_be_started(monkeypatch):
    """As when the system has no more processes: those that were do not outlive the error, whoever holds it."""
    started, start = [], BaseProcess.start

    def fail_second(process):
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(process)
        started.append(process)

    monkeypatch.setattr(BaseProcess, "start", fail_second)
    data = TensorData(torch.arange(8.0)[:, None], torch.arange(8))
    with pytest.raises(RuntimeError, match=r"could not start 2 workers .*unavailable.*: use fewer, or workers=0"):
        next(batches(data, Order(8, 2), 0, 4, workers=2))
    started[0].join(30)
    assert started[0].exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_too():
    """Workers leave signals to the loop; when it ends, however it ends, they must."""
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], start_new_session=True, stderr=subprocess.PIPE)
    try:
        _, errors = process.communicate(timeout=600)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert b"KeyboardInterrupt" in errors
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    "threads", [0, 1]
)  # whichever thread the system tells of Ctrl-C, Python raises in the main one
def test_ctrl_c_while_the_workers_are_started(monkeypatch, threads):
    whole = _MultiProcessingDataLoaderIter._reset

    def interrupted(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        whole(*arguments, **options)

    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "_reset", interrupted)
    others, handler, over = set(multiprocessing.active_children()), signal.getsignal(signal.SIGINT), threading.Event()
    for _ in range(threads):
        threading.Thread(target=over.wait).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        stream = batches(TensorData(torch.arange(20.0)[:, None], torch.arange(20)), Order(20, 4), 0, 5, workers=2)
        with pytest.raises(KeyboardInterrupt) as caught:
            next(stream)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
        over.set()
    assert set(multiprocessing.active_children()) <= others and caught.tb  # which holds whatever was begun


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_worker_that_is_not_ready_yet_does_not_end_it(monkeypatch, number):
    prepare = signal_handling._set_worker_signal_handlers

    def prepare_and_be_told():
        prepare()  # torch's handler ends the worker, unless its parent has sent the signal
        os.kill(os.getpid(), number)

    monkeypatch.setattr(signal_handling, "_set_worker_signal_handlers", prepare_and_be_told)
    data = TensorData(torch.arange(20.0)[:, None], torch.arange(20))
    got = [y.tolist() for _, y in batches(data, Order(20, 4, shuffle=False), 0, 5, workers=2)]
    assert got == torch.arange(20).view(5, 4).tolist()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGTERM, signal.SIGINT} == set()


KILLED = """
import os, signal, sys
import torch
from torch.utils.data._utils import signal_handling
from utils.data.order import Order, batches

who, parent = sys.argv[1], os.getpid()

class Ends:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index >= 16 and who != "parent of new workers":
            os.kill(os.getpid() if who == "worker" else parent, signal.SIGKILL)
        return torch.zeros(3), index

def begin():
    if os.getpid() != parent:
        os.kill(parent, signal.SIGKILL)

if who == "parent of new workers":
    signal_handling._set_worker_signal_handlers = begin
for _ in batches(Ends(), Order(64, 4, shuffle=False), 0, 16, workers=2):
    pass
"""


LOCKED = """
import gc, os, signal
from multiprocessing.synchronize import SemLock
import torch
from utils.data.order import Order, batches

class Ends:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 20:
            for lock in gc.get_objects():
                if issubclass(type(lock), SemLock):
                    lock.acquire(block=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(3), index

for _ in batches(Ends(), Order(64, 4, shuffle=False), 0, 16, workers=2):
    pass
"""


def test_a_worker_that_is_killed_while_it_holds_every_lock():
    done = subprocess.run([sys.executable, "-c", LOCKED], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert "the worker that fetched example 20 ended (SIGKILL)" in done.stderr.splitlines()[-1]


STARTED = """
import multiprocessing, sys
import torch
from utils.data.order import Order, batches
from utils.data import TensorData

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    data = TensorData(torch.arange(8.0)[:, None], torch.arange(8))
    print([y.tolist() for _, y in batches(data, Order(8, 4, shuffle=False), 0, 2, workers=2)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_may_be_started_in_any_way(tmp_path, method):
    (tmp_path / "started.py").write_text(STARTED)  # they import it
    command = [sys.executable, str(tmp_path / "started.py"), method]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[[0, 1, 2, 3], [4, 5, 6, 7]]\n", done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["started.py"]


@pytest.mark.slow
@pytest.mark.parametrize("who", ["worker", "parent", "parent of new workers"])
def test_whoever_is_killed_no_worker_stays_nor_a_folder_for_sockets(tmp_path, who):
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED, who]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(timeout=100)  # until the last of its workers is gone
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL if who != "worker" else "ended (SIGKILL)" in said
    assert (
        list(tmp_path.glob("pymp-*")) == []
    )  # torch may leave an empty file, by which it has counted what can be opened


def test_a_second_ctrl_c_while_the_workers_are_ended(monkeypatch, waited_for_in_vain):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "_mark_worker_as_unavailable", interrupted)
    stream = batches(TensorData(torch.arange(20.0)[:, None], torch.arange(20)), Order(20, 4), 0, 5, workers=2)
    next(stream)
    started = multiprocessing.active_children()
    with pytest.raises(KeyboardInterrupt):
        stream.close()
    assert waited_for_in_vain == []
    for process in started:
        process.join(30)
    assert len(started) == 2 and {process.exitcode for process in started} == {-signal.SIGKILL}
