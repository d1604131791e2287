"""Build the site from what a run executed: build/ledger.json and build/notebooks/ become build/site/."""

import json
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from utils.course import ROOT
from utils.course.notebooks.ledger import FAILED, UNVERIFIED, VERIFIED, error_of
from utils.course.notebooks.notebook import BESIDE, SHEET, Lecture, label_of, read
from utils.course.receipts.receipts import ON_HOST, STALE, STORE, receipts, status
from utils.figures.numbers import duration
from utils.figures.program import stages as program_stages
from utils.site import calculators, frame, program, prose, search
from utils.site.finished_lab import with_finished_outputs
from utils.site.lecture import BELIEFS, CLASSES, MARKS, anchor_of, render, verdict_line
from utils.site.parallel import in_forks

LABS, SOLUTIONS, START = ROOT / "labs", ROOT / "solutions", ROOT / "notebooks" / "start_here.ipynb"
HOOK = ROOT / "notebooks" / "figures" / "memory.svg"  # the picture on the index, of the claim called HOOKED
HOOKED = "first-and-second-peak"
SEEN = CLASSES | {STALE: "stale", ON_HOST: "host"}
START_PAGE = "start_here.html"
ASKED = re.compile(r"(\*\*The question[:.]\*\*|It answers:)\s*")
QUOTED = r'"(?:[^"`]|`[^`]*`)+"'
# A false belief: an optional question in italics, one or two quotations, and optionally the rest of their sentence.
TOLD = re.compile(rf'((?:\*[^"*]+\*\s*)?{QUOTED}(?: And: {QUOTED})?(?=[ (,:]|$)(?:[,:].*?\.(?=\s+[A-Z]))?)\s*(.*)')


@dataclass(frozen=True)
class Run:
    """The results of one run: its header, its lectures in order, and the executed notebooks beside them by name."""

    header: dict
    shown: tuple["ShownLecture", ...]
    beside: dict[str, Lecture]

    @cached_property
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
class ShownLecture:
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
        return _unnumbered(self.line["title"])

    @property
    def ids(self) -> set[str]:
        """The ids of its code cells, to which a page can link."""
        return {cell.id for cell in self.executed.code} if self.executed else set()

    @property
    def question(self) -> str:
        """The paragraph that states the lecture's question, as HTML."""
        text = self.executed.cells[0].source if self.executed else ""
        paragraphs = [each for each in text.split("\n\n") if not each.startswith(("#", "|"))]
        words = next((each for each in paragraphs if ASKED.match(each)), (paragraphs or [""])[0])
        words = ASKED.sub("", words)
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
        write_pages(run, unfinished)
        shutil.rmtree(site, ignore_errors=True)
        unfinished.replace(site)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return site / "index.html"


def reason_stale(folder: Path, notebooks: list[Path]) -> str:
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


def notebooks_beside() -> list[Path]:
    """The notebooks that the site shows beside the lectures: start_here, and the labs by what their solutions show."""
    return [START, *sorted(SOLUTIONS.glob("*.ipynb"))]


def executed_copy(folder: Path, notebook: Path) -> Lecture | None:
    """The executed copy of a notebook beside the lectures; None if it has not run, has changed since, or failed."""
    path = folder / BESIDE / notebook.name
    if not (path.exists() and notebook.exists() and _cells(path) == _cells(notebook)):
        return None
    executed = _as_written(read(path))
    return None if any(error_of(cell) for cell in executed.code if cell.source.strip()) else executed


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
        shown.append(ShownLecture(line, rows, executed, seen))
    others = {path.stem: executed for path in notebooks_beside() if (executed := executed_copy(folder, path))}
    return Run(ledger["run"], tuple(shown), others)


def write_pages(run: Run, folder: Path, *, archive: str | None = None) -> None:
    """Write every page into a new folder; `archive` is the address of the course as one file, for the index.

    Raises ValueError for a page that is too large.
    """
    frame.write_static(folder)
    calculators.write(folder)
    stored = [*_linked_start(run), *_linked_labs(run)]
    links = _links(run, stored)
    stages = program.stages_shown(program_stages(), _pages(run, stored))
    heads = {"has_sheet": run.has_sheet, "has_program": bool(stages)}
    shared = {"menu": _menu(run, stored), **heads, "run": run.header}
    executed = [each for each in run.shown if each.executed]
    texts = in_forks(
        [partial(_write_lecture, each, folder, run, links, shared) for each in executed]
        + [partial(_write_stored, path, folder, run, links, shared) for path in stored]
    )
    facts = {"gpus": _gpus(run), "totals": _totals(run), **shared}
    index = {"rows": _index(run), "paths": _paths(stored, links), "archive": archive, **_hook(run, folder)}
    frame.write(folder / "index.html", "index", index | facts)
    frame.write(folder / "folklore.html", "folklore", {"lectures": _folklore(run), **facts})
    frame.write(folder / "ledger.html", "ledger", {"lectures": _ledger(run), **facts})
    if stages:
        frame.write(folder / program.NAME, "program", {"stages": stages, **facts})
    shown = calculators.calculators_shown(_homes(run))
    frame.write(folder / "calculators.html", "calculators", {"calculators": shown, **facts})
    search.write(folder / "search.js", texts)


def _links(run: Run, stored: list[Path]) -> dict[str, str]:
    """The page of each notebook by the addresses that notebooks call it by, from whichever folder they do."""
    links = dict.fromkeys(("calculators.ipynb", "../notebooks/calculators.ipynb"), "calculators.html")
    for path in stored:
        places = ("", "../", "../notebooks/") if path == START else ("../labs/", "../../labs/")
        links |= {f"{place}{path.name}": _page_of(path) for place in places}
    for each in run.shown:
        places = ("deeper/", "../notebooks/deeper/") if each.deeper else ("", "../", "../notebooks/")
        links |= {f"{place}{each.line['lecture']}.ipynb": each.page for place in places if each.executed}
    return links


def _pages(run: Run, stored: list[Path]) -> dict[str, tuple[str, str]]:
    """The address and the title of each notebook's page, by the notebook's name."""
    pages = {path.stem: (_page_of(path), _unnumbered(read(path).title)) for path in stored}
    return pages | {each.line["lecture"]: (each.page, each.title) for each in run.shown if each.executed}


def _menu(run: Run, stored: list[Path]) -> list[dict]:
    """The lectures in order, for the side bar and the index: each with its labs and its second readings."""
    menu = [_entry("", read(path).title, START_PAGE) for path in stored if path == START]
    menu += [_entry_of(each) for each in run.shown if not each.deeper and each.line["lecture"] != SHEET]
    by_number = {entry["number"]: entry for entry in menu}
    for each in run.shown:
        if each.deeper and each.number in by_number:
            by_number[each.number]["deeper"].append(_entry_of(each))
        elif each.deeper:  # its lecture is not among the shown
            menu.append(_entry_of(each))
    for lab in stored:
        number = label_of(lab.stem)
        if number in by_number and lab != START:
            by_number[number]["labs"].append(_entry(number, _unnumbered(read(lab).title), _page_of(lab)))
    return menu


def _entry_of(each: ShownLecture) -> dict:
    return _entry(each.number, each.title, each.page if each.executed else None)


def _entry(number: str, title: str, page: str | None) -> dict:
    """page: None for what did not run."""
    return {"number": number, "title": title, "page": page, "labs": [], "deeper": []}


def _unnumbered(title: str) -> str:
    return re.sub(r"^((Lab )?\d\d[a-z]?|Capstone)\s*·\s*", "", title)


def _around(menu: list[dict], page: str) -> dict[str, dict | None]:
    """The entries of the menu before and after a page; a lab comes after its lecture, a second reading too."""
    menu = [entry for entry in menu if entry["page"]]
    for place, entry in enumerate(menu):
        after = menu[place + 1] if place + 1 < len(menu) else None
        if page == entry["page"]:
            return {"entry": entry, "before": menu[place - 1] if place else None, "after": after}
        if page in [each["page"] for each in (*entry["labs"], *entry["deeper"])]:
            return {"entry": entry, "before": entry, "after": after}
    return {"entry": None, "before": None, "after": None}


def _write_lecture(each: ShownLecture, folder: Path, run: Run, links: dict[str, str], shared: dict) -> tuple:
    """Write the page of what was executed; returns what of it can be searched: its page, title and texts."""
    body = render(each.executed, each.rows, run.where, links, each.seen)
    context = {"lecture": each, "body": body}
    frame.write(folder / each.page, "lecture", context | shared | _around(shared["menu"], each.page))
    return each.page, prose.plain(prose.sentence(each.line["title"])), body.texts


def _write_stored(path: Path, folder: Path, run: Run, links: dict[str, str], shared: dict) -> tuple:
    """Write the page of a notebook beside the lectures; returns what of it can be searched.

    Where it was executed the page shows what came of that, of a lab what its solution shows in the cells that are given.
    """
    book, page, executed = read(path), _page_of(path), run.beside.get(path.stem)
    if executed and path == START:
        book = executed
    elif executed:
        book = with_finished_outputs(book, executed)
    shows = any(cell.raw.get("outputs") for cell in book.code)
    body = render(book, {}, run.where, links, {})
    about = {"file": f"{path.parent.name}/{path.name}", "is_lab": path != START, "shows": shows}
    context = {"title": book.title, "body": body, **about}
    frame.write(folder / page, "stored", context | shared | _around(shared["menu"], page))
    return page, prose.plain(prose.sentence(book.title)), body.texts


def _linked_labs(run: Run) -> list[Path]:
    """The stored labs that the shown lectures mention."""
    names = sorted(set(re.findall(r"\]\(\.\./labs/([\w-]+\.ipynb)\)", _sources(run))))
    return [LABS / name for name in names if (LABS / name).exists()]


def _linked_start(run: Run) -> list[Path]:
    """The notebook for newcomers, if the shown lectures mention it."""
    return [START] if re.search(rf"\]\((\.\./)?{START.name}\)", _sources(run)) else []


def _sources(run: Run) -> str:
    return "".join(cell.source for each in run.shown if each.executed for cell in each.executed.cells)


def _page_of(path: Path) -> str:
    return START_PAGE if path == START else f"lab_{path.stem}.html"


def _paths(stored: list[Path], links: dict[str, str]) -> str:
    """The ways through the lectures that the notebook for newcomers names, as HTML."""
    cells = [cell for path in stored if path == START for cell in read(path).cells if cell.id == "paths"]
    return "".join(prose.clean(prose.markdown(cell.source.partition("\n")[2]), links=links) for cell in cells)


def _hook(run: Run, folder: Path) -> dict:
    """The claim that the index begins with, and its picture; nothing where it is not among the shown."""
    for each in run.shown:
        for claim in each.executed.claims if each.executed else ():
            if claim.name == HOOKED and claim.number in each.rows:
                shutil.copy(HOOK, folder / HOOK.name)
                return {"hook": _row(run, each, each.rows[claim.number]), "picture": HOOK.name}
    return {"hook": None, "picture": None}


def _totals(run: Run) -> dict:
    rows = [row for each in run.shown for row in each.rows.values()]
    return {
        "claims": len(rows),
        "folklore": sum(row["kind"] in BELIEFS for row in rows),
        **{CLASSES[status]: sum(row["status"] == status for row in rows) for status in MARKS},
    }


def _index(run: Run) -> dict[str, dict]:
    """What the run made of each lecture, by its page."""
    return {
        each.page: {
            "shown": each,
            "verified_on": _verified_on(run, each),
            "duration": duration(each.line["seconds"], digits=2),
            "counts": {CLASSES[status]: each.line[status] for status in (VERIFIED, UNVERIFIED, FAILED)},
        }
        for each in run.shown
    }


def _verified_on(run: Run, each: ShownLecture) -> list[tuple[str, int]]:
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


def _row(run: Run, each: ShownLecture, row: dict) -> dict:
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
    """The calculators: name → (address, title) of the shown lecture that it stands in, empty where none shows it."""
    cells = [(each, cell) for each in reversed(run.shown) if each.executed for cell in each.executed.code]
    return {
        cell.id.removeprefix("calculator-"): ("", "")
        if each.page == "calculators.html"
        else (f"{each.page}#{cell.id}", each.line["title"])
        for each, cell in cells
        if cell.is_calculator
    }
