"""The caller's own code, told apart cheaply: what a model, a loss, a collate or the maker of an optimizer computes.

A function's digest is of its compiled instructions. So comments, line breaks, docstrings, local names and the file's place
play no part, and a lambda or a notebook's cell has one too. Another version of Python compiles to other instructions, so
digests of one version are compared. Code of torch, of other installed packages and of the loop itself is not looked into.
"""

import dis
import hashlib
import sysconfig
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType

import torch
from torch import nn

PLAIN = (bool, int, float, str)
PACKAGE = Path(__file__).parent.parent
NOT_THEIRS = (
    *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *map(str, (Path(torch.__file__).parent, *(PACKAGE / name for name in ("loop", "data", "distributed")))),
)


class Code:
    """What some objects of the caller's lead to.

    functions: {name: digest} of each function. settings: {name: value} of the numbers and strings that they read: of
    modules and of closures; not those that they change themselves, such as a counter.
    """

    def __init__(self, *objects: object):
        self.functions: dict[str, str] = {}
        self._values: dict[str, object] = {}
        self._stored: set[str] = set()  # the names of attributes and variables that are set while training
        self._seen: set[int] = set()
        for one in objects:
            self._add(one)

    @property
    def settings(self) -> dict[str, object]:
        return {name: value for name, value in self._values.items() if name.rpartition(".")[2] not in self._stored}

    def _add(self, one: object) -> None:
        if id(one) in self._seen:
            return
        self._seen.add(id(one))
        if isinstance(one, FunctionType):
            self._add_function(one)
        elif isinstance(one, MethodType):
            self._add(one.__func__)
        elif isinstance(one, partial):
            self._add(one.func)
            self._add_values(_name(one), {**dict(enumerate(one.args)), **one.keywords})
        elif isinstance(one, property | staticmethod | classmethod):
            self._add(one.fget if isinstance(one, property) else one.__func__)
        elif isinstance(one, type):
            for base in one.__mro__:
                if _is_theirs(base):
                    for member in vars(base).values():
                        self._add(member)
        elif isinstance(one, nn.Module):
            for name, module in one.named_modules():
                self._add_object(module, name or type(module).__name__)
        elif callable(one) and not isinstance(one, BuiltinFunctionType | torch.Tensor):
            self._add_object(one, type(one).__name__)

    def _add_object(self, one: object, name: str) -> None:
        self._add(type(one))
        if any(map(_is_theirs, type(one).__mro__)):
            attributes = {key: value for key, value in getattr(one, "__dict__", {}).items() if key not in USUAL}
            self._add_values(name, attributes)

    def _add_values(self, name: str, values: dict) -> None:
        for key, value in values.items():
            if type(value) in PLAIN:
                self._values[f"{name}.{key}"] = value
            elif isinstance(value, BuiltinFunctionType) or (isinstance(value, FunctionType) and not _is_theirs(value)):
                self.functions[f"{name}.{key}"] = _name(value)  # torch.relu, say
            elif isinstance(value, FunctionType | partial):
                self._add(value)

    def _add_function(self, function: FunctionType) -> None:
        if not _is_theirs(function):
            return
        code, name = function.__code__, function.__qualname__.rpartition("<locals>.")[2]
        while name in self.functions:  # a lambda, or a class of the same name elsewhere
            name += "'"
        self.functions[name] = hashlib.sha256("\n".join(_instructions(code)).encode()).hexdigest()[:12]
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self._add_values(name, {key: cell.cell_contents for key, cell in cells if _is_full(cell)})
        for within, opcode, value in _operations(code):
            if opcode in ("STORE_GLOBAL", "STORE_DEREF") or (opcode == "STORE_ATTR" and within != "__init__"):
                self._stored.add(value)
            elif opcode in ("LOAD_GLOBAL", "LOAD_NAME") and value in function.__globals__:
                found = function.__globals__[value]
                if isinstance(found, type):
                    self._add(found)
                elif not isinstance(found, ModuleType):
                    self._add_values(name, {value: found})


USUAL = vars(nn.Module()).keys()


def _operations(code: CodeType) -> Iterator[tuple[str, str, object]]:
    """(function, name, argument) of each instruction of a function and of those within it."""
    for instruction in dis.get_instructions(code):
        if isinstance(instruction.argval, CodeType):
            yield from _operations(instruction.argval)
        yield code.co_name, instruction.opname, instruction.argval


def _instructions(code: CodeType) -> Iterator[str]:
    """The same as text, the same in every process: sets in order, local variables by their number."""
    for instruction in dis.get_instructions(code):
        value = instruction.argval
        if isinstance(value, CodeType):
            yield from _instructions(value)
            value = "code"
        elif instruction.opcode in LOCAL:
            value = instruction.arg
        yield f"{instruction.opname} {_text(value)}"


LOCAL = {*dis.haslocal, *dis.hasfree}


def _text(constant: object) -> str:
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(_text, constant)))}}}"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_text, constant))})"
    return repr(constant)


def _is_theirs(one: object) -> bool:
    """Whether a function is the caller's, or one of a class's methods."""
    if isinstance(one, type):
        return any(_is_theirs(member) for member in vars(one).values() if not isinstance(member, type))
    one = getattr(one, "__func__", one)
    return isinstance(one, FunctionType) and not one.__code__.co_filename.startswith(NOT_THEIRS)


def _name(function: object) -> str:
    function = getattr(function, "func", function)
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _is_full(cell: object) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # a name that gets its value later
        return False
    return True
