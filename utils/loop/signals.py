"""SIGTERM, and SIGHUP and SIGUSR1 by which clusters and closed terminals announce it: finish the step, save, exit."""

import signal
import threading

WARNINGS = (signal.SIGHUP, signal.SIGUSR1)
SIGTERM_EXIT = 128 + signal.SIGTERM  # 143, what a shell reports for a process that SIGTERM ended


class Termination:
    """Within the block SIGTERM only sets `asked`; the loop then finishes its step, saves, and exits.

    So do SIGHUP and SIGUSR1, unless the program handles or ignores them itself (nohup does); of a handler in C, such as
    faulthandler's, Python does not know. A signal after the last step ends the process at the end of the block. Python
    handles signals in the main thread only; in another thread this does nothing.
    """

    def __init__(self):
        self.asked = False

    def __enter__(self) -> "Termination":
        self.previous = {}
        if threading.current_thread() is threading.main_thread():
            free = [number for number in WARNINGS if signal.getsignal(number) is signal.SIG_DFL]
            self.previous = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, *free)}
        return self

    def __exit__(self, kind, *error) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
        if self.asked and kind is None:
            raise SystemExit(SIGTERM_EXIT)

    def _ask(self, number, frame) -> None:
        self.asked = True
