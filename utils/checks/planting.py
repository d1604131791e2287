"""Bugs planted on purpose, at a seam or in the syntax tree.

A `Seam` replaces a function, a method or a number of the package for as long as a block runs. A `Change` replaces
statements or an expression in the source of a copy of the package; it is found by its syntax tree, so that line breaks,
comments and indentation play no part.
"""

import ast
import importlib
import itertools
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import getattr_static
from pathlib import Path
from types import ModuleType
from unittest import mock

import utils

SOURCE = Path(utils.__file__).parent


# ---- at a seam -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seam:
    """What is wrong, and where in `utils`: at="loop.training.zero_grad", at="loop.state.State.due".

    A wrong function is called with the right one before its own arguments; anything else, such as a number, is put
    there as it is. A module that imports a function has a name of its own for it: to change what it calls, name that
    module.
    """

    at: str
    wrong: object


def module(name: str) -> ModuleType:
    """The module utils.`name`."""
    return importlib.import_module(f"utils.{name}" if name else "utils")


@contextmanager
def in_place(*seams: Seam, bug: str = ""):
    """The block runs with all `seams` wrong. Raises LookupError, naming `bug`, for one that is not there."""
    with ExitStack() as stack:
        for seam in seams:
            owner, name = _find(seam.at, bug)
            stack.enter_context(mock.patch.object(owner, name, _instead_of(getattr_static(owner, name), seam.wrong)))
        yield


def _find(at: str, bug: str) -> tuple[object, str]:
    """What holds a seam, and the seam's name in it."""
    names = at.split(".")
    depth = next(n for n in range(len(names) - 1, -1, -1) if _is_module(names[:n]))
    owner: object = module(".".join(names[:depth]))
    for name in names[depth:]:
        holder = owner
        try:
            owner = getattr(owner, name)
        except AttributeError:
            raise LookupError(f"bug {bug!r}: utils has no {at}, it needs another seam") from None
    return holder, names[-1]


def _is_module(names: list[str]) -> bool:
    path = SOURCE.joinpath(*names)
    return path.is_dir() or path.with_suffix(".py").is_file()


def _instead_of(right: object, wrong: object) -> object:
    if isinstance(right, property):
        return property(lambda self: wrong(right.fget, self))
    return (lambda *args, **options: wrong(right, *args, **options)) if callable(wrong) else wrong


def wrong_loop(*seams: Seam, bug: str = "") -> Callable:
    """utils.loop.train with these seams wrong while it runs."""

    def train(*args, **options):
        with in_place(*seams, bug=bug):
            return module("loop.training").train(*args, **options)

    return train


# ---- in the syntax tree ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """In utils/`file`, `new` for `old`: an expression, or one or more statements that follow each other."""

    file: str
    old: str
    new: str


def changed(source: str, old: str, new: str) -> tuple[str, int]:
    """`source` with `new` for each `old`, both Python, compared as syntax trees; and how often `old` was found."""
    change = _Replace(ast.parse(old).body, ast.parse(new).body)
    tree = ast.fix_missing_locations(change.visit(ast.parse(source)))
    return ast.unparse(tree) + "\n", change.found


class _Replace(ast.NodeTransformer):
    def __init__(self, old: list[ast.stmt], new: list[ast.stmt]):
        self.found = 0
        self.in_expressions = all(len(body) == 1 and isinstance(body[0], ast.Expr) for body in (old, new))
        self.old, self.new = ([body[0].value] if self.in_expressions else body for body in (old, new))
        self.dumped = [ast.dump(node) for node in self.old]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self.in_expressions:
            return self._instead_of_expression(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self._instead_of_statements(value))
        return node

    def _instead_of_expression(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.expr) or ast.dump(node) != self.dumped[0]:
            return node
        self.found += 1
        return self.new[0]

    def _instead_of_statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        dumped, length = [ast.dump(node) for node in body], len(self.old)
        for start in range(len(body) - length + 1):
            if dumped[start : start + length] == self.dumped:
                self.found += 1
                return [*body[:start], *self.new, *body[start + length :]] or [ast.Pass()]
        return body


_numbers = itertools.count()


class Copy:
    """A copy of the package, under a name of its own, with changes; importable within the block.

    Raises LookupError, naming `bug` and the file, unless each change is found exactly once.
    """

    def __init__(self, folder: Path, *changes: Change, bug: str = ""):
        self.name = f"planted_{next(_numbers)}"
        self.folder, path = folder, folder / self.name
        shutil.copytree(SOURCE, path, ignore=shutil.ignore_patterns("course", "figures", "__pycache__"))
        for change in changes:
            file = path / change.file
            text, found = changed(file.read_text(), change.old, change.new)
            if found != 1:
                raise LookupError(f"bug {bug!r}: utils/{change.file} holds {change.old!r} {found} times, not once")
            file.write_text(text)
        for file in path.rglob("*.py"):
            file.write_text(file.read_text().replace("from utils", f"from {self.name}"))

    def __enter__(self) -> "Copy":
        sys.path.insert(0, str(self.folder))
        return self

    def __exit__(self, *error) -> None:
        sys.path.remove(str(self.folder))
        for name in [m for m in sys.modules if m.split(".")[0] == self.name]:
            del sys.modules[name]

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.name}.{name}")
