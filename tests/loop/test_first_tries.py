"""What people try first with a loop that they have just copied: it works, or is refused with the lines that do it."""

import textwrap
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate

from utils.data import IGNORE
from utils.device import pick_device
from utils.loop import Config, evaluate, train
from utils.loop.run_folder import best_weights
from utils.models import GPT

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(60, 2, generator=GENERATOR)
Y = (X.sum(1) > 0).long()
REAL = X @ torch.tensor([[1.0], [-2.0]])  # (60, 1), for regression
CONFIG = Config(steps=40, batch_size=16, lr=0.05, device="cpu")


def net(outputs: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, outputs))


def learns(model=None, data=None, **options) -> None:
    """It trains: the mean loss over the data falls by a quarter at least, as `evaluate` counts it."""
    model, data, config = model or net(), data or TensorDataset(X, Y), options.pop("config", CONFIG)
    counted = {name: options[name] for name in ("loss", "collate") if name in options}
    before = evaluate(model, data, **counted).loss
    train(model, data, None, config, **options)
    assert evaluate(model, data, **counted).loss < 0.75 * before


def refused(model, data, *words: str, **options) -> list[str]:
    """Refused before a forward pass that trains, naming these; the lines of code that the message shows."""
    trained = []
    hook = model.register_forward_hook(lambda *_: trained.append(torch.is_grad_enabled()))
    try:
        with pytest.raises(ValueError) as error:
            train(model, data, options.pop("val_data", None), options.pop("config", CONFIG), **options)
    finally:
        hook.remove()
    assert not any(trained)
    assert all(word in str(error.value) for word in words), error.value
    return [line for line in str(error.value).splitlines() if line.startswith("    ")]


def run_lines(lines: list[str], **names) -> dict:
    """Run the lines of a message as they stand; what they have defined."""
    names |= {"torch": torch, "nn": nn, "Config": Config, "train": train, "config": CONFIG}
    exec(textwrap.dedent("\n".join(lines)), names)
    return names


class Dicts(Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return {"pixels": X[i], "labels": Y[i]}


class Texts(Dataset):
    """Token sequences of 3 to 7 and the next token for each."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        tokens = torch.arange(i, i + 4 + i % 5) % 6
        return tokens[:-1], tokens[1:]


def padded(examples):
    x, y = zip(*examples, strict=True)
    return pad_sequence(x, batch_first=True), pad_sequence(y, batch_first=True, padding_value=IGNORE)


class Heads(nn.Module):
    """Returns an object, as models of Hugging Face do."""

    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x):
        return SimpleNamespace(loss=None, logits=self.net(x))


class Temperature(nn.Module):
    """Cross-entropy at a temperature that it learns."""

    def __init__(self):
        super().__init__()
        self.log = nn.Parameter(torch.zeros(()))

    def forward(self, outputs, targets):
        return F.cross_entropy(outputs / self.log.exp(), targets, reduction="sum")


# ---- what works ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        TensorDataset(X, Y),
        Subset(TensorDataset(X, Y), range(0, 60, 2)),
        list(zip(X, Y, strict=True)),
        list(zip(X.numpy(), Y.tolist(), strict=True)),
        list(zip(X.numpy(), np.asarray(Y), strict=True)),
    ],
    ids=["tensors", "subset", "pairs", "NumPy and numbers", "NumPy"],
)
def test_data_of_any_kind(data):
    learns(data=data)


@pytest.mark.parametrize(
    ("model", "targets", "loss"),
    [
        (net(1), REAL, lambda outputs, targets: ((outputs - targets) ** 2).sum()),
        (nn.Sequential(net(1), nn.Flatten(0)), REAL[:, 0], nn.MSELoss(reduction="sum")),
        (net(1), REAL[:, 0], lambda outputs, targets: ((outputs.squeeze(-1) - targets) ** 2).sum()),
        (nn.Sequential(net(), nn.Linear(2, 2)), X, nn.MSELoss(reduction="sum")),
        (net(3), torch.stack([X[:, 0] > 0, X[:, 1] > 0, Y > 0], 1).float(), nn.BCEWithLogitsLoss(reduction="sum")),
        (net(), Y, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]), reduction="sum")),
        (net(), Y, nn.CrossEntropyLoss(label_smoothing=0.05, reduction="sum")),
    ],
    ids=["regression", "flat", "squeezed in the loss", "autoencoder", "labels", "class weights", "label smoothing"],
)
def test_losses_that_are_sums(model, targets, loss):
    learns(model, TensorDataset(X, targets), loss=loss)


def test_dicts_by_a_collate_function():
    def collate(examples):
        batch = default_collate(examples)
        return batch["pixels"], batch["labels"]

    learns(data=Dicts(), collate=collate)
    result = train(net(), Dicts(), Dicts(), CONFIG, collate=collate)
    assert result.history[-1]["val_accuracy"] > 0.8


@pytest.mark.parametrize("workers", [0, 1])
def test_texts_of_several_lengths(workers):
    torch.manual_seed(0)
    learns(GPT(6, context=8, width=16, heads=2), Texts(), collate=padded, config=Config(steps=40, workers=workers))


def test_an_optimizer_with_groups_of_its_own():
    """A rate for each group, scaled by one schedule; weight decay and rule are the optimizer's."""
    rates = []

    def groups(model):
        first, last = model[0].parameters(), model[2].parameters()
        made = torch.optim.RMSprop([{"params": first, "lr": 1e-3}, {"params": last, "lr": 1e-2}])
        made.register_step_post_hook(lambda *_: rates.append([group["lr"] for group in made.param_groups]))
        return made

    config = Config(steps=8, batch_size=16, warmup=0.5, schedule="linear", log_every=1, device="cpu")
    result = train(net(), TensorDataset(X, Y), None, config, optimizer=groups)
    factors = [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25]
    assert rates == [pytest.approx([1e-3 * factor, 1e-2 * factor]) for factor in factors]
    assert [record["lr"] for record in result.history] == pytest.approx([1e-3 * factor for factor in factors])


def test_a_look_at_the_model_while_it_trains():
    """Samples, say. (That it changes nothing: test_train.py.)"""
    seen = []
    train(net(), TensorDataset(X, Y), None, Config(steps=9, log_every=3), on_step=lambda record, model: seen.append(
        (record["step"], model(X[:1].to(pick_device())).argmax().item(), model.training)))  # fmt: skip
    assert [step for step, *_ in seen] == [3, 6, 9] and not any(training for *_, training in seen)


def test_the_best_weights_go_into_the_plain_model(tmp_path):
    train(net(), TensorDataset(X, Y), TensorDataset(X, Y), CONFIG, run=tmp_path)
    model = net()
    model.load_state_dict(best_weights(tmp_path))
    assert evaluate(model, TensorDataset(X, Y)).accuracy > 0.9


def test_a_run_from_given_weights(tmp_path):
    """train goes on from what the model holds: nothing needs to be said to it."""
    train(net(), TensorDataset(X, Y), TensorDataset(X, Y), CONFIG, run=tmp_path / "first")
    model = net()
    model.load_state_dict(best_weights(tmp_path / "first"))
    first = train(model, TensorDataset(X, Y), None, Config(steps=1, log_every=1), run=tmp_path / "second").history[0]
    assert first["loss"] < 0.3 < train(net(), TensorDataset(X, Y), None, Config(steps=1)).history[0]["loss"]


def test_a_finished_run_gets_more_steps(tmp_path):
    """At a constant rate it ends as if it had been so long from the start; another schedule would have been another run."""
    longer, straight = net(), net()
    train(net(), TensorDataset(X, Y), None, Config(steps=10), run=tmp_path)
    train(longer, TensorDataset(X, Y), None, Config(steps=25), run=tmp_path)
    train(straight, TensorDataset(X, Y), None, Config(steps=25))
    assert all(map(torch.equal, longer.state_dict().values(), straight.state_dict().values()))
    with pytest.raises(ValueError, match="steps: 25 → 20"):
        train(net(), TensorDataset(X, Y), None, Config(steps=20), run=tmp_path)
    train(net(), TensorDataset(X, Y), None, Config(steps=10, schedule="cosine"), run=tmp_path / "cosine")
    with pytest.raises(ValueError, match="steps: 10 → 25"):
        train(net(), TensorDataset(X, Y), None, Config(steps=25, schedule="cosine"), run=tmp_path / "cosine")


# ---- what is refused, with the lines that do it -----------------------------------------------------------------------


def test_a_dataloader():
    loader = DataLoader(TensorDataset(X, Y), batch_size=20, num_workers=0)
    lines = refused(net(), loader, "train_data is a DataLoader: pass its dataset")
    model = net()
    run_lines(lines, model=model, train_data=loader)
    assert not torch.equal(model[0].weight, net().to(pick_device())[0].weight)
    own = DataLoader(Texts(), collate_fn=padded)
    assert "collate=val_data.collate_fn" in "".join(refused(net(), TensorDataset(X, Y), "val_data", val_data=own))


def test_dicts():
    lines = refused(net(), Dicts(), "a dict with pixels, labels")
    model = net()
    train(model, Dicts(), None, CONFIG, collate=run_lines(lines)["collate"])
    assert not torch.equal(model[0].weight, net()[0].weight)


def test_a_model_that_returns_an_object():
    model = Heads()
    lines = refused(model, TensorDataset(X, Y), "the model returns a SimpleNamespace", "it must return one tensor")
    learns(run_lines(lines)["Wrapped"](model))


def test_texts_of_several_lengths_without_a_collate_function():
    lines = refused(GPT(6, context=8, width=16, heads=2), Texts(), "could not fetch examples 0, 1 as one batch")
    model = GPT(6, context=8, width=16, heads=2)
    run_lines(lines, model=model, data=Texts())


def tokens_by_mean(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


@pytest.mark.parametrize(
    ("loss", "data", "collate"),
    [
        (F.cross_entropy, TensorDataset(X, Y), None),
        (partial(F.cross_entropy, weight=torch.tensor([1.0, 25.0])), TensorDataset(X, torch.arange(60) % 2), None),
        (tokens_by_mean, Texts(), padded),
    ],
    ids=["plain", "weighted", "of tokens"],
)
def test_losses_that_are_means(loss, data, collate):
    """Two examples of unlike weights, or of unlike lengths: the mean of both is not the mean of their means."""
    model = net() if collate is None else GPT(6, context=8, width=16, heads=2)
    refused(model, data, "the loss is a mean", 'reduction="sum"', loss=loss, collate=collate)


@pytest.mark.parametrize("per_row", [False, True])
def test_outputs_and_targets_that_are_broadcast(per_row):
    """(B, 1) against (B,) is B × B, whether it is summed at once or by the row."""

    def loss(outputs, targets):
        squares = (outputs - targets) ** 2
        return squares.mean(-1).sum() if per_row else squares.sum()

    refused(net(1), TensorDataset(X, REAL[:, 0]), "differ in shape", "outputs (2, 1)", "loss=one_shape", loss=loss)


def test_a_loss_with_parameters_of_its_own():
    loss = Temperature()
    lines = refused(net(), TensorDataset(X, Y), "a parameter of its own (log)", loss=loss)
    model = net()
    run_lines(lines, model=model, loss=loss)
    train(model, TensorDataset(X, Y), None, CONFIG, loss=loss)
    assert loss.log.item() != 0 and model.loss_log is loss.log
    outside = torch.zeros((), requires_grad=True)
    closure = lambda o, t: F.cross_entropy(o / outside.exp(), t, reduction="sum")  # noqa: E731
    refused(net(), TensorDataset(X, Y), "a parameter of its own (of shape ())", loss=closure)
    penalised = net()

    def penalty(outputs, targets):
        total = F.cross_entropy(outputs, targets, reduction="sum")
        return total + len(targets) * penalised[0].weight.square().sum(), len(targets)

    train(penalised, TensorDataset(X, Y), None, CONFIG, loss=penalty)  # the model's own


def test_wrappers_that_rename_the_weights():
    refused(nn.DataParallel(net()), TensorDataset(X, Y), "DataParallel", "pass model.module", "torchrun")
    refused(
        torch.compile(net(), backend="eager"), TensorDataset(X, Y), "torch.compile", "renames", "Config(compile=True)"
    )


@pytest.mark.parametrize("device", ["mps", "cuda", "cuda:7", "xpu"])
def test_a_device_that_is_not_there(device):
    if torch.device(device).type == getattr(torch.accelerator.current_accelerator(), "type", None):
        pytest.skip("it is there")
    refused(net(), TensorDataset(X, Y), f"device '{device}'", config=Config(steps=1, device=device))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda model: None, ("has returned None", "must return a torch.optim.Optimizer")),
        (lambda model: torch.optim.SGD(model[0].parameters(), lr=0.1), ("2.weight of the model is in no group",)),
        (lambda model: torch.optim.SGD([*model.parameters(), *net().parameters()]), ("4 of the optimizer's 8",)),
        (torch.optim.AdamW(net().parameters()), ("optimizer is an object, AdamW", "pass a function of the model")),
    ],
    ids=["none", "a part", "another model", "an optimizer"],
)
def test_optimizers_that_cannot_train_the_model(make, words):
    refused(net(), TensorDataset(X, Y), *words, optimizer=make)


def test_a_setting_that_an_optimizer_of_ones_own_does_not_have():
    own = lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)  # noqa: E731
    refused(net(), TensorDataset(X, Y), "lr is 0.05 in the config, but in no group", optimizer=own)
    train(net(), TensorDataset(X, Y), None, Config(steps=1, weight_decay=0.1), optimizer=own)


def test_an_error_in_ones_own_module_is_told_as_what_it_is():
    class Typo(nn.Linear):
        def forward(self, x):
            return self.wieght @ x

    class Shapes(nn.Linear):
        def forward(self, x):
            return x @ self.weight

    with pytest.raises(AttributeError, match="wieght") as error:
        train(Typo(2, 3), TensorDataset(X, Y), None, CONFIG)
    assert "before the first step" in error.value.__notes__[0]
    refused(Shapes(2, 3), TensorDataset(X, Y), "the model does not take the data", "test_first_tries.py, line")


class Forces(nn.Module):
    """Energies of positions, and as its outputs their gradients."""

    def __init__(self, enabled: bool):
        super().__init__()
        self.energy, self.enabled = nn.Sequential(net(8), nn.Tanh(), nn.Linear(8, 1)), enabled

    def forward(self, x):
        with torch.enable_grad() if self.enabled else nullcontext():
            x = x.requires_grad_()
            (forces,) = torch.autograd.grad(self.energy(x).sum(), x, create_graph=True)
        return forces


def test_a_gradient_that_is_taken_in_the_forward():
    """Validation runs without gradients, unless the forward turns them on."""
    data, loss = TensorDataset(X, X), nn.MSELoss(reduction="sum")
    lines = refused(Forces(False), data, "validation runs without: turn them on there", loss=loss)
    assert lines[0].strip() == "with torch.enable_grad():"
    assert train(Forces(True), data, data, CONFIG, loss=loss).history[-1]["val_loss"] > 0


class Unpool(nn.Module):
    """An operation that has no deterministic kernel, in every forward or only in those that train."""

    def __init__(self, always: bool):
        super().__init__()
        self.layer, self.always = net(), always

    def forward(self, x):
        outputs = self.layer(x)
        if self.always or self.training:
            return outputs.clone().put_(torch.tensor([0]), outputs.detach()[0, :1].clone())
        return outputs


@pytest.mark.parametrize("always", [False, True], ids=["while it trains", "always"])
def test_an_operation_without_a_deterministic_kernel(always):
    with pytest.raises(ValueError, match=r"put_ does not have a det.* Config\(deterministic=False\)") as error:
        train(Unpool(always), TensorDataset(X, Y), None, CONFIG)
    assert "use_deterministic_algorithms" not in str(error.value) and ("step 1" in str(error.value)) != always
    learns(Unpool(always), config=replace(CONFIG, deterministic=False))


def test_the_same_folder_takes_the_advice_and_says_that_bits_may_differ(tmp_path, capsys):
    """It holds no step yet, or some that were made before such an operation came."""
    data, without = TensorDataset(X, Y), replace(CONFIG, deterministic=False)
    with pytest.raises(ValueError, match=r"Config\(deterministic=False\)"):
        train(Unpool(False), data, None, CONFIG, run=tmp_path / "none")
    assert train(Unpool(False), data, None, without, run=tmp_path / "none").steps == CONFIG.steps
    train(net(), data, None, replace(CONFIG, steps=2), run=tmp_path / "some")
    capsys.readouterr()
    assert train(net(), data, None, without, run=tmp_path / "some").steps == CONFIG.steps
    assert "(deterministic True → False): results will not be bit-identical" in capsys.readouterr().out
