"""A notebook's asserts that explain themselves: a failing one shows what it compared, a passing cell does so in one line.

    ✓ 7.3  allocated 9,869,400 = predicted 9,869,400

Values are turned into text at once, so that no tensor lives longer for it; a tensor of several elements is shown by its
dtype and shape, so that nothing runs on its device.
"""

import ast
import re

import torch
from _pytest.assertion.rewrite import AssertionRewriter  # private to pytest: pinned, and covered by a test

MARK = "✓"
GREEN, PLAIN = "\x1b[32m", "\x1b[0m"
WIDTH = 108  # of the line, in characters
NAME = 28  # the longest source of one side that is shown beside its value
VALUE = 44  # the longest text of one value
SIGNS = {ast.Eq: "=", ast.NotEq: "≠", ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥"}
SIGNS |= {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}
COMPARISONS = {"assert_close", "assert_allclose", "assert_equal", "assert_array_equal"}
PROOF = re.compile(r"proof-(\d+)-(\d+)")


class Passed:
    """What the asserts of the running cell have compared so far, as text."""

    def __init__(self):
        self.texts: dict[object, str] = {}  # by where it stands, so that a loop shows its first round
        self.cell_id: str | None = None

    def begin(self, info: object) -> None:
        """Called by IPython before it runs a cell."""
        self.texts, self.cell_id = {}, getattr(info, "cell_id", None)

    def note(self, place: object, text: str) -> None:
        self.texts.setdefault(place, text)

    def compared(self, place: int, sources: tuple[str, ...], signs: tuple[str, ...], values: tuple) -> None:
        """An assert at line `place` has compared `values`, which `sources` computed."""
        if place not in self.texts:
            sides = [_side(source, value) for source, value in zip(sources, values, strict=True)]
            self.texts[place] = " ".join([sides[0], *(f"{s} {side}" for s, side in zip(signs, sides[1:], strict=True))])

    def end(self, result: object) -> None:
        """Called by IPython after it has run a cell: print the line if the cell passed."""
        if self.texts and result.success:
            number = PROOF.fullmatch(self.cell_id or "")
            print(line_of(list(self.texts.values()), f"{number[1]}.{number[2]}" if number else ""))
        self.texts = {}


PASSED = Passed()  # of this process: a notebook's kernel runs one cell at a time


def line_of(texts: list[str], number: str = "") -> str:
    """The line of a cell that passed: as many of the texts as fit."""
    head, shown = f"{GREEN}{MARK}{PLAIN} " + (f"{number}  " if number else ""), []
    for text in texts:
        if shown and len(" · ".join([*shown, text])) > WIDTH:
            break
        shown.append(text)
    more = len(texts) - len(shown)
    return head + " · ".join(shown) + (f" · and {more} more" if more else "")


def in_words(value: object, most: int = VALUE) -> str:
    """A value in at most about `most` characters, without running anything on a device that is not read anyway."""
    text = _text(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, bool) or value is None or isinstance(value, complex):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{value:.6g}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
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
    return left + ", ".join([*parts, *["…"] * (len(parts) < len(value))]) + right


def _tensor(tensor: torch.Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type != "meta"
    if tensor.dim() == 0 and plain:
        with torch.utils._python_dispatch._disable_current_modes():  # a counting mode must not see it
            return _text(tensor.item())
    return f"{name}[{', '.join(map(str, tensor.shape))}]"


def _side(source: str, value: object) -> str:
    """One side of a comparison: its source, if that is short and says more than the value, and its value."""
    return f"{source} {in_words(value)}" if source else in_words(value)


class ShowingRewriter(AssertionRewriter):
    """pytest's rewriting of asserts, which also notes what a passing assert compared."""

    def __init__(self):
        super().__init__(None, None, b"")
        self.results: dict[ast.expr, ast.expr] = {}

    def visit(self, node: ast.AST):
        found = super().visit(node)
        if isinstance(node, ast.expr) and isinstance(found, tuple):
            self.results[node] = found[0]  # the variable that holds its value
        return found

    def visit_Assert(self, assert_: ast.Assert) -> list[ast.stmt]:
        self.results = {}
        test = assert_.test
        statements = super().visit_Assert(assert_)
        note = ast.Expr(self._compared(test, assert_.lineno) or _noted(test, assert_.lineno))
        for node in ast.walk(ast.fix_missing_locations(ast.copy_location(note, assert_))):
            ast.copy_location(node, assert_)
        # Before pytest clears its variables.
        statements.insert(len(statements) - bool(self.variables), note)
        return statements

    def _compared(self, test: ast.expr, line: int) -> ast.Call | None:
        """The call that notes a comparison; None if the test is none."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            test = test.values[0]
        sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
        values = [self.results.get(side) for side in sides]
        if not sides or not all(isinstance(value, ast.Name) for value in values):
            return None
        words = [[_source(side) for side in sides], [SIGNS[type(operator)] for operator in test.ops]]
        texts = [ast.Tuple([ast.Constant(word) for word in group], ast.Load()) for group in words]
        names = ast.Tuple([ast.Name(value.id, ast.Load()) for value in values], ast.Load())
        return _call("compared", [ast.Constant(line), *texts, names])


def _source(side: ast.expr) -> str:
    if not any(isinstance(node, ast.Name) for node in ast.walk(side)):
        return ""  # constants alone
    text = ast.unparse(side)
    return text if len(text) <= NAME and not isinstance(side, ast.Tuple | ast.List | ast.Set | ast.Dict) else ""


def _noted(test: ast.expr, line: int) -> ast.Call:
    text = ast.unparse(test)
    return _call("note", [ast.Constant(line), ast.Constant(text if len(text) <= 80 else text[:79] + "…")])


def _call(method: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(VARIABLE, ast.Load()), method, ast.Load()), arguments, [])


VARIABLE = "@passed"  # of the notebook; no name that its code could use


class ExplainAsserts(ast.NodeTransformer):
    """What IPython applies to each cell."""

    def visit(self, node):
        if isinstance(node, ast.Module):
            self._note_comparisons(node)
            ShowingRewriter().run(node)
            # pytest adds imports on the line of the first statement, without an end line; IPython would take line 1.
            for statement in node.body:
                statement.end_lineno = getattr(statement, "end_lineno", None) or statement.lineno
        return node

    def _note_comparisons(self, module: ast.Module) -> None:
        """torch.testing.assert_close(…) and its like are asserts by another name."""
        for parent in ast.walk(module):
            for body in (getattr(parent, "body", None), getattr(parent, "orelse", None)):
                if isinstance(body, list):
                    body[:] = [new for statement in body for new in _with_note(statement)]


def _with_note(statement: ast.stmt) -> list[ast.stmt]:
    call = statement.value if isinstance(statement, ast.Expr) else None
    name = getattr(getattr(call, "func", None), "attr", None) or getattr(getattr(call, "func", None), "id", None)
    if name not in COMPARISONS or len(call.args) < 2:
        return [statement]
    left, right = map(ast.unparse, call.args[:2])
    note = _call("note", [ast.Constant(statement.lineno), ast.Constant(f"{left} ≈ {right}"[:80])])
    return [statement, ast.fix_missing_locations(ast.copy_location(ast.Expr(note), statement))]
