"""Worker processes: an error names the example when one fails; Ctrl-C and SIGTERM are the loop's; no worker stays."""

import contextlib
import gc
import multiprocessing
import multiprocessing.synchronize
import os
import re
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from helpers.paths import ROOT
from torch.utils.data import DataLoader, Dataset, default_collate

import utils.data.workers
from utils.data import TensorData
from utils.data.order import Collated, Order, batches


class Troubled(Dataset):
    """Eight examples; there is trouble at number 3, in the first batch of the second worker."""

    def __init__(self, trouble):
        self.trouble = trouble

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 3:
            self.trouble()
        return torch.zeros(3), i


def fetch_all(data: Dataset, batch_size: int = 2, **options) -> list[list[int]]:
    order = Order(len(data), batch_size, shuffle=False)
    return [y.tolist() for _, y in batches(data, order, 0, order.steps_per_epoch, workers=2, **options)]


def plain_data(examples: int) -> TensorData:
    return TensorData(torch.arange(float(examples))[:, None], torch.arange(examples))


@pytest.fixture(autouse=True)
def no_worker_stays():
    before = set(multiprocessing.active_children())
    yield
    stayed = set(multiprocessing.active_children()) - before
    for process in stayed:
        process.join(5)  # a killed one needs a moment
    assert not any(process.is_alive() for process in stayed)


def run_out_of_memory():
    raise MemoryError("unable to allocate 7 TiB")


def time_out_slowly():
    time.sleep(1.5)  # longer than a heartbeat
    raise TimeoutError("DataLoader timed out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (run_out_of_memory, r"^could not fetch example 3 in epoch 0: MemoryError: unable to allocate 7 TiB"),
        (time_out_slowly, r"^could not fetch example 3 in epoch 0: TimeoutError: DataLoader timed out"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"a worker ended \(SIGKILL\) at example 3: .*workers=0"),
        (lambda: os._exit(0), r"a worker ended \(exit code 0\) at example 3"),
        (lambda: os._exit(7), r"a worker ended \(exit code 7\) at example 3"),
        (lambda: time.sleep(1000), r"a worker timed out after 3 seconds at example 3: .*worker_timeout"),
    ],
    ids=["raises", "raises late", "is killed", "exits with 0", "exits with 7", "hangs"],
)
def test_the_error_names_the_example_of_a_worker_that(trouble, told):
    with pytest.raises(RuntimeError, match=told):
        fetch_all(Troubled(trouble), timeout=3)


def test_a_worker_that_is_killed_with_a_lock_in_its_hands(monkeypatch):
    """Torch asks an event before each batch; that of multiprocessing has a lock, which a killed worker never returns."""
    here = os.getpid()

    def asked(event):
        if os.getpid() == here:
            return is_set(event)
        event._cond.acquire()
        return False

    is_set = multiprocessing.synchronize.Event.is_set
    monkeypatch.setattr(multiprocessing.synchronize.Event, "is_set", asked)
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for the lock"))
    signal.setitimer(signal.ITIMER_REAL, 30, 1)  # again and again: the loader's end waits for it too
    try:
        with pytest.raises(RuntimeError, match=r"a worker ended \(SIGKILL\) at example 3"):
            fetch_all(Troubled(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (lambda worker: os._exit(3), r"a worker ended \(exit code 3\) before its first example"),
        (lambda worker: time.sleep(100), r"a worker timed out after 1 seconds before its first example"),
    ],
    ids=["ends", "hangs"],
)
def test_a_worker_in_trouble_before_its_first_example(monkeypatch, trouble, told):
    monkeypatch.setattr(utils.data.workers, "_begin", trouble)
    with pytest.raises(RuntimeError, match=told):
        fetch_all(plain_data(8), timeout=1)


@pytest.mark.slow
def test_a_worker_that_hangs_is_waited_for_once(monkeypatch, tmp_path):
    """So that Ctrl-C does not take longer than it must."""
    join, in_vain, hangs = BaseProcess.join, [], tmp_path / "hangs"

    def noted(process, timeout=None):
        join(process, timeout)
        if process.exitcode is None:
            in_vain.append(process)

    monkeypatch.setattr(BaseProcess, "join", noted)
    trouble = Troubled(lambda: (hangs.touch(), time.sleep(1000)))
    stream = batches(trouble, Order(8, 2, shuffle=False), 0, 4, workers=2)
    next(stream)
    while not hangs.exists():
        time.sleep(0.01)
    stream.close()
    assert len(in_vain) == len(set(in_vain)) >= 1


class ExitsAtOnce(TensorData):
    def batch(self, indices):
        os._exit(3)


def test_a_worker_that_ends_with_a_batch_of_pure_data_is_told_with_the_first_of_it():
    data = ExitsAtOnce(torch.arange(8.0)[:, None], torch.arange(8))
    with pytest.raises(RuntimeError, match=r"a worker ended \(exit code 3\) at example [04]:"):
        fetch_all(data, batch_size=4)


def test_a_worker_that_ends_while_the_loader_starts_the_others(monkeypatch):
    """Torch raises from its handler of SIGCHLD then, before there is an iterator."""
    start = DataLoader.__iter__

    def slow(loader):
        iterator = start(loader)
        time.sleep(5)  # cut short by the handler
        return iterator

    monkeypatch.setattr(DataLoader, "__iter__", slow)
    with pytest.raises(RuntimeError, match=r"a worker ended \(exit code 7\) at example 3"):
        fetch_all(Troubled(lambda: os._exit(7)))


def test_a_worker_whose_connection_breaks_before_it_has_ended():
    """As when it is killed while a batch is on its way."""
    worker = multiprocessing.get_context("fork").Process(target=lambda: (time.sleep(0.5), os._exit(7)))
    worker.start()
    broken = ConnectionResetError(104, "Connection reset by peer")
    told = utils.data.workers._explained(broken, [worker], [5], 0)
    assert "a worker ended (exit code 7) at example 5" in str(told)


def test_a_worker_s_end_is_told_where_a_batch_is_asked_for_and_nowhere_else():
    """What this process does meanwhile goes on: torch's handler of SIGCHLD would raise in the middle of a step."""
    stream = batches(plain_data(800), Order(800, 4), 0, 200, workers=2)
    next(stream)
    for worker in multiprocessing.active_children():
        worker.kill()
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert sum(range(10**6)) == 499_999_500_000  # SIGCHLD has come, and any handler of Python's has run
    with pytest.raises(RuntimeError, match=r"a worker ended \(SIGKILL\) at example \d+"):
        list(stream)


def test_other_loaders_keep_torchs_handler_of_sigchld():
    list(DataLoader(range(4), num_workers=1))  # torch sets its handler with the first loader
    handler = signal.getsignal(signal.SIGCHLD)
    stream = batches(plain_data(8), Order(8, 2), 0, 4, workers=2)
    next(stream)
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    stream.close()
    assert signal.getsignal(signal.SIGCHLD) is handler is not signal.SIG_DFL


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
        fetch_all(data, batch_size=1)
    assert data.written.exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of torch's half-built iterator
def test_too_many_processes(monkeypatch):
    """The workers that could be started do not outlive the error."""
    started, start = [], BaseProcess.start

    def fail_second(process):
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(process)
        started.append(process)

    monkeypatch.setattr(BaseProcess, "start", fail_second)
    told = r"could not start 2 workers .*unavailable.*: use fewer, or workers=0"
    with pytest.raises(RuntimeError, match=told) as holds_the_iterator:
        fetch_all(plain_data(8))
    started[0].join(30)
    assert started[0].exitcode == -signal.SIGKILL
    del holds_the_iterator
    gc.collect()  # torch warns of it here, and not in another test


FEW_FILES = """
import resource, sys, torch
from utils.data.order import Order, batches
from utils.data import TensorData
data = TensorData(torch.arange(400.0)[:, None], torch.arange(400))
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
kept = []
for batch in batches(data, Order(400, 4), 0, 100, workers=2):
    kept.append(batch)  # and with it, its files
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [16, 24, 80], ids=["for the pipes", "for a batch", "for the batches kept"])
def test_too_many_open_files(limit):
    line = [sys.executable, "-c", FEW_FILES, str(limit)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100, cwd=ROOT)
    told = (
        rf"RuntimeError: this process may have {limit} files open, too few for 2 workers.*ulimit -n 1024.*fewer workers"
    )
    assert done.returncode == 1 and re.fullmatch(told, done.stderr.splitlines()[-1])
    if limit < 80:  # refused before a worker is started: nothing else is said
        assert done.stderr.count("Traceback") == 1 and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_workers_is_the_loop_s(number):
    """A scheduler tells all processes of a job, and a terminal all in the foreground."""
    stream = batches(plain_data(800), Order(800, 4, shuffle=False), 0, 200, workers=2)
    got = next(stream)[1].tolist()
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, number)
    assert got + [i for _, y in stream for i in y.tolist()] == list(range(800))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_worker_that_is_not_ready_yet_does_not_end_it(monkeypatch, number):
    start = BaseProcess.start

    def start_and_signal(process):
        start(process)
        os.kill(process.pid, number)

    monkeypatch.setattr(BaseProcess, "start", start_and_signal)
    assert fetch_all(plain_data(20), batch_size=4) == torch.arange(20).view(5, 4).tolist()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGTERM, signal.SIGINT} == set()


INTERRUPTED = """
import os, signal, sys, threading, time, torch
from utils.data.order import Order, batches
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it

class Hangs:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(1000 if index >= 16 else 0)
        return torch.zeros(3), index

for seconds in map(float, sys.argv[1:]):
    threading.Timer(seconds, lambda: os.killpg(0, signal.SIGINT)).start()
for _ in batches(Hangs(), Order(64, 4, shuffle=False), 0, 16, workers=2):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("times", [("1",), ("1", "2")], ids=["once", "twice"])
def test_ctrl_c_ends_the_workers_too_also_those_that_hang(times):
    code, said = end_of([sys.executable, "-c", INTERRUPTED, *times])
    assert "KeyboardInterrupt" in said
    assert code == -signal.SIGINT


def end_of(command: list[str]) -> tuple[int, str]:
    """The exit code and the errors of a command, once it and all its workers have ended, which takes no minute."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


KILLED = """
import os, signal, sys
from multiprocessing.process import BaseProcess
import torch
from utils.data.order import Order, batches

parent, when = os.getpid(), sys.argv[1]

class Kills:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 16 and when == "later":
            os.kill(parent, signal.SIGKILL)
        return torch.zeros(3), index

def start_and_kill(process, start=BaseProcess.start):
    start(process)
    os.kill(parent, signal.SIGKILL)

if when == "while it starts them":
    BaseProcess.start = start_and_kill
for _ in batches(Kills(), Order(64, 4, shuffle=False), 0, 16, workers=2):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["while it starts them", "later"])
def test_workers_end_when_their_parent_is_killed(when):
    assert end_of([sys.executable, "-c", KILLED, when])[0] == -signal.SIGKILL


SENT = """
import multiprocessing, re, sys
from utils.data import TensorData
from utils.data.order import Collated, Order, batches
import torch
from torch.utils.data import default_collate

def numbers(method, collate):
    data = Collated(TensorData(torch.arange(40.0)[:, None], torch.arange(40)), collate)
    multiprocessing.set_start_method(method, force=True)
    return sorted(i for _, y in batches(data, Order(40, 4), 0, 10, workers=2) for i in y.tolist())

class Local:
    def __call__(self, examples):
        return default_collate(examples)

def local():
    class Within(Local):
        pass
    return Within()

if __name__ == "__main__":
    print(numbers(sys.argv[1], default_collate) == list(range(40)))
    for collate in (lambda examples: default_collate(examples), local()):
        try:
            numbers(sys.argv[1], collate)
        except ValueError as error:
            print(error)
            exec("\\n".join(re.findall("^    (.*)", str(error), re.MULTILINE)))
            print(numbers(multiprocessing.get_start_method(), collate) == list(range(40)))
"""


def as_python_3_14_does(monkeypatch):
    """Linux's usual way to start a process is the server of Python 3.14, and nobody has chosen one."""
    context = multiprocessing.context
    monkeypatch.setattr(context._default_context, "_actual_context", None)
    monkeypatch.setattr(context._default_context, "_default_context", context._concrete_contexts["forkserver"])
    monkeypatch.setattr(utils.data.workers, "get_all_start_methods", lambda: ["forkserver", "spawn", "fork"])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere fork is not safe, and workers import what they fetch")
@pytest.mark.parametrize("used", [False, True])
def test_what_a_notebook_defines_is_fetched_also_where_fork_is_not_the_usual_way(monkeypatch, used):
    as_python_3_14_does(monkeypatch)
    if used:  # a plain loader with workers does the same
        assert multiprocessing.get_context().get_start_method() == "forkserver"

    class Local(TensorData):
        pass

    data = Collated(Local(torch.arange(8.0)[:, None], torch.arange(8)), lambda examples: default_collate(examples))
    assert fetch_all(data) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert multiprocessing.get_start_method(allow_none=True) == ("forkserver" if used else None)  # as it was


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_what_cannot_be_sent_to_a_worker_is_told_and_the_lines_send_it(tmp_path, method):
    (tmp_path / "sent.py").write_text(SENT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "sent.py"), method]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    told = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert told[0] == told[-1] == "True"
    errors = [line for line in told if "cannot be sent" in line]
    assert len(errors) == 2 and all(f"workers are started by {method} here" in line for line in errors)
    assert told.count("True") == 3 and "Traceback" not in done.stderr


NOT_GUARDED = """
import multiprocessing, torch
from utils.data import TensorData
from utils.data.order import Order, batches
multiprocessing.set_start_method("spawn", force=True)
for _ in batches(TensorData(torch.arange(8.0)[:, None], torch.arange(8)), Order(8, 4), 0, 2, workers=2):
    pass
"""


def test_a_worker_that_cannot_import_what_it_fetches_says_what_it_needs(tmp_path):
    """As a script whose lines are not guarded: each worker would run them, and python refuses."""
    (tmp_path / "script.py").write_text(NOT_GUARDED)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    told = r"RuntimeError: a worker ended \(exit code 1\) before its first example: .*if __name__ == \"__main__\""
    assert done.returncode == 1 and re.search(told, done.stderr), done.stderr


STARTED = """
import multiprocessing, os, signal, sys
import torch
from utils.data.order import Order, batches
from utils.data import TensorData

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    multiprocessing.Process(target=int).start()  # if by a server, it is there before any signal is blocked
    stream = batches(TensorData(torch.arange(400.0)[:, None], torch.arange(400)), Order(400, 4), 0, 100, workers=2)
    first = [next(stream), next(stream)]  # from each worker one
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, signal.SIGTERM)
    print(sorted(i for _, y in [*first, *stream] for i in y.tolist()) == list(range(400)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_may_be_started_in_any_way(tmp_path, method):
    (tmp_path / "started.py").write_text(STARTED)  # they import it
    command = [sys.executable, str(tmp_path / "started.py"), method]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == "True\n", done.stderr
