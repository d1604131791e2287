"""SIGTERM: finish the step, save, exit."""

import signal
import threading

SIGTERM_EXIT = 128 + signal.SIGTERM  # 143, what a shell reports for a process that SIGTERM ended


class Termination:
    """Within the block SIGTERM only sets `asked`; the loop then finishes its step, saves, and exits.

    A SIGTERM after the last step ends the process at the end of the block. Python handles signals in the main thread only;
    in another thread this does nothing.
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
