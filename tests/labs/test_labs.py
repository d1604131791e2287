"""Solutions pass every check, on both sides of a process boundary; starters and open tasks do not."""

import json

import nbformat
import papermill
import pytest
from helpers.labs import COMPILES, LABS, QUICK, SOLUTIONS, each_lab, failing, nightly_in, relying_on, unsolved
from helpers.notebook_shell import notebook_shell
from helpers.paths import ROOT
from helpers.small_lab import book
from nbclient import NotebookClient
from variants import solved

from utils.course.notebooks.lab import Lab, points_of, starter
from utils.course.notebooks.notebook import load, text_of


@pytest.mark.nightly  # `make seeds` runs each solution at two other seeds
@pytest.mark.slow
@each_lab
def test_solution_passes_at_another_seed_than_its_notebook(lab):
    assert failing(lab, {}, seed=987_654_321) == {}


@pytest.mark.nightly
@pytest.mark.slow
@each_lab
def test_solution_passes_across_a_boundary(lab, worker):
    assert failing(lab, {}, seed=5, worker=worker) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "task"),
    [
        pytest.param(lab, task, id=f"{name}-{task.name}", marks=() if name == QUICK else pytest.mark.nightly)
        for name, lab in LABS.items()
        for task in lab.tasks
    ],
)
def test_a_task_left_open_fails_its_own_checks_alone(lab, task, worker):
    found = failing(lab, unsolved(task))
    assert set(found) == {check.id for other in relying_on(lab, task) for check in other.checks}
    kind = "NotImplementedError" if task.refuses else "AssertionError"
    assert all(verdict.startswith(f"{kind}: ") for verdict in found.values()), found
    own = {check: found[check] for check in found if check in {each.id for each in task.checks}}
    assert failing(lab, unsolved(task), [task], worker=worker) == own


@pytest.mark.slow
@pytest.mark.parametrize(
    "lab", [pytest.param(lab, id=name, marks=nightly_in(name, COMPILES)) for name, lab in LABS.items()]
)
def test_run_all_passes_over_the_open_tasks_of_a_starter(lab, capsys):
    told = run_all(lab, {}, capsys)
    total = sum(points_of(task.check) for task in lab.tasks)
    assert all(told[task.check.id].startswith(f"Task {number} is open: ") for number, task in enumerate(lab.tasks, 1))
    assert told["hand-in"].startswith(f"0 of {total} so far") and told["hand-in"].count("   open\n") == len(lab.tasks)
    assert "This cell waits for task" in told["your-line"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "lab",
    [pytest.param(lab, id=name, marks=() if name == QUICK else pytest.mark.nightly) for name, lab in LABS.items()],
)
def test_a_starter_with_the_solutions_code_earns_all_its_points(lab, capsys):
    told = run_all(lab, {task.code.id: solved(task.code.source) for task in lab.tasks}, capsys)
    total = sum(points_of(task.check) for task in lab.tasks)
    assert told["hand-in"].startswith(f"{total} of {total} so far") and "waits" not in told["your-line"]


def run_all(lab: Lab, replaced: dict[str, str], capsys) -> dict[str, str]:
    """What each code cell of the lab's starter prints; none raises. replaced: cell id -> other code."""
    told = {}
    with notebook_shell() as shell:
        for cell in load(ROOT / "labs" / lab.book.path.name)["cells"]:
            if cell["cell_type"] == "code":
                capsys.readouterr()
                done = shell.run_cell(replaced.get(cell["id"], text_of(cell["source"])), store_history=True)
                told[cell["id"]] = capsys.readouterr().out
                assert done.success, (cell["id"], told[cell["id"]])
    return told


@pytest.mark.slow
def test_a_kernel_reports_a_wrong_answer_as_an_error_of_a_few_lines():
    raw = starter(book())
    cells = [
        cell | {"source": "def double(x):\n    return x"} if cell["id"] == "code-double" else cell
        for cell in raw["cells"]
    ]
    wrong = nbformat.reads(json.dumps(raw | {"cells": cells}), 4)
    NotebookClient(wrong).execute()
    (error,) = (out for cell in wrong.cells for out in cell.get("outputs", ()) if out.output_type == "error")
    assert (error.ename, error.traceback) == ("Wrong", [error.evalue])
    first, *_, last = error.evalue.splitlines()
    assert first.startswith("Task 1 is not right yet") and last == "next:     add"
    assert all(cell.execution_count for cell in wrong.cells if cell.cell_type == "code")  # and goes on to the end


@pytest.mark.slow
def test_papermill_runs_a_solution_on_a_device_of_its_choice(tmp_path):
    path = min(SOLUTIONS, key=lambda each: each.stat().st_size)
    done = papermill.execute_notebook(path, tmp_path / "out.ipynb", {"device": "cpu", "seed": 3}, progress_bar=False)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert "injected-parameters" in code[2].metadata["tags"]
