"""The table of common mistakes beside lecture 11: each of its messages is matched by something that its notebook runs."""

import ast
import re

import pytest
from helpers.paths import ROOT

from utils.course.notebooks.notebook import read

LECTURE = read(ROOT / "notebooks" / "deeper" / "11_error_messages.ipynb")
SOURCES = {cell.id: cell.source for cell in LECTURE.cells}
ROW = re.compile(r"^\| (?P<seen>.*`.*) \| .* \|$", re.MULTILINE)
ROWS = [row["seen"] for row in ROW.finditer(SOURCES["table-of-mistakes"])]


def lines_that_run() -> list[list[str]]:
    """The code and the message of each line of the cell that makes the mistakes."""
    (text,) = (node.value for node in ast.walk(ast.parse(SOURCES["mistakes"])) if _is_the_text(node))
    return [line.split(" → ") for line in text.strip().splitlines()]


def _is_the_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and " → " in node.value and "\n" in node.value


def expected() -> str:
    """Every message that a line of the cell or an assert of a proof expects, a line each."""
    proofs = [ast.parse(source) for name, source in SOURCES.items() if name.startswith(("proof-", "device-script"))]
    found = [node.value for proof in proofs for node in ast.walk(proof) if isinstance(node, ast.Constant)]
    return "\n".join([message for _, message in lines_that_run()] + [each for each in found if isinstance(each, str)])


def test_every_message_of_the_table_is_a_row():
    assert len(ROWS) == SOURCES["table-of-mistakes"].count("\n| ") - 2  # but for the heading and the last row: nothing


@pytest.mark.parametrize("seen", ROWS)
def test_each_message_of_the_table_is_matched_by_something_that_runs(seen):
    parts = [part.strip() for quoted in re.findall(r"`([^`]+)`", seen) for part in quoted.split("…")]
    assert parts and [part for part in parts if part not in expected()] == []


def test_each_line_that_runs_stands_in_the_table():
    table = "\n".join(ROWS)
    assert [message for _, message in lines_that_run() if message not in table] == []


def test_the_claim_counts_the_lines():
    assert re.search(r"Each of these (\d+) lines raises", SOURCES["claim-11-402"])[1] == str(len(lines_that_run()))
