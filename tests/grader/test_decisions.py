"""What a person decides holds in every later table, and what cannot be meant is refused by its line."""

import json
import re
import time

import pytest
from helpers.paths import ROOT
from helpers.records import record_of
from helpers.small_lab import book, lab_of

from utils.course.notebooks.lab import read_lab
from utils.grader import decisions, gradebook

README = "utils/grader/README.md"

WRITTEN = [
    {"cell_type": "markdown", "id": "question-why", "metadata": {}, "source": ["## Why\n", "\n", "1 point: a reason."]},
    {"cell_type": "markdown", "id": "written-why", "metadata": {"points": 3}, "source": ["*Write here.*"]},
]


@pytest.fixture
def lab(tmp_path):
    """One task of 2 points, 1 of them hidden, and a written answer of 3."""
    raw = book()
    return lab_of(tmp_path, raw | {"cells": raw["cells"] + WRITTEN})


def decided(out, records: list[dict], *lines: str) -> dict[str, dict]:
    out.mkdir(exist_ok=True)
    (out / decisions.NAME).write_text("\n".join(["lab,student,what,value,reason", *lines]), encoding="utf-8-sig")
    found = decisions.apply(records, decisions.read(out, records, {"99_small"}))
    return {record["student"]: record for record in found}


def test_without_the_file_a_record_is_what_was_graded(lab, tmp_path):
    record = record_of(lab, {"hidden-double": "no"})
    (after,) = decisions.apply([record], decisions.read(tmp_path, [record]))
    assert (after["earned"], after["points"], after["decided"]) == (1, 5, False)
    assert record == record_of(lab, {"hidden-double": "no"}), "a copy was changed"


def test_points_extra_and_a_comment_hold_in_every_run(lab, tmp_path):
    gradebook.write_record(tmp_path, record_of(lab, {"check-double": "no"}, id="4711", held=["double"]))
    lines = [
        '99,eve,double,2,"asked, and she knew"',
        "99,4711,extra,3,a mistake found",
        "99_small,eve,comment,Well *done*.,",
    ]
    before = (tmp_path / "99_small" / "eve.json").read_bytes()
    for _ in range(2):
        eve = decided(tmp_path, gradebook.records(tmp_path), *lines)["eve"]
        assert (eve["earned"], eve["held"], eve["comments"]) == (5, [], ["Well *done*."])
        assert eve["reasons"] == {"double": "asked, and she knew"}
    assert (tmp_path / "99_small" / "eve.json").read_bytes() == before
    gradebook.write_tables(tmp_path, [eve])
    row = (tmp_path / "99_small.csv").read_text().splitlines()[1]
    assert row.startswith("eve,eve.ipynb,2,0,,3,5,5,yes,") and "asked, and she knew" in row


def test_a_written_answer_waits_for_a_person_and_an_empty_one_does_not(lab, tmp_path):
    records = [record_of(lab, student=name) for name in ("ada", "bob", "cyd")]
    for record in records[:2]:
        record["written"][0]["text"] = "Because."
    found = decided(tmp_path, records, "99,bob,why,2,one reason is missing")
    assert {name: (r["earned"], r["waits"]) for name, r in found.items()} == {
        "ada": (2, ["why"]), "bob": (4, []), "cyd": (2, []),
    }  # fmt: skip
    gradebook.write_tables(tmp_path, list(found.values()))
    cells = [row.split(",")[3] for row in (tmp_path / "99_small.csv").read_text().splitlines()]
    assert cells == ["why", "", "2", "0"]


LATE = ["99,*,deadline,2026-11-20 12:00,", '99,*,late,"10% a day, at most 50%",']


@pytest.mark.parametrize(
    ("handed_in", "lines", "points", "why"),
    [
        ("2026-11-20T12:00:00", [], 0, "in time, to the second"),
        ("2026-11-20T12:00:01", [], -2, "a day that has begun counts"),
        ("2026-11-21T12:00:00", [], -2, "one day"),
        ("2026-11-22T12:00:01", [], -6, "three days, 30 % of 20"),
        ("2026-12-20T00:00:00", [], -10, "the most"),
        ("", [], 0, "nobody knows when"),
        ("2026-11-22T12:00:00", ["99,eve,deadline,2026-11-27 12:00,ill"], 0, "an extension"),
        ("2026-11-22T12:00:00", ["99,eve,handed in,2026-11-20 11:00,by mail"], 0, "the file's date is not the one"),
        ("2026-11-22T12:00:00", ["99,eve,late,1,the machine was down"], -1, "as a person says"),
        ("2026-11-22T12:00:00", ["99,eve,late,0,the machine was down"], 0, "as a person says"),
        ("2026-11-22T12:00:00", ["99,bob,deadline,2026-11-27 12:00,ill"], -4, "another one's extension"),
    ],
)
def test_being_late_costs_what_the_deadline_says(lab, tmp_path, handed_in, lines, points, why):
    record = record_of(lab, handed_in=handed_in)
    record["checks"][0] |= {"points": 20, "earned": 19}
    eve = decided(tmp_path, [record, record_of(lab, student="bob")], *LATE, *lines)["eve"]
    assert (sum(each["points"] for each in eve["adjusted"]), eve["earned"]) == (points, 20 + points), why


@pytest.mark.parametrize(
    ("deadline", "handed_in", "points"),
    [
        ("2026-11-20", "2026-11-20T10:00:00", 0),
        ("2026-11-20", "2026-11-20T23:59:59", 0),
        ("2026-11-20", "2026-11-21T00:00:00", -2),
        ("2026-11-20 23:59+09:00", "2026-11-20T15:59:00", 0),
        ("2026-11-20 23:59+09:00", "2026-11-20T16:00:00", -2),
        ("2026-11-20 23:59Z", "2026-11-21T00:59:00", 0),
        ("2026-11-20 23:59Z", "2026-11-21T01:00:00", -2),
    ],
)
def test_a_date_alone_is_its_whole_day_and_a_zone_is_turned_into_local_time(
    lab, tmp_path, monkeypatch, deadline, handed_in, points
):
    monkeypatch.setenv("TZ", "Etc/GMT-1")  # an hour before UTC, all the year
    time.tzset()
    try:
        record = record_of(lab, handed_in=handed_in)
        record["checks"][0] |= {"points": 20, "earned": 19}
        lines = [f"99,*,deadline,{deadline},", LATE[1]]
        eve = decided(tmp_path, [record], *lines)["eve"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert sum(each["points"] for each in eve["adjusted"]) == points


def test_who_is_in_time_is_told_nothing_of_it(lab, tmp_path):
    eve = decided(tmp_path, [record_of(lab, handed_in="2026-11-20T12:00:00")], *LATE)["eve"]
    assert eve["adjusted"] == []


def test_a_penalty_is_rounded_in_favour_of_the_student(lab, tmp_path):
    eve = decided(tmp_path, [record_of(lab, handed_in="2026-11-20T13:00:00")], *LATE)["eve"]
    assert (eve["earned"], eve["adjusted"][0]["points"]) == (2, 0) and "1 day after" in eve["adjusted"][0]["reason"]


def test_nobody_gets_less_than_nothing(lab, tmp_path):
    assert decided(tmp_path, [record_of(lab)], "99,eve,extra,-7,copied")["eve"]["earned"] == 0


def test_an_extension_may_be_given_before_anything_is_handed_in_and_empty_values_decide_nothing(lab, tmp_path):
    found = decided(tmp_path, [record_of(lab)], "99,zoe,deadline,2026-11-27,ill", "99,eve,double,,", ",,,,")
    assert found["eve"]["earned"] == 2


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["98,eve,double,1,"], r"line 2: no lab '98'; write one of 99"),
        (["99,evee,double,1,"], r"line 2: no submission of 'evee' was graded for this lab; is it 'eve'\?"),
        (["99,,double,1,"], "line 2: no student"),
        (["99,eve,duoble,1,"], "line 2: 'duoble' is nothing that can be decided; write one of double, why, extra"),
        (["99,eve,double,3,"], "line 2: double has 2 points, and '3' is not from 0 to 2"),
        (["99,eve,double,-1,"], "double has 2 points, and '-1'"),
        (["99,eve,double,1.5,"], "double has 2 points, and '1.5'"),
        (["99,eve,extra,many,"], "'many' is no whole number of points"),
        (["99,eve,late,10% a day,"], "'10% a day' is no whole number of points"),
        (["99,*,late,10,"], "'10' is no rate; write it as 10% a day"),
        (["99,*,deadline,20.11.2026,"], "'20.11.2026' is no date; write it as 2026-11-20 23:59"),
        (["99,*,deadline,2026-11-20 23:59 CET,"], "'2026-11-20 23:59 CET' is no date; write it as 2026-11-20 23:59"),
        (["99,*,deadline,0001-01-01 00:00+14:00,"], "is no date"),
        (["99,*,double,2,"], r"'double' is decided for one student at a time; for \* there are deadline and late"),
        (
            ["99,*,late,10% a day, at most 50%,"],
            "line 2: more than 5 cells; put a text with a comma into double quotes",
        ),
        (["99,eve,double,1,", "", "99,eve,double,2,"], r"line 4: decides once more what .*line 2 decides"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_line(lab, tmp_path, lines, words):
    with pytest.raises(ValueError, match=words):
        decided(tmp_path, [record_of(lab)], *lines)


def test_a_student_called_as_everybody_is_written_stops_nobody(lab, tmp_path):
    records = [
        record_of(lab, student=name, id=number, handed_in="2026-11-20T13:00:00")
        for name, number in (("*", "7"), ("eve", "8"))
    ]
    for record in records:
        record["checks"][0] |= {"points": 20, "earned": 19}
    found = decided(tmp_path, records, *LATE)
    assert {name: record["earned"] for name, record in found.items()} == {"*": 18, "eve": 18}
    with pytest.raises(ValueError, match=r"line 2: the student is called '\*', which means everybody here; rename"):
        decided(tmp_path, records, "99,7,extra,1,")


def test_a_number_is_a_number_before_it_is_a_name(lab, tmp_path):
    anna, named = record_of(lab, student="anna", id="9001"), record_of(lab, student="9001", id="12")
    for records in ([anna, named], [named, anna]):
        with pytest.raises(
            ValueError,
            match=r"line 2: '9001' is the number of 'anna' and the name of another; write anna, or for the other write 12",
        ):
            decided(tmp_path, records, "99,9001,double,0,")
    found = decided(tmp_path, [anna, named], "99,anna,double,0,", "99,12,extra,1,")
    assert {name: record["earned"] for name, record in found.items()} == {"anna": 0, "9001": 3}
    assert [decisions.name_in_file(record) for record in (anna, named)] == ["anna", "12"], "in lines made for the file"
    with pytest.raises(ValueError, match=r"'9001' is the name of a student, and no number of this lab's; write 12"):
        decided(tmp_path, [record_of(lab, student="anna", id="77"), named], "99,9001,double,0,")
    unnumbered = record_of(lab, student="9001")
    with pytest.raises(
        ValueError, match=r"is the name of a student, and no number of this lab's; rename what they handed in"
    ):
        decided(tmp_path, [record_of(lab, student="anna", id="77"), unnumbered], "99,9001,deadline,2026-11-27,")
    alone = decided(tmp_path, [unnumbered, record_of(lab, student="9002")], "99,9001,double,0,")
    assert alone["9001"]["earned"] == 0, "where nobody has a number, names may be digits"


def test_the_lines_that_the_readme_shows_are_right(tmp_path):
    (shown,) = re.findall(r"```text\n(lab,student,what.*?)```", (ROOT / README).read_text(), re.DOTALL)
    (tmp_path / decisions.NAME).write_text(shown)
    lab = read_lab(ROOT / "solutions" / "04_micrograd_and_numpy.ipynb")
    found = decisions.read(tmp_path, [record_of(lab)])
    assert {each.what for each in found} == {"deadline", "late", "backward", "comment"}
    words = (decisions.EXTRA, decisions.COMMENT, decisions.DEADLINE, decisions.LATE, decisions.HANDED_IN)
    assert [word for word in words if f"| `{word}` |" not in (ROOT / README).read_text()] == []


def test_a_file_in_another_encoding_is_refused_by_its_name(lab, tmp_path):
    (tmp_path / decisions.NAME).write_bytes("lab,student,what,value,reason\n99,Jürgen,double,1,\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"decisions.csv is not UTF-8 .*: save it as CSV UTF-8"):
        decisions.read(tmp_path, [record_of(lab)], {"99_small"})


def test_a_file_of_other_columns_is_refused(lab, tmp_path):
    (tmp_path / decisions.NAME).write_text("lab,student,task,points,reason\n99,eve,double,1,\n")
    with pytest.raises(ValueError, match="the first line must be lab,student,what,value,reason, not lab,student,task"):
        decisions.read(tmp_path, [record_of(lab)], {"99_small"})


def test_a_record_of_an_earlier_version_of_the_course_is_read(lab, tmp_path):
    record = record_of(lab)
    for name in ("written", "handed_in", "held", "failed"):
        del record[name]
    for check in record["checks"]:
        for name in ("why", "place", "reference"):
            del check[name]
    (tmp_path / "99_small").mkdir()
    (tmp_path / "99_small" / "eve.json").write_text(json.dumps(record))
    assert decided(tmp_path, gradebook.records(tmp_path))["eve"]["earned"] == 2
