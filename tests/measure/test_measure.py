"""utils/measure/memory.py: each instrument against what is known without it: sizes by hand, products counted in loops."""

import gc
import weakref
from contextlib import nullcontext
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from helpers.fake_cuda import Allocator
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import flop_registry

from utils.device import accelerator
from utils.measure import (
    AllocatorBytes,
    LiveBytes,
    Phase,
    ScratchBytes,
    attention_formulas,
    count_flops,
    flops_by_operation,
    ratio,
    round_to_blocks,
    saved_bytes,
    time_paired,
    timing,
    uncounted_operations,
)
from utils.models import GPT, MLP, Llama

aten = torch.ops.aten

# ---- bytes alive -----------------------------------------------------------------------------------------------------


def test_a_tensor_counts_while_it_lives():
    with LiveBytes() as memory:
        a = torch.zeros(1000)
        assert memory.live == 4000
        b = torch.zeros(10, dtype=torch.float64)
        assert memory.live == 4080
        del a
        assert memory.live == 80
    assert memory.peak == 4080
    del b
    assert memory.live == 0, "storages that die after the block still leave the book"


def test_views_share_one_count_and_keep_the_whole_storage_alive():
    with LiveBytes() as memory:
        a = torch.zeros(1000)
        row = a.view(10, 100)[3]
        assert memory.live == 4000
        del a
        assert memory.live == 4000, "ten rows live as long as one of them"
        del row
        assert memory.live == 0
        gappy = torch.empty_strided((2, 1), (100, 1))
        assert memory.live == 101 * 4, "bytes of the storage, not of the elements"
        del gappy


def test_what_was_there_before_does_not_count_not_even_through_a_view():
    old = torch.zeros(100, 100)
    with LiveBytes() as memory:
        view = old.t()
        assert memory.live == 0
        new = view + 1
        old.add_(1)
        assert memory.live == 40_000
        del new


def test_tensors_made_from_python_numbers_count():
    with LiveBytes() as memory:
        a = torch.tensor([1.0, 2.0, 3.0])
        assert memory.live == 12
        del a
    assert memory.live == 0


def test_the_trace_and_reset_peak():
    with LiveBytes() as memory:
        a = torch.zeros(1000)
        kept = torch.zeros(5)
        del a
        memory.reset_peak()
        assert memory.peak == 20, "a fresh peak starts at what is alive"
        b = torch.zeros(10)
    assert memory.trace == [4000, 4020, 60]
    assert memory.peak == 60
    del b, kept


@pytest.mark.parametrize("layers", [1, 2, 4, 8])
def test_the_graph_keeps_one_activation_a_layer(layers):
    """Each ReLU's output is what it and the next Linear save; the loss adds its own 4 bytes."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(layers)])
    x = torch.randn(32, 64)
    with LiveBytes() as memory:
        loss = model(x).sum()
        assert memory.live == layers * 32 * 64 * 4 + 4
        loss.backward()
        parameters = sum(p.numel() for p in model.parameters())
        assert memory.live == parameters * 4 + 4, "activations gone, one gradient per parameter"


def test_meta_tensors_count_as_if_they_were_real():
    with LiveBytes() as memory:
        x = torch.zeros(1024, 1024, device="meta")
        y = x @ x
        assert memory.live == 2 * 1024 * 1024 * 4
        del y


def test_phases_split_the_block():
    with LiveBytes() as memory:
        a = torch.zeros(10)
        with memory.phase("first"):
            b = torch.zeros(100)
            del b
            c = torch.zeros(1)
        with memory.phase("second"):
            del a
        with memory.phase("idle"):
            pass
    assert memory.phases == {"first": Phase(40, 44, 440), "second": Phase(44, 4, 44), "idle": Phase(4, 4, 4)}
    del c


def test_phases_nest_and_a_phase_that_comes_back_spans_all_its_stays():
    with LiveBytes() as memory, memory.phase("all"):
        kept = []
        for size in (10, 50, 5):
            with memory.phase("part"):
                kept.append(torch.zeros(size))
                with memory.phase(f"{size}"):
                    torch.zeros(size)
    assert memory.phases["part"] == Phase(0, 260, 440), "40 + 200 + 20 kept; most: 240 and a scratch of 200"
    assert memory.phases["all"] == memory.phases["part"]
    assert memory.phases["50"] == Phase(240, 240, 440)


def test_a_phase_that_fails_is_still_entered():
    with LiveBytes() as memory, pytest.raises(KeyError), memory.phase("broken"):
        torch.zeros(3)
        raise KeyError
    assert memory.phases == {"broken": Phase(0, 0, 12)}


# ---- bytes kept for backward -----------------------------------------------------------------------------------------


def kept(function, *inputs) -> int:
    return saved_bytes(function, *inputs).activations


def test_what_each_operation_keeps():
    """One tensor of 60 values is 240 bytes; the table is autograd's formulas, read off derivatives.yaml."""
    x, y = (torch.rand(5, 12, requires_grad=True) for _ in range(2))
    one = 5 * 12 * 4
    table = {
        "nothing": (lambda a, b: [a + b, a - b, a * 3, a.sum(), a.mean(), a.view(60), a.t(), -a], 0),
        "relu": (lambda a, b: a.relu(), one),
        "exp": (lambda a, b: a.exp(), one),
        "tanh": (lambda a, b: a.tanh(), one),
        "softmax": (lambda a, b: a.softmax(-1), one),
        "gelu": (lambda a, b: F.gelu(a), one),
        "log": (lambda a, b: a.log(), one),
        "both factors": (lambda a, b: a * b, 2 * one),
        "a square is one factor": (lambda a, b: a * a, one),
        "both matrices": (lambda a, b: a @ b.t(), 2 * one),
        "only what the other's gradient needs": (lambda a, b: a.detach() @ b.t(), one),
        "norm: input, mean and inverse deviation": (lambda a, b: F.layer_norm(a, (12,)), one + 2 * 5 * 4),
        "the mask": (lambda a, b: a.masked_fill(torch.ones(5, 12, dtype=torch.bool), 0.0), 5 * 12),
        "a view is its storage": (lambda a, b: (a + b)[0].exp().log(), 12 * 4),
        "a slice keeps all of its storage": (lambda a, b: F.gelu((a + b)[0]), one),
    }
    assert {name: kept(f, x, y) for name, (f, _) in table.items()} == {name: size for name, (_, size) in table.items()}


def test_parameters_count_apart_also_through_their_views():
    linear = nn.Linear(7, 5, bias=False)
    x = torch.randn(3, 7)
    saved = saved_bytes(linear, x.requires_grad_(), parameters=linear.parameters())
    assert saved == (3 * 7 * 4, 7 * 5 * 4, [((3, 7), torch.float32, 84)]), "the weight is saved as its transpose"
    assert saved_bytes(linear, x).activations == 84 + 140, "who names no parameters gets them as activations"


def test_parameters_with_their_names_are_refused():
    linear = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"not tuple: .*model.parameters\(\)"):
        saved_bytes(linear, torch.ones(2), parameters=linear.named_parameters())


def test_the_tensors_are_the_activations():
    saved = saved_bytes(lambda a: a.double().exp().float().tanh(), torch.randn(4, requires_grad=True))
    assert saved.tensors == [((4,), torch.float64, 32), ((4,), torch.float32, 16)]
    assert saved.activations == 48


def test_nothing_is_kept_without_a_graph():
    with torch.no_grad():
        assert saved_bytes(MLP((6, 5, 4)), torch.randn(3, 6)) == (0, 0, [])


def test_an_address_that_is_used_again_counts_again():
    """Each round's graph dies before the next: five tensors, though an allocator may give all the same address."""

    def rounds():
        for _ in range(5):
            torch.ones(1000, requires_grad=True).exp().sum().backward()

    assert saved_bytes(rounds).activations == 5 * 4000


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("layers", [1, 3])
def test_kept_bytes_equal_live_bytes(device, layers):
    """What a forward keeps alive is what autograd saved of it, plus the loss, less the input that was there before."""
    model = GPT(11, 8, 16, 2, layers).to(device)
    tokens = torch.zeros(3, 8, dtype=torch.long, device=device)

    def loss():
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    with LiveBytes() as memory:
        result = loss()
        live = memory.live
    saved = saved_bytes(loss, parameters=model.parameters())
    assert saved.activations == live - 4 + tokens.nbytes
    assert result.nbytes == 4


def test_the_instrument_makes_no_cycle():
    """A pack hook that returns the tensor itself keeps output and graph alive until the garbage collector runs."""
    gc.disable()
    try:
        x = torch.randn(3, requires_grad=True)
        outputs = []

        def f():
            y = x.exp()
            outputs.append(weakref.ref(y))

        saved_bytes(f)
        assert outputs[0]() is None
    finally:
        gc.enable()


# ---- bytes of CUDA's allocator ---------------------------------------------------------------------------------------


def test_rounding_to_blocks():
    sizes = [0, 1, 511, 512, 513, 4096, 33 * 33 * 4]
    assert [round_to_blocks(size) for size in sizes] == [0, 512, 512, 512, 1024, 4096, 4608]
    assert round_to_blocks(3 * 2**20 + 1, 2**20) == 4 * 2**20
    with pytest.raises(ValueError, match="-1 bytes"):
        round_to_blocks(-1)


def test_the_allocator_is_read_beyond_what_was_there_before():
    allocator = Allocator()
    allocator.take(5000)
    allocator.take(100_000)
    allocator.take(-100_000)  # a peak before the block is not the block's
    with AllocatorBytes(allocator=allocator) as memory:
        allocator.take(100)
        allocator.take(1000)
        allocator.take(-1000)
    assert (memory.end, memory.peak) == (512, 512 + 1024)
    assert (memory.requested_end, memory.requested_peak) == (100, 1100)
    assert allocator.synchronized == 2, "before and after: kernels may still be running"


def test_scratch_is_what_an_operation_takes_beyond_its_results():
    allocator = Allocator()

    def product(a, b):
        allocator.take(4000)  # a result
        for workspace in (700, 300):
            allocator.take(workspace)
            allocator.take(-workspace)
        return a @ b

    with torch.library._scoped_library("course_test", "DEF") as library:
        library.define("product(Tensor a, Tensor b) -> Tensor")
        library.impl("product", product, "CPU")
        a = torch.ones(2, 2)
        with ScratchBytes(allocator=allocator) as operations:
            torch.ops.course_test.product(a, a) + 1
    assert operations.bytes == {"course_test.product": 1024, "aten.add": 0}


@pytest.mark.skipif(accelerator() is not None, reason="there is a GPU")
def test_without_a_gpu_the_allocator_says_so():
    for instrument in (AllocatorBytes, ScratchBytes):
        with pytest.raises(RuntimeError, match="no GPU here: use LiveBytes"):
            instrument()


@pytest.mark.parametrize("name", ["mps", "xpu", "cuda:99", "cpu"])
def test_a_device_without_an_allocator_here_is_named(name):
    if name.split(":")[0] == str(accelerator()):
        pytest.skip(f"there is a {name}")
    for instrument in (AllocatorBytes, ScratchBytes):
        with pytest.raises(ValueError, match=f"device '{name}' (is not available here|has no allocator)"):
            instrument(name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_cuda_asks_for_the_bytes_of_the_ledger():
    with AllocatorBytes() as memory, LiveBytes() as ledger:
        tensors = [torch.zeros(n, device="cuda") for n in (1, 33 * 33, 100_000)]
    assert memory.requested_end == ledger.live == sum(t.nbytes for t in tensors)
    assert memory.end == sum(round_to_blocks(t.nbytes) for t in tensors)


# ---- FLOPs -----------------------------------------------------------------------------------------------------------


class Counted(float):
    """A number that counts the multiplications and additions it takes part in."""

    operations = 0

    def __mul__(self, other):
        Counted.operations += 1
        return Counted(float(self) * float(other))

    def __add__(self, other):
        Counted.operations += 1
        return Counted(float(self) + float(other))


def multiply(a: list, b: list) -> list:
    """The matrix product by its definition, in three loops."""
    result = []
    for row in a:
        result.append([])
        for column in zip(*b, strict=True):
            total = Counted(0)
            for x, y in zip(row, column, strict=True):
                total = total + Counted(x) * y
            result[-1].append(total)
    return result


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (3, 4, 5), (7, 2, 1)])
def test_a_product_is_counted_as_its_loops_do_it(m, k, n):
    a, b = torch.randn(m, k), torch.randn(k, n)
    Counted.operations = 0
    looped = torch.tensor(multiply(a.tolist(), b.tolist()))
    torch.testing.assert_close(looped, a @ b)
    assert count_flops(torch.matmul, a, b) == Counted.operations == 2 * m * k * n


def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (2, 2, 3, 5, 4), (4, 2, 3, 3, 2)])
def test_fused_attention_is_counted_as_its_loops_do_it(shape):
    heads, shared, T, S, d = shape
    q, k, v = torch.randn(1, heads, T, d), torch.randn(1, shared, S, d), torch.randn(1, shared, S, d)
    Counted.operations = 0
    for head in range(heads):
        group = head * shared // heads
        scores = multiply((q[0, head] / d**0.5).tolist(), k[0, group].t().tolist())
        looped = multiply(torch.tensor(scores).softmax(-1).tolist(), v[0, group].tolist())
        torch.testing.assert_close(torch.tensor(looped), attend(q, k, v)[0, head])
    assert count_flops(attend, q, k, v) == Counted.operations == 4 * heads * T * S * d


def step(model, *inputs):
    model(*inputs).sum().backward()


def inputs_of(model, device):
    if isinstance(model, MLP):
        return torch.zeros(5, 6, device=device)
    return torch.zeros(3, 8, dtype=torch.long, device=device)


@pytest.mark.parametrize("device", ["cpu", "meta", *(["cuda"] if torch.cuda.is_available() else [])])
def test_one_total_on_every_device(device):
    mlp, gpt = MLP((6, 7, 4, 2)).to(device), GPT(11, 8, 16, 2, 3).to(device)
    weights = 6 * 7 + 7 * 4 + 4 * 2
    assert count_flops(mlp, inputs_of(mlp, device)) == 2 * 5 * weights
    assert count_flops(step, mlp, inputs_of(mlp, device)) == 6 * 5 * weights - 2 * 5 * 6 * 7  # no gradient of the data
    B, T, D, L, V = 3, 8, 16, 3, 11
    forward = 2 * B * T * (12 * D * D * L + D * V) + 4 * B * T * T * D * L
    assert count_flops(gpt, inputs_of(gpt, device)) == forward
    assert count_flops(step, gpt, inputs_of(gpt, device)) == 3 * forward
    for model in (mlp, gpt):
        assert uncounted_operations(step, model, inputs_of(model, device)) == {}


@pytest.mark.parametrize("attention", ["fused", "plain"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_queries_that_share_keys_cost_the_same_fused_and_plain(device, attention):
    """Heads share keys and values: their matrices are smaller, the attention itself is not."""
    B, T, D, L, V, ffn, shared = 2, 16, 32, 2, 50, 64, 16
    with torch.device(device):
        model = Llama(V, T, D, heads=4, kv_heads=2, ffn=ffn, layers=L, attention=attention)
    weights = L * (2 * D * D + 2 * D * shared + 3 * D * ffn) + D * V
    tokens = torch.zeros(B, T, dtype=torch.long, device=device)
    assert count_flops(step, model, tokens) == 3 * (2 * B * T * weights + 4 * B * T * T * D * L)
    assert uncounted_operations(step, model, tokens) == {}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_flops_have_no_dtype(dtype):
    a = torch.ones(3, 4, dtype=dtype)
    assert count_flops(torch.matmul, a, a.t()) == 72


def attention_step(q, k, v):
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()


def test_torchs_counter_misses_the_cpus_fused_attention_and_the_audit_says_so():
    qkv = [torch.randn(2, 3, 8, 4, requires_grad=True) for _ in range(3)]
    assert count_flops(attention_step, *qkv, formulas={}) == 0
    assert uncounted_operations(attention_step, *qkv, formulas={}) == {
        "aten._scaled_dot_product_flash_attention_for_cpu": 1,
        "aten._scaled_dot_product_flash_attention_for_cpu_backward": 1,
    }
    assert uncounted_operations(attention_step, *qkv) == {}
    square = 2 * 3 * 8 * 8 * 4
    assert list(flops_by_operation(attention_step, *qkv).values()) == [4 * square, 8 * square]
    hardware = flops_by_operation(attention_step, *qkv, formulas=attention_formulas(recomputing=True))
    assert list(hardware.values()) == [4 * square, 10 * square]


def test_recomputing_is_what_torch_says_of_the_kernels_it_knows():
    q, k, v = torch.empty(2, 4, 5, 6), torch.empty(2, 4, 7, 6), torch.empty(2, 4, 7, 3)
    forward, backward = aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_flash_attention_backward
    ours, out = attention_formulas(recomputing=True), torch.empty(2, 4, 5, 3)
    shapes = [tensor.shape for tensor in (q, k, v)]
    assert ours[forward](*shapes) == flop_registry[forward](q, k, v, out_val=out)
    assert ours[backward](out.shape, *shapes) == flop_registry[backward](out, q, k, v, out_val=shapes)


def test_checkpointing_counts_what_is_done_twice():
    layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    x = torch.randn(3, 4, requires_grad=True)
    plain = count_flops(step, layer, x)
    again = count_flops(lambda: checkpoint(layer, x, use_reentrant=False).sum().backward())
    assert (plain, again) == (6 * 3 * 32, 7 * 3 * 32), "the last Linear keeps its input, so it need not run again"


def test_the_audit_lists_what_sums_products_and_has_no_formula():
    a, m = torch.randn(8), torch.randn(8, 8)
    x = torch.randn(1, 4, 8)
    lists = {
        "aten.dot": lambda: a @ a,
        "aten.mv": lambda: m @ a,
        "aten.addmv": lambda: torch.addmv(a, m, a),
        "aten.vdot": lambda: torch.vdot(a, a),
        "aten.addbmm": lambda: torch.addbmm(m, m[None], m[None]),
        "aten._trilinear": lambda: nn.Bilinear(8, 8, 2)(m, m),
        "aten.linalg_inv_ex": lambda: torch.linalg.inv(m),
        "aten._cdist_forward": lambda: torch.cdist(m, m),
        "aten._fft_r2c": lambda: torch.fft.fft(a),
        "aten.mkldnn_rnn_layer": lambda: nn.LSTM(8, 8)(x),
    }
    assert {name: uncounted_operations(f) for name, f in lists.items()} == {name: {name: 1} for name in lists}
    quiet = [
        lambda: m @ m,
        lambda: torch.einsum("ij,jk->ik", m, m),
        lambda: nn.Conv2d(1, 2, 3)(x[None]),
        lambda: (a * a).sum(),
        lambda: torch.outer(a, a),
        lambda: torch.linalg.vector_norm(a),
        lambda: nn.Upsample(scale_factor=2, mode="bilinear")(x[None]),
        lambda: F.cross_entropy(F.layer_norm(m, (8,)), torch.zeros(8, dtype=torch.long)),
        lambda: torch.optim.AdamW([nn.Parameter(m)]).step(),
    ]
    assert [uncounted_operations(f) for f in quiet] == [{}] * len(quiet)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_audit_looks_inside_operations_made_of_others(mode):
    """Without autograd such operations arrive whole: inner is a dot, kron nothing, and a fused layer is opaque."""
    a, layer = torch.randn(8), nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    with mode():
        assert uncounted_operations(torch.inner, a, a) == {"aten.dot": 1}
        assert uncounted_operations(torch.kron, a, a) == {}
        assert uncounted_operations(layer, torch.randn(1, 3, 8)) == {"aten._transformer_encoder_layer_fwd": 1}
        assert count_flops(layer, torch.randn(1, 3, 8)) == 0


def test_an_operation_of_ones_own_is_listed_until_it_has_a_formula():
    with torch.library._scoped_library("course_test", "DEF") as library:
        library.define("harmless(Tensor a, Tensor b) -> Tensor")
        library.impl("harmless", lambda a, b: a @ b, "CPU")
        a, operation = torch.randn(3, 3), torch.ops.course_test.harmless
        assert uncounted_operations(operation, a, a) == {"course_test.harmless": 1}
        formulas = {operation: lambda a, b, out_shape=None: 2 * a[0] * a[1] * b[1]}
        assert uncounted_operations(operation, a, a, formulas=formulas) == {}
        assert count_flops(operation, a, a, formulas=formulas) == 54


def test_a_count_of_nothing_is_zero():
    assert count_flops(lambda: torch.ones(3) + 1) == 0
    assert flops_by_operation(lambda: None) == {}


# ---- seconds ---------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that moves only when told, and the calls that moved it."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def runs(self, name: str, *seconds: float):
        waits = iter(seconds)

        def call():
            self.calls.append(name)
            self.now += next(waits)

        return call


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
    return clock


def test_times_are_medians_of_rounds_after_warm_up(clock):
    timings = time_paired({"a": clock.runs("a", 100, 100, 4, 1, 9)}, rounds=3, device="cpu")
    assert timings["a"] == (4, 1, 9, (4, 1, 9))


def test_rounds_interleave_and_take_turns_to_start(clock):
    functions = {name: clock.runs(name, *[1.0] * 9) for name in "abc"}
    time_paired(functions, rounds=4, warmup=1, device="cpu")
    assert "".join(clock.calls) == "abc" + "abc" + "bca" + "cab" + "abc"


def test_the_ratio_is_paired_so_that_a_machine_that_slows_down_does_not_count(clock):
    b, factors = (1, 2, 4, 8, 16), (3, 3, 2, 3, 9)  # b gets slower; a takes three times as long, but for two accidents
    a = [seconds * factor for seconds, factor in zip(b, factors, strict=True)]
    timings = time_paired({"a": clock.runs("a", *a), "b": clock.runs("b", *b)}, rounds=5, warmup=0, device="cpu")
    assert ratio(timings["a"], timings["b"]) == 3
    assert timings["a"].median / timings["b"].median == 2, "what the medians by themselves say"


def test_a_device_that_is_not_here_is_not_timed():
    other = "xpu" if str(accelerator()) == "mps" else "mps"
    with pytest.raises(ValueError, match=f"device '{other}' is not available here, it has .*: try 'auto' or 'cpu'"):
        time_paired({"a": int}, device=other)


def test_the_devices_queue_is_empty_before_and_after_each_call(clock, monkeypatch):
    monkeypatch.setattr(timing, "synchronize", lambda device: clock.calls.append(f"wait {device}"))
    time_paired({"a": clock.runs("a", 1)}, rounds=1, warmup=0, device="cpu")
    assert clock.calls == ["wait cpu", "a", "wait cpu"]


def test_bad_timings_are_refused():
    with pytest.raises(ValueError, match="nothing to time"):
        time_paired({})
    with pytest.raises(ValueError, match="0 rounds after 2 warm-up"):
        time_paired({"a": int}, rounds=0)
    timings = time_paired({"a": int}, rounds=1, device="cpu"), time_paired({"a": int}, rounds=2, device="cpu")
    with pytest.raises(ValueError, match="1 and 2 rounds"):
        ratio(timings[0]["a"], timings[1]["a"])


# ---- what is measured does not notice --------------------------------------------------------------------------------


def result_and_gradients(around) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model, tokens = GPT(11, 8, 16, 2, 2, dropout=0.1), torch.randint(11, (3, 8))
    losses = []

    def run():
        losses.append(F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()))
        losses[0].backward()

    around(run)
    return [losses[0].detach(), *(parameter.grad for parameter in model.parameters())]


def inside(context):
    def around(run):
        with context:
            run()

    return around


@pytest.mark.parametrize(
    "around",
    [
        inside(LiveBytes()),
        inside(AllocatorBytes(allocator=Allocator())),
        saved_bytes,
        count_flops,
        uncounted_operations,
        lambda run: time_paired({"": run}, rounds=1, warmup=0),
    ],
    ids=["LiveBytes", "AllocatorBytes", "saved_bytes", "count_flops", "uncounted_operations", "time_paired"],
)
def test_no_instrument_changes_a_bit(around):
    bare, measured = result_and_gradients(lambda run: run()), result_and_gradients(around)
    assert len(bare) == len(measured)
    assert all(map(torch.equal, bare, measured))


def sums_of_gradients(context) -> list[str]:
    """The additions in backward where x's gradient comes two ways and nobody else holds either."""
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    y = x * 2
    loss = ((y @ w).relu() + (y @ w.t()).relu()).sum()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler, context:
        loss.backward()
    return [event.name for event in profiler.events() if event.name in ("aten::add", "aten::add_")]


def test_but_being_watched_makes_autograd_add_into_a_new_tensor():
    """What LiveBytes says of itself. The profiler sees each operation of a watched block twice."""
    assert sums_of_gradients(nullcontext()) == ["aten::add_"]
    assert set(sums_of_gradients(LiveBytes())) == {"aten::add"}


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("layer", [partial(nn.Conv2d, stride=2), nn.ConvTranspose2d])
def test_the_backward_of_a_convolution_is_twice_its_forward_whatever_the_groups(layer, groups):
    model, x = layer(8, 16, 3, groups=groups), torch.randn(2, 8, 9, 9, requires_grad=True)
    forward = count_flops(model, x)
    assert count_flops(lambda: model(x).sum().backward()) == 3 * forward > 0
    assert uncounted_operations(lambda: model(x).sum().backward()) == {}


def test_a_tensor_changed_in_place_before_backward_is_noticed_as_without_the_count():
    def wrong(x):
        y = x.exp()
        y.add_(100)
        y.sum().backward()

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        wrong(x)
    with pytest.raises(RuntimeError, match=r"a tensor \(2,\) that backward needs was changed in place"):
        saved_bytes(wrong, x)
