"""The line in which a passing cell says what it compared."""

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from utils.checks.shown import GREEN, MARK, PLAIN, WIDTH, in_words, line_of

HEAD = f"{GREEN}{MARK}{PLAIN} "


@pytest.fixture
def shell():
    shell = InteractiveShell()
    shell.run_cell("import torch; from utils.checks import explain_asserts, raises; explain_asserts()")
    return shell


def shown(shell, capsys, source: str) -> str:
    """What a cell prints, without the mark."""
    capsys.readouterr()
    assert shell.run_cell(source).success
    return capsys.readouterr().out.strip().removeprefix(HEAD)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            "allocated = 9_869_400\npredicted = 8 * 1_233_675\nassert allocated == predicted",
            "allocated 9,869,400 = predicted 9,869,400",
        ),
        ("x = 0.25\nassert x < 1 / 3", "x 0.25 < 0.333333"),
        ("low, x = 1, 2.5\nassert low <= x != 3", "low 1 ≤ x 2.5 ≠ 3"),
        ("assert (2 + 3, [1] * 2) == (5, [1, 1])", "(5, [1, 1]) = (5, [1, 1])"),
        ("x = [4, 5]\nassert len(x) == 2 and x[0] == 4", "len(x) 2 = 2"),
        ("x = torch.zeros(2, 3)\nassert torch.equal(x, x + 0)", "torch.equal(x, x + 0)"),
        ("x = torch.tensor(7.0)\nassert x == 7", "x 7 = 7"),
        ("x = torch.ones(4, 2)\nassert x is not None", "x float32[4, 2] is not None"),
        ("assert torch.ones(2).dtype is torch.float32", "torch.ones(2).dtype float32 is torch.float32 float32"),
        ("for n in range(3):\n    assert n < 3", "n 0 < 3"),
        ("a = b = 1\nassert a == 1\nassert b < 2", "a 1 = 1 · b 1 < 2"),
        ("def check(x):\n    assert x == 1\ncheck(1)", "x 1 = 1"),
        ("x = torch.ones(2)\ntorch.testing.assert_close(x, x * 1)", "x ≈ x * 1"),
        (
            "with raises(ZeroDivisionError, 'zero'):\n    1 // 0",
            "ZeroDivisionError: integer division or modulo by zero",
        ),
        ("x = 1", ""),
    ],
)
def test_both_sides_are_shown(shell, capsys, source, line):
    assert shown(shell, capsys, source) == line


def test_a_cell_that_fails_shows_its_error_alone(shell, capsys):
    failed = shell.run_cell("assert 1 == 1\nx = 2\nassert x == 3")
    assert "assert 2 == 3" in str(failed.error_in_exec)
    assert MARK not in capsys.readouterr().out
    assert shown(shell, capsys, "assert 4 == 4") == "4 = 4", "and nothing is left of it in the next"


def test_the_number_of_the_claim_comes_from_the_cell(shell, capsys):
    shell.run_cell("assert 1 == 1", cell_id="proof-7-3")
    assert capsys.readouterr().out == f"{HEAD}7.3  1 = 1\n"


def test_a_value_is_computed_once_and_let_go_of(shell, capsys):
    shell.run_cell("import weakref\ncalls = []\ndef made():\n    calls.append(torch.zeros(9)); return calls.pop()")
    assert shown(shell, capsys, "assert made().sum() == 0") == "made().sum() 0 = 0"
    shell.run_cell(
        "kept = []\ndef seen():\n    t = torch.zeros(5); kept.append(weakref.ref(t)); return t\nassert seen() is not None"
    )
    assert shell.user_ns["kept"][0]() is None
    assert len(shell.user_ns["kept"]) == 1


def test_a_mode_that_counts_operators_sees_none_of_it(shell):
    source = """
from torch.utils._python_dispatch import TorchDispatchMode
class Count(TorchDispatchMode):
    seen = 0
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        Count.seen += 1
        return function(*args, **(kwargs or {}))
x = torch.tensor(1.0)
with Count():
    assert x is not None
"""
    assert shell.run_cell(source).success
    assert shell.user_ns["Count"].seen == 0


def test_a_line_is_one_line():
    line = line_of([f"value {n} = value {n}" for n in range(40)], "1.2")
    assert len(line) < WIDTH + 40 and line.endswith(" more") and line.startswith(f"{HEAD}1.2  ")
    assert "\n" not in in_words("a\nb" * 100) and len(in_words([10**9] * 100)) <= 44
    assert in_words({"a": 1.5}) == "{'a': 1.5}" and in_words(torch.empty(3, device="meta")) == "float32[3]"
    assert in_words(object()) == "object"
