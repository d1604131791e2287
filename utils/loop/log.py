"""The history of a run: a list of records, and a file with one line of JSON for each."""

import json
import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from utils.distributed.ranks import SINGLE_PROCESS, Ranks

MEASURED = "measured"  # the key in a record for seconds and bytes, which differ from run to run


class Log:
    """A run's history: a list of records in memory and, given a path, a file with one line of JSON for each.

    Floats are written so that they read back to the same bits. Every rank has the list; rank 0 writes the file, always
    within `writing()`, which turns errors of the system into errors of the run.
    """

    def __init__(
        self,
        path: Path | None = None,
        ranks: Ranks = SINGLE_PROCESS,
        writing: Callable[[], AbstractContextManager] = nullcontext,
    ):
        self.path, self.ranks, self.writing = path if ranks.first else None, ranks, writing
        self._own: list[dict] = []
        self._earlier: BinaryIO | None = None  # the file, until its records from before this process have been read

    @property
    def records(self) -> list[dict]:
        """All records, in order. Those from before a resume are read at the first access."""
        if self._earlier is not None:
            self._own[:0] = filter(None, map(_parse, self._earlier.read(self._end).split(b"\n")))
            self._earlier.close()
            self._earlier = None
        return self._own

    def resume(self, step: int) -> None:
        """Keep the file's records up to `step`; cut off later ones, written before a crash.

        Earlier records are neither read nor written: a long run resumes as fast as a short one.
        """
        if self.path is not None and self.path.exists():
            with self.writing():
                self._cut(step)
        if self.ranks.world > 1:
            self._own = self.ranks.of_first(self.records)

    def _cut(self, step: int) -> None:
        if step == 0:  # no usable checkpoint: keep the old log beside the new one
            names = (Path(f"{self.path}.old{number}") for number in ("", *range(2, 1000)))
            os.replace(self.path, next(name for name in names if not name.exists()))
            return
        with open(self.path, "r+b") as file:
            whole, self._end = _end_of_last(file, step)
            if whole:
                file.truncate(self._end)
            else:
                file.seek(self._end)
                file.write(b"\n")
        self._earlier = open(self.path, "rb")  # noqa: SIM115  (the folder may be deleted before they are read)
        weakref.finalize(self, self._earlier.close)

    def add(self, **record) -> dict:
        self._own.append(record)
        if self.path is not None:
            with self.writing(), open(self.path, "a") as file:
                file.write(json.dumps(record) + "\n")
        return record


BLOCK = 1 << 16  # bytes per read, backwards from the end of the log


def _end_of_last(file: BinaryIO, step: int) -> tuple[bool, int]:
    """(whether the line is complete, its end) for the last record up to `step`; (True, 0) if there is none."""
    start = size = file.seek(0, os.SEEK_END)
    partial = b""  # the end of a line that begins in an earlier block
    while start > 0:
        length = min(BLOCK, start)
        start -= length
        file.seek(start)
        lines = (file.read(length) + partial).split(b"\n")
        partial, end = lines[0], start + sum(map(len, lines)) + len(lines) - 1
        for line in reversed(lines if start == 0 else lines[1:]):
            record = _parse(line)
            if record and record["step"] <= step:
                return end < size, min(end + 1, size)
            end -= len(line) + 1
    return True, 0


def _parse(line: bytes) -> dict | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None  # the last line of a process that was killed while writing it
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None
