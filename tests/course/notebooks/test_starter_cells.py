"""What a starter says that its solution does not: each fact comes from the metadata, and each cell begins as it should."""

import json
import re

import pytest
from helpers.notebook_shell import notebook_shell
from helpers.small_lab import DOUBLE, METAS, book, lab_of

from utils.course.notebooks.lab import starter
from utils.course.notebooks.notebook import text_of
from utils.course.notebooks.starter_cells import Facts, overview, under_the_heading
from utils.course.notebooks.tidy import FOLDED, as_bytes, tidied
from utils.grader.submission import ELSEWHERE, read_submission

REPAIR = DOUBLE.replace(": double: add it to itself", "").replace(
    "    ### END", "    ### INSTEAD\n    # return x\n    ### END"
)


def sources(raw: dict) -> dict[str, str]:
    return {cell["id"]: text_of(cell["source"]) for cell in raw["cells"]}


def facts(number: int, visible: int, hidden: int = 0, minutes: int = 20, unchanged: str = "") -> Facts:
    return Facts(number, f"task{number}", visible, hidden, minutes, 2, 5, (), unchanged)


def test_the_first_screen_adds_up_the_tasks():
    text = overview(["double", "halve"], "lecture 99", [facts(1, 3), facts(2, 2, 1), facts(3, 1, 2, 35), facts(4, 1)])
    assert "- double\n- halve\n" in text and "| Builds on | lecture 99 |" in text
    assert "| Time | about 1 hour 35 minutes |" in text
    assert "| Points | 10: 7 by checks that you run here, and 3 by hidden checks, of tasks 2 and 3. " in text
    alone = overview(["double"], "lecture 99", [facts(1, 3, minutes=60, unchanged="x = 1"), facts(2, 2, minutes=60)])
    assert "| Points | 5, all by checks that you run here |" in alone and "| Time | about 2 hours |" in alone
    assert "(in task 1 repair the code that is there)" in alone and "repair" not in text


def test_a_heading_is_followed_by_what_the_task_costs_and_gives():
    assert under_the_heading(facts(2, 2, 1)) == (
        "*3 points, 1 of them hidden · about 20 minutes · difficulty ●●○○○ · importance ●●●●●*"
    )
    assert under_the_heading(facts(1, 1)).startswith("*1 point · ")


def test_what_a_check_says_before_the_set_up_has_run_is_in_the_title_with_what_to_do(capsys):
    cells = sources(starter(book()))
    with notebook_shell() as shell:
        assert shell.run_cell(cells["check-double"]).error_in_exec is not None
    (said,) = re.findall(r"NameError: (.*)", capsys.readouterr().out)
    told = " ".join(cells["title"].split())
    assert f'where it says "{said}", choose Run All Cells' in told


def test_what_the_checks_ask_and_the_set_up_are_folded_and_what_a_student_runs_is_not():
    made = starter(book())
    folded = {cell["id"] for cell in made["cells"] if cell["metadata"].items() >= FOLDED.items()}
    assert folded == {"colab", "setup", "points-so-far", "checks"}
    solution = tidied(book())["cells"]
    assert tidied(made) == made and not any(
        FOLDED.keys() & c["metadata"].keys() for c in solution if c["id"] != "colab"
    )


def test_a_later_cell_needs_what_its_metadata_say():
    second = {name.replace("double", "again"): meta for name, meta in METAS.items() if "double" in name}
    raw = book(metadata={"picture-double": {"needs": ["double"]}})
    task = [cell for cell in book()["cells"] if cell["id"].endswith("-double") and "picture" not in cell["id"]]
    again = [
        cell
        | {
            "id": cell["id"].replace("double", "again"),
            "metadata": second.get(cell["id"].replace("double", "again"), {}),
        }
        for cell in task
        if not cell["id"].startswith("reading")
    ]
    place = next(index for index, cell in enumerate(raw["cells"]) if cell["id"] == "your-picture")
    cells = sources(starter(raw | {"cells": raw["cells"][:place] + again + raw["cells"][place:]}))
    assert cells["picture-double"].startswith("%%needs double\n") and cells["your-line"].startswith(
        "%%needs double again\n"
    )


@pytest.mark.parametrize("code", [DOUBLE, REPAIR], ids=["to be written", "to be repaired"])
def test_a_starter_runs_to_its_end_and_earns_points_when_it_is_solved(code, capsys):
    raw = starter(book({"code-double": code}))
    with notebook_shell() as shell:
        for cell in raw["cells"]:
            if cell["cell_type"] == "code":
                assert shell.run_cell(text_of(cell["source"]), store_history=True).success, cell["id"]
        told = capsys.readouterr().out
        assert "Task 1 is open: " in told and "This cell waits for task 1" in told and "\n0 of 1 so far  ░\n" in told
        shell.run_cell("def double(x):\n    return 2 * x", store_history=True)
        for name in ("check-double", "picture-double", "your-line", "hand-in"):
            assert shell.run_cell(sources(raw)[name], store_history=True).success
    told = capsys.readouterr().out
    assert "Task 1: 1 of 1, 1 of 1 so far  █" in told and "[0, 2, 4]" in told and "0 makes 0" in told


def test_the_grader_reads_a_starter_as_cells_of_the_solution(tmp_path):
    lab = lab_of(tmp_path, book())
    raw = starter(book())
    read = read_submission(as_bytes(raw), lab)
    names = {name for name, _ in read.cells}
    assert names == {"given-colab", "given-parameters", "given-setup", "code-double"} and read.notes == ()
    without_comment = {"check-double": 'progress.check("double")'}
    own = [cell | {"source": without_comment.get(cell["id"], cell["source"])} for cell in raw["cells"]]
    assert read_submission(json.dumps(raw | {"cells": own}).encode(), lab).notes == (), (
        "a line like any of the student's"
    )
    changed = [cell | {"source": "points = 4"} if cell["id"] == "check-double" else cell for cell in raw["cells"]]
    read = read_submission(json.dumps(raw | {"cells": changed}).encode(), lab)
    assert not any("%%" in source for _, source in read.cells) and "%%" not in read.code[ELSEWHERE]
    assert read.notes == ("check-double was changed; points come from the lab's own",)
