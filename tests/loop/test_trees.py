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
from helpers.advice import followed, programs
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
from utils.loop.metrics import cross_entropy_sum

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
        config["out_of_memory"] = "halve"
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


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_among_others_trains_in_whole_batches(tmp_path):
    """Rows of several lengths without padding, which torch cannot cut."""
    rows = [({"row": X[i : i + 1].expand(1 + i % 3, 4), "scale": X[i, 0]}, i % 3) for i in range(N)]

    def nested(examples):
        x, y = zip(*examples, strict=True)
        lengths = torch.nested.nested_tensor([part["row"] for part in x], layout=torch.jagged)
        return {"row": lengths, "scale": torch.stack([part["scale"] for part in x])}, torch.tensor(y)

    def means(model, x):
        return model.one(torch.stack([row.mean(0) for row in x["row"].unbind()])) * x["scale"][:, None]

    expected, _ = by_hand(Model(lambda model, x: model.one(x) * x[:, :1]), F.cross_entropy, X, LABELS)
    config = Config(steps=1, **SGD | {"device": "cpu"})
    result = train(Model(means), rows, rows, config, collate=nested, run=tmp_path)
    assert result.history[0]["loss"] == pytest.approx(expected)


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
@pytest.mark.parametrize("name", ["pixels and tokens, nested", "an object with logits", "outputs in a dataclass"])
def test_two_ranks_train_a_tree_as_one_does(name, parallel):
    """Batches of 11, so that the last one is of one example, and a rank takes part with padding."""
    ranks_train_as_one(2, name, parallel, 11)


def test_padding_in_a_tree_counts_nowhere():
    """On three ranks a batch of two: the third has an example that is the first one's."""
    ranks_train_as_one(3, "targets in a pair", "ddp", 10)


def ranks_train_as_one(world: int, name: str, parallel: str, batch_size: int) -> None:
    alone = trained_on_a_rank(str(TESTS), name, parallel, batch_size)
    for ended in on_ranks(world, trained_on_a_rank, str(TESTS), name, parallel, batch_size, group=False):
        torch.testing.assert_close(ended.result[0], alone[0], rtol=0, atol=1e-12)
        assert ended.result[1:] == pytest.approx(alone[1:], rel=1e-10)


# ---- the batch comes first -------------------------------------------------------------------------------------------


def refused(model, data, *words: str, **options) -> str:
    """Refused before a step, naming these; the whole message."""
    given = {name: options.pop(name) for name in ("loss", "collate") if name in options}
    before = weights(model)
    with pytest.raises(ValueError) as error:
        train(model, data, options.pop("val_data", None), Config(steps=1, **SGD | options), **given)
    assert all(word in str(error.value) for word in words), error.value
    assert torch.equal(weights(model), before)
    return str(error.value)


def first_record(message: str, model, data, *names: str, program: int = 0, wrapped: str | None = None, **given) -> dict:
    """The record of the first step of the run that was refused, once these arguments are changed as the message says."""
    call = {"model": model, "train_data": data, "config": Config(steps=1, **SGD), **given}
    return train(**followed(message, call, *names, program=program, model=wrapped)).history[0]


def mask_time_first(examples):
    x, y = stack(examples)
    return {"input_ids": x["input_ids"], "attention_mask": x["attention_mask"].T}, y


@pytest.mark.parametrize("length", [2, 6])
def test_one_leaf_that_puts_time_first_is_named_and_the_lines_turn_it(length):
    """Two places are not two examples either."""
    x = {"input_ids": IDS[:, :length], "attention_mask": torch.ones(N, length, dtype=torch.bool)}
    data = Rows(x, NEXT[:, :length].clamp(min=0))
    words = f"{'1 example' if length == 2 else '2 examples'} came as x['attention_mask'] of shape ("
    message = refused(Reader(), data, words, collate=mask_time_first, loss=cross_entropy_sum)
    expected = mean_of_tokens(Reader()(x), NEXT[:, :length].clamp(min=0)).item()
    assert first_record(message, Reader(), data, "collate", collate=mask_time_first)["loss"] == pytest.approx(
        expected, rel=1e-12
    )


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


def test_a_tuple_that_puts_time_first():
    def collate(examples):
        x, y = stack(examples)
        return (x[0], x[1].transpose(0, 1)), y

    words = "x[1] of shape (3, 2, 2)", "turn it in collate, and have the model turn it back"
    data = Rows((X, OTHER.transpose(1, 2)), LABELS)
    assert not programs(refused(Both(one_plus_two), data, *words, collate=collate))


class TimeFirst(TensorDataset):
    """Hands out batches of its own."""

    pure = True

    def batch(self, indices):
        x, y = self[indices]
        return x.transpose(0, 1), y.T


def test_a_dataset_that_batches_time_first():
    refused(Reader(), TimeFirst(IDS[..., None], NEXT), "2 examples came as x (6, 2, 1) and y (6, 2)")


# ---- examples of other forms, and the lines that make pairs of them --------------------------------------------------


class Dicts(Dataset):
    """Rows of one dict each, as tables hand them out."""

    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return N

    def __getitem__(self, i):
        return {name: column[i] for name, column in self.columns.items()}


LISTS = {"input_ids": IDS.tolist(), "attention_mask": MASK.int().tolist(), "labels": NEXT.tolist()}


class Encodings(Dicts):
    """Rows that are no plain dicts, as tokenizers of Hugging Face return them."""

    def __getitem__(self, i):
        return UserDict(super().__getitem__(i))


TABLE = {"input_ids": IDS, "attention_mask": MASK, "labels": NEXT}
NAMES = [*"abcdefghijkl"]


@pytest.mark.parametrize(
    "rows",
    [Dicts(**TABLE), Dicts(**LISTS), Encodings(**TABLE), Encodings(**LISTS), Dicts(**TABLE, text=NAMES)],
    ids=["tensors", "lists", "encodings", "encodings of lists", "a column of strings"],
)
def test_rows_of_dicts_train_with_their_masks(rows):
    """Of tensors, and of lists, of which torch would stack the first entries, the second ones, and so on."""
    words = "Dict with input_ids, attention_mask, labels" if isinstance(rows, Encodings) else "a dict with input_ids"
    message = refused(Reader(), rows, words)
    x = {"input_ids": IDS, "attention_mask": MASK}
    expected, there = by_hand(Reader(), mean_of_tokens, x, NEXT)
    model = Reader()
    assert first_record(message, model, rows, "collate")["loss"] == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(weights(model), there, rtol=0, atol=1e-14)


def test_rows_of_dicts_without_a_name_for_the_target():
    """Nothing is left out: x and y are both the row."""
    rows, model = Dicts(a=X, b=REAL), Model(lambda model, x: model.one(x["a"]))
    loss = lambda outputs, y: ((outputs - y["b"]).square().sum(), y["b"].numel())  # noqa: E731
    message = refused(model, rows, "a dict with a, b", loss=loss)
    assert first_record(message, model, rows, "collate", loss=loss)["loss"] > 0
    with pytest.raises(ValueError, match="a dict with a, b"):
        evaluate(model, rows)
    alone = Dicts(pixels=X, label=LABELS)
    message = refused(model, alone, "a dict with pixels, label")
    assert first_record(message, Model(lambda model, x: model.one(x)), alone, "collate")["loss"] > 0


@pytest.mark.parametrize("alone", [TensorDataset(X), list(X)], ids=["a tuple of one", "a tensor"])
def test_examples_of_one_are_their_own_targets(alone):
    """Of an autoencoder."""
    build = lambda: nn.Linear(X.shape[1], X.shape[1]).double()  # noqa: E731
    torch.manual_seed(1)
    model = build()
    expected, there = by_hand(copy.deepcopy(model), F.mse_loss, X, X)
    message = refused(copy.deepcopy(model), alone, "Say what of them is x", loss=nn.MSELoss())
    assert first_record(message, model, alone, "collate", loss=nn.MSELoss())["loss"] == pytest.approx(
        expected, rel=1e-12
    )
    torch.testing.assert_close(weights(model), there, rtol=0, atol=1e-14)


def test_examples_of_three():
    """The last is y; x is all the others."""
    data = TensorDataset(X, OTHER, LABELS)
    message = refused(Both(one_plus_two), data, "a list of Tensor, Tensor, Tensor")
    expected, _ = by_hand(Both(one_plus_two), F.cross_entropy, (X, OTHER), LABELS)
    assert first_record(message, Both(one_plus_two), data, "collate")["loss"] == pytest.approx(expected, rel=1e-12)


def test_lists_of_numbers():
    """They come as one tensor for each place. A model may take that; one that does not is given tensors by the lines."""
    data = [(row, label) for row, label in zip(X.tolist(), LABELS.tolist(), strict=True)]
    model = nn.Linear(4, 3)
    message = refused(model, data, "x[3] (2,) torch.float64", "Lists of numbers came as lists of tensors")
    assert first_record(message, model, data, "collate")["loss"] > 0
    taken = Model(lambda model, x: model.one(torch.stack(x, 1)))
    expected, _ = by_hand(taken, F.cross_entropy, list(X.T), LABELS)
    assert train(taken, data, None, Config(steps=1, **SGD)).history[0]["loss"] == pytest.approx(expected, rel=1e-6)


class ByName(Reader):
    """Called as models of Hugging Face are."""

    def forward(self, input_ids, attention_mask):
        return super().forward({"input_ids": input_ids, "attention_mask": attention_mask})


class OneByOne(Both):
    def forward(self, first, second):
        return one_plus_two(self, (first, second))


def test_a_model_that_takes_the_parts_of_x():
    for model, x, y in [
        (ByName(), {"input_ids": IDS, "attention_mask": MASK}, NEXT),
        (OneByOne(None), (X, OTHER), LABELS),
    ]:
        message = refused(model, Rows(x, y), "It is called with x as it is")
        assert first_record(message, model, Rows(x, y), wrapped="Unpacked(model)")["loss"] > 0


# ---- leaves that are no tensors --------------------------------------------------------------------------------------


def test_what_is_no_tensor_is_refused_by_its_place():
    model = Model(lambda model, x: model.one(x["a"]))

    def with_part(part):
        return lambda examples: ({"a": stack(examples)[0], "b": part}, stack(examples)[1])

    for part, words in [
        ("a title", "x['b'] is 'a title', of type str: leave it out"),
        (7, "x['b'] is 7, of type int: make it a tensor"),
        (["a", "b"], "x['b'][0] is 'a', of type str: leave it out"),
        (UserDict(c=X[:2]), "of type UserDict"),
        (np.zeros(2), "of type ndarray"),
        (Unknown(X[:2], X[:2]), "torch.export.register_dataclass(Unknown)"),
        (SimpleNamespace(c=1), "of type SimpleNamespace"),
    ]:
        refused(model, TensorDataset(X, LABELS), words, collate=with_part(part))
        with pytest.raises(ValueError, match="an example must be a pair"):
            evaluate(model, TensorDataset(X, LABELS), collate=with_part(part), loss=of_tokens)
    refused(model, Rows({"a": X, "text": np.array([*"abcdefghijkl"])}, LABELS), "of type str_: leave it out")
    words = "dict(x['b'])"
    refused(model, TensorDataset(X, LABELS), words, collate=with_part(UserDict(c=X[:2])))


def test_none_stays_none():
    for data, collate in [
        (TensorDataset(X, LABELS), lambda examples: ({"a": stack(examples)[0], "b": None}, stack(examples)[1])),
        ([({"a": x, "b": None}, y) for x, y in zip(X, LABELS, strict=True)], None),
    ]:
        model = Model(lambda model, x: model.one(x["a"]) if x["b"] is None else 1 / 0)
        config = Config(steps=2, **SGD | {"accumulation": 3})
        expected, _ = by_hand(Model(lambda model, x: model.one(x)), F.cross_entropy, X, LABELS)
        assert train(model, data, data, config, collate=collate).history[0]["loss"] == pytest.approx(
            expected, rel=1e-12
        )


def test_a_part_without_a_tensor():
    for pair, words in [
        ((X, None), "y holds no tensor"),
        (({}, X), "x holds no tensor"),
        ((X, []), "y holds no tensor"),
    ]:
        refused(Model(None), TensorDataset(X, LABELS), words, collate=lambda examples, pair=pair: pair)


def test_examples_that_do_not_stack():
    rows = [({"a": x, "b": x[: 1 + i % 3]}, i % 3) for i, x in enumerate(X)]
    refused(Model(None), rows, "examples 0, 1 as one batch", "of one form, shape and type", "pad them in a collate")
    odd = [({"a": x} if i else {"b": x}, i % 3) for i, x in enumerate(X)]
    refused(Model(None), odd, "examples 0, 1 as one batch", "of one form, shape and type")
    classes = [(Unknown(x, x), 0) for x in X]
    message = refused(Model(None), classes, "examples 0, 1 as one batch")
    assert message.splitlines()[-1] == "    torch.export.register_dataclass(Unknown)"


def test_rows_whose_keys_come_in_another_order_stack():
    rows = [({"a": x, "b": 0 * x} if i % 2 else {"b": 0 * x, "a": x}, i % 3) for i, x in enumerate(X)]
    expected, _ = by_hand(Model(lambda model, x: model.one(x)), F.cross_entropy, X, LABELS)
    result = train(Model(lambda model, x: model.one(x["a"])), rows, None, Config(steps=1, **SGD))
    assert result.history[0]["loss"] == pytest.approx(expected, rel=1e-12)


def test_stacking_keeps_the_form_and_torchs_rules_for_each_leaf():
    examples = [((X[i], [i, 2.5]), {"b": np.float32(i), "c": Pair(i, None)}) for i in range(2)]
    x, y = stack(examples)
    assert type(x) is tuple and type(y["c"]) is Pair and y["c"].second is None
    assert torch.equal(x[1][0], default_collate([0, 1])) and x[1][1].dtype == default_collate([2.5, 2.5]).dtype
    assert y["b"].dtype == torch.float32 and torch.equal(x[0], X[:2])


# ---- outputs and losses ----------------------------------------------------------------------------------------------


def test_a_loss_of_one_tensor_and_a_model_that_returns_more():
    for returned, part in [
        (lambda logits: {"logits": logits, "hidden": logits}, '["logits"]'),
        (lambda logits: {"hidden": None, "logits": logits}, '["logits"]'),
        (lambda logits: (logits, logits), "[0]"),
        (lambda logits: Record(logits=logits), ".logits"),
    ]:
        model = Reader(returned)
        x = {"input_ids": IDS, "attention_mask": MASK}
        words = "this loss takes one tensor: it must return one tensor"
        message = refused(model, Rows(x, NEXT), words, loss=cross_entropy_sum)
        assert part in message.replace("'", '"')
        names = {"torch": torch}
        exec(textwrap.dedent("\n".join(line for line in message.splitlines() if line.startswith("    "))), names)
        expected, _ = by_hand(Reader(), mean_of_tokens, x, NEXT)
        wrapped = names["Wrapped"](model)
        result = train(wrapped, Rows(x, NEXT), None, Config(steps=1, **SGD), loss=cross_entropy_sum)
        assert result.history[0]["loss"] == pytest.approx(expected, rel=1e-12)
        with pytest.raises(ValueError, match="this loss takes one tensor"):
            evaluate(model, Rows(x, NEXT))


def test_outputs_that_torch_knows_for_no_tree():
    model = Model(lambda model, x: Unknown(model.one(x), x))
    loss = lambda outputs, y: (F.cross_entropy(outputs.first, y, reduction="sum"), len(y))  # noqa: E731
    message = refused(model, TensorDataset(X, LABELS), "returns a Unknown", loss=loss)
    assert message.splitlines()[-1] == "    torch.export.register_dataclass(Unknown)"
    refused(
        Model(lambda model, x: SimpleNamespace(first=model.one(x))), TensorDataset(X, LABELS), "in a dict", loss=loss
    )
    refused(Model(lambda model, x: {}), TensorDataset(X, LABELS), "returns a dict", loss=loss)


def test_torchs_losses_take_one_tensor_of_targets():
    data = Rows(X, {"label": LABELS, "box": REAL})
    for loss in (nn.CrossEntropyLoss(), nn.MSELoss(), cross_entropy_sum):
        refused(Model(lambda model, x: model.one(x)), data, "one tensor of targets, and y is a dict", loss=loss)
        with pytest.raises(ValueError, match="one tensor of targets, and y is a dict"):
            evaluate(Model(lambda model, x: model.one(x)), data, loss=loss)


def test_a_number_of_trees_says_what_to_divide_by():
    for model, y, sum_of, count in [
        (Model(of_two_heads), {"label": LABELS, "box": REAL}, lambda o, t: of_both(o, t)[0], N),
        (Model(of_two_heads), LABELS, lambda o, t: cross_entropy_sum(o[0], t) + o[1].square().sum(), N),
    ]:
        message = refused(model, Rows(X, y), "the loss does not say what to divide by", loss=sum_of)
        expected = sum_of(copy.deepcopy(model)(X), y).item() / count
        assert first_record(message, copy.deepcopy(model), Rows(X, y), "loss", loss=sum_of)["loss"] == pytest.approx(
            expected
        )
        mean = lambda o, t, sum_of=sum_of: sum_of(o, t) / len(o[0])  # noqa: E731
        message = refused(model, Rows(X, y), "the loss does not say what to divide by", loss=mean)
        assert first_record(message, copy.deepcopy(model), Rows(X, y), "loss", loss=mean, program=1)[
            "loss"
        ] == pytest.approx(expected)


def test_a_mean_of_trees_and_a_count_is_no_sum():
    mean = lambda outputs, y: (of_both(outputs, y)[0] / len(y["label"]), len(y["label"]))  # noqa: E731
    data = Rows(X, {"label": LABELS, "box": REAL})
    message = refused(Model(of_two_heads), data, "the loss is a mean", loss=mean)
    expected = of_both(Model(of_two_heads)(X), {"label": LABELS, "box": REAL})[0].item() / N
    assert first_record(message, Model(of_two_heads), data, "loss", loss=mean)["loss"] == pytest.approx(expected)


def contrast(outputs, targets):
    first, second = outputs
    return F.cross_entropy(first @ second.T, torch.arange(len(first)), reduction="sum"), len(first)


def batch_mean(model, x):
    """A balance over the batch, beside the logits."""
    logits = model.one(x)
    return logits, logits.softmax(-1).mean(0).square().sum()


def two_experts(model, x):
    """The load (2,) of two experts over the batch, which is as long as two examples."""
    logits = model.one(x)
    return logits, logits[:, :2].softmax(-1).mean(0)


def with_loads(outputs, targets):
    logits, loads = outputs
    return cross_entropy_sum(logits, targets) + loads.square().sum(), len(targets)


def with_balance(outputs, targets):
    logits, balance = outputs
    return cross_entropy_sum(logits, targets) + len(targets) * balance, len(targets)


def starting_at_zero():
    model = Model(batch_mean)
    nn.init.zeros_(model.one.weight), nn.init.zeros_(model.one.bias)
    return model


def of_its_own(model, x):
    """The loss is computed in the model, which has got the labels."""
    return Record(loss=F.cross_entropy(model.one(x["x"]), x["labels"]), logits=model.one(x["x"]))


@pytest.mark.parametrize(
    ("build", "x", "loss"),
    [
        (lambda: Model(of_two_heads), X, contrast),
        (lambda: Model(batch_mean), X, with_balance),
        (starting_at_zero, X, with_balance),
        (lambda: Model(two_experts), X, with_loads),
        (lambda: Model(of_its_own), {"x": X, "labels": LABELS}, lambda outputs, y: (outputs["loss"] * len(y), len(y))),
    ],
    ids=[
        "contrastive",
        "balance",
        "balance of a router that begins at zero",
        "loads of two experts",
        "the model's own loss",
    ],
)
def test_outputs_that_are_one_for_the_whole_batch_train_in_whole_batches(build, x, loss):
    def mean(outputs, y):
        total, count = loss(outputs, y)
        return total / count

    data = Rows(x, LABELS)
    expected, there = by_hand(build(), mean, x, LABELS)
    model = build()
    assert train(model, data, None, Config(steps=1, **SGD), loss=loss).history[0]["loss"] == pytest.approx(expected)
    torch.testing.assert_close(weights(model), there, rtol=0, atol=1e-14)
    refused(build(), data, "accumulation is 2, but the loss of a batch is not the sum", loss=loss, accumulation=2)


def test_a_mean_that_the_model_has_taken_is_no_sum():
    data = Rows({"x": X, "labels": LABELS}, LABELS)
    loss = lambda outputs, y: (outputs["loss"], len(y))  # noqa: E731
    message = refused(Model(of_its_own), data, "the loss is a mean", loss=loss)
    expected = F.cross_entropy(Model(of_its_own).one(X), LABELS).item()
    assert first_record(message, Model(of_its_own), data, "loss", loss=loss)["loss"] == pytest.approx(
        expected, rel=1e-12
    )
    with pytest.raises(ValueError, match="the loss is a mean"):
        evaluate(Model(of_its_own), data, loss=loss)


def test_what_a_loss_does_not_read_keeps_no_batch_whole():
    """A balance that is returned, but not in the loss."""
    loss = lambda outputs, y: (cross_entropy_sum(outputs[0], y), len(y))  # noqa: E731
    expected, _ = by_hand(Model(lambda model, x: model.one(x)), F.cross_entropy, X, LABELS)
    config = Config(steps=1, **SGD | {"accumulation": 4})
    record = train(Model(batch_mean), TensorDataset(X, LABELS), None, config, loss=loss).history[0]
    assert record["loss"] == pytest.approx(expected, rel=1e-12)


def test_outputs_time_first_are_right_in_whole_batches():
    """The loss turns them itself; in parts they are refused, since nobody has said so."""
    model = Reader(lambda logits: logits.transpose(0, 1))
    x = {"input_ids": IDS, "attention_mask": MASK}
    loss = lambda outputs, y: (cross_entropy_sum(outputs.transpose(0, 1), y), y.ne(IGNORE).sum())  # noqa: E731
    expected, _ = by_hand(Reader(), mean_of_tokens, x, NEXT)
    record = train(copy.deepcopy(model), Rows(x, NEXT), None, Config(steps=1, **SGD), loss=loss).history[0]
    assert record["loss"] == pytest.approx(expected, rel=1e-12)
    assert evaluate(model, Rows(x, NEXT), loss=loss).loss == pytest.approx(expected, rel=1e-12)
    refused(model, Rows(x, NEXT), "accumulation is 2", loss=loss, accumulation=2)


# ---- a loss that reads the model -------------------------------------------------------------------------------------


class WithAux(Model):
    """Leaves a cost of each example on itself, or, if asked to, returns it."""

    def __init__(self, returns: bool = False):
        super().__init__(None)
        self.returns = returns

    def forward(self, x):
        logits = self.one(x)
        self.aux = logits.square().mean(1)
        return (logits, self.aux) if self.returns else logits


def reading(model, what):
    """Losses that look at the model besides its outputs."""
    weight = model.one.weight
    term = {
        "what forward leaves": lambda outputs, targets: model.aux.sum(),
        "a weight": lambda outputs, targets: len(targets) * model.one.weight.square().sum(),
        "a weight in a closure": lambda outputs, targets: len(targets) * weight.square().sum(),
    }[what]
    return lambda outputs, targets: (cross_entropy_sum(outputs, targets) + term(outputs, targets), len(targets))


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("what", ["what forward leaves", "a weight", "a weight in a closure"])
def test_the_average_is_not_validated_by_what_is_on_the_model(what, zero):
    """The loss would see the model that trains, and the outputs be the average's."""
    data, model = TensorDataset(X, LABELS), WithAux()
    if zero:
        nn.init.zeros_(model.one.weight), nn.init.zeros_(model.one.bias)
    loss, words = reading(model, what), "with ema that is the average of its weights"
    refused(model, data, words, val_data=data, loss=loss, ema=0.9)
    train(model, data, None, Config(steps=2, **SGD, ema=0.9), loss=loss)  # nothing is validated
    train(model, data, data, Config(steps=2, **SGD), loss=loss)


def trained_with_aux(tests: str, returns: bool) -> str:
    """What a rank with shards says to a loss that reads the model, or its first loss where the model returns it."""
    sys.path.insert(0, tests)
    here = importlib.import_module("loop.test_trees")
    model = here.WithAux(returns)
    model.aux = here.torch.zeros(1)  # what a loss reads that looks before the first pass
    loss = here.of_aux if returns else here.reading(model, "what forward leaves")
    data = here.TensorDataset(here.X, here.LABELS)
    config = here.Config(steps=1, parallel="fsdp", device="cpu", **here.SGD)
    try:
        return repr(round(here.train(model, data, None, config, loss=loss).history[0]["loss"], 10))
    except ValueError as error:
        return str(error)


def test_shards_are_of_a_copy_on_which_a_loss_would_look_in_vain():
    for ended in on_ranks(2, trained_with_aux, str(TESTS), False, group=False):
        assert "with fsdp a copy of it is trained: return what the loss reads among the outputs" in ended.result
    alone = trained_with_aux(str(TESTS), True)
    assert [ended.result for ended in on_ranks(2, trained_with_aux, str(TESTS), True, group=False)] == [alone] * 2


def test_returned_among_the_outputs_it_is_validated_with_the_average():
    data, model = TensorDataset(X, LABELS), WithAux(returns=True)
    result = train(model, data, data, Config(steps=4, **SGD, ema=0.9), loss=of_aux)
    with torch.no_grad():
        logits, aux = result.ema(X.to(DEVICE))
        expected = F.cross_entropy(logits, LABELS.to(DEVICE)) + aux.mean()
        raw, raw_aux = model(X.to(DEVICE))
    assert result.history[-1]["val_loss"] == pytest.approx(expected.item(), rel=1e-12)
    assert result.history[-1]["val_loss"] != pytest.approx(
        (F.cross_entropy(raw, LABELS) + raw_aux.mean()).item(), rel=1e-3
    )


# ---- where the classes are -------------------------------------------------------------------------------------------

SERIES = torch.randn(N, 4, 3, generator=GENERATOR, dtype=torch.float64)
STEPS = torch.randint(3, (N, 3), generator=GENERATOR)


def along_axis_1(model, x):
    """(B, 4, T) → (B, 3, T)."""
    return model.one(x.movedim(1, -1)).movedim(-1, 1)


def test_evaluate_asks_which_axis_holds_the_classes():
    """As many classes as places: the default loss is refused as in train, and both losses that it names are right."""
    model, data = Model(along_axis_1), TensorDataset(SERIES, STEPS)
    with pytest.raises(ValueError, match="the classes may be axis 1 of the outputs or the last") as error:
        evaluate(model, data, batch_size=5)
    logits = model(SERIES)
    for number, axis in enumerate((1, -1)):
        call = followed(str(error.value), {"train_data": data}, "loss", program=0, number=number)
        scores = evaluate(model, data, loss=call["loss"])
        assert scores.loss == pytest.approx(F.cross_entropy(logits.movedim(axis, 1), STEPS).item(), rel=1e-12)
        assert scores.accuracy == logits.argmax(axis).eq(STEPS).double().mean().item()


def test_a_batch_whose_length_is_the_number_of_classes_by_chance_stops_no_run():
    """Padded texts: the trial has seen that the classes are last, and a later batch is as long as there are classes."""

    def padded(examples):
        longest = max(int(y) for _, y in examples)
        x = torch.stack([x.expand(longest, 4) for x, _ in examples])
        return x, torch.stack([y.clamp(max=2).expand(longest) for _, y in examples])

    lengths = torch.tensor([2, 2] + [3] * (N - 2))
    model = Model(lambda model, x: model.one(x))
    data = TensorDataset(X, lengths)
    result = train(model, data, data, Config(steps=2, **SGD), collate=padded)
    assert result.history[-1]["val_loss"] > 0


@pytest.mark.parametrize("places", [2, 3])
def test_evaluate_refuses_classes_on_another_axis_than_torchs(places):
    """(B, T, K) for torch's loss, which wants (B, K, T): refused with lines, unless T is K, where torch says axis 1."""
    model = Model(lambda model, x: model.one(x.movedim(1, -1)))
    data = TensorDataset(SERIES[..., :places], STEPS[:, :places])
    logits, loss = model(SERIES[..., :places]), nn.CrossEntropyLoss()
    if places == 3:
        assert evaluate(model, data, loss=loss).loss == pytest.approx(loss(logits, STEPS).item(), rel=1e-12)
        return
    with pytest.raises(ValueError, match="the classes, as axis 1") as error:
        evaluate(model, data, loss=loss)
    call = followed(str(error.value), {"train_data": data, "loss": loss}, "loss", program=0)
    scores = evaluate(model, data, loss=call["loss"])
    assert scores.loss == pytest.approx(loss(logits.movedim(-1, 1), STEPS[:, :2]).item(), rel=1e-12)


def test_evaluate_refuses_labels_that_are_no_classes():
    for y in (REAL[:, 0], LABELS.int()):
        with pytest.raises(ValueError, match=r"cross-entropy needs class indices .*\(data: y"):
            evaluate(nn.Linear(4, 3).double(), TensorDataset(X, y))
    with pytest.raises(ValueError, match="outputs and targets differ in shape"):
        evaluate(nn.Linear(4, 1).double(), TensorDataset(X, REAL[:, 0]), loss=nn.MSELoss())
