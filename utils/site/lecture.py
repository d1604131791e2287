"""One notebook as the body of a page: its cells by nbconvert, with the course's template and the ledger's verdicts."""

import json
import re
from dataclasses import dataclass
from functools import cache

import nbformat
from bs4 import BeautifulSoup
from nbconvert import TemplateExporter
from nbconvert.filters import Highlight2HTML
from traitlets.config import Config

from utils.course.notebooks import program
from utils.course.notebooks.dataflow import OURS, YOUR_TURN
from utils.course.notebooks.ledger import FAILED, UNVERIFIED, VERIFIED
from utils.course.notebooks.navigation import CELL as NAVIGATION
from utils.course.notebooks.notebook import COLAB, SIGNS, Cell, Lecture, plain_claim
from utils.course.notebooks.tidy import CHECKS, POINTS
from utils.course.notebooks.turns import halves
from utils.course.receipts.receipts import STALE
from utils.figures.style import short_numbers
from utils.site import prose
from utils.site.environment import TEMPLATES
from utils.site.finished_lab import FINISHED

SET_UP = ("parameters", "setup", COLAB, POINTS, CHECKS)  # cells that say nothing about the subject: folded
BELIEFS = ("Folklore", "Misconception")  # the kinds of claims that say what is false, and then what holds
MARKS = {VERIFIED: "✓", UNVERIFIED: "○", FAILED: "✗"}
CLASSES = {VERIFIED: "verified", UNVERIFIED: "unverified", FAILED: "failed", STALE: "unverified"}


@dataclass(frozen=True)
class Body:
    """A notebook's page without the frame around it.

    contents: (level, anchor, words) of its headings. texts: (anchor, kind, title, words) of all that can be searched.
    """

    html: str
    contents: tuple[tuple[int, str, str], ...]
    texts: tuple[tuple[str, str, str, str], ...]


def anchor_of(number: str) -> str:
    """The id of a claim on its page: "claim-7-3" for "7.3"."""
    return f"claim-{number.replace('.', '-')}"


def verdict_line(row: dict) -> str:
    """The verdict on a claim in one line; `row` is the claim's row in the ledger."""
    reason = f": {row['reason'].splitlines()[0]}" if row["reason"] else ""
    failed_there = row["status"] == FAILED and not row["host"]  # "on the device" counts what was verified
    where = (row["gpu"] if row["on the device"] or failed_there else None) or "CPU"
    host = f" · stays on the host: {row['host']}" if row["host"] else ""
    return f"{MARKS[row['status']]} {row['status']}{reason} ({where}, {row['seconds']:.2f} s){host}"


def render(
    lecture: Lecture, rows: dict[str, dict], where: dict[str, str], links: dict[str, str], seen: dict[str, tuple]
) -> Body:
    """The body of the notebook `lecture`, executed or not.

    rows: the ledger's rows of its claims, by number; a claim without one gets no verdict. where, links: see prose.clean.
    seen: what receipts say of each claim, by number.
    """
    book = nbformat.reads(json.dumps(lecture.raw), as_version=4)  # a copy, its lists of lines joined
    _label(book, lecture, rows, seen)
    book.cells = [cell for cell in book.cells if cell.get("id") != NAVIGATION]  # the frame has links of its own
    book.cells = _set_up_at_once(book.cells)
    contents, texts = [], []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            source = cell.source
            if cell.metadata["course"]["role"].startswith("claim"):
                source = plain_claim(source)  # a callout in Jupyter; here it has a frame
            cell.metadata["course"]["html"] = prose.clean(prose.markdown(source), where, links)
            _read(cell.metadata["course"], contents, texts)
    exporter = _exporter()
    exporter.register_filter("harmless", lambda text: prose.clean(text, where, links))
    exporter.register_filter("prose", lambda text: prose.clean(prose.markdown(text), where, links))
    html, _ = exporter.from_notebook_node(book)
    return Body(html, tuple(contents), tuple(texts))


class Exporter(TemplateExporter):
    """nbconvert's machinery with the template of this folder."""

    output_mimetype = "text/html"
    file_extension = ".html"

    def __init__(self):
        priority = ["text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/plain"]
        super().__init__(
            config=Config(
                NbConvertBase={"display_data_priority": priority},
                Exporter={"optimistic_validation": True},  # once, not after each of its eleven steps
                CoalesceStreamsPreprocessor={"enabled": True},  # what was flushed in pieces stands in one box
            ),
            template_name="course",
            template_file="index.html.j2",
            extra_template_basedirs=[str(TEMPLATES)],
        )
        self.register_filter("short_numbers", short_numbers)
        self.register_filter("highlight_code", Highlight2HTML(pygments_lexer="python", parent=self))


@cache
def _exporter() -> Exporter:
    """The same for every page, so that the template is compiled once."""
    return Exporter()


def _label(book, lecture: Lecture, rows: dict[str, dict], seen: dict[str, tuple]) -> None:
    """Tell the template of each cell what it is: claim, proof, picture, other code, or prose."""
    claims = {claim.cell.index: claim for claim in lecture.claims}
    proofs = {claim.proof.index: claim for claim in lecture.claims if claim.proof}
    said = ""  # the last paragraph so far
    for cell, raw, after in zip(book.cells, lecture.cells, [*lecture.cells[1:], None], strict=True):
        course = {"anchor": raw.id or f"cell-{raw.index}", "role": "prose", "status": ""}
        if raw.index in claims:
            number = claims[raw.index].number
            course |= _facts_of_claim(claims[raw.index], rows.get(number), seen.get(number, ()))
        elif raw.index in proofs:
            course |= {"role": "proof", "label": f"proof of {proofs[raw.index].number}"}
        elif raw.is_calculator:
            name = raw.id.removeprefix("calculator-")
            course |= {"role": "picture", "label": "the calculator's code", "folded": True, "calculator": name}
        elif raw.kind == "code" and raw.is_picture:
            course |= {"role": "picture", "label": "the picture's code", "folded": True}
        elif raw.kind == "code":
            course |= {"role": "helper", "label": _label_of(raw), "folded": raw.id in SET_UP or raw.is_folded}
        if any("image/" in kind for output in cell.get("outputs", []) for kind in output.get("data", {})):
            described = after is not None and after.kind == "markdown" and not after.source.startswith("#")
            course["words"] = _words(after.source.strip().split("\n\n")[0] if described else said) or "a picture"
        if raw.kind == "markdown":
            said = raw.source.strip().split("\n\n")[-1]
        course["finished"] = raw.raw.get("metadata", {}).get(FINISHED, False)
        cell.metadata["course"] = course


def _label_of(cell: Cell) -> str:
    """What a cell is called that is no proof and no picture."""
    if cell.id in SET_UP:
        return "set-up"
    if {program.BEGIN, program.END} & set(cell.tags):
        return "the program"
    return "ours" if halves(cell, OURS) else "your turn" if halves(cell, YOUR_TURN) else "code"


def _set_up_at_once(cells: list) -> list:
    """The cells, those of the set-up that follow each other as one: its sources and outputs, and the ids of the others."""
    kept = []
    for cell in cells:
        before = kept[-1].metadata["course"] if kept else {}
        if before.get("label") == cell.metadata["course"].get("label") == "set-up":
            kept[-1].source += f"\n\n\n{cell.source}"
            kept[-1].outputs += cell.outputs
            before["also"] = [*before.get("also", []), cell.metadata["course"]["anchor"]]
        else:
            kept.append(cell)
    return kept


def _facts_of_claim(claim, row: dict | None, seen: tuple) -> dict:
    course = {"anchor": anchor_of(claim.number), "permanent": claim.name, "role": f"claim {claim.kind.lower()}"}
    if row is None:
        return course
    if claim.kind in BELIEFS:
        course["belief"] = "a false belief, put right" if row["status"] == VERIFIED else "a false belief"
    saw = row["reason"] if row["status"] == FAILED and "\n" in row["reason"] else ""
    elsewhere = [(CLASSES.get(there.status, "verified"), there.words) for there in seen]
    return course | {"status": CLASSES[row["status"]], "verdict": verdict_line(row), "elsewhere": elsewhere, "saw": saw}


def _words(paragraph: str) -> str:
    """The description of a picture for readers who cannot see it: the paragraph after it, or before it if none follows."""
    return prose.plain(prose.clean(prose.markdown(paragraph)))


def _read(course: dict, contents: list, texts: list) -> None:
    """Add a prose cell's headings to the contents; add these, its claim or its text to the search index."""
    soup = BeautifulSoup(course["html"], "html.parser")
    for heading in soup.select("h1, h2, h3, h4"):
        words, anchor = prose.plain(str(heading)), heading.get("id", course["anchor"])
        texts.append((anchor, "heading", words, ""))
        if heading.name in ("h2", "h3") and words:
            contents.append((int(heading.name[1]), anchor, words))
        heading.extract()
    words = prose.plain(str(soup))
    head = re.match(rf"({'|'.join(SIGNS)}) (?:\d+|C)\.\d+\. ", words)
    if head and course["role"].startswith("claim"):
        texts.append((course["anchor"], head[1].lower(), head[0].removesuffix(". "), words.removeprefix(head[0])))
    elif words:
        texts.append((course["anchor"], "text", "", words))
