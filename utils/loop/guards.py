"""Safety: non-finite gradients never reach the weights; what a forward pass has moved can be put back."""

import copy
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from utils.device import accelerator_rng_state, own_random_streams, set_accelerator_rng_state
from utils.distributed.parallel import to_local
from utils.loop.attributes import attributes_put_back


class Guard:
    """Blocks non-finite updates on the device; the host may find out later.

    The fused optimizers change neither weights nor state when their `found_inf` is 1, as GradScaler uses it. After
    `limit` bad steps in a row every update is blocked, so that the weights before them are intact when the error is
    raised. On a CPU (`on_host`) reading the norm does not synchronise, so the check is immediate.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device, limit: int):
        self.optimizer = optimizer
        self.on_host = device.type == "cpu"
        self.limit = min(limit, 1 << 24)  # the largest count that float32 holds exactly
        self.bad: Tensor | None = None  # whether this step's update is blocked (bool); None if it is known not to be
        self.found_inf = torch.zeros((), device=device)  # the same as a float, for the optimizer
        self.blocked = torch.zeros((), device=device)  # updates blocked so far
        self.streak = torch.zeros((), device=device)  # blocked updates in a row up to now

    @property
    def over(self) -> bool:
        """Whether `limit` bad steps in a row have ended the run. Waits for the device."""
        return bool(self.streak >= self.limit)

    def block_unless_finite(self, norm: Tensor) -> None:
        """Block this step if the norm of its gradient is not finite: a NaN or inf in any entry makes it so."""
        if self.on_host and math.isfinite(norm) and (self.bad is None or self.streak < self.limit):
            if self.bad is not None:
                self.streak.zero_()
            self.bad = None
            self.optimizer.found_inf = None
            return
        self.bad = norm.isfinite().logical_not_()
        self.bad.logical_or_(self.streak >= self.limit)
        self.found_inf.copy_(self.bad)
        self.optimizer.found_inf = self.found_inf
        self.blocked += self.found_inf
        self.streak.add_(1).mul_(self.found_inf)

    def undo_buffers(self, before: "Snapshot") -> None:
        """If the step was blocked, restore the buffers (BatchNorm has seen the bad batch)."""
        if self.bad is not None:
            put_back(before.model, before.kept, self.bad)

    def state_dict(self) -> dict:
        return {"blocked": self.blocked.item(), "streak": self.streak.item()}

    def load_state_dict(self, saved: dict) -> None:
        self.blocked.fill_(saved["blocked"])
        self.streak.fill_(saved["streak"])
        self.bad = self.streak > 0


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
            buffer.copy_(kept[name] if where is True else torch.where(where, kept[name], buffer))


class Snapshot:
    """torch's random streams and the model's buffers before a forward pass, to undo it."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
        self.cpu_stream = torch.get_rng_state()
        self.device_streams = accelerator_rng_state() if torch.accelerator.is_available() else {}

    def restore(self) -> None:
        put_back(self.model, self.kept)
        torch.set_rng_state(self.cpu_stream)
        set_accelerator_rng_state(self.device_streams)


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
    kept = ExitStack()
    try:
        copies = [vars(twin) for twin in copy.deepcopy(model, dict(shared)).modules()]
        for held, module in zip(copies, modules, strict=True):
            if isinstance(module._modules, dict):  # not those of TorchScript
                held["_modules"] = module._modules.copy()  # the modules stay the caller's, who may look at them
    except Exception:  # whatever the parts of a model raise when they are copied
        shared = {id(p): p for p in model.parameters()}
        before = Snapshot(model)
        kept.enter_context(attributes_put_back(model))
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
        kept.close()
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
