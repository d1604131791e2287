"""The calculators on a page: a page cannot run Python, so each calculator shows its named states."""

from dataclasses import dataclass
from functools import cache

from utils.course.site import prose
from utils.napkin.calculators import CALCULATORS, answer_html, picture_html, states


@dataclass(frozen=True)
class Shown:
    """A calculator's named states: (name, the answer and its picture as HTML)."""

    name: str
    title: str
    states: tuple[tuple[str, str], ...]
    place: str
    lecture: str


def of(homes: dict[str, tuple[str, str]]) -> list[Shown]:
    """The calculators of the shown lectures, in their own order; homes: name → (address, lecture)."""
    return [Shown(name, spec.title, _states(name), *homes[name]) for name, spec in CALCULATORS.items() if name in homes]


@cache
def _states(name: str) -> tuple[tuple[str, str], ...]:
    shown = ((state.name, answer_html(state.words) + picture_html(state)) for state in states(name))
    return tuple((name, prose.clean(html)) for name, html in shown)
