"""The rules of every lab, and what each of them is there to catch."""

import copy

import pytest
from helpers.labs import LABS, failing, unsolved
from helpers.small_lab import DOUBLE, HINTS, METAS, book, lab_of

from utils.course.lint import labs
from utils.course.notebooks.colab_links import cell_source


@pytest.mark.parametrize(
    ("lab", "rule"),
    [pytest.param(lab, rule, id=f"{name}-{rule.__name__}") for name, lab in LABS.items() for rule in labs.RULES],
)
def test_rule_holds_of(lab, rule):
    assert rule(lab) == []


def test_the_small_lab_is_in_order_and_its_solution_passes(tmp_path):
    lab = lab_of(tmp_path, book())
    assert [problem for rule in labs.RULES for problem in rule(lab)] == []
    assert failing(lab, {}) == {} and lab.tasks[0].points == 2
    assert set(failing(lab, unsolved(lab.tasks[0]))) == {"check-double", "hidden-double"}


MET = [
    (labs.tasks_stand_together, {"task-double": "## Double\n\n**By hand.** 2 is 4."}, {}, "'## Task 1 · '"),
    (labs.tasks_are_explained, {"task-double": "## Task 1 · Double"}, {}, "**By hand.**"),
    (labs.tasks_are_explained, {"hints-double": HINTS[: len(HINTS) // 3]}, {}, "1 hints in <details>, not 3"),
    (
        labs.tasks_are_explained,
        {"code-double": DOUBLE.replace('"""Twice x."""', "...")},
        {},
        "double has no docstring",
    ),
    (
        labs.tasks_have_something_to_solve,
        {"code-double": "def double(x):\n    return 2 * x"},
        {},
        "nothing between",
    ),
    (labs.tasks_have_something_to_solve, {"setup": DOUBLE}, {}, "setup: a solution outside"),
    (
        labs.tasks_have_something_to_solve,
        {"code-double": "### BEGIN SOLUTION: now\ndouble = lambda x: 2 * x\n### END SOLUTION"},
        {},
        "the cell itself raises",
    ),
    (labs.points_are_given, {}, {"check-double": {}}, "check-double: points None"),
    (labs.points_are_given, {}, {"check-double": {"points": True}}, "points True"),
    (
        labs.points_are_given,
        {},
        {"hidden-double": {"points": 1}},
        "the tag hidden and an id hidden-… go together",
    ),
    (labs.points_are_given, {}, {"check-double": {"points": 1, "needs": ["triple"]}}, "needs 'triple'"),
    (labs.points_are_given, {}, {"title": {"scrolled": True}}, "title: metadata scrolled"),
    (labs.points_are_given, {}, {"your-line": {"needs": ["triple"]}}, "your-line: needs 'triple'"),
    (labs.a_starter_can_be_made, {}, {"task-double": {"minutes": 5, "difficulty": 1}}, "importance None"),
    (labs.a_starter_can_be_made, {}, {"task-double": METAS["task-double"] | {"difficulty": 6}}, "difficulty 6"),
    (labs.a_starter_can_be_made, {}, {"title": {"goals": ["double"]}}, "title: no builds_on"),
    (labs.checks_only_ask, {"check-double": "expect_equal(double(2), 4, '')"}, {}, "uses double"),
    (labs.checks_only_ask, {"check-double": "seed = ask('1')\nexpect(seed, True, '', '')"}, {}, "binds seed"),
    (
        labs.checks_only_ask,
        {"check-double": "double = ask('1')\nexpect(double, True, '', '')"},
        {},
        "binds double",
    ),
    (labs.checks_only_ask, {"check-double": "expect_equal(ask('1'), open('f'), '')"}, {}, "uses open"),
    (
        labs.checks_only_ask,
        {"check-double": "expect(ask.namespace['double'], True, '', '')"},
        {},
        "ask.namespace",
    ),
    (
        labs.checks_only_ask,
        {"check-double": "expect(ask('1').__class__, True, '', '')"},
        {},
        "reaches for __class__",
    ),
    (labs.checks_only_ask, {"check-double": "import sys\nexpect(ask('1'), True, '', '')"}, {}, "imports sys"),
    (labs.checks_only_ask, {"hidden-double": "assert ask('double(2)').value == 4"}, {}, "a bare assert"),
    (
        labs.parts_of_points_grow,
        {"check-double": "ask.earned(1)\nexpect_equal(ask('1'), 1, '')"},
        {"check-double": {"points": 2}},
        "nothing was expected before line 1",
    ),
    (
        labs.parts_of_points_grow,
        {"check-double": "expect_equal(ask('1'), 1, '')\nask.earned(2)\nexpect_equal(ask('1'), 1, '')"},
        {"check-double": {"points": 2}},
        "[2, 2], do not rise",
    ),
    (
        labs.parts_of_points_grow,
        {"check-double": "if seed:\n    expect_equal(ask('1'), 1, '')\n    ask.earned(1)"},
        {"check-double": {"points": 2}},
        "stands in a block",
    ),
    (labs.tasks_draw_from_the_seed, {"hidden-double": None}, {}, "task double: no check of it uses seed"),
    (labs.checks_expect_something, {"check-double": "print(ask('double(2)').value)"}, {}, "expects nothing"),
    (labs.checks_expect_something, {"check-double": "expect_equal(4, 4, '')"}, {}, "asks nothing"),
    (
        labs.questions_name_what_exists,
        {"check-double": "y = 2\nexpect_equal(ask('double(y)'), 4, '')"},
        {},
        "a question names y",
    ),
    (labs.questions_name_what_exists, {"check-double": "expect_equal(ask('double('), 4, '')"}, {}, "not Python"),
    (labs.colab_comes_before_all_code, {"colab": None}, {}, "the second cell is not Colab's"),
    (
        labs.colab_comes_before_all_code,
        {"colab": cell_source("notebooks/99_small.ipynb", "")},
        {},
        "the second cell is not",
    ),
    (labs.colab_comes_before_all_code, {"title": "# Lab\n\n[Open in Colab](https://x.org)"}, {}, "link"),
    (labs.parameters_are_there, {"parameters": "device = 1"}, {}, "does not set seed"),
    (labs.parameters_are_there, {}, {"parameters": {}}, "tagged parameters"),
    (labs.set_up_makes_the_names_of_checks, {"setup": "ask = None"}, {}, "makes expect_equal"),
    (labs.ends_with_the_students_own, {"picture-double": None}, {}, "no cell picture-…"),
    (labs.ends_with_the_students_own, {"your-line": "print('Well done')"}, {}, "your-line"),
    (labs.ends_with_the_students_own, {"beyond": None}, {}, "no prose beyond"),
    (labs.pictures_are_read_aloud, {"reading-double": None, "your-picture": None}, {}, "picture-double: no prose"),
    (labs.is_a_good_notebook, {"setup": "import os, sys\nsys.path.append('.')"}, {}, "sys.path"),
]


@pytest.mark.parametrize(("rule", "changes", "metadata", "words"), MET)
def test_rule_catches(rule, changes, metadata, words, tmp_path):
    found = rule(lab_of(tmp_path, book(changes, metadata)))
    assert any(words in problem for problem in found), found


def test_other_ways_stand_right_behind_the_last_check_of_their_task(tmp_path):
    moved = book()
    (place,) = (k for k, cell in enumerate(moved["cells"]) if cell["id"] == "ways-double")
    moved["cells"].insert(place - 1, moved["cells"].pop(place))  # between the two checks
    found = labs.other_ways_follow_their_task(lab_of(tmp_path, moved))
    assert len(found) == 1 and found[0].startswith("cell ways-double:")
    nobodys = book()
    nobodys["cells"][place]["id"] = "ways-triple"
    assert len(labs.other_ways_follow_their_task(lab_of(tmp_path, nobodys))) == 1


def test_a_task_with_a_cell_missing_or_twice_is_no_task(tmp_path):
    with pytest.raises(ValueError, match="task double has no cell check-double"):
        lab_of(tmp_path, book({"check-double": None}))
    twice = book()
    twice["cells"].append(copy.deepcopy(twice["cells"][8]))
    with pytest.raises(ValueError, match="two cells check-double"):
        lab_of(tmp_path, twice)
