"""Build the site from what a run executed: build/ledger.json and build/notebooks/ become build/site/."""

import json
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from utils.course import ROOT
from utils.course.mutation.mutants import is_calculator
from utils.course.notebooks.ledger import FAILED, UNVERIFIED, VERIFIED
from utils.course.notebooks.notebook import SHEET, Lecture, label_of, read
from utils.course.receipts.receipts import ON_HOST, STALE, STORE, receipts, status
from utils.course.site import calculators, frame, prose, search
from utils.course.site.lecture import CLASSES, MARKS, Body, anchor_of, render, verdict_line
from utils.figures.numbers import duration

LABS = ROOT / "labs"
SEEN = CLASSES | {STALE: "stale", ON_HOST: "host"}
BELIEFS = ("Folklore", "Misconception")
QUOTED = r'"(?:[^"`]|`[^`]*`)+"'
# A false belief: an optional question in italics, one or two quotations, and optionally the rest of their sentence.
TOLD = re.compile(rf'((?:\*[^"*]+\*\s*)?{QUOTED}(?: And: {QUOTED})?(?=[ (,:]|$)(?:[,:].*?\.(?=\s+[A-Z]))?)\s*(.*)')


@dataclass(frozen=True)
class Run:
    """The results of one run: its header and its lectures in order."""

    header: dict
    shown: tuple["Shown", ...]

    @property
    def where(self) -> dict[str, str]:
        """The address of each claim by its number."""
        return {
            number: f"{shown.page}#{anchor_of(number)}"
            for shown in reversed(self.shown)  # with two lectures of one number, the first counts
            for number in shown.rows
            if shown.executed
        }

    @property
    def has_sheet(self) -> bool:
        """Whether the cheat sheet is among them, for which every page has a link at its head."""
        return any(shown.line["lecture"] == SHEET and shown.executed for shown in self.shown)


@dataclass(frozen=True)
class Shown:
    """One lecture of the ledger: its line there, its claims there by number, its executed notebook if there is one.

    seen: what receipts say of each claim, by number.
    """

    line: dict
    rows: dict[str, dict]
    executed: Lecture | None
    seen: dict[str, tuple]

    @property
    def page(self) -> str:
        return f"{self.line['lecture']}.html"

    @property
    def deeper(self) -> bool:
        """Whether it is for a second reading."""
        return self.line["deeper"]

    @property
    def number(self) -> str:
        return label_of(self.line["lecture"])

    @property
    def title(self) -> str:
        return re.sub(r"^(\d\d[a-z]?|Capstone)\s*·\s*", "", self.line["title"])

    @property
    def question(self) -> str:
        """The paragraph that states the lecture's question, as HTML."""
        text = self.executed.cells[0].source if self.executed else ""
        paragraphs = [each for each in text.split("\n\n") if not each.startswith(("#", "|"))]
        asked = [each for each in paragraphs if each.startswith(("**The question:**", "It answers:"))]
        words = (asked or paragraphs or [""])[0]
        words = re.sub(r"^(\*\*The question:\*\*|It answers:)\s*", "", words)
        return prose.sentence(words[:1].upper() + words[1:])


def build(folder: Path, store: Path = STORE) -> Path:
    """Write folder/site from folder/ledger.json and folder/notebooks, atomically; returns the address of its index.

    `store` holds the receipts of runs on GPUs. Raises ValueError where there is no ledger to show, for a receipt that
    cannot be read and for a page that is too large.
    """
    run = read_run(folder, store)
    unfinished, site = folder / f"site.{os.getpid()}.tmp", folder / "site"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _write(run, unfinished)
        shutil.rmtree(site, ignore_errors=True)
        unfinished.replace(site)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return site / "index.html"


def stale(folder: Path, notebooks: list[Path]) -> str:
    """Why the site in `folder` is out of date for these lectures, "" if it is not."""
    path = folder / "ledger.json"
    if not path.exists():
        return f"no ledger in {folder}"
    known = {line["lecture"] for line in json.loads(path.read_text(encoding="utf-8"))["lectures"]}
    for notebook in notebooks:
        executed = folder / "notebooks" / notebook.name
        if notebook.stem not in known or not executed.exists():
            return f"{notebook.stem} has not run"
        if _cells(executed) != _cells(notebook):
            return f"{notebook.stem} has changed since it ran"
    return ""


def _cells(path: Path) -> list[tuple[str, str]]:
    """(id, source) of each cell of the lecture as it was written."""
    return [(cell.id, cell.source) for cell in _as_written(read(path)).cells]


def _as_written(executed: Lecture) -> Lecture:
    """The lecture without the cell in which papermill puts the parameters of a run."""
    return replace(executed, cells=tuple(cell for cell in executed.cells if "injected-parameters" not in cell.tags))


def read_run(folder: Path, store: Path = STORE) -> Run:
    """The results of the last run in `folder`. Raises ValueError if there is no ledger."""
    path = folder / "ledger.json"
    if not path.exists():
        raise ValueError(f"no ledger in {folder}: `make run` writes one")
    ledger = json.loads(path.read_text(encoding="utf-8"))
    kept, shown = receipts(store), []
    for line in ledger["lectures"]:
        path = folder / "notebooks" / f"{line['lecture']}.ipynb"
        executed = read(path) if path.exists() else None
        rows = {row["id"]: row for row in ledger["claims"] if row["lecture"] == line["lecture"]}
        seen = status(_as_written(executed), kept) if executed else {}
        shown.append(Shown(line, rows, executed, seen))
    return Run(ledger["run"], tuple(shown))


def _write(run: Run, folder: Path) -> None:
    frame.write_static(folder)
    labs = _linked_labs(run)
    links = {f"../labs/{path.name}": _lab_page(path) for path in labs}
    links |= dict.fromkeys(("calculators.ipynb", "../notebooks/calculators.ipynb"), "calculators.html")
    for each in run.shown:
        name = f"{each.line['lecture']}.ipynb"
        places = ("deeper/", "../notebooks/deeper/") if each.deeper else ("", "../", "../notebooks/")
        links |= {f"{place}{name}": each.page for place in places if each.executed}
    links |= {
        f"../{address}": page for address, page in links.items() if address.startswith("../labs/")
    }  # from deeper/
    texts = [
        (each.page, each.line["title"], body.texts) for each, body in _write_lectures(run, folder, links)
    ] + _write_labs(labs, folder, run, links)
    facts = {"run": run.header, "has_sheet": run.has_sheet, "gpus": _gpus(run), "totals": _totals(run)}
    frame.write(folder / "index.html", "index", {"lectures": _index(run), "labs": _lab_rows(labs), **facts})
    frame.write(folder / "folklore.html", "folklore", {"lectures": _folklore(run), **facts})
    frame.write(folder / "ledger.html", "ledger", {"lectures": _ledger(run), **facts})
    frame.write(folder / "calculators.html", "calculators", {"calculators": calculators.of(_homes(run)), **facts})
    search.write(folder / "search.js", texts)


def _write_lectures(run: Run, folder: Path, links: dict[str, str]):
    executed = [each for each in run.shown if each.executed]
    for before, each, after in zip([None, *executed], executed, [*executed[1:], None], strict=False):
        body = render(each.executed, each.rows, run.where, links, each.seen)
        anchors = {cell.id for cell in each.executed.code}
        context = {
            "lecture": each,
            "body": body,
            "anchors": anchors,
            "before": before,
            "after": after,
            "run": run.header,
            "has_sheet": run.has_sheet,
        }
        frame.write(folder / each.page, "lecture", context)
        yield each, body


def _linked_labs(run: Run) -> list[Path]:
    """The stored labs that the shown lectures mention."""
    sources = "".join(cell.source for each in run.shown if each.executed for cell in each.executed.cells)
    names = sorted(set(re.findall(r"\]\(\.\./labs/([\w-]+\.ipynb)\)", sources)))
    return [LABS / name for name in names if (LABS / name).exists()]


def _lab_page(path: Path) -> str:
    return f"lab_{path.stem}.html"


def _lab_rows(labs: list[Path]) -> list[dict]:
    return [{"page": _lab_page(path), "title": read(path).title} for path in labs]


def _write_labs(labs: list[Path], folder: Path, run: Run, links: dict[str, str]) -> list:
    texts = []
    for path in labs:
        lab = read(path)
        body: Body = render(lab, {}, run.where, links, {})
        context = {"title": lab.title, "body": body, "file": path.name, "has_sheet": run.has_sheet}
        frame.write(folder / _lab_page(path), "lab", context)
        texts.append((_lab_page(path), lab.title, body.texts))
    return texts


def _totals(run: Run) -> dict:
    rows = [row for each in run.shown for row in each.rows.values()]
    return {
        "claims": len(rows),
        "folklore": sum(row["kind"] in BELIEFS for row in rows),
        **{CLASSES[status]: sum(row["status"] == status for row in rows) for status in MARKS},
    }


def _index(run: Run) -> list[dict]:
    return [
        {
            "shown": each,
            "verified_on": _verified_on(run, each),
            "duration": duration(each.line["seconds"], digits=2),
            "counts": {CLASSES[status]: each.line[status] for status in (VERIFIED, UNVERIFIED, FAILED)},
        }
        for each in run.shown
        if each.line["lecture"] != SHEET
    ]


def _verified_on(run: Run, each: Shown) -> list[tuple[str, int]]:
    """(machine, claims verified there), this run's first and then the receipts'."""
    on_device = each.line["on the device"]
    places = [(run.header["gpu"], on_device), ("CPU", each.line[VERIFIED] - on_device)]
    counts = Counter(seen.gpu for found in each.seen.values() for seen in found if seen.status == VERIFIED)
    return [place for place in (*places, *counts.items()) if place[1]]


def _gpus(run: Run) -> list[dict]:
    """For each GPU: how many of this site's claims are verified, not verified, failed or stale, and from which runs."""
    found: dict[str, dict] = {}
    for seen in (seen for each in run.shown for there in each.seen.values() for seen in there):
        entry = found.setdefault(seen.gpu, {"gpu": seen.gpu, "counts": Counter(), "runs": []})
        entry["counts"][seen.status] += 1
        words = f"torch {seen.run['torch']}, {seen.run['form']} form, {seen.run['date'][:10]}"
        entry["runs"] += [words] * (words not in entry["runs"])
    return list(found.values())


def _folklore(run: Run) -> list[dict]:
    return [
        {
            "shown": each,
            "told": [
                {**_row(run, each, row), **dict(zip(("saying", "truth"), saying_and_truth(row["text"]), strict=True))}
                for row in each.rows.values()
                if row["kind"] in BELIEFS
            ],
        }
        for each in run.shown
    ]


def saying_and_truth(text: str) -> tuple[str, str]:
    """The two halves of a piece of folklore as HTML: the quoted false belief, and the truth."""
    told = TOLD.match(text)
    return (prose.sentence(told[1]), prose.sentence(told[2])) if told else ("", prose.sentence(text))


def _ledger(run: Run) -> list[dict]:
    return [
        {"shown": each, "rows": [_row(run, each, row) for row in each.rows.values()]} for each in run.shown if each.rows
    ]


def _row(run: Run, each: Shown, row: dict) -> dict:
    return {
        **row,
        "mark": MARKS[row["status"]],
        "class": CLASSES[row["status"]],
        "html": prose.sentence(row["text"]),
        "address": run.where.get(row["id"]),
        "verdict": verdict_line(row),
        "seen": [(SEEN[seen.status], seen.words) for seen in each.seen.get(row["id"], ())],
    }


def _homes(run: Run) -> dict[str, tuple[str, str]]:
    """The calculators in the shown lectures: name → (address, title of the lecture)."""
    cells = [(each, cell) for each in reversed(run.shown) if each.executed for cell in each.executed.code]
    return {
        cell.id.removeprefix("calculator-"): (f"{each.page}#{cell.id}", each.line["title"])
        for each, cell in cells
        if is_calculator(cell)
    }
