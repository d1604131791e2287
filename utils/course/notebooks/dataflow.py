"""Data flow between cells, by names: which later cells of a lecture a changed statement can affect.

Only names are followed. Other links between cells (random streams, files, global switches) are not seen.
"""

import ast
import dis
from collections.abc import Iterable
from types import CodeType

LOADS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
STORES = {"STORE_NAME", "STORE_GLOBAL"}
OURS, YOUR_TURN = "ours", "your_turn"  # what decorates our answer to a turn, and the student's


class Use:
    """The global names that statements need from before them, and those that they bind or change."""

    def __init__(self, body: Iterable[ast.stmt]):
        self.needs: set[str] = set()
        self.binds: set[str] = set()
        self.changes: set[str] = set()  # x in x.zero_(), x[0] = 1, train(x)
        self._inside: set[str] = set()  # names that functions load when called, after the whole cell has run
        for statement in body:
            self._statement(statement)
        self.needs |= self._inside - self.binds

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self._load(node.iter)
            self._bind(node.target)
            self._block(node.body + node.orelse)
        elif isinstance(node, ast.While | ast.If):
            self._load(node.test)
            before = set(self.binds)
            self._block(node.body + node.orelse)
            always = Use(node.body).binds & Use(node.orelse).binds
            self.needs |= self.binds - before - always  # where the block does not run, they stay as they were
        elif isinstance(node, ast.With):
            for item in node.items:
                self._load(item.context_expr)
                if item.optional_vars:
                    self._bind(item.optional_vars)
            self._block(node.body)
        elif isinstance(node, ast.Try):
            self._block(node.body)
            for handler in node.handlers:
                self.binds |= {handler.name} if handler.name else set()
                self._block(handler.body)
            self._block(node.orelse + node.finalbody)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            loads, _ = _globals_of(node)
            self._inside |= loads
            if any(isinstance(each, ast.Name) and each.id == YOUR_TURN for each in node.decorator_list):
                self.needs |= {node.name} - self.binds  # ours, which stand in for it
            self.binds.add(node.name)
        elif not isinstance(node, ast.Break | ast.Continue | ast.Pass):
            loads, stores = _globals_of(node)
            self.needs |= loads - self.binds
            self.binds |= stores
            self.changes |= _changed(node)

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _load(self, node: ast.expr) -> None:
        loads, stores = _globals_of(ast.Expr(node))
        self.needs |= loads - self.binds
        self.binds |= stores
        self.changes |= _changed(node)

    def _bind(self, node: ast.expr) -> None:
        self.binds |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _globals_of(node: ast.stmt) -> tuple[set[str], set[str]]:
    """The global names that a statement loads and stores, those inside functions and comprehensions included."""
    module = ast.fix_missing_locations(ast.Module([node], []))
    codes, loads, stores = [compile(module, "<names>", "exec", dont_inherit=True)], set(), set()
    for code in codes:  # the list grows during the loop
        for name, operation in _operations(code):
            if operation in LOADS:
                loads.add(name)
            elif operation in STORES and (code is codes[0] or operation == "STORE_GLOBAL"):
                stores.add(name)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return loads, stores


def _operations(code: CodeType) -> list[tuple[str, str]]:
    return [(step.argval, step.opname) for step in dis.get_instructions(code) if step.opname in LOADS | STORES]


def _changed(node: ast.AST) -> set[str]:
    """The names whose objects a statement may change: x in train(x), x.step() and x[0] = 1; not in y.to(x)."""
    places: list[ast.expr] = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            if isinstance(inner.func, ast.Name):
                places += [argument for argument in inner.args if isinstance(argument, ast.Name)]
            elif isinstance(inner.func, ast.Attribute) and not _fresh(inner.func):
                places.append(inner.func.value)
        elif isinstance(inner, ast.Attribute | ast.Subscript) and isinstance(inner.ctx, ast.Store):
            places.append(inner.value)
    return {root for place in places if (root := root_of(place))}


def _fresh(node: ast.expr) -> bool:
    """Whether the receiver is the result of a call, a new object as a rule: x().step() changes no x."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Call)


def root_of(node: ast.expr) -> str:
    """x for x, x.y, x[0].z and x.y(); "" for anything else."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def called_name(node: ast.AST) -> str:
    """The last name of the function that a call calls, y for x.y(); "" for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def imported(trees: Iterable[ast.Module]) -> set[str]:
    """The names that import statements anywhere in `trees` bind."""
    return {
        (alias.asname or alias.name).split(".")[0]
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def touched_by(tree: ast.Module, statement: ast.stmt, fixed: set[str]) -> set[str]:
    """The names whose values after the cell may differ if its top-level `statement` changes, except those in `fixed`."""
    uses = {id(node): Use([node]) for node in tree.body}
    start = uses[id(statement)]
    names = (start.binds | start.changes) - fixed
    grown = True
    while grown:
        before = len(names)
        for node in tree.body:
            if uses[id(node)].needs & names:
                names |= (uses[id(node)].binds | uses[id(node)].changes) - fixed
        grown = len(names) > before
    return names


def users(cells: list[list[Use]], start: int, names: set[str], fixed: set[str], proofs: set[int]) -> list[int]:
    """The cells from `start` on that depend on `names` as they are before it, directly or through one another.

    A cell is given as the uses of its top-level statements. What `proofs` do to objects that they did not make hands
    nothing on: no later cell leans on it.
    """
    names, found = set(names), []
    for index in range(start, len(cells)):
        for use in cells[index]:
            if use.needs & names:
                found += [] if index in found else [index]
                names |= (use.binds if index in proofs else use.binds | use.changes) - fixed
            else:
                names -= use.binds
    return found


def with_their_needs(uses: list[Use], start: int, wanted: Iterable[int], proofs: set[int]) -> list[int]:
    """The cells from `start` on that must run for those in `wanted` to run, in order, the wanted ones included.

    What `proofs` do to objects that they did not make is left out: no later cell depends on it.
    """
    wanted, needs, cells = set(wanted), set(), []
    for index in range(len(uses) - 1, start - 1, -1):
        use = uses[index]
        makes = use.binds if index in proofs else use.binds | use.changes
        if index in wanted or makes & needs:
            cells.append(index)
            needs = (needs - use.binds) | use.needs
    return cells[::-1]
