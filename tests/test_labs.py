"""The labs: solutions pass, starters do not, wrong code is caught where it should be, labs/ is what solutions/ make."""

import copy
import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import lab_worker
import papermill
import pytest
from helpers import figure_text  # noqa: F401  (no window)
from helpers.paths import ROOT

from utils.course.lint import labs
from utils.course.notebooks.colab_links import address_of, cell_source, title_source
from utils.course.notebooks.lab import Lab, Task, read_lab, solution_lines, starter, without_solution
from utils.course.notebooks.notebook import load, text_of
from utils.course.notebooks.release import release
from utils.course.notebooks.tidy import METADATA, as_bytes
from utils.lab import Ask, check_names, described, rebuilt

SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
VARIANTS = sorted((ROOT / "tests" / "labs").glob("*/*.py"))
LABS = {path.stem: read_lab(path) for path in SOLUTIONS}
WRONG, RIGHT = 5, 2  # variants that each lab has at the least
PASSED = "passed"

each_lab = pytest.mark.parametrize("lab", LABS.values(), ids=LABS)


# Running a lab without a kernel


def cells_of(lab: Lab, replaced: dict[str, str]) -> list[tuple[str, str]]:
    """The code cells up to the last task, without checks: what a student has run; `replaced`: cell id -> other code."""
    checks = {check.id for task in lab.tasks for check in task.checks}
    last = lab.tasks[-1].code.index
    return [
        (cell.id, replaced.get(cell.id, cell.source))
        for cell in lab.book.code
        if cell.index <= last and cell.id not in checks
    ]


def verdicts(tasks: Iterable[Task], ask: Ask, seed: int = 0) -> dict[str, str]:
    """The id of each check of these tasks and its verdict: PASSED, or the kind of the exception and its text."""
    found = {}
    for check in (check for task in tasks for check in task.checks):
        try:
            exec(compile(check.source, f"<{check.id}>", "exec"), check_names(ask, seed))
            found[check.id] = PASSED
        except Exception as error:
            again = rebuilt(*described(error))  # a class of somebody's own arrives as the nearest built-in one
            found[check.id] = f"{type(again).__name__}: {again}"
    return found


def failing(lab: Lab, replaced: dict[str, str], tasks=None, seed: int = 0, worker=None) -> dict[str, str]:
    """The verdicts of the checks (of all tasks, or of some) that fail; with a worker the code lives in that process."""
    cells = cells_of(lab, replaced)
    ask = lab_worker.RemoteAsk(worker, cells) if worker else Ask(lab_worker.run(cells))
    found = verdicts(tasks or lab.tasks, ask, seed)
    return {check: verdict for check, verdict in found.items() if verdict != PASSED}


@pytest.fixture(scope="module")
def worker():
    with lab_worker.start() as process:
        yield process
        process.kill()


# Solutions and starters


@pytest.mark.slow
@each_lab
def test_solution_passes_whatever_the_seed(lab):
    assert [failing(lab, {}, seed=seed) for seed in (0, 987_654_321)] == [{}, {}]


@pytest.mark.slow
@each_lab
def test_solution_passes_across_a_boundary(lab, worker):
    assert failing(lab, {}, seed=5, worker=worker) == {}


def unsolved(task: Task) -> dict[str, str]:
    return {task.code.id: task.starter}


def relying_on(lab: Lab, task: Task) -> list[Task]:
    """The task itself, and those that need it, or one that needs it."""
    names = {task.name}
    for other in lab.tasks:
        names |= {other.name} if names & set(other.needs) else set()
    return [other for other in lab.tasks if other.name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "task"),
    [pytest.param(lab, task, id=f"{lab.name}-{task.name}") for lab in LABS.values() for task in lab.tasks],
)
def test_a_task_left_open_fails_its_own_checks_alone(lab, task, worker):
    found = failing(lab, unsolved(task))
    assert set(found) == {check.id for other in relying_on(lab, task) for check in other.checks}
    kind = "NotImplementedError" if task.refuses else "AssertionError"
    assert all(verdict.startswith(f"{kind}: ") for verdict in found.values()), found
    own = {check: found[check] for check in found if check in {each.id for each in task.checks}}
    assert failing(lab, unsolved(task), [task], worker=worker) == own


@pytest.mark.slow
@each_lab
def test_the_starter_stops_at_its_first_check_for_want_of_code(lab):
    namespace = {"__name__": "__main__"}
    for cell in load(ROOT / "labs" / lab.book.path.name)["cells"]:
        if cell["cell_type"] != "code":
            continue
        try:
            exec(compile(text_of(cell["source"]), f"<{cell['id']}>", "exec"), namespace)
        except NotImplementedError as error:
            assert cell["id"] == lab.tasks[0].check.id and str(error)
            return
    raise AssertionError("the starter ran to its end")


@pytest.mark.slow
def test_papermill_runs_a_solution_on_a_device_of_its_choice(tmp_path):
    path = min(SOLUTIONS, key=lambda each: each.stat().st_size)
    done = papermill.execute_notebook(path, tmp_path / "out.ipynb", {"device": "cpu", "seed": 3}, progress_bar=False)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert "injected-parameters" in code[2].metadata["tags"]


# Wrong and right variants


@dataclass(frozen=True)
class Variant:
    """A student's code for one cell; the check of its task that fails first, "" if none should; parts of its message."""

    lab: Lab
    replaces: str
    caught_by: str
    says: tuple[str, ...]
    source: str


def read_variant(path: Path) -> Variant:
    """The lines `# replaces: …`, `# caught by: …`, `# says: …` (as many as there are) head the file."""
    head = dict.fromkeys(("replaces", "caught by", "says"), ())
    for key, value in re.findall(r"^# (replaces|caught by|says): (.*\S)$", path.read_text(), re.M):
        head[key] += (value,)
    (replaces,), caught_by = head["replaces"], "".join(head["caught by"])
    return Variant(LABS[path.parent.name], replaces, caught_by, head["says"], path.read_text())


each_variant = pytest.mark.parametrize("path", VARIANTS, ids=lambda path: f"{path.parent.name}-{path.stem}")


@pytest.mark.slow
@each_variant
def test_variant_is_caught_where_it_should_be_or_accepted(path, worker):
    variant = read_variant(path)
    lab, replaced = variant.lab, {variant.replaces: variant.source}
    (task,) = (task for task in lab.tasks if task.code.id == variant.replaces)
    found = failing(lab, replaced, [task])
    if path.stem.startswith("right_"):
        assert not variant.caught_by and failing(lab, replaced, relying_on(lab, task)) == {}
    else:
        assert variant.says, "name words of the message, `# says: …`"
        first, message = next(iter(found.items()), ("nothing", PASSED))
        assert first == variant.caught_by, found
        assert message.startswith("AssertionError: "), message
        assert [words for words in variant.says if words not in message] == [], message
    assert failing(lab, replaced, [task], worker=worker) == found


@each_lab
def test_enough_variants_were_tried(lab):
    names = [path.name for path in VARIANTS if path.parent.name == lab.name]
    assert sum(name.startswith("wrong_") for name in names) >= WRONG
    assert sum(name.startswith("right_") for name in names) >= RIGHT
    assert all(name.startswith(("wrong_", "right_")) for name in names)


# labs/ is what solutions/ make


def test_labs_are_what_the_solutions_make(capsys):
    assert release(ROOT / "solutions", ROOT / "labs", check=True) == 0, capsys.readouterr().out


def leaks(solution: dict, starter_text: str) -> list[str]:
    """Lines of code that only a solution or a hidden check has, and that the starter nevertheless shows."""
    secret, open_lines = set(), set()
    for cell in solution["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = text_of(cell["source"])
        if "hidden" in cell["metadata"].get("tags", []):
            secret |= {line.strip() for line in source.splitlines()}
        else:
            secret |= set(solution_lines(source))
            open_lines |= {line.strip() for line in without_solution(source).splitlines()}
    shown = {text_of(line).strip() for cell in json.loads(starter_text)["cells"] for line in cell["source"]}
    found = sorted((secret - open_lines - {""}) & shown)
    marks = ("SOLUTION", "### INSTEAD", '"hidden', "hidden-")
    return found + [mark for mark in marks if mark in starter_text]


@each_lab
def test_nothing_leaks_into_the_starter(lab):
    text = (ROOT / "labs" / lab.book.path.name).read_text()
    assert leaks(load(lab.book.path), text) == []
    assert [cell for cell in json.loads(text)["cells"] if cell.get("outputs") or cell.get("execution_count")] == []


@each_lab
def test_ids_and_points_are_those_of_the_solution(lab):
    kept = [(cell.id, cell.raw["metadata"]) for cell in lab.book.cells if "hidden" not in cell.tags]
    assert kept == [(cell["id"], cell["metadata"]) for cell in load(ROOT / "labs" / lab.book.path.name)["cells"]]


# The rules, and what each of them is there to catch


@pytest.mark.parametrize(
    ("lab", "rule"),
    [pytest.param(lab, rule, id=f"{name}-{rule.__name__}") for name, lab in LABS.items() for rule in labs.RULES],
)
def test_rule_holds_of(lab, rule):
    assert rule(lab) == []


HINTS = "<details><summary>Hint</summary>\n\nRead.\n</details>\n" * 3
DOUBLE = '''def double(x: int) -> int:
    """Twice x."""
    ### BEGIN SOLUTION: double: add it to itself
    twice = x + x
    return twice
    ### END SOLUTION'''
SMALL = [
    ("title", title_source("# Lab 99", "labs/99_small.ipynb", address_of())),
    ("colab", cell_source("labs", address_of())),
    ("parameters", 'device = "cpu"\nseed = 0'),
    ("setup-intro", "First."),
    ("setup", "from utils.lab import Ask, expect_equal\n\nask = Ask(globals(), device)"),
    ("task-double", "## Task 1 · Double\n\n**By hand.** 2 is 4."),
    ("hints-double", HINTS),
    ("code-double", DOUBLE),
    ("check-double", 'expect_equal(ask("double(x)", x=2), 4, next_step="add")'),
    ("hidden-double", 'expect_equal(ask("double(x)", x=seed), 2 * seed, next_step="add")'),
    ("your-picture", "Look."),
    ("picture-double", "[double(n) for n in range(3)]"),
    ("reading-double", "It grows."),
    ("your-line", 'print(f"{seed} makes {double(seed)}")'),
]
PROSE = {"title", "setup-intro", "task-double", "hints-double", "your-picture", "reading-double"}
TAGGED = {"parameters": ["parameters"], "hidden-double": ["hidden"]}


def book(changes: dict[str, str | None] | None = None, metadata: dict[str, dict] | None = None) -> dict:
    """A small lab that is in order; `changes`: cell id -> other source, or None to leave the cell out."""
    cells = []
    for name, source in SMALL:
        source = (changes or {}).get(name, source)
        if source is None:
            continue
        kind = "markdown" if name in PROSE else "code"
        meta = {"tags": TAGGED[name]} if name in TAGGED else {}
        meta |= {"points": 1} if name.startswith(("check-", "hidden-")) else {}
        cell = {"cell_type": kind, "id": name, "metadata": (metadata or {}).get(name, meta)}
        cell |= {"source": source.splitlines(keepends=True)}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def lab_of(folder: Path, raw: dict) -> Lab:
    path = folder / "99_small.ipynb"
    path.write_bytes(as_bytes(raw))
    return read_lab(path)


def test_the_small_lab_is_in_order_and_its_solution_passes(tmp_path):
    lab = lab_of(tmp_path, book())
    assert [problem for rule in labs.RULES for problem in rule(lab)] == []
    assert failing(lab, {}) == {} and lab.tasks[0].points == 2
    assert set(failing(lab, unsolved(lab.tasks[0]))) == {"check-double", "hidden-double"}


MET = [
    (labs.tasks_stand_together, {"task-double": "## Double\n\n**By hand.** 2 is 4."}, {}, "'## Task 1 · '"),
    (labs.tasks_are_explained, {"task-double": "## Task 1 · Double"}, {}, "**By hand.**"),
    (labs.tasks_are_explained, {"hints-double": HINTS[: len(HINTS) // 3]}, {}, "1 hints in <details>, not 3"),
    (
        labs.tasks_are_explained,
        {"code-double": DOUBLE.replace('"""Twice x."""', "...")},
        {},
        "double has no docstring",
    ),
    (
        labs.tasks_have_something_to_solve,
        {"code-double": "def double(x):\n    return 2 * x"},
        {},
        "nothing between",
    ),
    (labs.tasks_have_something_to_solve, {"setup": DOUBLE}, {}, "setup: a solution outside"),
    (
        labs.tasks_have_something_to_solve,
        {"code-double": "### BEGIN SOLUTION: now\ndouble = lambda x: 2 * x\n### END SOLUTION"},
        {},
        "the cell itself raises",
    ),
    (labs.points_are_given, {}, {"check-double": {}}, "check-double: points None"),
    (labs.points_are_given, {}, {"check-double": {"points": True}}, "points True"),
    (
        labs.points_are_given,
        {},
        {"hidden-double": {"points": 1}},
        "the tag hidden and an id hidden-… go together",
    ),
    (labs.points_are_given, {}, {"check-double": {"points": 1, "needs": ["triple"]}}, "needs 'triple'"),
    (labs.points_are_given, {}, {"title": {"scrolled": True}}, "title: metadata scrolled"),
    (labs.checks_only_ask, {"check-double": "expect_equal(double(2), 4, '')"}, {}, "uses double"),
    (labs.checks_only_ask, {"check-double": "seed = ask('1')\nexpect(seed, True, '', '')"}, {}, "binds seed"),
    (
        labs.checks_only_ask,
        {"check-double": "double = ask('1')\nexpect(double, True, '', '')"},
        {},
        "binds double",
    ),
    (labs.checks_only_ask, {"check-double": "expect_equal(ask('1'), open('f'), '')"}, {}, "uses open"),
    (
        labs.checks_only_ask,
        {"check-double": "expect(ask.namespace['double'], True, '', '')"},
        {},
        "ask.namespace",
    ),
    (
        labs.checks_only_ask,
        {"check-double": "expect(ask('1').__class__, True, '', '')"},
        {},
        "reaches for __class__",
    ),
    (labs.checks_only_ask, {"check-double": "import sys\nexpect(ask('1'), True, '', '')"}, {}, "imports sys"),
    (labs.checks_only_ask, {"hidden-double": "assert ask('double(2)').value == 4"}, {}, "a bare assert"),
    (labs.tasks_draw_from_the_seed, {"hidden-double": None}, {}, "task double: no check of it uses seed"),
    (labs.checks_expect_something, {"check-double": "print(ask('double(2)').value)"}, {}, "expects nothing"),
    (labs.checks_expect_something, {"check-double": "expect_equal(4, 4, '')"}, {}, "asks nothing"),
    (
        labs.questions_name_what_exists,
        {"check-double": "y = 2\nexpect_equal(ask('double(y)'), 4, '')"},
        {},
        "a question names y",
    ),
    (labs.questions_name_what_exists, {"check-double": "expect_equal(ask('double('), 4, '')"}, {}, "not Python"),
    (labs.colab_comes_before_all_code, {"colab": None}, {}, "the second cell is not Colab's"),
    (labs.colab_comes_before_all_code, {"colab": cell_source("notebooks", "")}, {}, "the second cell is not"),
    (labs.colab_comes_before_all_code, {"title": "# Lab\n\n[Open in Colab](https://x.org)"}, {}, "link"),
    (labs.parameters_are_there, {"parameters": "device = 1"}, {}, "does not set seed"),
    (labs.parameters_are_there, {}, {"parameters": {}}, "tagged parameters"),
    (labs.set_up_makes_the_names_of_checks, {"setup": "ask = None"}, {}, "makes expect_equal"),
    (labs.ends_with_the_students_own, {"picture-double": None}, {}, "no cell picture-…"),
    (labs.ends_with_the_students_own, {"your-line": "print('Well done')"}, {}, "your-line"),
    (labs.prose_leads, {"reading-double": None, "your-picture": None}, {}, "picture-double: no prose"),
    (labs.is_a_good_notebook, {"setup": "import os, sys\nsys.path.append('.')"}, {}, "sys.path"),
]


@pytest.mark.parametrize(("rule", "changes", "metadata", "words"), MET)
def test_rule_catches(rule, changes, metadata, words, tmp_path):
    found = rule(lab_of(tmp_path, book(changes, metadata)))
    assert any(words in problem for problem in found), found


def test_a_task_with_a_cell_missing_or_twice_is_no_task(tmp_path):
    with pytest.raises(ValueError, match="task double has no cell check-double"):
        lab_of(tmp_path, book({"check-double": None}))
    twice = book()
    twice["cells"].append(copy.deepcopy(twice["cells"][8]))
    with pytest.raises(ValueError, match="two cells check-double"):
        lab_of(tmp_path, twice)


# The marks


def test_a_solution_becomes_what_its_marks_say():
    assert without_solution(DOUBLE).splitlines()[2:] == ['    raise NotImplementedError("double: add it to itself")']
    begun = "x = 1\nif x:\n    ### BEGIN SOLUTION\n    y = 2\n"
    changed = begun + "    ### INSTEAD\n    # y = None  # yours\n    #   \n    ### END SOLUTION\nz = 3"
    assert without_solution(changed) == "x = 1\nif x:\n    y = None  # yours\n\nz = 3"
    assert solution_lines(changed) == ["y = 2"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("### BEGIN SOLUTION: a\nx", "never ends"),
        ("### END SOLUTION", "line 1: a solution ends that never began"),
        ("### BEGIN SOLUTION: a\n### BEGIN SOLUTION: b\n### END SOLUTION", "line 2: a solution begins inside another"),
        ("### BEGIN SOLUTION\nx\n### END SOLUTION", "line 3: a solution with neither a hint"),
        ("### BEGIN SOLUTION: a\n### INSTEAD\n# x\n### END SOLUTION", "line 2: ### INSTEAD stands once"),
        ("### INSTEAD", "line 1: ### INSTEAD stands once"),
        ("### BEGIN SOLUTION\nx\n### INSTEAD\ny\n### END SOLUTION", "line 4: after ### INSTEAD every line"),
        ('### BEGIN SOLUTION: say "x"\n### END SOLUTION', "line 1: a hint without"),
        ("## BEGIN SOLUTION: a", "nearly a mark"),
        ("### BEGIN  SOLUTION", "nearly a mark"),
        ("x = 1  ### END SOLUTION", "nearly a mark"),
        ("###BEGIN SOLUTION", "nearly a mark"),
    ],
)
def test_marks_that_do_not_pair_are_refused(source, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        without_solution(source)


# Release


def two_folders(folder: Path) -> tuple[Path, Path]:
    (folder / "solutions").mkdir()
    (folder / "solutions" / "99_small.ipynb").write_bytes(as_bytes(book()))
    return folder / "solutions", folder / "labs"


def test_release_takes_out_solutions_and_hidden_checks_and_twice_is_once(tmp_path, capsys):
    solutions, labs = two_folders(tmp_path)
    assert release(solutions, labs, check=True) == 1 and not labs.exists()
    assert release(solutions, labs) == 0 and "made" in capsys.readouterr().out
    text = (labs / "99_small.ipynb").read_text()
    assert leaks(book(), text) == []
    assert [cell["id"] for cell in json.loads(text)["cells"]] == [name for name, _ in SMALL if name != "hidden-double"]
    assert release(solutions, labs) == release(solutions, labs, check=True) == 0 and capsys.readouterr().out == ""
    assert (labs / "99_small.ipynb").read_text() == text


def test_release_says_what_differs_and_what_has_no_solution(tmp_path, capsys):
    solutions, labs = two_folders(tmp_path)
    release(solutions, labs)
    mine = labs / "my_notes.ipynb"
    mine.write_text("{}")
    assert release(solutions, labs) == 1 and mine.exists()
    assert "my_notes.ipynb: no solution makes it" in capsys.readouterr().out
    mine.unlink()
    (labs / "99_small.ipynb").write_text("{}")
    assert release(solutions, labs, check=True) == 1
    assert "99_small.ipynb: differs" in capsys.readouterr().out and (labs / "99_small.ipynb").read_text() == "{}"


def test_release_writes_nothing_if_one_solution_is_unfit(tmp_path):
    solutions, labs = two_folders(tmp_path)
    bad = book({"code-double": "### END SOLUTION"})
    (solutions / "99_torn.ipynb").write_bytes(as_bytes(bad))
    with pytest.raises(ValueError, match=r"99_torn.ipynb: cell code-double: line 1"):
        release(solutions, labs)
    assert not labs.exists()


def test_the_leak_test_sees_leaks():
    clean = as_bytes(starter(book())).decode()
    assert leaks(book(), clean) == []
    assert leaks(book(), as_bytes(book()).decode())[:2] == [
        'expect_equal(ask("double(x)", x=seed), 2 * seed, next_step="add")',
        "return twice",
    ]
    assert leaks(book(), clean.replace('"It grows."', '"twice = x + x"')) == ["twice = x + x"]


def test_make_release_runs_it():
    done = subprocess.run(["make", "--dry-run", "release"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "utils.course release" in done.stdout
