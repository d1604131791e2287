"""Runs a notebook's cells as Jupyter does: by IPython, with magics, `display` and `await`, in a module called `__main__`."""

import builtins
import sys
import types

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


class _Shell(InteractiveShell):
    """IPython without a terminal: shell lines are run plainly, and nobody reads a traceback."""

    def system(self, line: str) -> None:
        self.system_raw(line)

    def enable_gui(self, gui=None) -> None:
        """As in Jupyter: pictures need no window."""

    def showtraceback(self, *_, **__) -> None:
        pass

    def showsyntaxerror(self, *_, **__) -> None:
        pass


class Cells:
    """The process's one notebook. `namespace` holds what the cells have defined."""

    def __init__(self):
        module = types.ModuleType("__main__")
        module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = module  # pickle, inspect and multiprocessing look there
        quiet = Config()
        quiet.HistoryManager.enabled = False
        quiet.InteractiveShell.colors = "NoColor"
        self._shell = _Shell.instance(config=quiet, user_module=module)
        self.namespace = self._shell.user_ns

    def run(self, source: str) -> None:
        """Run one cell; raises what it raised."""
        outcome = self._shell.run_cell(source, store_history=True)
        if error := outcome.error_before_exec or outcome.error_in_exec:
            raise error
