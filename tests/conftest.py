"""What all tests share: one thread, signals as a terminal has them, and the CPU seconds of each file in the report."""

import os
import resource
import signal
from collections import Counter

import pytest
import torch

CPU_SECONDS: Counter[str] = Counter()  # by file; on the process that writes the report
SHOWN = 15  # files in the report

# A shell ignores Ctrl-C for what it starts in the background, and nohup a closed terminal: tests send both.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors are computed ten times faster by one thread than by two."""
    torch.set_num_threads(1)


@pytest.hookimpl(trylast=True)  # after those that -m leaves out have gone
def pytest_collection_modifyitems(items):
    """Each worker of `-n 3` begins with its share of the notebooks: they take longest, and none is left for the end."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    notebooks = [item for item in items if item.path.suffix == ".ipynb"]
    tests = [item for item in items if item.path.suffix != ".ipynb"]
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
