"""Replace a file whole or not at all: whoever reads it finds the old content or the new, after a power cut too."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path


def write_bytes(path: Path, content: bytes, dir_fd: int | None = None) -> None:
    """Put `content` into the file `path`, in place of what it holds.

    dir_fd: the descriptor of an open folder, from which a relative path is then counted, wherever that folder is moved.
    Raises OSError if it cannot be written. The file is then as it was, and nothing else is left in the folder.
    """
    temporary = path.with_name(f".tmp-{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb", opener=partial(os.open, mode=0o666, dir_fd=dir_fd)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the new name with no content
        os.replace(temporary, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        raise


def write_text(path: Path, text: str, dir_fd: int | None = None) -> None:
    """write_bytes of `text` in UTF-8. Raises UnicodeEncodeError, before any file is touched, for half a character."""
    write_bytes(path, text.encode("utf-8"), dir_fd)
