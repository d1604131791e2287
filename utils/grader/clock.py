"""How long a submission has been at work, whatever else the machine does: what a grader has patience for."""

import mmap
import struct

VALUE = struct.Struct("d")


class Clock:
    """Seconds of CPU time, and of time in which nothing of the submission wanted a CPU, such as in a sleep.

    A keeper adds to it; processes forked from this one see what it added. While a busy machine lets a submission wait, the
    clock stands still. The keeper also says here that somebody else has killed its worker: no fault of the submission's.
    """

    def __init__(self):
        self._memory = mmap.mmap(-1, VALUE.size + 1)

    def read(self) -> float:
        return VALUE.unpack_from(self._memory)[0]

    def add(self, seconds: float) -> None:
        VALUE.pack_into(self._memory, 0, self.read() + seconds)

    def say_killed(self) -> None:
        self._memory[VALUE.size] = 1

    def killed(self) -> bool:
        return self._memory[VALUE.size] == 1

    def close(self) -> None:
        """For this process: a worker must not set it back."""
        self._memory.close()
