"""The other ways to solve a task that a lab's solution shows: each passes the checks as the solution does."""

import re

import pytest
from helpers.labs import LABS, failing
from variants import solved

BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
WAYS = [
    (lab, task, number, block)
    for lab in LABS.values()
    for task in lab.tasks
    for cell in lab.book.cells
    if cell.id == f"ways-{task.name}"
    for number, block in enumerate(BLOCK.findall(cell.source), 1)
]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "task", "block"),
    [pytest.param(lab, task, block, id=f"{lab.name}-{task.name}-{n}") for lab, task, n, block in WAYS],
)
def test_another_way_passes_the_checks_of_its_task(lab, task, block):
    code = f"{solved(task.code.source)}\n\n\n{block}"  # what it defines takes the solution's place
    assert failing(lab, {task.code.id: code}, [task], seed=17) == {}


def test_every_lab_shows_other_ways_and_each_of_them_is_code():
    shown = {lab.name: [cell for cell in lab.book.cells if cell.id.startswith("ways-")] for lab in LABS.values()}
    assert {name: len(cells) for name, cells in shown.items() if len(cells) < 2} == {}
    assert [cell.id for cells in shown.values() for cell in cells if not BLOCK.search(cell.source)] == []
