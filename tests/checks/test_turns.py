"""Turns: a right answer is used, a wrong one told what is wrong; an untouched, a wrong and a raising one let ours go on."""

import random
import re

import numpy as np
import pytest
import torch
from helpers.notebook_shell import notebook_shell

from utils.checks import ours, settle, whose, your_turn
from utils.checks.alike import difference
from utils.checks.turns import RIGHT, UNWRITTEN, Turn, is_unwritten
from utils.course.mutation.fork_runner import execute
from utils.device import rng_state, seed_everything

BYTES = """\
from utils.checks import ours, your_turn

@ours(
    cases=[{"B": 8, "T": 1024, "V": 50_257}, {"B": 3, "T": 7, "V": 11}],
    because={lambda B, T, V: 2 * B * T * V: "2 bytes hold a bfloat16."},
)
def answer(B=8, T=1024, V=50_257):
    return 4 * B * T * V
"""
STEP = """\
import torch
from utils.checks import ours, your_turn

def forgets(parameters, rate):
    for p in parameters:
        p.data -= rate * p.grad

@ours(cases=lambda seed: {"parameters": with_gradients(), "rate": 0.1}, because={forgets: "Nobody cleared the gradients."})
def answer(parameters, rate):
    for p in parameters:
        p.data -= rate * p.grad
        p.grad = None

def with_gradients():
    parameters = [torch.randn(3, requires_grad=True), torch.randn(2, 2, requires_grad=True)]
    sum(p.square().sum() for p in parameters).backward()
    return parameters
"""
MODEL = """\
import torch
from torch import nn
from utils.checks import ours, your_turn

@ours(cases=lambda seed: {"model": nn.Linear(3, 2)}, because={lambda model: 6: "The two biases count too."})
def answer(model):
    return sum(p.numel() for p in model.parameters())
"""


def taken(above: str, yours: str, capsys) -> tuple[list[str], bool]:
    """What a student's cell prints below the cell `above`, and whether the name then stands for the student's function."""
    names = {"__name__": "__main__"}
    execute("above", above, names)
    before = names["answer"]
    capsys.readouterr()
    execute("yours", yours, names)
    return capsys.readouterr().out.splitlines(), names["answer"] is not before


def body(text: str, parameters: str = "B=8, T=1024, V=50_257") -> str:
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    return f"@your_turn\ndef answer({parameters}):\n{lines}\n"


# Under another decorator


@pytest.mark.parametrize(
    ("text", "words", "used"),
    [
        ("return sum(p.numel() for p in model.parameters())", RIGHT, True),
        ("...", UNWRITTEN, False),
        ("return model.nothing", "✗ not yet: ours is used below", False),
    ],
)
def test_a_function_under_another_decorator_is_checked_like_any(text, words, used, capsys):
    under = body(text, "model").replace("@your_turn\n", "@your_turn\n@torch.no_grad()\n")
    lines, is_used = taken(MODEL, under, capsys)
    assert (lines[0], is_used) == (words, used)
    assert ("return model.nothing" in "".join(lines)) == ("nothing" in text)  # the student's own line


def test_a_model_whose_modules_have_another_mode_is_not_alike():
    yours, ours_ = (torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout()) for _ in range(2))
    ours_.load_state_dict(yours.state_dict())
    yours[1].eval()
    found = difference(yours, ours_)
    assert (found.place, found.yours, found.ours) == (".1.training", False, True)


# Written or not


@pytest.mark.parametrize(
    "untouched", ["...", "pass", '"""In bytes."""', '"""In bytes."""\n...', "return ...", "# 4\n..."]
)
def test_an_untouched_turn_goes_on_with_ours(untouched, capsys):
    assert taken(BYTES, body(untouched), capsys) == ([UNWRITTEN], False)


@pytest.mark.parametrize("right", ["return 4 * B * T * V", "bits = 32 * V\nreturn T * bits * B // 8"])
def test_a_right_answer_is_used(right, capsys):
    assert taken(BYTES, body(right), capsys) == ([RIGHT], True)


def test_what_returns_something_is_written():
    assert not any(map(is_unwritten, [lambda: 0, lambda: "...", lambda x: x, lambda: [1], lambda: print()]))


WRONG = [
    (
        "return 2 * B * T * V",
        ["yours  823,410,688", "ours   1,646,821,376: yours is half of ours", "2 bytes hold a bfl"],
    ),
    ("return 16 * B * T * V", ["yours is 4 times ours"]),
    ("return 3 * B * T * V", ["yours is 3/4 of ours"]),
    ("return -4 * B * T * V", ["yours is ours with the other sign"]),
    ("return 4 * V", ["yours is ours divided by B·T"]),
    ("return 4 * B * T * V * T", ["yours is T times ours"]),
    ("return 4 * B * T * V + 1000 * B * T", ["yours is 0.5 % more than ours"]),  # and not 1 times ours
    ("return 4 * B * T * V + B", ["yours is a little more than ours"]),
    ("return 4 * B * T * V - 10", ["yours is 10 less than ours in each case"]),
    ("return 1_646_821_376", ["Yours is right in 1 of 2 cases", "with   B=3, T=7, V=11", "ours   924"]),
    ("return 4.0 * B * T * V", ["the value is right, but it is a float"]),
    ("4 * B * T * V", ["yours  None", "is a `return` missing?"]),
    ("return str(4 * B * T * V)", ["it is a str, and ours an int"]),
    ("import torch\nreturn torch.tensor(4 * B * T * V)", ["it is a tensor: .item()"]),
    ("size = 4\nreturn size * b", ["NameError: name 'b' is not defined", "in line 4: return size * b"]),
    ("return 1 / (B - 8)", ["ZeroDivisionError", "in line 3: return 1 / (B - 8)"]),
    ("return answer(B, T, V)", ["RecursionError"]),  # it does not lean on ours, which has its name
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_a_wrong_answer_is_told_how_close_it_is_and_why(wrong, words, capsys):
    lines, used = taken(BYTES, body(wrong), capsys)
    assert not used and lines[0].startswith("✗ not yet: ours is used below") and len(lines) <= 6
    assert [each for each in words if each not in "\n".join(lines)] == [], lines
    assert "B=" in lines[1]


RAISES = """\
import torch
from utils.checks import ours, your_turn

@ours(
    cases=[{"a": torch.ones(2, 3), "b": torch.ones(2, 4)}, {"a": torch.ones(5, 2), "b": torch.ones(5, 3)}],
    because={lambda a, b: a @ b: "The sizes do not fit.", lambda a, b: a.T @ (b > 0): "A bool is no number."},
)
def answer(a, b):
    return a.T @ b
"""


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("return b @ a", "  why    The sizes do not fit."),  # in other numbers, with the same words
        ("return a.T @ (b * b > 0)", "  why    A bool is no number."),  # a RuntimeError as well
        ("return a.T @ b[:, 0] + c", None),
        ("return torch.cat([a, b])", None),  # and another RuntimeError
    ],
)
def test_one_that_raises_is_told_the_reason_of_its_own_message_alone(wrong, why, capsys):
    lines, used = taken(RAISES, body(wrong, "a, b"), capsys)
    assert not used and "Error: " in lines[2]
    assert [line for line in lines if line.startswith("  why")] == ([why] if why else [])


def test_another_signature_is_an_error_that_is_named(capsys):
    lines, used = taken(BYTES, body("return 4 * B * T", "B, T"), capsys)
    assert not used and "unexpected keyword argument 'V'" in lines[2]


# What is changed in place, and models


@pytest.mark.parametrize(
    ("yours", "words"),
    [
        ("for p in parameters:\n    p.data.sub_(p.grad, alpha=rate)\n    p.grad = None", []),
        ("for p in parameters:\n    p.data -= rate * p.grad", ["parameters[0].grad", "Nobody cleared the gradients."]),
        ("for p in parameters:\n    p.data -= p.grad\n    p.grad = None", ["parameters[0][0] = ", "3 of 3 numbers"]),
        ("p = parameters[0]\np.data -= rate * p.grad\np.grad = None", ["parameters[1][0, 0] = "]),
        ("return [p - rate * p.grad for p in parameters]", ["parameters[0][0] = "]),
    ],
)
def test_what_a_function_changes_is_its_answer(yours, words, capsys):
    lines, used = taken(STEP, body(yours, "parameters, rate"), capsys)
    assert used == (not words) and [each for each in words if each not in "\n".join(lines)] == [], lines


def test_a_model_may_be_an_argument(capsys):
    assert taken(MODEL, body("return model.weight.numel() + len(model.bias)", "model"), capsys) == ([RIGHT], True)
    lines, used = taken(MODEL, body("return model.weight.numel()", "model"), capsys)
    assert not used and lines[-1] == "  why    The two biases count too."


# No trace


def test_streams_and_arguments_stay_as_they_were(capsys):
    x = torch.ones(3)
    names = {"x": x, "torch": torch, "np": np, "random": random, "__name__": "__main__"}
    above = "@ours(cases=[{'x': x}])\ndef answer(x):\n    return x.add_(torch.rand(3))"
    exec(f"from utils.checks import ours, your_turn\n{above}", names)
    seed_everything(7)
    before = rng_state()
    exec(body("np.random.rand(), random.random()\nreturn x.add_(torch.rand(3))", "x"), names)
    assert capsys.readouterr().out == RIGHT + "\n"  # it draws what ours draws
    assert difference(rng_state(), before) is None
    assert torch.equal(x, torch.ones(3))


def test_an_untouched_turn_runs_nothing(capsys):
    above = BYTES.replace("return 4 * B * T * V", "raise SystemExit")
    assert taken(above, body("..."), capsys) == ([UNWRITTEN], False)


def test_cells_run_again_and_in_any_order(capsys):
    """As in a notebook: a wrong one, a right one, the same again, ours again, an untouched one; and before ours has run."""
    with notebook_shell() as shell:
        shell.run_cell("from utils.checks import your_turn", silent=True)
        shell.run_cell(body("return 5"))
        assert "run the folded cell above" in capsys.readouterr().out
        shell.run_cell(BYTES)
        for source, first in (
            ("return 5", "✗ not yet: ours is used below"),
            ("return 4 * T * V * B", RIGHT),
            ("return 4 * T * V * B", RIGHT),
            ("return 6", "✗ not yet: ours is used below"),
            ("...", UNWRITTEN),
            ("x = 4\nreturn x / 0", "✗ not yet: ours is used below"),
        ):
            assert shell.run_cell(body(source)).success
            printed = capsys.readouterr().out.splitlines()
            assert printed[0] == first
            assert shell.run_cell("print(answer(1, 1, 1))").success and capsys.readouterr().out == "4\n"
        assert printed[3] == "         in line 4: return x / 0"
        shell.run_cell(BYTES)
        shell.run_cell(body("return 4 * T * V * B"))
        assert capsys.readouterr().out == RIGHT + "\n"


def test_a_turn_needs_a_case():
    with pytest.raises(ValueError, match=r"cases is \[\]: give the arguments"):
        ours(cases=[])


def test_without_ours_a_function_is_left_alone(capsys):
    def mine():
        return 1

    assert your_turn(mine) is mine
    assert re.match("○ ours of mine is not known yet: run the folded cell above", capsys.readouterr().out)


# Comparisons


class Node:
    def __init__(self, value, parents=()):
        self.value, self.parents = value, parents


def looped(value: float) -> Node:
    node = Node(value)
    node.parents = (node,)
    return node


X = torch.tensor([[1.0, 2.0], [3.0, float("nan")]])
SAME = [
    (0.1 + 0.2, 0.3), (3, 3.0), (np.int64(3), 3), (float("nan"), float("nan")), ("a", "a"), (None, None),
    ((2, 3), torch.Size((2, 3))), ({"a": [1, X]}, {"a": [1, X.clone()]}), ({1, 2}, {2, 1}), (X, X * (1 + 1e-6)),
    (torch.float32, torch.float32), (X.bfloat16(), (X * 1.005).bfloat16()), (looped(1.0), looped(1.0)),
    (torch.empty(3, device="meta"), torch.empty(3, device="meta")), (Node(1.0), Node(1)), (Node(1), Node(1.0)),
]  # fmt: skip
OTHER = [
    (0.31, 0.3, ""), (3.0, 3, ""), (True, 1, ""), (1, True, ""), ([2, 3], (2, 3), ""), ((2, 3), (2, 4), "[1]"),
    ({"a": [1, X]}, {"a": [1, X + 1]}, "['a'][1][0, 0]"), ((1,), (1, 2), ""), ({"a": 1}, {"b": 1}, ""), ({1}, {2}, ""),
    (X, X[0], ""), (X, X.double(), ""), (X.long(), X.long() + 1, "[0, 0]"), (looped(1.0), looped(2.0), ".value"),
    (torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).eval(), ".training"), (Node(1), 1, ""), (Node(1.5), Node(1), ".value"),
    (Node(True), Node(1), ".value"), (Node(1), Node(True), ".value"), ("a", "b", ""), (5, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("yours", "theirs"), SAME)
def test_these_are_the_same(yours, theirs):
    assert difference(yours, theirs) is None


@pytest.mark.parametrize(("yours", "theirs", "place"), OTHER)
def test_these_differ_and_the_place_is_named(yours, theirs, place):
    if isinstance(yours, torch.nn.Module):
        theirs.load_state_dict(yours.state_dict())
    found = difference(yours, theirs)
    assert found is not None and found.place == place


def test_the_tolerance_is_the_turns():
    assert difference(1.04, 1.0, tolerance=0.05) is None and difference(1.06, 1.0, tolerance=0.05) is not None


# Guesses


@pytest.mark.parametrize(
    ("guess", "measured", "said"),
    [
        (..., 1500, "○ no guess: it is 1,500 bytes"),
        (1500, 1500, "✓ you guessed it: 1,500 bytes"),
        (1450, 1500, "✓ you guessed 1,450: it is 1,500 bytes (off by 3.3 %)"),
        (750, 1500, "✗ you guessed 750: it is 1,500 bytes (your guess is half of it)"),
        (1e6, 1500, "✗ you guessed 1,000,000: it is 1,500 bytes (your guess is 667 times it)"),
        (3, torch.tensor(6), "✗ you guessed 3: it is 6 bytes (your guess is half of it)"),
        (5, 0, "✗ you guessed 5: it is 0 bytes (far from it)"),
        ("many", 1500, "○ your guess is 'many', which is no number: it is 1,500 bytes"),
    ],
)
def test_a_guess_is_told_how_close_it_came(guess, measured, said, capsys):
    settle(guess, measured, "bytes")
    assert capsys.readouterr().out == said + "\n"


@pytest.mark.parametrize(("guess", "said"), [("b", "✓ you guessed it: 'b'"), ("c", "✗ you guessed 'c': it is 'b'")])
def test_a_guess_may_be_a_choice(guess, said, capsys):
    settle(guess, "b")
    assert capsys.readouterr().out == said + "\n"


LOSS = """\
import torch
from utils.checks import ours, whose, your_turn

@ours(cases=lambda seed: {"scores": torch.randn(3, requires_grad=True)})
def answer(scores):
    return scores.exp().sum()
"""


@pytest.mark.parametrize("cut_off", ["scores.detach().exp().sum()", "torch.tensor(scores.exp().sum().item())"])
def test_a_tensor_through_which_no_gradient_flows_is_not_ours(cut_off, capsys):
    lines, is_used = taken(LOSS, body(f"return {cut_off}", "scores"), capsys)
    assert not is_used and any("no gradient can flow back" in line for line in lines)
    assert taken(LOSS, body("return torch.exp(scores).sum()", "scores"), capsys)[1]


def test_whose_tells_the_students_functions_from_ours(capsys):
    def other():
        pass

    for yours, words in (
        ("return scores.exp().sum()", "yours: answer, other"),
        ("return 1", "yours: other · ours: answer"),
        ("...", "yours: other · ours: answer"),
    ):
        names = {"__name__": "__main__"}
        execute("above", LOSS, names)
        execute("yours", body(yours, "scores"), names)
        assert whose(names["answer"], other) == words
    assert whose(names["answer"]) == "ours: answer"


def test_gradients_that_are_left_behind_may_be_of_no_account(capsys):
    def stepped(model, clear_last):
        model.weight.grad = None if clear_last else torch.ones(1, 1)
        with torch.no_grad():
            model.weight.sub_(0.5)

    def cases(seed):
        return {"model": torch.nn.Linear(1, 1), "clear_last": True}

    for gradients in (True, False):
        turn = Turn(stepped, cases, gradients=gradients)
        expected = turn.outcomes(stepped)
        left = turn.outcomes(lambda model, clear_last: stepped(model, False))
        assert any(turn.differences(left, expected)) == gradients
        assert any(turn.differences(turn.outcomes(lambda model, clear_last: None), expected))


def test_a_tensor_without_dimensions_may_be_as_good_as_its_number():
    def half(number):
        return number / 2

    for items in (True, False):
        turn = Turn(half, [{"number": 3.0}], items=items)
        expected = turn.outcomes(half)
        found = [
            any(turn.differences(turn.outcomes(lambda number, to=to: torch.tensor(to)), expected))
            for to in (1.5, 2.5, [1.5])
        ]
        assert found == [not items, True, True]


def test_a_turn_may_have_more_than_one_right_answer():
    def larger(a):
        return max(a, -a)

    def upward(a):
        return abs(a) + 1

    cases = [{"a": -2}, {"a": 3}]
    ours(cases, also=(upward,))(larger)
    for turn, taken in ((Turn(larger, cases), False), (larger.turn, True)):
        assert turn.takes(turn.outcomes(lambda a: abs(a)))
        assert turn.takes(turn.outcomes(upward)) == taken
        assert not turn.takes(turn.outcomes(lambda a: abs(a) + (a > 0)))  # in one case as ours, in the other as `also`
