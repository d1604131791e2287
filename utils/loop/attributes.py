"""What modules keep besides parameters and buffers: counters, a recurrent state, lists and dicts of numbers and tensors."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

OF_EACH_MODULE = vars(nn.Module()).keys()
LEAVES = (bool, int, float, str, type(None), Tensor)


class Attributes:
    """The attributes of the modules of `model` as they are now, to tell later what has changed.

    values: {name: value}, of numbers, strings, tensors, and tuples, lists and dicts of these, each its own copy, but the
    tensors themselves. A deque is kept as a list, and an object as the dict of its attributes. What holds anything else
    (a file, a module, an object with such a thing in it) is not seen: a module can save it by get_extra_state.
    """

    def __init__(self, model: nn.Module, with_copies: bool = False):
        """with_copies: also of what the tensors hold, for put_back."""
        self.model = model
        self.values = {
            f"{name}.{attribute}": plain
            for name, module in model.named_modules()
            for attribute, value in vars(module).items()
            if attribute not in OF_EACH_MODULE and (plain := _plain(value)) is not NOT_PLAIN
        }
        held = [tensor for tensor in tree_leaves(self.values) if type(tensor) is Tensor]
        self.versions = {id(tensor): _version(tensor) for tensor in held}
        self.copies = [(tensor, tensor.clone()) for tensor in held] if with_copies else []

    def changes(self) -> dict[str, object]:
        """{name: value} of those that are others by now, or were not there."""
        now = Attributes(self.model).values
        return {name: value for name, value in now.items() if name not in self.values or self._differs(name, value)}

    def put_back(self) -> None:
        """Give the modules these values again, and the tensors what they held."""
        gone = self.values.keys() - Attributes(self.model).values.keys()
        for name in {**self.changes(), **dict.fromkeys(gone)}:
            path, _, attribute = name.rpartition(".")
            module = self.model.get_submodule(path)
            if name in self.values:
                _set(module, attribute, self.values[name])
            else:
                delattr(module, attribute)
        with torch.no_grad():
            for tensor, copy in self.copies:
                if _version(tensor) != self.versions[id(tensor)]:
                    tensor.copy_(copy)

    def _differs(self, name: str, now: object) -> bool:
        before, after = tree_leaves(self.values[name]), tree_leaves(now)
        if len(before) != len(after) or _without_leaves(self.values[name]) != _without_leaves(now):
            return True
        return any(not self._is_same(*pair) for pair in zip(before, after, strict=True))

    def _is_same(self, before: object, now: object) -> bool:
        if isinstance(before, Tensor) or isinstance(now, Tensor):
            return before is now and _version(now) == self.versions[id(now)]
        both_nan = before != before and now != now
        return type(before) is type(now) and (before == now or both_nan)


def set_attributes(model: nn.Module, values: dict[str, object], of_tensor: Callable[[Tensor], Tensor]) -> None:
    """Give the modules of `model` the values of an Attributes, each tensor as `of_tensor` returns it.

    A list, a dict or an object that is there keeps its identity: other modules may hold it, too. What belongs to a module
    that `model` does not have yet, because its forward makes it, is left out.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    for name, value in values.items():
        path, _, attribute = name.rpartition(".")
        if path in modules:
            _set(modules[path], attribute, tree_map_only(Tensor, of_tensor, value))


@contextmanager
def attributes_put_back(model: nn.Module) -> Iterator[None]:
    """After the block the attributes of the modules are what they were before it, also what its tensors hold."""
    before = Attributes(model, with_copies=True)
    try:
        yield
    finally:
        before.put_back()


NOT_PLAIN = object()


def _plain(value: object) -> object:
    """A copy of it, made of LEAVES, tuples, lists and dicts; NOT_PLAIN if that cannot be."""
    if isinstance(value, list | deque) and type(value) is not list:
        value = list(value)
    elif isinstance(value, dict):
        value = dict(value)
    elif hasattr(value, "__dict__") and not isinstance(value, Tensor | nn.Module | type):
        value = dict(vars(value))
    try:
        return _copy(value)
    except (TypeError, RecursionError):
        return NOT_PLAIN


def _copy(value: object) -> object:
    """Raises TypeError for what is not plain, and RecursionError for what contains itself."""
    if type(value) in LEAVES:
        return value
    if type(value) in (tuple, list):
        return type(value)(map(_copy, value))
    if type(value) is dict and all(type(key) in (str, int, float, bool) for key in value):
        return {key: _copy(part) for key, part in value.items()}
    raise TypeError


def _set(module: nn.Module, attribute: str, value: object) -> None:
    held = vars(module).get(attribute)
    if isinstance(held, list | deque) and type(value) is list:
        held.clear()
        held.extend(value)
    elif isinstance(held, dict) and type(value) is dict:
        held.clear()
        held.update(value)
    elif hasattr(held, "__dict__") and type(value) is dict:
        vars(held).clear()
        vars(held).update(value)
    else:
        setattr(module, attribute, value)


def _without_leaves(value: object) -> object:
    """Its containers and keys alone."""
    if isinstance(value, dict):
        return {key: _without_leaves(part) for key, part in value.items()}
    return type(value)(map(_without_leaves, value)) if isinstance(value, tuple | list) else None


def _version(tensor: Tensor) -> int | None:
    """How often it was changed in place; None for one that does not count."""
    return None if tensor.is_inference() else tensor._version
