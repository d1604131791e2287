"""A loss that draws random numbers is tried as any other: chance makes no sum of a mean, and no mean of a sum."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.advice import programs
from helpers.by_hand import classes, distance, train_by_hand
from torch import nn
from torch.utils.data import TensorDataset

from utils.loop import Config, evaluate, train
from utils.loop.metrics import cross_entropy_sum
from utils.loop.same_draws import SameDraws

GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(64, 4, generator=GENERATOR), torch.randn(64, 3, generator=GENERATOR)
LABELS = torch.randint(3, (64,), generator=GENERATOR)


def fit(loss, y, model=None, **changes):
    torch.manual_seed(0)
    settings = {"steps": 2, "batch_size": 16, "accumulation": 2, "device": "cpu"} | changes
    return train(model or nn.Linear(4, 3), TensorDataset(X, y), None, Config(**settings), loss=loss)


# ---- sums over the targets, whatever is drawn ------------------------------------------------------------------------


def noise(outputs, y):
    return (outputs - y + 0.1 * torch.randn_like(y)).square().sum()


def noise_and_count(outputs, y):
    return (outputs - y + torch.empty_like(y).uniform_(-0.1, 0.1)).square().sum(), len(y)


def dropped_outputs(outputs, y):
    return (F.dropout(outputs, 0.2) - y).square().sum()


def some_targets(outputs, y):
    kept = torch.rand(y.shape) < 0.5
    return ((outputs - y).square() * kept).sum(), kept.sum()


def a_distribution(outputs, y):
    sample = torch.distributions.Normal(outputs, 0.1 + y.abs()).rsample()
    return (sample - y).square().sum(), len(y)


def one_number_of_numpy(outputs, y):
    return (outputs - y).square().sum() * np.random.rand(), len(y)  # noqa: NPY002


def one_number_of_python(outputs, y):
    return (outputs - y).square().sum() * (0.5 + random.random()), len(y)


def noisy_logits(outputs, labels):
    return F.cross_entropy(outputs + 0.1 * torch.randn_like(outputs), labels, reduction="sum")


def noisy_labels(outputs, labels):
    other = torch.randint_like(labels, 3)
    return F.cross_entropy(outputs, torch.where(torch.rand(labels.shape) < 0.1, other, labels), reduction="sum")


def gumbel(outputs, labels):
    return F.nll_loss(F.gumbel_softmax(outputs, dim=-1).clamp_min(1e-6).log(), labels, reduction="sum")


def negatives(outputs, labels):
    others = torch.randint(3, (len(labels), 2))
    taken, left = outputs.gather(1, labels[:, None]), outputs.gather(1, others)
    return -F.logsigmoid(taken).sum() - F.logsigmoid(-left).sum(), len(labels)


OVER_ENTRIES = [noise, noise_and_count, dropped_outputs, some_targets, a_distribution, one_number_of_numpy]
SUMS = [
    *((loss, Y) for loss in [*OVER_ENTRIES, one_number_of_python]),
    *((loss, LABELS) for loss in (noisy_logits, noisy_labels, gumbel, negatives)),
]


@pytest.mark.parametrize(("loss", "y"), SUMS)
@pytest.mark.parametrize("seed", range(3))
def test_a_sum_of_what_is_drawn_for_each_target_trains_in_parts(loss, y, seed):
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)  # noqa: NPY002
    assert fit(loss, y, seed=seed).steps == 2
    assert evaluate(nn.Linear(4, 3), TensorDataset(X, y), loss=loss).targets > 0


def test_the_trial_draws_nothing_from_the_run():
    def loss(outputs, targets):
        return cross_entropy_sum(outputs + torch.randn_like(outputs) + random.random(), targets)

    data, (ours, theirs) = classes(), (nn.Linear(4, 5).double() for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    train(ours, data, None, Config(steps=3, batch_size=12, lr=0.1, optimizer="sgd", seed=3), loss=loss)
    torch.manual_seed(3)
    random.seed(3)
    sgd = lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # noqa: E731
    train_by_hand(theirs, data, 3, sgd, loss=lambda outputs, targets: loss(outputs, targets) / 12)
    assert distance(ours, theirs) < 1e-12


class Leaving(nn.Module):
    """Leaves its inputs' mean on itself, for a loss to look up."""

    def __init__(self):
        super().__init__()
        self.layer, self.load = nn.Linear(4, 3), None

    def forward(self, x):
        self.load = x.square().mean()
        return self.layer(x)


def test_a_loss_that_reads_the_model_and_draws_is_told_from_one_that_only_draws():
    model = Leaving()
    assert fit(noise_and_count, Y, model).steps == 2
    with pytest.raises(ValueError, match="accumulation is 2, but the loss of a batch is not the sum"):
        fit(lambda outputs, y: (noise(outputs, y) + model.load, len(y)), Y, model)


class TwoOutputs(nn.Linear):
    """Returns its outputs, and a number of the whole batch."""

    def forward(self, x):
        outputs = super().forward(x)
        return outputs, outputs.square().mean()


def noise_on_the_first(outputs, y):
    return noise_and_count(outputs[0], y)


def noise_and_a_balance(outputs, y):
    total, count = noise_and_count(outputs[0], y)
    return total + count * outputs[1], count


def test_chance_does_not_pass_for_a_number_of_the_whole_batch():
    assert fit(noise_on_the_first, Y, TwoOutputs(4, 3)).steps == 2
    with pytest.raises(ValueError, match="accumulation is 2, but the loss of a batch is not the sum"):
        fit(noise_and_a_balance, Y, TwoOutputs(4, 3))


# ---- no sums ---------------------------------------------------------------------------------------------------------


def mean_with_count(outputs, y):
    return (outputs - y + 0.1 * torch.randn_like(y)).square().mean(), len(y)


def mean_of_noisy_logits(outputs, labels):
    return F.cross_entropy(outputs + torch.randn_like(outputs), labels)


@pytest.mark.parametrize(("loss", "y"), [(mean_with_count, Y), (mean_of_noisy_logits, LABELS)])
def test_a_mean_of_what_is_drawn_is_refused_with_lines_that_work(loss, y):
    with pytest.raises(ValueError, match="the loss is a mean") as raised:
        fit(loss, y, accumulation=1)
    given = {"loss": loss, "torch": torch}
    exec(programs(str(raised.value))[0], given)
    assert fit(given["pair"], y).steps == 2


def mixed_examples(outputs, labels):
    share, other = np.random.rand(), torch.randperm(len(labels))  # noqa: NPY002
    first, second = (F.cross_entropy(outputs, each, reduction="sum") for each in (labels, labels[other]))
    return share * first + (1 - share) * second, len(labels)


def contrast_after_dropout(outputs, labels):
    outputs = F.dropout(outputs, 0.2)
    same = labels[:, None] == labels
    return ((outputs[:, None] - outputs).square().sum(-1) * same).sum() / len(labels), len(labels)


def numbers_of_numpy_for_each(outputs, y):
    return (outputs - y + torch.from_numpy(np.random.randn(*y.shape)).float()).square().sum(), len(y)  # noqa: NPY002


@pytest.mark.parametrize(
    ("loss", "y"), [(mixed_examples, LABELS), (contrast_after_dropout, LABELS), (numbers_of_numpy_for_each, Y)]
)
def test_what_does_not_add_up_or_cannot_be_tried_trains_in_whole_batches(loss, y):
    assert fit(loss, y, accumulation=1).steps == 2
    with pytest.raises(
        ValueError, match="accumulation is 2, but the loss of a batch is not the sum of its parts' losses"
    ):
        fit(loss, y)


def test_numbers_of_another_stream_for_each_target_are_refused_where_nothing_says_the_count():
    with pytest.raises(
        ValueError, match="the loss draws random numbers by NumPy, so that whether it is a sum"
    ) as raised:
        fit(lambda outputs, y: numbers_of_numpy_for_each(outputs, y)[0], Y, accumulation=1)
    assert "draw them by torch, torch.rand(targets.shape, device=targets.device) say" in str(raised.value)

    def as_advised(outputs, targets):
        return (outputs - targets + torch.rand(targets.shape, device=targets.device)).square().sum()

    assert fit(as_advised, Y).steps == 2


DRAWS = {
    "rand": lambda n: torch.rand(n),
    "randn": lambda n: torch.randn(n),
    "uniform_": lambda n: torch.empty(n).uniform_(2, 4),
    "normal_": lambda n: torch.empty(n).normal_(std=2.0),
    "normal of each": lambda n: torch.normal(torch.zeros(n), torch.ones(n)),
    "bernoulli": lambda n: torch.bernoulli(torch.full((n,), 0.7)),
    "bernoulli_": lambda n: torch.empty(n).bernoulli_(0.3),
    "dropout": lambda n: F.dropout(torch.ones(n), 0.3),
    "randint": lambda n: torch.randint(2, 9, (n,)),
    "randint_like": lambda n: torch.randint_like(torch.zeros(n), 2, 9),
    "multinomial": lambda n: torch.multinomial(torch.ones(n, 5), 1),
    "exponential": lambda n: torch.empty(n).exponential_(),
    "poisson": lambda n: torch.poisson(torch.full((n,), 3.0)),
    "its own generator": lambda n: torch.rand(n, generator=torch.Generator().manual_seed(n)),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_what_is_drawn_is_the_same_for_each_entry_of_any_batch(kind):
    with SameDraws():
        few, many = DRAWS[kind](2), DRAWS[kind](40)
    assert len({*few.flatten().tolist(), *many.flatten().tolist()}) == 1
    assert len(set(DRAWS[kind](40).flatten().tolist())) > 1
