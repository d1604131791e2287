"""Which system calls the grader's sandbox allows, asked by number; and what it says where it has no filter."""

import ctypes
import errno
import os
import platform
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from utils.grader import sandbox, system_calls

X86 = platform.machine() == "x86_64"
NUMBERS = {  # of calls that no lab needs, on x86-64 and on ARM64
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "unshare": (272, 97),
    "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "fadvise64": (221, 223), "mincore": (27, 232), "preadv2": (327, 286), "cachestat": (451, 451),
    "setxattr": (188, 5), "fanotify_init": (300, 262), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "quotactl": (179, 60), "acct": (163, 89), "syslog": (103, 116), "a call of a later kernel": (4000, 4000),
}  # fmt: skip
INOTIFY, CHMOD, KILL, PRCTL, SETSOCKOPT = (294, 26), (268, 53), (62, 129), (157, 167), (54, 208)
CLONE, CLONE3, SOCKET, GETPPID = (56, 220), 435, (41, 198), 110
NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
needs_libseccomp = pytest.mark.skipif(system_calls.pyseccomp is None, reason="there is no libseccomp here")


def error_of(number: int, *arguments: int) -> int:
    """The error number of a system call, 0 for success."""
    ctypes.set_errno(0)
    padded = [ctypes.c_long(value) for value in (*arguments, *[0] * (6 - len(arguments)))]
    return ctypes.get_errno() if sandbox.libc.syscall(ctypes.c_long(number), *padded) < 0 else 0


def filtered(question: Callable[[], str], mounted: bool = True, scoped: bool = True, private: bool = True) -> str:
    """The answer of a child process that has loaded the filter."""

    def asked() -> str:
        sandbox.libc.prctl(sandbox.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        assert system_calls.refuse_the_rest(mounted, scoped, private) == sandbox.ON
        return question()

    return in_a_child(asked)


def in_a_child(question: Callable[[], str]) -> str:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
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


def number(pair: tuple[int, int]) -> int:
    return pair[0 if X86 else 1]


@needs_libseccomp
def test_the_calls_that_no_lab_needs_are_not_there():
    asked = {name: number(pair) for name, pair in NUMBERS.items()}
    assert filtered(lambda: wrong({name: (error_of(n), errno.ENOSYS) for name, n in asked.items()})) == "{}"


@needs_libseccomp
def test_the_numbers_are_those_of_these_calls():
    """A number that is no call's would be refused by any kernel, and nothing would be tried."""
    named = {name: number(pair) for name, pair in NUMBERS.items() if " " not in name}
    others = {"inotify_init1": INOTIFY, "fchmodat": CHMOD, "kill": KILL, "prctl": PRCTL, "setsockopt": SETSOCKOPT}
    others |= {"clone": CLONE, "socket": SOCKET}
    named |= {name: number(pair) for name, pair in others.items()}
    arch = system_calls.pyseccomp.Arch.NATIVE
    known = {name: system_calls.pyseccomp.resolve_syscall(arch, name) for name in named}
    assert {name: found for name, found in known.items() if found not in (named[name], -1)} == {}
    assert list(known.values()).count(-1) <= 5, "newer than some libseccomp"


@needs_libseccomp
def test_every_name_on_the_list_is_a_system_call():
    known = [
        system_calls.pyseccomp.resolve_syscall(system_calls.pyseccomp.Arch.NATIVE, n) for n in system_calls.ALLOWED
    ]
    misspelt = [name for name, found in zip(system_calls.ALLOWED, known, strict=True) if found == -1]
    assert set(misspelt) <= {"futex_requeue", "futex_wait", "futex_wake", "fchmodat2"}, "newer than some libseccomp"
    assert len(set(system_calls.ALLOWED)) == len(system_calls.ALLOWED)


@needs_libseccomp
def test_a_child_gets_no_namespace_of_its_own():
    asked = {hex(flag): flag for flag in NAMESPACES} | {"user and files": NAMESPACES[4] | 0x400}
    told = filtered(
        lambda: wrong({name: (error_of(number(CLONE), flag), errno.ENOSYS) for name, flag in asked.items()})
    )
    assert told == "{}"
    assert filtered(lambda: wrong({"clone3": (error_of(CLONE3), errno.ENOSYS)})) == "{}", "libc then takes clone"


@needs_libseccomp
def test_modes_change_only_where_a_submission_sees_no_files_of_others(tmp_path):
    (tmp_path / "file").touch(mode=0o600)

    def question() -> str:
        os.chmod(tmp_path / "file", 0o644)
        os.utime(tmp_path / "file", (1, 1))
        return f"{os.stat(tmp_path / 'file').st_mode & 0o777:o} {error_of(number(INOTIFY))}"

    assert filtered(question, mounted=False) == f"600 {errno.ENOSYS}", "and says nothing"
    assert (tmp_path / "file").stat().st_mtime > 1
    assert filtered(question, mounted=True) == "644 0"


@needs_libseccomp
def test_signals_go_only_where_nobody_else_can_be_hit():
    def question() -> str:
        with subprocess.Popen(["sleep", "60"]) as child:
            return str(error_of(number(KILL), child.pid, 9))

    assert filtered(question) == "0"
    assert filtered(lambda: str(error_of(number(KILL), os.getppid(), 0)), scoped=False) == str(errno.ENOSYS)
    aborted = lambda: str(subprocess.run([sys.executable, "-c", "import os; os.abort()"]).returncode < 0)  # noqa: E731
    assert filtered(aborted, scoped=False) == "True", "a program can still end itself"


@needs_libseccomp
def test_limits_of_other_processes_stay_where_they_can_be_seen():
    def question() -> str:
        with subprocess.Popen(["sleep", "60"]) as child:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # its own
                resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (32, 32))
                return "changed"
            except OSError as error:
                return str(error.errno)
            finally:
                child.kill()

    assert filtered(question) == "changed"
    assert filtered(question, private=False) == str(errno.ENOSYS)


@needs_libseccomp
def test_a_worker_cannot_outlive_its_keeper_by_asking_nor_get_larger_buffers():
    def question() -> str:
        ours, _theirs = socket.socketpair()
        before = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        same = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before
        named = error_of(number(PRCTL), 15, id(b"name") + bytes.__basicsize__ - 1)
        return (
            f"{error_of(number(PRCTL), 1, 0)} {named} {same} {ours.getsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED)}"
        )

    assert filtered(question) == f"{errno.ENOSYS} 0 True 1"


@needs_libseccomp
def test_the_only_sockets_are_those_of_this_machine():
    families = [int(family) for family in socket.AddressFamily if family != socket.AF_UNIX] + [0, (1 << 32) + 2]

    def question() -> str:
        refused = {
            family: (error_of(number(SOCKET), family, socket.SOCK_DGRAM), errno.EOPNOTSUPP) for family in families
        }
        return wrong(refused | {"unix": (error_of(number(SOCKET), socket.AF_UNIX, socket.SOCK_STREAM), 0)})

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
from utils.grader import system_calls
print(system_calls.refuse_the_rest(True, True, True))
"""


def test_without_libseccomp_the_layer_says_that_it_is_not_available():
    said = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True).stdout
    assert said.startswith("not available: ") and "libseccomp" in said
    states = {"namespaces": "denied", "mounts": "denied", "network": "on", "calls": said}
    assert sandbox.network_of(states) == "UDP is open", "and nobody takes it for isolated"


def test_an_ordinary_user_keeps_no_capability_of_its_namespace():
    def question() -> str:
        sandbox._drop_capabilities()
        lines = Path("/proc/self/status").read_text().splitlines()
        return " ".join(line.split()[1] for line in lines if line.startswith(("CapEff", "CapPrm", "CapInh")))

    assert set(in_a_child(question)) == set("0 ")
