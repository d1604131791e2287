"""What a starter's checks do beyond asking: points so far, short messages, and a Run All that goes through to the end.

    progress = Progress(get_ipython(), ask, {"strides": Task(1, hidden=1, defines=("contiguous_strides",)), "swap": Task(2)})

The starter then has one cell that holds what all checks ask, and after each task a line that runs its check. A cell that
uses the code of some tasks waits until their checks have passed:

    %%checks                      each check's code below a line "# %% strides"; kept, not run
    progress.check("strides")     passed, or open (its code is not written yet), or wrong, and then it raises
    %%needs strides swap
"""

import ast
import hashlib
import html
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from utils.lab.ask import Ask, Wrong


@dataclass(frozen=True)
class Task:
    """Points of the check that the student has, and of the hidden one; what the task's cell defines.

    unchanged: the fingerprint of the cell as it was given, if it holds code that runs and is to be repaired.
    """

    points: int
    hidden: int = 0
    defines: tuple[str, ...] = ()
    unchanged: str = ""


OWN = (
    "# Task {} · YOUR CODE"  # how a task's cell begins in a starter: by that it is known, wherever its text has changed
)
SOLUTIONS = Path(__file__).parents[2] / "solutions"
CHECK = re.compile(r"^# %% ([\w-]+)\n", re.MULTILINE)  # above each check's code in the cell that holds them all


class Progress:
    """The points of one notebook while it is worked on. shell: IPython's, which runs the cells; ask: what the checks ask."""

    def __init__(self, shell, ask: Ask, tasks: dict[str, Task]):
        self.shell, self.ask, self.tasks = shell, ask, tasks
        self.passed: set[str] = set()
        self.earned: dict[str, int] = {}  # task -> the points of its check
        self.not_passed: dict[str, str] = {}  # task -> "open" or "wrong"
        self.codes: dict[str, str] = {}  # task -> what its check asks, as Python
        shell.register_magic_function(self.checks, "cell", "checks")
        shell.register_magic_function(self.needs, "cell", "needs")

    def checks(self, line: str, cell: str) -> None:
        """Keep what the checks ask, each below a line with its task's name; `line` is for the reader."""
        _, *parts = CHECK.split(cell)
        self.codes = dict(zip(parts[::2], parts[1::2], strict=True))

    def check(self, name: str) -> None:
        """Run the check of the task `name`. Raises Wrong if it fails; an open task is no error.

        Raises ValueError for what is no task, and before the cell that holds the checks has run.
        """
        if name not in self.tasks:
            raise ValueError(f"no task is called {name!r}: they are {', '.join(self.tasks)}")
        if name not in self.codes:
            raise ValueError(f"the check of {name} is not known yet: choose Run All Cells, which also runs the set-up")
        task, number = self.tasks[name], self._number(name)
        self.passed.discard(name)
        self.not_passed[name] = "wrong"
        self.earned[name] = self.ask.points = 0
        source = self._newest_definition(task)
        if mistake := self._syntax_error(source) or self._gone(task, number):
            raise Wrong(f"Task {number} was not checked: {mistake}")
        try:
            self._run(self.codes[name])
        except NotImplementedError as error:
            self.earned[name] = self.ask.points
            self._leave_open(name, str(error))
        except (Exception, KeyboardInterrupt) as error:
            if task.unchanged and fingerprint(source) == task.unchanged:
                self._leave_open(name, "its cell is as it was given")
                return
            self.earned[name] = self.ask.points
            points = f": {self._points(name)}" * bool(self.ask.points)
            raised = error.__cause__ if isinstance(error, Wrong) else error
            message, _, asked = _error_message(error).partition("\nasked:\n")
            if asked:
                self._fold_below("What was asked", asked)
            raise Wrong(f"Task {number} is not right yet{points}.\n{message}") from raised
        else:
            self.passed.add(name)
            self.earned[name] = task.points
            del self.not_passed[name]
            print(f"Task {number}: {self._points(name)}, {self._so_far()}")
            if ways := self._other_ways(name):
                self.shell.display_pub.publish({"text/markdown": ways, "text/plain": ways})

    def needs(self, line: str, cell: str):
        """Run the cell, and return the value of its last line, if the checks of all tasks in `line` have passed."""
        waits = [str(self._number(name)) for name in line.split() if name not in self.passed]
        if not waits:
            return self._run(cell)
        *others, last = waits
        tasks = f"tasks {', '.join(others)} and {last}" if others else f"task {last}"
        print(f"This cell waits for {tasks}: run it again when the checks have passed.")
        return None

    def hand_in(self) -> None:
        """Print the points, what is open, and which file to hand in."""
        hidden = sum(task.hidden for task in self.tasks.values())
        print(self._so_far())
        for name in self.tasks:
            why = "" if name in self.passed else f"   {self.not_passed.get(name, 'its check was not run')}"
            print(f"Task {self._number(name)}: {self._points(name)}{why}")
        if hidden:
            print(f"Hidden checks, when it is graded: up to {hidden} more.")
        print("\nSave this notebook first (Ctrl+S, or Cmd+S). Then hand in this file:")
        print(_this_file(self.shell.user_ns))

    def _leave_open(self, name: str, why: str) -> None:
        self.not_passed[name] = "open"
        points = f", {self._points(name)}" * bool(self.earned[name])
        print(f"Task {self._number(name)} is open{points}: {why}")

    def _points(self, name: str) -> str:
        return f"{self.earned.get(name, 0)} of {self.tasks[name].points}"

    def _so_far(self) -> str:
        """Points as a sum and as a bar, one block for each point."""
        earned = sum(self.earned.values())
        total = sum(task.points for task in self.tasks.values())
        return f"{earned} of {total} so far  {'█' * earned}{'░' * (total - earned)}"

    def _number(self, name: str) -> int:
        return list(self.tasks).index(name) + 1

    def _newest_definition(self, task: Task) -> str:
        """The source of the cell run last of those that define what the task asks for, also if it failed; "" if none was."""
        names = "|".join(task.defines)
        head = re.compile(rf"^(async def|def|class) ({names})\b", re.M)
        cells = reversed(self.shell.history_manager.input_hist_raw)
        return next((cell for cell in cells if head.search(cell)), "")

    def _syntax_error(self, source: str) -> str:
        """What is wrong with a cell that is not Python: what an earlier run of it defined would be checked in its place."""
        try:
            ast.parse(self.shell.transform_cell(source))
        except SyntaxError as error:
            return (
                f"line {error.lineno} of your cell is not Python ({error.msg}), so none of it was run.\n"
                "next:     correct that line, run your cell, then this check; an older version is not checked in its place"
            )
        return ""

    def _gone(self, task: Task, number: int) -> str:
        """What the task's cell, as it was run last, defines no more: what an earlier run of it defined is still there."""
        cells = self.shell.history_manager.input_hist_raw
        own = [cell for cell in cells if cell.startswith(OWN.format(number))]
        gone = [name for name in task.defines if own and name not in self._bound_in(own[-1])]
        if not gone or any(gone[0] in self._bound_in(cell) for cell in cells if cell not in own):
            return ""
        return (
            f"your cell does not define `{gone[0]}` any more.\n"
            f"next:     call it `{gone[0]}` again and run the cell, then this check; an older version is not checked in its "
            "place"
        )

    def _bound_in(self, cell: str) -> set[str]:
        """The names to which a cell gives a value."""
        try:
            nodes = list(ast.walk(ast.parse(self.shell.transform_cell(cell))))
        except SyntaxError:
            return set()
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        named = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        return stored | named | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}

    def _other_ways(self, name: str) -> str:
        """What the solution says of other ways to solve the task; "" where the solutions are not, or ask something else."""
        for path in SOLUTIONS.glob("*.ipynb"):
            book = json.loads(path.read_text(encoding="utf-8"))
            cells = {cell.get("id"): "".join(cell["source"]) for cell in book["cells"]}
            if cells.get(f"check-{name}", "").strip() == self.codes[name].strip():
                return cells.get(f"ways-{name}", "")
        return ""

    def _fold_below(self, title: str, text: str) -> None:
        """Show a text behind a title to click on, below all else that the cell that is running shows."""

        def show(result) -> None:
            self.shell.events.unregister("post_run_cell", show)
            folded = f"<details><summary>{title}</summary><pre>{html.escape(text)}</pre></details>"
            self.shell.display_pub.publish({"text/html": folded, "text/plain": f"{title}:\n{text}"})

        self.shell.events.register("post_run_cell", show)

    def _run(self, cell: str):
        tree, file = ast.parse(cell), self.shell.compile.cache(cell)
        last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), self.shell.user_ns)
        return eval(compile(last, file, "eval"), self.shell.user_ns) if last else None


def fingerprint(source: str) -> str:
    """Of a cell's text, whatever blanks end its lines."""
    lines = (line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _error_message(error: BaseException) -> str:
    """The message of an expectation; of any other exception its kind, its text, and what was asked."""
    if isinstance(error, Wrong):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "It was interrupted.\nnext:     look at the line below: does a loop there come to an end?"
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


def _this_file(names: dict) -> str:
    """The path of the notebook, as Jupyter or VS Code tells it, with the time when it was saved."""
    told = os.environ.get("JPY_SESSION_NAME") or names.get("__vsc_ipynb_file__") or ""
    if not told.endswith(".ipynb") or not Path(told).is_file():
        return "this notebook (in Colab: File > Download > Download .ipynb)"
    return f"{told}  (last saved at {time.strftime('%H:%M', time.localtime(Path(told).stat().st_mtime))})"
