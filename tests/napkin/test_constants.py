"""No number is taken on trust: each constant of facts, papers and formulas, made a little wrong, turns a test red.

One at a time, every number in the source becomes 1.01 times itself, one more and one less, and every flag its opposite;
the module is compiled anew, put in the place of the real one in these modules' tests, and one of them must fail. A processor
of which tests/test_facts.py knows no second page is left out: add one there, and its figures are held too.
"""

import ast
import inspect
import os
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import test_facts
import test_formulas
import test_papers

from utils import facts
from utils.napkin import formulas, papers

TESTS = (test_facts, test_papers, test_formulas)

# What may survive: a piece of its line, the change, and why.
EXCUSED = [
    ("frozen=True", "True -> False", "no number: a row that could be changed computes the same"),
    ("strict=True", "True -> False", "no number: the lengths are equal by construction"),
    *(
        ("_geforce(", f"[{cores} -> {cores + one}]", "one core of thousands: the printed peaks have three digits")
        for cores in (5888, 8704, 10496, 9728, 6144, 10752, 21760)
        for one in (1, -1)
    ),
]
if "COURSE_DATA" not in os.environ:
    EXCUSED.append(("_fashion_file(", "->", "the size of a compressed file, which is not here to be weighed"))


def excused(change: str) -> bool:
    return any(piece in change and kind in change for piece, kind, _ in EXCUSED)


def wrong(value: float | bool) -> list[float | bool]:
    """The small changes: the opposite of a flag; of a number 1 % more, one more, one less."""
    if isinstance(value, bool):
        return [not value]
    return [value * 1.01, value + 1, value - 1] if value else [1, -1]


def of_one_page(tree: ast.AST) -> set[ast.AST]:
    """What stands in the entries of the processors whose figures no other page confirms."""
    alone = {processor.name for processor in facts.PROCESSORS} - test_facts.CONFIRMED
    entries = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    names = [(entry, getattr(entry.args[0], "value", None)) for entry in entries]
    return {
        part
        for entry, name in names
        if isinstance(name, str) and any(each == name or each.endswith(f" {name}") for each in alone)
        for part in ast.walk(entry)
    }


def mutants(module: types.ModuleType) -> Iterator[tuple[str, types.CodeType]]:
    """(the line and what was changed in it, the module's code with that change), one change at a time."""
    source = Path(module.__file__).read_text()
    lines, tree = source.splitlines(), ast.parse(source)
    left_out = of_one_page(tree)
    for node in ast.walk(tree):
        if node not in left_out and isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            right = node.value
            for value in wrong(right):
                node.value = value
                change = f"{node.lineno}: {lines[node.lineno - 1].strip()}  [{right} -> {value}]"
                yield change, compile(tree, module.__file__, "exec")
            node.value = right


def plain_tests(modules: Sequence[types.ModuleType]) -> list[Callable[[], None]]:
    return [
        function
        for module in modules
        for name, function in vars(module).items()
        if name.startswith("test_") and inspect.isfunction(function) and not inspect.signature(function).parameters
    ]


def red(test: Callable[[], None]) -> bool:
    try:
        test()
    except pytest.skip.Exception:
        return False
    except (Exception, pytest.fail.Exception):  # the latter is what pytest.raises raises if nothing does
        return True
    return False


def first_red(tests: list[Callable[[], None]]) -> Callable[[], None] | None:
    """The first test that fails; it moves to the front, because the next change is likely to be near this one."""
    for place, test in enumerate(tests):
        if red(test):
            tests.insert(0, tests.pop(place))
            return test
    return None


def survivors(module: types.ModuleType, test_modules: Sequence[types.ModuleType]) -> tuple[list[str], int]:
    """The changes of `module` that no test of `test_modules` notices, and how many changes were tried."""
    tests, found, tried = plain_tests(test_modules), [], 0
    places = [(test, name) for test in test_modules for name, value in vars(test).items() if value is module]
    assert places and first_red(tests) is None, "all is green with the real module"
    for change, code in mutants(module):
        tried += 1
        stand_in = types.ModuleType(module.__name__)
        stand_in.__file__ = module.__file__
        try:
            exec(code, stand_in.__dict__)
        except Exception:
            continue  # red: it cannot even be imported
        with pytest.MonkeyPatch.context() as patch:
            for test, name in places:
                patch.setattr(test, name, stand_in)
            if first_red(tests) is None:
                found.append(change)
    return found, tried


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("module", [facts, papers, formulas], ids=lambda module: module.__name__)
def test_every_constant_is_held_by_a_test(module):
    found, tried = survivors(module, TESTS)
    assert tried > 200
    assert [change for change in found if not excused(change)] == []


def test_a_constant_that_no_test_reads_survives(tmp_path):
    path = tmp_path / "numbers.py"
    path.write_text("HELD = 3\nLOOSE = 200\nUNREAD = True\n")
    numbers, tests = types.ModuleType("numbers"), types.ModuleType("tests")
    exec(path.read_text(), numbers.__dict__)
    numbers.__file__, tests.numbers = str(path), numbers

    def test_held():
        assert tests.numbers.HELD == 3 and abs(tests.numbers.LOOSE - 200) < 2

    tests.test_held = test_held
    found, tried = survivors(numbers, [tests])
    assert found == [
        "2: LOOSE = 200  [200 -> 201]",
        "2: LOOSE = 200  [200 -> 199]",
        "3: UNREAD = True  [True -> False]",
    ]
    assert tried == 7 and tests.numbers is numbers
