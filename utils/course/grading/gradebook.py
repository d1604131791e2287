"""The gradebook: one JSON file for each student and lab, written atomically; tables come from these alone."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path

from utils.data.atomic_write import write_bytes

CANVAS_HEAD = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
FORMULA = "=+-@＝＋－＠"  # full-width characters too
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
    return record if isinstance(record, dict) and {"student", "lab", "earned", "checks"} <= record.keys() else None


def records(out: Path) -> list[dict]:
    """Every record of the gradebook, by student and lab."""
    found = [record for path in out.glob("*/*.json") if (record := read_record(path))]
    return sorted(found, key=lambda record: (record["student"], record["lab"]))


def write_tables(out: Path, found: list[dict]) -> None:
    """Write gradebook.csv, a table by task for each lab, and files for import into Canvas and Moodle."""
    labs = sorted({record["lab"] for record in found})
    full = {record["lab"]: record["points"] for record in found}
    by_student: dict[str, dict[str, dict]] = {}
    for record in found:
        by_student.setdefault(record["student"], {})[record["lab"]] = record
    earned = {name: [rows[lab]["earned"] if lab in rows else "" for lab in labs] for name, rows in by_student.items()}
    rows = [[name, *each, sum(filter(None, each))] for name, each in earned.items()]
    _write(out / "gradebook.csv", ["student", *labs, "total"], rows)
    ids = {name: next((r["id"] for r in rows.values() if r["id"]), "") for name, rows in by_student.items()}
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
            [_row(record, tasks) for record in own],
        )
        moodle = [
            [f"Participant {r['id']}" if r["id"] else "", r["student"], r["earned"], r["points"], "; ".join(r["notes"])]
            for r in own
        ]
        _write(out / f"{lab}.moodle.csv", MOODLE_HEAD, moodle)


def write_alike(path: Path, pairs: Iterable) -> None:
    """A table of similar.Pair."""
    rows = [(pair.first, pair.second, f"{pair.share:.2f}", " ".join(pair.tasks)) for pair in pairs]
    _write(path, ["student", "student", "alike", "tasks"], rows)


def _row(record: dict, tasks: list[str]) -> list:
    by_task = dict.fromkeys(tasks, 0)
    for check in record["checks"]:
        by_task[check["task"]] += check["earned"]
    isolated = "yes" if record["isolated"] else "not isolated"
    notes = "; ".join(filter(None, [record["problem"], *record["notes"]]))
    return [record["student"], record["file"], *by_task.values(), record["earned"], record["points"], isolated, notes]


def _write(path: Path, head: Iterable, rows: Iterable[Iterable]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    write_whole(path, text.getvalue())


def harmless(cell: object) -> object:
    """The cell, changed so that no spreadsheet reads it as a formula, even after invisible leading characters."""
    begins = isinstance(cell, str) and next((sign for sign in cell if sign.isprintable() and not sign.isspace()), "")
    return f"'{cell}" if begins and begins in FORMULA else cell
