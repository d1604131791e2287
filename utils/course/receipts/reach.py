"""What of utils a piece of code reaches: functions, classes and constants, by their names, through any number of others.

A definition is all that a module does to one of its names. Reached are those that a piece of code names, those that these
name, and so on; also through `from … import`, through attributes of modules (`loop.train`), and a module as a whole where
it is used as a value, or where a text names it ("utils.loop", "from utils.checks import …", "-m utils"). A text that ends
with "utils." names them all. A module whose import does something (a call, a decorator that is not one of PURE, an
assignment to what another module holds) is taken as a whole wherever it is imported; so is the block under
`if __name__ == "__main__"` with each definition of its module.

Not counted are SPEAKING and IN_ADVANCE. What is not seen: an attribute of a value (but its class is reached where it is
called), a module that a computed text names, and an error's message that utils itself reads.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from utils.course.notebooks.dataflow import Use, root_of
from utils.course.receipts.canonical import FUNCTIONS, LISTENING, READING_SOURCE, canonical, names_in, without_words

ROOM = "utils"
NOT_REACHED = {"course", "grader", "site", "figures"}  # rooms that a text which names any module does not mean
# What says in words what an assert compared, what hands on our answer to a turn as it is, and what a server imports before
# anybody asks: no verdict depends on them.
SPEAKING = {"utils.checks.explained", "utils.checks.shown", "utils.checks.elsewhere", "utils.checks.turns"}
IN_ADVANCE = {("utils.distributed.launch", "PRELOADED")}
PURE = {
    "dataclass",
    "cache",
    "lru_cache",
    "contextmanager",
    "no_grad",
    "wraps",
    "total_ordering",
    "disable",
}  # decorators
IN_A_TEXT = re.compile(r"(?<![\w.])utils(?:\.\w+)*\.?")
IMPORTS = (ast.Import, ast.ImportFrom)

Unit = tuple[str, str]  # a module and a name in it; "" for the module as a whole
Meanings = dict[str, set[Unit]]  # what names stand for, each perhaps several things


@dataclass(frozen=True)
class Outside:
    """Something that is not in utils: "torch:nn" for `from torch import nn`."""

    text: str


Targets = tuple[Unit | Outside, ...]


@dataclass(frozen=True)
class Piece:
    """Code that has been looked at: the hash of its canonical form, and what the names and texts in it stand for.

    captures: whether it captures what is printed. reads_source: whether it reads source.
    """

    form: str
    names: tuple[tuple[str, Targets], ...]
    captures: bool
    reads_source: bool


class Module:
    """One file of utils: what each of its names is, what it imports, and what its import does."""

    def __init__(self, name: str, path: Path):
        self.lines = path.read_text(encoding="utf-8").splitlines()
        body = ast.parse("\n".join(self.lines)).body
        self.imports = [node for node in body if isinstance(node, IMPORTS)]
        self.bindings = imported_by(self.imports)  # of its names, those of others
        self.main = [node for node in body if isinstance(node, ast.If) and "__name__" in names_in(ast.walk(node.test))]
        self.statements: dict[str, list[ast.stmt]] = {}
        self.effects: list[ast.stmt] = []
        for node in body:
            if node not in [*self.imports, *self.main] and not _is_a_text(node):
                self._add(node)
        self.meanings = _both(self.bindings, {each: {(name, each)} for each in self.statements})

    def _add(self, node: ast.stmt) -> None:
        use = Use([node])
        for name in use.binds | (use.changes - set(self.bindings)):
            self.statements.setdefault(name, []).append(node)
        if self._does_something(node):
            self.effects.append(node)

    def _does_something(self, node: ast.stmt) -> bool:
        """Whether a top-level statement does more than give values to names of this module."""
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return not all(_name_of(each) in PURE for each in node.decorator_list)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return any(not isinstance(each, ast.Name) and root_of(each) in self.bindings for each in targets)
        return True


def _is_a_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def text_of_statement(node: ast.stmt, lines: list[str]) -> str:
    """The statement as it stands in `lines`, its decorators included."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _both(some: Meanings, others: Meanings) -> Meanings:
    return {name: some.get(name, set()) | others.get(name, set()) for name in some | others}


def _name_of(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(function, "attr", getattr(function, "id", ""))


def imported_by(statements: Iterable[ast.stmt]) -> Meanings:
    """What the names that import statements bind stand for."""
    found: Meanings = {}
    for node in statements:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                found.setdefault(alias.asname or alias.name, set()).add((node.module or "", alias.name))
            else:
                bound, module = alias.asname or alias.name.split(".")[0], alias.name
                found.setdefault(bound, set()).add((module if alias.asname else bound, ""))
    return found


def _dotted_names(node: ast.AST) -> Iterator[str]:
    """Each name with the attributes that follow it: "loop.train.step"."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
        yield dotted
    else:
        for child in ast.iter_child_nodes(node):
            yield from _dotted_names(child)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner else ""


class Library:
    """The modules of utils in the course at `root`, parsed once each."""

    def __init__(self, root: Path):
        self.root = root
        self._modules: dict[str, Module | None] = {}
        self._closures: dict[str, frozenset[str]] = {}
        self._pieces: dict[tuple[Unit, bool, bool], Piece] = {}

    def module(self, name: str) -> Module | None:
        """The module called "utils.loop.train", say; None if there is none."""
        if name not in self._modules:
            place = self.root / name.replace(".", "/")
            path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            inside = name == ROOM or name.startswith(f"{ROOM}.")
            self._modules[name] = Module(name, path) if inside and path.is_file() else None
        return self._modules[name]

    def all_modules(self) -> list[str]:
        paths = sorted((self.root / ROOM).rglob("*.py"))
        parts = (path.relative_to(self.root).with_suffix("").parts for path in paths)
        names = [words[:-1] if words[-1] == "__init__" else words for words in parts if words[1] not in NOT_REACHED]
        return [".".join(words) for words in names]

    def piece_of_unit(self, unit: Unit, *, words: bool, as_written: bool) -> Piece:
        """A definition, or a module as a whole. words, as_written: see `piece`."""
        key = (unit, words, as_written)
        if key not in self._pieces:
            module = self.module(unit[0])
            every = (node for nodes in module.statements.values() for node in nodes)
            nodes = module.statements[unit[1]] if unit[1] else dict.fromkeys([*every, *module.effects])
            nodes = [*nodes, *module.main]
            silent = [without_words(node, words or as_written) for node in nodes]
            form = "\n".join(text_of_statement(node, module.lines) for node in nodes) if as_written else ""
            # Whoever has a module as a whole can reach what it imports.
            more = () if unit[1] else module.bindings
            self._pieces[key] = self.piece(silent, module.meanings, form=form, more_names=more)
        return self._pieces[key]

    def piece(
        self, silent: list[ast.stmt], meanings: Meanings, *, form: str = "", more_names: Iterable[str] = ()
    ) -> Piece:
        """Of statements that `without_words` has returned, whose names have these meanings.

        form: their text, where every character of it counts, since something reads it.
        """
        inner = [node for each in silent for node in ast.walk(each)]
        said = names_in(inner)
        imports = [node for node in inner if isinstance(node, IMPORTS)]  # inside functions
        texts = {node.value for node in inner if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        meanings = _both(meanings, imported_by(imports))
        names = {*more_names, *(name for each in silent for name in _dotted_names(each))}
        found = [(name, self.targets(name, meanings)) for name in sorted(names)]
        found += [("a text", self.of_text(text)) for text in sorted(texts) if ROOM in text]
        found.append(("an import", self.with_effects(imports)))
        return Piece(
            hashlib.sha256((form or "\n".join(map(canonical, silent))).encode()).hexdigest(),
            tuple((name, tuple(sorted(targets, key=repr))) for name, targets in found if targets),
            captures=bool(said & LISTENING),
            reads_source=bool(said & READING_SOURCE),
        )

    def targets(self, dotted: str, bindings: Meanings) -> set[Unit | Outside]:
        """What a dotted name means where imports have bound `bindings`: definitions, modules, and what is outside."""
        first, *rest = dotted.split(".")
        found: set[Unit | Outside] = set()
        for module, attribute in bindings.get(first, ()):
            words = [attribute, *rest] if attribute else rest
            found |= self._inside(module, words) if self._is_inside(module) else {Outside(f"{module}:{attribute}")}
        return found

    def _is_inside(self, module: str) -> bool:
        return module.split(".")[0] == ROOM

    def _inside(self, name: str, words: list[str]) -> set[Unit | Outside]:
        """What `words`, attributes one after the other, are in a module: the first definition on the way."""
        module = self.module(name)
        if module is None:
            return {Outside(f"{name} is missing")}
        if name in SPEAKING or (words and (name, words[0]) in IN_ADVANCE):
            return {Outside("nothing that a verdict depends on")}
        if not words or module.effects:
            return {(name, "")}
        found: set[Unit | Outside] = {(name, words[0])} if words[0] in module.statements else set()
        if words[0] in module.bindings:
            found |= self.targets(".".join(words), module.bindings)
        if not found and self.module(f"{name}.{words[0]}"):
            return self._inside(f"{name}.{words[0]}", words[1:])
        return found or {(name, "")}  # a name that only running would give: the whole module

    def of_text(self, text: str) -> set[Unit]:
        """The modules and definitions that a text names."""
        found: set[Unit] = set()
        for dotted in IN_A_TEXT.findall(text):
            if dotted.endswith(".") and text.endswith(dotted):
                found |= {(name, "") for name in self.all_modules()}
            else:
                words = dotted.strip(".").split(".")
                found |= {unit for unit in self._inside(words[0], words[1:]) if not isinstance(unit, Outside)}
                found |= {(f"{ROOM}.__main__", "")} if words == [ROOM] else set()
        return found

    def with_effects(self, statements: Iterable[ast.stmt]) -> set[Unit]:
        """The modules that these imports import, directly or not, and whose import does something."""
        names = frozenset().union(*(self._closure(name) for name in self._modules_of(statements)))
        return {(name, "") for name in names if self.module(name).effects}

    def _modules_of(self, statements: Iterable[ast.stmt]) -> set[str]:
        dotted = set()
        for node in statements:
            if isinstance(node, ast.ImportFrom) and node.module:
                dotted |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                dotted |= {alias.name for alias in node.names}
        parts = (name.split(".") for name in dotted if self._is_inside(name))
        names = {".".join(words[:n]) for words in parts for n in range(1, len(words) + 1)}
        return {name for name in names if self.module(name)}

    def _closure(self, name: str) -> frozenset[str]:
        if name not in self._closures:
            seen: set[str] = set()
            wanted = {name}
            while wanted - seen:
                one = min(wanted - seen)
                seen.add(one)
                wanted |= self._modules_of(self.module(one).imports)
            self._closures[name] = frozenset(seen)
        return self._closures[name]


def reached(library: Library, own: list[Piece], *, words: bool) -> tuple[str, bool]:
    """All that `own` reaches, as a text; and whether something there captures what is printed.

    words: whether words for a reader count. Definitions are numbered in the order in which they are met, so that one that
    moves to another module stays the same.
    """
    reading: set[str] = set()  # modules in which something reads source
    while True:
        text, pieces = _walk(library, own, words, reading)
        found = {unit[0] for unit, piece in pieces.items() if piece.reads_source}
        if found <= reading:
            return text, any(piece.captures for piece in [*own, *pieces.values()])
        reading |= found


def _walk(library: Library, own: list[Piece], words: bool, as_written: set[str]) -> tuple[str, dict[Unit, Piece]]:
    numbers: dict[Unit, int] = {}
    order: list[Unit] = []
    lines: list[str] = []

    def add(piece: Piece) -> None:
        lines.append(piece.form)
        for name, targets in piece.names:
            for target in targets:
                if isinstance(target, Outside):
                    lines.append(f"{name} is {target.text}")
                    continue
                if target not in numbers:
                    numbers[target] = len(order)
                    order.append(target)
                lines.append(f"{name} is {numbers[target]}")

    for piece in own:
        add(piece)
    pieces: dict[Unit, Piece] = {}
    for unit in order:  # which grows during the loop
        pieces[unit] = library.piece_of_unit(unit, words=words, as_written=unit[0] in as_written)
        add(pieces[unit])
    return "\n".join(lines), pieces
