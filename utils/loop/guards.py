"""Safety: non-finite gradients never reach the weights; what a forward pass has moved can be put back."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from utils.device import accelerator_rng_state, own_random_streams, set_accelerator_rng_state
from utils.distributed.parallel import to_local
from utils.loop.attributes import Attributes


class Guard:
    """Blocks non-finite updates on the device; the host may find out later.

    The fused optimizers change neither weights nor state when their `found_inf` is 1. (GradScaler tells them so, too; its
    own step would read every gradient once more, and knows nothing of the steps before.) After `limit` bad steps in a row
    every update is blocked, so that the weights before them are intact when the error is raised. On a CPU (`on_host`)
    reading the norm does not synchronise, so the check is immediate.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device, limit: int):
        self.optimizer = optimizer
        self.on_host = device.type == "cpu"
        self.limit = min(limit, 1 << 24)  # the largest count that float32 holds exactly
        self.step_blocked: Tensor | None = None  # whether this step's update is (bool); None: it is known not to be
        zero = torch.zeros((), dtype=torch.float32, device=device)  # whatever the default: fused kernels want it so
        self.found_inf = zero.clone()  # the same as a float, for the optimizer
        self.blocked = zero.clone()  # updates blocked so far
        self.streak = zero.clone()  # blocked updates in a row up to now

    @property
    def limit_reached(self) -> bool:
        """Whether `limit` bad steps in a row have ended the run. Waits for the device."""
        return bool(self.streak >= self.limit)

    def block_unless_finite(self, norm: Tensor) -> None:
        """Block this step if the norm of its gradient is not finite: a NaN or inf in any entry makes it so."""
        if self.on_host and math.isfinite(norm) and (self.step_blocked is None or self.streak < self.limit):
            if self.step_blocked is not None:
                self.streak.zero_()
            self.step_blocked = None
            self.optimizer.found_inf = None
            return
        self.step_blocked = norm.lt(math.inf).logical_not_()  # NaN is not less; isfinite() takes a GPU four operations
        self.step_blocked.logical_or_(self.streak >= self.limit)
        self.found_inf.copy_(self.step_blocked)
        self.optimizer.found_inf = self.found_inf
        self.blocked += self.found_inf
        self.streak.add_(1).mul_(self.found_inf)

    def undo_buffers(self, before: "Snapshot") -> None:
        """If the step was blocked, restore the buffers (BatchNorm has seen the bad batch)."""
        if self.step_blocked is not None:
            before.put_back(self.step_blocked)

    def state_dict(self) -> dict:
        return {"blocked": self.blocked.item(), "streak": self.streak.item()}

    def load_state_dict(self, saved: dict) -> None:
        self.blocked.fill_(saved["blocked"])
        self.streak.fill_(saved["streak"])
        self.step_blocked = self.streak > 0


@torch.no_grad()
def all_finite(tensors: list[Tensor]) -> bool:
    """Whether every entry of every tensor is finite. Waits for the device.

    A NaN or an infinity makes the sum non-finite. A sum reads each tensor once; isfinite() takes four passes, so it is
    used only if the sum is not finite: finite entries may also add up to infinity.
    """
    total = sum(tensor.sum(dtype=torch.float32 if tensor.itemsize < 4 else None) for tensor in tensors)
    return math.isfinite(abs(total)) or all(bool(tensor.isfinite().all()) for tensor in tensors)


def put_back(model: nn.Module, kept: dict[str, Tensor], where: bool | Tensor = True) -> None:
    """Restore the buffers, `where` that is true; not one that the model has added or resized since, a cache or a mask."""
    for name, buffer in model.named_buffers():
        if name in kept and kept[name].shape == buffer.shape:
            target = buffer.data  # a write that torch counts would pass for a change in a Snapshot
            if where is True:
                target.copy_(kept[name])
            else:
                torch.where(where, kept[name], target, out=target)


LARGE = 1 << 20  # bytes of a buffer; to copy a larger one at every step would be felt


class Snapshot:
    """The model's buffers before a step, to undo it. `take` takes it, or takes it anew.

    Small buffers are copied each time. The copy of a large one (a table, a mask, a memory bank) serves until torch's count
    of the writes to that buffer moves. Some writes are not counted, those through .data for one: so large buffers are
    compared with their copies after the first step, and one that was written uncounted counts as written in every step.

    copy_changing: whether large buffers that change are copied before each step. Otherwise they are given up, and no step
    pays for them: of the steps that change one, only the first can be undone.
    of_attempts: whether the step may be repeated: then `restore` puts torch's random streams back, too, and what the modules
    keep besides tensors of their own (attributes.py).
    """

    def __init__(self, model: nn.Module, copy_changing: bool = True, of_attempts: bool = True):
        self.model = model
        self.buffers = [module._buffers for module in model.modules()]
        self.copy_changing, self.of_attempts = copy_changing, of_attempts
        self.copies: dict[str, Tensor] = {}
        self.large: dict[str, tuple[Tensor, int]] = {}  # those copied, and the count of writes to each at that time
        self.uncounted: set[str] | None = None  # those that are written without being counted; None in the first step
        self.given_up: set[str] = set()

    def take(self) -> "Snapshot":
        earlier, self.copies = self.copies, {}
        # Most models have no buffers, and to go through all their names takes longer than the rest of this method.
        for name, buffer in self.model.named_buffers() if any(self.buffers) else ():
            if buffer.numel() * buffer.itemsize <= LARGE:
                self.copies[name] = buffer.clone()
            elif name in earlier and not self._is_written(name, buffer):
                self.copies[name] = earlier[name]
            elif name in self.given_up or (name in earlier and not self.copy_changing):
                self.given_up.add(name)
                self.large.pop(name, None)  # the buffer itself, which the model may have replaced
            else:
                self.copies[name] = copy_into(earlier.get(name), buffer)
                self.large[name] = buffer, writes_to(buffer)
        if self.of_attempts:
            self.cpu_stream = torch.get_rng_state()
            self.device_streams = accelerator_rng_state() if torch.accelerator.is_available() else {}
            self.attributes = Attributes(self.model, with_copies=True)
        return self

    def _is_written(self, name: str, buffer: Tensor) -> bool:
        """Whether this large buffer is another one than when it was copied, or was written since."""
        if name not in self.large or name in (self.uncounted or ()):
            return True
        copied, writes = self.large[name]
        return buffer is not copied or writes_to(buffer) != writes

    def note_uncounted_writes(self) -> None:
        """At the end of the first step, before it may be undone. Waits for the device, if there are large buffers."""
        if self.uncounted is None:
            self.buffers = [module._buffers for module in self.model.modules()]  # a forward may have made some
            self.uncounted = set(self._uncounted_changes())

    def _uncounted_changes(self) -> list[str]:
        """The large buffers that are not as their copies are, though no write was counted."""
        return [
            name
            for name, buffer in self.model.named_buffers()
            if name in self.copies and name in self.large and not self._is_written(name, buffer)
            if not torch.equal(self.copies[name], buffer)
        ]

    def why_it_cannot_be_undone(self) -> str | None:
        """Which large buffer may have changed of which there is no copy from before the step; None if there is none."""
        if self.given_up:
            return f"the buffer {min(self.given_up)}, which steps change, is too large to be copied before each of them"
        if self.uncounted is not None and (late := self._uncounted_changes()):
            return (
                f"the buffer {late[0]} has changed in a way that torch does not count, and had not in the first step: write "
                "to it under torch.no_grad(), not through .data"
            )
        return None

    def put_back(self, where: bool | Tensor = True) -> None:
        """Restore the buffers that the step may have changed, `where` that is true."""
        written = {
            name: self.copies[name]
            for name, buffer in self.model.named_buffers()
            if name in self.copies
            and (name not in self.large or self.uncounted is None or self._is_written(name, buffer))
        }
        put_back(self.model, written, where)

    def restore(self) -> None:
        self.put_back()
        self.attributes.put_back()
        torch.set_rng_state(self.cpu_stream)
        set_accelerator_rng_state(self.device_streams)


def writes_to(tensor: Tensor) -> int:
    """torch's count of the writes to a tensor, which has no public name; of one made in inference_mode it keeps none."""
    return 0 if tensor.is_inference() else tensor._version


def copy_into(memory: Tensor | None, tensor: Tensor) -> Tensor:
    """A copy, in the memory of an earlier one if it fits: to ask for new memory takes several times as long."""
    if memory is None or memory.shape != tensor.shape or memory.dtype != tensor.dtype:
        return tensor.clone()
    return memory.copy_(tensor)


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out. A GPU raises OutOfMemoryError, a CPU's allocator a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


@contextmanager
def without_a_trace(model: nn.Module, with_own_parameters: bool = False) -> Iterator[None]:
    """Within the block, what the modules of `model` hold is a deep copy; afterwards each has its own back.

    So a forward pass before the first step may change weights, counters and a recurrent state, and code of the caller's
    that looks at the model sees the copies. No gradient is left, and no random stream has moved.

    with_own_parameters: all but the parameters are copies. Frozen ones never are: of a large model they are most of it. A
    model that cannot be copied, or not held twice in memory, keeps all its tensors and objects; there, buffers, whatever
    a module has bound anew, and the numbers and tensors in its lists, dicts and plain objects are put back.

    Raises ValueError, naming it, if a parameter that is not a copy has changed.
    """
    shared = {id(p): p for p in model.parameters() if with_own_parameters or not p.requires_grad}
    modules = list(model.modules())
    own = [vars(module) for module in modules]
    before = None
    try:
        copies = [vars(twin) for twin in copy.deepcopy(model, dict(shared)).modules()]
        for held, module in zip(copies, modules, strict=True):
            if isinstance(module._modules, dict):  # not those of TorchScript
                held["_modules"] = module._modules.copy()  # the modules stay the caller's, who may look at them
    except Exception:  # whatever the parts of a model raise when they are copied
        shared = {id(p): p for p in model.parameters()}
        before = Snapshot(model).take()
        copies = [dict(held) for held in own]
    sums = {name: checksum(p) for name, p in model.named_parameters() if id(p) in shared}
    try:
        with own_random_streams():
            for module, held in zip(modules, copies, strict=True):
                object.__setattr__(module, "__dict__", held)
            yield
    finally:
        for module, held in zip(modules, own, strict=True):
            object.__setattr__(module, "__dict__", held)
        for parameter in model.parameters():
            parameter.grad = None
        if before:
            before.restore()
    changed = [name for name, p in model.named_parameters() if name in sums and checksum(p) != sums[name]]
    if changed:
        raise ValueError(
            f"the model's forward changes {changed[0]}, a parameter, and a trial on two examples before the first step has "
            "done so: if only its first call does that, build the model again, and call it once on a batch before train; "
            "otherwise make that tensor a buffer"
        )


def checksum(parameter: Tensor) -> complex:
    """The sum of its entries: an equal one almost surely means that they are the same. Waits for the device."""
    (local,) = to_local([parameter.detach()])
    return complex(local.sum(dtype=torch.complex128 if local.is_complex() else torch.float64))


@contextmanager
def eval_mode(model: nn.Module):
    """Put all modules in eval mode; afterwards restore buffers, and the mode of each (one may have been frozen in it)."""
    modes = [(module, module.training) for module in model.modules()]
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        put_back(model, kept)
