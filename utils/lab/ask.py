"""How a lab is checked: questions to the student's code, and expectations that tell the student what to do next.

    ask = Ask(globals())
    expect_equal(ask("strides(shape)", shape=(2, 3)), (3, 1), next_step="the last axis moves by 1")

A check sends code and plain values, and receives plain values (see plain_values.py). It never holds an object of the
student's, so it works the same in the notebook and in the grader, which questions a process that it does not trust.
"""

import ast
import builtins
import copy
import itertools
import linecache
import math
import re
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from utils.lab import plain_values
from utils.lab.plain_values import Unserializable

LONGEST_SHOWN = 300  # characters of a value in a message
MOST_LINES = 8  # of a message, with the verdict above it and the student's lines below; a question too many stands last
SHORT = 3  # lines of a question that stands in a note
ASKED = "<what the check asks>"  # the file name of a question's code


class Wrong(AssertionError):
    """What a check found wrong. A notebook shows its message, and where in the notebook's code an exception came from."""

    def _render_traceback_(self) -> list[str]:
        """What IPython prints in place of a traceback through torch and through the check."""
        return [str(self), *(f"in:       {place}" for place in lines_raised_at(self.__cause__))]


def lines_raised_at(error: BaseException | None) -> list[str]:
    """The lines of the notebook that an exception came through, the outermost first; of many the first and the last two.

    A line is "FUNCTION, line NUMBER of its cell: CODE". What called the question is left out.
    """
    found: list[str] = []
    entry = error.__traceback__ if error else None
    while entry:
        code, number = entry.tb_frame.f_code, entry.tb_lineno
        if code.co_filename == ASKED:
            found = []
        elif entry.tb_frame.f_globals.get("__name__") == "__main__":
            line = linecache.getline(code.co_filename, number).strip()
            found.append(f"{code.co_name}, line {number} of its cell: {line}")
        entry = entry.tb_next
    return found if len(found) <= 3 else [found[0], f"… {len(found) - 3:,} more calls …", *found[-2:]]


@dataclass(frozen=True)
class Answer:
    """A question and its answer: the plain value that was returned, or the exception that was raised.

    `answer[key]` is an Answer about one part of the value.
    """

    question: str
    inputs: dict
    returned: object = None
    raised: Exception | None = None

    @property
    def value(self):
        """The returned value. If the code raised, raises that exception with a note that quotes the question."""
        __tracebackhide__ = True
        if self.raised is not None:
            question = _question(self)
            self.raised.add_note(
                "\n".join(["asked:", question]) if question.count("\n") >= SHORT else f"asked: {question}"
            )
            raise self.raised
        return self.returned

    def __getitem__(self, key) -> "Answer":
        """The Answer for one part of the value; the exception if the code raised. AssertionError if it has no `key`."""
        question = f"{self.question}  →  [{key!r}]"
        if self.raised is not None:
            return Answer(question, self.inputs, raised=self.raised)
        try:
            return Answer(question, self.inputs, self.returned[key])
        except (LookupError, TypeError):
            raise Wrong(_report(self, f"a value that has {key!r}")) from None


class Ask:
    """Puts questions to the code in `namespace`: the names of a notebook, or of the process that ran its cells."""

    points = 0  # of the check that is running: what it said so far with earned()

    def __init__(self, namespace: dict, device: torch.device | str = "cpu"):
        self.namespace = namespace
        self.device = device

    def earned(self, points: int) -> None:
        """A check says: what was right up to this line earns so many of its points in all, whatever fails below."""
        self.points = points

    def __call__(self, code: str, /, **inputs) -> Answer:
        """The value of `code`, of its last line if there are several, with `inputs` as further names.

        Inputs pass through plain_values (tensors dense, copied, on the lab's device), and so does the answer (on the CPU).
        Names that the code binds are discarded: each question starts from the namespace alone. An exception that the code
        raises is an answer too, except NotImplementedError, which propagates: the exercise is not written yet.
        """
        __tracebackhide__ = True  # read by IPython and pytest: a student's traceback shows the student's code only
        given = plain_values.load(plain_values.dump(inputs, strict=True))
        try:
            return Answer(code, given, returned=self._value(code, given))
        except NotImplementedError as error:
            if "not implemented for '" not in str(error):
                raise
            # torch's own, for a dtype without a kernel: the code is written, and wrong.
            lacks = RuntimeError(str(error)).with_traceback(error.__traceback__)
            vars(lacks).update(vars(error))
            return Answer(code, given, raised=lacks)
        except Exception as error:
            return Answer(code, given, raised=error)

    def _value(self, code: str, inputs: dict):
        __tracebackhide__ = True
        return plain_values.load(plain_values.dump(evaluate(code, copy.deepcopy(inputs), self.namespace, self.device)))


def evaluate(code: str, inputs: dict, namespace: dict, device: torch.device | str = "cpu"):
    """Run `code` in a copy of `namespace` with `inputs`, tensors moved to `device`; the value of its last line.

    ValueError if the last line is not an expression: that is the check's mistake, not the student's.
    """
    __tracebackhide__ = True
    tree = ast.parse(code)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise ValueError(f"the last line of a question must be an expression, which it is not in {code!r}")
    last = ast.Expression(tree.body.pop().value)
    names = {**namespace, **_move(inputs, device), "__tracebackhide__": True}  # the question's own frame too
    exec(compile(tree, ASKED, "exec"), names)
    return eval(compile(last, ASKED, "eval"), names)


def _move(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if type(value) in (list, tuple):
        return type(value)(_move(item, device) for item in value)
    return {key: _move(item, device) for key, item in value.items()} if type(value) is dict else value


# Expectations. Each takes an Answer, what was expected, and the student's next step.


def expect(answer: Answer, holds: bool, expected: str, next_step: str) -> None:
    """AssertionError unless `holds`, a fact about the answer's value; `expected` states in words what should be true."""
    __tracebackhide__ = True
    if not holds:
        raise Wrong(_report(answer, expected, next_step=next_step)) from answer.raised


def expect_equal(answer: Answer, want, next_step: str) -> None:
    """AssertionError unless the answer is `want`: numbers by value, tensors by dtype, shape and value.

    NaN equals NaN, and 0.0 equals -0.0. A list equals a tuple with the same items, and a 0-dim tensor equals its number;
    True does not equal 1.
    """
    __tracebackhide__ = True
    _compare(answer, want, lambda got, want: got == want or (got != got and want != want), _same_values, next_step)


def expect_close(answer: Answer, want, next_step: str, *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Like expect_equal, but numbers, also in tensors, may differ by atol + rtol · |want|, and floating dtypes may differ.

    Shapes may not. NaN is close to NaN, infinity to the same infinity.
    """

    __tracebackhide__ = True

    def near(got, want) -> bool:
        numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in (got, want)]
        if not all(numbers):
            return got == want
        return bool(
            torch.isclose(*(torch.tensor(float(v), dtype=torch.float64) for v in (got, want)), rtol, atol, True)
        )

    def near_tensors(got, want):
        wide = torch.complex128 if want.is_complex() else torch.float64
        return torch.isclose(got.to(wide), want.to(wide), rtol, atol, True)

    _compare(answer, want, near, near_tensors, next_step)


def expect_raises(answer: Answer, kind: type[Exception], words: str, next_step: str) -> None:
    """AssertionError unless the answer is an exception of the built-in class `kind` with `words` in its text."""
    __tracebackhide__ = True
    if not isinstance(answer.raised, kind):
        expected = f"{kind.__name__} to be raised"
    elif words not in str(answer.raised):
        expected = f"{kind.__name__} that names {words!r}"
    else:
        return
    raise Wrong(_report(answer, expected, next_step=next_step)) from answer.raised


def check_names(ask, seed: int) -> dict:
    """The names that a check cell can use: `ask`, the seed of its random inputs, the expectations, and some libraries.

    It imports anything else itself.
    """
    expectations = {rule.__name__: rule for rule in (expect, expect_close, expect_equal, expect_raises)}
    return {
        "ask": ask,
        "seed": seed,
        "math": math,
        "itertools": itertools,
        "np": np,
        "torch": torch,
        "F": F,
        **expectations,
    }


def kinds_and_text_of(error: Exception) -> tuple[tuple[str, ...], str]:
    """An exception in plain values: the names of its class and of that class's bases, nearest first, and its text."""
    return tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object), str(error)


def exception_from(kinds: tuple[str, ...], text: str) -> Exception:
    """The exception from what kinds_and_text_of() returned: the nearest built-in class that takes a text, with that text."""
    for name in kinds:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, UnicodeError):
            return kind(text)
    return RuntimeError(text)


def _compare(answer: Answer, want, same, same_tensors, next_step: str) -> None:
    __tracebackhide__ = True
    want = plain_values.load(plain_values.dump(want, strict=True))
    difference = "" if answer.raised else _difference(answer.returned, want, same, same_tensors, "")
    if difference is not None:
        if answer.raised is None and (answer.returned is None or difference.endswith("got None")):
            next_step = f"None came back: is a `return` missing? Otherwise: {next_step}"
        raise Wrong(_report(answer, _show(want), difference, next_step)) from answer.raised


def _difference(got, want, same, same_tensors, place: str) -> str | None:
    """The first difference between two values, in words ("" if the values themselves show it), None if there is none."""
    if isinstance(want, torch.Tensor):
        return _tensor_difference(got, want, same_tensors, place)
    if isinstance(got, torch.Tensor) and got.ndim == 0:
        got = got.item()
    if type(want) in (list, tuple):
        if type(got) not in (list, tuple):
            return place and f"{place}: expected {len(want)} items, got {_show(got)}"
        if len(got) != len(want):
            return f"{place or 'length'}: expected {len(want)} items, got {len(got)}"
        pairs = [(f"{place}[{index}]", *pair) for index, pair in enumerate(zip(got, want, strict=True))]
    elif type(want) is dict:
        if type(got) is not dict:
            return place and f"{place}: expected a dict, got {_show(got)}"
        if set(got) != set(want):
            wrong = [f"{key!r} missing" for key in want if key not in got]
            wrong += [f"{key!r} unexpected" for key in got if key not in want]
            return f"{place or 'keys'}: {', '.join(wrong)}"
        pairs = [(f"{place}[{key!r}]", got[key], want[key]) for key in want]
    else:
        alike = type(got) is not torch.Tensor and isinstance(got, bool) == isinstance(want, bool) and same(got, want)
        return None if alike else place and f"{place}: {_both(want, got)}"
    differences = (_difference(a, b, same, same_tensors, where) for where, a, b in pairs)
    return next((difference for difference in differences if difference is not None), None)


def _tensor_difference(got, want: torch.Tensor, same_tensors, place: str) -> str | None:
    start = f"{place}: " if place else ""
    if not isinstance(got, torch.Tensor):
        return f"{start}expected a tensor, got {_show(got)}"
    if got.shape != want.shape:
        return f"{start}expected shape {tuple(want.shape)}, got {tuple(got.shape)}"
    if same_tensors is _same_values and got.dtype != want.dtype:
        return f"{start}expected {want.dtype}, got {got.dtype}"
    wrong = (~same_tensors(got, want)).nonzero()
    if not len(wrong):
        return None
    index = tuple(wrong[0].tolist())
    where = f"[{', '.join(map(str, index))}]" if index else ""
    both = _both(want[index].item(), got[index].item())
    return f"{start}{len(wrong)} of {want.numel()} values differ; first {where}: {both}"


def _same_values(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    if want.dtype.itemsize == 1 and want.is_floating_point():  # fp8 types have no comparison operator on some devices
        got, want = got.float(), want.float()
    return (got == want) | ((got != got) & (want != want))


# Messages


def _report(answer: Answer, expected: str, difference: str = "", next_step: str = "") -> str:
    raised = answer.raised
    got = _show(answer.returned) if raised is None else _first_line(f"{type(raised).__name__}: {raised}")
    lines = [f"expected: {expected}", f"got:      {got}"]
    lines += [f"differs:  {difference}"] * bool(difference)
    if missing := re.match(r"name '(\w+)' is not defined", str(raised) if isinstance(raised, NameError) else ""):
        next_step = _about_a_missing_name(missing[1], answer.question)
    lines += [f"next:     {next_step}"] * bool(next_step)
    question = _question(answer)
    # The next step must not be printed below a page of code.
    place = 2 * (raised is not None)  # lines of the student's that mostly follow; a traceback is not in every process
    together = 1 + question.count("\n") + 1 + len(lines) + place
    return "\n".join([question, *lines] if together <= MOST_LINES else [*lines, "asked:", question])


def _first_line(text: str) -> str:
    first, *more = text.strip().splitlines()
    return first + " …" * bool(more)


def _about_a_missing_name(name: str, question: str) -> str:
    if re.search(rf"\b{name}\b", question):
        return f"run the cell that defines `{name}`, then this check again"
    return f"your code uses `{name}`, which nothing defines: is it misspelt? If a cell above defines it, run that one first"


def _question(answer: Answer) -> str:
    given = [f"    with {name} = {_show(value)}" for name, value in answer.inputs.items()]
    return "\n".join([*answer.question.strip().splitlines(), *given])


def _both(want, got) -> str:
    """Expected and got in one line, with all their digits if six do not tell them apart."""
    shown = (_show(want), _show(got))
    expected, got_text = shown if shown[0] != shown[1] else (repr(want), repr(got))
    return f"expected {expected}, got {got_text}"


def _show(value) -> str:
    """A value in one line; a tensor as its dtype, its shape and its first numbers."""
    if isinstance(value, torch.Tensor):
        numbers = value.flatten()[:8].tolist()
        more = ", …" if value.numel() > len(numbers) else ""
        shown = ", ".join(_show(number) for number in numbers)
        return f"{str(value.dtype).removeprefix('torch.')} tensor {tuple(value.shape)} of [{shown}{more}]"
    if isinstance(value, float):
        return repr(value) if value == round(value, 6) else f"{value:.6g}"
    if type(value) in (list, tuple):
        inner = ", ".join(map(_show, value)) + "," * (type(value) is tuple and len(value) == 1)
        shown = f"[{inner}]" if type(value) is list else f"({inner})"
    elif type(value) is dict:
        shown = "{" + ", ".join(f"{key!r}: {_show(item)}" for key, item in value.items()) + "}"
    else:
        shown = f"a {value}" if isinstance(value, Unserializable) else repr(value)
    return shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + " …"
