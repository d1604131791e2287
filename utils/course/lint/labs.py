"""What must hold of a lab's solution before it runs. Each rule takes a Lab and returns its problems, a sentence each."""

import ast
import builtins
import itertools
from collections.abc import Iterator
from dataclasses import replace

from utils.course.lint import lectures
from utils.course.lint.lectures import tree_of
from utils.course.notebooks.dataflow import called_name
from utils.course.notebooks.lab import Lab, points_of, solution_lines, starter
from utils.course.notebooks.notebook import Cell
from utils.course.notebooks.tidy import FOLDED
from utils.lab.ask import check_names

TAGS = {"parameters", "hidden"}
METADATA = {"tags", "points", "needs", "goals", "builds_on", "minutes", "difficulty", "importance"}
PARAMETERS = ("device", "seed")
CHECK_NAMES = frozenset(check_names(None, 0))
HINTS = 3
# What a check may do without: everything that reaches for objects or files behind the values it was given.
BARRED = {
    "eval", "exec", "compile", "open", "input", "globals", "locals", "vars", "getattr", "setattr", "delattr", "dir",
    "breakpoint", "exit", "quit", "__import__", "memoryview", "type", "object", "super",
}  # fmt: skip
BUILTINS = {name for name in dir(builtins) if not name.startswith("_")} - BARRED
IMPORTS = {
    "collections",
    "dataclasses",
    "einops",
    "fractions",
    "functools",
    "itertools",
    "math",
    "numpy",
    "torch",
    "utils",
}


# The tasks


def tasks_stand_together(lab: Lab) -> list[str]:
    """The cells of a task follow each other in their order, under a heading that numbers the tasks."""
    problems = [] if lab.tasks else ["no task: the cells of one are task-…, hints-…, code-…, check-…"]
    for number, task in enumerate(lab.tasks, 1):
        cells = [task.prose, task.hints, task.code, *task.checks]
        if [cell.index for cell in cells] != list(range(cells[0].index, cells[0].index + len(cells))):
            problems.append(
                f"task {task.name}: its cells are not {', '.join(c.id for c in cells)}, one after the other"
            )
        kinds = ["markdown", "markdown", *["code"] * (len(cells) - 2)]
        problems += [f"cell {c.id} is not {kind}" for c, kind in zip(cells, kinds, strict=True) if c.kind != kind]
        if not task.prose.source.startswith(f"## Task {number} · "):
            problems.append(f"task {task.name}: its prose does not start with '## Task {number} · '")
    return problems


def other_ways_follow_their_task(lab: Lab) -> list[str]:
    """A cell ways-NAME is prose and stands right behind the last check of the task NAME, where the starter leaves no gap."""
    last = {f"ways-{task.name}": task.checks[-1].index for task in lab.tasks}
    return [
        f"cell {cell.id}: not prose right behind the last check of its task"
        for cell in lab.book.cells
        if cell.id.startswith("ways-") and (cell.kind != "markdown" or cell.index != last.get(cell.id, -2) + 1)
    ]


def tasks_are_explained(lab: Lab) -> list[str]:
    """An example worked by hand, three hints folded away, a docstring on whatever the student is to write."""
    problems = []
    for task in lab.tasks:
        if "**By hand.**" not in task.prose.source:
            problems.append(f"task {task.name}: no example that starts with **By hand.**")
        folded = task.hints.source.count("<details>"), task.hints.source.count("</details>")
        if folded != (HINTS, HINTS):
            problems.append(f"task {task.name}: {folded[0]} hints in <details>, not {HINTS}")
        bare = [node.name for node in _definitions(task.code) if _is_public(node) and not ast.get_docstring(node)]
        problems += [f"task {task.name}: {name} has no docstring" for name in bare]
    return problems


def tasks_have_something_to_solve(lab: Lab) -> list[str]:
    """Each code cell has a solution, and unsolved it refuses only when it is called; no other cell has one."""
    problems = []
    for cell in lab.book.code:
        try:
            lines = solution_lines(cell.source)
        except ValueError as error:
            problems.append(f"cell {cell.id}: {error}")
            continue
        if lines and cell.id not in {task.code.id for task in lab.tasks}:
            problems.append(f"cell {cell.id}: a solution outside the code of a task")
    if problems:
        return problems
    for task in lab.tasks:
        if not solution_lines(task.code.source):
            problems.append(f"task {task.name}: nothing between BEGIN and END SOLUTION")
        elif any(isinstance(node, ast.Raise) for node in ast.parse(task.starter).body):
            problems.append(f"task {task.name}: unsolved, the cell itself raises; put the solution into a function")
    return problems


def points_are_given(lab: Lab) -> list[str]:
    """Every check has points, hidden ones are tagged so, and a task needs only tasks before it."""
    problems = []
    for cell in lab.book.cells:
        extra = sorted(cell.raw.get("metadata", {}).keys() - METADATA - (FOLDED.keys() if cell.is_colab else set()))
        if extra:
            problems.append(f"cell {cell.id}: metadata {', '.join(extra)}")
        if set(cell.tags) - TAGS:
            problems.append(f"cell {cell.id}: tags {', '.join(cell.tags)}; known are {', '.join(sorted(TAGS))}")
        if ("hidden" in cell.tags) != cell.id.startswith("hidden-"):
            problems.append(f"cell {cell.id}: the tag hidden and an id hidden-… go together")
    before: set[str] = set()
    for task in lab.tasks:
        for check in task.checks:
            try:
                points_of(check)
            except ValueError as error:
                problems.append(str(error))
        problems += [
            f"task {task.name}: needs {name!r}, no task before it" for name in task.needs if name not in before
        ]
        before.add(task.name)
    for cell in lab.others:
        unknown = sorted(set(cell.raw.get("metadata", {}).get("needs", ())) - before)
        problems += [f"cell {cell.id}: needs {name!r}, no task" for name in unknown]
    return problems


def a_starter_can_be_made(lab: Lab) -> list[str]:
    """The metadata say what its first screen and the lines under its headings tell; see notebooks/starter_cells."""
    try:
        starter(lab.book.raw)
    except ValueError as error:
        return [str(error)]
    return []


# The checks


def checks_only_ask(lab: Lab) -> list[str]:
    """A check uses what `check_names` gives, its own values and imports: it never touches what the student made."""
    problems = []
    elsewhere = {name for cell in lab.book.code if not _is_check(lab, cell) for name in _bound_outside_functions(cell)}
    for check in _checks(lab):
        tree = tree_of(check)
        if tree is None:
            problems.append(f"cell {check.id}: not Python")
            continue
        own = set(_bound(tree))
        strange = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - own - CHECK_NAMES - BUILTINS
        problems += [
            f"cell {check.id}: uses {name}, which a check does not have: ask for it" for name in sorted(strange)
        ]
        clash = own & (elsewhere | CHECK_NAMES)
        problems += [f"cell {check.id}: binds {name}, a name of the lab's other cells" for name in sorted(clash)]
        problems += [f"cell {check.id}: {why}" for node in ast.walk(tree) for why in _not_a_check(node)]
    return problems


def checks_expect_something(lab: Lab) -> list[str]:
    """Each check asks and expects, and each visible one is followed by hidden ones only."""
    problems = []
    for check in _checks(lab):
        called = {called_name(node) for node in ast.walk(tree_of(check) or ast.Module([], []))}
        if not any(name.startswith("expect") for name in called):
            problems.append(f"cell {check.id}: expects nothing")
        if "ask" not in called:
            problems.append(f"cell {check.id}: asks nothing")
    return problems


def parts_of_points_grow(lab: Lab) -> list[str]:
    """A line ask.earned(POINTS) stands for itself, not in a block, behind an expectation; points rise, to less than all."""
    problems = []
    for check in _checks(lab):
        tree = tree_of(check) or ast.Module([], [])
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "ask.earned"]
        lines = [n.value for n in tree.body if isinstance(n, ast.Expr) and n.value in calls]
        if len(lines) < len(calls):
            problems.append(f"cell {check.id}: ask.earned(…) stands in a block or in another expression")
        points = [0, *(ast.literal_eval(call.args[0]) for call in lines), points_of(check)]
        if any(now >= later for now, later in itertools.pairwise(points)):
            problems.append(f"cell {check.id}: the points of its parts, {points[1:]}, do not rise")
        ends = [-1, *(call.lineno for call in lines)]
        expectations = [n.lineno for n in ast.walk(tree) if called_name(n).startswith("expect")]
        for start, end in itertools.pairwise(ends):
            if not any(start < line < end for line in expectations):
                problems.append(f"cell {check.id}: nothing was expected before line {end}, ask.earned(…)")
    return problems


def tasks_draw_from_the_seed(lab: Lab) -> list[str]:
    """In one of each task's checks: what is asked with fixed inputs alone can be answered by heart."""
    return [
        f"task {task.name}: no check of it uses seed"
        for task in lab.tasks
        if not any(
            isinstance(node, ast.Name) and node.id == "seed"
            for check in task.checks
            if (tree := tree_of(check))
            for node in ast.walk(tree)
        )
    ]


def questions_name_what_exists(lab: Lab) -> list[str]:
    """What a question names is an input of it, made by it, or made by the lab's own cells: never by the check."""
    known = {name for cell in lab.book.code if not _is_check(lab, cell) for name in _bound_outside_functions(cell)}
    problems = []
    for check in _checks(lab):
        for node in ast.walk(tree_of(check) or ast.Module([], [])):
            if called_name(node) != "ask" or any(k.arg is None for k in node.keywords):
                continue
            if not (node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)):
                continue  # put together as it runs: the tests ask it across a boundary
            try:
                question = ast.parse(node.args[0].value)
            except SyntaxError:
                problems.append(f"cell {check.id}: the question {node.args[0].value!r} is not Python")
                continue
            names = {n.id for n in ast.walk(question) if isinstance(n, ast.Name)}
            strange = names - known - set(_bound(question)) - {k.arg for k in node.keywords} - set(dir(builtins))
            problems += [f"cell {check.id}: a question names {name}, which nothing makes" for name in sorted(strange)]
    return problems


def _not_a_check(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assert):
        yield "a bare assert; an expectation says what was asked, and what to do next"
    if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
        yield f"reaches for {node.attr}"
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ask" and node.attr != "earned":
        yield f"uses ask.{node.attr}; there is ask(…) and ask.earned(…) alone"
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        yield from (f"imports {name}" for name in modules if name.split(".")[0] not in IMPORTS)


# The form


def parameters_are_there(lab: Lab) -> list[str]:
    """One cell tagged `parameters`, the first code of the lab but Colab's, sets device and seed."""
    own = [cell for cell in lab.book.code if not cell.is_colab]
    tagged = [cell for cell in own if "parameters" in cell.tags]
    if len(tagged) != 1 or tagged[0] is not own[0]:
        return ["not exactly one cell is tagged parameters, the first code cell"]
    missing = set(PARAMETERS) - set(_bound_outside_functions(tagged[0]))
    return [f"the parameters cell does not set {name}" for name in sorted(missing)]


def colab_comes_before_all_code(lab: Lab) -> list[str]:
    """As in a lecture; Colab opens the starter."""
    return lectures.colab_problems(lab.book, "labs")


def set_up_makes_the_names_of_checks(lab: Lab) -> list[str]:
    """The cells before the first task bind every name that some check uses."""
    first = lab.tasks[0].prose.index if lab.tasks else len(lab.book.cells)
    made = {name for cell in lab.others if cell.index < first for name in _bound_outside_functions(cell)}
    used = {n.id for c in _checks(lab) for n in ast.walk(tree_of(c) or ast.Module([], [])) if isinstance(n, ast.Name)}
    return [f"no cell before the first task makes {name}" for name in sorted((used & CHECK_NAMES) - made)]


def ends_with_the_students_own(lab: Lab) -> list[str]:
    """After the last task: a picture, a cell `your-line` that prints numbers of this run, prose `beyond`, an open task."""
    last = lab.tasks[-1].checks[-1].index if lab.tasks else -1
    after = [cell for cell in lab.others if cell.index > last]
    problems = [] if any(c.id.startswith("picture-") for c in after) else ["no cell picture-… after the last task"]
    line = [cell for cell in after if cell.id == "your-line"]
    if not line or not any(isinstance(node, ast.FormattedValue) for node in ast.walk(tree_of(line[0]))):
        problems.append("no cell your-line that prints something of this run")
    if not any(cell.id == "beyond" and cell.kind == "markdown" and cell.index > last for cell in lab.book.cells):
        problems.append("no prose beyond after the last task: an open task without points")
    return problems


def pictures_are_read_aloud(lab: Lab) -> list[str]:
    """As in a lecture, but a check stands right after the code it checks."""
    cells = tuple(cell for cell in lab.book.cells if not _is_check(lab, cell))
    return lectures.pictures_are_read_aloud(replace(lab.book, cells=cells))


def is_a_good_notebook(lab: Lab) -> list[str]:
    """The rules for lectures that are as good for labs."""
    rules = (
        lectures.ids_are_readable,
        lectures.is_tidy,
        lectures.title_comes_first,
        lectures.code_is_plain_python,
        lectures.images_are_local,
    )
    return [problem for rule in rules for problem in rule(lab.book)]


def _checks(lab: Lab) -> list[Cell]:
    return [check for task in lab.tasks for check in task.checks]


def _is_check(lab: Lab, cell: Cell) -> bool:
    return any(cell is check for check in _checks(lab))


def _definitions(cell: Cell) -> list[ast.stmt]:
    """Functions and classes at the top of a cell, and the methods of the classes."""
    top = [n for n in (tree_of(cell) or ast.Module([], [])).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    methods = [n for c in top if isinstance(c, ast.ClassDef) for n in c.body if isinstance(n, ast.FunctionDef)]
    return top + methods


def _is_public(node: ast.stmt) -> bool:
    return not node.name.startswith("_")


def _bound(tree: ast.AST) -> Iterator[str]:
    """Every name that code binds, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.split(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def _bound_outside_functions(cell: Cell) -> Iterator[str]:
    """The names that a cell leaves behind."""
    todo: list[ast.AST] = list((tree_of(cell) or ast.Module([], [])).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from _bound(ast.Module([node], [])) if isinstance(node, ast.alias | ast.Name) else ()
            todo.extend(ast.iter_child_nodes(node))


RULES = (
    parts_of_points_grow,
    tasks_draw_from_the_seed,
    tasks_stand_together,
    other_ways_follow_their_task,
    tasks_are_explained,
    tasks_have_something_to_solve,
    points_are_given,
    a_starter_can_be_made,
    checks_only_ask,
    checks_expect_something,
    questions_name_what_exists,
    colab_comes_before_all_code,
    parameters_are_there,
    set_up_makes_the_names_of_checks,
    ends_with_the_students_own,
    pictures_are_read_aloud,
    is_a_good_notebook,
)
