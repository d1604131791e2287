"""A mean is its sum and its count: added one by one, whenever somebody looks."""

import numpy as np
import pytest
import torch

from utils.loop.metrics import Mean, count_targets, squared_error_sum


def numbers(n: int, dtype: torch.dtype) -> torch.Tensor:
    exponents = torch.arange(n).remainder(19) - 9.0
    return (torch.randn(n, generator=torch.Generator().manual_seed(0)) * 10**exponents).to(dtype)


def test_a_mean_has_the_bits_of_adding_one_by_one_however_often_it_is_read():
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        values = numbers(197, dtype)
        unread, read = Mean(), Mean()
        for number, value in enumerate(values):
            unread.add([value], torch.tensor(number))
            read.add([value], torch.tensor(number))
            if number % 7 == 3:
                _ = read.sums
        one_by_one = np.cumsum(values.double().numpy())[-1]
        assert one_by_one != values.double().numpy().sum()  # the order of adding shows
        assert unread.sums == read.sums == (one_by_one, sum(range(len(values))))


def test_shapes_that_differ_and_a_mean_of_nothing_are_refused():
    with pytest.raises(ValueError, match=r"outputs \(3, 1\) and targets \(3,\) differ in shape"):
        squared_error_sum(torch.zeros(3, 1), torch.zeros(3))
    with pytest.raises(ValueError, match="a mean of nothing"):
        Mean().value()


def test_ignore_counts_nowhere_among_classes_and_every_byte_counts():
    assert count_targets(torch.tensor([[3, -100, 0, -100]])) == 2
    assert count_targets(torch.tensor([[3, 156, 0, 255]], dtype=torch.uint8)) == 4  # -100 in eight bits is 156
