"""A notebook's asserts that explain themselves: what a false one says, and the line of a cell whose asserts all passed.

IPython hands each cell to ExplainAsserts. `assert a == b and c < d` becomes a call of `EXPLAINED.compare` for each of the
two comparisons, which compares, notes what it compared, and raises AssertionError if it is false; any other test becomes
a call of `EXPLAINED.hold`. `explain` then shows that error in eight lines at most, the claim first.
"""

import ast
import inspect
import linecache
import operator
import re
import types

from utils.checks.shown import (
    ALONE,
    CLAIMED,
    Comparison,
    apart,
    cut,
    in_words,
    line_of,
    short_source,
)
from utils.proof_text import ASSERT_FUNCTIONS, PLAIN, RED, false_here, number_of_claim

OF_A_FILE = re.compile(r"[\w-]+")  # the id of a cell as a notebook's file has it; VS Code tells another
# Each comparison of Python's grammar: the sign that a reader sees, and what computes it.
COMPARISONS = {
    ast.Eq: ("=", operator.eq), ast.NotEq: ("≠", operator.ne),
    ast.Lt: ("<", operator.lt), ast.LtE: ("≤", operator.le), ast.Gt: (">", operator.gt), ast.GtE: ("≥", operator.ge),
    ast.Is: ("is", operator.is_), ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda x, many: x in many), ast.NotIn: ("not in", lambda x, many: x not in many),
}  # fmt: skip
COMPARE = dict(COMPARISONS.values())
VARIABLE = "@explained"  # of the notebook; no name that its code could use
FRAMES = 3  # the student's own lines that are shown, of those that led to the error


class Explained:
    """What the asserts of the running cell have compared so far, as text; and the comparisons of all cells."""

    def __init__(self):
        self.texts: dict[object, str] = {}  # by where it stands, so that a loop shows its first round
        self.cell_id: str | None = None
        self.source = ""  # of the running cell

    def begin(self, info: object) -> None:
        """Called by IPython before it runs a cell."""
        self.texts, self.cell_id = {}, getattr(info, "cell_id", None)
        self.source = getattr(info, "raw_cell", None) or ""

    def end(self, result: object) -> None:
        """Called by IPython after it has run a cell: print the line if the cell passed and proves a claim."""
        texts, self.texts = list(self.texts.values()), {}
        proves_nothing = OF_A_FILE.fullmatch(self.cell_id or "") and not self.number
        if result.success and texts and not proves_nothing:
            print(line_of(texts, self.number))

    @property
    def number(self) -> str:
        """The claim that the running cell proves, "7.3" say; "" where it proves none, or nobody knows."""
        return number_of_claim(self.cell_id)

    def note(self, place: object, text: str) -> None:
        self.texts.setdefault(place, text)

    def compare(self, place: tuple, source: str, sides: tuple[str, ...], signs: tuple[str, ...], values: tuple) -> None:
        """The assert at `place`, its line and column. Raises AssertionError, with both sides, if it is false of `values`."""
        comparison = Comparison(source, sides, signs)
        for sign, left, right in zip(signs, values, values[1:], strict=False):
            if not COMPARE[sign](left, right):
                raise AssertionError(_told(source, comparison.failed(values)))
        if place not in self.texts:
            self.note(place, comparison.passed(values))

    def hold(self, place: tuple, source: str, value: object) -> None:
        """The assert of anything that is no comparison. Raises AssertionError, with what its names stand for."""
        if not value:
            raise AssertionError(_told(source, _values_of_names(source, inspect.currentframe().f_back)))
        self.note(place, short_source(source, ALONE) or source)


EXPLAINED = Explained()  # of this process: a notebook's kernel runs one cell at a time


def _told(source: str, measured: str) -> str:
    return f"claimed:  {cut(source, CLAIMED)}\nmeasured: {measured}"


def _values_of_names(source: str, frame: types.FrameType) -> str:
    """What the names in the code stand for where it stands; functions, classes and modules need no value."""
    names = dict.fromkeys(node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    known = frame.f_globals | frame.f_locals
    left_out = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
    values = {name: known[name] for name in names if name in known and not isinstance(known[name], left_out)}
    shown = ", ".join(f"{name} {in_words(value)}" for name, value in list(values.items())[:4])
    return ("False; " + shown if shown else "False") + apart(*list(values.values())[:2])


class ExplainAsserts(ast.NodeTransformer):
    """What IPython applies to each cell."""

    def visit_Assert(self, statement: ast.Assert) -> list[ast.stmt]:
        if statement.msg is not None:  # it says itself what is wrong
            return [statement, self._note(statement, short_source(ast.unparse(statement.test)))]
        tests = statement.test.values if _is_and(statement.test) else [statement.test]
        return [_located(ast.Expr(_checked(self.visit(test))), statement, test) for test in tests]

    def visit_Expr(self, statement: ast.Expr) -> ast.stmt | list[ast.stmt]:
        """torch.testing.assert_close(…) and its like are asserts by another name."""
        call = statement.value
        function = getattr(call, "func", None)
        name = getattr(function, "attr", None) or getattr(function, "id", None)
        if not isinstance(call, ast.Call) or name not in ASSERT_FUNCTIONS or len(call.args) < 2:
            return self.generic_visit(statement)
        left, right = (short_source(ast.unparse(side)) or ast.unparse(side) for side in call.args[:2])
        return [statement, self._note(statement, f"{left} ≈ {right}")]

    @staticmethod
    def _note(statement: ast.stmt, text: str) -> ast.stmt:
        note = _call("note", [ast.Constant((statement.lineno, statement.col_offset)), ast.Constant(text)])
        return _located(ast.Expr(note), statement, statement)


def _is_and(test: ast.expr) -> bool:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _checked(test: ast.expr) -> ast.Call:
    """The call that takes the place of an assert."""
    place, source = ast.Constant((test.lineno, test.col_offset)), ast.Constant(ast.unparse(test))
    if not isinstance(test, ast.Compare):
        return _call("hold", [place, source, test])
    sides = [test.left, *test.comparators]
    words = [[ast.unparse(side) for side in sides], [COMPARISONS[type(operation)][0] for operation in test.ops]]
    texts = [ast.Tuple([ast.Constant(word) for word in group], ast.Load()) for group in words]
    return _call("compare", [place, source, *texts, ast.Tuple(sides, ast.Load())])


def _call(method: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(VARIABLE, ast.Load()), method, ast.Load()), arguments, [])


def _located(made: ast.stmt, statement: ast.stmt, at: ast.AST) -> ast.stmt:
    """The made statement and its parts, at the lines of the code that they come from."""
    made.lineno, made.end_lineno = at.lineno, statement.end_lineno
    made.col_offset, made.end_col_offset = at.col_offset, statement.end_col_offset
    return ast.fix_missing_locations(made)


def explain(
    shell, kind: type[BaseException], error: BaseException, trace: types.TracebackType, tb_offset=None
) -> list[str]:
    """IPython's handler of AssertionErrors: show the claim, what was measured, and the student's own line."""
    lines = explanation(error, trace, shell.user_ns, EXPLAINED.number)
    shell._showtraceback(kind, error, lines)
    return lines


def explanation(error: BaseException, trace: types.TracebackType | None, names: dict, number: str = "") -> list[str]:
    """A failed assert in eight lines at most. names: those of the notebook, by which its own lines are known."""
    said = [line for line in str(error).splitlines() if line.strip()][:4]
    own = [frame for frame in inspect.getinnerframes(trace, 0) if frame.frame.f_globals is names] if trace else []
    if len(own) > FRAMES:
        own = [own[0], *own[1 - FRAMES :]]
    places = [
        f"{'in line' if frame.function == '<module>' else f'{frame.function}, line'} {frame.lineno}: "
        + linecache.getline(frame.filename, frame.lineno).strip()
        for frame in own
    ]
    return [f"{RED}{false_here(number)}{PLAIN}", *said, *places]
