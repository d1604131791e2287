"""What comes of grading: tables, and copies found; and whose work is whose."""

import csv
import io
import json
import os
import shutil
import stat
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from helpers.paths import ROOT
from helpers.records import record_of, shown, worth

from utils.course.__main__ import main
from utils.course.notebooks.lab import read_lab
from utils.grader import decisions, gradebook, roster, similar
from utils.grader.submission import AGAIN, LARGEST

LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"
WORTH = worth(read_lab(LAB))


# The gradebook


@pytest.mark.parametrize(
    "cell", ["=1+1", "+1", "-1", "@x", "  =1", "\t=1", "\r=1", "\ufeff=1", "\u200b@x", "\x00-1", "＝1", "\n\n+1"]
)
def test_no_cell_is_a_formula(cell):
    assert gradebook.without_formula(cell).startswith("'")
    assert gradebook.without_formula(f"1;2;{cell}").split(";")[2].lstrip().startswith("'")  # where `;` separates cells
    assert (
        gradebook.without_formula(-1) == -1
        and gradebook.without_formula("a=1") == "a=1"
        and gradebook.without_formula("") == ""
    )


def test_no_table_has_a_formula_whatever_a_student_is_called(tmp_path):
    name = '=HYPERLINK("http://x/?"&A1,"click")'
    record = shown(read_lab(LAB), student=name, id="@7", file=f"{name}.ipynb", notes=["+1", "-2"])
    gradebook.write_tables(tmp_path, [record])
    tables = list(tmp_path.glob("*.csv"))
    assert len(tables) == 4
    for path in tables:
        for row in csv.reader(io.StringIO(path.read_text(), newline="")):
            assert not [cell for cell in row if cell.startswith(tuple("=+-@"))], path.name
        assert f"'{name}" in [cell for row in csv.reader(io.StringIO(path.read_text(), newline="")) for cell in row]


def test_moodle_finds_the_columns_that_it_wants_and_a_grade_as_new_as_the_run(tmp_path):
    """Its importer refuses a table without the three, and skips whom Moodle has graded later than the date says."""
    begun = datetime.now().astimezone().replace(microsecond=0)
    lab = read_lab(LAB)
    gradebook.write_tables(
        tmp_path, [shown(lab, id="4711"), shown(lab, student="zoe", key="zoe", problem="an empty file")]
    )
    rows = list(csv.DictReader((tmp_path / f"{LAB.stem}.moodle.csv").read_text().splitlines()))
    assert [(row["Identifier"], row["Grade"]) for row in rows] == [
        ("Participant 4711", str(sum(WORTH.values()))),
        ("", ""),
    ]
    for row in rows:
        assert begun <= datetime.fromisoformat(row["Last modified (grade)"]) <= datetime.now().astimezone()


def test_half_a_character_is_written_and_read_back(tmp_path):
    record = record_of(read_lab(LAB), student="\udce9", code={"a": "\ud800"})
    gradebook.write_record(tmp_path, record)
    assert gradebook.records(tmp_path) == [record]


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
    assert all("/" not in key and key not in (".", "..") and len(key.encode()) < 140 for key in keys)
    assert len(roster.file_name("文" * 300).encode()) < 140, "with room for endings, of 255 bytes"
    assert roster.file_name("ada") == "ada"


def test_exports_of_canvas_and_moodle_name_the_student():
    canvas = ["lovelaceada_4711_123456_04_micrograd.ipynb", "lovelacebea_LATE_4712_123456_lab.ipynb"]
    assert roster._student_and_number(canvas[0], roster._style(canvas)) == ("lovelaceada", "4711")
    assert roster._student_and_number(canvas[1], roster._style(canvas)) == ("lovelacebea", "4712")
    moodle = ["Ada Lovelace_4711_assignsubmission_file_", "Bea_4712_assignsubmission_file_01.ipynb"]
    moodle += ["Cyd_4713_assignsubmission_file", "Ju\u0308rgen_4714_assignsubmission_onlinetext"]  # ü in two characters
    for name, student in zip(moodle, ["Ada Lovelace", "Bea", "Cyd", "Jürgen"], strict=True):
        assert roster._student_and_number(name, roster._style(moodle))[0] == student
        assert roster._student_and_number(name, roster._style([name]))[1] == name.split("_")[1]
    assert roster._student_and_number("ada", roster._style(["ada", "bea"])) == ("ada", "")


def test_exports_of_blackboard_and_brightspace_name_the_student_and_the_date(tmp_path):
    blackboard, brightspace = tmp_path / "blackboard", tmp_path / "brightspace"
    blackboard.mkdir()
    for name, tail in (("bit_diddle", "lab_1.ipynb"), ("bit_riddle", "x_eve_attempt_2026-11-21-10-00-00_y.ipynb")):
        (blackboard / f"lab_01_{name}_attempt_2026-11-20-14-03-10_{tail}").write_text(LAB.read_text())
        (blackboard / f"lab_01_{name}_attempt_2026-11-20-14-03-10.txt").write_text("Name: …")
    found = roster.hand_ins(blackboard, [read_lab(LAB)])
    when = "2026-11-20T14:03:10"
    assert [(each.student, each.handed_in, each.notes) for each in found] == [
        ("diddle", when, ()),
        ("riddle", when, ()),
    ]
    for name in ("Mary-Ann Smith", "John Doe"):
        folder = brightspace / f"{len(name)}-2557369 - {name} - Sep 4, 2026 926 PM"
        folder.mkdir(parents=True)
        (folder / "lab.ipynb").write_text(LAB.read_text())
    (brightspace / "index.html").write_text("")
    john, mary = roster.hand_ins(brightspace, [read_lab(LAB)])
    assert (john.student, john.id, mary.student) == ("John Doe", "8", "Mary-Ann Smith")
    assert john.handed_in == mary.handed_in == "2026-09-04T21:26:00"


def test_files_that_were_not_there_and_what_canvas_says_are_noted(tmp_path):
    ada = tmp_path / "ada"
    (ada / ".git").mkdir(parents=True)
    for name in (".git/HEAD", "helpers.py", "conf.json"):
        (ada / name).write_text("")
    (ada / "lab.ipynb").write_text(LAB.read_text())
    (work,) = roster.hand_ins(tmp_path, [read_lab(LAB)])
    assert work.notes == ("handed in beside it, and not there when it ran: ada/conf.json, ada/helpers.py",)
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("dan_LATE_4_93_lab.ipynb", LAB.read_text())
        archive.writestr("dan_LATE_4_94_01_data.csv", "")
        archive.writestr("eva_5_95_dan_LATE_4_93.ipynb", LAB.read_text())
    dan, eva = roster.hand_ins(tmp_path / "export.zip", [read_lab(LAB)])
    beside = "handed in beside it, and not there when it ran: dan_LATE_4_94_01_data.csv"
    assert (dan.notes, eva.notes) == ((beside, "Canvas marks it as late"), ())


def test_nobody_takes_the_number_of_another_by_the_name_of_a_file():
    names = ["mallory_777_9002_x_555_assignsubmission_file.ipynb", "victimanna_555_9001_lab.ipynb"]
    assert [roster._student_and_number(name, roster._style(names)) for name in names] == [
        ("mallory", "777"),
        ("victimanna", "555"),
    ]


def test_two_students_of_one_number_or_one_file_name_are_refused_by_name(tmp_path):
    for name in ("anna_555_9001_lab", "bert_555_9002_lab"):
        (tmp_path / f"{name}.ipynb").write_text(LAB.read_text())
    with pytest.raises(ValueError, match="'anna' and 'bert' have the same number, '555'"):
        roster.hand_ins(tmp_path, [read_lab(LAB)])
    other = tmp_path / "other"
    other.mkdir()
    for name in ("Ada", "ada"):
        (other / f"{name}.ipynb").write_text(LAB.read_text())
    with pytest.raises(ValueError, match="'Ada' and 'ada' have the same file name"):
        roster.hand_ins(other, [read_lab(LAB)])
    odd = "Zoë O'Neil"
    assert roster.file_name(odd) != roster.file_name(roster.file_name(odd)), "nobody is called like another's hash"


def test_a_name_like_that_of_one_of_two_of_a_name_is_refused(tmp_path):
    names = ["anna_12_1_lab", "anna_99_2_lab", "anna (12)_13_3_lab"]
    for number, name in enumerate(names):
        (tmp_path / f"{name}.ipynb").write_text(LAB.read_text().replace("contiguous_strides", f"strides{number}"))
    words = r"'anna \(12\)' would be two students: rename .* \(anna \(12\)_13_3_lab.ipynb; anna_12_1_lab.ipynb\)"
    with pytest.raises(ValueError, match=words):
        roster.hand_ins(tmp_path, [read_lab(LAB)])
    (tmp_path / f"{names[1]}.ipynb").unlink()
    found = roster.hand_ins(tmp_path, [read_lab(LAB)])
    assert [(work.student, work.id) for work in found] == [("anna", "12"), ("anna (12)", "13")]


def test_whoever_handed_in_anything_has_a_line(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("my/lab.ipynb", LAB.read_text())
    export = tmp_path / "export.zip"
    with zipfile.ZipFile(export, "w") as archive:
        archive.writestr("ada_1_90_lab.zip", inner.getvalue())
        archive.writestr("bea_2_91_lab.pdf", "")
        archive.writestr("cyd_3_92_lab.IPYNB", LAB.read_text())
        archive.writestr("dan_LATE_4_93_lab.ipynb.txt", LAB.read_text())
    found = {work.student: work for work in roster.hand_ins(export, [read_lab(LAB)])}
    assert {name: (work.id, work.problem) for name, work in found.items()} == {
        "ada": ("1", ""), "bea": ("2", "no notebook was handed in, but bea_2_91_lab.pdf"),
        "cyd": ("3", ""), "dan": ("4", ""),
    }  # fmt: skip
    assert found["ada"].read() == LAB.read_bytes()
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "bob_2_12_lab.zip").write_bytes(inner.getvalue())
    (bob,) = roster.hand_ins(folder, [read_lab(LAB)])
    assert (bob.student, bob.id) == ("bob", "2")
    with zipfile.ZipFile(tmp_path / "folder.zip", "w") as archive:
        for name in ("ada", "bea"):
            archive.writestr(f"folder/{name}.ipynb", LAB.read_text())
    assert [work.student for work in roster.hand_ins(tmp_path / "folder.zip", [read_lab(LAB)])] == ["ada", "bea"]


def test_a_bomb_of_many_notebooks_is_unpacked_once_and_no_further_than_one_may_be_large(tmp_path, monkeypatch):
    limit = 10 << 20
    monkeypatch.setattr(roster, "LARGEST", limit)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(50):
            archive.writestr(f"class/eve/{number}.ipynb", bytes(limit // 10))
    read = []
    real = roster._read_member

    def counted(*given):
        read.append(len(real(*given)))
        return bytes(read[-1])

    monkeypatch.setattr(roster, "_read_member", counted)
    labs = [read_lab(path) for path in sorted((ROOT / "solutions").glob("0[0-3]*.ipynb"))]
    with pytest.raises(ValueError, match="holds no notebook of"):
        roster.hand_ins(tmp_path / "bomb.zip", labs)
    assert limit <= sum(read) < 2 * limit, "for all four labs together"


def test_a_class_list_tells_who_is_missing(tmp_path):
    lines = ["Student,ID,Section", "Points Possible,,", '"Lovelace, Ada",1,A', "Bea,2,A", "Cyd,,A"]
    (tmp_path / "class.csv").write_text("\n".join(lines))
    listed = roster.class_list(tmp_path / "class.csv")
    assert [each.student for each in listed] == ["Lovelace, Ada", "Bea", "Cyd"]
    for name in ("lovelaceada_1_90_lab", "whoever_2_91_lab"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name}.ipynb").write_text(LAB.read_text())
    absent = roster.students_missing(listed, roster.hand_ins(tmp_path / "in", [read_lab(LAB)]))
    assert [each.student for each in absent] == ["Cyd"]
    gradebook.write_tables(tmp_path / "out", [shown(read_lab(LAB))], {LAB.stem: absent})
    rows = list(csv.reader((tmp_path / "out" / f"{LAB.stem}.csv").read_text().splitlines()))
    assert rows[-1][0] == "Cyd" and rows[-1][-1] == "nothing was handed in"
    for text in ("name\nAda\n", "student;id\nAda;1\n"):
        (tmp_path / "no.csv").write_text(text)
        with pytest.raises(ValueError, match="a line of headings with `student`, separated by commas"):
            roster.class_list(tmp_path / "no.csv")


def test_a_student_whose_files_are_named_otherwise_than_in_the_class_list_has_one_line(tmp_path):
    ada = roster.ListedStudent("Lovelace, Ada", "1")
    records = [shown(read_lab(LAB)) | {"student": "lovelaceada", "id": "1"}]
    gradebook.write_tables(tmp_path, records, {"02_another": [ada]})
    for table in ("gradebook.csv", "canvas.csv"):
        rows = list(csv.reader((tmp_path / table).read_text().splitlines()))
        assert [row[0] for row in rows if "ada" in row[0].lower()] == ["lovelaceada"]


# What has no points


def test_what_the_grader_failed_at_is_no_zero(tmp_path):
    record = shown(read_lab(LAB), failed="the machine fell asleep")
    gradebook.write_tables(tmp_path, [record])
    (_, row) = csv.reader((tmp_path / f"{LAB.stem}.csv").read_text().splitlines())
    assert row[-4] == "" and "NOT GRADED: the machine fell asleep" in row[-1]


def test_what_could_not_be_read_is_no_zero_until_a_person_decides(tmp_path):
    lab = read_lab(LAB)
    records = [record_of(lab, dict.fromkeys(WORTH, ""), student=name, problem="an empty file") for name in ("a", "b")]
    line = decisions.Decision("here", lab.name, "b", "swap", 2, "on paper")
    gradebook.write_tables(tmp_path, decisions.apply(records, [line]))
    head, a, b = csv.reader((tmp_path / f"{lab.name}.csv").read_text().splitlines())
    assert (a[head.index("swap")], a[head.index("earned")]) == ("", "")
    assert (b[head.index("swap")], b[head.index("earned")]) == ("2", "2")


def test_zips_are_read_as_folders_are(tmp_path):
    lab = read_lab(LAB)
    export = tmp_path / "export.zip"
    with zipfile.ZipFile(export, "w") as archive:
        archive.writestr("Ada Lovelace_4711_assignsubmission_file_/my lab.ipynb", LAB.read_text())
        archive.writestr("../../evil_12_34_01.ipynb", "{}")
        archive.writestr("__MACOSX/._x.ipynb", "")
        archive.writestr("notes.txt", "")
    found = {work.student: work for work in roster.hand_ins(export, [lab])}
    assert found["Ada Lovelace"].id == "4711" and found["Ada Lovelace"].read() == LAB.read_bytes()
    assert all("/" not in work.key for work in found.values()) and len(found) == 2
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "bob.zip").write_bytes(b"PK no zip")
    (tmp_path / "class" / "ada.ipynb").write_text(LAB.read_text())
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("Ada Lovelace_4711_assignsubmission_file_/lab 1/my lab.ipynb", LAB.read_text())
    (late,) = roster.hand_ins(tmp_path / "one.zip", [lab])
    assert (late.student, late.id) == ("Ada Lovelace", "4711")
    ada, bob = roster.hand_ins(tmp_path / "class", [lab])
    assert (ada.problem, bob.student) == ("", "bob") and "the zip cannot be read" in bob.problem


def broken_zip(path: Path) -> None:
    """A zip of one notebook whose packed bytes were changed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lab.ipynb", LAB.read_text())
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    path.write_bytes(data)


@pytest.mark.slow
def test_whatever_lies_in_the_folder_costs_its_own_student_only(tmp_path):
    folder = tmp_path / "class"
    (folder / "nothing").mkdir(parents=True)
    (folder / "nothing" / "lab.pdf").write_text("")
    (folder / ".git").mkdir()
    (folder / "link.ipynb").symlink_to(LAB)
    os.mkfifo(folder / "pipe.ipynb")
    with (folder / "sparse.ipynb").open("wb") as file:
        file.truncate(1 << 40)
    broken_zip(folder / "torn.zip")
    link = zipfile.ZipInfo("lab.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(folder / "zipped link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lab.ipynb", bytes(300 << 20))
    with zipfile.ZipFile(folder / "empty.zip", "w"):
        pass
    with zipfile.ZipFile(folder / "many.zip", "w") as archive:
        for number in range(200):
            archive.writestr(f"{number}.ipynb", "{}")
        archive.writestr("999.ipynb", LAB.read_text())
    (folder / os.fsdecode(b"caf\xe9.ipynb")).write_text(LAB.read_text())
    (folder / "ada.ipynb").write_text(LAB.read_text())
    found = {work.student: work for work in roster.hand_ins(folder, [read_lab(LAB)])}
    problems = {student: work.problem for student, work in found.items()}
    assert set(problems) == {"nothing", "link", "pipe", "sparse", "torn", "zipped link", "bomb", "empty", "many",
                             "ada", "caf\udce9"}  # fmt: skip
    assert (
        problems["nothing"] == "no notebook was handed in, but nothing/lab.pdf"
        and problems["empty"] == "no notebook is in the zip"
    )
    assert problems["link"] == "a link, not a file" and problems["pipe"] == "a device, not a file"
    assert "cannot be unpacked" in problems["torn"]
    assert found["zipped link"].read() == b"/etc/passwd"
    assert len(found["sparse"].read()) == len(found["bomb"].read()) == LARGEST + 1
    assert found["many"].notes[-1].startswith("of 201 notebooks only the first 50")
    assert problems["ada"] == problems["caf\udce9"] == "" and len({work.key for work in found.values()}) == 11


def test_two_students_of_one_name_stay_two(tmp_path):
    for number in (1, 2):
        path = tmp_path / f"Ada Lovelace_{number}_assignsubmission_file_" / "lab.ipynb"
        path.parent.mkdir()
        path.write_text(LAB.read_text().replace("contiguous_strides", f"strides{number}"))
    one, two = roster.hand_ins(tmp_path, [read_lab(LAB)])
    assert (one.id, two.id) == ("1", "2") and one.key != two.key and one.digest != two.digest


def test_a_file_of_another_lab_is_not_graded_as_this_one(tmp_path):
    """Their cells have ids in common: what does not fit would look as if it had been changed."""
    ring = ROOT / "solutions" / "14_ring_and_ddp.ipynb"
    for student, path in (("ada", ring), ("bea", LAB), ("cyd", ROOT / "solutions" / "04_micrograd_and_numpy.ipynb")):
        (tmp_path / student).mkdir()
        shutil.copy(path, tmp_path / student / "14.ipynb")
    shutil.copy(LAB, tmp_path / "ada" / "01.ipynb")
    shutil.copy(LAB, tmp_path / "mine.ipynb")
    found = {work.student: work for work in roster.hand_ins(tmp_path, [read_lab(ring)])}
    assert found["ada"].problem == "" and found["ada"].file == "ada/14.ipynb"
    assert "bea/14.ipynb is of lab 01" in found["bea"].problem and "is of lab 04" in found["cyd"].problem
    assert "is of lab 01" in found["mine"].problem
    (tmp_path / "mine.ipynb").write_text('{"nbformat": 4, "cells": [{"cell_type": "code", "source": "1"}]}')
    assert {work.problem for work in roster.hand_ins(tmp_path, [read_lab(ring)]) if work.student == "mine"} == {""}


def test_the_date_of_a_file_or_of_its_place_in_an_export_is_when_it_was_handed_in(tmp_path):
    (tmp_path / "ada.ipynb").write_text(LAB.read_text())
    os.utime(tmp_path / "ada.ipynb", (0, 86400 * 365.25 * 50))
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("class/bea/lab.ipynb", (2026, 11, 20, 23, 58, 2)), LAB.read_text())
        archive.writestr(zipfile.ZipInfo("class/cyd/lab.ipynb"), LAB.read_text())
    (ada,) = (work for work in roster.hand_ins(tmp_path, [read_lab(LAB)]) if work.student == "ada")
    assert ada.handed_in[:10] in ("2020-01-01", "2019-12-31"), "by the clock on the wall"
    bea, cyd = roster.hand_ins(tmp_path / "class.zip", [read_lab(LAB)])
    assert (bea.handed_in, cyd.handed_in) == ("2026-11-20T23:58:02", "")


def test_of_two_versions_the_newest_is_graded_and_all_who_handed_in_are_known(tmp_path):
    for name, year in (("v1", 30), ("v2", 50)):
        path = tmp_path / "anna (1)" / f"lab_{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(LAB.read_text())
        os.utime(path, (0, 86400 * 365.25 * year))
    works = list(roster.hand_ins(tmp_path, [read_lab(LAB)]))
    assert [work.file for work in works] == ["anna (1)/lab_v2.ipynb"] and "lab_v1" in works[0].notes[0]
    assert roster.students_unrecognised(tmp_path, works) == []


STARTER = ROOT / "labs" / LAB.name


def handed_in(folder: Path, files: dict[str, str]) -> None:
    """These texts, by name, each newer by a day than the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    for day, (name, text) in enumerate(files.items()):
        (folder / name).write_text(text)
        os.utime(folder / name, (0, 1_700_000_000 + 86_400 * day))


def no_ids(path: Path) -> str:
    """As Kaggle writes it: without ids, and with each source in one piece."""
    book = json.loads(path.read_text())
    cells = [{key: value for key, value in cell.items() if key != "id"} for cell in book["cells"]]
    cells = [cell | {"source": "".join(cell["source"])} for cell in cells]
    return json.dumps(book | {"cells": cells, "nbformat_minor": 4})


def run_once(path: Path) -> str:
    """The starter after its student has run it on a GPU and has written nothing."""
    book = json.loads(path.read_text())
    for cell in book["cells"]:
        if cell["id"] == "parameters":
            cell["source"] = 'device = "auto"\nseed = 7'
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "0 of 20 points"}]
    return json.dumps(book)


@pytest.mark.parametrize(
    "files",
    [
        {LAB.name: STARTER.read_text(), "final version.ipynb": LAB.read_text()},
        {"final version.ipynb": LAB.read_text(), LAB.name: STARTER.read_text()},
        {"final version.ipynb": LAB.read_text(), LAB.name: run_once(STARTER)},
        {"final version.ipynb": no_ids(LAB), LAB.name: STARTER.read_text()},
        {"final version.ipynb": no_ids(LAB), LAB.name: no_ids(STARTER)},
        {LAB.name: LAB.read_text().replace("contiguous_strides", "older"), "final version.ipynb": LAB.read_text()},
        {"01 empty.ipynb": "", "final version.ipynb": LAB.read_text()},
    ],
    ids=["newer", "older", "starter run", "no ids", "no ids at all", "two attempts", "unreadable"],
)
def test_no_name_makes_a_file_win_over_a_real_attempt(tmp_path, files):
    handed_in(tmp_path / "ada", files)
    others = [read_lab(path) for path in sorted((ROOT / "solutions").glob("0[23]_*.ipynb"))]
    for labs in ([read_lab(LAB)], [read_lab(LAB), *others]):
        (ada,) = roster.hand_ins(tmp_path, labs)
        assert (ada.file, ada.lab.name) == ("ada/final version.ipynb", LAB.stem)
        assert f"ada/{next(name for name in files if name.startswith('01'))} was handed in too" in ada.notes[0]


def test_an_untouched_starter_is_graded_where_there_is_nothing_else_of_the_lab(tmp_path):
    handed_in(tmp_path / "ada", {LAB.name: STARTER.read_text(), "notes.ipynb": "{}"})
    assert [work.file for work in roster.hand_ins(tmp_path, [read_lab(LAB)])] == [f"ada/{LAB.name}"]


@pytest.mark.parametrize("name", ["04_micrograd 2026-03-05.ipynb", "04 05.03.26.ipynb", "04_2026_03_05.ipynb"])
@pytest.mark.parametrize("text", [str, no_ids], ids=["with ids", "without ids"])
def test_a_date_in_a_files_name_is_no_labs_number(tmp_path, name, text):
    solutions = {path.stem[:2]: path for path in (ROOT / "solutions").glob("0*.ipynb")}
    micrograd = solutions["04"].read_text() if text is str else no_ids(solutions["04"])
    handed_in(tmp_path / "ada", {"roofline.ipynb": solutions["03"].read_text(), name: micrograd})
    found = roster.hand_ins(tmp_path, [read_lab(solutions[number]) for number in ("03", "04", "05")])
    assert {work.lab.name[:2]: work.file for work in found} == {"03": "ada/roofline.ipynb", "04": f"ada/{name}"}


def test_nothing_handed_in_is_said(tmp_path):
    with pytest.raises(ValueError, match="no such folder"):
        roster.hand_ins(tmp_path / "none", [read_lab(LAB)])
    with pytest.raises(ValueError, match="holds no notebook of 01_views"):
        roster.hand_ins(tmp_path, [read_lab(LAB)])


def test_an_unknown_lab_is_refused(capsys, tmp_path):
    assert main(["grade", str(tmp_path), "--lab", "99", "--out", str(tmp_path / "out")]) == 2
    assert "no lab '99': choose of 00" in capsys.readouterr().err


# Who wrote the same


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
    pairs = similar.similar_pairs(
        lab, {name: similar.marks_of({"swap": code}) for name, code in (("ada", ONE), ("bob", RENAMED), ("eve", OTHER))}
    )
    assert [(pair.first, pair.second, pair.share, pair.tasks) for pair in pairs] == [("ada", "bob", 1.0, ("swap",))]
    starters = similar.marks_of({task.name: task.starter for task in lab.tasks})
    assert similar.similar_pairs(lab, {"ada": starters, "bob": starters}) == []
    swap = next(task for task in lab.tasks if task.name == "swap")
    for source, touched in ((swap.starter, False), (ONE, True), ("def swapped(:" + AGAIN + ONE, True)):
        assert similar.is_untouched(swap, source) != touched
    torn = similar.marks_of({"swap": "def swapped(:"})
    assert similar.similar_pairs(lab, {"ada": torn, "bob": torn}) == []
