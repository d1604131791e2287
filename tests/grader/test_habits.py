"""What honest students do in a notebook loses nothing: it is graded as Jupyter runs it."""

import json

import nbclient
import nbformat
import pytest
from habits import HABITS, LACKING, RAN, WITNESS, changed_book
from helpers.paths import ROOT

from utils.grader import grade as grading
from utils.grader.rules import Patience

LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"
RAISES = {  # in Jupyter too; the cell is the student's own, and no check needs it
    "a cell that raises", "a cell that is no Python", "an assert that fails", "an undefined name", "exit",
}  # fmt: skip


@pytest.mark.parametrize("changes", [{"code-swop": "1"}, {"code-swap": "SOLUTION"}], ids=["no such cell", "no change"])
def test_a_habit_that_changes_nothing_is_refused(changes):
    with pytest.raises(ValueError, match="no change of code-sw"):
        changed_book(json.loads(LAB.read_text()), changes)


@pytest.mark.slow
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_habit_costs_a_point(tmp_path, every):
    solution, tried = json.loads(LAB.read_text()), dict(list(HABITS.items())[::every])
    (tmp_path / "in").mkdir()
    for name, changes in tried.items():
        (tmp_path / "in" / f"{name}.ipynb").write_text(json.dumps(changed_book(solution, changes)))
    patience = Patience(start=600, cell=600, question=600, own=600)  # the first torch.compile takes its time
    rules = grading.Rules(seed=4, patience=patience, seconds=7200)
    records = {record["student"]: record for record in grading.grade(tmp_path / "in", [LAB], tmp_path / "out", rules)}
    assert len(records) == len(tried) and len(HABITS) > 101
    lost = {
        name: (record["raised"], record["notes"], record["problem"] or record["failed"])
        for name, record in records.items()
        if record["earned"] < record["points"]
    }
    assert lost == {}
    witnesses = {name: record["raised"].pop(WITNESS, (None, "not asked"))[1] for name, record in records.items()}
    assert {name: said for name, said in witnesses.items() if said != RAN} == {}
    assert {name for name, record in records.items() if record["raised"]} == RAISES & tried.keys()


@pytest.mark.slow
def test_what_this_machine_lacks_takes_nothing_else_of_its_cell(tmp_path):
    solution = json.loads(LAB.read_text())
    (tmp_path / "in").mkdir()
    books = {name: {"code-swap": f"{lines}\nSOLUTION\nassert math.pi"} for name, lines in LACKING.items()}
    books["an error of one's own"] = {"code-swap": "1 / 0\nSOLUTION"}
    for name, changes in books.items():
        (tmp_path / "in" / f"{name}.ipynb").write_text(json.dumps(changed_book(solution, changes)))
    records = grading.grade(tmp_path / "in", [LAB], tmp_path / "out", grading.Rules(seed=4))
    assert [r["student"] for r in records if r["earned"] < r["points"]] == ["an error of one's own"]
    assert all("code-swap" in record["raised"] for record in records), "and each is told"
    (note,) = next(record["notes"] for record in records if record["student"] == "a package")
    assert note == "code-swap: No module named 'a_package_of_mine' where it was graded"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", HABITS)
def test_jupyter_runs_a_habit_in_the_same_way(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.from_dict(changed_book(json.loads(LAB.read_text()), HABITS[name]))
    book.cells = [cell for cell in book.cells if not cell.id.startswith(("picture-", "your-"))]
    for cell in book.cells:
        cell.source = "".join(cell.source)
    nbclient.NotebookClient(book, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}).execute()
    raised = {
        cell.id: output.evalue
        for cell in book.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    }
    assert raised.pop(WITNESS) == RAN
    assert bool(raised) == (name in RAISES), raised
    assert not [cell for cell in raised if cell.startswith(("check-", "hidden-", "code-"))]
