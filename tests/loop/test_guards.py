"""A bad moment does no harm: gradients that are not finite, memory that runs out, updates that are blocked."""

import copy
import math
import os
import re
import signal
import weakref
from array import array
from dataclasses import replace

import pytest
import torch
from helpers.deciding_guard import BOTH, decide
from torch import nn

from utils.data import TensorData, spiral
from utils.device import pick_device
from utils.loop import Config, train
from utils.loop.checkpoint import load_newest
from utils.loop.guards import all_finite
from utils.loop.metrics import cross_entropy_sum
from utils.loop.signals import SIGTERM_EXIT, Termination

SPIRAL = spiral()
DATA = TensorData(SPIRAL.train.x[:64], SPIRAL.train.y[:64])


@pytest.fixture(autouse=True, params=BOTH)
def guard_on(request, monkeypatch):
    """All of this on either."""
    return decide(request.param, monkeypatch)


def device_for(guard_on: str) -> str:
    """The CPU where the host is to decide: with a GPU it never does."""
    return "cpu" if guard_on == "decided on the host" else "auto"


def net() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    return model.to(pick_device())


def tensors(model: nn.Module) -> list[torch.Tensor]:
    return [t.clone() for t in model.state_dict().values()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(map(torch.equal, a, b))


class Whole(TensorData):
    """Whatever is asked for, all of it in one order; but two examples, which `train` tries, are two."""

    def batch(self, indices):
        return super().batch(indices) if len(indices) <= 2 else (self.x, self.y)


class Poison:
    """Cross-entropy that turns to NaN (or inf) at given calls of its own, counted from 1 in training mode."""

    def __init__(self, calls: set[int], value: float = float("nan")):
        self.calls, self.value, self.call, self.seen = calls, value, 0, []

    def __call__(self, outputs, targets):
        if not outputs.requires_grad:
            return cross_entropy_sum(outputs, targets)
        self.call += 1
        bad = self.call in self.calls
        return cross_entropy_sum(outputs, targets) * (self.value if bad else 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_one_entry_that_is_not_finite_is_seen(dtype, bad):
    tensors = [torch.ones(3, 5, dtype=dtype), torch.zeros(0), torch.ones(7, dtype=dtype, requires_grad=True)]
    assert all_finite(tensors)
    tensors[0][1, 2] = bad
    assert not all_finite(tensors)


def test_infinities_that_cancel_are_seen_and_finite_numbers_may_overflow_their_sum():
    assert not all_finite([torch.tensor([math.inf]), torch.tensor([-math.inf])])
    for huge in (torch.finfo(torch.float32).max, -torch.finfo(torch.float32).max):
        assert all_finite([torch.full((4,), huge), torch.ones(2)])
    assert all_finite([torch.full((4,), 6e4, dtype=torch.float16), torch.tensor([True]), torch.tensor([2**62] * 4)])
    assert all_finite([])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("bad_step", [1, 5])
def test_raise_names_the_step_and_leaves_the_weights_before_it(value, optimizer, bad_step):
    options = {"batch_size": 16, "lr": 1e-2, "optimizer": optimizer, "ema": 0.9}
    before = net()
    if bad_step > 1:
        train(before, DATA, None, Config(steps=bad_step - 1, **options))
    model = net()
    with pytest.raises(FloatingPointError, match=f"step {bad_step} is not finite .*examples \\["):
        train(model, DATA, None, Config(steps=8, **options), loss=Poison({bad_step}, value))
    assert same(tensors(model), tensors(before))


class Root(nn.Module):
    """The square root, whose slope at 0 is infinite and below 0 no number."""

    def forward(self, x):
        return x.clamp(max=4.0).sqrt()


class Square(nn.Module):
    """Overflows for large inputs."""

    def forward(self, x):
        return x * x


class Gate(nn.Module):
    """Where the root is not needed its slope still counts: infinity times nothing."""

    def forward(self, x):
        return torch.where(x > 0, x.sqrt(), 0.0)


class Moody(nn.Module):
    """Not a number at its call number `bad` only."""

    def __init__(self, bad):
        super().__init__()
        self.left = bad

    def forward(self, x):
        self.left -= 1
        return x * (float("nan") if self.left == 0 else 1.0)


class Steep:
    """Cross-entropy that is finite, and so is each number of its gradient; but not the sum of their squares."""

    def __call__(self, outputs, targets):
        return cross_entropy_sum(outputs, targets) * (1e30 if outputs.requires_grad else 1.0)


def poisoned_input() -> TensorData:
    x = DATA.x.clone()
    x[20] = float("inf")
    return TensorData(x, DATA.y)


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize(
    ("inside", "data", "loss", "suspect"),
    [
        ([Root()], DATA, cross_entropy_sum, "the output of 1 (Root) is not finite"),
        ([Gate(), nn.ReLU()], DATA, cross_entropy_sum, "the gradient of 0.weight is not finite"),
        ([], poisoned_input(), cross_entropy_sum, "the input is not finite"),
        ([], DATA, Poison(set(range(3, 99))), "the loss is not finite"),
        ([], DATA, Steep(), "the norm of the gradient, all of whose numbers are finite, is not finite"),
        ([Moody(6)], DATA, cross_entropy_sum, "could not be reproduced"),
    ],
)
def test_raise_names_what_was_not_finite_first(inside, data, loss, suspect, accumulation):
    """The layer is not the last: what comes after it is not finite either, and not named."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4, bias=False), *copy.deepcopy(inside), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with torch.no_grad():
        model[0].weight[0] = 0.0  # Gate is handed a 0
    with pytest.raises(FloatingPointError, match=re.escape(f"]): {suspect}") + ".* The weights are those before it"):
        train(
            model,
            data,
            None,
            Config(steps=8, batch_size=64, accumulation=accumulation, lr=1e-3),
            loss=copy.deepcopy(loss),
        )
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("accumulation", [1, 44, 5])
@pytest.mark.parametrize("where", ["the input", "the target", "the output of 1 (Square)"])
def test_the_examples_that_are_not_finite_are_named(where, accumulation):
    """One of 44 in its batch: a message that shows the first eight of them would not show it."""
    x, y = SPIRAL.train.x[:176].clone(), torch.ones(176, 1)
    (y if where == "the target" else x)[137] = 1e30 if where.startswith("the output") else math.inf
    model = nn.Sequential(nn.Linear(2, 1), Square() if where.startswith("the output") else nn.Identity())
    config = Config(steps=4, batch_size=44, accumulation=accumulation)
    with pytest.raises(FloatingPointError) as error:
        train(model, TensorData(x, y, regression=True), None, config, loss=nn.MSELoss(reduction="sum"))
    assert f"): {where} is not finite" in str(error.value)
    assert "Look at example [137]" in str(error.value)
    assert ("lower lr" in str(error.value)) == where.startswith("the output")  # no rate mends an example


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("bad", [1, 4])
def test_skip_leaves_everything_as_if_the_step_had_not_been(optimizer, precision, bad, tmp_path, guard_on):
    """Weights, buffers, average, optimizer and schedule after five steps of which one was skipped, against four steps.

    Every batch is the whole data in one order, so that a skipped batch leaves nothing out. Bit for bit, but for fp16,
    whose scaler answers the skip with half the scale, and so with other rounding. A device is asked only now and then,
    and the schedule set back only then: there the rate is constant here, and the position is looked at.
    """
    warmup = 3 if guard_on == "decided on the host" else 0
    options = {
        "batch_size": 64, "lr": 1e-2, "optimizer": optimizer, "ema": 0.9, "warmup": warmup, "precision": precision,
        "nonfinite": "skip", "save_every": 1, "keep": 10, "device": device_for(guard_on),
    }  # fmt: skip

    def nodrop():
        model = net()
        model[3].p = 0.0
        model[0].bias = None  # BatchNorm cancels it: its gradient is rounding noise, which AdamW blows up
        return model

    data = Whole(DATA.x, DATA.y)
    one, two = nodrop(), nodrop()
    skipped = train(one, data, None, Config(steps=5, seed=1, **options), loss=Poison({bad}), run=tmp_path / "a")
    train(two, data, None, Config(steps=4, seed=1, **options), run=tmp_path / "b")
    assert skipped.skipped == 1 and skipped.steps == 5
    a, b = (load_newest(tmp_path / run / "checkpoints") for run in "ab")
    assert a["scheduler"]["last_epoch"] == b["scheduler"]["last_epoch"] == 4
    for part in ("model", "ema"):
        for name in a[part]:
            tolerance = 1e-3 if precision == "fp16" else 0.0  # a step that was not blocked moves AdamW by lr = 1e-2
            torch.testing.assert_close(a[part][name], b[part][name], rtol=0, atol=tolerance)
    counts = [state["step"] for state in a["optimizer"]["state"].values() if "step" in state]
    assert all(count == 4 for count in counts) and (counts or optimizer == "sgd")
    assert all(tensor.isfinite().all() for tensor in a["model"].values())


def test_the_loss_of_a_skipped_step_is_not_reported():
    history = train(
        net(), DATA, None, Config(steps=4, batch_size=64, nonfinite="skip", log_every=4), loss=Poison({2})
    ).history
    assert 0 < history[-1]["loss"] < 10 and history[-1]["skipped"] == 1


def test_skipped_steps_are_named_in_the_log(tmp_path, guard_on):
    """On a device the host learns only now and then that there were some."""
    config = Config(steps=8, batch_size=16, nonfinite="skip", log_every=4, device=device_for(guard_on))
    history = train(net(), DATA, None, config, loss=Poison({2, 3, 6}), run=tmp_path).history
    named = [record.get("skipped_steps") for record in history]
    assert named == ([["2", "3"], ["6"]] if guard_on == "decided on the host" else [None, ["3 of 1 to 8"]])


def test_too_many_skips_in_a_row_end_the_run(guard_on):
    config = Config(steps=9, batch_size=16, nonfinite="skip", max_skips=3)
    assert train(net(), DATA, None, config, loss=Poison({2, 3, 5, 6, 8})).skipped == 5  # never three in a row
    model, before = net(), net()
    with pytest.raises(FloatingPointError, match=r"3 updates in a row were not finite, .*last of them .* step 7 "):
        train(model, DATA, None, config, loss=Poison({2, 3, 5, 6, 7}))
    train(before, DATA, None, replace(config, steps=4), loss=Poison({2, 3}))
    assert same(tensors(model), tensors(before))


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_training_loss_that_is_not_finite_though_its_gradient_is(value):
    def loss(outputs, targets):
        return cross_entropy_sum(outputs, targets) + value

    with pytest.raises(
        FloatingPointError, match=f"training loss since the last record is {value} at step 3, though every"
    ):
        train(net(), DATA, None, Config(steps=6, log_every=3), loss=loss)
    history = train(net(), DATA, None, Config(steps=6, log_every=3, nonfinite="skip"), loss=loss).history
    assert not math.isfinite(history[-1]["loss"]) and history[-1]["skipped"] == 0


@pytest.mark.parametrize("watched", [{"log_every": 4}, {"save_every": 4}])
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_buffer_that_overflows_though_every_gradient_is_finite(watched, policy, tmp_path):
    """The variance of inputs of 1e30 leaves float32; what BatchNorm makes of them does not, nor do its gradients."""
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3))
    model.register_buffer("mask", torch.full((2, 2), float("-inf")))  # no error: it began so
    data = TensorData(DATA.x.clone(), DATA.y)
    data.x[7, 0] = 1e30
    config = Config(**{"steps": 9, "batch_size": 64, "nonfinite": policy, "log_every": 9, **watched})
    with pytest.raises(FloatingPointError, match=r"the buffer 0\.running_var is not finite after step 4, though every"):
        train(model, data, None, config, run=tmp_path)
    assert load_newest(tmp_path / "checkpoints") is None


def test_more_skips_than_any_number_holds_may_be_allowed():
    config = Config(steps=4, batch_size=16, nonfinite="skip", max_skips=10**30)
    assert train(net(), DATA, None, config, loss=Poison({2})).skipped == 1


@pytest.mark.parametrize("nonfinite", ["raise", "skip"])
def test_an_update_that_is_too_long_is_not_saved(nonfinite, tmp_path):
    """Its gradient is finite, and no later step would tell: it is the last."""
    options = {"batch_size": 64, "nonfinite": nonfinite, "optimizer": "sgd", "warmup": 2, "save_every": 1}
    with pytest.raises(FloatingPointError, match=r"a weight is not finite after step 1: .* \(lr 1e\+300"):
        train(net(), DATA, None, Config(steps=3, lr=1e300, **options), run=tmp_path)
    assert load_newest(tmp_path / "checkpoints") is None
    with pytest.raises(FloatingPointError, match="a weight is not finite after step 2"):
        train(
            net(), DATA, None, Config(steps=9, lr=1e300, log_every=2, nonfinite=nonfinite)
        )  # not: the gradient of step 2


def test_a_validation_that_is_not_finite(guard_on):
    """Every comparison with NaN is false: without a check it would pass for a loss that is merely not better."""
    bad = TensorData(torch.full((8, 2), float("nan")), torch.zeros(8, dtype=torch.int64))
    with pytest.raises(FloatingPointError, match="the validation loss is nan after step 3"):
        train(net(), DATA, bad, Config(steps=6, val_every=3))
    result = train(net(), DATA, bad, Config(steps=6, val_every=3, nonfinite="skip", patience=2))
    assert result.best is None and result.stopped_early and result.skipped == 0


def test_fp16_overflow_is_skipped_and_the_scale_halved():
    """A loss so large that its gradient times 65536 leaves fp16's range: the scaler comes down by itself."""
    config = Config(steps=12, batch_size=64, precision="fp16", log_every=1)
    result = train(net(), DATA, None, config, loss=lambda o, t: cross_entropy_sum(o, t) * 1000)
    assert 0 < result.skipped < 12
    assert [r["skipped"] for r in result.history] == sorted(r["skipped"] for r in result.history)
    assert result.history[-1]["skipped"] == result.skipped


class Small(nn.Module):
    """A model whose memory holds no more than `largest` examples at once; it says so as the CPU's allocator does."""

    def __init__(self, inner: nn.Module, largest: int):
        super().__init__()
        self.inner, self.largest = inner, largest
        self.seen = array("q")  # a list would be put back with an attempt that is undone

    @property
    def sizes(self) -> list[int]:
        return list(self.seen)

    def forward(self, x):
        if self.training:
            self.seen.append(len(x))
        outputs = self.inner(x)
        if self.training and len(x) > self.largest:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"
            )
        return outputs


def plain_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3)).double()


def test_out_of_memory_halves_the_parts_and_keeps_the_arithmetic(capsys):
    data = TensorData(DATA.x.double(), DATA.y)
    config = Config(steps=5, batch_size=32, lr=0.1, optimizer="sgd", out_of_memory="halve")
    roomy, small = plain_net(), Small(plain_net(), largest=10)
    train(roomy, data, None, config)
    train(small, data, None, config)
    assert small.sizes[:7] == [32, 16, 8, 8, 8, 8, 8]  # tried, halved, halved; then four parts a step
    for a, b in zip(roomy.parameters(), small.inner.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-14)
    assert "out of memory at step 1" in capsys.readouterr().out


class Counting(nn.Module):
    """Counts its calls in training, in each way that a module may keep a number; what goes through it is as before."""

    def __init__(self):
        super().__init__()
        self.calls, self.sizes, self.total = 0, [], torch.zeros(())

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.sizes.append(len(x))
            self.total += len(x)
        return x

    @property
    def counts(self) -> tuple[int, list[int], float]:
        return self.calls, self.sizes, self.total.item()


def test_an_undone_attempt_is_forgotten_by_what_counts_in_plain_attributes():
    before, behind = Counting(), Counting()  # only the first has seen the attempts
    small = nn.Sequential(before, Small(plain_net(), largest=16), behind)
    data = TensorData(DATA.x.double(), DATA.y)
    train(small, data, None, Config(steps=3, batch_size=64, out_of_memory="halve"))
    assert before.counts == behind.counts == (12, [16] * 12, 192.0)


def test_without_being_asked_to_halve_it_says_how_to_go_on(tmp_path):
    """Both ways go on in its folder, where memory has run out after a checkpoint, and end as if it had not."""
    data = TensorData(DATA.x.double(), DATA.y)
    config = Config(steps=4, batch_size=32, lr=0.1, optimizer="sgd", save_every=1)
    roomy = train(plain_net(), data, None, config).model

    def shrink(module, inputs):
        if len(module.sizes) == 3:
            module.largest = 16

    for number, cure in enumerate(({"accumulation": 2}, {"out_of_memory": "halve"})):
        model = Small(plain_net(), largest=32)
        model.register_forward_pre_hook(shrink)
        with pytest.raises(RuntimeError, match=r"step 4 with 32 examples at a time .* parameters [\d,]+") as error:
            train(model, data, None, config, run=tmp_path / f"{number}")
        assert all(f"{name}={value!r}" in str(error.value) for name, value in cure.items())
        small = Small(plain_net(), largest=16)
        train(small, data, None, replace(config, **cure), run=tmp_path / f"{number}")
        assert small.sizes[-2:] == [16, 16] and len(small.sizes) <= 3
        for a, b in zip(roomy.parameters(), small.inner.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-14)


def test_out_of_memory_repeats_the_step_with_the_same_streams_and_buffers():
    """The failed attempts have drawn dropout masks and moved BatchNorm's statistics; neither may show."""
    small = Small(net(), largest=16)
    train(small, DATA, None, Config(steps=3, batch_size=64, lr=1e-2, out_of_memory="halve"))
    calm = net()
    train(calm, DATA, None, Config(steps=3, batch_size=64, lr=1e-2, accumulation=4))
    assert same(tensors(small.inner), tensors(calm))


def test_out_of_memory_with_one_example_left_is_an_error():
    """It says where the bytes are, but for the activations; those of AdamW are to come. On a CPU: a GPU's allocator also
    knows the bytes of the activations.
    """
    model = nn.Linear(2, 3).double()
    config = Config(steps=1, batch_size=4, ema=0.9, device="cpu", out_of_memory="halve")
    with pytest.raises(
        RuntimeError, match=r"out of memory at step 1 with one example at a time .*can't allocate memory"
    ) as e:
        train(Small(model, 0), TensorData(DATA.x.double(), DATA.y), None, config)
    floats = 8 * (2 * 3 + 3)
    held = {"parameters": floats, "gradients": floats, "optimizer": 0, "average": floats, "batch": 8 * 4 * (2 + 1)}
    assert all(f"{kind} {number}" in str(e.value) for kind, number in held.items())


def test_memory_that_a_failed_backward_held_is_free_for_the_next_attempt():
    """What its forward kept for it is gone when the smaller parts begin."""
    alive = weakref.WeakSet()

    class Witness(nn.Module):
        def forward(self, x):
            hidden = x * 1
            if self.training:
                assert not alive
                alive.add(hidden)
                hidden.register_hook(refuse_large)
            return hidden**2

    def refuse_large(gradient):
        if len(gradient) > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    model = nn.Sequential(nn.Linear(2, 3), Witness())
    train(model, DATA, None, Config(steps=2, batch_size=8, out_of_memory="halve"))


def test_other_runtime_errors_are_not_taken_for_it():
    class Broken(nn.Linear):
        def forward(self, x):
            if self.training:
                raise RuntimeError("something else")
            return super().forward(x)

    with pytest.raises(RuntimeError, match="something else"):
        train(Broken(2, 3), DATA, None, Config(steps=1))


def test_the_halved_parts_are_kept_on_resume(tmp_path):
    options = {"steps": 6, "batch_size": 32, "save_every": 1, "out_of_memory": "halve"}
    first, again = Small(plain_net(), 10), Small(plain_net(), 10)
    train(first, TensorData(DATA.x.double(), DATA.y), None, Config(**options), run=tmp_path)
    for path in sorted((tmp_path / "checkpoints").iterdir())[1:]:
        path.unlink()
    train(again, TensorData(DATA.x.double(), DATA.y), None, Config(**options), run=tmp_path)
    assert again.sizes == first.sizes[-8:] == [8] * 8  # the two steps that were made again


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU])
def test_a_closed_terminal_and_a_clusters_warning_are_heeded_unless_the_program_does_so(number, tmp_path):
    def warned(outputs, targets):
        if outputs.requires_grad:
            os.kill(os.getpid(), number)
        return cross_entropy_sum(outputs, targets)

    with pytest.raises(SystemExit) as left:
        train(net(), DATA, None, Config(steps=9), loss=warned, run=tmp_path)
    assert left.value.code == SIGTERM_EXIT and load_newest(tmp_path / "checkpoints")["progress"]["step"] == 1
    assert signal.getsignal(number) is signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN)  # as nohup does
    try:
        assert train(net(), DATA, None, Config(steps=3), loss=warned).steps == 3
    finally:
        signal.signal(number, signal.SIG_DFL)


def test_a_sigterm_that_nobody_heeded_ends_the_process_after_the_last_step():
    with pytest.raises(SystemExit) as left, Termination() as sigterm:
        os.kill(os.getpid(), signal.SIGTERM)
        assert sigterm.asked
    assert left.value.code == SIGTERM_EXIT
    with pytest.raises(ZeroDivisionError), Termination():  # an error says more
        os.kill(os.getpid(), signal.SIGTERM)
        1 / 0  # noqa: B018
