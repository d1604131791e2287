"""The lectures as they are stored: every static rule holds of each, before anything runs."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import mistune
import pytest
from bs4 import BeautifulSoup
from helpers.paths import ROOT

from utils.course.lint import lectures
from utils.course.notebooks.notebook import is_lecture, notebooks_in, read
from utils.napkin import calculators

NOTEBOOKS = notebooks_in(ROOT / "notebooks")
LECTURES = [path for path in NOTEBOOKS if is_lecture(path)]
WORKPLACE = re.compile(r"(?<![\w.])/" + "work" + "/")
TEXT = {
    ".cfg",
    ".css",
    ".html",
    ".ipynb",
    ".js",
    ".json",
    ".md",
    ".py",
    ".sh",
    ".svg",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
    "",
}


def strange_to_other_renderers(source: str, is_claim: bool) -> list[str]:
    """What a plain Markdown renderer, as VS Code has, would not show of a cell: a claim that is no quote, or active HTML."""
    page = BeautifulSoup(mistune.html(source), "html.parser")
    quotes = [quote.get_text().strip() for quote in page.find_all("blockquote")]
    wrong = ["no quote with the claim's mark"] * (is_claim and not any(text.startswith(("◆", "✗")) for text in quotes))
    return wrong + [str(tag) for tag in page.find_all(["script", "style", "iframe", "object", "video"])]


def test_claims_are_seen_by_any_markdown_renderer():
    books = [read(path) for path in NOTEBOOKS]
    claims = {(book.path, claim.cell.id) for book in books for claim in book.claims}
    cells = [(book.path, cell) for book in books for cell in book.cells if cell.kind == "markdown"]
    found = {
        (path.name, cell.id): strange_to_other_renderers(cell.source, (path, cell.id) in claims) for path, cell in cells
    }
    assert {place: wrong for place, wrong in found.items() if wrong} == {} and claims
    assert strange_to_other_renderers("**Claim 1.1.** One.", True) and strange_to_other_renderers(
        "<style></style>", False
    )


def kept_files() -> list[Path]:
    """The files that are, or would be, committed; without git all but what .gitignore names."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        folders = ("notebooks", "labs", "solutions", "utils", "tests")
        return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def params():
    if not LECTURES:
        return [pytest.param(None, None, marks=pytest.mark.skip(reason="no lectures in notebooks/"))]
    rules = [
        (path, rule) for path in NOTEBOOKS for rule in (lectures.RULES if path in LECTURES else lectures.NOTEBOOK_RULES)
    ]
    return [pytest.param(path, rule, id=f"{path.stem}-{rule.__name__}") for path, rule in rules]


@pytest.mark.parametrize(("path", "rule"), params())
def test_lecture(path, rule):
    assert rule(read(path)) == []


def test_no_lecture_escapes_the_checks():
    kept = {path for path in kept_files() if ROOT / "notebooks" in path.parents and path.suffix == ".ipynb"}
    assert kept <= set(NOTEBOOKS)
    books = [read(path) for path in LECTURES]
    numbers = [book.number for book in books if not book.deeper]
    assert len(numbers) == len(set(numbers)), "two lectures of one number"
    assert {book.number for book in books} == set(numbers), "a second reading without a lecture"
    claims = Counter(claim.number for book in books for claim in book.claims)
    assert max(claims.values()) == 1, "two claims of one number"


def test_each_calculator_stands_in_one_lecture_and_all_in_their_notebook():
    shown = {path.stem: [cell.id for cell in read(path).code if cell.is_calculator] for path in NOTEBOOKS}
    together = shown.pop("calculators")
    assert together == [f"calculator-{name}" for name in calculators.CALCULATORS]
    assert sorted(cell for cells in shown.values() for cell in cells) == sorted(together)


def test_no_file_names_the_place_it_was_written_in():
    texts = [path for path in kept_files() if path.suffix in TEXT]
    assert Path(__file__) in texts
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if WORKPLACE.search(line)
    ]
    assert found == []


def test_the_workplace_is_recognised():
    assert WORKPLACE.search("see /" + "work/main") and not WORKPLACE.search("home/" + "work/main")
