"""The loop's promises: honest numbers, watching changes nothing, the same config the same run."""

import copy
import math
import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from utils.data import IGNORE, TensorData, spiral
from utils.data.order import Order
from utils.device import pick_device
from utils.loop import Config, evaluate, train
from utils.loop.log import MEASURED
from utils.loop.metrics import count_correct, cross_entropy_sum, squared_error_sum
from utils.loop.monitor import Monitor
from utils.loop.optim import lr_factor
from utils.loop.run_folder import best_weights
from utils.loop.saved_run import read_run
from utils.loop.state import State
from utils.models import GPT, MLP

SPIRAL = spiral()
DEVICE = pick_device()  # where `train` puts a model: what is computed by hand is computed there too


def net(dropout: float = 0.0, dtype=torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return MLP((2, 16, 3), dropout).to(DEVICE, dtype)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([t.detach().flatten().double() for t in model.state_dict().values()])


def plain(history: list[dict]) -> list[dict]:
    return [{k: v for k, v in record.items() if k != MEASURED} for record in history]


def trained(model=None, data=SPIRAL.train, val=None, *, loss=cross_entropy_sum, run=None, peak_flops=0.0, **config):
    config = Config(**{"steps": 30, "lr": 1e-2, **config})
    return train(model or net(0.1), data, val, config, loss=loss, run=run, peak_flops=peak_flops)


# ---- the same config, the same run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_same_config_gives_the_same_run(precision):
    one, two = (trained(precision=precision, ema=0.9, clip=0.1) for _ in range(2))
    assert torch.equal(weights(one.model), weights(two.model)) and torch.equal(weights(one.ema), weights(two.ema))
    assert plain(one.history) == plain(two.history)
    assert not torch.equal(weights(one.model), weights(trained(precision=precision, ema=0.9, clip=0.1, seed=1).model))


def test_the_run_does_not_depend_on_the_callers_random_streams_and_leaves_them_alone():
    model = net(0.1)
    torch.manual_seed(123)
    before = torch.get_rng_state()
    one = trained(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights(one.model), weights(trained(net(0.1)).model))


# ---- watching changes nothing ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_watching_does_not_change_the_run(tmp_path, precision):
    common = {"precision": precision, "ema": 0.9, "steps": 40, "clip": 0.5}
    blind = trained(log_every=40, save_every=0, **common)
    config = Config(lr=1e-2, log_every=1, val_every=1, save_every=1, **common)
    watched = train(net(0.1), SPIRAL.train, SPIRAL.val, config, run=tmp_path, peak_flops=1e12, progress=True)
    assert torch.equal(weights(blind.model), weights(watched.model))
    assert torch.equal(weights(blind.ema), weights(watched.ema))
    assert len(watched.history) == 80 and len(blind.history) == 1


class Restless(nn.Module):
    """BatchNorm, dropout, noise from Python's and NumPy's streams, and a buffer that counts forward passes in any mode."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return self.net(x * (1 + 0.1 * random.random() + 0.1 * np.random.rand()))  # noqa: NPY002


def look(record, model):
    """All that may disturb a run: it samples from every stream, trains BatchNorm, drops out, and edits the record."""
    model.train()
    with torch.enable_grad():
        model(torch.randn(16, 2, device=DEVICE, requires_grad=True)).sum().backward()  # the average has no gradients
    random.random(), np.random.rand(), torch.rand(3)  # noqa: NPY002
    model.eval()
    record["loss"] = record["val_loss"] = -1.0
    record.setdefault(MEASURED, {})["seconds"] = -1.0


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_look_at_each_record_does_not_change_the_run(precision):
    data = SPIRAL.train
    unseen, seen = (
        train(
            Restless(), data, SPIRAL.val, Config(steps=40, precision=precision, ema=0.9, log_every=3, val_every=7), **on
        )
        for on in ({}, {"on_step": look})
    )
    assert torch.equal(weights(unseen.model), weights(seen.model)) and torch.equal(
        weights(unseen.ema), weights(seen.ema)
    )
    assert plain(unseen.history) == plain(seen.history) and seen.history[0][MEASURED]["seconds"] > 0


def test_a_look_that_changes_a_weight_or_fails_ends_the_run():
    def change(record, model):
        model.net[0].bias.add_(1)

    with pytest.raises(RuntimeError, match="on_step has changed a weight"):
        train(Restless(), SPIRAL.train, None, Config(steps=4, log_every=2), on_step=change)
    with pytest.raises(ZeroDivisionError):
        train(Restless(), SPIRAL.train, None, Config(steps=4, log_every=2), on_step=lambda record, model: 1 / 0)


def test_a_compiled_forward_keeps_the_names_of_the_weights(monkeypatch):
    """Compiled by a backend that changes nothing, so that the bits are to be the same."""
    compiled = []

    def by_eager(model):
        compiled.append(model)
        return torch._dynamo.optimize("eager")(model)

    monkeypatch.setattr(torch, "compile", by_eager)
    plainly, fast = trained(val=SPIRAL.val), trained(val=SPIRAL.val, compile=True)
    assert compiled == [fast.model] and fast.best_weights.keys() == net(0.1).state_dict().keys()
    assert torch.equal(weights(plainly.model), weights(fast.model)) and plain(plainly.history) == plain(fast.history)
    with pytest.raises(ValueError, match="compile is True: FSDP"):
        Config(compile=True, parallel="fsdp")


# ---- honest numbers -------------------------------------------------------------------------------------------------


def test_evaluate_covers_every_example_whatever_the_batch_size():
    model = net(0.5)
    data = TensorData(SPIRAL.train.x[:101], SPIRAL.train.y[:101])
    model.eval()
    with torch.no_grad():
        logits = model(data.x.to(DEVICE)).double().cpu()
    nats = -logits.log_softmax(-1)[range(101), data.y]  # by hand, in float64
    for batch_size in (1, 10, 64, 101, 1000):
        scores = evaluate(model, data, batch_size=batch_size)
        assert scores.targets == 101
        assert scores.loss == pytest.approx(nats.mean().item(), rel=1e-6)
        assert scores.accuracy == (logits.argmax(-1) == data.y).sum().item() / 101


def test_no_accuracy_where_targets_and_outputs_do_not_pair_up():
    """(4,) against (4, 1) would be compared each with each, and 16 pairs counted."""
    data = TensorData(torch.zeros(4, 2), torch.zeros(4, 1, dtype=torch.int64))
    assert count_correct(cross_entropy_sum, torch.zeros(4, 3), data.y) is None
    with pytest.raises(ValueError, match=r"outputs must have one axis more than targets.* \(data: y \(4, 1\)"):
        evaluate(net(), data)


def test_no_accuracy_of_a_single_output():
    """Of one output the largest is always the first: the share of zeros would pass for an accuracy."""
    data = TensorData(torch.zeros(4, 2), torch.tensor([0, 1, 0, 0]))
    loss = partial(nn.functional.cross_entropy, reduction="sum")
    scores = evaluate(nn.Linear(2, 1), data, loss=lambda z, y: loss(z, torch.zeros_like(y)))
    assert scores.targets == 4 and scores.accuracy is None


def test_evaluate_changes_nothing():
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    model[1].eval()  # frozen by its owner
    before, stream = weights(model), torch.get_rng_state()
    first, second = evaluate(model, SPIRAL.val), evaluate(model, SPIRAL.val, batch_size=7)
    assert first.accuracy == second.accuracy
    assert torch.equal(weights(model), before) and torch.equal(torch.get_rng_state(), stream)
    assert [module.training for module in model] == [True, False, True, True]


def test_the_logged_loss_weighs_a_short_batch_by_its_size():
    """Two batches, of 4 examples at the loss of three classes' coin toss and of 1 that is certain and wrong."""
    x = torch.tensor([[0.0], [0.0], [0.0], [0.0], [1.0]])
    y = torch.tensor([0, 1, 2, 0, 0])
    model = nn.Linear(1, 3, bias=False)
    model.weight.data = torch.tensor([[-50.0], [50.0], [0.0]])
    result = trained(model, TensorData(x, y), steps=2, batch_size=4, lr=1e-12, log_every=2, seed=order_with_last(4))
    assert result.history[0]["loss"] == pytest.approx((4 * math.log(3) + 100) / 5, rel=1e-5)


def order_with_last(example: int) -> int:
    """A seed whose first epoch of five, in batches of four, ends with this example."""
    return next(seed for seed in range(100) if Order(5, 4, seed).indices(1).tolist() == [example])


def gradient_step(model: nn.Module, x: torch.Tensor, y: torch.Tensor, lr: float) -> torch.Tensor:
    """One step of gradient descent on the mean loss over all targets that count, by hand: the weights after it."""
    logits = model(x.to(DEVICE)).flatten(0, -2)
    loss = nn.functional.cross_entropy(logits, y.to(DEVICE).flatten(), ignore_index=IGNORE)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([(p - lr * g).detach().flatten() for p, g in zip(model.parameters(), gradients, strict=True)])


@pytest.mark.parametrize("accumulation", [1, 2, 3, 7, 16])
def test_accumulation_is_the_big_batch(accumulation):
    """Parts of unequal size, in float64 and with SGD: Adam would hide a wrong scale."""
    data = TensorData(SPIRAL.train.x[:16].double(), SPIRAL.train.y[:16])
    expected = gradient_step(net(dtype=torch.float64), data.x, data.y, 0.5)
    model = net(dtype=torch.float64)
    trained(model, data, steps=1, batch_size=16, accumulation=accumulation, optimizer="sgd", momentum=0.0, lr=0.5)
    torch.testing.assert_close(weights(model), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_accumulation_counts_tokens_not_rows(accumulation):
    """Rows with 32, 4, 2 and 1 targets that count."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(7, (4, 32), generator=generator)
    y = torch.randint(7, (4, 32), generator=generator)
    for row, kept in enumerate((32, 4, 2, 1)):
        y[row, kept:] = IGNORE

    def gpt():
        torch.manual_seed(0)
        return GPT(7, context=32, width=8, heads=2).to(DEVICE, torch.float64)

    expected = gradient_step(gpt(), x, y, 0.5)
    model = gpt()
    options = {"batch_size": 4, "accumulation": accumulation, "optimizer": "sgd", "momentum": 0.0, "lr": 0.5}
    result = trained(model, TensorData(x, y), steps=1, **options)
    ours = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-15)
    logits = gpt()(x.to(DEVICE)).detach().flatten(0, 1).cpu()
    assert result.history[0]["loss"] == pytest.approx(
        nn.functional.cross_entropy(logits, y.flatten(), ignore_index=IGNORE).item(), rel=1e-12
    )


def test_a_batch_without_targets_moves_nothing_and_poisons_nothing(capsys):
    data = TensorData(SPIRAL.train.x[:8], torch.full((8,), IGNORE))
    model = net()
    result = trained(model, data, steps=3, batch_size=8)
    assert torch.equal(weights(model), weights(net()))
    assert result.history[-1]["loss"] is None and result.skipped == 0
    assert "step 3: not one target so far" in capsys.readouterr().out
    data.y[3] = 0
    trained(model, data, steps=8, batch_size=1, log_every=1)
    assert "not one target" not in capsys.readouterr().out


# ---- clip, schedule, average, optimizer -----------------------------------------------------------------------------


def test_clipping_reports_the_norm_before_it():
    data = TensorData(SPIRAL.train.x[:16], SPIRAL.train.y[:16])
    options = {"steps": 1, "batch_size": 16, "optimizer": "sgd", "momentum": 0.0, "lr": 1.0}
    free, clipped = net(), net()
    norm = trained(free, data, **options).history[0]["grad_norm"]
    assert trained(clipped, data, clip=0.01, **options).history[0]["grad_norm"] == norm
    assert norm == pytest.approx((weights(free) - weights(net())).norm().item(), rel=1e-5)
    assert (weights(clipped) - weights(net())).norm().item() == pytest.approx(0.01, rel=1e-4)
    assert norm > 0.1


def test_the_schedule_is_its_closed_form():
    history = trained(steps=40, warmup=10, schedule="cosine", final_lr=0.1, log_every=1).history
    lrs = [record["lr"] for record in history]
    assert lrs[:10] == pytest.approx([1e-2 * (i + 1) / 10 for i in range(10)], rel=1e-12)
    cosine = [1e-2 * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * i / 30))) for i in range(30)]
    assert lrs[10:] == pytest.approx(cosine, rel=1e-12)


def test_the_optimizer_uses_the_rate_that_the_log_reports():
    """Constant gradient, plain SGD: each step's length is the learning rate."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.zero_()
    data = TensorData(torch.ones(4, 1), torch.ones(4, 1), regression=True)
    seen = []

    def loss(outputs, targets):
        if outputs.requires_grad:
            seen.append(model.weight.item())
        return -outputs.sum()  # gradient of the mean: -1

    options = {"optimizer": "sgd", "momentum": 0.0, "steps": 12, "batch_size": 4, "warmup": 4, "log_every": 1}
    history = trained(model, data, loss=loss, lr=0.5, schedule="cosine", **options).history
    moved = [b - a for a, b in zip(seen, [*seen[1:], model.weight.item()], strict=True)]
    assert moved == pytest.approx([record["lr"] for record in history], rel=1e-5)


def test_a_line_and_a_warmup_that_is_a_share():
    config = Config(steps=40, warmup=0.25, schedule="linear", final_lr=0.1)
    expected = [(i + 1) / 10 for i in range(10)] + [0.1 + 0.9 * (1 - i / 30) for i in range(30)]
    assert [lr_factor(config, step) for step in range(40)] == pytest.approx(expected, rel=1e-12)
    assert lr_factor(config, 40) == lr_factor(config, 99) == pytest.approx(0.1)
    assert Config(steps=40, warmup=10).warmup_steps == config.warmup_steps == 10


def test_the_schedule_does_not_rise_again_after_its_end():
    config = Config(steps=100, warmup=10, schedule="cosine", final_lr=0.1)
    factors = [lr_factor(config, step) for step in range(10, 200)]
    assert factors == sorted(factors, reverse=True) and factors[-1] == pytest.approx(0.1)


class Centred(nn.Module):
    """It keeps a mean of its outputs, in eval mode, too, in a buffer that it replaces rather than changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.register_buffer("centre", torch.zeros(3))

    def forward(self, x):
        outputs = self.layer(x)
        self.centre = 0.9 * self.centre + 0.1 * outputs.detach().mean(0)
        return outputs - self.centre


def test_a_buffer_that_the_model_replaces_is_undone_as_well():
    x = SPIRAL.train.x.clone()
    x[3] = math.nan
    data, ends = TensorData(x, SPIRAL.train.y), []
    for watched in ({}, {"peak_flops": 1e12, "log_every": 1}, {"val_every": 1}):
        torch.manual_seed(0)
        settings = {"nonfinite": "skip", "steps": 60, "log_every": 60, "val_every": 0, **watched}
        result = trained(Centred(), data, val=SPIRAL.val, **settings)
        assert [record for record in result.history if "loss" in record][-1]["skipped"] >= 1
        ends.append(weights(result.model))
    assert ends[0].isfinite().all() and torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])


class Masked(nn.Module):
    """It makes a mask when it first runs, and a longer one for longer inputs; and counts its steps in a buffer not saved."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(7, 8), nn.Linear(8, 7)
        self.register_buffer("steps", torch.zeros(()), persistent=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        if not hasattr(self, "mask") or len(self.mask) < length:
            self.register_buffer("mask", torch.ones(length, length, device=tokens.device).tril(), persistent=False)
        self.steps += self.training
        mask = self.mask[:length, :length]
        mixed = (mask / mask.sum(1, keepdim=True)) @ self.table(tokens)
        return self.head(mixed) * (1 + 0.01 * self.steps)


def test_a_buffer_that_appears_or_grows_in_forward_is_no_error_and_one_that_is_not_saved_resumes(tmp_path):
    ids = torch.randint(7, (24, 9), generator=torch.Generator().manual_seed(0))
    data, longer = TensorData(ids[:, :5], ids[:, 1:6]), TensorData(ids[:, :8], ids[:, 1:])
    settings = {"val": longer, "ema": 0.9, "val_every": 5, "nonfinite": "skip", "peak_flops": 1e12, "batch_size": 8}

    def run(steps, **more):
        torch.manual_seed(0)
        return trained(Masked(), data, steps=steps, **settings, **more)

    straight = run(20)
    assert straight.model.steps == 20
    run(10, run=tmp_path)
    resumed = run(20, run=tmp_path)
    assert resumed.model.steps == 20 and torch.equal(weights(resumed.model), weights(straight.model))


def test_flops_are_counted_under_autocast_and_for_every_example():
    """The first two of the texts, on which they are counted, have one target each, the others 14."""
    ids = torch.randint(7, (40, 16), generator=torch.Generator().manual_seed(0))
    targets = ids.clone()
    targets[:, 14:] = targets[:2, 1:] = IGNORE
    model, masked = GPT(7, 16, width=8, heads=2).bfloat16(), TensorData(ids, targets)
    config = Config(steps=5, batch_size=8, log_every=5, precision="bf16")
    own = lambda model: torch.optim.SGD(model.parameters(), lr=1e-3)  # noqa: E731  (weights in bf16 are its affair)
    measured = [
        train(copy.deepcopy(model), data, None, config, peak_flops=1e12, optimizer=own).history[0][MEASURED]
        for data in (TensorData(ids, ids), masked)
    ]
    each = [record["mfu"] * 1e12 / record["targets_per_second"] for record in measured]
    assert each[1] / each[0] == pytest.approx(40 * 16 / (38 * 14 + 2))


def test_flops_that_cannot_be_counted_end_no_run_that_did_not_ask_for_them(monkeypatch):
    """The peak of a GPU is published, and MFU then in the log, though nobody has given it."""

    class Uncountable(nn.Linear):
        def forward(self, x):
            if torch.utils._python_dispatch._len_torch_dispatch_stack():
                raise RuntimeError("not while somebody counts")
            return super().forward(x)

    with pytest.raises(RuntimeError, match="not while somebody counts"):
        trained(Uncountable(2, 3), steps=2, peak_flops=1e12)
    monkeypatch.setattr(Monitor, "_published_peak", lambda monitor: 1e12)
    assert trained(Uncountable(2, 3), steps=2, log_every=1).history[-1][MEASURED]["mfu"] is None
    assert trained(nn.Linear(2, 3), steps=2).history[-1][MEASURED]["mfu"] > 0


def test_the_average_is_its_closed_form():
    """Weights that follow w_t = t: the average after T steps is a geometric sum."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.zero_()
    data = TensorData(torch.ones(4, 1), torch.ones(4, 1), regression=True)
    options = {"optimizer": "sgd", "momentum": 0.0, "steps": 5, "batch_size": 4, "lr": 1.0, "ema": 0.9}
    result = trained(model, data, loss=lambda outputs, targets: -outputs.sum(), **options)
    assert model.weight.item() == pytest.approx(5)
    expected = sum(0.1 * 0.9 ** (5 - t) * t for t in range(1, 6))
    assert result.ema.weight.item() == pytest.approx(expected, rel=1e-6)


def test_validation_sees_the_average_and_the_best_weights_are_its(tmp_path):
    result = trained(val=SPIRAL.val, ema=0.99, steps=20)
    assert result.history[-1]["val_loss"] == evaluate(result.ema, SPIRAL.val).loss
    assert result.history[-1]["val_loss"] != evaluate(result.model, SPIRAL.val).loss

    trained(val=SPIRAL.val, ema=0.99, steps=20, run=tmp_path)
    rebuilt = net(0.1)
    for chosen in (result.best_weights, best_weights(tmp_path), read_run(tmp_path).weights()[0]):
        rebuilt.load_state_dict(chosen)
        assert evaluate(rebuilt, SPIRAL.val).loss == result.history[-1]["val_loss"]


def test_adamw_is_torchs_adamw_and_decays_matrices_only():
    ours, theirs = net(), net()
    data = TensorData(SPIRAL.train.x[:16], SPIRAL.train.y[:16])
    trained(ours, data, steps=10, batch_size=16, lr=0.1, weight_decay=0.1, beta1=0.8, beta2=0.9)
    decayed = [p for p in theirs.parameters() if p.ndim == 2]
    groups = [{"params": decayed}, {"params": [p for p in theirs.parameters() if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, foreach=False)
    for _ in range(10):
        optimizer.zero_grad()
        nn.functional.cross_entropy(theirs(data.x.to(DEVICE)), data.y.to(DEVICE)).backward()
        optimizer.step()
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("precision", "computed"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_mixed_precision_keeps_all_that_stays_in_fp32(precision, computed):
    seen = set()

    def loss(outputs, targets):
        if outputs.requires_grad:  # otherwise it is tried on numbers drawn for it
            seen.add(outputs.dtype)
        return cross_entropy_sum(outputs, targets)

    model = net()
    result = trained(model, loss=loss, precision=precision, ema=0.9, steps=2)
    assert seen == {computed}
    kept = [*model.parameters(), *(p.grad for p in model.parameters()), *result.ema.parameters()]
    assert {tensor.dtype for tensor in kept} == {torch.float32} and len(kept) == 3 * 4


def test_regression():
    data = TensorData(SPIRAL.train.x, SPIRAL.train.x.sum(1, keepdim=True), regression=True)
    torch.manual_seed(0)
    result = train(nn.Linear(2, 1), data, data, Config(steps=300, lr=0.05), loss=squared_error_sum)
    assert result.history[-1]["val_loss"] < 1e-4 and result.history[-1]["val_accuracy"] is None


def test_it_learns_the_spiral():
    torch.manual_seed(0)
    config = Config(steps=600, batch_size=64, lr=1e-2, warmup=20, schedule="cosine", clip=1.0, ema=0.99)
    result = train(MLP((2, 128, 128, 3)), SPIRAL.train, SPIRAL.val, config)
    assert evaluate(result.ema, SPIRAL.test).accuracy > 0.98
    assert evaluate(MLP((2, 128, 128, 3)), SPIRAL.test).accuracy < 0.6


# ---- early stopping and the best ------------------------------------------------------------------------------------


def test_an_improvement_counts_from_min_delta_on():
    state = State(net(), Config(patience=2, min_delta=0.25, device=DEVICE.type), DEVICE)
    counts = []
    for loss in (2.0, 1.75, 1.5, 1.375, 1.3):
        assert not state.stopped_early and state.is_best(loss)
        counts.append(state.validations_without_improvement)
    assert counts == [0, 1, 0, 1, 2] and state.best["val_loss"] == 1.3 and state.stopped_early


class WithState(nn.Linear):
    """A module with state that is no tensor, as quantised ones have."""

    def get_extra_state(self):
        return {"calls": 3}

    def set_extra_state(self, state):
        assert state == {"calls": 3}


def test_a_modules_extra_state_is_no_tensor(tmp_path):
    for steps in (4, 8):
        trained(WithState(2, 3), val=SPIRAL.val, steps=steps, run=tmp_path, val_every=2)
    result = trained(WithState(2, 3), val=SPIRAL.val, steps=4, val_every=2)
    assert result.best_weights["_extra_state"] == {"calls": 3}


def test_early_stopping_and_the_best_weights(tmp_path):
    """A learning rate that ruins the model: the first validation is the best, and the run ends after three worse ones."""
    options = {"optimizer": "sgd", "momentum": 0.0, "lr": 1e3, "val_every": 1, "patience": 3, "steps": 50, "seed": 4}
    model = net()
    data = TensorData(*(t[:64] for t in (SPIRAL.train.x, SPIRAL.train.y)))
    result = trained(model, data, val=SPIRAL.val, **options)
    losses = [record["val_loss"] for record in result.history if "val_loss" in record]
    best = losses.index(min(losses)) + 1
    assert result.stopped_early and result.steps == best + 3 == len(losses)
    assert result.best == {"step": best, "val_loss": min(losses)}
    rebuilt = net()
    rebuilt.load_state_dict(result.best_weights)
    assert evaluate(rebuilt, SPIRAL.val).loss == min(losses) != losses[-1]

    with pytest.raises(FileNotFoundError, match="holds no best checkpoint"):
        best_weights(tmp_path)
    saved = trained(net(), data, val=SPIRAL.val, run=tmp_path, **options)
    assert saved.best_weights is None
    rebuilt.load_state_dict(best_weights(tmp_path))
    assert evaluate(rebuilt, SPIRAL.val).loss == min(losses)
    again = trained(net(), data, val=SPIRAL.val, run=tmp_path, **options)  # a stopped run stays stopped
    assert again.steps == result.steps and again.stopped_early
