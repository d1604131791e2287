"""Which system calls the grader's sandbox refuses, asked by number; and what it says where it has no filter."""

import ctypes
import errno
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from utils.course.grading import sandbox

X86 = platform.machine() == "x86_64"
NUMBERS = {  # of each call on x86-64 and on ARM64
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "unshare": (272, 97),
    "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
}  # fmt: skip
CLONE, CLONE3, SOCKET, GETPPID = (56, 220), 435, (41, 198), 110
NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
needs_libseccomp = pytest.mark.skipif(isinstance(sandbox.CALLS, str), reason=str(sandbox.CALLS))


def error_of(number: int, *arguments: int) -> int:
    """The error number of a system call, 0 for success."""
    ctypes.set_errno(0)
    padded = [ctypes.c_long(value) for value in (*arguments, *[0] * (6 - len(arguments)))]
    return ctypes.get_errno() if sandbox.libc.syscall(ctypes.c_long(number), *padded) < 0 else 0


def filtered(question: Callable[[], str]) -> str:
    """The answer of a child process that has loaded the filter, where there is one."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            sandbox.libc.prctl(sandbox.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            state = sandbox._filtered()
            assert state == sandbox.CALLS or state == sandbox.ON
            os.write(theirs, question().encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return answer


def wrong(errors: dict[object, tuple[int, int]]) -> str:
    """What of name → (error, wanted error) is not as wanted."""
    return repr({name: found for name, (found, wanted) in errors.items() if found != wanted})


@needs_libseccomp
def test_the_calls_that_no_lab_needs_are_refused():
    assert sorted(NUMBERS) == sorted(sandbox.REFUSED)
    numbers = {name: pair[0 if X86 else 1] for name, pair in NUMBERS.items()}
    assert filtered(lambda: wrong({name: (error_of(n), errno.EPERM) for name, n in numbers.items()})) == "{}"


@needs_libseccomp
def test_a_child_gets_no_namespace_of_its_own():
    clone = CLONE[0 if X86 else 1]
    asked = {hex(flag): flag for flag in NAMESPACES} | {"user and files": NAMESPACES[4] | 0x400}
    assert filtered(lambda: wrong({name: (error_of(clone, flag), errno.EPERM) for name, flag in asked.items()})) == "{}"
    assert filtered(lambda: wrong({"clone3": (error_of(CLONE3), errno.ENOSYS)})) == "{}", "libc then takes clone"


@needs_libseccomp
def test_the_only_sockets_are_those_of_this_machine():
    number = SOCKET[0 if X86 else 1]
    families = [int(family) for family in socket.AddressFamily if family != socket.AF_UNIX] + [0, (1 << 32) + 2]

    def question() -> str:
        refused = {family: (error_of(number, family, socket.SOCK_DGRAM), errno.EOPNOTSUPP) for family in families}
        return wrong(refused | {"unix": (error_of(number, socket.AF_UNIX, socket.SOCK_STREAM), 0)})

    assert filtered(question) == "{}"


@needs_libseccomp
@pytest.mark.skipif(not X86, reason="x32 is an ABI of x86-64")
def test_the_numbers_of_another_abi_are_refused():
    wanted = {"x32": (0x4000_0000 + GETPPID, errno.EPERM), "its own": (GETPPID, 0)}
    assert filtered(lambda: wrong({name: (error_of(n), error) for name, (n, error) in wanted.items()})) == "{}"


@needs_libseccomp
def test_what_labs_do_goes_on():
    """Processes, threads, files."""

    script = "import threading; thread = threading.Thread(target=print, args='a'); thread.start()"

    def question() -> str:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        return done.stdout.strip() + done.stderr

    assert filtered(question) == "a"


MISSING = """
import ctypes.util
find, ctypes.util.find_library = ctypes.util.find_library, lambda name: None if name == "seccomp" else find(name)
from utils.course.grading import sandbox
print(sandbox._filtered())
"""


def test_without_libseccomp_the_layer_says_that_it_is_not_available():
    said = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True).stdout
    assert said.startswith("not available: ") and "libseccomp" in said
    states = {"namespaces": "denied", "network": "on", "calls": said}
    assert sandbox.network_of(states, []) == "UDP is open", "and nobody takes it for isolated"


@needs_libseccomp
def test_a_call_that_libseccomp_does_not_know_is_told(monkeypatch):
    monkeypatch.setattr(sandbox, "REFUSED", ["ptrace", "no_such_call"])
    assert sandbox._system_call_filter().startswith("not available: libseccomp does not know no_such_call")


def test_an_ordinary_user_keeps_no_capability_of_its_namespace():
    def question() -> str:
        sandbox._drop_capabilities()
        lines = Path("/proc/self/status").read_text().splitlines()
        return " ".join(line.split()[1] for line in lines if line.startswith(("CapEff", "CapPrm", "CapInh")))

    assert set(filtered(question)) == set("0 ")
