"""x, y and outputs may be any tree with the batch first: each trains as by hand, or is refused with the next move."""

import copy
import importlib
import sys
import textwrap
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.paths import ROOT
from torch import nn
from torch.utils._pytree import register_pytree_node
from torch.utils.data import Dataset, TensorDataset, default_collate

from utils.data import IGNORE
from utils.data.trees import stack
from utils.device import pick_device
from utils.distributed.launch import on_ranks
from utils.loop import Config, evaluate, train
from utils.loop.inputs import digest_of
from utils.loop.metrics import cross_entropy_sum, sum_and_count

DEVICE = pick_device()
TESTS = ROOT / "tests"
N = 12  # examples: one batch
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(N, 4, generator=GENERATOR, dtype=torch.float64)
OTHER = torch.randn(N, 2, 3, generator=GENERATOR, dtype=torch.float64)
IDS = torch.randint(1, 9, (N, 6), generator=GENERATOR)
MASK = torch.arange(6) < 2 + torch.arange(N)[:, None] % 5
NEXT = torch.randint(0, 9, (N, 6), generator=GENERATOR).where(MASK, IGNORE)
LABELS = torch.arange(N) % 3
REAL = torch.randn(N, 3, generator=GENERATOR, dtype=torch.float64)
SGD = {"optimizer": "sgd", "momentum": 0.0, "lr": 0.1, "batch_size": N, "log_every": 1, "val_every": 1}
Pair = namedtuple("Pair", "first second")


class Rows(Dataset):
    """Examples (x, y), each a tree cut out of a tree of all."""

    def __init__(self, x, y):
        self.trees = x, y

    def __len__(self):
        return N

    def __getitem__(self, i):
        return tuple(one(tree, i) for tree in self.trees)


def one(tree, i):
    """Example i of a tree, whatever torch takes for a tree."""
    return torch.utils._pytree.tree_map(lambda leaf: leaf[i], tree)


class Record(OrderedDict):
    """What models of Hugging Face return: a dict whose parts are attributes too, registered without names for them."""

    __getattr__ = OrderedDict.__getitem__


register_pytree_node(
    Record,
    lambda record: (list(record.values()), list(record)),
    lambda values, names: Record(zip(names, values, strict=True)),
)


@dataclass
class Known:
    """A dataclass that torch knows."""

    first: torch.Tensor
    second: torch.Tensor


torch.export.register_dataclass(Known)


@dataclass
class Unknown:
    """One that it does not know."""

    first: torch.Tensor
    second: torch.Tensor


class Model(nn.Module):
    """Any function of its two layers and x."""

    def __init__(self, function, inputs: int = 4, outputs: int = 3):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.function = nn.Linear(inputs, outputs), nn.Linear(6, outputs), function
        self.double()

    def forward(self, x):
        return self.function(self, x)


class Reader(nn.Module):
    """Tokens and a mask (B, T) → (B, T, 9), each place reading the mean of those before it that are not masked."""

    def __init__(self, outputs=lambda logits: logits):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head, self.outputs = nn.Embedding(9, 5).double(), nn.Linear(5, 9).double(), outputs

    def forward(self, x):
        kept = x["attention_mask"][..., None]
        seen = (self.embedding(x["input_ids"]) * kept).cumsum(1) / kept.cumsum(1)
        return self.outputs(self.head(seen))


def one_plus_two(model, x):
    first, second = x
    return model.one(first) + model.two(second.flatten(1))


def by_name(model, x):
    return model.one(x["pixels"]) + model.two(x["more"]["tokens"].flatten(1))


def by_attribute(model, x):
    return model.one(x.first) + model.two(x.second.flatten(1))


def of_tokens(outputs, targets):
    """Read from logits, in a tree."""
    return cross_entropy_sum(outputs["logits"], targets), targets.ne(IGNORE).sum()


def of_both(outputs, targets):
    """Labels and numbers, from two heads: by example."""
    first, second = outputs
    total = F.cross_entropy(first, targets["label"], reduction="sum") + (second - targets["box"]).square().sum()
    return total, len(targets["label"])


def of_two_heads(model, x):
    return model.one(x), torch.tanh(model.one(x))


def of_aux(outputs, targets):
    logits, cost = outputs
    return cross_entropy_sum(logits, targets) + cost.sum(), len(targets)


def mean_of_tokens(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


# name: model, x, y, loss for train, the mean loss by hand
TREES = {
    "tokens with a mask": (
        *(Reader, {"input_ids": IDS, "attention_mask": MASK}, NEXT, cross_entropy_sum),
        mean_of_tokens,
    ),
    "tokens with a mask, by torch's loss": (
        *(lambda: Reader(lambda logits: logits.movedim(-1, 1)), {"input_ids": IDS, "attention_mask": MASK}, NEXT),
        *(nn.CrossEntropyLoss(), nn.CrossEntropyLoss()),
    ),
    "a pair": (lambda: Model(one_plus_two), (X, OTHER), LABELS, None, F.cross_entropy),
    "a list": (lambda: Model(one_plus_two), [X, OTHER], LABELS, None, F.cross_entropy),
    "a named pair": (lambda: Model(by_attribute), Pair(X, OTHER), LABELS, None, F.cross_entropy),
    "a dataclass": (lambda: Model(by_attribute), Known(X, OTHER), LABELS, None, F.cross_entropy),
    "pixels and tokens, nested": (
        *(lambda: Model(by_name), {"pixels": X, "more": {"tokens": OTHER}}, LABELS, None),
        F.cross_entropy,
    ),
    "targets in a dict": (
        *(lambda: Model(of_two_heads), X, {"label": LABELS, "box": REAL}, of_both),
        lambda outputs, targets: of_both(outputs, targets)[0] / N,
    ),
    "targets in a pair": (
        *(lambda: Model(lambda model, x: model.one(x)), X, (REAL, MASK[:, :3])),
        lambda outputs, y: (((outputs - y[0]).square() * y[1]).sum(), y[1].sum()),
        lambda outputs, y: (outputs - y[0]).square()[y[1]].mean(),
    ),
    "an object with logits": (
        *(lambda: Reader(lambda logits: Record(loss=None, logits=logits)), {"input_ids": IDS, "attention_mask": MASK}),
        *(NEXT, of_tokens, lambda outputs, targets: mean_of_tokens(outputs["logits"], targets)),
    ),
    "outputs in a dataclass": (
        *(lambda: Model(lambda model, x: Known(model.one(x), x)), X, LABELS),
        lambda outputs, targets: (F.cross_entropy(outputs.first, targets, reduction="sum"), len(targets)),
        lambda outputs, targets: F.cross_entropy(outputs.first, targets),
    ),
    "a cost of each example beside the logits": (
        *(lambda: Model(lambda model, x: (model.one(x), model.one(x).square().mean(1))), X, LABELS, of_aux),
        lambda outputs, targets: F.cross_entropy(outputs[0], targets) + outputs[1].mean(),
    ),
    "indices among the outputs": (
        *(lambda: Model(lambda model, x: (model.one(x), model.one(x).argmax(1))), X, LABELS),
        lambda outputs, y: (F.cross_entropy(outputs[0], y, reduction="sum"), len(outputs[1])),
        lambda outputs, y: F.cross_entropy(outputs[0], y),
    ),
    "a temperature beside the logits": (
        *(lambda: Model(lambda model, x: (model.one(x), model.two.bias[0].exp())), X, LABELS),
        lambda outputs, y: (F.cross_entropy(outputs[0] / outputs[1], y, reduction="sum"), len(y)),
        lambda outputs, y: F.cross_entropy(outputs[0] / outputs[1], y),
    ),
    "x as its own target": (
        *(lambda: Model(lambda model, x: model.one(x["a"])), {"a": X, "b": REAL}, {"a": X, "b": REAL}),
        lambda outputs, y: ((outputs - y["b"]).square().sum(), y["b"].numel()),
        lambda outputs, y: (outputs - y["b"]).square().mean(),
    ),
}


def moved(tree):
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.to(DEVICE), tree)


def weights(model):
    return torch.cat([p.detach().flatten().cpu() for p in model.parameters()])


def by_hand(model, mean, x, y):
    """The mean loss of one batch, and the weights after one step of plain gradient descent."""
    model = copy.deepcopy(model).to(DEVICE)
    loss = mean(model(moved(x)), moved(y))
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    pairs = zip(parameters, gradients, strict=True)
    return loss.item(), torch.cat([(p - SGD["lr"] * g).detach().flatten().cpu() for p, g in pairs])


def whole(examples):
    """A collate of one's own, which makes of examples what torch would."""
    return stack(examples)


@pytest.mark.parametrize("how", ["one part", "five parts", "workers", "collate", "FLOPs", "memory"])
@pytest.mark.parametrize("name", TREES)
def test_a_tree_trains_as_by_hand(name, how):
    build, x, y, loss, mean = TREES[name]
    expected, there = by_hand(build(), mean, x, y)
    model, data = build(), Rows(x, y)
    options = {} if loss is None else {"loss": loss}
    config = SGD | {"steps": 1}
    if how == "five parts":
        config["accumulation"] = 5
    elif how == "workers":
        config["workers"] = 1
    elif how == "collate":
        options["collate"] = whole
    elif how == "FLOPs":
        options["peak_flops"] = 1e12
    elif how == "memory":
        model.register_forward_pre_hook(no_room_for_more_than_three)
    result = train(model, data, data, Config(**config, deterministic=False), **options)
    assert result.history[0]["loss"] == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(weights(model), there, rtol=0, atol=1e-14)
    with torch.no_grad():
        validated = mean(model(moved(x)), moved(y)).item()
    assert result.history[1]["val_loss"] == pytest.approx(validated, rel=1e-12)
    counted = {name: options[name] for name in options if name != "peak_flops"}
    assert evaluate(model, data, batch_size=5, **counted).loss == pytest.approx(validated, rel=1e-12)


def no_room_for_more_than_three(model, arguments):
    if torch.is_grad_enabled() and len(torch.utils._pytree.tree_leaves(arguments)[0]) > 3:
        raise torch.OutOfMemoryError("simulated")


def test_an_accuracy_where_one_tensor_meets_a_cross_entropy():
    data = Rows({"input_ids": IDS, "attention_mask": MASK}, NEXT)
    right = Reader()({"input_ids": IDS, "attention_mask": MASK}).argmax(-1).eq(NEXT)[MASK]
    scores = evaluate(Reader(), data, batch_size=5)
    assert scores.accuracy == right.double().mean().item() and scores.targets == MASK.sum()
    for name in ("targets in a dict", "an object with logits", "a cost of each example beside the logits"):
        build, x, y, loss, _ = TREES[name]
        assert evaluate(build(), Rows(x, y), loss=loss).accuracy is None
