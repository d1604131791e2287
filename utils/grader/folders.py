"""Folders in which submissions are graded: locked while they are in use, removed whatever is in them."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "honest-training-loop-grading-"


@contextlib.contextmanager
def submission_folder() -> Iterator[Path]:
    """A folder for one submission, locked while it is in use; the lock ends with this process, even if that is killed."""
    held = None
    while held is None:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        held = _hold(folder)  # None: another run removed it as abandoned before it was locked
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            remove(folder)
        os.close(held)


def remove_abandoned() -> None:
    """Remove the leftovers of killed runs: this user's submission folders that no process has locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another run may remove it too
            about = folder.lstat()
            mine = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
            if mine and (held := _hold(folder)) is not None:
                try:
                    remove(folder)
                finally:
                    os.close(held)


def _hold(folder: Path) -> int | None:
    """Lock the folder until the returned descriptor is closed; None if it is locked, or was removed meanwhile.

    The folder itself is locked. A lock file, such as filelock's, could be made anew in a folder that is just being removed.
    """
    with contextlib.ExitStack() as on_error, contextlib.suppress(FileNotFoundError, BlockingIOError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        on_error.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(held), os.stat(folder)):
            on_error.pop_all()
            return held
    return None


def remove(folder: Path) -> None:
    """Remove a folder of any depth and with any modes, following no link; shutil.rmtree needs an open file for each level.

    What lies deep is moved up. Folders are opened, and changed through what was opened: another process may exchange names.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        number = 0
        while names := os.listdir(top):
            for name in names:
                if _unlinked(name, top):
                    continue
                inner = _opened(name, top)
                for deeper in os.listdir(inner):
                    if not _unlinked(deeper, inner):
                        os.close(_opened(deeper, inner))
                        number += 1
                        os.rename(deeper, f"{number}.{os.getpid()}.gone", src_dir_fd=inner, dst_dir_fd=top)
                os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)


def _unlinked(name: str, folder: int) -> bool:
    """Remove a file or a link; False for a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    return True


def _opened(name: str, folder: int) -> int:
    """A folder in `folder`, made readable and opened. OSError if it is a link."""
    path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{path}", 0o700)
        return os.open(f"/proc/self/fd/{path}", os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(path)
