"""Turns: small functions that a student writes in the middle of a lecture, checked at once; ours stand in for them.

    @ours(                                                        # a folded cell
        cases=[{"B": 8, "T": 1024, "V": 50_257}, {"B": 3, "T": 7, "V": 11}],
        because={lambda B, T, V: 2 * B * T * V: "2 bytes hold a bfloat16. These logits are float32."},
    )
    def bytes_of_the_name(B=8, T=1024, V=50_257):
        return 4 * B * T * V

    @your_turn                                                    # the cell below it, in sight
    def bytes_of_the_name(B=8, T=1024, V=50_257):
        return ...

After the second cell the name stands for the student's function if that is right, and for ours in all other cases, so that
the lecture runs on. `settle` is for a guess, made before something is measured.
"""

import copy
import dis
import inspect
import linecache
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from numbers import Number

import torch

from utils.checks.alike import TOLERANCE, Difference, difference
from utils.checks.shown import cut, in_words
from utils.device import own_random_streams

UNWRITTEN = "○ yours is not written yet: ours is used below, so you can read on"
RIGHT = "✓ yours is right: it is used below"
SEEDS = (0, 1, 2)  # of cases that are drawn
STILL = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}  # what a function without a body consists of
LONGEST = 100  # characters of a line, about
LARGEST_PART = 12  # of a ratio that is told as a fraction
CLOSE = 0.1  # of a guess, relative
NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")  # in the message of an exception

Cases = list[dict] | Callable[[int], dict]


@dataclass(frozen=True)
class Outcome:
    """What a function made of one case: what it returned or raised, and its arguments afterwards."""

    returned: object
    arguments: dict
    raised: Exception | None = None


@dataclass(frozen=True)
class Turn:
    """Our answer, and how a student's is checked."""

    function: Callable
    cases: Cases
    because: dict[Callable, str] = field(default_factory=dict)
    tolerance: float = TOLERANCE
    gradients: bool = True
    items: bool = False
    also: tuple[Callable, ...] = ()

    def arguments(self) -> list[dict]:
        """Those of each case."""
        if not callable(self.cases):
            return list(self.cases)
        found = []
        for seed in SEEDS:
            with own_random_streams(seed):
                found.append(self.cases(seed))
        return found

    def outcomes(self, function: Callable) -> list[Outcome]:
        """Of each case; a function that calls itself by the turn's name calls itself, and not the one used below."""
        with _named(self.function, function):
            return [_outcome(function, arguments) for arguments in self.arguments()]

    def takes(self, yours: list[Outcome]) -> bool:
        """Whether they are as ours, or as those of another right answer, in all cases."""
        rights = (self.outcomes(right) for right in (self.function, *self.also))
        return any(not any(self.differences(yours, right)) for right in rights)

    def differences(self, yours: list[Outcome], ours: list[Outcome]) -> list[Difference | None]:
        return [self._difference(*pair) for pair in zip(yours, ours, strict=True)]

    def _difference(self, yours: Outcome, ours: Outcome) -> Difference | None:
        if yours.raised or ours.raised:
            same = type(yours.raised) is type(ours.raised)
            return None if same else Difference("", *(each.raised or each.returned for each in (yours, ours)))
        # A function that returns nothing is there for what it changes: what another one returns beside that does no harm.
        if self.items:
            yours = replace(yours, returned=_item(yours.returned))
        found = None if ours.returned is None else difference(yours.returned, ours.returned, self.tolerance)
        if found := found or _without_record(yours.returned, ours.returned):
            return found
        return next((each for name in ours.arguments if (each := self._changed(name, yours, ours))), None)

    def _changed(self, name: str, yours: Outcome, ours: Outcome) -> Difference | None:
        """How one argument differs afterwards."""
        values = yours.arguments[name], ours.arguments[name]
        found = difference(*values, self.tolerance, name, self.gradients)
        return found or (_of_gradients(*values, self.tolerance, name) if self.gradients else None)

    def reason(self, yours: list[Outcome]) -> str:
        """Why it is wrong: the sentence about the anticipated answer that does the same in all cases; "" for another one.

        One that raises does the same only if its messages are the same, but for the numbers in them.
        """
        for wrong, sentence in self.because.items():
            anticipated = self.outcomes(wrong)
            if not any(self.differences(yours, anticipated)) and all(map(_raise_alike, yours, anticipated)):
                return sentence
        return ""


def ours(
    cases: Cases = ({},),
    because: dict[Callable, str] | None = None,
    tolerance: float = TOLERANCE,
    gradients: bool = True,
    items: bool = False,
    also: tuple[Callable, ...] = (),
) -> Callable[[Callable], Callable]:
    """Make the decorated function our answer to the turn of its name.

    cases: the arguments that a student's function is tried with, or a function that draws those of one case from a seed.
    because: anticipated wrong answers, functions, each with a sentence that says what is wrong.
    tolerance: relative, of floating-point numbers.
    gradients: whether those that a function leaves behind in its arguments are compared, too.
    items: whether a tensor without dimensions is as good an answer as the number in it.
    also: further right answers, functions, where there is more than one.
    Raises ValueError where there is no case.
    """
    if not cases:
        raise ValueError(
            f"cases is {cases!r}: give the arguments of one case at least, [{{}}] for a function without any"
        )

    def decorate(function: Callable) -> Callable:
        function.turn = Turn(function, cases, because or {}, tolerance, gradients, items, also)
        return function

    return decorate


def your_turn(yours: Callable) -> Callable:
    """The decorated function if it is right, ours if not; prints which, and what is wrong. Changes nothing else."""
    name = yours.__name__
    written = inspect.unwrap(yours)  # without another decorator, such as torch.no_grad()
    turn = getattr(written.__globals__.get(name), "turn", None)
    if turn is None:
        print(f"○ ours of {name} is not known yet: run the folded cell above, then this one again")
        return yours
    if is_unwritten(written):
        print(UNWRITTEN)
        return turn.function
    expected, outcomes = turn.outcomes(turn.function), turn.outcomes(yours)
    if turn.takes(outcomes):
        print(RIGHT)
        yours.turn = turn  # the cell may be run again
        return yours
    differences = turn.differences(outcomes, expected)
    print(*_report(turn, written, outcomes, expected, differences), sep="\n")
    return turn.function


def is_unwritten(function: Callable) -> bool:
    """Whether its body is `...`, `pass`, a docstring, or returns nothing but None or `...`."""
    steps = list(dis.get_instructions(function))
    if any(step.opname not in STILL for step in steps):
        return False
    last = next(step for step in reversed(steps) if step.opname in ("LOAD_CONST", "RETURN_CONST"))
    return last.argval is None or last.argval is ...


def settle(guess: object, measured: object, unit: str = "") -> None:
    """Print how close a guess came to what was measured; `...` is a guess that was not made."""
    measured = measured.item() if isinstance(measured, torch.Tensor) else measured
    value = f"{in_words(measured)} {unit}".strip()
    if guess is ... or guess is None:
        print(f"○ no guess: it is {value}")
    elif isinstance(measured, Number) and not isinstance(measured, bool) and not isinstance(guess, Number):
        print(f"○ your guess is {in_words(guess)}, which is no number: it is {value}")
    elif guess == measured:
        print(f"✓ you guessed it: {value}")
    elif not isinstance(measured, Number) or isinstance(measured, bool):
        print(f"✗ you guessed {in_words(guess)}: it is {value}")
    else:
        far = abs(guess - measured) / abs(measured) if measured else math.inf
        words = (
            f"off by {100 * far:.1f} %" if far <= CLOSE else _ratio_in_words([guess], [measured], [{}]) or "far from it"
        )
        print(f"{'✓' if far <= CLOSE else '✗'} you guessed {in_words(guess)}: it is {value} ({_of_it(words)})")


def whose(*functions: Callable) -> str:
    """Which of the functions of some turns are the student's, and for which of them ours stand in."""
    theirs = {
        function: function is not getattr(getattr(function, "turn", None), "function", None) for function in functions
    }
    names = [[each.__name__ for each in functions if theirs[each] == wanted] for wanted in (True, False)]
    return " · ".join(f"{whom}: {', '.join(some)}" for whom, some in zip(("yours", "ours"), names, strict=True) if some)


def _of_it(words: str) -> str:
    return f"your guess is {words.replace('ours', 'it')}" if "ours" in words else words


# Trying a function


@contextmanager
def _named(ours: Callable, function: Callable) -> Iterator[None]:
    """Within the block the name of our function stands for `function`."""
    names, name = ours.__globals__, ours.__name__
    before = names.get(name, ours)
    names[name] = function
    try:
        yield
    finally:
        names[name] = before


def _outcome(function: Callable, arguments: dict) -> Outcome:
    given = copy.deepcopy(arguments)
    with own_random_streams(0):
        try:
            return Outcome(function(**given), given)
        except Exception as error:
            return Outcome(None, given, error)


def _raise_alike(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes raise with the same words, whatever sizes and addresses stand among them, or raise nothing."""
    words, others = (NUMBERS.sub("", str(outcome.raised)) for outcome in (one, other))
    return words == others


def _item(value: object) -> object:
    """The number in a tensor without dimensions; any other value as it is."""
    return value.item() if isinstance(value, torch.Tensor) and value.dim() == 0 else value


def _of_gradients(yours: object, ours: object, tolerance: float, name: str) -> Difference | None:
    """How the gradients of the tensors in two arguments differ, which may be tensors, or tuples and lists of them."""
    pairs = [(yours, ours, name)]
    if isinstance(ours, tuple | list):
        pairs = [(mine, other, f"{name}[{k}]") for k, (mine, other) in enumerate(zip(yours, ours, strict=True))]
    found = (
        difference(mine.grad, other.grad, tolerance, f"{place}.grad")
        for mine, other, place in pairs
        if getattr(other, "is_leaf", False)
    )
    return next((each for each in found if each), None)


def _without_record(yours: object, ours: object) -> Difference | None:
    """That a gradient flows back through our tensor, and none through the student's, whose numbers are the same."""
    if isinstance(ours, torch.Tensor) and ours.requires_grad and not yours.requires_grad:
        return Difference("", yours, ours, "the number is right, but no gradient can flow back through it")
    return None


# Saying what is wrong


def _report(
    turn: Turn, yours: Callable, outcomes: list[Outcome], expected: list[Outcome], differences: list[Difference | None]
) -> list[str]:
    """At most six lines."""
    wrong = [place for place, found in enumerate(differences) if found]
    first, found = wrong[0], differences[wrong[0]]
    head, many = "✗ not yet: ours is used below", len(differences)
    if len(wrong) < many:
        head += f". Yours is right in {many - len(wrong)} of {many} cases"
    arguments = turn.arguments()[first]
    lines = [head, *([f"  with   {_call(arguments)}"] if arguments else [])]
    if error := outcomes[first].raised:
        lines += [cut(f"  yours  {type(error).__name__}: {error}".splitlines()[0], LONGEST), *_line_of(error, yours)]
    else:
        lines.append(f"  yours  {_value(found.yours, found)}")
    if not (error and expected[first].raised is None):
        pairs = [(found.yours, found.ours) for found in differences if found]
        cases = [each for each, found in zip(turn.arguments(), differences, strict=True) if found]
        ratio = "" if found.place or found.words else _ratio_in_words(*zip(*pairs, strict=True), cases)
        lines.append(f"  ours   {_value(found.ours, found)}" + (f": yours is {ratio}" if ratio else ""))
        lines += [f"         {found.words}"] * bool(found.words)
    reason = turn.reason(outcomes)
    return lines + [f"  why    {reason}"] * bool(reason)


def _call(arguments: dict) -> str:
    return cut(", ".join(f"{name}={in_words(value)}" for name, value in arguments.items()), LONGEST)


def _value(value: object, found: Difference) -> str:
    if isinstance(value, Exception):
        return f"raises {type(value).__name__}"
    same_words = in_words(found.yours) == in_words(found.ours)
    shown = repr(value) if same_words and isinstance(value, float) else in_words(value)
    return f"{found.place.removeprefix('.')} = {shown}" if found.place else shown


def _line_of(error: Exception, function: Callable) -> list[str]:
    """The student's own line that an exception came through last."""
    file, entry, number = function.__code__.co_filename, error.__traceback__, 0
    while entry:
        if entry.tb_frame.f_code.co_filename == file:
            number = entry.tb_lineno
        entry = entry.tb_next
    source = linecache.getline(file, number).strip()
    return [f"         in line {number}: {cut(source, LONGEST)}"] if number else []


def _ratio_in_words(yours: list, ours: list, cases: list[dict]) -> str:
    """How many times ours yours is, if that is the same in all cases, or a product of arguments: "half of ours"."""
    if not all(_is_real(value) for value in (*yours, *ours)) or 0 in ours or 0 in yours:
        return ""
    ratios = [mine / other for mine, other in zip(yours, ours, strict=True)]
    if _alike(ratios):
        return (
            _times(ratios[0]) or (_difference_in_words(yours, ours) if len(ratios) > 1 else "") or _roughly(ratios[0])
        )
    for names in _products(cases):
        products = [math.prod(case[name] for name in names) for case in cases]
        for power, words in ((1, "{} times ours"), (-1, "ours divided by {}")):
            rest = [ratio / product**power for ratio, product in zip(ratios, products, strict=True)]
            if _alike(rest) and math.isclose(rest[0], 1):
                return words.format("·".join(names))
    return _difference_in_words(yours, ours) or _roughly(ratios[0])


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _alike(ratios: list[float]) -> bool:
    return all(math.isclose(ratio, ratios[0], rel_tol=1e-9) for ratio in ratios)


def _times(ratio: float) -> str:
    """In words if the ratio is a small fraction, a whole number or one over a whole number; "" if not."""
    if math.isclose(ratio, -1):
        return "ours with the other sign"
    for below in range(1, LARGEST_PART + 1):
        above = round(ratio * below)
        if above > 0 and math.isclose(ratio * below, above, rel_tol=1e-9) and (below == 1 or above <= LARGEST_PART):
            named = {(2, 1): "twice ours", (1, 2): "half of ours"}
            part = f"{above:,} times ours" if below == 1 else f"{above}/{below} of ours"
            return named.get((above, below), part)
    over = round(1 / ratio)
    return f"1/{over:,} of ours" if over > 0 and math.isclose(ratio * over, 1, rel_tol=1e-9) else ""


def _products(cases: list[dict]) -> Iterator[tuple[str, ...]]:
    """The whole-numbered arguments by which an answer may be off, alone and two or three together."""
    names = [name for name in cases[0] if all(type(case.get(name)) is int and case[name] > 1 for case in cases)]
    return (each for many in (1, 2, 3) for each in combinations(names, many))


def _difference_in_words(yours: list, ours: list) -> str:
    apart = [mine - other for mine, other in zip(yours, ours, strict=True)]
    if len(apart) > 1 and _alike(apart) and all(isinstance(value, int) for value in apart):
        return f"{in_words(abs(apart[0]))} {'more' if apart[0] > 0 else 'less'} than ours in each case"
    return ""


def _roughly(ratio: float) -> str:
    """A number of times; by how much it is more or less where that would read "1 times ours"."""
    if f"{ratio:,.3g}" != "1":
        return f"{ratio:,.3g} times ours"
    percent = 100 * abs(ratio - 1)
    far = f"{percent:.2g} %" if percent >= 0.01 else "a little"
    return f"{far} {'more' if ratio > 1 else 'less'} than ours"
