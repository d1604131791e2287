"""What a lecture changes in the program that grows through the course, drawn: `program.diff("06")`.

The stages of the program are the files in notebooks/program/, which `make tidy` writes from the cells that hold them.
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path

STAGES = Path(__file__).resolve().parents[2] / "notebooks" / "program"
STYLE = Path(__file__).with_suffix(".css")
FIRST = "start_here"
AROUND = 3  # lines that are shown before and after a change
SIGNS = {"del": "-", "ins": "+", "span": " "}  # HTML's element for a line → its sign


@dataclass(frozen=True)
class Stage:
    """The program as one notebook leaves it. name: the notebook's."""

    name: str
    text: str

    @property
    def label(self) -> str:
        """What its notebook is called for short: "06", "C" for the capstone, "start_here"."""
        return self.name[:2] if self.name[:2].isdecimal() else "C" if self.name == "capstone" else self.name


def stages(folder: Path | None = None) -> list[Stage]:
    """All in `folder`, by default the course's, in its order; without the line on top that says what the file is."""
    folder = folder or STAGES
    paths = sorted(folder.glob("*.py"), key=lambda path: (path.stem != FIRST, path.stem))
    return [Stage(path.stem, path.read_text(encoding="utf-8").split("\n", 2)[2]) for path in paths]


class Diff:
    """What changes from one program to the next. A notebook draws it; a terminal prints it with + and -."""

    def __init__(self, before: str, after: str):
        self.lines = list(_changed_lines(before.splitlines(), after.splitlines()))
        self.length = len(after.splitlines())

    @property
    def added(self) -> int:
        return sum(kind == "ins" for kind, _ in self.lines)

    @property
    def removed(self) -> int:
        return sum(kind == "del" for kind, _ in self.lines)

    @property
    def words(self) -> str:
        return f"+{self.added} −{self.removed} lines: the program has {self.length} now"

    def __repr__(self) -> str:
        return "\n".join([self.words, *(f"{SIGNS.get(kind, ' ')} {line}".rstrip() for kind, line in self.lines)])

    def _repr_html_(self) -> str:
        return f"<style>{STYLE.read_text(encoding='utf-8')}</style>{self.html()}"

    def html(self) -> str:
        """Without its style, for a page that has it."""
        lines = "".join(
            f"<{kind}>{SIGNS[kind]} {html.escape(line)}\n</{kind}>" if kind in SIGNS else f"<small>{line}\n</small>"
            for kind, line in self.lines
        )
        return f'<div class="program-diff"><p>{self.words}</p><pre>{lines}</pre></div>'


def diff(label: str) -> Diff:
    """What the lecture changes that is called so for short, "06" or "C"; to be the last line of a cell.

    Raises ValueError, with those that change something, for another one.
    """
    every = stages()
    pairs = {after.label: (before.text, after.text) for before, after in pairwise(every)}
    if label not in pairs:
        raise ValueError(
            f"no lecture {label!r} changes the program: those that do are {', '.join(pairs) or 'none'}. Give its cell that "
            "holds the program at the end the tag program-end, and call `make tidy`"
        )
    return Diff(*pairs[label])


def _changed_lines(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """(kind, line) of each line that is shown: "del", "ins", "span" for one that stays, "gap" for what is left out."""
    shown = 0  # lines of `before` so far
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(AROUND):
        yield from _gap(group[0][1] - shown)
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                yield from (("span", line) for line in before[start:end])
            else:
                yield from (("del", line) for line in before[start:end])
                yield from (("ins", line) for line in after[new_start:new_end])
        shown = group[-1][2]
    yield from _gap(len(before) - shown)


def _gap(lines: int) -> Iterator[tuple[str, str]]:
    if lines:
        yield "gap", f"⋯ {lines} {'line' if lines == 1 else 'lines'} as before"
