"""A loss that draws random numbers is tried with one number in place of all, so that chance hides nothing."""

import random

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from utils.data.trees import Tree, tensors
from utils.device import own_random_streams
from utils.loop.metrics import Loss

UNIFORM, NORMAL = 0.3, 0.7  # what is drawn


def with_same_draws(loss: Loss) -> Loss:
    """The same loss, but each number that torch draws in it is that of every other entry, whatever the batch.

    So the losses of two halves of a batch, which draw afresh, may be held against that of the whole. The streams of NumPy
    and Python begin anew at each call: a number drawn once for a batch is the same, too; those of each entry are not.
    """

    def loss_with_same_draws(outputs: Tree, targets: Tree) -> Tensor | tuple[Tensor, Tensor | int]:
        with own_random_streams(0), SameDraws():
            return loss(outputs, targets)

    return loss_with_same_draws


def streams_drawn_from(loss: Loss, outputs: Tree, targets: Tree) -> list[str]:
    """Which of the global streams a call of the loss moves: torch (on the device, or the CPU), NumPy, Python."""
    device = tensors(outputs)[0].device
    with own_random_streams(0):
        unmoved = _next_of_each(device)
    with own_random_streams(0):
        loss(outputs, targets)
        moved = _next_of_each(device)
    return [name for name in unmoved if unmoved[name] != moved[name]]


def _next_of_each(device: torch.device) -> dict[str, object]:
    return {
        "torch": (torch.rand(()).item(), torch.rand((), device=device).item()),
        "NumPy": np.random.rand(),  # noqa: NPY002
        "Python": random.random(),
    }


class SameDraws(TorchDispatchMode):
    """Within the block torch draws the same number for each entry, and each permutation turns the order round."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        match name:
            case "rand" | "rand_like":
                return result.fill_(UNIFORM)
            case "randn" | "randn_like":
                return result.fill_(NORMAL)
            case "uniform_":
                low, high = (*args[1:], *(0.0, 1.0)[len(args) - 1 :])
                return result.fill_(low + UNIFORM * (high - low))
            case "normal_":
                mean, std = (*args[1:], *(0.0, 1.0)[len(args) - 1 :])
                return result.fill_(mean + NORMAL * std)
            case "normal":  # of a mean and a standard deviation for each entry
                return result.copy_(args[0] + NORMAL * args[1]) if isinstance(result, Tensor) else result
            case "bernoulli" | "bernoulli_":
                probability = args[1] if len(args) > 1 else args[0] if name == "bernoulli" else 0.5
                return result.copy_(torch.as_tensor(probability, device=result.device) >= 0.5)
            case "native_dropout":
                return args[0] / (1 - args[1]), torch.ones_like(args[0], dtype=torch.bool)
            case "randint" | "randint_like":  # the lowest
                low = args[name == "randint_like"] if "low" in func._overloadname else 0
                return result.fill_(low)
            case "multinomial":
                return result.zero_()
            case "poisson":
                return result.copy_(args[0].round())
            case "randperm":
                return result.copy_(torch.arange(len(result) - 1, -1, -1, device=result.device))
            case "exponential_" | "geometric_" | "log_normal_" | "cauchy_":
                return result.fill_(1)
            case _:
                return result
