"""Executed lectures as HTML pages, each claim marked with what its proof came to on this machine."""

import copy
import html
import logging
import re
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

from utils.course.ledger import FAILED, UNVERIFIED, VERIFIED, Result
from utils.course.notebook import text_of

MARKS = {VERIFIED: ("✓", "#1b7837"), UNVERIFIED: ("○", "#8a6d00"), FAILED: ("✗", "#b2182b")}


def write_page(executed: Path, page: Path, result: Result, header: dict) -> None:
    """Write `executed` (a notebook with outputs) as one HTML file, the lecture's verdicts in it."""
    book = nbformat.read(executed, as_version=4)
    marked = mark(book, result, header)
    exporter = HTMLExporter(log=logging.getLogger("nbconvert.quiet"))
    exporter.log.setLevel(logging.ERROR)
    text, _ = exporter.from_notebook_node(marked, resources={"metadata": {"name": result.title}})
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def mark(book, result: Result, header: dict):
    """A copy of the notebook: a verdict under each claim, a summary on top, words for each picture."""
    book = copy.deepcopy(book)
    for verdict in result.verdicts:
        sign, colour = MARKS[verdict.status]
        reason = "" if verdict.status == VERIFIED else f": {verdict.reason.splitlines()[0]}"
        line = f"{sign} {verdict.status}{reason} ({header['device']}, {verdict.seconds:.2f} s)"
        book.cells[verdict.claim.cell.index].source += f"\n\n{_coloured(line, colour)}"
    for cell, after in zip(book.cells, [*book.cells[1:], None], strict=True):
        if cell.cell_type == "code" and after is not None and after.cell_type == "markdown":
            _describe_pictures(cell, after.source)
    if book.cells and book.cells[0].cell_type == "markdown":
        book.cells[0].source += f"\n\n{_summary(result, header)}"
    return book


def _summary(result: Result, header: dict) -> str:
    counts = [f"{result.count(status)} {status}" for status in MARKS if result.count(status) or status == VERIFIED]
    broken = [f"{len(result.broken)} broken cells"] if result.broken else []
    words = f"{len(result.verdicts)} claims: {', '.join(counts + broken)}"
    machine = f"{header['hardware']}, torch {header['torch']}"
    where = f"{machine}, {header['form']} form, {header['date'][:10]}"
    return _coloured(f"{words} · {where} · {result.seconds:.0f} s", MARKS[FAILED if result.red else VERIFIED][1])


def _coloured(text: str, colour: str) -> str:
    return f'<small style="color: {colour}">{html.escape(text)}</small>'


def _describe_pictures(cell, prose: str) -> None:
    """Give each picture the words that read it aloud, for readers who cannot see it; nbconvert's page has none."""
    words = " ".join(re.sub(r"[*_`$#>]|<[^>]+>", "", prose).strip().split("\n\n")[0].split())
    for output in cell.outputs:
        png = output.get("data", {}).get("image/png")
        if png:
            image = f'<img alt="{html.escape(words)}" src="data:image/png;base64,{text_of(png).strip()}">'
            output.data = {"text/html": image}
