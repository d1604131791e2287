"""What comes of grading: tables, pages for students and teachers, copies found; and whose work is whose."""

import json
import os
import zipfile
from html import escape
from pathlib import Path

import pytest

from utils.course.__main__ import main
from utils.course.grading import feedback, gradebook, roster, similar, summary
from utils.course.labs import points_of, read_lab, solution_lines
from utils.course.notebook import text_of

ROOT = Path(__file__).parents[1]
LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"


def load(path: Path) -> dict:
    return json.loads(path.read_text())


# The gradebook


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "  =1", "\t=1"])
def test_no_cell_is_a_formula(cell):
    assert gradebook.harmless(cell).startswith("'")
    assert gradebook.harmless(-1) == -1 and gradebook.harmless("a=1") == "a=1"


def test_a_record_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    gradebook.write_whole(path, "old")

    def cut_off(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", cut_off)
    with pytest.raises(OSError, match="no space"):
        gradebook.write_whole(path, "new")
    assert path.read_text() == "old"


# Who handed in what


def test_names_of_files_are_safe_and_apart():
    names = ["ada", "../etc/passwd", "..", "zoë", "a b", "a_b", "a/b", "x" * 300, ""]
    keys = [roster.file_name(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all("/" not in key and key not in (".", "..") and len(key) < 100 for key in keys)
    assert roster.file_name("ada") == "ada"


def test_exports_of_canvas_and_moodle_name_the_student():
    assert roster._who("lovelaceada_4711_123456_04_micrograd") == ("lovelaceada", "4711")
    assert roster._who("lovelaceada_LATE_4711_123456_lab") == ("lovelaceada", "4711")
    assert roster._who("Ada Lovelace_4711_assignsubmission_file_") == ("Ada Lovelace", "4711")
    assert roster._who("ada") == ("ada", "")


def test_zips_are_read_as_folders_are(tmp_path):
    lab = read_lab(LAB)
    export = tmp_path / "export.zip"
    with zipfile.ZipFile(export, "w") as archive:
        archive.writestr("Ada Lovelace_4711_assignsubmission_file_/my lab.ipynb", LAB.read_text())
        archive.writestr("../../evil_12_34_01.ipynb", "{}")
        archive.writestr("__MACOSX/._x.ipynb", "")
        archive.writestr("notes.txt", "")
    found = {work.student: work for work in roster.works(export, [lab])}
    assert found["Ada Lovelace"].id == "4711" and found["Ada Lovelace"].read() == LAB.read_bytes()
    assert all("/" not in work.key for work in found.values()) and len(found) == 2
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "bob.zip").write_bytes(b"PK no zip")
    (tmp_path / "class" / "eve.ipynb").symlink_to("/etc/passwd")
    (bob,) = roster.works(tmp_path / "class", [lab])
    assert bob.student == "bob" and "the zip cannot be read" in bob.problem


def test_nothing_handed_in_is_said(tmp_path):
    with pytest.raises(ValueError, match="no such folder"):
        roster.works(tmp_path / "none", [read_lab(LAB)])
    with pytest.raises(ValueError, match="holds no notebook of 01_views"):
        roster.works(tmp_path, [read_lab(LAB)])


def test_an_unknown_lab_is_refused(capsys, tmp_path):
    assert main(["grade", str(tmp_path), "--lab", "99", "--out", str(tmp_path / "out")]) == 2
    assert "no lab '99': choose of 00" in capsys.readouterr().err


# What students and teachers read


def record_of(book: dict, verdicts: dict[str, str], **changes) -> dict:
    """A record in which the checks named in `verdicts` failed with these words."""
    lab = read_lab(LAB)
    checks = [
        {"task": task.name, "check": check.id, "hidden": check is task.hidden, "points": points_of(check)}
        | {"earned": 0 if check.id in verdicts else points_of(check), "message": verdicts.get(check.id, "")}
        for task in lab.tasks
        for check in task.checks
    ]
    codes = {
        cell["id"].removeprefix("code-"): cell["source"] for cell in book["cells"] if cell["id"].startswith("code-")
    }
    return {
        "student": "<b>eve</b>", "key": "eve", "id": "", "lab": LAB.stem, "file": "eve.ipynb", "checks": checks,
        "problem": "", "earned": sum(check["earned"] for check in checks), "points": 20, "raised": {},
        "notes": ["<i>odd</i>"], "code": {name: text_of(source) for name, source in codes.items()}, "isolated": True,
    } | changes  # fmt: skip


def test_feedback_shows_what_was_expected_and_nothing_of_hidden_checks_or_solutions():
    lab = read_lab(LAB)
    starter = load(ROOT / "labs" / LAB.name)
    said = "expected: (12, 4, 1)\ngot: <script>alert(1)</script>\nnext: the last axis moves by 1"
    secret = "asked: a secret of the hidden check"
    page = feedback.page(
        record_of(starter, {"check-strides": said, "hidden-strides": secret, "hidden-windows": secret}), lab
    )
    assert escape(said) in page and "<script>" not in page and "<b>eve" not in page and "<i>odd" not in page
    assert "secret" not in page and "a further check" in page and "0 of 2" in page and "16 of 20 points" not in page
    assert "Hint 1" in page
    hidden = {
        line.strip() for task in lab.tasks if task.hidden for line in task.hidden.source.splitlines() if len(line) > 30
    }
    shown = {line.strip() for task in lab.tasks for line in task.check.source.splitlines()}
    lines = {escape(line) for line in hidden - shown} | {
        escape(line) for task in lab.tasks for line in solution_lines(task.code.source) if len(line) > 30
    }
    assert lines and [line for line in lines if line in page] == []


def test_the_summary_names_the_hardest_task_and_the_commonest_failure():
    book = load(ROOT / "labs" / LAB.name)
    some = [record_of(book, {"check-swap": "no\nnext:     <try> as_strided"}, student=str(n)) for n in range(3)]
    records = [*some, record_of(book, {"check-heads": "no"}), record_of(book, {})]
    assert summary.shares_of_tasks(records)["swap"] == 2 / 5 and summary.shares_of_tasks(records)["weights"] == 1
    assert summary.failed(records) == [("check-swap", 3, "next:     <try> as_strided"), ("check-heads", 1, "no")]
    page = summary.summary(LAB.stem, records, [similar.Pair("<u>", "b", 0.9, ("swap",))])
    assert "Hardest task: <strong>swap</strong>, 40%" in page and "<try>" not in page and "<u>" not in page


ONE = (
    "def swapped(x, a, b):\n    sizes = list(x.shape)\n    steps = list(x.stride())\n    for part in (sizes, steps):\n"
    + ("        part[a], part[b] = part[b], part[a]\n    return x.as_strided(sizes, steps, x.storage_offset())")
)
RENAMED = (
    "def swapped(t, i, j):\n    # mine!\n    q = list(t.stride())\n    p = list(t.shape)\n    for z in (p, q):\n"
    + ("        z[i], z[j] = z[j], z[i]\n    return t.as_strided(p, q, t.storage_offset())")
)
OTHER = (
    "def swapped(x, a, b):\n    order = list(range(x.ndim))\n    order[a] = b % x.ndim\n    order[b] = a % x.ndim\n"
    + ("    return x.as_strided([x.size(i) for i in order], [x.stride(i) for i in order], x.storage_offset())")
)


def test_copies_are_found_whatever_their_names_and_order():
    lab = read_lab(LAB)
    pairs = similar.alike(lab, {"ada": {"swap": ONE}, "bob": {"swap": RENAMED}, "eve": {"swap": OTHER}})
    assert [(pair.first, pair.second, pair.share, pair.tasks) for pair in pairs] == [("ada", "bob", 1.0, ("swap",))]
    starters = {task.name: task.starter for task in lab.tasks}
    assert similar.alike(lab, {"ada": starters, "bob": starters}) == []
    torn = {"swap": "def swapped(:"}
    assert similar.alike(lab, {"ada": torn, "bob": torn}) == []
