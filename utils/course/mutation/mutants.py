"""Small changes to a lecture's code, one at a time, each of which should make an assert fail.

Changed are numbers (±1, ×2, the sign), operators, dtypes, True and False, and statements (left out). A `*` becomes `//` and
a number stays of its kind, so that the mutant is another value more often than a type error.

Never changed: asserts (with them `raises(…)`, torch.testing, the detectors of utils.checks, and calls of functions that
assert), imports, annotations, texts, prints and pictures, random seeds, how often something is timed, what puts things
back (`finally`, close, …), the branch that the short form on a CPU does not take, and whatever no assert depends on.
"""

import ast
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from utils.course.notebooks.dataflow import (
    OURS,
    YOUR_TURN,
    Use,
    called_name,
    imported,
    root_of,
    touched_by,
    users,
    with_their_needs,
)
from utils.course.notebooks.notebook import Cell, Lecture, source_hash, syntax_tree
from utils.proof_text import ASSERT_FUNCTIONS

OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//"}
OPERATORS |= {ast.Pow: "*", ast.MatMult: "*", ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&"}
OPERATORS |= {ast.BitXor: "|", ast.And: "or", ast.Or: "and"}
OPERATORS |= {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
OPERATORS |= {ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
SYMBOLS = {ast.Add: r"\+", ast.Sub: "-", ast.Mult: r"\*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
SYMBOLS |= {ast.Pow: r"\*\*", ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: r"\|"}
SYMBOLS |= {ast.BitXor: r"\^", ast.And: r"\band\b", ast.Or: r"\bor\b"}
SYMBOLS |= {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
SYMBOLS |= {ast.Is: r"\bis\b", ast.IsNot: r"\bis\s+not\b", ast.In: r"\bin\b", ast.NotIn: r"\bnot\s+in\b"}

DTYPES = {
    "float32": ("float64", "bfloat16"),
    "float64": ("float32",),
    "bfloat16": ("float16", "float32"),
    "float16": ("bfloat16", "float32"),
    "float8_e4m3fn": ("float8_e5m2",),
    "float8_e5m2": ("float8_e4m3fn",),
    "complex64": ("complex128",),
    "complex128": ("complex64",),
    "int64": ("int32",),
    "int32": ("int64",),
    "int16": ("int32",),
    "int8": ("uint8",),
    "uint8": ("int8",),
    "uint16": ("int16",),
}
PRECISIONS = {"fp32": "bf16", "tf32": "fp32", "bf16": "fp16", "fp16": "bf16", "fp8": "bf16", "fp64": "fp32"}
CONVERSIONS = {"double": "float", "float": "double", "half": "bfloat16", "bfloat16": "half", "long": "int"}

SHOWN = {"print", "display", "not_verified", "explain_asserts", "settle", "Code", "Markdown", "HTML", "sleep"}
SEEDED = {"default_rng", "RandomState", "Random"}
# Names of repetitions and waiting times.
ARRANGED = {"seed", "seeds", "rounds", "repeats", "repetitions", "timeout", "patience", "pause"}
HOUSEKEEPING = {"close", "flush", "fsync", "rmtree", "cleanup", "collect", "synchronize", "empty_cache", "terminate"}
HOUSEKEEPING |= {"filterwarnings", "simplefilter", "kill", "join"}
# Flags that raise or decode, and do not change a value.
REFUSALS = {("zip", "strict"), ("run", "check"), ("run", "text"), ("run", "capture_output")}
KEPT_WRAPPERS = {"raises", "catch_warnings", "redirect_stdout", "redirect_stderr", "suppress"}
LEFT_OUT_TAGS = {"parameters", "gpu", "full", "compiler"}  # a compiler would run for each change


@dataclass(frozen=True)
class Mutant:
    """One cell with one change."""

    cell: Cell
    source: str  # the whole cell, changed
    change: str  # the line's number in the cell and the line, the change marked in it: "3: x = [2 → 4] * y"
    touched: frozenset[str]  # the names after the cell whose values may differ
    lines: tuple[int, int]  # first and last line of the changed statement, or of its head if it has a body

    @property
    def cell_hash(self) -> str:
        return source_hash(self.cell.source)[:12]


class Code:
    """The proving code of a lecture: all cells except unused pictures and Colab's, with their trees and names.

    Raises ValueError for a cell that is not plain Python.
    """

    def __init__(self, lecture: Lecture):
        code = [cell for cell in lecture.code if not cell.is_colab]
        trees = {cell.index: syntax_tree(cell) for cell in code}
        drawn = {cell.index for cell in code if cell.is_picture}
        needed = set().union(*(Use(trees[c.index].body).needs for c in code if c.index not in drawn))
        self.cells = [cell for cell in code if cell.index not in drawn or Use(trees[cell.index].body).binds & needed]
        self.trees = [trees[cell.index] for cell in self.cells]
        self.uses = [Use(tree.body) for tree in self.trees]
        self.statements = [[Use([node]) for node in tree.body] for tree in self.trees]
        self.imported = imported(self.trees)
        self.words = Words(self.trees)
        self.asserting = {i for i, tree in enumerate(self.trees) if self.words.asserts(tree)}
        self.proofs = {claim.proof.index for claim in lecture.claims if claim.proof}
        heads = [cell.index for cell in lecture.cells if _starts_section(cell)]
        self.sections = [sum(head <= cell.index for head in heads) for cell in self.cells]

    def cut_to(self, names: list[str]) -> None:
        """Keep only the cells with these ids, what they need, and what uses them. Raises ValueError for an unknown id."""
        places = {cell.id: place for place, cell in enumerate(self.cells)}
        unknown = set(names) - set(places)
        if unknown:
            raise ValueError(f"no code cell {min(unknown)!r}: known are {', '.join(places)}")
        wanted = {places[name] for name in names}
        for place in list(wanted):
            if self.cells[place].index not in self.proofs:
                wanted |= set(self.users(place, (self.uses[place].binds | self.uses[place].changes) - self.imported))
        kept = with_their_needs(self.uses, 0, wanted, self.proof_places)
        for name in ("cells", "trees", "uses", "statements", "sections"):
            setattr(self, name, [getattr(self, name)[place] for place in kept])
        self.asserting = {new for new, old in enumerate(kept) if old in self.asserting}

    @property
    def proof_places(self) -> set[int]:
        return {place for place, cell in enumerate(self.cells) if cell.index in self.proofs}

    def section(self, position: int) -> range:
        """The positions of the cells after this one up to the next heading."""
        end = position + 1
        while end < len(self.cells) and self.sections[end] == self.sections[position]:
            end += 1
        return range(position + 1, end)

    def users(self, position: int, names: set[str]) -> list[int]:
        """The later cells that depend on `names` and assert something."""
        found = users(self.statements, position + 1, names, self.imported, self.proof_places)
        return [index for index in found if index in self.asserting]


class Words:
    """The names under which this lecture calls functions that assert."""

    def __init__(self, trees: list[ast.Module]):
        self.modules = {"loop_checks", "checks"}
        self.functions = ASSERT_FUNCTIONS | {"raises"}
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("utils.checks"):
                    names = {alias.asname or alias.name for alias in node.names}
                    self.functions |= names - {"explain_asserts", "not_verified", "settle", OURS, YOUR_TURN}
        defined = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        self.own: set[str] = set()  # those that the lecture defines
        before = -1
        while len(self.own) > before:
            before = len(self.own)
            self.own |= {f.name for f in defined if self.asserts(f)}

    def is_check(self, node: ast.AST) -> bool:
        """Whether the node is an assert statement or a call of a function that asserts."""
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.Assert)
        named = node.func.args[0] if called_name(node.func) == "getattr" else node.func  # getattr(checks, name)(…)
        return called_name(node) in self.functions or root_of(named) in self.modules

    def asserts(self, node: ast.AST) -> bool:
        return any(self.is_check(inner) or called_name(inner) in self.own for inner in ast.walk(node))


def mutants_of(code: Code, leave_out: set[str]) -> list[Mutant]:
    """Every mutant of the lecture in order, none twice; not of the cells with ids in `leave_out`."""
    found = []
    for position, cell in enumerate(code.cells):
        tagged = LEFT_OUT_TAGS & set(cell.tags)
        if not (tagged or cell.is_picture or cell.id in leave_out):
            found += _mutants_of_cell(code, position)
    return found


def _mutants_of_cell(code: Code, position: int) -> Iterator[Mutant]:
    cell, tree = code.cells[position], code.trees[position]
    seen = {ast.dump(tree)}
    for statement in tree.body:
        touched = touched_by(tree, statement, code.imported)
        if position not in code.asserting and not code.users(position, touched):
            continue  # printed or unused: no assert can notice
        changes = Changes(cell.source, code.words)
        changes.visit_top(statement, tree)
        for start, end, text in changes.found:
            mutant = _mutant(cell, start, end, text, touched)
            shape = _shape(mutant.source)
            if shape and shape not in seen:
                seen.add(shape)
                yield replace(mutant, lines=_statement_at(mutant.source, mutant.lines[0]))


def _mutant(cell: Cell, start: int, end: int, text: str, touched: set[str]) -> Mutant:
    """The cell with the bytes start to end replaced by `text`."""
    raw = cell.source.encode()
    head, old, tail = raw[:start].decode(), raw[start:end].decode(), raw[end:].decode()
    before, after = head.rpartition("\n")[2].lstrip(), tail.partition("\n")[0]
    marked = f"{before}⟦{' '.join(old.split())} → {text}⟧{after}"
    line = head.count("\n") + 1
    return Mutant(cell, head + text + tail, f"{line}: {marked}", frozenset(touched), (line, line))


def _statement_at(source: str, line: int) -> tuple[int, int]:
    """First and last line of the innermost statement on `line`, without the body of one that has one."""
    around = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
    node = max(around, key=lambda node: node.lineno)
    body = getattr(node, "body", None)
    return node.lineno, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno


def _shape(source: str) -> str:
    """A text that is equal for two sources of the same program; "" for a source that does not parse."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return ""


class Changes(ast.NodeVisitor):
    """Collects the changes of one top-level statement as (start, end, text), in bytes of the cell's source."""

    def __init__(self, source: str, words: Words):
        self.raw, self.words = source.encode(), words
        lines = self.raw.splitlines(keepends=True)
        self.starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
        self.found: list[tuple[int, int, str]] = []

    def visit_top(self, statement: ast.stmt, tree: ast.Module) -> None:
        before = tree.body[: tree.body.index(statement)]
        self._leave_out(statement, Use(before).binds)
        self.visit(statement)

    def _change(self, node: ast.AST, text: str) -> None:
        self.found.append((*self._span(node), text))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    # What is never changed

    def visit(self, node: ast.AST) -> None:
        if self.words.is_check(node) or _is_fixed(node):
            return
        super().visit(node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
        self._unwrap(node)
        self._body(node.body, set())

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = node.args.posonlyargs + node.args.args
        with_default = arguments[len(arguments) - len(node.args.defaults) :] + node.args.kwonlyargs
        for argument, default in zip(with_default, node.args.defaults + node.args.kw_defaults, strict=True):
            if default is not None and argument.arg not in ARRANGED:
                self.visit(default)
        self._body(node.body, {a.arg for a in [*arguments, *node.args.kwonlyargs]})

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.body, set())

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not {root_of(target) for target in node.targets} & ARRANGED:
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in ARRANGED - {"patience"}:  # as a setting of a run it is a value
            self.visit(node.value)

    def visit_For(self, node: ast.For) -> None:
        if root_of(node.target) not in ARRANGED:
            self.visit(node.iter)
        self._body(node.body + node.orelse, set())

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if root_of(node.target) not in ARRANGED:
            self.visit(node.iter)
        for test in node.ifs:
            self.visit(test)

    def visit_Try(self, node: ast.Try) -> None:
        self._body(node.body + node.orelse, set())
        for handler in node.handlers:
            self._body(handler.body, set())

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Strings are not changed."""

    def visit_If(self, node: ast.If) -> None:
        taken = _branch(node.test)
        if any(called_name(inner) == "not_verified" for child in node.orelse for inner in ast.walk(child)):
            taken = node.body  # the cell ran here, so its condition held
        elif taken is None:
            self.visit(node.test)
            self._body(node.body, set())
            self._body(node.orelse, set())
            return
        self._body(node.body if taken in ("body", node.body) else node.orelse, set())

    def visit_IfExp(self, node: ast.IfExp) -> None:
        taken = _branch(node.test)
        parts = [node.test, node.body, node.orelse] if taken is None else [getattr(node, taken)]
        for part in parts:
            self.visit(part)

    # Statements left out

    def _body(self, body: list[ast.stmt], bound: set[str]) -> None:
        bound = set(bound)
        for statement in body:
            self._leave_out(statement, bound)
            self.visit(statement)
            bound |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def _leave_out(self, node: ast.stmt, bound: set[str]) -> None:
        """Leave the statement out, unless this only causes a NameError; `bound`: the names that exist before it."""
        if isinstance(node, ast.Assign):
            targets = [t for target in node.targets for t in getattr(target, "elts", [target])]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            attributes = [t for t in targets if isinstance(t, ast.Attribute) and root_of(t) in ("self", "cls")]
            removable = names <= bound and not attributes and not {root_of(t) for t in targets} & ARRANGED
        elif isinstance(node, ast.Expr):
            removable = isinstance(node.value, ast.Call) and self._does_something(node.value)
        else:
            removable = isinstance(node, ast.AugAssign | ast.Delete)
        if removable:
            self._change(node, "pass")

    def _does_something(self, call: ast.Call) -> bool:
        if self.words.is_check(call) or _is_fixed(call):
            return False
        return called_name(call) not in HOUSEKEEPING | self.words.own | {"__init__"}

    def _unwrap(self, node: ast.With) -> None:
        """`with torch.no_grad():` becomes `if True:`."""
        item = node.items[0]
        kept = called_name(item.context_expr) in KEPT_WRAPPERS or self.words.is_check(item.context_expr)
        if len(node.items) == 1 and item.optional_vars is None and not kept:
            start, _ = self._span(node)
            self.found.append((start, self._span(item.context_expr)[1], "if True"))

    # Values and operators

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._change(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._number(node, node.value, signed=isinstance(node.value, float))

    def visit_Call(self, node: ast.Call) -> None:
        if self._counted_and_shaped(node):
            return
        for value in [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg not in ARRANGED)]:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                for other in (*DTYPES.get(value.value, ()), *filter(None, [PRECISIONS.get(value.value)])):
                    self._change(value, f'"{other}"')
        if isinstance(node.func, ast.Attribute) and not (node.args or node.keywords) and node.func.attr in CONVERSIONS:
            _, end = self._span(node.func)
            self.found.append((end - len(node.func.attr), end, CONVERSIONS[node.func.attr]))
        self.visit(node.func)
        for part in [*node.args, *node.keywords]:
            name = getattr(part, "arg", None)
            timed = name == "warmup" and called_name(node).startswith("time_")
            if not timed and (called_name(node), name) not in REFUSALS:
                self.visit(part)

    def _counted_and_shaped(self, node: ast.Call) -> bool:
        """arange(12).view(3, 4): the sizes change together with the count, since no other change makes a tensor."""
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if called_name(node) not in ("view", "reshape") or called_name(inner) != "arange" or len(inner.args) != 1:
            return False
        sizes, count = [_whole(size) for size in node.args], _whole(inner.args[0])
        if None in sizes or count is None or math.prod(sizes) != count:
            return False
        start, end = self._span(inner.args[0])[0], self._span(node.args[-1])[1]
        between = self.raw[self._span(inner.args[0])[1] : self._span(node.args[0])[0]].decode()
        for place, size in enumerate(sizes):
            for other in dict.fromkeys([2 * size, size + 1, size - 1]):
                changed = [*sizes[:place], other, *sizes[place + 1 :]]
                if other > 0:
                    total = type(inner.args[0].value)(math.prod(changed))
                    self.found.append((start, end, f"{total}{between}{', '.join(map(str, changed))}"))
        return True

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in ("torch", "np"):
            for other in DTYPES.get(node.attr, ()):
                self._change(node, f"{node.value.id}.{other}")
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        inner = node.operand
        if isinstance(node.op, ast.USub) and isinstance(inner, ast.Constant) and isinstance(inner.value, int | float):
            self._number(node, -inner.value, signed=True)
            return
        if isinstance(node.op, ast.USub | ast.Not):
            self.found.append((self._span(node)[0], self._span(inner)[0], ""))
        self.visit(inner)

    def _number(self, node: ast.expr, value: float, *, signed: bool) -> None:
        values = [2 * value] if abs(value) > 1 or value % 1 else []
        values += [value + 1, value - 1] if isinstance(value, int) or (value % 1 == 0 and abs(value) < 1000) else []
        values += [-value] if signed and value else []
        for other in dict.fromkeys(values):
            self._change(node, repr(other))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not (_is_text(node.left) or _is_text(node.right)):
            self._operator(node.left, node.op, node.right)
        for side in (node.left, node.right):
            if isinstance(side, ast.Constant) and type(side.value) is int and side.value > 1:
                self._change(side, f"-{side.value}")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _is_text(node.value):
            self._operator(node.target, node.op, node.value)
        self.visit(node.value)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator(left, node.op, right)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            self._operator(left, operator, right)
        self.generic_visit(node)

    def _operator(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        between = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self.raw[start:end])
        at = re.search(SYMBOLS[type(operator)].encode(), between)
        if at:
            self.found.append((start + at.start(), start + at.end(), OPERATORS[type(operator)]))


def _whole(node: ast.expr) -> int | None:
    """The value of a literal positive whole number, 12 or 12.0; None for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return int(value) if type(value) in (int, float) and value > 0 and value % 1 == 0 else None


def _is_fixed(node: ast.AST) -> bool:
    """Imports, prints, pictures and seeds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    name = called_name(node)
    if not name:
        return False
    one_thread = name == "set_num_threads" and isinstance(node.args[0], ast.Constant)
    return name in SHOWN | SEEDED or "seed" in name or root_of(node.func) == "figures" or one_thread


def _is_text(node: ast.expr) -> bool:
    """Whether the operand is a text or a list by its form, so that only + and * make sense."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def _branch(test: ast.expr) -> str | None:
    """The branch that the short form on a CPU takes, "body" or "orelse"; None where that is for the lecture to say."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return {"body": "orelse", "orelse": "body", None: None}[_branch(test.operand)]
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    known = [_holds_on_a_cpu(part) for part in parts]
    return "orelse" if False in known else "body" if all(known) else None


def _holds_on_a_cpu(test: ast.expr) -> bool | None:
    """Whether the condition holds in the short form on a CPU; None where it asks for something else."""
    words = ast.unparse(test)
    if words in ("full", "torch.cuda.is_available()"):
        return False
    if isinstance(test, ast.Compare) and ast.unparse(test.left) == "device.type":
        with suppress(ValueError, NameError):  # `device.type == other.type` cannot be told
            return bool(eval(words.replace("device.type", "'cpu'"), {"__builtins__": {}}))
    return None


def _starts_section(cell: Cell) -> bool:
    outside = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL)
    return cell.kind == "markdown" and re.search(r"^#{1,6} ", outside, re.MULTILINE) is not None
