"""Lecture 10's table of common mistakes: each message in it is matched by the proof that the table names."""

import ast
import re

import pytest
from helpers.paths import ROOT

from utils.course.notebooks.notebook import read

LECTURE = read(ROOT / "notebooks" / "11_debugging.ipynb")
SOURCES = {cell.id: cell.source for cell in LECTURE.cells}
ROW = re.compile(r"^\| (?P<seen>.*`.*) \| .* \| (?P<claims>10\.\d+(?:, 10\.\d+)*) \|$", re.MULTILINE)
ROWS = [(row["seen"], row["claims"].split(", ")) for row in ROW.finditer(SOURCES["mistakes-table"])]


def strings_of(claims: list[str]) -> str:
    """Every string of these claims' proofs, a line each; those that Python joins are joined."""
    proofs = (ast.parse(SOURCES[f"proof-{claim.replace('.', '-')}"]) for claim in claims)
    found = (node.value for proof in proofs for node in ast.walk(proof) if isinstance(node, ast.Constant))
    return "\n".join(value for value in found if isinstance(value, str))


def test_every_message_of_the_table_is_a_row():
    assert len(ROWS) == SOURCES["mistakes-table"].count("\n| ") - 2  # but for the heading and the last row: nothing


@pytest.mark.parametrize(("seen", "claims"), ROWS, ids=[seen for seen, _ in ROWS])
def test_the_proof_that_the_table_names_matches_the_message(seen, claims):
    strings = strings_of(claims)
    parts = [part.strip() for quoted in re.findall(r"`([^`]+)`", seen) for part in quoted.split("…")]
    assert parts and [part for part in parts if part.removeprefix("IndexError: ") not in strings] == []
