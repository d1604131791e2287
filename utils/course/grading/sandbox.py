"""Sandbox for a student's process: limits what it may read, write, start, use and reach. Linux; each layer best effort.

`unshared` gives it process numbers, a network (an empty one), shared memory and mounts of its own; `locked_in` takes the
rest away. Both return the state of each layer, "on" or the reason why not, which the gradebook records.
"""

import ctypes
import errno
import os
import resource
import signal
import socket
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

try:
    import pyseccomp
except (ImportError, RuntimeError, OSError) as error:  # not installed; or it does not find libseccomp.so.2
    pyseccomp, NO_SECCOMP = None, f"not available: {error} (apt-get install libseccomp2, pip install pyseccomp)"

ON = "on"
LAYERS = ("user", "namespaces", "mounts", "files", "network", "signals", "calls", "limits")
ISOLATING = ("files", "network")  # without these a submission can read private files or use the network
PORT_RIGHTS_FROM, SCOPES_FROM = 4, 6  # Landlock's ABI versions

# The system calls that Python has no name for, by number: these have the same on x86-64 and on ARM64.
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 4, 38, 36
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000

# Landlock's rights over files, by bit: execute 0, write 1, read 2, list 3, … make, remove, link, truncate 14, ioctl 15.
READ = 0b1101
FILE_ONLY = (
    0b1100_0000_0000_0111  # the rights that a file, not a folder, can be given: execute, write, read, truncate, ioctl
)
RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # number of rights; 16 from version 5 on

# System calls that no lab needs, and why they are refused.
REFUSED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd",  # access to other processes
    "memfd_create", "memfd_secret",  # memory that no limit counts
    "shmget", "msgget", "semget", "mq_open", "add_key", "request_key", "keyctl",  # objects that outlive a process
    "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd",  # other ways in
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot",  # namespaces and mounts
    "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",  # mounts, the newer calls
)  # fmt: skip
NAMESPACES = tuple(
    1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)
)  # flags of clone: mounts, cgroup, UTS, IPC, user, …
MOST_FILES = 20_000  # of one submission at a time

DEVICES = ((Path("/dev/null"), FILE_ONLY), (Path("/dev/zero"), READ), (Path("/dev/urandom"), READ))

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Limits:
    """Limits of one submission: seconds of CPU time, bytes of memory, of a file and of all, processes, open files."""

    cpu: int = 120
    memory: int = 4 << 30
    file_bytes: int = 64 << 20
    disk: int = 256 << 20
    processes: int = 64
    files: int = 256


def unshared() -> dict[str, str]:
    """Leave the namespaces of the caller: processes, network, shared memory, mounts. The next fork is process 1 of the new.

    An ordinary user gets a user namespace with it and keeps its number. Where the kernel denies it, nothing changes.
    """
    flags = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS
    user, group = os.getuid(), os.getgid()
    problem = _problem(libc.unshare(flags)) if user == 0 else "not root"
    if problem:
        problem = _problem(libc.unshare(flags | CLONE_NEWUSER))
        if problem:
            return {"namespaces": problem}
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return {"namespaces": ON}


def mounts_of_its_own(
    work: Path, hidden: Sequence[Path], needed: Sequence[Path], sockets: Sequence[Path], limits: Limits
) -> str:
    """Process 1 of a new namespace: its own /proc and /dev/shm, `hidden` folders empty, `sockets` of others out of reach.

    `work` becomes a file system of limits.disk bytes that is gone with the process, however deep or hidden its files are.
    If this is root, about to become another user, a folder that only root may enter is replaced by one that has nothing
    but what is `needed` of it, such as an interpreter in root's home.
    """
    safe = MS_NOSUID | MS_NODEV
    try:
        _mount("none", Path("/"), "", MS_REC | MS_PRIVATE)
        _mount("tmpfs", Path("/dev/shm"), "tmpfs", safe, f"size={limits.file_bytes},nr_inodes={MOST_FILES}")
        _mount("proc", Path("/proc"), "proc", safe | MS_NOEXEC)
        if os.getuid() == 0:
            _replace_private_folders((*needed, work))
        for folder in hidden:
            if folder.is_dir() and not work.is_relative_to(folder):
                _mount("tmpfs", folder, "tmpfs", safe | MS_NOEXEC | MS_RDONLY, "size=4k")
        for path in sockets:
            if _is_socket(path):
                _mount("/dev/null", path, "", MS_BIND)
        _mount("tmpfs", work, "tmpfs", safe, f"size={limits.disk},nr_inodes={MOST_FILES},mode=700")
    except OSError as error:
        return str(error)
    return ON


def _replace_private_folders(needed: Sequence[Path]) -> None:
    inside: dict[Path, list[Path]] = {}
    for path in needed:
        private = next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)
        if private:
            inside.setdefault(private, []).append(path)
    for private, paths in inside.items():
        held = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths]
        _mount("tmpfs", private, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        for path, handle in zip(paths, held, strict=True):
            path.mkdir(parents=True)
            _mount(f"/proc/self/fd/{handle}", path, "", MS_BIND | MS_REC)
            os.close(handle)


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    if libc.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} (mounting {target})")


def open_sockets() -> list[Path]:
    """The sockets in the file system with a listener on this machine, such as a desktop's message bus."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    named = {line.partition(" /")[2] for line in lines if " /" in line}
    return [Path(f"/{name}") for name in sorted(named)]


def locked_in(
    work: Path, readable: Sequence[Path], limits: Limits, user: int, writable: Sequence[Path] = ()
) -> dict[str, str]:
    """Drop root, capabilities, TCP, system calls that no lab needs and sockets of other networks; apply `limits`; allow only
    `readable` files, and writing in `work` and `writable`.

    user: the user to become, if this is root. Neither this process nor its children can undo any of it.
    """
    states = {"user": _become(user, work)}
    states["limits"] = _limited(limits)
    _drop_capabilities()
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    states |= _landlocked((work, *writable), readable)
    states["calls"] = _filtered()
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no other process of the same user may look into this one
    return states


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def network_of(states: dict[str, str], sockets: Sequence[Path]) -> str:
    """The state of network isolation, from the states of the layers: "on", or what the process can still reach."""
    if reached := [str(path) for path in sockets if _is_socket(path) and os.access(path, os.W_OK)]:
        return f"{reached[0]} answers whoever asks" + f", and {len(reached) - 1} more" * (len(reached) > 1)
    if ON in (states["namespaces"], states["calls"]):
        return ON
    return "UDP is open" if states["network"] == ON else states["network"]


def files_of(states: dict[str, str], readable: Sequence[Path], hidden: Sequence[Path]) -> str:
    """The same for files: a hidden folder must not be inside a readable one, unless it is mounted over."""
    inside = [path for path in hidden if any(path.is_relative_to(folder) for folder in readable)]
    return f"{inside[0]} lies in what it may read" if inside and states["mounts"] != ON else states["files"]


def die_with_parent() -> None:
    """SIGKILL for this process when the one that started it ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that it can kill them."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def first_to_be_killed() -> None:
    """If memory runs out, the kernel kills this process and its children first."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _become(user: int, work: Path) -> str:
    if os.getuid() != 0:
        return ON
    try:
        os.chown(work, user, user)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError as error:
        return str(error)
    return ON


def _limited(limits: Limits) -> str:
    wanted = {
        resource.RLIMIT_CPU: limits.cpu,
        resource.RLIMIT_AS: limits.memory,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_NOFILE: limits.files,
        resource.RLIMIT_CORE: 0,
    }
    try:
        for kind, most in wanted.items():
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))
    except (OSError, ValueError) as error:
        return str(error)
    return ON


def _drop_capabilities() -> None:
    """Drop all capabilities of the user namespace, in which an ordinary user is root."""
    header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process
    libc.capset(header, bytes(24))


def _system_call_filter() -> "pyseccomp.SyscallFilter | str":
    """A seccomp filter that refuses REFUSED, new namespaces and sockets but AF_UNIX; or a text that says why not."""
    if pyseccomp is None:
        return NO_SECCOMP
    refuse = pyseccomp.ERRNO(errno.EPERM)
    unknown = [name for name in (*REFUSED, "clone3") if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) == -1]
    if unknown:
        return f"not available: libseccomp does not know {', '.join(unknown)} (install 2.5.2 or newer)"
    calls = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    calls.set_attr(pyseccomp.Attr.ACT_BADARCH, refuse)  # numbers of another ABI: 32-bit, x32
    for name in REFUSED:
        calls.add_rule(refuse, name)
    for flag in NAMESPACES:
        calls.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    # The flags of clone3 are in memory, which no filter can read: report it as missing, so that libc uses clone.
    calls.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    # Programs such as ZeroMQ work without a kind of socket that is not supported.
    other_family = pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX)
    calls.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "socket", other_family)
    return calls


CALLS = _system_call_filter()  # made once, in the clean process: a worker only loads it


def _filtered() -> str:
    """Load the filter of system calls, for good."""
    if isinstance(CALLS, str):
        return CALLS
    try:
        CALLS.load()
    except OSError as error:
        return str(error)
    return ON


def _landlocked(writable: Sequence[Path], readable: Sequence[Path]) -> dict[str, str]:
    """Files by allow-list; with newer kernels no TCP, no signals and no sockets to what is outside."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return dict.fromkeys(("files", "network", "signals"), _problem(version))
    all_rights = (1 << RIGHTS_OF_ABI.get(version, 16)) - 1
    ports = 0b11 if version >= PORT_RIGHTS_FROM else 0
    scopes = 0b11 if version >= SCOPES_FROM else 0
    fields = [all_rights] + [ports] * (version >= PORT_RIGHTS_FROM) + [scopes] * (version >= SCOPES_FROM)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, struct.pack(f"{len(fields)}Q", *fields), 8 * len(fields), 0)
    if ruleset < 0:
        return dict.fromkeys(("files", "network", "signals"), _problem(ruleset))
    for path, rights in [*((path, all_rights) for path in writable), *((path, READ) for path in readable), *DEVICES]:
        _allow(ruleset, path, rights & all_rights)
    problem = _problem(libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    old = f"Landlock version {version} of this kernel does not know them"
    return {
        "files": problem or ON,
        "network": problem or (ON if ports else old),
        "signals": problem or (ON if scopes else old),
    }


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path needs no rule
    if not path.is_dir():
        rights &= FILE_ONLY
    libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, handle), 0)
    os.close(handle)


def _problem(status: int) -> str:
    """The error text of the last system call, or "" for success."""
    return os.strerror(ctypes.get_errno()) if status < 0 else ""
