"""The gradebook: one JSON file for each student and lab, written atomically; tables come from these, and decisions.csv.

What writes or shows more than the bare records takes them from decisions.apply.
"""

import csv
import io
import json
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from utils.atomic_write import write_bytes
from utils.grader import decisions
from utils.grader.roster import ListedStudent

CANVAS_HEAD = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
FORMULA = "=+-@＝＋－＠"  # full-width characters too
MISSING = "nothing was handed in"
ADJUSTED = (decisions.LATE, decisions.EXTRA)  # columns of points that belong to no task
# Moodle refuses a table without the first, third and fifth; a grade given in Moodle after the date of the fifth stays.
MOODLE_HEAD = ("Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)", "Feedback comments")


def write_whole(path: Path, text: str) -> None:
    """Replace the file by this text atomically.

    Half a character, which JSON can hold and UTF-8 cannot, is written as JSON would: \\ud800.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def record_path(out: Path, lab: str, key: str) -> Path:
    return out / lab / f"{key}.json"


def write_record(out: Path, record: dict) -> None:
    path = record_path(out, record["lab"], record["key"])
    write_whole(path, json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def read_record(path: Path) -> dict | None:
    """The record in the file; None if there is none, or if the file is not a record."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or not record.keys() >= {"student", "lab", "earned", "checks"}:
        return None
    # What earlier versions of the course did not write:
    record = {"failed": "", "held": [], "written": [], "handed_in": "", "statements": {}} | record
    record["checks"] = [{"why": "", "place": None, "reference": []} | check for check in record["checks"]]
    return record


def records(out: Path) -> list[dict]:
    """Every record of the gradebook, by student and lab."""
    found = [record for path in out.glob("*/*.json") if (record := read_record(path))]
    return sorted(found, key=lambda record: (record["student"], record["lab"]))


def is_blank(record: dict) -> bool:
    """Whether nothing is known of what it would earn: the grader failed, or could not read it, and no person has decided."""
    return bool(record["failed"]) or (bool(record["problem"]) and not record["decided"])


def points_shown(record: dict) -> int | str:
    """What a table says was earned; nothing where it is blank, which is no zero."""
    return "" if is_blank(record) else record["earned"]


def write_tables(out: Path, found: list[dict], missing: dict[str, list[ListedStudent]] | None = None) -> None:
    """Write gradebook.csv, a table by task for each lab, and files for import into Canvas and Moodle.

    missing: lab -> students of the class list of whom there is nothing; they get a line without points.
    """
    missing = missing or {}
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    labs = sorted({record["lab"] for record in found})
    full = {record["lab"]: record["points"] for record in found}
    by_student: dict[str, dict[str, dict]] = {}
    for record in found:
        by_student.setdefault(record["student"], {})[record["lab"]] = record
    # The class list may name otherwise whom another lab's files have named already.
    known = {record["id"]: record["student"] for record in found if record["id"]}
    for each in (each for listed in missing.values() for each in listed):
        by_student.setdefault(known.get(each.id, each.student), {})
    by_student = dict(sorted(by_student.items()))
    earned = {
        name: [points_shown(rows[lab]) if lab in rows else "" for lab in labs] for name, rows in by_student.items()
    }
    rows = [[name, *each, sum(filter(None, each))] for name, each in earned.items()]
    _write(out / "gradebook.csv", ["student", *labs, "total"], rows)
    listed_ids = {each.student: each.id for listed in missing.values() for each in listed}
    ids = {
        name: next((r["id"] for r in rows.values() if r["id"]), listed_ids.get(name, ""))
        for name, rows in by_student.items()
    }
    points = ["Points Possible", "", "", "", "", *(full[lab] for lab in labs)]
    _write(
        out / "canvas.csv",
        [*CANVAS_HEAD, *labs],
        [points, *([name, ids[name], "", "", "", *each] for name, each in earned.items())],
    )
    for lab in labs:
        own = [record for record in found if record["lab"] == lab]
        tasks = list(dict.fromkeys(name for record in own for name in decisions.points_of_parts(record)))
        head = ["student", "file", *tasks, *ADJUSTED, "earned", "points", "isolated", "notes"]
        empty = [""] * (len(tasks) + len(ADJUSTED))
        absent = [[each.student, "", *empty, "", full[lab], "", MISSING] for each in missing.get(lab, ())]
        _write(out / f"{lab}.csv", head, [_row(record, tasks) for record in own] + absent)
        moodle = [
            [
                f"Participant {r['id']}" if r["id"] else "",
                r["student"],
                points_shown(r),
                r["points"],
                now,
                note_to_student(r),
            ]
            for r in own
        ]
        _write(out / f"{lab}.moodle.csv", MOODLE_HEAD, moodle)


def late_since(out: Path, lab: str, found: list[dict]) -> list[str]:
    """Whom being late costs points now, and did not in the last run, as its table says, by name; [] without that table."""
    try:
        rows = list(csv.DictReader(io.StringIO((out / f"{lab}.csv").read_text(encoding="utf-8"), newline="")))
    except (OSError, ValueError, csv.Error):
        return []
    in_time = {row.get("student") for row in rows if row.get("file") and row.get(decisions.LATE) == ""}
    late = [
        r for r in found if r["lab"] == lab and any(e["what"] == decisions.LATE and e["points"] for e in r["adjusted"])
    ]
    return [record["student"] for record in late if without_formula(record["student"]) in in_time]


def write_alike(path: Path, pairs: Iterable) -> None:
    """A table of similar.Pair."""
    rows = [(pair.first, pair.second, f"{pair.share:.2f}", " ".join(pair.tasks)) for pair in pairs]
    _write(path, ["student", "student", "alike", "tasks"], rows)


def note_to_instructor(record: dict) -> str:
    """All that an instructor has to know of a record, in one cell."""
    held = [
        f"held: {task} passed checks, and no code of theirs was found for it; look at it, and decide in {decisions.NAME}"
        for task in record["held"]
    ]
    waits = [f"{name} is to be read by a person" for name in record["waits"]]
    changed = [
        f"{each['what']} {each['points']:+d}: {each['reason'] or 'no reason given'}" for each in record["adjusted"]
    ]
    possible = decisions.points_of_parts(record)
    given = [
        f"{name}: {earned_by_part(record)[name]} of {possible[name]} by decision, {why or 'no reason given'}"
        for name, why in record["reasons"].items()
    ]
    failed = f"NOT GRADED: {record['failed']}; run the same command again" if record["failed"] else ""
    parts = [
        failed,
        record["problem"],
        *held,
        *waits,
        *given,
        *changed,
        *follow_through_notes(record, "theirs"),
        *record["notes"],
    ]
    return "; ".join(filter(None, parts))


def note_to_student(record: dict) -> str:
    """What a student reads beside the points in the LMS: what a person wrote, and points by task."""
    if is_blank(record):
        return record["problem"] or "not graded yet"
    possible, earned = decisions.points_of_parts(record), earned_by_part(record)
    parts = [
        f"{name} {'to be read' if earned[name] is None else earned[name]} of {possible[name]}" for name in possible
    ]
    parts += [f"{each['what']} {each['points']:+d}" for each in record["adjusted"]]
    return "; ".join([*record["comments"], *follow_through_notes(record, "yours"), ", ".join(parts)])


def follow_through_notes(record: dict, whose: str) -> list[str]:
    """A sentence for each task that earned points with the lab's own code of an earlier one."""
    found = {check["task"]: check["reference"] for check in record["checks"] if check["earned"] and check["reference"]}
    return [f"{task}: graded with our {' and '.join(ours)}, since {whose} failed" for task, ours in found.items()]


def earned_by_part(record: dict) -> dict[str, int | None]:
    """task or written answer -> the points earned; None for an answer that waits to be read."""
    found: dict[str, int | None] = {}
    for check in record["checks"]:
        found[check["task"]] = found.get(check["task"], 0) + check["earned"]
    return found | {a["name"]: a["earned"] if a["text"] or a["earned"] else 0 for a in record["written"]}


def _row(record: dict, tasks: list[str]) -> list:
    earned = {} if is_blank(record) else earned_by_part(record)
    points = ["" if earned.get(name) is None else earned[name] for name in tasks]
    for what in ADJUSTED:
        points.append(sum(each["points"] for each in record["adjusted"] if each["what"] == what) or "")
    isolated = "yes" if record["isolated"] else "not isolated"
    return [
        record["student"],
        record["file"],
        *points,
        points_shown(record),
        record["points"],
        isolated,
        note_to_instructor(record),
    ]


def _write(path: Path, head: Iterable, rows: Iterable[Iterable]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([without_formula(cell) for cell in row] for row in rows)
    write_whole(path, text.getvalue())


def without_formula(cell: object) -> object:
    """The cell, changed so that no spreadsheet reads any of it as a formula: neither after invisible characters, nor where
    the spreadsheet separates cells by `;` or tabs.
    """
    if not isinstance(cell, str):
        return cell
    first, *others = re.split(r"(?<=[;\t])", cell)
    text = first + "".join(f"'{part}" if _is_formula(part) else part for part in others)
    return f"'{text}" if _is_formula(cell) else text


def _is_formula(text: str) -> bool:
    begins = next((sign for sign in text if sign.isprintable() and not sign.isspace()), "")
    return bool(begins) and begins in FORMULA
