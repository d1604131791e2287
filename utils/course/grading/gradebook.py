"""The gradebook: one JSON file for each student and lab, written atomically; tables come from these, and decisions.csv."""

import csv
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path

from utils.atomic_write import write_bytes
from utils.course.grading.roster import Listed

CANVAS_HEAD = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
FORMULA = "=+-@＝＋－＠"  # full-width characters too
DECISIONS = "decisions.csv"
MISSING = "nothing was handed in"
MOODLE_HEAD = ("Identifier", "Full name", "Grade", "Maximum Grade", "Feedback comments")


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
    return {"failed": "", "held": []} | record  # which earlier versions of the course did not write


def records(out: Path) -> list[dict]:
    """Every record of the gradebook, by student and lab."""
    found = [record for path in out.glob("*/*.json") if (record := read_record(path))]
    return sorted(found, key=lambda record: (record["student"], record["lab"]))


def decided(out: Path, found: list[dict]) -> list[dict]:
    """The records with what a person has decided in OUT/decisions.csv: lines of lab, student, task, points, reason.

    Such a line holds for every later run. Raises ValueError for a line that fits no record.
    """
    path = out / DECISIONS
    if not path.exists():
        return found
    by_name = {(record["lab"], record["student"]): json.loads(json.dumps(record)) for record in found}
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                lab, student, task, points = (row[name].strip() for name in ("lab", "student", "task", "points"))
                record = next(r for (name, who), r in by_name.items() if name.startswith(lab) and who == student)
                checks = [check for check in record["checks"] if check["task"] == task]
                possible = sum(check["points"] for check in checks)
                if not 0 <= int(points) <= possible or not checks:
                    raise ValueError(f"task {task!r} has {possible} points")
            except (KeyError, AttributeError, StopIteration, ValueError) as error:
                raise ValueError(
                    f"{path}, line {number}: needs a lab, student and task of this gradebook, and points: {row} ({error})"
                ) from error
            left = int(points)
            for check in checks:
                check["earned"] = min(left, check["points"])
                left -= check["earned"]
            record["earned"] = sum(check["earned"] for check in record["checks"])
            record["decided"] = True
            record["held"] = [name for name in record["held"] if name != task]
            record["notes"].append(
                f"{task}: {points} of {possible} by decision, {row.get('reason') or 'no reason given'}"
            )
    return list(by_name.values())


def points_shown(record: dict) -> int | str:
    """What a table says was earned; nothing where the grader failed, which is no zero."""
    return "" if record["failed"] else record["earned"]


def write_tables(out: Path, found: list[dict], missing: dict[str, list[Listed]] | None = None) -> None:
    """Write gradebook.csv, a table by task for each lab, and files for import into Canvas and Moodle.

    missing: lab -> students of the class list of whom there is nothing; they get a line without points.
    """
    missing = missing or {}
    labs = sorted({record["lab"] for record in found})
    full = {record["lab"]: record["points"] for record in found}
    by_student: dict[str, dict[str, dict]] = {}
    for record in found:
        by_student.setdefault(record["student"], {})[record["lab"]] = record
    for each in (each for listed in missing.values() for each in listed):
        by_student.setdefault(each.student, {})
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
        tasks = list(dict.fromkeys(check["task"] for record in own for check in record["checks"]))
        _write(
            out / f"{lab}.csv",
            ["student", "file", *tasks, "earned", "points", "isolated", "notes"],
            [_row(record, tasks) for record in own]
            + [[each.student, "", *[""] * len(tasks), "", full[lab], "", MISSING] for each in missing.get(lab, ())],
        )
        moodle = [
            [f"Participant {r['id']}" if r["id"] else "", r["student"], points_shown(r), r["points"], said(r)]
            for r in own
        ]
        _write(out / f"{lab}.moodle.csv", MOODLE_HEAD, moodle)


def write_alike(path: Path, pairs: Iterable) -> None:
    """A table of similar.Pair."""
    rows = [(pair.first, pair.second, f"{pair.share:.2f}", " ".join(pair.tasks)) for pair in pairs]
    _write(path, ["student", "student", "alike", "tasks"], rows)


def said(record: dict) -> str:
    """All that an instructor has to know of a record, in one cell."""
    held = [
        f"held: {task} passed checks with the starter's code; look at it, and decide in {DECISIONS}"
        for task in record["held"]
    ]
    failed = f"NOT GRADED: {record['failed']}; run the same command again" if record["failed"] else ""
    return "; ".join(filter(None, [failed, record["problem"], *held, *record["notes"]]))


def _row(record: dict, tasks: list[str]) -> list:
    by_task = dict.fromkeys(tasks, 0)
    for check in record["checks"]:
        by_task[check["task"]] += check["earned"]
    points = [""] * len(tasks) if record["failed"] else by_task.values()
    isolated = "yes" if record["isolated"] else "not isolated"
    return [record["student"], record["file"], *points, points_shown(record), record["points"], isolated, said(record)]


def _write(path: Path, head: Iterable, rows: Iterable[Iterable]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    write_whole(path, text.getvalue())


def harmless(cell: object) -> object:
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
