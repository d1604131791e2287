"""torch_calls names what is called of torch, and nothing else."""

import numpy as np
import torch
import torch.nn.functional as F

from utils.lab.torch_calls import torch_calls


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
