"""Claims are numbered by tidy: one put in anywhere costs its own two cells, and every text that names another follows."""

import json
from collections import Counter

import pytest
from helpers.paths import ROOT

from utils.course.notebooks.notebook import notebooks_in, read
from utils.course.notebooks.numbering import mended, mended_ids
from utils.course.notebooks.tidy import NAME_CLAIMS, tidied, tidy


def markdown(cell_id: str, source: str, **metadata) -> dict:
    return {"cell_type": "markdown", "id": cell_id, "metadata": metadata, "source": source}


def proof(name: str) -> dict:
    empty = {"metadata": {}, "outputs": [], "execution_count": None}
    return {"cell_type": "code", "id": name, "source": "assert len('ab') == 2", **empty}


def claim(number: str, words: str, *, name: str = "", kind: str = "Claim") -> list[dict]:
    named = {"name": name} if name else {}
    cells = number.replace(".", "-")
    return [markdown(f"claim-{cells}", f"**{kind} {number}.** {words}", **named), proof(f"proof-{cells}")]


@pytest.fixture
def course(tmp_path):
    """A course of two lectures and a second reading, tidy, and the texts that may name claims."""
    (tmp_path / "notebooks" / "deeper").mkdir(parents=True)
    (tmp_path / "solutions").mkdir()
    for name in NAME_CLAIMS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('See claim 7.2.\ncell = "proof-7-2"\n')
    write(
        tmp_path / "notebooks/07_memory.ipynb",
        [
            markdown("title", "# 07 · Memory"),
            *claim("7.1", "The first peak has 1 byte.", name="first"),
            markdown("between", "Compare [claim 7.2](#cell-id=claim-7-2) and claims 7.1 and 7.2; 7.2 GB are no claim."),
            *claim("7.2", "The second peak has 2 bytes, unlike claim 7.1.", name="second"),
            markdown("reading-7-2", "See [7.2](#cell-id=claim-7-2)."),
        ],
    )
    cells = [markdown("title", "# 08 · Half"), *claim("8.1", "As claim 7.2 says, 2.", name="half")]
    write(tmp_path / "notebooks/08_half.ipynb", cells)
    cells = [markdown("title", "# 07 · More"), *claim("7.101", "After 7 claims, see claim 7.2.", name="more")]
    write(tmp_path / "notebooks/deeper/07_more.ipynb", cells)
    write(
        tmp_path / "solutions/07_lab.ipynb",
        [markdown("title", "Use [claim 7.2](../notebooks/07_memory.ipynb#cell-id=claim-7-2).")],
    )
    assert tidy(notebooks_in(tmp_path / "notebooks"), root=tmp_path) == 0
    return tmp_path


def write(path, cells: list[dict]) -> None:
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def cells_of(path) -> list[dict]:
    return json.loads(path.read_text())["cells"]


def put(path, at: int, cells: list[dict]) -> None:
    """Insert cells, as an editor would."""
    write(path, [*(old := cells_of(path))[:at], *cells, *old[at:]])


def text(path) -> str:
    return "\n".join("".join(cell["source"]) for cell in cells_of(path))


def claims(path) -> list[tuple[str, str, str, str]]:
    return [(each.number, each.name, each.cell.id, each.proof.id) for each in read(path).claims]


@pytest.mark.parametrize(
    "cells",
    [
        [markdown("", "**Claim.** Between them lie 3 bytes."), proof("")],
        [
            markdown(
                "d3b07384-d113-4ec6-a7d8-1f2e3d4c5b6a", "> ◆ **Claim 7.2.** Between them lie 3 bytes.", name="second"
            ),
            proof("c0ffee00"),
        ],
    ],
    ids=["written without a number", "made from a copy of another claim"],
)
def test_a_claim_put_into_the_middle_costs_its_own_cells(course, cells, capsys):
    lecture = course / "notebooks/07_memory.ipynb"
    put(lecture, 4, cells)
    assert tidy([lecture], root=course) == 0
    assert claims(lecture) == [
        ("7.1", "first", "claim-7-1", "proof-7-1"),
        ("7.2", "between-lie-bytes", "claim-7-2", "proof-7-2"),
        ("7.3", "second", "claim-7-3", "proof-7-3"),
    ]
    words = text(lecture)
    assert "Compare [claim 7.3](#cell-id=claim-7-3) and claims 7.1 and 7.3; 7.2 GB are no claim." in words
    assert "See [7.3](#cell-id=claim-7-3)." in words and "unlike claim 7.1" in words
    assert cells_of(lecture)[-2]["id"] == "reading-7-3", "the last cell is the navigation"
    assert "As claim 7.3 says" in text(course / "notebooks/08_half.ipynb")
    assert "see claim 7.3." in text(course / "notebooks/deeper/07_more.ipynb")
    assert "[claim 7.3](../notebooks/07_memory.ipynb#cell-id=claim-7-3)" in text(course / "solutions/07_lab.ipynb")
    for name in NAME_CLAIMS:
        assert (course / name).read_text() == 'See claim 7.3.\ncell = "proof-7-3"\n', name
    capsys.readouterr()
    before = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    assert tidy(notebooks_in(course / "notebooks"), root=course) == 0 and capsys.readouterr().out == ""
    assert {path: path.read_bytes() for path in course.rglob("*") if path.is_file()} == before, "twice is once"


def test_a_claim_that_moves_to_another_notebook_takes_its_name_along(course):
    lecture, deeper = course / "notebooks/07_memory.ipynb", course / "notebooks/deeper/07_more.ipynb"
    moved, rest = cells_of(lecture)[1:3], cells_of(lecture)
    write(lecture, [rest[0], *rest[3:]])
    put(deeper, 1, moved)
    assert tidy(notebooks_in(course / "notebooks"), root=course) == 0
    assert [each[:2] for each in claims(lecture)] == [("7.1", "second")]
    assert [each[:2] for each in claims(deeper)] == [("7.101", "first"), ("7.102", "more")]
    assert "Compare [claim 7.1](#cell-id=claim-7-1) and claims 7.101 and 7.1;" in text(lecture)
    assert "unlike claim 7.101" in text(lecture) and "see claim 7.1." in text(deeper)
    assert "As claim 7.1 says" in text(course / "notebooks/08_half.ipynb")


def test_a_new_second_reading_begins_at_a_free_hundred(course):
    other = course / "notebooks/deeper/07_yet_more.ipynb"
    write(other, [markdown("title", "# 07 · Yet more"), markdown("", "**Folklore.** All 4 are 5."), proof("")])
    assert tidy([other], root=course) == 0
    assert [each[:2] for each in claims(other)] == [("7.201", "all")]


def test_two_claims_of_one_number_that_nobody_can_tell_apart_are_refused(course, capsys):
    lecture = course / "notebooks/07_memory.ipynb"
    put(lecture, 4, claim("7.2", "Between them lie 3 bytes."))
    before = lecture.read_bytes()
    with pytest.raises(ValueError, match=r"two claims are called 7\.2: write the new one without a number"):
        tidy([lecture], root=course)
    assert lecture.read_bytes() == before


def test_check_says_what_would_change_and_writes_nothing(course):
    lecture = course / "notebooks/07_memory.ipynb"
    put(lecture, 4, [markdown("", "**Claim.** Between them lie 3 bytes."), proof("")])
    before = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    assert tidy([lecture], check=True, root=course) == 1
    assert {path: path.read_bytes() for path in course.rglob("*") if path.is_file()} == before


def test_saving_in_jupyter_changes_no_number(course):
    cells = [*cells_of(course / "notebooks/07_memory.ipynb")]
    cells[4:4] = [markdown("between-claim", "**Claim.** Between them lie 3 bytes."), proof("between-proof")]
    saved = tidied({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert "claim-7-2" in [cell["id"] for cell in saved["cells"]]
    assert "".join(saved["cells"][4]["source"]) == "> ◆ **Claim.** Between them lie 3 bytes."


@pytest.mark.parametrize(
    ("written", "after"),
    [
        ("Claim 7.3 and claim 7.30", "Claim 7.4 and claim 7.30"),
        ("claims 7.1, 7.3 and 7.4", "claims 7.1, 7.4 and 7.5"),
        ("folklore\n> 7.3", "folklore\n> 7.4"),
        ("Claim 0.17, 7.3 bytes", "Claim 0.17, 7.3 bytes"),
        ("7.3 GB, torch 7.4", "7.3 GB, torch 7.4"),
        ("misconception 7.3: 7.3 %", "misconception 7.4: 7.3 %"),
        ("[7.3](07_m.ipynb#cell-id=claim-7-3)", "[7.4](07_m.ipynb#cell-id=claim-7-4)"),
        ("[sorted, see 7.4](#cell-id=proof-7-3)", "[sorted, see 7.5](#cell-id=proof-7-4)"),
        ("[7.3 GB](https://example.org/7.3)", "[7.3 GB](https://example.org/7.3)"),
        ("claim C.3", "claim C.4"),
    ],
)
def test_what_names_a_claim_follows_and_other_numbers_stay(written, after):
    assert mended(written, {"7.3": "7.4", "7.4": "7.5", "C.3": "C.4"}) == after


def test_ids_follow_at_once_and_not_one_after_the_other():
    assert (
        mended_ids("proof-7-3 picture-7-4 claim-7-33", {"7.3": "7.4", "7.4": "7.3"})
        == "proof-7-4 picture-7-3 claim-7-33"
    )


def test_each_claim_of_the_course_has_a_name_that_no_other_has():
    names = Counter(claim.name for path in notebooks_in(ROOT / "notebooks") for claim in read(path).claims)
    assert [name for name, n in names.items() if n > 1 or not name[0].isalpha()] == []
