"""Attacks on the grader are alive: what they name is there, and the record of one that died at its first line says so."""

import json
from pathlib import Path

import pytest
from helpers.paths import ROOT
from landed import cells, not_shown, shows, stale_names

from utils.grader.clock import Clock

HOSTILE = sorted(Path(__file__).with_name("hostile").glob("*.py"))
LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"
OWN = {"attack", "again", "mine", "zz-attack", "check-strides-2", "given-setup"}  # of a student's, in no lab


@pytest.mark.parametrize("attack", HOSTILE, ids=lambda path: path.stem)
def test_an_attack_names_what_is_there_and_says_what_it_shows(attack):
    of_the_lab = {cell["id"] for cell in json.loads(LAB.read_text())["cells"]}
    assert cells(attack).keys() <= of_the_lab | OWN
    assert len(shows(attack)) >= 1
    assert [name for source in cells(attack).values() if source[0] != "%" for name in stale_names(source)] == []


@pytest.mark.parametrize(
    ("source", "stale"),
    [
        ("import utils.lab as lab\nlab.evaluate = None", []),
        ("import utils.lab as lab\nlab.evaluated = None", ["lab.evaluated"]),
        ("import utils.lab.asked", ["utils.lab.asked"]),
        ("from utils.lab import plain_values as wire, plain\nwire.DTYPE.clear()", ["utils.lab.plain", "wire.DTYPE"]),
        ("import os, sys\nsys.modules['utils.lab.asked'] = os.nothing", ["utils.lab.asked"]),
    ],
)
def test_a_name_that_has_gone_is_told(source, stale):
    assert list(stale_names(source)) == stale


def test_an_attack_that_died_of_a_stale_name_has_not_landed(tmp_path):
    attack = tmp_path / "attack.py"
    attack.write_text("# shows: attack: RuntimeError: landed\n# shows: check-swap: .*got: +\\(\\)\n# %% attack\n")
    died = {"raised": {"attack": (["AttributeError"], "no attribute 'frames'", None)}, "notes": [], "checks": []}
    landed = {"raised": {"attack": (["RuntimeError"], "landed", None)}, "notes": []}
    landed["checks"] = [{"check": "check-swap", "message": "swapped(x, 0, 1)\ngot:      ()"}]
    assert not_shown(attack, died) == shows(attack)
    assert not_shown(attack, landed) == []


def test_the_clock_is_found_by_those_who_would_set_it_back():
    """As takes_back_the_clock.py looks for it, where nobody has closed it."""

    def shared() -> int:
        return sum("rw-s" in line and "zero" in line for line in Path("/proc/self/maps").read_text().splitlines())

    before, clock = shared(), Clock()
    assert shared() == before + 1
    clock.close()
    assert shared() == before
