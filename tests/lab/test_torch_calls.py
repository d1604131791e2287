"""torch_calls names what is called of torch, and nothing else; ready_made what is used of its optimizers and clips."""

import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.optim.adamw import adamw

from utils.lab.torch_calls import ready_made, torch_calls


def test_functions_methods_and_what_is_made_are_named():
    x = torch.ones(2, 3)
    assert torch_calls(lambda: F.layer_norm(x, (3,)).mul(2)) == ["layer_norm", "mul"]
    assert "scaled_dot_product_attention" in torch_calls(lambda: F.scaled_dot_product_attention(x, x, x))
    assert torch_calls(lambda: torch.zeros(3, device="meta")) == ["zeros"]
    assert "linear" in torch_calls(lambda: torch.nn.Linear(3, 2)(x))


def test_numpy_is_not_torch_and_nothing_is_noted_afterwards():
    assert torch_calls(lambda: np.exp(np.ones(3)) @ np.ones(3)) == []
    names = torch_calls(lambda: None)
    torch.ones(2)
    assert names == []


def with_gradient() -> torch.nn.Parameter:
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    return p


def by_function(p):
    with torch.no_grad():
        adamw([p], [p.grad], [p * 0], [p * 0], [], [torch.zeros(())], amsgrad=False, beta1=0.9, beta2=0.99, lr=0.1,
              weight_decay=0.0, eps=1e-8, maximize=False)  # fmt: skip


def by_kernel(p):
    with torch.no_grad():
        torch._fused_sgd_([p], [p.grad], [], lr=0.1, weight_decay=0.0, momentum=0.0, dampening=0.0, nesterov=False,
                          maximize=False, is_first_step=True)  # fmt: skip


def by_schedule(p):
    torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD([p], lr=1.0), lambda t: 1.0)


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda p: torch.optim.SGD([p], lr=0.1).step(), "torch.optim.sgd"),
        (by_function, "torch.optim.adam"),
        (by_kernel, "_fused_sgd_"),
        (by_schedule, "torch.optim.lr_scheduler"),
        (lambda p: torch.nn.utils.clip_grad_norm_(p, 1.0), "torch.nn.utils.clip_grad"),
    ],
)
def test_ready_made_parts_are_named_however_they_are_called(use, named):
    p = with_gradient()
    assert named in ready_made(lambda: use(p))


def test_own_formulas_are_not_ready_made():
    p = with_gradient()

    @torch.no_grad()
    def step():
        p.sub_(torch._foreach_mul([p.grad], 0.1)[0])
        p.addcdiv_(p.grad, p.grad.square().sqrt(), value=-0.1)

    assert ready_made(step) == [] != ready_made(lambda: torch.optim.SGD([p], lr=0.1).step())


def test_an_error_passes_through_ready_made_and_nobody_watches_afterwards():
    with pytest.raises(ZeroDivisionError):
        ready_made(lambda: 1 / 0)
    assert sys.getprofile() is None
