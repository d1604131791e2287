"""What an assert compared, in words: one line for a cell that passed, two for an assert that is false.

    ✓ 7.3  allocated = predicted = 9,869,400

    claimed:  allocated == predicted
    measured: allocated 9,869,912, predicted 9,869,400

Values are turned into text at once, so that no tensor lives longer for it; a tensor of several elements is shown by its
dtype and shape, so that nothing runs on its device.
"""

import ast
import builtins
import re
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from utils.proof_text import MARK, green_line

WIDTH = 100  # of a line, in characters that one sees
NUMBER = len("10.123  ")  # the longest number of a claim, and its blanks
NAME = 32  # the longest source of one side that is shown beside its value
ALONE = 60  # the longest source that is shown without one
VALUE = 36  # the longest text of one value
LEFT_OUT = "…"
CLAIMED = 200  # the longest source of an assert that is false
ADDRESSES = {"data_ptr", "_cdata", "addressof", "id"}  # what calls these gives a number that means nothing to a reader
GENERATOR = re.compile(r"\(\(([^()]* for [^()]*)\)\)")  # Python writes sum((x for x in y)), and nobody else


@dataclass(frozen=True)
class Comparison:
    """The code of a comparison: what an assert says, before it has values.

    sides: the code of each operand. signs: one between each two of them.
    """

    source: str
    sides: tuple[str, ...]
    signs: tuple[str, ...]

    def passed(self, values: tuple) -> str:
        """What was compared, with its values: the sentence of a green line."""
        if set(self.signs) == {"="}:
            return self._equal(values)
        shown = [_side(side, value) for side, value in zip(self.sides, values, strict=True)]
        return " ".join([shown[0], *(f"{sign} {side}" for sign, side in zip(self.signs, shown[1:], strict=True))])

    def failed(self, values: tuple) -> str:
        """What came instead: the values of all sides but constants, and how far apart two tensors are."""
        parts = self._parts(values) if self.signs == ("=",) else []
        wrong = [_side(side, value) for side, value, expected in parts if not _same(value, expected)]
        named = [(side, value) for side, value in zip(self.sides, values, strict=True) if short_source(side)]
        if len(named) == 1 and not wrong:
            return in_words(named[0][1], 80)
        shown = wrong or [_side(side, value) for side, value in named or zip(self.sides, values, strict=True)]
        return ", ".join(shown) + apart(*values[:2])

    def _equal(self, values: tuple) -> str:
        parts = [(side, value) for side, value, _ in self._parts(values) if short_source(side)]
        if parts:
            return ", ".join(_side(side, value, "=") for side, value in parts)
        texts = [in_words(value) for value in values]
        if len(set(texts)) > 1:  # equal, but told differently: a set in another order, 0.1 and a tensor
            return " = ".join(_side(side, value) for side, value in zip(self.sides, values, strict=True))
        named = [side for side in self.sides if short_source(side)]
        if not named:
            return " = ".join(self.sides)
        says_it = any(side.endswith(texts[0]) for side in named)  # torch.bfloat16, and math.inf
        is_a_place = len(named) > 1 and all(map(is_address, named))
        return " = ".join([*map(short_source, named), *([] if says_it or is_a_place else texts[:1])])

    def _parts(self, values: tuple) -> list[tuple[str, object, object]]:
        """Of (a, b) == (1, 2): (a, its value, what it should be), and so on; none for other comparisons."""
        left = _parsed(self.sides[0])
        if not isinstance(left, ast.Tuple | ast.List) or any(isinstance(each, ast.Starred) for each in left.elts):
            return []
        if len(values) != 2 or not all(isinstance(v, list | tuple) and len(v) == len(left.elts) for v in values):
            return []
        return [(ast.unparse(part), value, expected) for part, value, expected in zip(left.elts, *values, strict=True)]


def line_of(texts: list[str], number: str = "") -> str:
    """The line of a cell that passed: as many of the texts as fit, in their order; the first is always there."""
    room = WIDTH - len(f"{MARK} ") - NUMBER
    left = " · and 99 more" if len(" · ".join(texts)) > room else ""
    shown = [cut(texts[0], room - len(left))]
    for text in texts[1:]:
        if len(" · ".join([*shown, text]) + left) <= room:
            shown.append(text)
    more = len(texts) - len(shown)
    words = " · ".join(shown) + (f" · and {more} more" if more else "")
    return green_line(words, number)


@cache
def short_source(side: str, most: int = NAME) -> str:
    """The code of one side in at most `most` characters; "" for constants, whose value says it all.

    Details are left out, the deepest first, unless what is left names nothing: abs(…), or [… for each in (1, 2)].
    """
    if not any(isinstance(node, ast.Name) for node in ast.walk(_parsed(side))):
        return ""
    texts = []
    for depth in (9, 2, 1, 0):
        outline = _Outline(depth).visit(_parsed(side))
        texts.append(GENERATOR.sub(r"(\1)", ast.unparse(outline)))
        names_something = names_in(outline) or not names_in(_parsed(side))
        if len(texts[-1]) <= most and names_something:
            return texts[-1]
    return cut(texts[-1] if names_something else texts[0], most)


def names_in(code: ast.AST) -> set[str]:
    """The names that tell a reader what is compared: not those of Python itself, nor those that a comprehension makes."""
    nodes = list(ast.walk(code))
    made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return names - made - vars(builtins).keys() - {LEFT_OUT}


class _Outline(ast.NodeTransformer):
    """Code with LEFT_OUT for what calls are given, and for what comprehensions make, deeper than `depth` calls."""

    def __init__(self, depth: int):
        self.depth = depth

    def visit_Call(self, call: ast.Call) -> ast.Call:
        function = self.visit(call.func)
        if self.depth == 0 and (call.args or call.keywords):
            return ast.Call(function, [ast.Name(LEFT_OUT, ast.Load())], [])
        self.depth -= 1
        arguments = [self.visit(argument) for argument in call.args]
        keywords = [ast.keyword(each.arg, self.visit(each.value)) for each in call.keywords]
        self.depth += 1
        return ast.Call(function, arguments, keywords)

    def visit_ListComp(self, made: ast.ListComp) -> ast.AST:
        if self.depth > 1:
            return self.generic_visit(made)
        return ast.ListComp(ast.Name(LEFT_OUT, ast.Load()), [self.visit(each) for each in made.generators])

    def visit_GeneratorExp(self, made: ast.GeneratorExp) -> ast.AST:
        if self.depth > 1:
            return self.generic_visit(made)
        return ast.GeneratorExp(ast.Name(LEFT_OUT, ast.Load()), [self.visit(each) for each in made.generators])


def is_address(side: str) -> bool:
    """Whether the value of this code is a place in memory, or some; the distance of two is none."""
    code = _parsed(side)
    if isinstance(code, ast.BinOp):
        return False
    return any(getattr(node, "attr", getattr(node, "id", None)) in ADDRESSES for node in ast.walk(code))


def apart(left: object = None, right: object = None) -> str:
    """How two tensors of one shape differ, after a semicolon; "" for anything else."""
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor) and left.shape == right.shape):
        return ""
    if left.dim() == 0 or left.device.type == "meta" or left.device != right.device or left.is_complex():
        return ""
    far = (left.detach().double() - right.detach().double()).abs()
    differ = int((left != right).sum())
    return f"; {differ:,} of {left.numel():,} numbers differ, by up to {far.max().item():.3g}" if differ else ""


def in_words(value: object, most: int = VALUE) -> str:
    """A value in at most about `most` characters, without running anything on a device that is not read anyway."""
    return cut(_text(value), most)


def cut(text: str, most: int) -> str:
    """The text in at most `most` characters, with a sign where something was left out."""
    return text if len(text) <= most else text[: most - 1].rstrip() + LEFT_OUT


def _text(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or value is None or isinstance(value, complex):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{value:.6g}"
    if isinstance(value, float):
        whole = abs(value) < 1e15 and (value.is_integer() or abs(value) >= 1e6)
        return f"{value or 0.0:,.0f}" if whole else f"{value:.6g}"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, list | tuple | set | frozenset):
        return _several([in_words(each, 20) for _, each in zip(range(8), value, strict=False)], value)
    if isinstance(value, dict):
        return _several(
            [f"{in_words(k, 20)}: {in_words(value[k], 20)}" for k, _ in zip(value, range(8), strict=False)], value
        )
    text = repr(value)
    return type(value).__name__ if " at 0x" in text or "\n" in text else text


def _several(parts: list[str], value: list | tuple | set | frozenset | dict) -> str:
    left, right = "()" if isinstance(value, tuple) else "[]" if isinstance(value, list) else "{}"
    return left + ", ".join([*parts, *[LEFT_OUT] * (len(parts) < len(value))]) + right


def _tensor(tensor: torch.Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type != "meta"
    if tensor.dim() == 0 and plain:
        with torch.utils._python_dispatch._disable_current_modes():  # a counting mode must not see it
            return _text(tensor.item())
    return f"{name}[{', '.join(map(str, tensor.shape))}]"


def _side(side: str, value: object, sign: str = "") -> str:
    """One side of a comparison: its code, if that says more than the value, and its value, unless that is an address."""
    name = short_source(side)
    if not name:
        return in_words(value)
    if is_address(side):
        return name
    if isinstance(_parsed(side), ast.BinOp):
        sign = "="  # "a * b 12" could be read as one number
    return f"{name} {sign} {in_words(value)}" if sign else f"{name} {in_words(value)}"


def _same(value: object, expected: object) -> bool:
    try:
        return bool(value == expected)
    except Exception:  # tensors of several elements, and whatever else has no single answer
        return False


def _parsed(side: str) -> ast.expr:
    return ast.parse(side, mode="eval").body
