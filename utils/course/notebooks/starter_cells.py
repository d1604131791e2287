"""What a starter has that its solution has not.

The facts on its first screen, a line of facts under each task's heading, the first lines of its cells, the cell that counts
the points, and the last one, which says what to hand in.

All of it comes from the metadata of the solution's cells. Of the title: `goals` ("after this lab you can …") and `builds_on`
(lectures and labs). Of each task's prose: `minutes`, and `difficulty` and `importance` from 1 to 5. Of a code cell after the
last task: `needs`, the tasks whose code it uses; without that it needs all.
"""

import ast
import re
from dataclasses import dataclass

MOST = 5  # of difficulty and importance
HAND_IN = "hand-in"  # the last cell, which like POINTS and CHECKS only a starter has
RUN_ALL_GOES_ON = "raises-exception"  # the tag with which JupyterLab runs the cells behind one that fails
NEEDS, CHECKS_MAGIC = "%%needs ", "%%checks "  # how some cells of a starter begin
RUNS_A_CHECK = re.compile(r'progress\.check\("[\w-]+"\)[^\S\n]*(#.*)?')


OVERVIEW = """\
**After this lab you can**

{goals}

| | |
|---|---|
| Builds on | {builds_on} |
| Time | about {time} |
| Points | {points} |
| Hand in | this notebook, saved; its last cell shows your points and names the file |

**How it works.** After each task come three hints, folded away, from a nudge to nearly the answer; then **your cell**; then
a line that runs its **check**. In your cell replace each `raise NotImplementedError(...)`{repair}, run it, and run
the line below it. A check that fails says what it asked, what it expected, what came and what to try next; for the parts
before that it may give some of its points. After a restart of the kernel, or where it says "name 'progress' is not defined",
choose Run All Cells: it goes through to the end, past all that is open or wrong.

**Marks.** Difficulty: {least} a few lines, as the text says, to {most} several ideas at once.
Importance: {least} good to have done, to {most} much of the course stands on it.
"""
COUNTING = """\
# Counts your points, and makes %%needs known, with which some cells below begin.
from utils.lab.progress import Progress, Task

progress = Progress(
    get_ipython(),
    ask,
    {{
{tasks}
    }},
)"""


@dataclass(frozen=True)
class Facts:
    """About one task, for its student. unchanged: its starter's code, if that runs and is to be repaired; else ""."""

    number: int
    name: str
    visible: int
    hidden: int
    minutes: int
    difficulty: int
    importance: int
    defines: tuple[str, ...]
    unchanged: str

    @property
    def points(self) -> int:
        return self.visible + self.hidden


def overview(goals: list[str], builds_on: str, tasks: list[Facts]) -> str:
    """The end of the title's cell: goals, what the lab builds on, minutes, points, hidden checks, and how it works."""
    repaired = [task.number for task in tasks if task.unchanged]
    return OVERVIEW.format(
        goals="\n".join(f"- {goal}" for goal in goals),
        builds_on=builds_on,
        time=_hours(sum(task.minutes for task in tasks)),
        points=_points(tasks),
        repair=f" (in {_tasks(repaired)} repair the code that is there)" if repaired else "",
        least=_marks(1),
        most=_marks(MOST),
    ).strip()


def _points(tasks: list[Facts]) -> str:
    visible, hidden = sum(task.visible for task in tasks), [task for task in tasks if task.hidden]
    if not hidden:
        return f"{visible}, all by checks that you run here"
    return (
        f"{sum(task.points for task in tasks)}: {visible} by checks that you run here, and "
        f"{sum(task.hidden for task in hidden)} by hidden checks, of {_tasks([task.number for task in hidden])}. "
        "Those run when the lab is graded, and ask your functions with other inputs"
    )


def under_the_heading(task: Facts) -> str:
    """The line of facts under a task's heading."""
    points = f"{task.points} point{'s' * (task.points > 1)}" + f", {task.hidden} of them hidden" * bool(task.hidden)
    marks = f"difficulty {_marks(task.difficulty)} · importance {_marks(task.importance)}"
    return f"*{points} · about {task.minutes} minutes · {marks}*"


def first_line_of_code(task: Facts) -> str:
    """The comment on the cell that is the student's."""
    what = "repair it" if task.unchanged else "write it here"
    return f"# Task {task.number} · YOUR CODE: {what}, run this cell, then the check below."


def check_source(task: Facts) -> str:
    """The line that runs the task's check: what it asks stands with all the others, out of sight."""
    points = (
        f"{task.visible} of its {task.points} points"
        if task.hidden
        else f"{task.visible} point{'s' * (task.visible > 1)}"
    )
    return f'progress.check("{task.name}")  # task {task.number}, {points}: run this cell'


def checks_source(checks: dict[str, str]) -> str:
    """The cell that holds what each task's check asks, by the task's name."""
    parts = [f"# %% {name}\n{source.rstrip()}\n" for name, source in checks.items()]
    return f"{CHECKS_MAGIC}  # what the checks below the tasks ask: nothing to do here\n" + "\n\n".join(parts)


def first_line_of_later_cell(needs: list[str]) -> str:
    return f"{NEEDS}{' '.join(needs)}"


def without_magic(source: str) -> str:
    """A cell of a starter as it stands in the solution."""
    return source.partition("\n")[2] if source.startswith(NEEDS) else source


def is_of_the_checks(source: str) -> bool:
    """Whether a cell is one that only a starter has: the line that runs a check, or what all of them ask."""
    return source.startswith(CHECKS_MAGIC) or bool(RUNS_A_CHECK.fullmatch(source.strip()))


def points_source(tasks: list[Facts]) -> str:
    """The code of the cell that counts the points and makes %%checks and %%needs known."""
    from utils.lab.progress import fingerprint  # torch comes with it: not where labs are only read

    lines = []
    for task in tasks:
        hidden = f", hidden={task.hidden}" if task.hidden else ""
        given = f"{first_line_of_code(task)}\n{task.unchanged}"
        unchanged = f', unchanged="{fingerprint(given)}"' if task.unchanged else ""
        lines.append(f'        "{task.name}": Task({task.visible}{hidden}, defines={_tuple(task.defines)}{unchanged}),')
    return COUNTING.format(tasks="\n".join(lines))


def defined(source: str) -> tuple[str, ...]:
    """The functions and classes that a cell defines at its top."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return tuple(node.name for node in ast.parse(source).body if isinstance(node, kinds))


def _tuple(names: tuple[str, ...]) -> str:
    return f'("{names[0]}",)' if len(names) == 1 else "(" + ", ".join(f'"{name}"' for name in names) + ")"


def _marks(number: int) -> str:
    return "●" * number + "○" * (MOST - number)


def _tasks(numbers: list[int]) -> str:
    *others, last = map(str, numbers)
    return f"tasks {', '.join(others)} and {last}" if others else f"task {last}"


def _hours(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    parts = [f"{hours} hour{'s' * (hours > 1)}"] * bool(hours) + [f"{rest} minutes"] * bool(rest)
    return " ".join(parts)
