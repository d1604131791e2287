"""labs/ is what solutions/ make: no solution leaks, ids and points stay; the marks, and the release itself."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from helpers.labs import each_lab
from helpers.paths import ROOT
from helpers.small_lab import DOUBLE, SMALL, book

from utils.course.notebooks.lab import solution_lines, starter, without_solution
from utils.course.notebooks.notebook import load, text_of
from utils.course.notebooks.release import release
from utils.course.notebooks.starter_cells import RUN_ALL_GOES_ON
from utils.course.notebooks.tidy import FOLDED, as_bytes

ONLY = ("points-so-far", "checks", "hand-in-intro", "hand-in")  # cells of a starter that its solution has not


def test_labs_are_what_the_solutions_make(capsys):
    assert release(ROOT / "solutions", ROOT / "labs", check=True) == 0, capsys.readouterr().out


def leaks(solution: dict, starter_text: str) -> list[str]:
    """Lines of code that only a solution or a hidden check has, and that the starter nevertheless shows."""
    secret, open_lines = set(), set()
    for cell in solution["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = text_of(cell["source"])
        if "hidden" in cell["metadata"].get("tags", []):
            secret |= {line.strip() for line in source.splitlines()}
        else:
            secret |= set(solution_lines(source))
            open_lines |= {line.strip() for line in without_solution(source).splitlines()}
    shown = {text_of(line).strip() for cell in json.loads(starter_text)["cells"] for line in cell["source"]}
    found = sorted((secret - open_lines - {""}) & shown)
    marks = ("SOLUTION", "### INSTEAD", '"hidden', "hidden-", '"ways-')
    return found + [mark for mark in marks if mark in starter_text]


@each_lab
def test_nothing_leaks_into_the_starter(lab):
    text = (ROOT / "labs" / lab.book.path.name).read_text()
    assert leaks(load(lab.book.path), text) == []
    assert [cell for cell in json.loads(text)["cells"] if cell.get("outputs") or cell.get("execution_count")] == []


@each_lab
def test_ids_and_points_are_those_of_the_solution(lab):
    kept = [cell.raw for cell in lab.book.cells if not cell.id.startswith(("hidden-", "ways-"))]
    cells = [cell for cell in load(ROOT / "labs" / lab.book.path.name)["cells"] if cell["id"] not in ONLY]
    assert [unfolded(cell) for cell in kept] == [unfolded(cell) for cell in cells]


@each_lab
def test_the_checks_of_a_starter_ask_what_those_of_the_solution_ask(lab):
    cells = {cell["id"]: text_of(cell["source"]) for cell in load(ROOT / "labs" / lab.book.path.name)["cells"]}
    for task in lab.tasks:
        assert f"\n# %% {task.name}\n{task.check.source.rstrip()}\n" in cells["checks"]
        assert cells[task.check.id].startswith(f'progress.check("{task.name}")  # task ')
    assert cells["checks"].count("\n# %% ") == len(lab.tasks)


def unfolded(cell: dict) -> tuple[str, dict]:
    """The id, and the metadata that say nothing of folding, nor of going on behind an error, which a solution must not."""
    about = {key: cell["metadata"][key] for key in cell["metadata"].keys() - FOLDED.keys()}
    return cell["id"], {key: value for key, value in about.items() if value != [RUN_ALL_GOES_ON]}


# The marks


def test_a_solution_becomes_what_its_marks_say():
    assert without_solution(DOUBLE).splitlines()[2:] == ['    raise NotImplementedError("double: add it to itself")']
    begun = "x = 1\nif x:\n    ### BEGIN SOLUTION\n    y = 2\n"
    changed = begun + "    ### INSTEAD\n    # y = None  # yours\n    #   \n    ### END SOLUTION\nz = 3"
    assert without_solution(changed) == "x = 1\nif x:\n    y = None  # yours\n\nz = 3"
    assert solution_lines(changed) == ["y = 2"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("### BEGIN SOLUTION: a\nx", "never ends"),
        ("### END SOLUTION", "line 1: a solution ends that never began"),
        ("### BEGIN SOLUTION: a\n### BEGIN SOLUTION: b\n### END SOLUTION", "line 2: a solution begins inside another"),
        ("### BEGIN SOLUTION\nx\n### END SOLUTION", "line 3: a solution with neither a hint"),
        ("### BEGIN SOLUTION: a\n### INSTEAD\n# x\n### END SOLUTION", "line 2: ### INSTEAD stands once"),
        ("### INSTEAD", "line 1: ### INSTEAD stands once"),
        ("### BEGIN SOLUTION\nx\n### INSTEAD\ny\n### END SOLUTION", "line 4: after ### INSTEAD every line"),
        ('### BEGIN SOLUTION: say "x"\n### END SOLUTION', "line 1: a hint without"),
        ("## BEGIN SOLUTION: a", "nearly a mark"),
        ("### BEGIN  SOLUTION", "nearly a mark"),
        ("x = 1  ### END SOLUTION", "nearly a mark"),
        ("###BEGIN SOLUTION", "nearly a mark"),
    ],
)
def test_marks_that_do_not_pair_are_refused(source, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        without_solution(source)


# Release


def two_folders(folder: Path) -> tuple[Path, Path]:
    (folder / "solutions").mkdir()
    (folder / "solutions" / "99_small.ipynb").write_bytes(as_bytes(book()))
    return folder / "solutions", folder / "labs"


def test_release_takes_out_solutions_and_hidden_checks_and_twice_is_once(tmp_path, capsys):
    solutions, labs = two_folders(tmp_path)
    assert release(solutions, labs, check=True) == 1 and not labs.exists()
    assert release(solutions, labs) == 0 and "made" in capsys.readouterr().out
    text = (labs / "99_small.ipynb").read_text()
    assert leaks(book(), text) == []
    cells = [cell["id"] for cell in json.loads(text)["cells"] if cell["id"] not in ONLY]
    assert cells == [name for name, _ in SMALL if name not in ("hidden-double", "ways-double")]
    assert release(solutions, labs) == release(solutions, labs, check=True) == 0 and capsys.readouterr().out == ""
    assert (labs / "99_small.ipynb").read_text() == text


def test_release_says_what_differs_and_what_has_no_solution(tmp_path, capsys):
    solutions, labs = two_folders(tmp_path)
    release(solutions, labs)
    mine = labs / "my_notes.ipynb"
    mine.write_text("{}")
    assert release(solutions, labs) == 1 and mine.exists()
    assert "my_notes.ipynb: no solution makes it" in capsys.readouterr().out
    mine.unlink()
    (labs / "99_small.ipynb").write_text("{}")
    assert release(solutions, labs, check=True) == 1
    assert "99_small.ipynb: differs" in capsys.readouterr().out and (labs / "99_small.ipynb").read_text() == "{}"


def test_release_writes_nothing_if_one_solution_is_unfit(tmp_path):
    solutions, labs = two_folders(tmp_path)
    bad = book({"code-double": "### END SOLUTION"})
    (solutions / "99_torn.ipynb").write_bytes(as_bytes(bad))
    with pytest.raises(ValueError, match=r"99_torn.ipynb: cell code-double: line 1"):
        release(solutions, labs)
    assert not labs.exists()


def test_the_leak_test_sees_leaks():
    clean = as_bytes(starter(book())).decode()
    assert leaks(book(), clean) == []
    assert leaks(book(), as_bytes(book()).decode())[:2] == [
        'expect_equal(ask("double(x)", x=seed), 2 * seed, next_step="add")',
        "return twice",
    ]
    assert leaks(book(), clean.replace('"It grows."', '"twice = x + x"')) == ["twice = x + x"]


def test_make_release_runs_it():
    done = subprocess.run(["make", "--dry-run", "release"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "utils.course release" in done.stdout
