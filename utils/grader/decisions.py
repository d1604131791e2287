"""What a person decides: OUT/decisions.csv, applied to the records at every run; the records stay what was graded.

What can be decided, and how it is written, stands in README.md beside this module.
"""

import csv
import difflib
import io
import json
import math
import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path

from utils.course import ROOT

NAME = "decisions.csv"
COLUMNS = ("lab", "student", "what", "value", "reason")
EXTRA, COMMENT, DEADLINE, LATE, HANDED_IN = "extra", "comment", "deadline", "late", "handed in"
ALL = "*"
RATE = re.compile(r"(\d+) ?% a day(?:, at most (\d+) ?%)?")
DAY = timedelta(days=1)
LAST_SECOND = time(23, 59, 59)


@dataclass(frozen=True)
class Decision:
    """One line of the file, `where` it stands. value: points, a date, a text, or (percent a day, percent at most)."""

    where: str
    lab: str
    student: str
    what: str
    value: object
    reason: str


def read(out: Path, records: list[dict], labs: set[str] | None = None) -> list[Decision]:
    """The decisions in OUT/decisions.csv, [] without one. labs: the names of all labs that there are.

    Raises ValueError, naming the line and what would be right, for a line that cannot be meant so. A student of whom nothing
    was graded yet may have a deadline of their own.
    """
    path = out / NAME
    if not path.exists():
        return []
    known = {solution.stem for solution in (ROOT / "solutions").glob("*.ipynb")} if labs is None else labs
    known = known | {record["lab"] for record in records}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}): save it as CSV UTF-8") from error
    with io.StringIO(text, newline="") as file:
        rows = csv.DictReader(file)
        if not set(COLUMNS) <= {(name or "").strip() for name in rows.fieldnames or ()}:
            raise ValueError(
                f"{path}: the first line must be {','.join(COLUMNS)}, not {','.join(rows.fieldnames or ())}"
            )
        found = []
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            cells = {
                (name or "").strip(): (value or "").strip() for name, value in row.items() if isinstance(value, str)
            }
            if row.get(None):
                raise ValueError(f"{where}: more than {len(COLUMNS)} cells; put a text with a comma into double quotes")
            if cells.get("value"):
                found.append(_decision(where, cells, known, records))
    _refuse_twice(found)
    return found


def _decision(where: str, cells: dict[str, str], labs: set[str], records: list[dict]) -> Decision:
    lab, student, what, value, reason = (cells.get(name, "") for name in COLUMNS)
    matching = [name for name in labs if lab in (name, name.partition("_")[0])]
    if len(matching) != 1:
        numbers = ", ".join(sorted({name.partition("_")[0] for name in labs}))
        raise ValueError(f"{where}: no lab {lab!r}; write one of {numbers}")
    if not student:
        raise ValueError(f"{where}: no student; write a name as in the tables, or {ALL} for all")
    own = [record for record in records if record["lab"] == matching[0]]
    try:
        record = None if student == ALL else _record_meant(student, own)
        student = record["student"] if record else student
        return Decision(where, matching[0], student, what, _value(student, what, value, record, own), reason)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _record_meant(student: str, own: list[dict]) -> dict | None:
    """The record that a line means, by number or by name; None if there is none yet. ValueError if two could be meant."""
    numbered = next((record for record in own if record["id"] and record["id"] == student), None)
    named = next((record for record in own if record["student"] == student), None)
    if named and named is not numbered:
        move = f"write {named['id']}" if named["id"] else "rename what they handed in"
        if numbered:
            name = numbered["student"]
            raise ValueError(
                f"{student!r} is the number of {name!r} and the name of another; write {name}, or for the other {move}"
            )
        if student.isdecimal() and any(record["id"] for record in own):
            raise ValueError(f"{student!r} is the name of a student, and no number of this lab's; {move}")
    found = numbered or named
    if found and found["student"] == ALL:
        raise ValueError(f"the student is called {ALL!r}, which means everybody here; rename what they handed in")
    return found


def name_in_file(record: dict) -> str:
    """How a line of the file calls the student: by the number, where the name could be taken for a number."""
    return record["id"] if record["id"] and record["student"].isdecimal() else record["student"]


def _value(student: str, what: str, value: str, record: dict | None, own: list[dict]) -> object:
    if student == ALL and what not in (DEADLINE, LATE):
        raise ValueError(f"{what!r} is decided for one student at a time; for {ALL} there are {DEADLINE} and {LATE}")
    if what in (DEADLINE, HANDED_IN):
        return _moment(what, value)
    if what == LATE and student == ALL:
        if not (rate := RATE.fullmatch(value)):
            raise ValueError(f"{value!r} is no rate; write it as 10% a day, or 10% a day, at most 50%")
        return int(rate[1]), min(100, int(rate[2] or 100))
    if what == COMMENT:
        return value
    if what in (EXTRA, LATE):
        if not re.fullmatch(r"[+-]?\d+" if what == EXTRA else r"\d+", value):
            raise ValueError(f"{value!r} is no whole number of points")
        return int(value)
    return _points(student, what, value, record, own)


def _moment(what: str, value: str) -> datetime:
    """In local time, as files have it. A deadline without a time of day is the end of its day."""
    try:
        when = datetime.fromisoformat(value)
        if when.tzinfo:
            when = when.astimezone().replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ValueError(f"{value!r} is no date; write it as 2026-11-20 23:59") from None
    return datetime.combine(when, LAST_SECOND) if what == DEADLINE and _is_day(value) else when


def _is_day(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _points(student: str, what: str, value: str, record: dict | None, own: list[dict]) -> int:
    """The points of a task or a written answer."""
    if record is None:
        close = difflib.get_close_matches(student, [each["student"] for each in own], 1)
        meant = f"; is it {close[0]!r}?" if close else ""
        raise ValueError(f"no submission of {student!r} was graded for this lab{meant}")
    possible = points_of_parts(record)
    if what not in possible:
        words = ", ".join([*possible, EXTRA, COMMENT, DEADLINE, LATE, HANDED_IN])
        raise ValueError(f"{what!r} is nothing that can be decided; write one of {words}")
    if not value.isdecimal() or int(value) > possible[what]:
        raise ValueError(f"{what} has {possible[what]} points, and {value!r} is not from 0 to {possible[what]}")
    return int(value)


def points_of_parts(record: dict) -> dict[str, int]:
    """task or written answer -> the points that it has, in their order."""
    found: dict[str, int] = {}
    for check in record["checks"]:
        found[check["task"]] = found.get(check["task"], 0) + check["points"]
    return found | {answer["name"]: answer["points"] for answer in record["written"]}


def _refuse_twice(decisions: list[Decision]) -> None:
    first: dict[tuple, str] = {}
    for each in decisions:
        key = (each.lab, each.student, each.what)
        if each.what not in (EXTRA, COMMENT) and first.setdefault(key, each.where) != each.where:
            raise ValueError(f"{each.where}: decides once more what {first[key]} decides; keep one of the two")


def apply(records: list[dict], decisions: list[Decision]) -> list[dict]:
    """Copies of the records with what was decided, and with what only that tells:

    decided: whether a person has given points. adjusted: what else changed the points, as {"what", "points", "reason"}.
    comments: texts for the student. reasons: task -> why a person gave it its points. waits: written answers to be read.
    """
    return [_apply_to_one(json.loads(json.dumps(record)), decisions) for record in records]


def _apply_to_one(record: dict, decisions: list[Decision]) -> dict:
    of_lab = [each for each in decisions if each.lab == record["lab"]]
    own = [each for each in of_lab if each.student == record["student"] != ALL]
    record |= {"decided": any(each.what == EXTRA for each in own), "adjusted": [], "comments": [], "reasons": {}}
    for each in own:
        if each.what == COMMENT:
            record["comments"].append(each.value)
        elif each.what in points_of_parts(record):
            _give(record, each)
    record["waits"] = [a["name"] for a in record["written"] if a["text"] and a["earned"] is None]
    earned = sum(part["earned"] or 0 for part in [*record["checks"], *record["written"]])
    record["adjusted"] += _lateness(record, earned, of_lab, own)
    record["adjusted"] += [
        {"what": EXTRA, "points": each.value, "reason": each.reason} for each in own if each.what == EXTRA
    ]
    record["earned"] = max(0, earned + sum(each["points"] for each in record["adjusted"]))
    return record


def _give(record: dict, decision: Decision) -> None:
    left, task = decision.value, decision.what
    for part in [check for check in record["checks"] if check["task"] == task]:
        part["earned"] = min(left, part["points"])
        left -= part["earned"]
    for answer in record["written"]:
        if answer["name"] == task:
            answer["earned"] = decision.value
    record["held"] = [name for name in record["held"] if name != task]
    record["decided"] = True
    record["reasons"][task] = decision.reason


def _lateness(record: dict, earned: int, of_lab: list[Decision], own: list[Decision]) -> list[dict]:
    """What being late costs, as in `adjusted`: nothing where there is no deadline, or the hand-in time is not known."""
    by_hand = next((each for each in own if each.what == LATE), None)
    if by_hand:
        return [{"what": LATE, "points": -by_hand.value, "reason": by_hand.reason}] * bool(by_hand.value)
    general = {each.what: each.value for each in of_lab if each.student == ALL}
    deadline = next((each.value for each in own if each.what == DEADLINE), general.get(DEADLINE))
    when = next((each.value for each in own if each.what == HANDED_IN), None)
    if when is None and record["handed_in"]:
        when = datetime.fromisoformat(record["handed_in"])
    if deadline is None or when is None or when <= deadline:
        return []
    days = math.ceil((when - deadline) / DAY)
    rate, most = general.get(LATE, (0, 0))
    percent = min(most, rate * days)
    reason = f"{days} day{'s' * (days > 1)} after {deadline:%Y-%m-%d %H:%M}, {percent} %"
    return [{"what": LATE, "points": -(earned * percent // 100), "reason": reason}]
