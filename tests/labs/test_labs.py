"""Solutions pass every check, on both sides of a process boundary; starters and open tasks do not."""

import papermill
import pytest
from helpers.labs import COMPILES, LABS, SOLUTIONS, TRAINS, each_lab, failing, nightly_in, relying_on, unsolved
from helpers.paths import ROOT

from utils.course.notebooks.notebook import load, text_of


@pytest.mark.slow
@pytest.mark.parametrize(
    "lab", [pytest.param(lab, id=name, marks=nightly_in(name, COMPILES, TRAINS)) for name, lab in LABS.items()]
)
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
        pytest.param(lab, task, id=f"{lab.name}-{task.name}", marks=nightly_in(lab.name, COMPILES, TRAINS))
        for lab in LABS.values()
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
