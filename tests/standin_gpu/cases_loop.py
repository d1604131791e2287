"""The loop on a device that is not the CPU: the same promises."""

from dataclasses import replace

import pytest
import torch
from helpers import resumable_run
from torch import nn
from torch.utils.data import IterableDataset

from utils import device as loop_device
from utils.data.datasets import TensorData, spiral
from utils.loop import Config, Result, evaluate, train
from utils.loop.checkpoint import find
from utils.loop.training import Scores

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
    config = Config(steps=3, batch_size=64, lr=1e-2, device="gpu")
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
        train(Small(nn.Linear(2, 3), largest=0), DATA, None, Config(steps=1, batch_size=4, device="gpu"))


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
