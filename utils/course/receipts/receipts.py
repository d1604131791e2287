"""Receipts: which claims were verified on which GPU, kept in tests/receipts/, one file for each GPU.

A receipt holds lectures and solutions as they ran there. Each names the run that it is from: GPU, driver, versions, commit,
date, form. Each verdict keeps what its proof compared, and a hash of all that the proof computes with: its own code, the
lecture's statements that it leans on, and what these reach of utils (see `provenance`). Where one of them computes something
else since, the verdict is stale: shown, and worth nothing.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten

from utils.atomic_write import write_text
from utils.course import ROOT
from utils.course.notebooks.lab import read_lab
from utils.course.notebooks.ledger import FAILED, VERIFIED, WHOLE, LectureResult, error_of
from utils.course.notebooks.notebook import Lecture
from utils.course.receipts.provenance import book_hash, hashes_of

STORE = ROOT / "tests" / "receipts"
STALE = "stale"
ON_HOST = "verified on the host"  # the proof held there, and nothing of it ran on the GPU
RUN_KEYS = ("device", "driver", "cuda", "torch", "numpy", "python", "commit", "dirty", "code", "date", "form")


@dataclass(frozen=True)
class Receipt:
    """One file, parsed. `lectures` and `solutions` are by the names of their notebooks, as the file has them."""

    path: Path
    gpu: str
    runs: tuple[dict, ...]
    lectures: dict[str, dict]
    solutions: dict[str, dict]

    def run_of(self, entry: dict) -> dict:
        """The run that a lecture or a solution of this receipt is from."""
        return self.runs[entry["run"]]


@dataclass(frozen=True)
class Seen:
    """The status of one claim on one GPU: VERIFIED if its proof ran there, ON_HOST if it held and did not, UNVERIFIED,
    FAILED, or STALE if the proof has changed since.

    `run` says where and when: the keys gpu, torch, date, form, commit and more. `reason` says why it is not verified,
    `compared` what the proof compared, in its own words; "" where the receipt does not hold it.
    """

    gpu: str
    status: str
    reason: str
    run: dict
    path: Path
    compared: str = ""

    @property
    def words(self) -> str:
        """Such as "verified on NVIDIA H200, torch 2.11.0, 2026-11-22: first 3 < second 4"."""
        where = f"{self.gpu}, torch {self.run['torch']}, {self.run['date'][:10]}"
        if self.status == STALE:
            return f"{self.reason} ({where})"
        more = shorten(self.reason, 100, placeholder=" …") or self.compared
        return f"{self.status} {'of' if self.status == ON_HOST else 'on'} {where}" + (f": {more}" if more else "")


def receipts(folder: Path = STORE) -> list[Receipt]:
    """The receipts in `folder`, in the order of their names; none if there is no such folder.

    Raises ValueError for a file that is not a receipt, and for one that a machine without a GPU wrote.
    """
    found = [read_receipt(path) for path in sorted(folder.glob("*.json"))]
    for receipt in found:
        if any(run["device"] != "cuda" for run in receipt.runs):
            raise ValueError(f"{receipt.path}: written without a GPU, so not a receipt of one: remove it")
    return found


def read_receipt(path: Path) -> Receipt:
    """The receipt in the file `path`. Raises ValueError, naming it, if it is not a receipt."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        found = Receipt(path, raw["gpu"], tuple(raw["runs"]), raw["lectures"], raw["solutions"])
        for entry in (*found.lectures.values(), *found.solutions.values()):
            for key in RUN_KEYS:
                found.run_of(entry)[key]
    except (
        OSError,
        UnicodeDecodeError,
        json.JSONDecodeError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
    ) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: not a receipt ({problem}): restore it, or make it again on its GPU") from error
    return found


def status(lecture: Lecture, kept: list[Receipt]) -> dict[str, tuple[Seen, ...]]:
    """The status of each claim of `lecture`, by number, on each GPU with a receipt of it; () if there is none.

    A receipt knows a claim by its name, whatever number it had there, and in whatever notebook it stood.
    """
    found: dict[str, tuple[Seen, ...]] = {claim.number: () for claim in lecture.claims}
    numbers = {claim.name: claim.number for claim in lecture.claims}
    rows = [
        (receipt, entry, row)
        for receipt in kept
        for entry in receipt.lectures.values()
        for row in entry["claims"]
        if row["id"] in numbers
    ]
    try:
        hashes = hashes_of(lecture) if rows else {}
    except ValueError:  # a cell that is not plain Python: it was, when the receipt was made
        hashes = {}
    for receipt, entry, row in rows:
        number = numbers[row["id"]]
        fresh = number in hashes and row["computes"] == hashes[number]["computes"]
        found[number] += (_seen(receipt, receipt.run_of(entry), row, fresh=fresh),)
    return found


def _seen(receipt: Receipt, run: dict, row: dict, *, fresh: bool) -> Seen:
    if fresh:
        there = ON_HOST if row["status"] == VERIFIED and not row["on_device"] else row["status"]
        return Seen(receipt.gpu, there, row["reason"], run, receipt.path, row.get("compared", ""))
    return Seen(receipt.gpu, STALE, f"{row['status']} once, its proof has changed since", run, receipt.path)


# Writing


def file_name(gpu: str) -> str:
    """The name of a GPU's receipt: nvidia-h200.json for "NVIDIA H200"."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") + ".json"


def empty(path: Path, gpu: str) -> Receipt:
    return Receipt(path, gpu, (), {}, {})


def lecture_entry(lecture: Lecture, result: LectureResult) -> dict:
    """The receipt entry of a lecture that ran."""
    hashes = hashes_of(lecture)
    return _entry(lecture, result) | {
        "claims": [
            {
                "id": verdict.claim.name,
                "number": verdict.claim.number,
                **hashes[verdict.claim.number],
                "status": verdict.status,
                "reason": _without_paths(verdict.reason),
                "compared": _without_paths(verdict.compared),
                "on_device": verdict.on_device,
                "seconds": verdict.seconds,
            }
            for verdict in result.verdicts
        ]
    }


def _without_paths(text: str) -> str:
    """The text without the folders of this machine, which tell a reader elsewhere nothing."""
    return re.sub(r"(?<![\w.:/])(?:/[\w.+~-]+)+/", "…/", text)


def solution_entry(solution: Lecture, result: LectureResult, executed: Lecture | None) -> dict:
    """The receipt entry of a lab's solution that ran, with the points of the checks that passed."""
    tasks = read_lab(solution.path).tasks
    ran = {cell.id for cell in executed.code if not error_of(cell)} if executed else set()
    return _entry(solution, result) | {
        "ran": not result.broken,
        "points": sum(_points(check) for task in tasks for check in task.checks if check.id in ran),
        "of": sum(task.points for task in tasks),
    }


def _points(check) -> int:
    return check.raw["metadata"]["points"]


def _entry(book: Lecture, result: LectureResult) -> dict:
    return {
        "computes": book_hash(book),
        "seconds": round(result.seconds, 1),
        "broken": [{"cell": cell, "reason": _without_paths(reason)} for cell, reason in result.broken],
    }


def with_entry(receipt: Receipt, run: dict, book: Lecture, entry: dict) -> Receipt:
    """The receipt with the result of one notebook in `run`; a lecture's entry has claims, a solution's has points."""
    one = Receipt(receipt.path, receipt.gpu, (run,), {}, {})
    part = {book.name: entry | {"run": 0}}
    return merge(receipt, replace(one, lectures=part) if "claims" in entry else replace(one, solutions=part))


def merge(old: Receipt, new: Receipt) -> Receipt:
    """Merge two receipts of one GPU. The later result counts, but a short form never replaces a long form of the same
    code and versions.

    Raises ValueError for receipts of two GPUs.
    """
    if old.gpu != new.gpu:
        raise ValueError(f"{new.path} is a receipt of {new.gpu}, {old.path} one of {old.gpu}: one file for each GPU")
    runs: list[dict] = []
    parts = {}
    for kind in ("lectures", "solutions"):
        chosen = {name: (new, entry) for name, entry in getattr(new, kind).items()}
        for name, entry in getattr(old, kind).items():
            if name not in chosen or _counts_more(
                old.run_of(entry), entry, new.run_of(chosen[name][1]), chosen[name][1]
            ):
                chosen[name] = (old, entry)
        parts[kind] = {}
        for name, (receipt, entry) in sorted(chosen.items()):
            run = receipt.run_of(entry)
            runs += [run] * (run not in runs)
            parts[kind][name] = entry | {"run": runs.index(run)}
    return Receipt(old.path, old.gpu, tuple(runs), **parts)


def _counts_more(run: dict, entry: dict, other_run: dict, other: dict) -> bool:
    """Whether an earlier receipt's entry of a notebook stays although a later receipt has one too."""
    same = entry["computes"] == other["computes"]
    if same and broke_off(entry) != broke_off(other):
        return broke_off(other)
    if same and run["form"] != other_run["form"] and all(run[key] == other_run[key] for key in ("torch", "cuda")):
        return run["form"] == "full"
    return run["date"] > other_run["date"]


def broke_off(entry: dict) -> bool:
    """Whether the notebook's process ended before the notebook did, so that its failures say nothing."""
    return any(broken["cell"] == WHOLE for broken in entry["broken"])


def is_done(receipt: Receipt, book: Lecture, run: dict) -> bool:
    """Whether the receipt has this notebook with its current code, from a run like `run`: same versions, no shorter form.

    Its verdicts do not matter; a notebook that ended early is not done.
    """
    entry = receipt.lectures.get(book.name) or receipt.solutions.get(book.name)
    if entry is None or broke_off(entry):
        return False
    before = receipt.run_of(entry)
    return (
        entry["computes"] == book_hash(book)
        and all(before[key] == run[key] for key in ("torch", "cuda"))
        and (before["form"] == run["form"] or before["form"] == "full" or "claims" not in entry)
    )


def is_red(receipt: Receipt, book: Lecture) -> bool:
    """Whether something in this notebook failed when it ran for the receipt."""
    entry = receipt.lectures.get(book.name) or receipt.solutions.get(book.name)
    return bool(entry) and (bool(entry["broken"]) or any(row["status"] == FAILED for row in entry.get("claims", ())))


def write_receipt(receipt: Receipt) -> None:
    """Write the receipt to its path, atomically."""
    content = {"gpu": receipt.gpu, "runs": receipt.runs, "lectures": receipt.lectures, "solutions": receipt.solutions}
    receipt.path.parent.mkdir(parents=True, exist_ok=True)
    write_text(receipt.path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
