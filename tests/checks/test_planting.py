"""Bugs are planted where they are said to be, for as long as they are said to be, and nowhere else."""

import ast

import pytest
from helpers.caught import assert_caught

from utils.checks import loss_is_a_sum
from utils.checks.planting import Change, Copy, Seam, changed, in_place, module, wrong_loop
from utils.data.order import Order
from utils.loop import Config, train

# ---- at a seam -------------------------------------------------------------------------------------------------------


def test_a_wrong_function_is_given_the_right_one_first():
    config = Config(steps=10, warmup=5)
    with in_place(Seam("loop.state.lr_factor", lambda right, config, step: -right(config, step))):
        assert module("loop.state").lr_factor(config, 0) == -1 / 5
        assert module("loop.optim").lr_factor(config, 0) == 1 / 5  # another module's name for it
    assert module("loop.state").lr_factor(config, 0) == 1 / 5


def test_a_method_a_property_and_a_number_can_be_wrong():
    order = Order(22, 8)
    seams = (
        Seam("data.order.Order.epoch", lambda right, self, step: right(self, step) + 1),
        Seam("data.order.Order.steps_per_epoch", lambda right, self: right(self) * 10),
        Seam("data.order.LISTED", 1),
    )
    with in_place(*seams):
        assert (order.epoch(30), order.steps_per_epoch, module("data.order").LISTED) == (2, 30, 1)
    assert (order.epoch(30), order.steps_per_epoch, module("data.order").LISTED) == (10, 3, 1 << 22)


def test_a_seam_is_right_again_after_an_error():
    right = module("loop.training").zero_grad
    with pytest.raises(ZeroDivisionError), in_place(Seam("loop.training.zero_grad", lambda right, parameters: None)):
        raise ZeroDivisionError
    assert module("loop.training").zero_grad is right


def test_a_wrong_loop_is_wrong_while_it_runs():
    wrong = wrong_loop(Seam("loop.training.train", lambda right, *args: (right, *args)))
    assert wrong("model", "data") == (train, "model", "data")
    assert module("loop.training").train is train


@pytest.mark.parametrize("at", ["loop.training.no_such", "loop.state.State.no_such", "no_such.function", "no_such"])
def test_a_seam_that_is_not_there_is_named_with_its_bug(at):
    with pytest.raises(LookupError) as error, in_place(Seam(at, lambda right: None), bug="a bug"):
        pass
    assert at in str(error.value) and "a bug" in str(error.value)


# ---- in the syntax tree ----------------------------------------------------------------------------------------------

SOURCE = """
def step(x):
    '''What it does.'''
    if x > 0:
        y = f(x, key="a")  # a remark
        g(y)
        return y
    return f(
        x,
        key='b',
    )
"""
BLOCK = SOURCE[SOURCE.index("        y = f(") : SOURCE.index("    return f(")]


def same(one: str, other: str) -> bool:
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("f(x, key='b')", "x", SOURCE[SOURCE.index("f(\n") :], "x\n"),
        ("x>0", "True", "x > 0", "True"),
        ("g ( y )", "", "        g(y)\n", ""),
        ("g(y)", "h()\ng(y)", "g(y)", "h()\n        g(y)"),
        ("g(y)\nreturn y", "return g(y)", "g(y)\n        return y", "return g(y)"),
        ("y = f(x, key='a')\ng(y)\nreturn y", "", BLOCK, "        pass\n"),
    ],
    ids=["an expression", "a part of one", "removed", "one becomes two", "two become one", "a whole block"],
)
def test_a_change_is_found_by_its_syntax_tree(old, new, before, after):
    assert SOURCE.count(before) == 1
    text, found = changed(SOURCE, old, new)
    assert found == 1 and same(text, SOURCE.replace(before, after))


@pytest.mark.parametrize(("old", "new", "times"), [("x", "y", 3), ("f(x)", "y", 0), ("f", "y", 2), ("return x", "", 0)])
def test_a_change_says_how_often_it_was_found(old, new, times):
    assert changed(SOURCE, old, new)[1] == times


def test_a_copy_has_the_change_and_the_package_has_not(tmp_path):
    with Copy(tmp_path, Change("data/order.py", "step // self.steps_per_epoch", "step")) as copy:
        assert copy.module("data.order").Order(22, 8).epoch(30) == 30
        assert copy.module("loop.training").Order is copy.module("data.order").Order
    assert Order(22, 8).epoch(30) == 10


@pytest.mark.parametrize("old", ["no_such()", "self.examples"])
def test_a_change_that_is_not_found_once_is_named_with_its_bug_and_file(tmp_path, old):
    with pytest.raises(LookupError) as error:
        Copy(tmp_path, Change("data/order.py", old, "1"), bug="a bug")
    assert all(part in str(error.value) for part in ("a bug", "data/order.py", old))


# ---- what it means to be caught --------------------------------------------------------------------------------------


def test_caught_means_by_the_detector_itself():
    def fails(outputs, targets):
        raise AssertionError("in the loss")

    with pytest.raises(AssertionError, match="in the loss"):
        assert_caught(loss_is_a_sum, fails, None, None)
    with pytest.raises(pytest.fail.Exception):
        assert_caught(lambda: None)
