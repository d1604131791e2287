"""Each subject of the course stands somewhere: the rows of coverage.toml name claims, cells, labs and files that exist."""

import json
import tomllib

import pytest

from utils.course import ROOT

SUBJECTS = tomllib.loads((ROOT / "tests" / "course" / "coverage.toml").read_text())
NOTEBOOKS = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks" / "deeper").glob("*.ipynb")]
CELLS = {path.name: json.loads(path.read_text())["cells"] for path in NOTEBOOKS}
CLAIMS = {cell["metadata"].get("name") for cells in CELLS.values() for cell in cells} - {None}
IDS = {f"{name}#{cell['id']}" for name, cells in CELLS.items() for cell in cells}


def exists(place: str) -> bool:
    """Whether there is such a claim, cell, lab or file."""
    if place.startswith("lab "):
        return bool(list((ROOT / "solutions").glob(f"{place.removeprefix('lab ')}_*.ipynb")))
    return place in CLAIMS or place in IDS or (ROOT / place).exists()


@pytest.mark.parametrize("part", SUBJECTS)
def test_each_subject_stands_somewhere(part):
    lost = {subject: [place for place in places if not exists(place)] for subject, places in SUBJECTS[part].items()}
    assert {subject: places for subject, places in lost.items() if places} == {}
    assert all(SUBJECTS[part].values())


@pytest.mark.parametrize("place", ["no-such-claim", "start_here.ipynb#no-such-cell", "lab 99", "utils/no_such.py"])
def test_what_does_not_exist_is_noticed(place):
    assert not exists(place)
