"""The calculators on a page: their script, their style, and what stands in their place where no script runs."""

from dataclasses import dataclass
from pathlib import Path

from utils.napkin import calculators

SCRIPT, STYLE = "calculators.js", "calculators.css"  # as a page loads them


@dataclass(frozen=True)
class ShownCalculator:
    """A calculator and, for browsers without JavaScript, its named states: name → the lines of its answer."""

    name: str
    title: str
    states: dict[str, list[str]]
    place: str
    lecture: str


def calculators_shown(homes: dict[str, tuple[str, str]]) -> list[ShownCalculator]:
    """The calculators, those of no lecture first, then in the lectures' order; homes: name → (address, lecture)."""
    return [
        ShownCalculator(name, calculators.title(name), calculators.states(name), *home)
        for name, home in sorted(homes.items(), key=lambda each: each[1])
    ]


def write(folder: Path) -> None:
    """Write the script and the style sheet of all calculators into the folder of a site."""
    (folder / SCRIPT).write_text(calculators.script(*calculators.NAMES), encoding="utf-8")
    (folder / STYLE).write_text(calculators.style(), encoding="utf-8")
