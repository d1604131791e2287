"""Writing to a folder that somebody may move, replace or remove at any instant.

Its name is looked up once, by opening it or a file in it; then `check()` raises if that was not the folder that is meant.
What is open by then stays where it is, wherever that is moved.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Check = Callable[[], None]


def unchecked() -> None:
    """Any folder will do."""


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Its descriptor, which the functions of os take as dir_fd."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Have the names in a folder survive a power cut."""
    with opened_folder(path) as folder:
        os.fsync(folder)


def rename(path: Path, name: str, check: Check) -> None:
    """Call the file `name`, in its folder."""
    with opened_folder(path.parent) as folder:
        check()
        os.replace(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)


def rewrite(path: Path, text: str, check: Check = unchecked) -> None:
    """Replace what is in `path`, or leave it as it is. Raises OSError if that cannot be written."""
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        with open(temporary, "w") as file:
            check()
            file.write(text)
        os.replace(temporary, path)
    except (OSError, RuntimeError):
        with suppress(OSError):
            temporary.unlink()
        raise
