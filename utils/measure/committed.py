"""Measurements that take too long for a lecture: a script has made them once, and the course keeps them.

tests/measured/NAME.json holds `runs`, and `machines`: what each was made on, with versions and the day.
"""

import json
from pathlib import Path

STORE = Path(__file__).resolve().parents[2] / "tests" / "measured"


def committed_measurement(name: str) -> dict:
    """The measurement of that name, {"machines": [...], "runs": [...]}. ValueError for one that is not there."""
    path = STORE / f"{name}.json"
    if not path.exists():
        there = ", ".join(sorted(each.stem for each in STORE.glob("*.json"))) or "none"
        raise ValueError(f"no measurement {name!r} in {STORE}: there are {there}. Give one of these")
    return json.loads(path.read_text(encoding="utf-8"))


def machines_in_words(measurement: dict) -> str:
    """What it was made on: "Intel Xeon, 1 thread, torch 2.13.0, 2026-11-29", one machine after the other, each once."""
    told = (
        f"{each['cpu']}, {each['threads']} thread{'s' * (each['threads'] > 1)}, torch {each['torch']}, {each['date']}"
        for each in measurement["machines"]
    )
    return "; ".join(dict.fromkeys(told))
