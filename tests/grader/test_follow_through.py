"""A task that calls an earlier one is graded with ours where the student's failed; and places, reasons and definitions."""

import json
from dataclasses import replace

import pytest
from helpers.small_lab import HINTS, book, lab_of

from utils.course.notebooks.lab import Lab, starter
from utils.course.notebooks.tidy import as_bytes
from utils.grader import grade as grading
from utils.grader.judge import _place
from utils.grader.rules import Patience
from utils.grader.submission import Submission, depends_on, read_submission, with_reference

TWICE = '''def twice(x: int) -> int:
    """Four times x."""
    ### BEGIN SOLUTION: twice: double it, and double that
    return double(double(x))
    ### END SOLUTION'''
ALONE = '''def alone(x: int) -> int:
    """x and 1."""
    ### BEGIN SOLUTION: alone: add 1
    return x + 1
    ### END SOLUTION'''


def task(name: str, code: str, needs: list[str]) -> list[dict]:
    checks = [("check", 2, "x=3", {}), ("hidden", 1, "x=seed", {"tags": ["hidden"]})]
    cells = [("task", f"## Task · {name}\n\n**By hand.** None."), ("hints", HINTS)]
    made = [{"cell_type": "markdown", "id": f"{part}-{name}", "metadata": {}, "source": text} for part, text in cells]
    made[0]["metadata"] = {"minutes": 5, "difficulty": 1, "importance": 1}
    made.append({"cell_type": "code", "id": f"code-{name}", "metadata": {}, "source": code})
    for part, points, given, more in checks:
        result = {"twice": "4 * {}", "alone": "{} + 1"}[name].format(given.partition("=")[2])
        source = f'expect_equal(ask("{name}(x)", {given}), {result}, next_step="think")'
        if name == "alone" and part == "check":
            source += '\nask.earned(1)\nexpect_equal(ask("alone(x)", x=-1), 0, next_step="think again")'
        metadata = {"points": points, **more} | ({"needs": needs} if needs else {})
        made.append({"cell_type": "code", "id": f"{part}-{name}", "metadata": metadata, "source": source})
    return made


@pytest.fixture
def lab(tmp_path) -> Lab:
    """double (1 + 1 points), twice, which calls it (2 + 1), and alone (2 + 1)."""
    raw = book()
    place = next(n for n, cell in enumerate(raw["cells"]) if cell["id"] == "your-picture")
    tasks = task("twice", TWICE, ["double"]) + task("alone", ALONE, [])
    return lab_of(tmp_path, raw | {"cells": raw["cells"][:place] + tasks + raw["cells"][place:]})


def with_code(lab: Lab, changes: dict[str, str], below: str = "") -> bytes:
    """The solution with other code of these tasks, and a cell of the student's own at the end."""
    cells = [cell.raw | {"source": changes.get(cell.id.removeprefix("code-"), cell.source)} for cell in lab.book.cells]
    own = {"cell_type": "code", "id": "mine", "metadata": {}, "outputs": [], "execution_count": None, "source": below}
    return as_bytes(lab.book.raw | {"cells": [*cells, *[own] * bool(below)]})


def named(lab: Lab, name: str):
    return next(each for each in lab.tasks if each.name == name)


def test_what_a_task_depends_on_is_what_the_lab_says_and_what_the_code_calls(lab):
    code = read_submission(with_code(lab, {}), lab).code
    assert depends_on(lab, named(lab, "twice"), code) == ["double"]
    assert depends_on(lab, named(lab, "alone"), code) == []
    calls = {"alone": "def alone(x):\n    return twice(x) - 3 * x + 1"}
    assert depends_on(lab, named(lab, "alone"), code | calls) == ["double", "twice"], (
        "the student's own way, and through it"
    )
    says = {"alone": "def alone(x):\n    return x + 1  # no double, no twice"}
    assert depends_on(lab, named(lab, "alone"), code | says) == []
    assert depends_on(lab, named(lab, "double"), code | {"double": "def double(x):\n    return twice(x)"}) == []


def test_ours_is_run_after_theirs_wherever_that_stands(lab):
    theirs = "def helper(x):\n    return x\ndef double(x):\n    return helper(x)"
    sent = read_submission(with_code(lab, {"double": theirs}, "def double(x):\n    return 7"), lab)
    cells = with_reference(sent, lab, ["double"], named(lab, "twice"))
    assert [name for name, _ in cells.cells if "double" in name or name == "mine"] == [
        "code-double", "given-reference-double", "mine", "given-reference-double",
    ]  # fmt: skip
    names: dict = {}
    for _, source in cells.cells:
        if "double" in source:
            exec(source, names)
    assert names["double"](4) == 8 and names["helper"](4) == 4 and names["twice"](4) == 16
    missing = Submission((("setup", ""), ("code-twice", "")), {}, {})
    cells = with_reference(missing, lab, ["double"], named(lab, "twice"))
    assert [name for name, _ in cells.cells] == ["setup", "given-reference-double", "code-twice"]
    assert cells.given == {"given-reference-double": ("double",)} and missing.given == {}


def test_a_name_that_is_defined_again_is_told_and_both_are_shown(lab):
    found = read_submission(with_code(lab, {}, "def double(x):\n    return 7"), lab)
    (note,) = found.notes
    assert note == "double is defined 2 times; the last one counts, in the cell that begins: def double(x):"
    assert "x + x" in found.code["double"] and found.code["double"].endswith("return 7")
    assert read_submission(with_code(lab, {}, "def other(x):\n    return 7"), lab).notes == ()


def test_a_place_is_a_line_of_the_students_whatever_was_said():
    submission = Submission((("code-double", "def double(x):\n    return y"), ("given-setup", "1")), {}, {})
    good = {"cell": "code-double", "line": 2, "function": "double", "source": "return y"}
    assert _place(("code-double", 2, "double"), submission) == good
    assert _place(("code-double", 2, "<module>"), submission) == good | {"function": ""}
    for said in (None, "x", (), ("code-double", 3, "f"), ("code-double", 0, "f"), ("code-double", "2", "f"), ("x", 1, "f"),
                 ("code-double", True, "f"), ("given-setup", 1, "f"), ("code-double", 2, "f", "more")):  # fmt: skip
        assert _place(said, submission) is None


CRASHES = "def double(x):\n    table = [1]\n    return table[x + 1]"


@pytest.mark.slow
def test_one_mistake_is_paid_for_once(lab, tmp_path):
    """And it cannot be gained from: what is the starter's own stays nothing, and no text of ours comes back."""
    steals = (
        "import inspect\ndef twice(x):\n    raise ValueError(inspect.getsource(double) if __import__('random') else 0)"
    )
    unsolved = {cell["id"]: "".join(cell["source"]) for cell in starter(json.loads(lab.book.path.read_text()))["cells"]}
    books = {
        "right": with_code(lab, {}),
        "torn": with_code(lab, {"double": "def double(x: int) -> int\n    return 2 * x"}),
        "crashes": with_code(lab, {"double": CRASHES}),
        "both": with_code(lab, {"double": CRASHES, "twice": "def twice(x):\n    return double(x) * 3"}),
        "part": with_code(lab, {"alone": "def alone(x):\n    return abs(x) + 1"}),
        "part, by ours": with_code(
            lab, {"double": CRASHES, "alone": "def alone(x):\n    return abs(double(x) - x) + 1"}
        ),
        "deep": with_code(lab, {"double": CRASHES, "alone": "def alone(x):\n    return twice(x) - 3 * x + 1"}),
        "steals": with_code(lab, {"double": CRASHES, "twice": steals}),
        "unsolved": with_code(lab, {"double": CRASHES, "twice": unsolved["code-twice"]}),
    }
    (tmp_path / "in").mkdir()
    for student, raw in books.items():
        (tmp_path / "in" / f"{student}.ipynb").write_bytes(raw)
    rules = grading.Rules(seed=7, patience=Patience(600, 600, 600), seconds=7200)
    records = {r["student"]: r for r in grading.grade(tmp_path / "in", [lab.book.path], tmp_path / "out", rules)}
    earned = {
        name: [sum(c["earned"] for c in record["checks"] if c["task"] == each.name) for each in lab.tasks]
        for name, record in records.items()
    }
    assert earned == {
        "right": [2, 3, 3], "torn": [0, 3, 3], "crashes": [0, 3, 3], "both": [0, 0, 3], "deep": [0, 3, 3],
        "steals": [0, 0, 3], "unsolved": [0, 0, 3], "part": [2, 3, 2], "part, by ours": [0, 3, 2],
    }  # fmt: skip
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "crashes.ipynb").write_bytes(books["crashes"])
    without = replace(rules, follow_through=False)
    (record,) = grading.grade(tmp_path / "alone", [lab.book.path], tmp_path / "out alone", without)
    assert [check["earned"] for check in record["checks"]] == [0, 0, 0, 0, 2, 1]
    used = {name: [check["reference"] for check in record["checks"]] for name, record in records.items()}
    assert used["right"] == [[]] * 6 and used["crashes"] == [[], [], ["double"], ["double"], [], []]
    assert used["deep"][4:] == [["double"]] * 2, "with the student's own twice, which is right"
    assert used["both"][2:4] == [["double"]] * 2 and used["unsolved"][2:4] == [[], []]
    crash = records["crashes"]["checks"][2]
    assert (crash["why"], crash["place"]["cell"], crash["place"]["line"]) == ("raised", "code-double", 3)
    assert crash["place"]["source"] == "return table[x + 1]" and crash["place"]["function"] == "double"
    assert [check["earned"] for check in records["part"]["checks"][4:]] == [1, 1]
    assert [check["reference"] for check in records["part, by ours"]["checks"][4:]] == [["double"]] * 2
    part = (tmp_path / "out" / "feedback" / lab.name / "part.html").read_text()
    assert "<strong>1 of 2 points by this check</strong>" in part and "think again" in part
    assert records["torn"]["raised"]["code-double"][2]["line"] == 1
    pages = {path.name: path.read_text() for path in (tmp_path / "out" / "feedback").rglob("*.*")}
    assert len(pages) == 2 * len(books) and "x + x" in pages["right.html"]
    assert [name for name, page in pages.items() if "x + x" in page and name.startswith(("steals", "crashes"))] == []
    text = (tmp_path / "out" / "feedback" / lab.name / "crashes.html").read_text()
    assert "graded with our <code>double</code>, since yours failed" in text
    assert "raised at line 3 of your cell" in text and "return table[x + 1]" in text
