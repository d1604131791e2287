"""SIGTERM, the signals that announce it, and Ctrl-C: finish the step, save, exit."""

import signal
import sys
import threading
from contextlib import suppress

from utils.data.workers import WARNINGS

SIGTERM_EXIT = 128 + signal.SIGTERM  # 143, what a shell reports for a process that SIGTERM ended


class Termination:
    """Within the block SIGTERM only sets `asked`; the loop then finishes its step, saves, and exits.

    So do Ctrl-C and the WARNINGS of clusters, unless the program handles or ignores them itself (nohup does); of a handler
    in C, such as faulthandler's, Python does not know. A second Ctrl-C raises KeyboardInterrupt wherever the program is.
    A signal after the last step ends the process at the end of the block. Python handles signals in the main thread only;
    in another thread this does nothing.
    """

    def __init__(self):
        self.asked = False
        self.interrupted = False  # by Ctrl-C

    def __enter__(self) -> "Termination":
        self.previous = {}
        if threading.current_thread() is threading.main_thread():
            usual = (signal.SIG_DFL, signal.default_int_handler)
            free = [number for number in (signal.SIGINT, *WARNINGS) if signal.getsignal(number) in usual]
            self.previous = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, *free)}
        return self

    def __exit__(self, kind, *error) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
        if self.asked and kind is None:
            raise self.exception()

    def _ask(self, number, frame) -> None:
        if number == signal.SIGINT:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            with suppress(RuntimeError):  # it came in the middle of a print
                print("Ctrl-C: the run ends after this step; once more, and it ends at once", file=sys.stderr)
        self.asked = True

    def exception(self, note: str = "") -> BaseException:
        """What to raise once the loop has saved: KeyboardInterrupt after Ctrl-C, else SystemExit; with this note, if any."""
        error = KeyboardInterrupt() if self.interrupted else SystemExit(SIGTERM_EXIT)
        if note:
            error.add_note(note)
        return error
