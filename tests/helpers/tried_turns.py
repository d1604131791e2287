"""What a notebook's turns say to the right answer, to each anticipated wrong one, and to none.

python tried_turns.py NOTEBOOK: tries them all, in a process of its own, since a lecture's cells change the one they run in.
"""

import ast
import io
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

from utils.checks.turns import RIGHT, UNWRITTEN, your_turn
from utils.course.mutation.fork_runner import execute
from utils.course.notebooks.dataflow import Use, with_their_needs
from utils.course.notebooks.notebook import Lecture, read, syntax_tree
from utils.course.notebooks.turns import Turn, turns_of


def try_turns(lecture: Lecture) -> None:
    """Try each turn where it stands; of the lecture run only the cells that the turns lean on.

    Raises AssertionError, with the turn's name in a note, for one that says something else than it should.
    """
    cells = [cell for cell in lecture.code if not cell.is_colab]
    uses = [Use(syntax_tree(cell).body) for cell in cells]
    proofs = {place for place, cell in enumerate(cells) if cell.id.startswith("proof-")}
    turns = {cells.index(turn.ours.cell): turn for turn in turns_of(lecture)}
    names = {"__name__": "__main__"}
    for place in with_their_needs(uses, 0, turns, proofs):
        execute(cells[place].id, cells[place].source, names)
        if place in turns:
            try:
                _try_turn(turns[place], names)
            except AssertionError as error:
                error.add_note(f"in the turn {turns[place].ours.name}")
                raise


def _try_turn(turn: Turn, names: dict) -> None:
    """In a notebook's `names` after the cell with our answer, which they stand for afterwards."""
    names["your_turn"] = your_turn
    name = turn.ours.name
    about = names[name].turn
    assert any(outcome.raised is None for outcome in about.outcomes(about.function)), "ours raises in each case"
    assert _said(name, names, turn.yours.cell.source) == f"{UNWRITTEN}\n"
    answer = ast.parse(ast.unparse(turn.ours.function)).body[0]
    answer.decorator_list = [ast.Name("your_turn", ast.Load())]
    assert _said(name, names, ast.unparse(answer)).endswith(f"{RIGHT}\n")
    for right in about.also:
        names[name] = about.function
        right.__name__ = name
        with redirect_stdout(io.StringIO()):
            assert names["your_turn"](right) is right
    for wrong, sentence in about.because.items():
        wrong.__name__ = name
        names[name] = about.function
        printed = io.StringIO()
        with redirect_stdout(printed):
            used = names["your_turn"](wrong)
        assert used is about.function
        assert printed.getvalue().splitlines()[-1] == f"  why    {sentence}"
    names[name] = about.function


def _said(name: str, names: dict, source: str) -> str:
    """What a student's cell with this source prints."""
    names[name] = answer = names[name].turn.function
    printed = io.StringIO()
    with redirect_stdout(printed):
        execute("answer", source, names)
    assert (names[name] is answer) == (not printed.getvalue().endswith(f"{RIGHT}\n"))
    return printed.getvalue()


if __name__ == "__main__":
    path = Path(sys.argv[1]).resolve()
    os.chdir(path.parent)
    try_turns(read(path))
