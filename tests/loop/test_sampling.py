"""Text is drawn as temperature and seed say, and nothing else changes."""

import pytest
import torch
from torch import nn

from utils.loop.sampling import sample_text


class Fixed(nn.Module):
    """Whatever came before, a, b and c weigh 1, 2 and 5."""

    context = 3

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([1.0, 2.0, 5.0]).log())

    def forward(self, tokens):
        assert tokens.shape[1] <= self.context and not self.training
        return self.logits.expand(*tokens.shape, 3)


@pytest.mark.parametrize(("temperature", "weights"), [(1.0, (1, 2, 5)), (0.5, (1, 4, 25)), (0.0, (0, 0, 1))])
def test_text_is_drawn_by_temperature_and_seed(temperature, weights):
    model, before = Fixed(), torch.get_rng_state()
    text, again, other = (sample_text(model, "a", "abc", 1000, temperature, seed)[1:] for seed in (0, 0, 1))
    expected = [weight / sum(weights) for weight in weights]
    assert [text.count(letter) / 1000 for letter in "abc"] == pytest.approx(expected, abs=0.05)
    assert text == again and (text != other) == (temperature > 0)
    assert model.training and torch.equal(torch.get_rng_state(), before)
