"""Whether a student's value is as ours, and if not, where they first differ: numbers, tensors, modules, and containers."""

import math
from dataclasses import dataclass
from numbers import Number

import numpy as np
import torch

TOLERANCE = 1e-5  # of floating-point numbers, relative; of a tensor's, to the largest in it
DIGITS = 2  # a rounding of a tensor's own dtype or two is no difference


@dataclass(frozen=True)
class Difference:
    """Where two values differ: the place, "[0].weight[1, 2]" say, what stands there in each, and words about it."""

    place: str
    yours: object
    ours: object
    words: str = ""


def difference(
    yours: object, ours: object, tolerance: float = TOLERANCE, place: str = "", gradients: bool = True
) -> Difference | None:
    """The first difference, None if there is none.

    A whole number is to be a whole number and a tuple a tuple, since what comes later may count on it; a float may be
    either, and so may a number that an object holds. Tensors have one shape and one dtype, and NaN is as NaN. Modules and
    optimizers are compared by their state; the gradients of a module's parameters are a part of it, unless `gradients`
    is False.
    """
    return _Comparison(tolerance, gradients).of(yours, ours, place)


class _Comparison:
    def __init__(self, tolerance: float, gradients: bool):
        self.tolerance, self.gradients = tolerance, gradients
        self.seen: set[tuple[int, int]] = set()  # objects may hold each other

    def of(self, yours: object, ours: object, place: str) -> Difference | None:
        yours, ours = _plain(yours), _plain(ours)
        if isinstance(ours, torch.Tensor):
            return self._tensors(yours, ours, place)
        if isinstance(ours, bool | str | None) or isinstance(yours, bool):
            same = type(yours) is type(ours) and yours == ours
            return None if same else Difference(place, yours, ours, _about_types(yours, ours))
        if isinstance(ours, Number):
            return self._numbers(yours, ours, place)
        if isinstance(ours, tuple | list | dict | set | frozenset):
            return self._containers(yours, ours, place)
        return self._objects(yours, ours, place)

    def _numbers(self, yours: object, ours: Number, place: str) -> Difference | None:
        if not isinstance(yours, Number) or (isinstance(ours, int) and not isinstance(yours, int)):
            return Difference(place, yours, ours, _about_types(yours, ours))
        if isinstance(ours, int):
            return None if yours == ours else Difference(place, yours, ours)
        both_nan = yours != yours and ours != ours
        near = both_nan or yours == ours or abs(yours - ours) <= self.tolerance * abs(ours)
        return None if near else Difference(place, yours, ours)

    def _tensors(self, yours: object, ours: torch.Tensor, place: str) -> Difference | None:
        if not isinstance(yours, torch.Tensor):
            return Difference(place, yours, ours, _about_types(yours, ours))
        if yours.shape != ours.shape:
            words = f"its shape is {tuple(yours.shape)}, and ours has {tuple(ours.shape)}"
            return Difference(place, yours, ours, words)
        if yours.dtype != ours.dtype:
            return Difference(
                place, yours, ours, f"its dtype is {_kind(yours.dtype)}, and ours has {_kind(ours.dtype)}"
            )
        if "meta" in (yours.device.type, ours.device.type):
            return None
        wrong = self._wrong(yours.detach().cpu(), ours.detach().cpu()).nonzero()
        if not len(wrong):
            return None
        where = tuple(wrong[0].tolist())
        words = f"{len(wrong):,} of {ours.numel():,} numbers differ" if ours.dim() else ""
        index = f"[{', '.join(map(str, where))}]" if where else ""
        return Difference(place + index, yours[where].item(), ours[where].item(), words)

    def _wrong(self, yours: torch.Tensor, ours: torch.Tensor) -> torch.Tensor:
        """Where two tensors of one shape and dtype differ, as a tensor of booleans."""
        if not (ours.is_floating_point() or ours.is_complex()):
            return yours != ours
        relative = max(self.tolerance, DIGITS * torch.finfo(ours.dtype).eps)
        wide = torch.complex128 if ours.is_complex() else torch.float64
        yours, ours = yours.to(wide), ours.to(wide)
        finite = ours.abs()[ours.isfinite()]
        largest = finite.max().item() if finite.numel() else 0.0
        return ~torch.isclose(yours, ours, rtol=relative, atol=relative * largest, equal_nan=True)

    def _containers(self, yours: object, ours: object, place: str) -> Difference | None:
        kind = next(each for each in (tuple, list, dict, set, frozenset) if isinstance(ours, each))
        if not isinstance(yours, kind):
            return Difference(place, yours, ours, _about_types(yours, ours))
        if len(yours) != len(ours) or (kind is dict and yours.keys() != ours.keys()):
            return Difference(place, yours, ours, f"it has {len(yours):,} items, and ours {len(ours):,}")
        if kind in (set, frozenset):
            return None if yours == ours else Difference(place, yours, ours)
        keys = ours if kind is dict else range(len(ours))
        pairs = ((yours[key], ours[key], f"{place}[{key!r}]") for key in keys)
        return next((found for pair in pairs if (found := self.of(*pair))), None)

    def _objects(self, yours: object, ours: object, place: str) -> Difference | None:
        if type(yours) is not type(ours):
            return Difference(place, yours, ours, _about_types(yours, ours))
        if isinstance(ours, torch.Generator) or yours is ours or (id(yours), id(ours)) in self.seen:
            return None  # how far a stream has come is no answer
        self.seen.add((id(yours), id(ours)))
        states = [_state(each, self.gradients) for each in (yours, ours)]
        if None in states:
            return None if yours == ours else Difference(place, yours, ours)
        for name in sorted(states[0].keys() | states[1].keys()):
            here, there = (state.get(name) for state in states)
            if isinstance(here, float) and type(there) is int and here == there:
                continue  # a gradient of 1.0, say, where ours left the whole number
            if found := self.of(here, there, f"{place}.{name}"):
                return found
        return None


def _state(value: object, gradients: bool) -> dict | None:
    """What an object holds, by name; None for one that does not tell."""
    if isinstance(value, torch.nn.Module):
        grads = {f"{name}.grad": p.grad for name, p in value.named_parameters() if gradients}
        modes = {f"{name}.training".lstrip("."): part.training for name, part in value.named_modules()}
        return dict(value.named_parameters()) | grads | dict(value.named_buffers()) | modes
    if callable(getattr(value, "state_dict", None)):
        return value.state_dict()
    return getattr(value, "__dict__", None)


def _plain(value: object) -> object:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _about_types(yours: object, ours: object) -> str:
    """Words for two values of different kinds; "" where the values say it all."""
    if yours is None:
        return "None came back: is a `return` missing?"
    if isinstance(yours, torch.Tensor) and isinstance(ours, Number):
        return "it is a tensor: .item() makes a number of one that holds one"
    if isinstance(yours, float) and isinstance(ours, int) and not isinstance(ours, bool):
        whole = math.isfinite(yours) and yours == ours
        return "the value is right, but it is a float: // divides whole numbers" * whole
    return f"it is {_kind(yours)}, and ours {_kind(ours)}" if type(yours) is not type(ours) else ""


def _kind(value: object) -> str:
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    name = "tensor" if isinstance(value, torch.Tensor) else type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
