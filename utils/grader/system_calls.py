"""Which system calls a submission may make: a list of what Python, torch, a compiler and a kernel of Jupyter use.

What is not on it fails as if the kernel did not have it (ENOSYS), which every C library expects of a newer call. So a call
that a later kernel adds is refused until somebody has thought about it.
"""

import errno
import functools
import os
import socket

try:
    import pyseccomp
except (ImportError, RuntimeError, OSError) as error:  # not installed; or it does not find libseccomp.so.2
    pyseccomp, NO_SECCOMP = None, f"not available: {error} (apt-get install libseccomp2, pip install pyseccomp)"

ON = "on"
FILES = """
access chdir chmod close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fallocate fchdir fchmod
fchmodat fchmodat2 fchown fchownat chown lchown fdatasync fgetxattr flistxattr flock fstat fstatfs fsync ftruncate getcwd
getdents getdents64 getxattr lgetxattr link linkat listxattr llistxattr lseek lstat mkdir mkdirat mknod mknodat
newfstatat open openat openat2 pread64 preadv pwrite64 pwritev read readahead readlink readlinkat readv rename renameat
renameat2 rmdir sendfile splice stat statfs statx symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink
unlinkat utime utimensat utimes futimesat vmsplice write writev
"""
MEMORY = """
brk get_mempolicy madvise mbind membarrier mlock mlock2 mlockall mprotect mremap msync munlock munlockall munmap
pkey_alloc pkey_free pkey_mprotect rseq set_mempolicy
"""
PROCESSES = """
arch_prctl capget execve execveat exit exit_group fork vfork futex futex_requeue futex_wait futex_waitv futex_wake
get_robust_list set_robust_list getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority getrandom
getresgid getresuid getrlimit getrusage getsid gettid getuid pidfd_open restart_syscall
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_yield seccomp set_tid_address set_thread_area setpgid setrlimit
setsid sysinfo times uname wait4 waitid
"""
SIGNALS = """
alarm pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack signalfd
signalfd4
"""
KILLING = "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"
TIME = """
clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time timer_create timer_delete
timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime
"""
WAITING = """
epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 pipe pipe2 poll ppoll pselect6
select
"""
SOCKETS = """
accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg sendto
shutdown socketpair
"""
ALLOWED = " ".join((FILES, MEMORY, PROCESSES, SIGNALS, TIME, WAITING, SOCKETS)).split()
# Where a submission sees folders of others, these do nothing and say that they did: code that sets a mode goes on.
CHANGES = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "fchownat", "lchown",
           "utime", "utimensat", "utimes", "futimesat")  # fmt: skip
WATCHING = ("inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch")  # nor may it watch them there
NAMESPACES = sum(1 << bit for bit in (7, 17, 25, 26, 27, 28, 29, 30))  # flags of clone
PR_SET_PDEATHSIG = 1
# Of fcntl: copies, flags, locks, leases, seals, and asking; not the owner and the signal of a file, nor the size of a pipe.
FCNTL = (*range(8), 9, 11, 36, 37, 38, 1024, 1025, 1030, 1032, 1033, 1034)
# Of ioctl: a terminal's settings, size and group, bytes to read, blocking, closing on exec, copies of a file, its flags.
IOCTL = (0x5401, 0x5402, 0x5403, 0x5404, 0x540F, 0x5410, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409, 0x80086601)
OF_A_PROCESS = (
    "prlimit64",
    "sched_setaffinity",
    "sched_setparam",
    "sched_setscheduler",
)  # the first argument says of which
SHARED, ANONYMOUS = 1, 0x20  # memory that is both is counted by no process that does not touch it
BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF and what forces them: memory of the kernel that no limit counts


def refuse_the_rest(mounted: bool, scoped: bool, private: bool) -> str:
    """Allow this process and its children nothing but the calls of this list, for good. "on", or why that was not done.

    mounted: it sees no files of others, and may change modes. scoped: it cannot signal others, and may send signals.
    private: nobody else's processes are of its user and in its sight, and it may set limits and priorities.
    """
    if pyseccomp is None:
        return NO_SECCOMP
    try:
        _filter(mounted, 0 if scoped else os.getpid(), private).load()
    except OSError as error:
        return str(error)
    return ON


@functools.cache  # that of the common case is made in the clean process
def _filter(mounted: bool, signals_only: int, private: bool) -> "pyseccomp.SyscallFilter":
    """signals_only: the one process that may be sent signals; 0 for any."""
    arg, allow = pyseccomp.Arg, pyseccomp.ALLOW
    calls = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.ENOSYS))
    calls.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.ERRNO(errno.EPERM))  # numbers of another ABI: 32-bit, x32

    def add(action, name: str, *arguments) -> None:
        if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) >= 0:  # some are of other processors, or newer
            calls.add_rule(action, name, *arguments)

    for name in (*ALLOWED, *(WATCHING if mounted else ())):
        done_for_show = not mounted and name in CHANGES
        add(pyseccomp.ERRNO(0) if done_for_show else allow, name)
    if signals_only:
        add(allow, "tgkill", arg(0, pyseccomp.EQ, signals_only))  # abort() and the like
    else:
        for name in KILLING.split():
            add(allow, name)
    # The flags of clone3 are in memory, which no filter can read. Without it, libc takes clone.
    add(allow, "clone", arg(0, pyseccomp.MASKED_EQ, NAMESPACES, 0))
    add(allow, "prctl", arg(0, pyseccomp.NE, PR_SET_PDEATHSIG))
    for command in FCNTL:
        add(allow, "fcntl", arg(1, pyseccomp.EQ, command))
    for request in IOCTL:
        add(allow, "ioctl", arg(1, pyseccomp.EQ, request))
    for flags in (0, SHARED, ANONYMOUS):
        add(allow, "mmap", arg(3, pyseccomp.MASKED_EQ, SHARED | ANONYMOUS, flags))
    for name in OF_A_PROCESS:
        add(allow, name, *([] if private else [arg(0, pyseccomp.EQ, 0)]))
    if private:
        add(allow, "setpriority")
    for persona in (0, 0xFFFFFFFF):  # what it has, or the ordinary one
        add(allow, "personality", arg(0, pyseccomp.EQ, persona))
    add(allow, "socket", arg(0, pyseccomp.EQ, socket.AF_UNIX))
    # Programs such as ZeroMQ work without a kind of socket that is not supported.
    add(pyseccomp.ERRNO(errno.EOPNOTSUPP), "socket", arg(0, pyseccomp.NE, socket.AF_UNIX))
    add(allow, "setsockopt", arg(1, pyseccomp.NE, socket.SOL_SOCKET))
    for option in range(1, 80):
        done = pyseccomp.ERRNO(0) if option in BUFFER_SIZES else allow
        add(done, "setsockopt", arg(1, pyseccomp.EQ, socket.SOL_SOCKET), arg(2, pyseccomp.EQ, option))
    return calls


if pyseccomp is not None:
    _filter(True, 0, True)
