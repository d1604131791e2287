"""The memory model against a dry run, to the byte, and both against what the CPU's allocator was asked for."""

import random
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from helpers.fake_cuda import Allocator
from torch.profiler import ProfilerActivity, profile

from utils.facts import MODELS
from utils.measure import LiveBytes, Phase, memory_model, round_to_blocks, saved_bytes
from utils.measure.dry_run import (
    Plan,
    checkpoint_layers,
    largest_micro_batch,
    ledger_gpt,
    ledger_mlp,
    ledger_shape,
    training_steps,
)
from utils.measure.memory_model import check_allocator, gpt_parameters, mlp_parameters, predict_gpt, predict_mlp
from utils.measure.memory_timeline import KINDS, MIB, Timeline
from utils.models import GPT, MLP

UPDATES = [(optimizer, how) for optimizer in ("sgd", "adamw") for how in ("for-loop", "foreach", "fused")]
PLANS = [Plan(*update, *rest) for update, *rest in product(UPDATES, (False, True), (1, 3))]


class Crested(Timeline):
    """A Timeline that remembers its crests: the bytes alive whenever something is freed after something was born."""

    def __init__(self):
        super().__init__()
        self.crests, self.rising = [], False

    def new(self, *args, **kwargs):
        self.rising = True
        return super().new(*args, **kwargs)

    def free(self, *storages):
        if self.rising and storages:
            self.crests.append(self.live)
            self.rising = False
        super().free(*storages)


@pytest.fixture(autouse=True)
def crested(monkeypatch):
    monkeypatch.setattr(memory_model, "Timeline", Crested)


def same(predicted: Crested, ledger) -> None:
    """Every phase's bytes, and every crest in between, in order."""
    assert predicted.phases == ledger.phases
    assert predicted.peak == ledger.peak
    trace = iter(ledger.trace)
    assert [crest for crest in predicted.crests if crest not in trace] == []  # `in` moves the iterator on


def drawn_sizes(seed: int) -> tuple[tuple, tuple]:
    """Arguments of predict_mlp and of predict_gpt that nobody chose."""
    draw = random.Random(seed).randint
    mlp = tuple(draw(1, 40) for _ in range(draw(2, 6))), draw(1, 30)
    heads, context = draw(1, 4), draw(1, 24)
    gpt = (draw(1, 90), context, heads * draw(2, 7), heads, draw(1, 3), draw(1, 5), draw(1, context))
    return mlp, gpt


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.slow), "meta"])
@pytest.mark.parametrize("seed, plan", list(enumerate(PLANS)), ids=["-".join(map(str, plan)) for plan in PLANS])
def test_the_prediction_is_the_ledger_to_the_byte(seed, plan, device):
    if plan.implementation == "fused" and device == "meta":
        plan = plan._replace(implementation="foreach")  # torch's fused kernels do not exist on meta
    mlp, gpt = drawn_sizes(seed)
    same(predict_mlp(*mlp, plan), ledger_mlp(*mlp, plan, device))
    same(predict_gpt(*gpt, plan), ledger_gpt(*gpt, plan, device))


CORNERS = {
    "one sequence": {"batch": 1},
    "two sequences": {"batch": 2},
    "one head": {"heads": 1},
    "one token": {"tokens": 1},
    "one sequence of one token": {"batch": 1, "tokens": 1},
    "one of each": {"vocabulary": 1, "context": 1, "width": 2, "heads": 1, "layers": 1, "batch": 1, "tokens": 1},
    "long and narrow": {"context": 50, "width": 4, "tokens": 50},
    "wide and short": {"width": 64, "tokens": 2},
    "many symbols": {"vocabulary": 5000},
}


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("corner", CORNERS)
def test_where_a_reshape_is_a_view_and_where_another_tensor_is_the_largest(corner, checkpointed):
    sizes = {"vocabulary": 13, "context": 9, "width": 8, "heads": 2, "layers": 2, "batch": 3, "tokens": 7} | CORNERS[
        corner
    ]
    plan = Plan("sgd", checkpointed=checkpointed, steps=1)
    same(predict_gpt(**sizes, plan=plan), ledger_gpt(**sizes, plan=plan))


@pytest.mark.slow
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_known_model_at_its_real_size(checkpointed):
    gpt2, plan = MODELS["GPT-2"], Plan(checkpointed=checkpointed)
    sizes = (gpt2.vocabulary, gpt2.context, gpt2.width, gpt2.heads, gpt2.layers)
    same(predict_gpt(*sizes, 4, gpt2.context, plan), ledger_shape(gpt2, 4, plan=plan))


def test_the_parameters_are_the_models():
    mlp = {tuple(p.shape) for p in MLP((5, 7, 3)).parameters()}
    assert set(mlp_parameters((5, 7, 3)).values()) == mlp
    model = GPT(11, 5, 8, 2, 3)
    assert list(gpt_parameters(11, 5, 8, 3).values()) == [tuple(p.shape) for p in model.parameters()]


# ---- what no dispatch mode saw ---------------------------------------------------------------------------------------


def memory_events(profiler: profile) -> list:
    """What the profiler saw of the CPU's allocator: .nbytes() is negative where memory was given back."""
    return [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]


def asked_of_the_cpu(build, data, plan: Plan) -> int:
    """The peak of all bytes that the CPU's allocator was asked for: the profiler's book, with no instrument around."""

    def run():
        model = build()
        training_steps(model, *data(), plan, SimpleNamespace(phase=lambda name: nullcontext()))

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        run()
    live = highest = 0
    for event in sorted(memory_events(profiler), key=lambda event: event.start_ns()):
        live += event.nbytes()
        highest = max(highest, live)
    assert live == 0, "everything was given back"
    return highest


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("sizes", [(65, 32, 24, 4, 2, 8, 32), (65, 64, 64, 4, 4, 8, 64), (3, 8, 16, 2, 3, 64, 8)])
def test_the_cpus_allocator_was_asked_for_as_much(sizes, optimizer):
    """But for 8 bytes a layer: √d as a Python number, which autograd keeps as a tensor that no operation returns."""
    vocabulary, context, width, heads, layers, batch, tokens = sizes
    asked = asked_of_the_cpu(
        lambda: GPT(vocabulary, context, width, heads, layers, attention="plain"),
        lambda: [torch.zeros(batch, tokens, dtype=torch.long) for _ in range(2)],
        Plan(optimizer),
    )
    assert asked == predict_gpt(*sizes, Plan(optimizer)).peak + 8 * layers


@pytest.mark.parametrize("layers", [1, 3])
def test_checkpointing_also_keeps_the_state_of_the_random_stream(layers):
    """One for each block, so that dropout falls alike when it is run again, and √d; no operation returns either."""
    model = checkpoint_layers(GPT(65, 64, 64, 4, layers, attention="plain"))
    tokens = torch.zeros(8, 64, dtype=torch.long)
    with LiveBytes() as memory:
        logits = model(tokens)
        seen = memory.live
    del logits
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        logits = model(tokens)
    kept = sum(event.nbytes() for event in memory_events(profiler))
    assert kept - seen == layers * (torch.get_rng_state().nbytes + 8)
    assert logits.requires_grad


@pytest.mark.parametrize("checkpointed", [False, True])
def test_activations_are_what_autograd_saves(checkpointed):
    """And the tokens and targets, which are saved too, but are data."""
    B, T = 3, 7
    plan, model = Plan(checkpointed=checkpointed, steps=1), GPT(13, 9, 8, 2, 2, attention="plain")
    model = checkpoint_layers(model) if checkpointed else model
    tokens, targets = (torch.zeros(B, T, dtype=torch.long) for _ in range(2))

    def loss():
        return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()) / 1

    predicted = [kinds for phase, kinds in predict_gpt(13, 9, 8, 2, 2, B, T, plan).history if phase == "forward 1"]
    saved = saved_bytes(loss, parameters=model.parameters())
    assert saved.activations == predicted[-1]["activations"] + tokens.nbytes + targets.nbytes


# ---- what a prediction says ------------------------------------------------------------------------------------------

SMALL = {"vocabulary": 65, "context": 32, "width": 32, "heads": 4, "layers": 4, "batch": 8, "tokens": 32}


def test_adamws_state_makes_the_second_step_higher_and_sgd_has_none():
    first, second = predict_gpt(**SMALL, plan=Plan(steps=1)), predict_gpt(**SMALL, plan=Plan(steps=2))
    state = second.kinds["optimizer state"]
    assert state == 2 * second.kinds["parameters"] + 4 * len(gpt_parameters(65, 32, 32, 4))
    assert second.peak - first.peak == state, "the peak is in backward, and it comes back on top of the state"
    assert predict_gpt(**SMALL, plan=Plan("sgd", steps=1)).peak == predict_gpt(**SMALL, plan=Plan("sgd")).peak


def students_loop(model, x, y, steps: int, memory: LiveBytes) -> None:
    """As nearly everybody writes it."""
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for step in range(1, steps + 1):
        with memory.phase(f"step {step}"):
            logits = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def test_a_name_for_the_logits_costs_one_tensor_of_them_from_the_loss_to_the_next_forward():
    plain, named = (ledger_gpt(**SMALL, plan=Plan(named_logits=name)) for name in (False, True))
    logits = 4 * SMALL["batch"] * SMALL["tokens"] * SMALL["vocabulary"]
    for phase in ("backward 1", "clear 1", "forward 2", "backward 2", "clear 2"):
        assert named.phases[phase].end - plain.phases[phase].end == logits
    for phase in ("backward 1", "backward 2"):
        assert named.phases[phase].peak - plain.phases[phase].peak == logits

    with LiveBytes() as memory, torch.device("meta"):
        sizes = [SMALL[name] for name in ("vocabulary", "context", "width", "heads", "layers")]
        model = GPT(*sizes, attention="plain")
        x, y = (torch.zeros(SMALL["batch"], SMALL["tokens"], dtype=torch.long) for _ in range(2))
        students_loop(model, x, y, 2, memory)
    assert [memory.phases[f"step {step}"].peak for step in (1, 2)] == [
        named.phases[f"backward {step}"].peak for step in (1, 2)
    ]


NAMED = [
    Plan(named_logits=True),
    Plan("sgd", checkpointed=True, named_logits=True),
    Plan("adamw", "foreach", micro_batches=3, steps=3, named_logits=True),
]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("plan", NAMED, ids=["plain", "checkpointed", "three micro-batches"])
def test_named_logits_are_predicted_to_the_byte(plan, device):
    mlp, gpt = drawn_sizes(seed=1)
    same(predict_mlp(*mlp, plan), ledger_mlp(*mlp, plan, device))
    same(predict_gpt(*gpt, plan), ledger_gpt(*gpt, plan, device))


def test_micro_batches_pay_for_data_and_gradients_and_save_the_rest():
    whole = predict_gpt(**SMALL, plan=Plan("sgd"))
    parts = predict_gpt(**SMALL | {"batch": 2}, plan=Plan("sgd", micro_batches=4))
    assert parts.kinds["data"] == whole.kinds["data"]
    assert parts.kinds_at_peak["gradients"] > whole.kinds_at_peak["gradients"]
    assert parts.peak < whole.peak / 2


def test_checkpointing_lowers_the_peak_by_less_than_what_is_kept():
    """What backward finds shrinks to a block's input each; then one block is run again and is there in full."""
    plain, again = (predict_gpt(**SMALL, plan=Plan("sgd", checkpointed=c, steps=1)) for c in (False, True))
    kept = [t.phases["forward 1"].end - t.phases["data"].end for t in (plain, again)]
    peaks = [t.peak - t.phases["data"].end for t in (plain, again)]
    assert kept[0] / kept[1] > peaks[0] / peaks[1] > 1


@pytest.mark.parametrize("how, roots", [("for-loop", 0.375), ("foreach", 1), ("fused", 0)])
def test_what_the_update_itself_takes(how, roots):
    """Of 8 weights of one size: for-loop three tensors at a time, foreach all roots at once, fused nothing."""
    t = Timeline()
    memory_model._predict_update(t, [400] * 8, Plan("adamw", how), step=2)
    assert t.peak == roots * 8 * 400
    assert t.live == 0


def test_a_timeline_keeps_its_books():
    t = Timeline()
    with t.phase("one"):
        a = t.new(1000, "activations")
        b = t.new(10, count=3)
        t.drop(a, b)
    with t.phase("two"):
        c = t.new(3 * MIB)
        t.become("gradients", c)
        t.new(4, "optimizer state", on_host=True)
        t.free(a)
    assert t.phases == {"one": Phase(0, 1000, 1030), "two": Phase(1000, 3 * MIB + 4, 1000 + 3 * MIB + 4)}
    assert t.kinds == dict.fromkeys(KINDS, 0) | {"gradients": 3 * MIB, "optimizer state": 4}
    assert t.blocks == (3 * MIB + 1024, 4 * MIB + 1024), "a rest of up to 1 MiB may stick to a large block"
    assert t.on_host == 4
    assert [phase for phase, _ in t.history] == ["one", "one", "two", "two"]
    with pytest.raises(KeyError):
        t.free(a)


# ---- the largest batch that fits -------------------------------------------------------------------------------------

TINY = replace(
    MODELS["GPT-2"], name="tiny", layers=2, width=32, heads=2, kv_heads=2, ffn=128, vocabulary=97, context=16
)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [Plan(), Plan("sgd", checkpointed=True), Plan(micro_batches=2)])
def test_the_largest_micro_batch_fits_and_the_next_does_not(plan):
    memory = 2_000_000
    batch = largest_micro_batch(TINY, memory, plan=plan)
    assert ledger_shape(TINY, batch, plan=plan).peak <= memory < ledger_shape(TINY, batch + 1, plan=plan).peak
    by_formula = (b for b in range(1, 10_000) if predict_gpt(97, 16, 32, 2, 2, b + 1, 16, plan).peak > memory)
    assert batch == next(by_formula)


def test_the_edges_of_what_fits():
    one = ledger_shape(TINY, 1, 16).peak
    assert [largest_micro_batch(TINY, one + extra, tokens=16) for extra in (-1, 0)] == [0, 1]
    two = ledger_shape(TINY, 2, 16).peak
    assert [largest_micro_batch(TINY, two + extra, tokens=16) for extra in (-1, 0)] == [1, 2]


@pytest.mark.nightly
@pytest.mark.slow
def test_gpt_2_on_cards_that_are_not_here():
    gpt2 = MODELS["GPT-2"]
    cards = {(24, False): 12, (80, True): 118}
    sizes = (gpt2.vocabulary, gpt2.context, gpt2.width, gpt2.heads, gpt2.layers)
    for (gb, c), batch in cards.items():
        assert largest_micro_batch(gpt2, gb * 10**9, plan=Plan(checkpointed=c)) == batch
        at, above = (predict_gpt(*sizes, b, gpt2.context, Plan(checkpointed=c)).peak for b in (batch, batch + 1))
        assert at <= gb * 10**9 < above


# ---- a GPU's allocator -----------------------------------------------------------------------------------------------


class Run:
    """Replays a list of sizes on a stand-in for CUDA's allocator; the first time a library takes a workspace, too."""

    def __init__(self, allocator: Allocator, sizes: list[int], workspace: int):
        self.allocator, self.sizes, self.workspace = allocator, sizes, workspace

    def __call__(self):
        if self.workspace:
            self.allocator.take(self.workspace)
            self.workspace = 0
        for sign in (1, -1):
            for size in self.sizes:
                self.allocator.take(sign * size)
        torch.ones(1) + 1  # an operation


def test_a_gpus_allocator_is_compared_in_blocks():
    t = Timeline()
    sizes = [1000, 10, 5000]
    for size in sizes:
        t.new(size)
    t.new(4, on_host=True)
    allocator = Allocator()
    check = check_allocator(t, Run(allocator, sizes, 8_519_680), allocator=allocator)
    assert check == (6010, 6010, 6656, 6656, 6656, 8_519_680, 0)
    assert check.least == sum(map(round_to_blocks, sizes))
    assert check.agrees
    for wrong in ([*sizes, 1], sizes[:2]):
        allocator = Allocator()
        assert not check_allocator(t, Run(allocator, wrong, 0), allocator=allocator).agrees


class Blocks(LiveBytes):
    """Takes every tensor that a run makes from a stand-in for CUDA's allocator, and gives it back when it dies.

    What torch.tensor makes, AdamW's counters of steps, lives on the host with a GPU, and is left out.
    """

    def __init__(self, allocator: Allocator):
        super().__init__()
        self.allocator, self.on_host = allocator, False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.on_host = function is torch.ops.aten.lift_fresh.default
        return super().__torch_dispatch__(function, types, args, kwargs)

    def _register(self, tree, counted: bool) -> None:
        known = set(self._known)
        super()._register(tree, counted and not self.on_host)
        for address in self._known.keys() - known:
            self._take(self._known[address])

    def _forget(self, address: int) -> None:
        size = self._known[address]
        super()._forget(address)
        self._take(-size)

    def _take(self, size: int) -> None:
        if size:
            self.allocator.take(size)


GPU_PLANS = [
    Plan("sgd", "foreach"),
    Plan("adamw", "foreach"),
    Plan("adamw", "fused", True),
    Plan("adamw", micro_batches=3),
]


@pytest.mark.slow
@pytest.mark.parametrize("plan", GPU_PLANS)
def test_a_whole_run_through_the_stand_in_allocator(plan):
    sizes, allocator = (65, 64, 64, 4, 4, 8, 64), Allocator()

    def run():
        with Blocks(allocator):
            ledger_gpt(*sizes, plan, "cpu")

    check = check_allocator(predict_gpt(*sizes, plan), run, allocator=allocator)
    assert check.requested == check.requested_least
    assert check.least <= check.allocated <= check.most and check.allocated > check.requested
    assert (check.workspaces, check.scratch) == (0, 0) and check.agrees
    for wrong in (
        predict_gpt(*sizes[:5], 9, 64, plan),
        predict_gpt(*sizes, plan._replace(checkpointed=not plan.checkpointed)),
    ):
        assert not check_allocator(wrong, run, allocator=allocator).agrees


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("plan", [Plan("sgd", "foreach"), Plan("adamw", "foreach"), Plan("sgd", "foreach", True)])
def test_a_real_gpu_agrees(plan):
    sizes = (65, 64, 64, 4, 4, 8, 64)
    check = check_allocator(predict_gpt(*sizes, plan), lambda: ledger_gpt(*sizes, plan, "cuda"))
    assert check.agrees, check


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"batch": 0}, "batch is 0: at least 1"),
        ({"layers": -1}, "layers is -1"),
        ({"tokens": 33}, "33 tokens are more than the context of 32"),
        ({"heads": 5}, "5 heads of width 6.4"),
        ({"heads": 32}, "32 heads of width 1"),
        ({"plan": Plan("adam")}, "no prediction for 'adam'"),
        ({"plan": Plan(implementation="best")}, "one of for-loop, foreach, fused"),
        ({"plan": Plan(micro_batches=0)}, "micro_batches is 0"),
        ({"plan": Plan(steps=0)}, "steps is 0"),
    ],
)
def test_what_cannot_be_predicted_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        predict_gpt(**SMALL | wrong)


def test_more_of_what_is_refused():
    for predict in (predict_mlp, ledger_mlp):
        with pytest.raises(ValueError, match="narrowest is 0"):
            predict((3, 0, 2), 1)
        with pytest.raises(ValueError, match="layers is 0"):
            predict((3,), 1)
    with pytest.raises(ValueError, match="memory of 0 bytes"):
        largest_micro_batch(TINY, 0)
    with pytest.raises(ValueError, match="99 tokens are more than the context of 16"):
        largest_micro_batch(TINY, 10**9, tokens=99)
