"""A starter's checks: what counts, what is open, what is wrong and raises; and the cells that wait for them."""

import json
import re

import pytest
from helpers.notebook_shell import notebook_shell

from utils.lab import progress as progress_module
from utils.lab.ask import Wrong
from utils.lab.progress import Progress, Task, fingerprint

SETUP = "from utils.lab import Ask, expect_equal\n\nask = Ask(globals())"
GIVEN = "# YOUR CODE\ndef triple(x):\n    return x"
TASKS = {
    "double": Task(2, hidden=1, defines=("double",)),
    "triple": Task(3, defines=("triple",), unchanged=fingerprint(GIVEN)),
}
RIGHT = "def double(x):\n    return 2 * x"
CHECKS = """%%checks   # what the checks ask
# %% double
expect_equal(ask("double(x)", x=4), 8, next_step="add")
print("Seen.")

# %% triple
expect_equal(ask("triple(x)", x=4), 12, next_step="add twice")
"""
CHECK_DOUBLE = 'progress.check("double")  # task 1'
CHECK_TRIPLE = 'progress.check("triple")'


@pytest.fixture
def shell():
    with notebook_shell() as made:
        made.run_cell(SETUP)
        made.user_ns["progress"] = Progress(made, made.user_ns["ask"], TASKS)
        made.run_cell(CHECKS)
        yield made


@pytest.fixture
def run(shell, capsys):
    """What running some cells prints; the exception of the last one is kept in shell.user_ns["error"]."""

    def run(*cells: str) -> str:
        for cell in cells:
            capsys.readouterr()
            outcome = shell.run_cell(cell, store_history=True)
            shell.user_ns["error"] = outcome.error_before_exec or outcome.error_in_exec
        return capsys.readouterr().out

    return run


def wrong(shell) -> str:
    error = shell.user_ns["error"]
    assert type(error) is Wrong
    return str(error)


def test_a_passed_check_counts_its_points(shell, run):
    told = run(RIGHT, CHECK_DOUBLE)
    assert told == "Seen.\nTask 1: 2 of 2, 2 of 5 so far  ██░░░\n" and shell.user_ns["error"] is None
    assert run(CHECK_DOUBLE) == told, "twice is once"


def test_a_check_is_one_line_and_says_what_to_do_where_it_is_unknown(shell, run):
    run("%%checks\n# %% triple\n1", CHECK_DOUBLE)
    assert "Run All Cells" in str(shell.user_ns["error"])
    run('progress.check("dubble")')
    assert str(shell.user_ns["error"]) == "no task is called 'dubble': they are double, triple"


def test_what_is_not_written_yet_is_open_and_raises_nothing(shell, run):
    told = run('def double(x):\n    raise NotImplementedError("double: add")', CHECK_DOUBLE)
    assert told == "Task 1 is open: double: add\n" and shell.user_ns["error"] is None


def test_a_wrong_answer_raises_with_the_verdict_first_and_the_students_line_last(shell, run):
    told = run("def half(x):\n    return x // 0\n\n\ndef double(x):\n    return half(x)", CHECK_DOUBLE)
    lines = wrong(shell).splitlines()
    assert lines[0] == "Task 1 is not right yet." and lines[1] == "double(x)" and "ZeroDivisionError" in lines[-2]
    shown = told.splitlines()
    assert shown[: len(lines)] == lines
    assert shown[len(lines) :] == [
        "in:       double, line 6 of its cell: return half(x)",
        "in:       half, line 2 of its cell: return x // 0",
    ]


def test_points_are_taken_back_when_the_code_is_no_longer_right(shell, run):
    told = run(RIGHT, CHECK_DOUBLE, "def double(x):\n    return x", CHECK_DOUBLE)
    assert told == wrong(shell) + "\n", "nothing was raised in the student's code"
    assert wrong(shell).splitlines()[3:] == ["expected: 8", "got:      4", "next:     add"]
    assert "0 of 5 so far  ░░░░░\nTask 1: 0 of 2   wrong\n" in run("progress.hand_in()")


IN_PARTS = (
    '%%checks\n# %% triple\nexpect_equal(ask("triple(x)", x=4), 12, next_step="add twice")\nask.earned(2)\n'
    'expect_equal(ask("triple(x)", x=-4), -12, next_step="and of a negative number")'
)


def test_what_was_right_before_the_mistake_keeps_its_points(shell, run):
    run("def triple(x):\n    return 3 * abs(x)", IN_PARTS, CHECK_TRIPLE)
    assert wrong(shell).startswith("Task 2 is not right yet: 2 of 3.\n")
    assert "2 of 5 so far  ██░░░\nTask 1: 0 of 2   its check was not run\nTask 2: 2 of 3   wrong\n" in run(
        "progress.hand_in()"
    )
    assert "waits for task 2" in run("%%needs triple\ntriple(4)"), "the task itself is not done"
    unwritten = "def triple(x):\n    if x < 0:\n        raise NotImplementedError('triple: later')\n    return 3 * x"
    assert run(unwritten, CHECK_TRIPLE) == "Task 2 is open, 2 of 3: triple: later\n"
    run("def triple(x):\n    return x", CHECK_TRIPLE)
    assert wrong(shell).startswith("Task 2 is not right yet.\n") and "0 of 5" in run("progress.hand_in()")
    assert run("def triple(x):\n    return 3 * x", CHECK_TRIPLE) == "Task 2: 3 of 3, 3 of 5 so far  ███░░\n"


def test_a_cell_that_is_no_python_is_not_checked_by_its_older_version(shell, run):
    run(RIGHT, CHECK_DOUBLE, "x = 1\ndef double(x):\n    return (2 * x", CHECK_DOUBLE)
    assert "line 3 of your cell is not Python ('(' was never closed)" in wrong(shell)
    assert run(RIGHT, CHECK_DOUBLE).startswith("Seen.")
    run("def triple(x):\n    return (", CHECK_DOUBLE)
    assert shell.user_ns["error"] is None, "it is another task's"


def test_a_definition_that_left_its_cell_is_not_checked(shell, run):
    own = "# Task 1 · YOUR CODE: write it here\n"
    run(own + RIGHT, own + RIGHT.replace("double", "dubble"), CHECK_DOUBLE)
    assert "your cell does not define `double` any more" in wrong(shell) and "0 of 5" in run("progress.hand_in()")
    assert run(own + RIGHT, CHECK_DOUBLE).startswith("Seen.")
    assert run(own + "help_me = 1", RIGHT, CHECK_DOUBLE).startswith("Seen."), "it stands in a cell of the student's own"


def test_a_long_question_is_folded_below_the_message(shell, run):
    question = "\n".join(["y = x"] * 9 + ["double(y) < 0"])
    long = f'%%checks\n# %% double\nexpect_equal(ask("""{question}""", x=4), True, next_step="add")'
    told = run("def double(x):\n    return x", long, CHECK_DOUBLE)
    assert len(wrong(shell).splitlines()) <= 8
    assert told == f"{wrong(shell)}\nWhat was asked:\n{question}\n    with x = 4\n"


def test_other_ways_are_shown_when_the_check_has_passed(shell, run, monkeypatch, tmp_path):
    cells = {"check-double": shell.user_ns["progress"].codes["double"], "ways-double": "As `x + x`."}
    book = {"cells": [{"id": name, "source": [text]} for name, text in cells.items()]}
    (tmp_path / "01_small.ipynb").write_text(json.dumps(book), encoding="utf-8")
    monkeypatch.setattr(progress_module, "SOLUTIONS", tmp_path)
    run("def double(x):\n    return x")
    assert "x + x" not in run(CHECK_DOUBLE)
    assert run(RIGHT, CHECK_DOUBLE).endswith("░░░\nAs `x + x`.\n")


def test_code_to_be_repaired_is_open_until_it_is_changed(shell, run):
    assert run(GIVEN, CHECK_TRIPLE) == "Task 2 is open: its cell is as it was given\n"
    run(GIVEN.replace("return x", "return 2 * x"), CHECK_TRIPLE)
    assert "got:      8" in wrong(shell)
    assert run(GIVEN.replace("return x", "return 3 * x"), CHECK_TRIPLE) == "Task 2: 3 of 3, 3 of 5 so far  ███░░\n"


def test_a_loop_that_is_interrupted_is_shown_where_it_was(shell, run):
    told = run("def double(x):\n    raise KeyboardInterrupt", CHECK_DOUBLE)
    assert "It was interrupted." in wrong(shell) and told.endswith(
        "in:       double, line 2 of its cell: raise KeyboardInterrupt\n"
    )


def test_what_a_check_does_not_expect_is_as_short(shell, run):
    told = run(
        "def double(x):\n    return [][x]", '%%checks\n# %% double\nask("double(x)", x=4).value + 1', CHECK_DOUBLE
    )
    assert wrong(shell).splitlines()[1:] == [
        "IndexError: list index out of range",
        "asked: double(x)",
        "    with x = 4",
    ]
    assert told.splitlines()[4:] == ["in:       double, line 2 of its cell: return [][x]"], "and no line of the check"


def test_a_recursion_without_end_is_a_few_lines(shell, run):
    told = run("def double(x):\n    return other(x)\n\n\ndef other(x):\n    return double(x)", CHECK_DOUBLE)
    assert "RecursionError" in wrong(shell) and len(told.splitlines()) < 12
    assert re.search(r"\nin:       … [\d,]+ more calls …\n", told)


def test_a_later_cell_waits_for_the_tasks_it_needs(shell, run):
    picture = "%%needs double triple\nseen = [double(n) for n in range(3)]\nseen"
    assert (
        run(RIGHT, CHECK_DOUBLE, picture) == "This cell waits for task 2: run it again when the checks have passed.\n"
    )
    assert "seen" not in shell.user_ns
    assert run(picture.replace(" triple", "")) == "Out[4]: [0, 2, 4]\n", "its last line is shown"


def test_the_end_names_the_file_and_what_is_missing(shell, run, tmp_path, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    told = run(RIGHT, CHECK_DOUBLE, "progress.hand_in()")
    assert told.startswith("2 of 5 so far  ██░░░\nTask 1: 2 of 2\nTask 2: 0 of 3   its check was not run\n")
    assert "Hidden checks, when it is graded: up to 1 more.\n" in told and "Save this notebook first" in told
    assert "this notebook (in Colab" in told
    file = tmp_path / "01_mine.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(file))
    assert str(file) not in run("progress.hand_in()"), "it is not there"
    file.touch()
    assert f"{file}  (last saved at " in run("progress.hand_in()")
