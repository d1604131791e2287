"""Questions and expectations: what is right passes, what is wrong is reported with question, expected, got and next step."""

import math

import pytest
import torch

from utils.checks import raises
from utils.lab import (
    MOST_LINES,
    Answer,
    Ask,
    check_names,
    exception_from,
    expect,
    expect_close,
    expect_equal,
    expect_raises,
    kinds_and_text_of,
)
from utils.lab.ask import Wrong

NAMES: dict = {}
STUDENT = """
import torch

kept = [1, 2]

def double(x):
    return x + x

def grow(items):
    items.append(0)
    return len(items)

def spoil(x):
    return x.zero_()

def later():
    raise NotImplementedError("later: not yet")

def fail(n):
    raise KeyError(f"no {n} here")

class Own(ValueError):
    pass

def own():
    raise Own("mine: 7")
"""
exec(STUDENT, NAMES)
ask = Ask(NAMES)


def answer(value) -> Answer:
    return Answer("f(x)", {"x": 2}, value)


def walk(traceback):
    while traceback:
        yield traceback
        traceback = traceback.tb_next


def report(check, *args, **kwargs) -> str:
    with raises(AssertionError) as caught:
        check(*args, **kwargs)
    return str(caught[0])


# Asking


def test_an_expression_and_a_few_lines_are_asked():
    assert ask("double(x)", x=2).value == 4
    assert ask("y = double(x)\nz = double(y)\n[y, z, double(z)]", x=1).value == [2, 4, 8]


def test_a_question_leaves_nothing_behind():
    before = dict(NAMES)
    ask("double = len\nkept = 3\nimport os\ndouble('abc')")
    assert before == NAMES and ask("double(kept)").value == [1, 2, 1, 2]


def test_what_is_handed_over_is_not_changed():
    x, items = torch.ones(2), [1]
    spoiled = ask("spoil(x)", x=x)
    assert spoiled.value.tolist() == [0, 0] and spoiled.inputs["x"].tolist() == x.tolist() == [1, 1]
    asked = ask("grow(items)", items=items)
    assert asked.value == 2 and items == [1] and asked.inputs == {"items": [1]}


def test_answers_are_no_objects_of_the_students():
    shared = ask("kept").value
    shared.append(3)
    assert ask("kept").value == [1, 2]
    view = ask("torch.arange(6).view(2, 3).T").value
    assert view.stride() == (2, 1) and ask("torch.arange(6).view(2, 3).T.stride()").value == (1, 3)


def test_functions_in_a_question_see_its_inputs():
    assert ask("(lambda: double(n))()", n=3).value == 6
    assert ask("def f():\n    return [double(n) for _ in range(2)]\nf()", n=3).value == [6, 6]


def test_unwritten_code_comes_through_as_it_is():
    with pytest.raises(NotImplementedError, match=r"^later: not yet$") as caught:
        ask("later()")
    assert not hasattr(caught.value, "__notes__")


def test_a_dtype_that_torch_has_no_kernel_for_is_no_unwritten_code():
    got = ask("torch.arange(3).softmax(0)")
    assert isinstance(got.raised, RuntimeError) and not isinstance(got.raised, NotImplementedError)
    with pytest.raises(AssertionError, match="not implemented for 'Long'"):
        expect_close(got, torch.ones(3), next_step="make it float")


def test_what_is_raised_is_an_answer_that_says_what_was_asked():
    got = ask("fail(n)", n=7)
    with pytest.raises(KeyError, match="no 7 here") as caught:
        got.value  # noqa: B018
    assert caught.value.__notes__ == ["asked: fail(n)\n    with n = 7"]
    part = ask("fail(n)", n=7)["part"]
    with pytest.raises(KeyError, match="no 7 here"):
        part.value  # noqa: B018
    text = report(lambda: expect_equal(part, 3, next_step="try this"))
    assert "fail(n)  →  ['part']" in text and "KeyError" in text and "try this" in text


def test_mistakes_of_the_check_are_not_the_students():
    with pytest.raises(ValueError, match="cannot cross"):
        ask("x", x=object())
    with pytest.raises(ValueError, match="last line of a question"):
        ask("x = 1").value  # noqa: B018


def test_parts_of_an_answer_are_answers():
    part = ask("{'a': [1, 2]}")["a"][1]
    assert part.value == 2 and "['a']" in part.question and "[1]" in part.question
    assert "that has 'b'" in report(lambda: ask("{'a': 1}")["b"])
    assert "that has 0" in report(lambda: ask("3")[0])


# Expecting


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (3, 3), (3.0, 3), ((1, 2), [1, 2]), ([1, (2,)], (1, [2])), (math.nan, math.nan), ("a", "a"), (None, None),
        (True, True), ({"a": 1, "b": (2,)}, {"b": [2], "a": 1}), (torch.tensor(3), 3), (torch.ones(0, 2), torch.ones(0, 2)),
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan])),
        (torch.ones(2).to(torch.float8_e5m2), torch.ones(2).to(torch.float8_e5m2)),
    ],
)  # fmt: skip
def test_equal_accepts(got, want):
    expect_equal(answer(got), want, "go on")
    expect_close(answer(got), want, "go on")


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (4, 3, "expected: 3\ngot:      4\nnext:"),
        (True, 1, "expected: 1\ngot:      True"),
        (1, True, "got:      1"),
        ("3", 3, "got:      '3'"),
        ((1, 2, 4), (1, 2, 3), "differs:  [2]: expected 3, got 4"),
        ((1, 2), (1, 2, 3), "differs:  length: expected 3 items, got 2"),
        ([1, [2, 3]], [1, [2, 4]], "differs:  [1][1]: expected 4, got 3"),
        ([1, 5], [1, [2]], "differs:  [1]: expected 1 items, got 5"),
        (5, [1], "expected: [1]\ngot:      5"),
        ({"a": 1}, {"b": 1}, "differs:  keys: 'b' missing, 'a' unexpected"),
        ({"a": 1}, {"a": 2}, "differs:  ['a']: expected 2, got 1"),
        ([3], {"a": 2}, "got:      [3]"),
        (torch.tensor([1.0, 2.0]), 1.0, "got:      float32 tensor (2,)"),
        (torch.tensor([1.0, 2.0]), "converted", "expected: 'converted'"),
        ([1], torch.tensor([1]), "differs:  expected a tensor, got [1]"),
        (torch.ones(2, 3), torch.ones(3, 2), "differs:  expected shape (3, 2), got (2, 3)"),
        (torch.ones(2), torch.ones(2).double(), "differs:  expected torch.float64, got torch.float32"),
        (
            torch.tensor([[1, 2], [3, 4]]),
            torch.tensor([[1, 2], [5, 6]]),
            "2 of 4 values differ; first [1, 0]: expected 5, got 3",
        ),
        (torch.tensor([1.0]), torch.tensor([math.nan]), "expected nan, got 1.0"),
        ({"a": [torch.zeros(1)]}, {"a": [torch.ones(1)]}, "['a'][0]: 1 of 1 values differ"),
        (0.1 + 0.2, 0.3, "got:      0.3"),
        ([0.1 + 0.2], [0.3], "[0]: expected 0.3, got 0.30000000000000004"),
    ],
)
def test_equal_refuses_and_says_where(got, want, words):
    text = report(expect_equal, answer(got), want, "count again")
    assert text.startswith("f(x)\n    with x = 2\n") and words in text and text.endswith("next:     count again")


def test_an_other_equals_nothing():
    got = ask("(n for n in ())")
    assert "got:      a generator: <generator" in report(expect_equal, got, 1, "return a tuple")
    assert "a generator" in report(expect_close, got, 1.0, "return a tuple")


def test_close_bounds_the_difference():
    expect_close(answer(100.0), 100.0009, "", rtol=1e-5, atol=0)
    assert report(expect_close, answer(100.0), 100.002, "x", rtol=1e-5, atol=0)
    expect_close(answer(0.0), 1e-6, "", rtol=0, atol=1e-6)
    assert report(expect_close, answer(0.0), 1.1e-6, "x", rtol=0, atol=1e-6)
    expect_close(answer({"a": (1, 2.0)}), {"a": [1.0, 2.0000001]}, "")
    assert report(expect_close, answer(True), 1.0, "x") and report(expect_close, answer(1.0), True, "x")
    assert report(expect_close, answer("a"), "b", "x") and report(expect_close, answer(math.nan), 0.0, "x")
    expect_close(answer(math.inf), math.inf, "")
    assert report(expect_close, answer(math.inf), -math.inf, "x")


def test_close_compares_tensors_of_any_precision():
    want = torch.tensor([1.0, 2.0], dtype=torch.float64)
    expect_close(answer(want.float()), want, "")
    expect_close(answer(torch.tensor([1, 2])), want, "")
    expect_close(answer(torch.tensor([1j])), torch.tensor([1.0000001j]), "")
    assert "[1]: expected 2.0, got 2.1" in report(expect_close, answer(torch.tensor([1.0, 2.1])), want, "x")
    assert "expected shape (2,), got (2, 1)" in report(expect_close, answer(want[:, None]), want, "x")
    assert report(expect_close, answer(torch.tensor([1.0, math.nan])), want, "x")


def test_what_is_raised_instead_is_reported_and_kept():
    for check in (expect_equal, expect_close):
        with pytest.raises(AssertionError) as caught:
            check(ask("fail(n)", n=7), 3, "return the number")
        text = str(caught.value)
        assert (
            text == "fail(n)\n    with n = 7\nexpected: 3\ngot:      KeyError: 'no 7 here'\nnext:     return the number"
        )
        assert isinstance(caught.value.__cause__, KeyError)


def test_a_long_question_stands_below_what_to_do_next():
    most = (
        MOST_LINES - 6
    )  # beside the verdict on the task, expected, got, next and two lines of the student's: it raises
    for number in (most, most + 1):
        code = [*(f"a_{line} = {line}" for line in range(1, number)), "triple_it(4)"]
        shown = report(expect_equal, ask("\n".join(code)), 12, "add").splitlines()
        advice = [line.split(":")[0] for line in shown if line not in code]
        first, last = (code, advice) if number == most else (advice, code)
        assert advice == ["expected", "got", "next"] + ["asked"] * (number > most)
        assert shown[: len(first)] == first if number == most else shown[len(first) :] == last


def test_a_name_that_was_asked_for_is_in_a_cell_that_was_not_run():
    text = report(expect_equal, ask("triple(3)"), 9, "add")
    assert text.endswith("next:     run the cell that defines `triple`, then this check again")


def test_a_name_inside_the_students_code_may_be_misspelt():
    exec("def area(length):\n    return lenght**2", NAMES)
    text = report(expect_equal, ask("area(3)"), 9, "square it")
    assert (
        "next:     your code uses `lenght`, which nothing defines: is it misspelt?" in text and "square it" not in text
    )


def test_nothing_came_back_where_a_return_is_missing():
    exec("def lost(x):\n    x + x", NAMES)
    for check in (expect_equal, expect_close):
        assert "next:     None came back: is a `return` missing?" in report(check, ask("lost(3)"), 6, "add")
        assert "is a `return` missing?" in report(check, ask("[double(3), lost(3)]"), [6, 6], "add")
        assert "return" not in report(check, ask("double(3)"), None, "add"), "nothing was wanted"


def test_a_notebook_shows_the_message_and_the_students_lines_alone():
    cell = "def outer(n):\n    return inner(n)\n\n\ndef inner(n):\n    return outer(n) if n else len(n)"
    notebook = {"__name__": "__main__"}
    exec(compile(cell, "<cell 7>", "exec"), notebook)
    with pytest.raises(Wrong) as caught:
        expect_equal(Ask(notebook)("outer(n)", n=0), 3, "stop")
    assert caught.value._render_traceback_() == [
        str(caught.value),
        "in:       outer, line 2 of its cell: ",
        "in:       inner, line 6 of its cell: ",
    ]
    with pytest.raises(Wrong) as caught:
        expect_equal(Ask(notebook)("outer(n)", n=1), 3, "stop")
    message, _, more, *last = caught.value._render_traceback_()
    assert "RecursionError" in message and "more calls" in more and len(last) == 2
    with pytest.raises(Wrong) as caught:
        expect_equal(ask("double(x)", x=1), 3, "add")
    assert caught.value._render_traceback_() == [str(caught.value)]


def test_tracebacks_show_the_students_code_and_not_ours():
    with pytest.raises(AssertionError) as caught:
        expect_equal(ask("fail(n)", n=7), 3, "x")
    error, shown = caught.value, []
    while error is not None:
        frames = [entry.tb_frame for entry in walk(error.__traceback__)]
        shown += [frame.f_code.co_name for frame in frames if not frame.f_locals.get("__tracebackhide__")]
        error = error.__cause__
    assert shown == ["test_tracebacks_show_the_students_code_and_not_ours", "fail"]


def test_a_fact_about_the_value():
    expect(answer(3), True, "an odd number", "go on")
    assert "expected: an even number\ngot:      3\nnext:     add 1" in report(
        expect, answer(3), False, "an even number", "add 1"
    )


def test_an_exception_may_be_what_is_wanted():
    expect_raises(ask("fail(7)"), KeyError, "no 7", "")
    expect_raises(ask("fail(7)"), LookupError, "", "")
    expect_raises(ask("own()"), ValueError, "7", "")
    assert "expected: KeyError that names '8'\ngot:      KeyError: 'no 7 here'" in report(
        expect_raises, ask("fail(7)"), KeyError, "8", "x"
    )
    assert "expected: ValueError to be raised\ngot:      KeyError" in report(
        expect_raises, ask("fail(7)"), ValueError, "", "x"
    )
    assert "expected: ValueError to be raised\ngot:      4" in report(
        expect_raises, ask("double(2)"), ValueError, "", "x"
    )


def test_messages_are_short():
    text = report(expect_equal, ask("double(x)", x=torch.arange(10_000.0)), torch.arange(10_000.0), "x")
    assert len(text) < 700 and "float32 tensor (10000,) of [0.0, 1.0, 2.0" in text
    assert len(report(expect_equal, answer(list(range(5_000))), 1, "x")) < 700


# Across a boundary


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("no 3"), ValueError, "no 3"),
        (type("Own", (KeyError,), {})("k"), KeyError, "k"),
        (type("Own", (Exception,), {})("k"), Exception, "k"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), ValueError, "bad"),
        (NotImplementedError("later"), NotImplementedError, "later"),
    ],
)
def test_exceptions_arrive_as_the_nearest_built_in_one(error, kind, text):
    back = exception_from(*kinds_and_text_of(error))
    assert type(back) is kind and text in str(back)


def test_only_exceptions_are_rebuilt():
    assert repr(exception_from(("SystemExit", "print", "BaseException"), "x")) == "RuntimeError('x')"


def test_a_check_finds_these_names():
    assert {"ask", "seed", "torch", "np", "math", "itertools", "F"} <= set(check_names(ask, 7))
    assert check_names(ask, 7)["seed"] == 7 and check_names(ask, 7)["expect"] is expect
