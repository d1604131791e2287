"""What all tests share: one thread, signals as a terminal has them, and the CPU seconds of each file in the report."""

import json
import os
import resource
import signal
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from utils.course.notebooks import forked_kernel
from utils.distributed.forked_python import forking, possible, python

CPU_SECONDS: Counter[str] = Counter()  # by file; on the process that writes the report
SHOWN = 15  # files in the report
FORKED = "COURSE_TEST_KERNEL"  # tells workers the name of the kernel in which they run notebooks

# A shell ignores Ctrl-C for what it starts in the background, and nohup a closed terminal: tests send both.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors are computed ten times faster by one thread than by two. Who imports no torch need not wait for it."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def pytest_configure(config):
    """Where several workers run notebooks, as in `make test`, one Python that has imported torch forks all kernels."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.option.nbmake_kernel = os.environ.get(FORKED)
    elif config.getoption("numprocesses", None) and config.getoption("nbmake", False) and can_fork():
        stack = ExitStack()
        config.add_cleanup(stack.close)
        folder = stack.enter_context(TemporaryDirectory(prefix="kernels"))
        address = stack.enter_context(forking(os.environ | forked_kernel.INLINE, forked_kernel.IMPORTED))
        command = [*python(address), forked_kernel.__file__, "-f", "{connection_file}"]
        spec = Path(folder, "kernels", "forked", "kernel.json")
        spec.parent.mkdir(parents=True)
        spec.write_text(json.dumps({"argv": command, "display_name": "forked", "language": "python"}))
        os.environ |= {"JUPYTER_PATH": folder, FORKED: "forked"}


def can_fork() -> bool:
    """Whether a Python that has imported torch can be forked on this machine."""
    from utils.device import pick_device  # imports torch

    return possible(pick_device().type)


@pytest.fixture(scope="session")
def forked_python():
    """Begins a command line in place of [sys.executable]: a Python that has imported torch, where one can be forked."""
    if not can_fork():
        yield [sys.executable]
        return
    with forking(os.environ | {"OMP_NUM_THREADS": "1"}) as address:
        yield python(address)


@pytest.hookimpl(trylast=True)  # after those that -m leaves out have gone
def pytest_collection_modifyitems(items):
    """Each worker of `-n 3` begins with its share of the notebooks: they take longest, and none is left for the end.

    Then come tests that share what takes long to make, such as a run on many ranks: one worker makes it, and keeps them,
    since others that have nothing left take from the end of its list.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    notebooks = [item for item in items if item.path.suffix == ".ipynb"]
    tests = [item for item in items if item.path.suffix != ".ipynb"]
    tests.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    share = -(-len(tests) // workers)
    items[:] = [item for k in range(workers) for item in notebooks[k::workers] + tests[k * share : (k + 1) * share]]


def cpu_seconds() -> float:
    """Of this process and of those that it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.config.cpu_before = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Each phase of a test carries the CPU seconds used since the phase before it."""
    report = yield
    now = cpu_seconds()
    report.user_properties.append(("cpu", now - item.config.cpu_before))
    item.config.cpu_before = now
    return report


def pytest_runtest_logreport(report):
    CPU_SECONDS[report.nodeid.split("::")[0]] += dict(report.user_properties).get("cpu", 0.0)


def pytest_terminal_summary(terminalreporter):
    if sum(CPU_SECONDS.values()) < 60:
        return
    terminalreporter.section(f"CPU seconds: {sum(CPU_SECONDS.values()):.0f} in all")
    for file, seconds in CPU_SECONDS.most_common(SHOWN):
        terminalreporter.write_line(f"{seconds:7.1f}  {file}")
