"""The loop on a device that is not the CPU: the same promises."""

import pytest
import torch
from torch import nn

from utils.data import TensorData, spiral
from utils.loop import Config, train

DATA = spiral().train


def net(dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_nan_in_the_data_is_named_with_its_step_and_the_input(accumulation):
    x = DATA.x.clone()
    x[17] = float("nan")
    config = Config(steps=40, batch_size=16, accumulation=accumulation, device="gpu")
    with pytest.raises(FloatingPointError, match=r"the gradient of step \d+ is not finite .*: the input is not finite"):
        train(net(), TensorData(x, DATA.y), None, config)
