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
    """Any function of its layer and x."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.function = nn.Linear(4, 3).double(), function

    def forward(self, x):
        return self.function(self, x)


class Both(Model):
    """Any function of its two layers and x."""

    def __init__(self, function):
        super().__init__(function)
        self.two = nn.Linear(6, 3).double()


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
    "a pair": (lambda: Both(one_plus_two), (X, OTHER), LABELS, None, F.cross_entropy),
    "a list": (lambda: Both(one_plus_two), [X, OTHER], LABELS, None, F.cross_entropy),
    "a named pair": (lambda: Both(by_attribute), Pair(X, OTHER), LABELS, None, F.cross_entropy),
    "a dataclass": (lambda: Both(by_attribute), Known(X, OTHER), LABELS, None, F.cross_entropy),
    "pixels and tokens, nested": (
        *(lambda: Both(by_name), {"pixels": X, "more": {"tokens": OTHER}}, LABELS, None),
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
        *(lambda: Both(lambda model, x: (model.one(x), model.two.bias[0].exp())), X, LABELS),
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


# ---- the same run ----------------------------------------------------------------------------------------------------


def test_a_tree_of_one_tensor_trains_to_the_bits_of_the_tensor():
    """And the digest of data in tensors is what it was before there were trees."""
    plain, wrapped = Model(lambda model, x: model.one(x)), Model(lambda model, x: model.one(x["x"]))
    config = Config(steps=4, batch_size=5, lr=0.05, accumulation=2, ema=0.9, clip=0.1, device="cpu")
    train(plain, TensorDataset(X, LABELS), None, config)
    train(wrapped, Rows({"x": X}, LABELS), None, config)
    assert torch.equal(weights(plain), weights(wrapped))
    numbers = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    assert digest_of(TensorDataset(numbers, torch.tensor([0, 2, 1]))) == "89940e13c392b606"


def test_the_digest_of_a_tree_is_of_all_its_tensors_and_their_names():
    trees = [{"a": X, "b": REAL}, {"a": X, "b": REAL + 1}, {"b": REAL, "c": X}, {"a": REAL, "b": X}, (X, REAL)]
    digests = [digest_of(Rows(tree, LABELS)) for tree in trees]
    assert len(set(digests)) == len(trees) and digest_of(Rows(trees[0], LABELS)) == digests[0]


def test_a_run_on_trees_that_was_interrupted_ends_with_the_same_bits(tmp_path):
    build, x, y, loss, _ = TREES["targets in a dict"]
    straight, resumed = build(), build()
    settings = {"batch_size": 5, "lr": 0.05, "accumulation": 2, "val_every": 2, "save_every": 1, "device": "cpu"}
    train(straight, Rows(x, y), Rows(x, y), Config(steps=6, **settings), loss=loss)
    train(build(), Rows(x, y), Rows(x, y), Config(steps=4, **settings), loss=loss, run=tmp_path)
    train(resumed, Rows(x, y), Rows(x, y), Config(steps=6, **settings), loss=loss, run=tmp_path)
    assert torch.equal(weights(straight), weights(resumed))


def test_a_nan_in_a_tree_is_named_with_its_place_and_example():
    x = {"pixels": X.clone(), "more": {"tokens": OTHER}}
    x["pixels"][7, 1] = torch.nan
    config = Config(steps=1, batch_size=N, accumulation=3, device="cpu")
    with pytest.raises(FloatingPointError, match=r"the input \['pixels'\] is not finite\..* Look at example \[7\]"):
        train(Both(by_name), Rows(x, LABELS), None, config)
    y = {"label": LABELS, "box": REAL.clone()}
    y["box"][4] = torch.inf
    with pytest.raises(FloatingPointError, match=r"the target \['box'\] is not finite\..* Look at example \[4\]"):
        train(Model(of_two_heads), Rows(X, y), None, config, loss=of_both)


def trained_on_a_rank(tests: str, name: str, parallel: str, batch_size: int) -> list:
    """The weights that a rank ends with, and its losses; or the error that it ends with."""
    sys.path.insert(0, tests)
    here = importlib.import_module("loop.test_trees")  # a script cannot hold its classes
    build, x, y, loss, _ = here.TREES[name]
    model, data = build(), here.Rows(x, y)
    settings = here.SGD | {"batch_size": batch_size, "device": "cpu", "accumulation": 2}
    config = here.Config(steps=6, parallel=parallel, **settings)
    options = {} if loss is None else {"loss": loss}
    try:
        history = here.train(model, data, data, config, **options).history
    except ValueError as error:
        return [str(error)]
    return [here.weights(model), *(record.get("loss") or record.get("val_loss") for record in history)]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize(
    "name", ["pixels and tokens, nested", "an object with logits", "targets in a pair", "outputs in a dataclass"]
)
def test_two_ranks_train_a_tree_as_one_does(name, parallel):
    """Batches of 11, so that the last one is of one example, and a rank takes part with padding."""
    alone = trained_on_a_rank(str(TESTS), name, parallel, 11)
    for ended in on_ranks(2, trained_on_a_rank, str(TESTS), name, parallel, 11, group=False):
        torch.testing.assert_close(ended.result[0], alone[0], rtol=0, atol=1e-12)
        assert ended.result[1:] == pytest.approx(alone[1:], rel=1e-10)


# ---- the batch comes first -------------------------------------------------------------------------------------------


def lines_of(message: str) -> list[str]:
    """The programs that a message shows: each ends with a call of train."""
    programs, lines = [], []
    for line in str(message).splitlines():
        if line.startswith("    "):
            lines.append(line)
            if line.startswith("    train(") or line.startswith("    evaluate("):
                programs.append(textwrap.dedent("\n".join(lines)))
                lines = []
    return programs


def refused(model, data, *words: str, **options) -> str:
    """Refused before a step, naming these; the whole message."""
    given = {name: options.pop(name) for name in ("loss", "collate") if name in options}
    before = weights(model)
    with pytest.raises(ValueError) as error:
        train(model, data, options.pop("val_data", None), Config(steps=1, **SGD | options), **given)
    assert all(word in str(error.value) for word in words), error.value
    assert torch.equal(weights(model), before)
    return str(error.value)


def run_lines(program: str, model, data, **names) -> dict:
    """Run a program of a message as it stands; the record of its first step, or what it evaluates."""
    shown = []

    def first_record(*arguments, **options):
        shown.extend(train(*arguments, **options).history)

    def scores(*arguments, **options):
        shown.append(evaluate(*arguments, **options))

    names |= {"torch": torch, "train": first_record, "evaluate": scores, "model": model, "data": data}
    exec(program, {"config": Config(steps=1, **SGD), **names})
    return shown[0]


def mask_time_first(examples):
    x, y = stack(examples)
    return {"input_ids": x["input_ids"], "attention_mask": x["attention_mask"].T}, y


@pytest.mark.parametrize("length", [2, 6])
def test_one_leaf_that_puts_time_first_is_named_and_the_lines_turn_it(length):
    """Two places are not two examples either."""
    x = {"input_ids": IDS[:, :length], "attention_mask": torch.ones(N, length, dtype=torch.bool)}
    data = Rows(x, NEXT[:, :length].clamp(min=0))
    message = refused(Reader(), data, "x['attention_mask'] of shape (", collate=mask_time_first, loss=cross_entropy_sum)
    (program,) = lines_of(message)
    expected = mean_of_tokens(Reader()(x), NEXT[:, :length].clamp(min=0)).item()
    assert run_lines(program, Reader(), data, collate=mask_time_first)["loss"] == pytest.approx(expected, rel=1e-12)


def test_a_leaf_of_another_length_is_named():
    def short(examples):
        x, y = stack(examples)
        return {"a": x["a"], "prompt": x["prompt"][:1]}, y

    def bare(examples):
        x, y = stack(examples)
        return {"a": x["a"], "length": torch.tensor(6)}, y

    def targets(examples):
        x, y = stack(examples)
        return x["a"], {"label": y, "anchors": torch.zeros(9, 4)}

    data = Rows({"a": X, "prompt": REAL}, LABELS)
    model = Model(lambda model, x: model.one(x["a"] if isinstance(x, dict) else x))
    for collate, words in [
        (short, "2 examples came as x['prompt'] of shape (1, 3): the first axis of every tensor"),
        (bare, "2 examples came as x['length'] of shape ()"),
        (targets, "2 examples came as y['anchors'] of shape (9, 4)"),
    ]:
        refused(model, data, words, collate=collate)
        if collate is not targets:
            with pytest.raises(ValueError, match="examples came as"):
                evaluate(model, data, collate=collate)


def test_a_leaf_that_loses_an_example_later_is_named_then():
    def collate(examples):
        x, y = stack(examples)
        return {"a": x["a"], "b": x["b"][: max(2, len(y) - 1)]}, y

    data = Rows({"a": X, "b": X}, LABELS)
    with pytest.raises(ValueError, match=r"12 examples came as x\['b'\] of shape \(11, 4\)"):
        train(Model(lambda model, x: model.one(x["a"])), data, None, Config(steps=1, **SGD), collate=collate)


class TimeFirst(TensorDataset):
    """Hands out batches of its own."""

    pure = True

    def batch(self, indices):
        x, y = self[indices]
        return x.transpose(0, 1), y.T


def test_a_dataset_that_batches_time_first():
    refused(Reader(), TimeFirst(IDS[..., None], NEXT), "2 examples came as x (6, 2, 1) and y (6, 2)")
