"""What keeps a bad moment from doing harm: gradients that are not finite, memory that runs out, a SIGTERM."""

import math
import signal
import threading
from contextlib import contextmanager

import torch
from torch import Tensor, nn

SIGTERM_EXIT = 128 + signal.SIGTERM  # 143, what a shell reports for a process that SIGTERM ended


class Guard:
    """Keeps an update that is not finite from the weights, on the device; the host may learn of it later.

    The fused optimizers leave weights and state as they are when their `found_inf` is 1: GradScaler's own mechanism.
    After `limit` bad steps in a row everything is blocked, so that whoever raises later raises on the weights before
    them. `on_host`: a CPU may be asked at once, for nothing, and spares itself the rest.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device, limit: int):
        self.optimizer, self.on_host = optimizer, device.type == "cpu"
        self.limit = min(limit, 1 << 24)  # as far as a float32 counts
        self.bad: Tensor | None = None  # whether this step's update is blocked (bool); None where it is known not to be
        self.found_inf = torch.zeros((), device=device)  # the same, as the optimizer wants it
        self.blocked = torch.zeros((), device=device)  # updates blocked so far
        self.streak = torch.zeros((), device=device)  # of these, the newest in a row

    @property
    def over(self) -> bool:
        """Whether `limit` bad steps in a row have ended the run. Waits for the device."""
        return bool(self.streak >= self.limit)

    def block_unless_finite(self, norm: Tensor) -> None:
        """Decide on this step by the norm of its gradient: one NaN or inf in any entry makes it NaN or inf."""
        if self.on_host and math.isfinite(norm) and (self.bad is None or self.streak < self.limit):
            if self.bad is not None:
                self.streak.zero_()
            self.bad = self.optimizer.found_inf = None
            return
        self.bad = norm.isfinite().logical_not_()
        self.bad.logical_or_(self.streak >= self.limit)
        self.optimizer.found_inf = self.found_inf.copy_(self.bad)
        self.blocked += self.found_inf
        self.streak.add_(1).mul_(self.found_inf)

    def undo_buffers(self, before: "Rewind") -> None:
        """If the step was blocked, put back the buffers (BatchNorm has seen the bad batch)."""
        if self.bad is None:
            return
        for buffer, kept in zip(before.buffers, before.kept, strict=True):
            buffer.copy_(torch.where(self.bad, kept, buffer))

    def state_dict(self) -> dict:
        return {"blocked": self.blocked.item(), "streak": self.streak.item()}

    def load_state_dict(self, saved: dict) -> None:
        self.blocked.fill_(saved["blocked"])
        self.streak.fill_(saved["streak"])
        self.bad = self.streak > 0


@torch.no_grad()
def all_finite(tensors: list[Tensor]) -> bool:
    """Whether every entry of every tensor is finite. Waits for the device.

    One NaN or infinity makes a sum one too, and a sum is read once where isfinite() makes four passes. Only where it is no
    finite number are the entries asked, since finite ones may add up to an infinity.
    """
    total = sum(tensor.sum(dtype=torch.float32 if tensor.itemsize < 4 else None) for tensor in tensors)
    return math.isfinite(abs(total)) or all(bool(tensor.isfinite().all()) for tensor in tensors)


class Rewind:
    """torch's random streams and the model's buffers as they were before a forward pass."""

    def __init__(self, buffers: list[Tensor]):
        self.buffers = buffers
        self.kept = [buffer.clone() for buffer in buffers]
        self.cpu_stream = torch.get_rng_state()
        self.cuda_streams = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def restore(self) -> None:
        for buffer, kept in zip(self.buffers, self.kept, strict=True):
            buffer.copy_(kept)
        torch.set_rng_state(self.cpu_stream)
        if self.cuda_streams is not None:
            torch.cuda.set_rng_state_all(self.cuda_streams)


def is_out_of_memory(error: Exception) -> bool:
    """On a GPU an error class of its own; a CPU's allocator raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def explain(error: Exception, what: str) -> None:
    """Say in an error of the model's or the loss's what was going on. Raises ValueError where what is wrong is known."""
    if isinstance(error, IndexError):  # how a CPU refuses a label or a token that the model does not know
        raise ValueError(f"{what}: {error}. Is a label or token out of range?") from error
    if "does not require grad" in str(error):
        raise ValueError(
            f"{what}: the loss does not depend on a parameter that trains: is something detached on the way to it?"
        ) from error
    error.add_note(f"in {what}")


@contextmanager
def evaluating(model: nn.Module):
    """All modules in eval mode; afterwards each is back in the mode it was in (one may have been frozen in eval mode)."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


class Termination:
    """While it is entered, SIGTERM only sets `asked`; the loop finishes its step, saves, and leaves.

    One that comes after the last step ends the process when it is left: its sender waits for that, whatever was to follow.
    Signals can be caught in the main thread only; elsewhere this does nothing.
    """

    def __init__(self):
        self.asked = False

    def __enter__(self) -> "Termination":
        self.caught = threading.current_thread() is threading.main_thread()
        if self.caught:
            self.previous = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, kind, *error) -> None:
        if self.caught:
            signal.signal(signal.SIGTERM, self.previous)
        if self.asked and kind is None:
            raise SystemExit(SIGTERM_EXIT)

    def _ask(self, number, frame) -> None:
        self.asked = True
