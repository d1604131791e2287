"""What a cell with asserts says: one line if they hold, and if one is false the claim first, in eight lines at most."""

import re

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from utils.checks.shown import VALUE, WIDTH, in_words, line_of
from utils.proof_text import GREEN, MARK, PLAIN

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
            "allocated = predicted = 9,869,400",
        ),
        ("x = 0.25\nassert x < 1 / 3", "x 0.25 < 0.333333"),
        ("low, x = 1, 2.5\nassert low <= x != 3", "low 1 ≤ x 2.5 ≠ 3"),
        ("a, b = 5, [1, 1]\nassert (a, b) == (5, [1, 1])", "a = 5, b = [1, 1]"),
        ("assert 2 + 3 == 5", "2 + 3 = 5"),
        ("x = [4, 5]\nassert len(x) == 2 and x[0] == 4", "len(x) = 2 · x[0] = 4"),
        ("x = torch.zeros(2, 3)\nassert torch.equal(x, x + 0)", "torch.equal(x, x + 0)"),
        ("x = torch.tensor(7.0)\nassert x == 7", "x = 7"),
        ("x = torch.ones(4, 2)\nassert x is not None", "x float32[4, 2] is not None"),
        ("assert torch.ones(2).dtype is torch.float32", "torch.ones(2).dtype float32 is torch.float32 float32"),
        ("for n in range(3):\n    assert n < 3", "n 0 < 3"),
        ("a = b = 1\nassert a == 1\nassert b < 2", "a = 1 · b 1 < 2"),
        ("def check(x):\n    assert x == 1\ncheck(1)", "x = 1"),
        ("x = torch.ones(2)\nassert x.data_ptr() == x[:1].data_ptr()", "x.data_ptr() = x[:1].data_ptr()"),
        ("x = torch.ones(2)\nassert x[1].data_ptr() - x.data_ptr() == 4", "x[1].data_ptr() - x.data_ptr() = 4"),
        ("assert round(float(sum([n**2 for n in range(30)])), 2) == 8555", "round(float(sum(…)), 2) = 8,555"),
        (
            "by_hand = by_formula = 1\nassert abs(by_hand - by_formula + 0 * by_hand) < 1",
            "abs(by_hand - by_formula + 0 *… 0 < 1",
        ),
        (
            "s = [2]\nassert [round(s[0] * each, 3) for each in (1, 2, 3)] == [2, 4, 6]",
            "[round(s[0] * each, 3) for each… = [2, 4, 6]",
        ),
        ("import numpy as np\nx = np.int64(657)\nassert x > 400", "x 657 > 400"),
        ("x = -0.0\nassert x == 0", "x = 0"),
        ("x = 3\nassert x == 3, 'three'", "x == 3"),
        ("x = torch.ones(2)\ntorch.testing.assert_close(x, x * 1)", "x ≈ x * 1"),
        (
            "with raises(ZeroDivisionError, 'zero'):\n    1 / 0",
            "ZeroDivisionError: division by zero",
        ),
        ("x = 1", ""),
    ],
)
def test_both_sides_are_shown(shell, capsys, source, line):
    assert shown(shell, capsys, source) == line


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"])
def test_an_assert_holds_where_it_does_without_the_lines(shell, sign):
    """The comparison runs in a function of its own here. copy: equal to longer, and another object."""
    names = {"short": "a", "longer": "ab", "copy": "".join(["a", "b"])}
    shell.push(names)
    for left in names:
        for right in names:
            comparison = f"{left} {sign} {right}"
            assert shell.run_cell(f"assert {comparison}").success == eval(comparison, names.copy()), comparison


def test_a_cell_that_fails_shows_its_error_alone(shell, capsys):
    failed = shell.run_cell("assert 1 == 1\nx = 2\nassert x == 3")
    assert str(failed.error_in_exec) == "claimed:  x == 3\nmeasured: 2"
    assert MARK not in capsys.readouterr().out
    assert shown(shell, capsys, "assert 4 == 4") == "4 = 4", "and nothing is left of it in the next"


def test_the_number_of_the_claim_comes_from_the_cell(shell, capsys):
    shell.run_cell("x = 1\nassert x == 1", cell_id="proof-7-3")
    assert capsys.readouterr().out == f"{HEAD}7.3  x = 1\n"
    shell.run_cell("assert x == 1", cell_id="answers")
    assert capsys.readouterr().out == "", "this cell proves no claim"
    shell.run_cell("assert x == 1", cell_id="vscode-notebook-cell:/01.ipynb#X12sZmlsZQ==")
    assert capsys.readouterr().out == f"{HEAD}x = 1\n", "a front end that tells no id of the file's"


def test_a_value_is_computed_once_and_let_go_of(shell, capsys):
    shell.run_cell("import weakref\ncalls = []\ndef made():\n    calls.append(torch.zeros(9)); return calls.pop()")
    assert shown(shell, capsys, "assert made().sum() == 0") == "made().sum() = 0"
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
    seen = line.replace(GREEN, "").replace(PLAIN, "")
    assert WIDTH - 30 < len(seen) <= WIDTH and seen.endswith(" more") and seen.startswith(f"{MARK} 1.2  ")
    assert len(line_of(["word " * 100], "10.123").replace(GREEN, "").replace(PLAIN, "")) <= WIDTH
    assert "\n" not in in_words("a\nb" * 100) and len(in_words([10**9] * 100)) <= VALUE
    assert in_words({"a": 1.5}) == "{'a': 1.5}" and in_words(torch.empty(3, device="meta")) == "float32[3]"
    assert in_words(object()) == "object"


def red(shell, capsys, source: str, cell_id: str = "proof-1-26") -> list[str]:
    """The lines that a failing cell prints, without colours."""
    capsys.readouterr()
    assert not shell.run_cell(source, cell_id=cell_id).success
    return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (
            "wrong = torch.ones(4, 4)\nassert wrong.triu(1).sum() == 15",
            ["claimed:  wrong.triu(1).sum() == 15", "measured: 6", "in line 2: assert wrong.triu(1).sum() == 15"],
        ),
        (
            "first, second = 15_166_592_008, 16_162_111_064\nassert second > 0 and second == first",
            [
                "claimed:  second == first",
                "measured: second 16,162,111,064, first 15,166,592,008",
                "in line 2: assert second > 0 and second == first",
            ],
        ),
        (
            "a, b = 3, 4\nassert (a, b) == (3, 5)",
            ["claimed:  (a, b) == (3, 5)", "measured: b 4", "in line 2: assert (a, b) == (3, 5)"],
        ),
        (
            "x = torch.ones(3, 4)\ny = x.clone()\ny[0, 1] = 3\nassert torch.equal(x, y)",
            [
                "claimed:  torch.equal(x, y)",
                "measured: False; x float32[3, 4], y float32[3, 4]; 1 of 12 numbers differ, by up to 2",
                "in line 4: assert torch.equal(x, y)",
            ],
        ),
        (
            "def doubled(x):\n    assert x == 1\n    return 2 * x\n\n\ndoubled(3)",
            ["claimed:  x == 1", "measured: 3", "in line 6: doubled(3)", "doubled, line 2: assert x == 1"],
        ),
        ("assert all(n < 3 for n in range(4))", ["claimed:  all((n < 3 for n in range(4)))", "measured: False"]),
        ("x = 3\nassert x == 4, 'four, since …'", ["four, since …", "in line 2: assert x == 4, 'four, since …'"]),
        (
            "with raises(ValueError, 'lr'):\n    pass",
            ["expected ValueError, but nothing was raised", "in line 1: with raises(ValueError, 'lr'):"],
        ),
        (
            "with raises(ValueError):\n    1 / 0",
            ["expected ValueError, got ZeroDivisionError: division by zero", "in line 1:"],
        ),
        ("torch.testing.assert_close(torch.ones(2), torch.zeros(2))", ["Tensor-likes are not close!"]),
    ],
)
def test_red_says_first_what_is_false_and_what_was_measured(shell, capsys, source, lines):
    head, *said = red(shell, capsys, source)
    assert head == "Claim 1.26 is false here." and len(said) <= 7
    for line, expected in zip(said, lines, strict=False):
        assert line.startswith(expected)
    assert not re.search(r"0x[0-9a-f]{6}|\\n", "\n".join(said))


def test_without_the_name_of_a_claim_it_is_an_assert(shell, capsys):
    assert red(shell, capsys, "assert 1 == 2", cell_id="my-own")[0] == "This assert is false here."


def test_many_calls_show_the_first_and_the_last(shell, capsys):
    deep = "def down(n):\n    assert n > 0\n    return down(n - 1)\n\n\ndown(50)"
    lines = red(shell, capsys, deep)
    assert len(lines) <= 8 and lines[3] == "in line 6: down(50)" and lines[-1] == "down, line 2: assert n > 0"


def test_sides_are_computed_once_and_the_second_assert_not_at_all_if_the_first_is_false(shell):
    shell.run_cell("calls = []\ndef one():\n    calls.append(1)\n    return 1")
    assert not shell.run_cell("assert one() == 2 and one() == 1").success
    assert shell.run_cell("assert 0 < one() < 2 and one()").success
    assert shell.user_ns["calls"] == [1, 1, 1]
