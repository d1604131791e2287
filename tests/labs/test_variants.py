"""What students write: wrong code is caught by its task's check, which says what is wrong; other right code passes."""

import ast
import functools
import re
from itertools import zip_longest

import pytest
import torch
from helpers import lab_worker
from helpers.labs import COMPILES, LABS, PASSED, QUICK, cells_of, each_lab, failing, nightly_in, relying_on, verdicts
from variants import RUN, Variant, Variants, all_variants, replaced, solved, stopped_where_it_differs

import utils.data
from utils.lab import Ask

VARIANTS = all_variants()
WRONG, RIGHT = 5, 2  # variants that each lab has at the least
STALE = "AttributeError|ImportError|ModuleNotFoundError|NameError|UnboundLocalError"


def task_of(variant: Variant):
    (task,) = (task for task in LABS[variant.lab].tasks if task.name == variant.task)
    return task


def cell_of(variant: Variant) -> dict[str, str]:
    """The student's code, by the id of its cell."""
    task = task_of(variant)
    return {task.code.id: variant.code(task.code.source)}


def rights_together() -> list[list[Variant]]:
    """The right variants of each lab in rounds: of each task its first, then of each its second, and so on."""
    rounds = []
    for name, lab in LABS.items():
        rights = [variant for variant in VARIANTS if variant.lab == name and variant.right and not variant.alone]
        of_tasks = ([variant for variant in rights if variant.task == task.name] for task in lab.tasks)
        rounds += [[variant for variant in each if variant] for each in zip_longest(*of_tasks)]
    return rounds


def other_ways() -> list[Variant]:
    """The code that changes are made in where that is neither the solution's nor a right variant's."""
    whole = {(variant.lab, variant.task, variant.changes) for variant in VARIANTS}
    ways = dict.fromkeys((variant.lab, variant.task, variant.of) for variant in VARIANTS if variant.of)
    return [Variant(lab, task, "another way", True, of) for lab, task, of in ways if (lab, task, of) not in whole]


@pytest.fixture(autouse=True, scope="module")
def cheap_set_up():
    """Lab 12 reads 30 MB of files in its first cell, the same for each variant: read them once. And no thread pools."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils.data, "fashion_mnist_files", functools.cache(utils.data.fashion_mnist_files))
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [pytest.param(each, id=each.id, marks=nightly_in(each.lab, COMPILES)) for each in VARIANTS + other_ways()],
)
def test_wrong_code_is_caught_and_right_code_is_not(variant):
    task = task_of(variant)
    found = failing(LABS[variant.lab], cell_of(variant), [task])
    if variant.right:
        assert found == {}
    else:
        first, message = next(iter(found.items()), ("nothing", PASSED))
        assert first == task.check.id, found
        assert message.startswith("AssertionError: "), message
        assert [words for words in variant.says if words not in message] == [], message
        died_of = re.findall(rf"^got: +({STALE})", message, re.MULTILINE)
        assert set(died_of) <= set(variant.says), f"of a name that is not there, which is not what is wrong: {message}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(each, id=each.id, marks=nightly_in(each.lab, COMPILES))
        for each in VARIANTS + other_ways()
        if each.right
    ],
)
def test_what_is_other_in_right_code_was_run(variant):
    task = task_of(variant)
    code = stopped_where_it_differs(cell_of(variant)[task.code.id], solved(task.code.source))
    found = failing(LABS[variant.lab], {task.code.id: code}, [task])
    assert any(RUN in message for message in found.values()), found or "its check passes without these lines"


@pytest.mark.slow
@pytest.mark.parametrize(
    "together",
    [
        pytest.param(
            each,
            id=f"{each[0].lab}-{len(each)}-{each[0].task}",
            marks=() if each[0].lab == QUICK else pytest.mark.nightly,
        )
        for each in rights_together()
    ],
)
def test_right_code_of_several_tasks_serves_the_tasks_that_need_it(together):
    lab = LABS[together[0].lab]
    code = {cell: source for variant in together for cell, source in cell_of(variant).items()}
    assert failing(lab, code, relying_on(lab, *map(task_of, together))) == {}


@pytest.mark.slow
@each_lab
def test_verdict_is_the_same_across_a_boundary(lab, worker):
    """Of one variant a lab: what holds of the boundary holds of all, and test_grade.py looks at it closely."""
    variant = next(variant for variant in VARIANTS if variant.lab == lab.name and not variant.right)
    found = failing(lab, cell_of(variant), [task_of(variant)])
    assert found and failing(lab, cell_of(variant), [task_of(variant)], worker=worker) == found


@each_lab
def test_variants_fit_the_solution_and_differ_from_it_and_from_each_other(lab):
    variants = [variant for variant in VARIANTS if variant.lab == lab.name]
    for task in lab.tasks:
        codes = [variant.code(task.code.source) for variant in variants if variant.task == task.name]
        trees = [ast.dump(ast.parse(code)) for code in (task.code.source, *codes)]
        assert len(set(trees)) == len(trees)


@each_lab
def test_enough_variants_were_tried(lab):
    kinds = [variant.right for variant in VARIANTS if variant.lab == lab.name]
    assert kinds.count(False) >= WRONG and kinds.count(True) >= RIGHT
    assert {variant.task for variant in VARIANTS if variant.lab == lab.name} <= {task.name for task in lab.tasks}


def test_each_variant_has_a_name_of_its_own_and_a_wrong_one_says_what_is_wrong():
    assert len({variant.id for variant in VARIANTS}) == len(VARIANTS)
    assert [variant.id for variant in VARIANTS if bool(variant.says) == variant.right] == []


# The form in which variants are written

CELL = '''
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    y = x
    if x:
        y += x
    return y
    ### INSTEAD
    # return x
    ### END SOLUTION
'''.strip()


def test_a_solution_loses_its_marks_and_what_stands_instead():
    assert solved(CELL).split("\n")[2:] == ["    y = x", "    if x:", "        y += x", "    return y"]
    hint = "def f():\n    ### BEGIN SOLUTION: one\n    return 1\n    ### END SOLUTION\n\n\nx = 2  # two"
    assert solved(hint) == "def f():\n    return 1\n\n\nx = 2  # two"


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("y = x", "y = 2 * x", "    y = 2 * x\n    if x:\n        y += x\n    return y"),
        ("if x:\n    y += x", "y += x\ny += 0", "    y = x\n    y += x\n    y += 0\n    return y"),
        (
            "y += x",
            "for _ in x:\n    y += 1",
            "    y = x\n    if x:\n        for _ in x:\n            y += 1\n    return y",
        ),
        ("if x:\n    y += x\nreturn y", "", "    y = x\n    "),
    ],
)
def test_a_change_is_made_at_the_indentation_of_the_line_it_begins_in(old, new, wanted):
    assert replaced(solved(CELL), old, new).split("\n", 2)[2] == wanted


def test_code_is_stopped_where_the_solution_has_other_lines():
    other = solved(CELL).replace("y += x", "y *= 2")
    assert stopped_where_it_differs(solved(CELL), solved(CELL)) == ast.unparse(ast.parse(solved(CELL)))
    stopped = stopped_where_it_differs(other, solved(CELL))
    assert stopped.count(RUN) == 1 and "y = x" in stopped and "return y" in stopped and "y *= 2" not in stopped


@pytest.mark.parametrize(("old", "times"), [("y += 2", 0), ("y", 3), ("y = x\ny += x", 0), ("", 0)])
def test_a_change_that_fits_nowhere_or_twice_is_refused_by_the_variants_name(old, times):
    variants = Variants("99_small")
    wrong, _ = variants.task("double")
    wrong("never right", (old, "z"), says=["no"])
    with pytest.raises(ValueError, match=rf"99_small-wrong_double_never_right: .* occurs {times} times"):
        variants[0].code(CELL)


def test_changes_are_those_of_the_solution_or_of_another_way_or_there_is_a_whole_cell():
    variants = Variants("99_small")
    wrong, right = variants.task("double")
    another_way = """
    double = lambda x: 2 * x
    """
    wrong("once", ("y += x", "pass"), ("y = x", "y = 1 * x"), says=["2"])
    wrong("thrice", ("2", "3"), of=another_way, says=["2"])
    right("in a line", another_way)
    assert [variant.code(CELL) for variant in variants] == [
        'def double(x):\n    """Twice x."""\n    y = 1 * x\n    if x:\n        pass\n    return y',
        "double = lambda x: 3 * x",
        "double = lambda x: 2 * x",
    ]
    for changes in ([], ["double = abs", "x"], [("old", "new", "newer")], ["double = abs", ("old", "new")]):
        with pytest.raises(ValueError, match="in vain: changes are pairs"):
            right("in vain", *changes)


# Points in parts


def stubs(task) -> dict[str, str]:
    """Cells with the names of the solution's in which each function does nothing but return: None, or its first argument."""

    class Stub(ast.NodeTransformer):
        def __init__(self, first: bool):
            self.first = first

        def visit_FunctionDef(self, node):
            if node.name == "__exit__":  # else what was entered here stays on in the tests after this one
                return node
            names = [each.arg for each in node.args.args if each.arg != "self"]
            value = names[0] if self.first and names and node.name != "__init__" else "None"
            node.body = ast.parse(f"return {value}").body
            return node

    tree = solved(task.code.source)
    return {
        "the starter": task.starter,
        "returns None": ast.unparse(Stub(False).visit(ast.parse(tree))),
        "returns what it gets": ast.unparse(Stub(True).visit(ast.parse(tree))),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "task"),
    [
        pytest.param(lab, task, id=f"{lab.name}-{task.name}")
        for lab in LABS.values()
        for task in lab.tasks
        if any("ask.earned(" in check.source for check in task.checks)
    ],
)
def test_code_that_does_nothing_earns_no_part(lab, task):
    for name, code in stubs(task).items():
        ask = Ask(lab_worker.run(cells_of(lab, {task.code.id: code}, task)))
        assert PASSED not in verdicts([task], ask).values() and ask.points == 0, name
