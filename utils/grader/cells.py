"""Runs a notebook's cells as Jupyter does: by IPython, with magics, `display` and `await`, in a module called `__main__`."""

import builtins
import locale
import sys
import traceback
import types

from IPython.core.compilerop import CachingCompiler
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

# What a line fails with where a package, a file, a language, a magic or a person who types is missing.
LACKING = (ImportError, OSError, EOFError, locale.Error, UsageError)


class _Compiler(CachingCompiler):
    """Keeps which cell each piece of code is from: `cell_of`, by the name that Python gives as its file."""

    def __init__(self):
        super().__init__()
        self.cell_of: dict[str, str] = {}
        self.running = ""

    def get_code_name(self, raw_code, transformed_code, number):
        name = super().get_code_name(raw_code, transformed_code, number)
        self.cell_of[name] = self.running
        return name


class _Shell(InteractiveShell):
    """IPython without a terminal: shell lines are run plainly, and nobody reads a traceback."""

    compiler_class = _Compiler

    async def run_code(self, code_obj, result=None, *, async_=False):
        """A line that lacks something here, or a magic that fails, takes nothing else of its cell: where the student worked
        it went through. What stands below is run too, whatever follows from it; of the cell the first error is told.
        """
        before = result and result.error_in_exec
        failed = await super().run_code(code_obj, result, async_=async_)
        if not failed or result is None or not isinstance(result.error_in_exec, Exception):
            return failed
        goes_on = before or isinstance(result.error_in_exec, LACKING) or "run_line_magic" in code_obj.co_names
        result.error_in_exec = before or result.error_in_exec
        return not goes_on

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

    def run(self, name: str, source: str) -> None:
        """Run the cell `name`; raises what it raised."""
        self._shell.compile.running = name
        outcome = self._shell.run_cell(source, store_history=True)
        if error := outcome.error_before_exec or outcome.error_in_exec:
            raise error

    def place(self, error: BaseException) -> tuple[str, int, str] | None:
        """(cell, line, function) of the innermost of the notebook's lines in which it was raised; None for none of them."""
        cell_of = self._shell.compile.cell_of
        lines = [
            (cell_of[frame.f_code.co_filename], line, frame.f_code.co_name)
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename in cell_of
        ]
        if isinstance(error, SyntaxError) and error.filename in cell_of:
            lines.append((cell_of[error.filename], error.lineno or 0, ""))
        return lines[-1] if lines else None
