"""The loop on a device that is not the CPU: the same promises."""

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from helpers import resumable_run
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import IterableDataset, TensorDataset

from utils import device as loop_device
from utils.data.datasets import TensorData, spiral
from utils.data.order import Order, batches
from utils.device import autocast
from utils.loop import Config, Result, evaluate, train
from utils.loop.checkpoint import find
from utils.loop.metrics import cross_entropy_sum
from utils.loop.training import Scores, train_step

SPIRAL = spiral()
DATA, VALIDATION = SPIRAL.train, SPIRAL.val


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


# ---- the same config, the same run ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "accumulation", "workers"),
    [("fp32", 1, "none"), ("fp32", 4, "two"), ("bf16", 4, "none"), ("fp16", 4, "two persistent")],
)
def test_a_run_that_is_stopped_and_resumed_ends_with_the_same_bits(tmp_path, precision, accumulation, workers):
    """Its dropout masks are drawn on the device, whose stream a checkpoint holds."""
    whole = resumable_run.run(None, precision, accumulation)
    assert {tensor.device.type for tensor in [*whole.model.state_dict().values()]} == {"gpu"}
    with pytest.raises(resumable_run.Stop):
        resumable_run.run(tmp_path, precision, accumulation, workers, stop_after=resumable_run.STOPS["mid-epoch"])
    resumed = resumable_run.run(tmp_path, precision, accumulation, workers)
    assert resumable_run.same(resumable_run.outcome(whole), resumable_run.outcome(resumed))
    left = torch.gpu.get_rng_state()
    torch.manual_seed(1)  # as resumable does before it trains
    assert torch.equal(torch.gpu.get_rng_state(), left), "the caller's stream is left as it was"


def test_a_checkpoint_of_the_gpu_goes_on_on_the_cpu_and_the_other_way_round(tmp_path, monkeypatch, capsys):
    """With other bits, since the devices draw other dropout masks; it says so."""
    config = Config(steps=3, batch_size=32, save_every=1)
    for there, here in (("gpu", "cpu"), ("cpu", "gpu")):
        folder = tmp_path / there
        monkeypatch.setattr(
            loop_device, "accelerator", lambda there=there: None if there == "cpu" else torch.device(there)
        )
        train(net(), DATA, None, config, run=folder)
        find(folder / "checkpoints")[-1].unlink()
        monkeypatch.setattr(loop_device, "accelerator", lambda here=here: None if here == "cpu" else torch.device(here))
        result = train(net(), DATA, None, config, run=folder)
        assert result.steps == 3 and next(result.model.parameters()).device.type == here
        assert f"device {there} → {here}" in capsys.readouterr().out


# ---- memory ---------------------------------------------------------------------------------------------------------


class Small(nn.Module):
    """A model for whose attempts at more than `largest` examples the device has no memory."""

    def __init__(self, inner: nn.Module, largest: int):
        super().__init__()
        self.inner, self.largest = inner, largest

    def forward(self, x):
        outputs = self.inner(x)
        if self.training and len(x) > self.largest:
            raise torch.OutOfMemoryError("gpu out of memory. Tried to allocate 1.00 GiB")
        return outputs


def test_out_of_memory_repeats_the_step_with_the_devices_stream_and_empties_its_cache(monkeypatch):
    emptied = []
    monkeypatch.setattr(torch.gpu, "empty_cache", lambda: emptied.append(True))
    config = Config(steps=3, batch_size=64, lr=1e-2, device="gpu", out_of_memory="halve")
    small, calm = Small(net(), largest=16), net()
    train(small, DATA, None, config)
    train(calm, DATA, None, replace(config, accumulation=4))
    pairs = zip(small.inner.state_dict().values(), calm.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert len(emptied) == 2, "halved twice"


def test_out_of_memory_with_one_example_left_tells_what_the_device_holds():
    with pytest.raises(
        torch.OutOfMemoryError, match=r"one example at a time .*batch [\d,]+, activations and others [\d,]+\."
    ):
        train(Small(nn.Linear(2, 3), largest=0), DATA, None, Config(steps=1, batch_size=1, device="gpu"))


# ---- what a step runs on the device ----------------------------------------------------------------------------------


class Operators(TorchDispatchMode):
    """The operators that run on the device within the block, and where the host has waited for a number of it."""

    def __init__(self):
        super().__init__()
        self.names, self.waits = [], 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = torch.gpu.operators()
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        self.names += [name] * (torch.gpu.operators() > before)
        read = any(isinstance(arg, torch.Tensor) and arg.device.type == "gpu" for arg in args)
        back = isinstance(result, torch.Tensor) and result.device.type == "cpu"
        self.waits += read and (back or name == "_local_scalar_dense")
        return result


def operators_of(loop: Callable[[nn.Module], None], steps: range) -> tuple[Counter, int]:
    """What the device runs from the forward pass of one step to that of another, and how often the host waits for it."""
    model, places = net(dropout=0), []
    with Operators() as on_device:
        model.register_forward_pre_hook(
            lambda *_: (
                places.append((len(on_device.names), on_device.waits)) if model.training else None
            )  # else a trial
        )
        loop(model)
    (began, waits), (ended, more) = places[steps.start], places[steps.stop]
    return Counter(on_device.names[began:ended]), more - waits


def by_hand(model: nn.Module, precision: str) -> None:
    """A loop with the maths of `with_train`."""
    model.to("gpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    scaler = torch.amp.GradScaler("gpu", enabled=precision == "fp16")
    weights = list(model.parameters())
    average = [weight.detach().clone() for weight in weights]
    for x, y in batches(DATA, Order(len(DATA), 64), 0, 12):
        x, y = x.to("gpu", non_blocking=True), y.to("gpu", non_blocking=True)
        optimizer.zero_grad()
        with autocast(torch.device("gpu"), precision):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(weights, 0.1)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, weights, 0.1)


def with_train(model: nn.Module, precision: str, loss: Callable = cross_entropy_sum, log_every: int = 12) -> None:
    settings = {"steps": 12, "batch_size": 64, "lr": 1e-2, "warmup": 3, "clip": 0.1, "ema": 0.9, "log_every": log_every}
    train(model, DATA, None, Config(precision=precision, device="gpu", **settings), loss=loss)


def pair(outputs, targets):
    return cross_entropy_sum(outputs, targets), targets.ne(-1).sum()  # operators of which the step has some, too


NAMED = {  # {operator: what the docstring of train_step says that it is good for}
    name: purpose
    for names, purpose in re.findall(r"^ {8}([\w, ]+): (.+)", train_step.__doc__, re.MULTILINE)
    for name in names.split(", ")
}


def test_what_a_step_runs_beyond_a_loop_by_hand_is_named_where_the_step_is():
    """Each with its purpose; and nothing is named that is not run."""
    beyond = Counter()
    for precision, loss in itertools.product(("fp32", "fp16"), (cross_entropy_sum, pair)):
        ours, _ = operators_of(partial(with_train, precision=precision, loss=loss), range(5, 6))
        hand, _ = operators_of(partial(by_hand, precision=precision), range(5, 6))
        beyond |= ours - hand
    assert set(beyond) == set(NAMED)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("loss", [cross_entropy_sum, pair])
def test_the_host_waits_for_the_device_in_no_step_that_is_not_logged(precision, loss):
    for log_every, expected in ((12, False), (1, True)):
        loop = partial(with_train, precision=precision, loss=loss, log_every=log_every)
        _, waits = operators_of(loop, range(11))
        assert bool(waits) == expected


def test_labels_of_pixels_are_scored_by_the_kernel_that_is_deterministic_on_cuda():
    """The numbers are those of the CPU, which keeps to torch's own way."""
    x = torch.randn(12, 2, 5, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(x, (x.sum(1).gt(0) + x[:, 0].gt(1).long())[:, 1:-1])
    weight = torch.tensor([1.0, 3.0, 0.5])

    def run(device: str) -> Result:
        torch.manual_seed(0)
        loss = nn.CrossEntropyLoss(weight=weight.to(device), ignore_index=2, label_smoothing=0.1)
        return train(nn.Conv1d(2, 3, 3), data, None, Config(steps=9, batch_size=4, lr=1e-2, device=device), loss=loss)

    with Operators() as on_device:
        ours = run("gpu")
    assert "nll_loss_forward" in on_device.names and "nll_loss2d_forward" not in on_device.names
    torch.testing.assert_close(ours.model.cpu().weight, run("cpu").model.weight, rtol=0, atol=1e-5)


# ---- the rest of the loop -------------------------------------------------------------------------------------------


def everything(device: str, **config) -> tuple[Result, Scores]:
    """A run with all that a Config can turn on, but for dropout, which the devices draw differently."""
    settings = Config(
        steps=20, batch_size=64, lr=1e-2, warmup=3, schedule="cosine", clip=0.1, weight_decay=0.1, accumulation=2,
        ema=0.9, val_every=5, log_every=5, patience=3, device=device, **config,
    )  # fmt: skip
    result = train(net(dropout=0), DATA, VALIDATION, settings, peak_flops=1e12)
    return result, evaluate(result.ema, VALIDATION, batch_size=50)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_run_with_everything_on_has_the_numbers_of_the_cpu(optimizer):
    """The stand-in computes as the CPU does, so that whatever differs was done differently."""
    (there, scores), (here, expected) = everything("gpu", optimizer=optimizer), everything("cpu", optimizer=optimizer)
    for one, other in ((there.model, here.model), (there.ema, here.ema)):
        for name, tensor in one.state_dict().items():
            assert tensor.device.type == "gpu"
            torch.testing.assert_close(tensor.cpu(), other.state_dict()[name], rtol=1e-5, atol=1e-6)
    assert scores.loss == pytest.approx(expected.loss, rel=1e-5) and scores.accuracy == expected.accuracy
    assert [record["step"] for record in there.history] == [record["step"] for record in here.history]
    assert there.history[-2]["measured"]["peak_memory_bytes"] > 0 and there.history[-2]["measured"]["mfu"] > 0


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_trains_and_is_the_same_each_time(precision):
    one, other = (everything("gpu", precision=precision)[0] for _ in range(2))
    assert all(map(torch.equal, one.model.state_dict().values(), other.model.state_dict().values()))
    losses = [record["loss"] for record in one.history if "loss" in record]
    assert losses[-1] < losses[0]


def test_steps_that_overflow_are_skipped_and_the_scale_comes_down():
    x = DATA.x.clone()
    x[:8] = 6e4  # overflows in float16, in the first epoch's batches that hold them
    result = train(net(0), TensorData(x, DATA.y), None, Config(steps=40, batch_size=16, precision="fp16", device="gpu"))
    assert 0 < result.skipped < 40


@pytest.mark.parametrize("nonfinite", ["raise", "skip"])
def test_a_step_that_is_not_finite_leaves_the_weights_as_they_were(nonfinite):
    x = DATA.x.clone()
    x[17] = float("nan")
    config = Config(steps=40, batch_size=16, nonfinite=nonfinite, device="gpu")
    model = net()
    if nonfinite == "raise":
        with pytest.raises(FloatingPointError):
            train(model, TensorData(x, DATA.y), None, config)
    else:
        assert train(model, TensorData(x, DATA.y), None, config).skipped >= 1
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_for_the_device_come_in_pinned_memory(workers, monkeypatch):
    seen, to = [], torch.Tensor.to

    def watched(tensor, *arguments, **options):
        seen.append(tensor.is_pinned())
        return to(tensor, *arguments, **options)

    model = nn.Linear(2, 3).to("gpu")
    monkeypatch.setattr(torch.Tensor, "to", watched)
    evaluate(model, VALIDATION, batch_size=len(VALIDATION), workers=workers)
    assert seen.count(True) == 2, "x and y of the one batch"


def test_data_on_the_device_is_taken_from_there():
    data = TensorData(DATA.x.to("gpu"), DATA.y.to("gpu"))
    config = Config(steps=20, batch_size=16, device="gpu")
    one, other = train(net(), data, data, config), train(net(), DATA, DATA, config)
    assert all(map(torch.equal, one.model.state_dict().values(), other.model.state_dict().values()))


class Named(nn.Module):
    """Takes its inputs from a dict, and returns a pair."""

    def __init__(self):
        super().__init__()
        self.net = net(dropout=0)

    def forward(self, x):
        logits = self.net(x["points"] * x["scale"][:, None])
        return logits, logits.square().mean(1)


def with_cost(outputs, targets):
    logits, cost = outputs
    total = nn.functional.cross_entropy(logits, targets["label"], reduction="sum")
    return total + 0.01 * cost.sum(), len(targets["label"])


def in_trees(data: TensorData) -> TensorData:
    return TensorData({"points": data.x, "scale": torch.ones(len(data))}, {"label": data.y, "spare": None})


def test_trees_have_the_numbers_of_the_cpu():
    ends = []
    for device in ("gpu", "cpu"):
        config = Config(
            steps=10, batch_size=64, lr=1e-2, accumulation=2, ema=0.9, val_every=5, log_every=5, device=device
        )
        result = train(Named(), in_trees(DATA), in_trees(VALIDATION), config, loss=with_cost, peak_flops=1e12)
        ends.append([record.get("loss") or record["val_loss"] for record in result.history])
        assert next(result.model.parameters()).device.type == device
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


@pytest.mark.parametrize("workers", [0, 1])
def test_every_tensor_of_a_tree_for_the_device_comes_in_pinned_memory(workers, monkeypatch):
    model, seen, to = Named().to("gpu"), [], torch.Tensor.to

    def watched(tensor, *arguments, **options):
        seen.append(tensor.is_pinned())
        return to(tensor, *arguments, **options)

    monkeypatch.setattr(torch.Tensor, "to", watched)
    evaluate(model, in_trees(VALIDATION), batch_size=len(VALIDATION), workers=workers, loss=with_cost)
    assert seen.count(True) == 3, "points, scale and label of the one batch"


# ---- an order of the caller's own, and streams ----------------------------------------------------------------------


def weighted(step: int) -> torch.Tensor:
    return torch.multinomial(1.0 + DATA.y, 16, replacement=True)


@pytest.mark.parametrize("on_device", [False, True])
def test_an_order_of_ones_own_takes_the_same_batches(on_device):
    data = TensorData(DATA.x.to("gpu"), DATA.y.to("gpu")) if on_device else DATA
    there, here = (
        train(net(dropout=0), some, None, Config(steps=20, device=device), order=weighted, peak_flops=1e12)
        for some, device in ((data, "gpu"), (DATA, "cpu"))
    )
    for one, other in zip(there.model.state_dict().values(), here.model.state_dict().values(), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-6)
    assert there.history[-1]["measured"]["mfu"] > 0


class Points(IterableDataset):
    """Those of DATA in order, and where it is."""

    def __init__(self, x: torch.Tensor = DATA.x):
        self.x, self.next = x, 0

    def __iter__(self):
        while self.next < len(self.x):
            self.next += 1
            yield self.x[self.next - 1], DATA.y[self.next - 1]
        self.next = 0

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def test_a_stream_goes_on_where_it_was(tmp_path):
    config = Config(steps=20, batch_size=100, device="gpu", save_every=1)
    whole = train(net(), Points(), None, config, peak_flops=1e12)
    train(net(), Points(), None, replace(config, steps=7), run=tmp_path)
    resumed = train(net(), Points(), None, config, run=tmp_path)
    pairs = zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert whole.history[-1]["measured"]["mfu"] > 0


def test_a_nan_in_a_stream_is_named_with_its_step_though_its_batch_has_gone_by():
    x = DATA.x.clone()
    x[17] = float("nan")
    with pytest.raises(
        FloatingPointError, match=r"step 2 is not finite .* batch 2 of train_data.*: its batch has gone by"
    ):
        train(net(), Points(x), None, Config(steps=40, batch_size=16, device="gpu"))
