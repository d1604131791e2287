"""SIGTERM: finish the step, save, leave."""

import signal
import threading

SIGTERM_EXIT = 128 + signal.SIGTERM  # 143, what a shell reports for a process that SIGTERM ended


class Termination:
    """While it is entered, SIGTERM only sets `asked`; the loop finishes its step, saves, and leaves.

    One that comes after the last step ends the process when the block is left.
    Signals can be caught in the main thread only; in another thread this does nothing.
    """

    def __init__(self):
        self.asked = False

    def __enter__(self) -> "Termination":
        self.caught = threading.current_thread() is threading.main_thread()
        if self.caught:
            self.previous = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, kind, *error) -> None:
        if self.caught:
            signal.signal(signal.SIGTERM, self.previous)
        if self.asked and kind is None:
            raise SystemExit(SIGTERM_EXIT)

    def _ask(self, number, frame) -> None:
        self.asked = True
