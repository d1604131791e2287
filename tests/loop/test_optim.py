"""What changes the weights, against torch's own: to the bit."""

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from utils.device import pick_device
from utils.loop.training import clip_gradients, zero_grad

SHAPES = [(7, 5), (5,), (), (300, 40)]
device = pick_device()


def parameters(*plant, dtypes=(torch.float32,)) -> list[nn.Parameter]:
    """Parameters with gradients of sizes from 1e-4 to 1e2; `plant` begins the first gradient."""
    generator, made = torch.Generator().manual_seed(0), []
    for number, shape in enumerate(SHAPES):
        dtype = dtypes[number % len(dtypes)]
        made.append(nn.Parameter(torch.zeros(shape, dtype=dtype, device=device)))
        gradient = torch.randn(shape, generator=generator) * 10.0 ** (2 * number - 4)
        if number == 0:
            gradient.view(-1)[: len(plant)] = torch.tensor(plant)
        made[-1].grad = gradient.to(device, dtype)
    return [*made, nn.Parameter(torch.zeros(2, device=device))]  # the last one has none


@pytest.mark.parametrize("plant", [(), (float("nan"),), (float("inf"),), (float("inf"), -float("inf"))])
@pytest.mark.parametrize("dtypes", [(torch.float32,), (torch.float64,), (torch.float32, torch.bfloat16)])
@pytest.mark.parametrize("limit", [1e-3, 1.0, 1e6])
def test_clipping_has_the_bits_of_torchs(limit, dtypes, plant):
    ours, theirs = parameters(*plant, dtypes=dtypes), parameters(*plant, dtypes=dtypes)
    norms = clip_gradients(ours, limit), clip_grad_norm_(theirs, limit)
    torch.testing.assert_close(*norms, rtol=0, atol=0, equal_nan=True)
    for mine, other in zip(ours[:-1], theirs[:-1], strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=0, equal_nan=True)
    assert ours[-1].grad is None


def test_clipping_at_the_limit_itself_has_the_bits_of_torchs():
    norm = clip_gradients(parameters(), 0).item()
    for limit in (norm, norm + 5e-7, norm + 1e-6, norm * (1 + 2e-7), norm * (1 - 2e-7)):
        ours, theirs = parameters(), parameters()
        clip_gradients(ours, limit)
        clip_grad_norm_(theirs, limit)
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours[:-1], theirs[:-1], strict=True))


def test_without_a_limit_the_norm_is_measured_and_nothing_is_changed():
    ours = parameters(float("inf"))
    assert clip_gradients(ours, 0).item() == float("inf")
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours[:-1], parameters(float("inf"))[:-1], strict=True))


def test_no_gradient_at_all_is_refused():
    with pytest.raises(ValueError, match="no parameter that trains"):
        clip_gradients([nn.Parameter(torch.zeros(2))], 1.0)


def test_cleared_gradients_are_gone():
    ours = parameters()
    zero_grad(ours)
    assert [each.grad for each in ours] == [None] * 5
