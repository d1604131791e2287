"""Sandbox for a student's process: limits what it may read, write, start, use and reach. Linux; each layer best effort.

`unshared` gives it process numbers, a network (an empty one), shared memory and mounts of its own; `root_of_its_own` a file
system with nothing but what it needs; `locked_in` takes the rest away. They tell the state of each layer, "on" or the reason
why not, which the gradebook records.
"""

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from utils.grader.system_calls import ON, refuse_the_rest

LAYERS = ("user", "namespaces", "mounts", "files", "network", "signals", "calls", "limits")
ISOLATING = (
    "user",
    "files",
    "network",
    "signals",
)  # without these a submission can reach private files, others, or the network
PORT_RIGHTS_FROM, SCOPES_FROM = 4, 6  # Landlock's ABI versions

# The system calls that Python has no name for, by number: these have the same on x86-64 and on ARM64.
MOUNT_SETATTR, LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 442, 444, 445, 446
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 4, 38, 36
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 1, 2

# Landlock's rights over files, by bit: execute 0, write 1, read 2, list 3, … make, remove, link, truncate 14, ioctl 15.
READ = 0b1101
FILE_ONLY = (
    0b1100_0000_0000_0111  # the rights that a file, not a folder, can be given: execute, write, read, truncate, ioctl
)
RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # number of rights; 16 from version 5 on
MOST_FILES = 20_000  # of one submission at a time

DEVICES = (
    (Path("/dev/null"), FILE_ONLY),
    (Path("/dev/zero"), READ),
    (Path("/dev/random"), READ),
    (Path("/dev/urandom"), READ),
)
LINKS_OF_ROOT = ("bin", "sbin", "lib", "lib32", "lib64")  # into /usr, on most systems
SCRATCH = (Path("/tmp"), Path("/dev/shm"))  # that programs expect to be able to write to

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Limits:
    """Limits of one submission: seconds of CPU time, bytes of memory, of a file and of all, processes, open files.

    The precompiled header of torch.compile takes 100 MB.
    """

    cpu: int = 240
    memory: int = 4 << 30
    file_bytes: int = 256 << 20
    disk: int = 512 << 20
    processes: int = 64
    files: int = 256


class Cage(NamedTuple):
    """Where and how a worker is locked in. hidden: folders that it must not see; readable: what it may; user: if root.

    command: a program that it becomes, instead of answering questions; result: the file in `work` that comes of it.
    """

    work: Path
    readable: tuple[Path, ...]
    hidden: tuple[Path, ...]
    limits: Limits
    user: int
    environment: dict[str, str]
    command: tuple[str, ...] = ()
    result: str = ""


def isolated(states: dict[str, str]) -> bool:
    """Whether the sandbox layers that are on keep a submission from files, the network and other processes."""
    return all(states.get(layer) == ON for layer in ISOLATING)


def unshared() -> None:
    """Leave the namespaces of the caller: processes, network, shared memory, mounts. The next fork is process 1 of the new.

    An ordinary user gets a user namespace with it and keeps its number. OSError where the system does not grant it; the
    process may then have lost its user's number: ask `namespaces_denied` first.
    """
    flags = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS
    user, group = os.getuid(), os.getgid()
    if user == 0:  # in a namespace of users it would have no other user to become
        _done(libc.unshare(flags))
        return
    _done(libc.unshare(flags | CLONE_NEWUSER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def forked(work: Callable[[], None]) -> int:
    """The number of a child of this process that does `work` and ends: it never returns into the code of its parent."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def namespaces_denied() -> str:
    """Why a process that is started here cannot have namespaces of its own; "" if it can. A child of this one tries it.

    Some systems (Ubuntu since 23.10) let an ordinary user leave its namespaces, and then deny the map of its number.
    """
    ours, theirs = os.pipe()

    def leave() -> None:
        try:
            unshared()
            _mount("none", Path("/"), "", MS_REC | MS_PRIVATE)
        except OSError as error:
            os.write(theirs, str(error).encode())

    pid = forked(leave)
    os.close(theirs)
    with os.fdopen(ours, "rb") as said:
        problem = said.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return problem


def root_of_its_own(work: Path, readable: Sequence[Path], hidden: Sequence[Path], limits: Limits) -> str:
    """Make a new file system the root of this process's mount namespace. It has what is `readable`, which nobody can change
    there, without the folders in `hidden`; and scratch folders. "on", or why the root is still the old one.

    This process is the first of its namespace of processes. What it writes, in `work` or elsewhere, takes at most
    limits.disk bytes of memory, and is gone with the process.
    """
    try:
        _mount("none", Path("/"), "", MS_REC | MS_PRIVATE)
        _mount("tmpfs", work, "tmpfs", MS_NOSUID | MS_NODEV, f"size={limits.disk},nr_inodes={MOST_FILES},mode=755")
    except OSError as error:
        return str(error)
    try:
        _furnish(work, work, readable, hidden)
        os.chdir(work)
        _done(libc.pivot_root(b".", b"."), "pivot_root")
        _done(libc.umount2(b".", MNT_DETACH), "leaving the old root")
        os.chdir("/")
    except OSError as error:
        libc.umount2(os.fsencode(work), MNT_DETACH)
        return str(error)
    return ON


def _furnish(new: Path, work: Path, readable: Sequence[Path], hidden: Sequence[Path]) -> None:
    """Fill the new root; `new` is where it still hangs in the old one, and paths are those of the old one."""

    def there(path: Path) -> Path:
        return new / path.relative_to("/")

    def show(path: Path) -> None:
        target = there(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(exist_ok=True) if path.is_dir() else target.touch()
        _mount(str(path), target, "", MS_BIND | MS_REC)
        _set_attributes(target, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID)

    real = sorted({path.resolve() for path in readable if path.exists()})
    top = [path for path in real if not any(path.is_relative_to(other) for other in real if other != path)]
    for path in top:
        show(path)
    covered = [path for path in hidden if path.is_dir() and any(path.is_relative_to(shown) for shown in top)]
    for path in covered:
        _mount("tmpfs", there(path), "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755")
    for path in real:
        if any(path.is_relative_to(folder) for folder in covered):
            show(path)
    for path in covered:
        _set_attributes(there(path), MOUNT_ATTR_RDONLY)
    for path in hidden:
        if path.is_file() and there(path).exists():
            _mount("/dev/null", there(path), "", MS_BIND)
    for path in (*(Path("/", name) for name in LINKS_OF_ROOT), *readable):
        if path.is_symlink() and not os.path.lexists(there(path)):
            there(path).parent.mkdir(parents=True, exist_ok=True)
            there(path).symlink_to(os.readlink(path))
    for path in (*SCRATCH, Path("/proc")):
        there(path).mkdir(parents=True, exist_ok=True)
    for path in SCRATCH:
        there(path).chmod(0o1777)
    for device, _ in DEVICES:
        there(device).touch()
        _mount(str(device), there(device), "", MS_BIND)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        there(Path("/dev", name)).symlink_to(f"/proc/self/fd/{number}")
    there(Path("/dev/fd")).symlink_to("/proc/self/fd")
    there(work).mkdir(parents=True, exist_ok=True)
    there(work).chmod(0o700)
    _mount("proc", there(Path("/proc")), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    status = libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, options.encode())
    _done(status, f"mounting {target}")


def _set_attributes(target: Path, attributes: int) -> None:
    """Of the mount and those below it. Needs Linux 5.12."""
    asked = struct.pack("4Q", attributes, 0, 0, 0)
    status = libc.syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), AT_RECURSIVE, asked, len(asked))
    _done(status, f"making {target} unchangeable")


def _done(status: int, what: str = "") -> None:
    """OSError if the last system call failed."""
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number) + f" ({what})" * bool(what))


def locked_in(
    work: Path, readable: Sequence[Path], limits: Limits, user: int, *, namespaces: str, mounts: str
) -> dict[str, str]:
    """Drop root, capabilities, TCP, system calls that no lab needs and sockets of other networks; apply `limits`; allow only
    `readable` files, and writing in `work` and scratch folders of its own.

    user: the user to become, if this is root. namespaces, mounts: the state of these layers. Neither this process nor its
    children can undo any of it.
    """
    was_root, mounted = os.getuid() == 0, mounts == ON
    states = {"namespaces": namespaces, "mounts": mounts, "user": _become(user, work)}
    # Where it has no namespace of its own, the kernel counts all processes of its user, such as those of a desktop.
    states["limits"] = _limited(limits, 0 if namespaces == ON or was_root else processes_of(os.getuid()))
    _drop_capabilities()
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # A root of its own has nothing that is not to be read.
    states |= _landlocked((work, *SCRATCH) if mounted else (work,), (Path("/"),) if mounted else readable)
    alone = namespaces == ON or states["signals"] == ON or (was_root and states["user"] == ON)
    die_with_parent()  # the change of user has reset this, and the filter refuses it
    states["calls"] = refuse_the_rest(mounted, alone, namespaces == ON or (was_root and states["user"] == ON))
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no other process of the same user may look into this one
    states["signals"] = ON if alone or states["calls"] == ON else states["signals"]
    states["network"] = network_of(states)
    return states


def network_of(states: dict[str, str]) -> str:
    """The state of the network, from those of the layers: "on", or what the process can still reach."""
    if states["mounts"] == ON:
        return ON
    if states["namespaces"] == ON or states["calls"] == ON:
        return "sockets in the file system answer whom their modes allow: no mounts of its own"
    return "UDP is open" if states["network"] == ON else states["network"]


def files_of(states: dict[str, str], readable: Sequence[Path], hidden: Sequence[Path]) -> str:
    """The state of files: where there is no root of its own, Landlock, which cannot hide a folder inside a readable one."""
    if states["mounts"] == ON:
        return ON
    inside = [path for path in hidden if any(path.is_relative_to(folder) for folder in readable)]
    return f"{inside[0]} lies in what it may read" if inside else states["files"]


def processes_of(user: int) -> int:
    """How many processes and threads this user has."""
    count = 0
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == user:
                count += len(os.listdir(f"/proc/{pid}/task"))
    return count


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


def _limited(limits: Limits, others: int) -> str:
    wanted = {
        resource.RLIMIT_CPU: limits.cpu,
        resource.RLIMIT_AS: limits.memory,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.processes + others,
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
