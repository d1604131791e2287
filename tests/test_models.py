"""The networks: counted to the unit on meta, their two attentions one function, their parts as the papers say."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from utils import checks, models, napkin
from utils.device import memory_limit
from utils.facts import MODELS
from utils.measure import LiveBytes
from utils.models import GPT, MLP, Block, Llama, LlamaBlock, build

SMALL_GPT = replace(MODELS["GPT-2"], name="small", layers=2, width=24, heads=3, kv_heads=3, ffn=96, context=16)
SMALL_LLAMA = replace(
    MODELS["LLaMA-3 8B"], name="small", layers=2, width=24, heads=6, kv_heads=2, ffn=64, vocabulary=37
)


def counted(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def flops(function) -> int:
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("GPT-2", 124_439_808),
        ("GPT-2 XL", 1_557_611_200),
        ("GPT-3 175B", 174_604_259_328),
        ("LLaMA-2 7B", 6_738_415_616),
        ("LLaMA-3 8B", 8_030_261_248),
        ("LLaMA-3 70B", 70_553_706_496),
        ("1.27B", 1_274_138_624),
    ],
)
def test_a_model_on_meta_has_the_published_number_of_parameters(name, published):
    assert counted(build(MODELS[name])) == published


SHAPES = [
    *MODELS.values(),
    SMALL_GPT,
    replace(SMALL_GPT, biases=False, norm_biases=False, learned_positions=False),
    SMALL_LLAMA,
    replace(SMALL_LLAMA, kv_heads=1),
]


PARTS = {  # of napkin, by the name of the module
    **dict.fromkeys(("qkv", "q", "k", "v", "out"), "attention"),
    **dict.fromkeys(("feed", "gate", "up", "down"), "ffn"),
    **dict.fromkeys(("norm", "norm_1", "norm_2"), "norms"),
    "tokens": "embedding",
    "positions": "positions",
    "head": "head",
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_formulas_are_what_the_built_model_counts(shape):
    """Parameters part by part, and the FLOPs of forward and backward on two texts, by torch's counter."""
    model = build(shape)
    assert counted(model) == napkin.parameter_count(shape)
    by_part = dict.fromkeys(PARTS.values(), 0)
    for name, parameter in model.named_parameters():
        part = name.removeprefix("blocks.").lstrip("0123456789.").split(".")[0]
        by_part[PARTS[part]] += parameter.numel()
    assert by_part == napkin.parameter_parts(shape)
    T = min(96, shape.context)
    tokens = torch.zeros(2, T, dtype=torch.long, device="meta")
    outputs = []
    assert flops(lambda: outputs.append(model(tokens))) == napkin.forward_flops(shape, T, sequences=2)
    assert flops(outputs[0].sum().backward) == napkin.backward_flops(shape, T, sequences=2)
    assert napkin.backward_flops(shape, T) == 2 * napkin.forward_flops(shape, T)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPT-2", "GPT-3 175B", "LLaMA-3 8B", "LLaMA-3 70B"])
def test_the_flops_of_a_whole_context_are_counted_to_the_unit(name):
    shape = MODELS[name]
    model, tokens = build(shape), torch.zeros(1, shape.context, dtype=torch.long, device="meta")
    assert flops(lambda: model(tokens).sum().backward()) == 3 * napkin.forward_flops(shape, shape.context)


@pytest.mark.parametrize("sizes", [(784, 256, 256, 10), (5, 3), (7, 1, 1, 1, 9)])
def test_the_flops_of_a_perceptron_are_counted_to_the_unit(sizes):
    model, x = MLP(sizes), torch.zeros(13, sizes[0])
    assert flops(lambda: model(x)) == napkin.mlp_forward_flops(13, sizes)
    without_the_datas = 2 * napkin.mlp_forward_flops(13, sizes) - napkin.matmul_flops(13, *sizes[:2])
    assert flops(model(x).sum().backward) == without_the_datas
    x.requires_grad_()
    assert flops(model(x).sum().backward) == 2 * napkin.mlp_forward_flops(13, sizes)


@pytest.mark.parametrize("kind", [GPT, Llama])
def test_plain_and_fused_attention_are_one_function(kind):
    torch.manual_seed(0)
    fused = kind(11, context=9, width=24, heads=6, layers=2, attention="fused").double()
    plain = kind(11, context=9, width=24, heads=6, layers=2, attention="plain").double()
    plain.load_state_dict(fused.state_dict())
    tokens = torch.randint(11, (3, 9))
    results = []
    for model in (fused, plain):
        logits = model(tokens)
        F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        results.append([logits.detach(), *(parameter.grad for parameter in model.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("attention", ["fused", "plain"])
@pytest.mark.parametrize("kind", [GPT, Llama])
def test_no_token_sees_the_next(kind, attention):
    model = kind(8, context=12, width=32, heads=4, layers=2, attention=attention)
    checks.future_does_not_leak(model, torch.randint(8, (2, 12)))


def test_the_default_gpt_draws_keeps_and_computes_what_it_always_did():
    """Names, order of drawing and output of the model that trained the lectures' results."""
    torch.manual_seed(3)
    model = GPT(5, context=4, width=8, heads=2, layers=1)
    assert [*model.state_dict()] == [
        *("tokens.weight", "positions.weight"),
        *(f"blocks.0.norm_{i}.{kind}" for i in (1, 2) for kind in ("weight", "bias")),
        *(f"blocks.0.{name}.{kind}" for name in ("qkv", "out", "feed.0", "feed.2") for kind in ("weight", "bias")),
        *("norm.weight", "norm.bias"),
    ]
    torch.manual_seed(3)
    for embedding in (5, 4):  # what the modules draw as they are made, then what initialisation draws over it
        nn.Embedding(embedding, 8)
    linear = [nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 32), nn.Linear(32, 8)]
    drawn = [torch.empty(5, 8).normal_(std=0.02), torch.empty(4, 8).normal_(std=0.02)]
    drawn += [torch.empty_like(layer.weight).normal_(std=0.02) for layer in linear]
    kept = [model.tokens, model.positions, model.blocks[0].qkv, model.blocks[0].out, *model.blocks[0].feed[::2]]
    assert all(torch.equal(module.weight, numbers) for module, numbers in zip(kept, drawn, strict=True))
    assert all(layer.bias.eq(0).all() for layer in kept[2:])


@pytest.mark.parametrize("attention", ["fused", "plain"])
def test_grouped_queries_are_heads_with_repeated_keys(attention):
    """Against full attention whose key and value matrices repeat each group's rows."""
    torch.manual_seed(0)
    grouped, full = (LlamaBlock(24, 6, kv_heads, 40, attention).double() for kv_heads in (2, 6))
    weights = grouped.state_dict()
    for name in ("k.weight", "v.weight"):
        weights[name] = weights[name].view(2, 1, 4, 24).expand(2, 3, 4, 24).reshape(24, 24)
    full.load_state_dict(weights)
    x = torch.randn(2, 7, 24, dtype=torch.float64)
    torch.testing.assert_close(grouped(x), full(x), rtol=1e-12, atol=1e-14)


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One head, query by query over the keys up to its own: (T, D) each → (T, D)."""
    rows = []
    for t in range(len(q)):
        weights = torch.exp(k[: t + 1] @ q[t] / len(q[t]) ** 0.5)
        rows.append(weights @ v[: t + 1] / weights.sum())
    return torch.stack(rows)


def heads(x: Tensor, number: int) -> list[Tensor]:
    return list(x.split(x.shape[-1] // number, dim=-1))


def turned(x: Tensor) -> Tensor:
    """Rotary positions as the paper writes them: pairs are complex numbers, times exp(i t speed)."""
    T, D = x.shape
    pairs = torch.complex(x[:, : D // 2], x[:, D // 2 :])
    speeds = torch.tensor([10_000 ** (-2 * i / D) for i in range(D // 2)], dtype=torch.float64)
    pairs = pairs * torch.exp(1j * torch.arange(T)[:, None] * speeds)
    return torch.cat([pairs.real, pairs.imag], dim=-1)


def normed(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if bias is not None:
        x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + 1e-5) ** 0.5 * weight
    return x if bias is None else x + bias


def test_a_gpt_block_by_hand():
    torch.manual_seed(0)
    block, x = Block(12, 3).double(), torch.randn(7, 12, dtype=torch.float64)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    q, k, v = (heads(part, 3) for part in heads(block.qkv(normed(x, block.norm_1.weight, block.norm_1.bias)), 3))
    y = x + block.out(torch.cat([attended(*head) for head in zip(q, k, v, strict=True)], dim=-1))
    inner = block.feed[0](normed(y, block.norm_2.weight, block.norm_2.bias))
    y = y + block.feed[2](inner * (1 + torch.erf(inner / 2**0.5)) / 2)
    torch.testing.assert_close(block(x[None])[0], y, rtol=1e-10, atol=1e-12)


def test_a_llama_block_by_hand():
    torch.manual_seed(0)
    block, x = LlamaBlock(16, 4, 2, 10).double(), torch.randn(7, 16, dtype=torch.float64)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    y = normed(x, block.norm_1.weight)
    q, k, v = heads(block.q(y), 4), heads(block.k(y), 2), heads(block.v(y), 2)
    y = x + block.out(torch.cat([attended(turned(q[i]), turned(k[i // 2]), v[i // 2]) for i in range(4)], dim=-1))
    z = normed(y, block.norm_2.weight)
    gate = block.gate(z)
    y = y + block.down(gate / (1 + torch.exp(-gate)) * block.up(z))
    torch.testing.assert_close(block(x[None])[0], y, rtol=1e-4, atol=1e-4)  # its angles are float32


def test_the_ends_of_a_network_by_hand():
    """Embedding and positions before the blocks, norm and read-out after; a GPT's read-out is its embedding."""
    torch.manual_seed(0)
    tokens = torch.tensor([3, 1, 4])
    for learned in (True, False):
        gpt = GPT(5, context=4, width=8, heads=2, learned_positions=learned)
        positions = gpt.positions.weight[:3] if learned else models.sinusoids(3, 8)
        y = gpt.norm(gpt.blocks(gpt.tokens.weight[tokens][None] + positions)) @ gpt.tokens.weight.T
        torch.testing.assert_close(gpt(tokens[None]), y)
    llama = Llama(5, context=4, width=8, heads=2, kv_heads=1, ffn=16)
    y = llama.norm(llama.blocks(llama.tokens.weight[tokens][None])) @ llama.head.weight.T
    torch.testing.assert_close(llama(tokens[None]), y)


def test_rotated_products_depend_on_the_distance_alone():
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 8, dtype=torch.float64).expand(2, 20, 8)  # one query and one key at 20 positions
    products = models.rotate(q) @ models.rotate(k).T
    for distance in range(20):
        along = products.diagonal(-distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), rtol=0, atol=1e-5)  # angles are float32
    assert products[:, 0].std() > 0.1
    assert torch.equal(models.rotate(q)[0], q[0]), "position 0 is not turned"
    torch.testing.assert_close(models.rotate(q).norm(dim=-1), q.norm(dim=-1), rtol=1e-6, atol=0)


def test_sinusoids_are_those_of_the_paper():
    """PE(t, 2i) = sin(t / 10000^(2i/d)); sines first and cosines after instead of in turns."""
    table = models.sinusoids(50, 6)
    for t, i in [(0, 0), (1, 0), (7, 1), (49, 2)]:
        angle = torch.tensor(t / 10_000 ** (2 * i / 6), dtype=torch.float64)
        torch.testing.assert_close(table[t, i].double(), angle.sin(), rtol=0, atol=1e-5)
        torch.testing.assert_close(table[t, 3 + i].double(), angle.cos(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("B", "T", "D", "H"), [(2, 16, 32, 4), (1, 64, 128, 8), (3, 40, 96, 3)])
def test_a_block_keeps_the_activations_of_the_formula(B, T, D, H, bias):
    """Unique storages that autograd saves, parameters apart; the fused kernel of the CPU is the "flash" one."""
    for attention, formula, device in [
        ("plain", "plain", "cpu"),
        ("plain", "plain", "meta"),
        ("fused", "flash", "cpu"),
    ]:
        block = Block(D, H, attention=attention, bias=bias).to(device)
        own = {parameter.untyped_storage()._cdata for parameter in block.parameters()}
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t) or t, lambda t: t):
            block(torch.zeros(B, T, D, device=device, requires_grad=True))
        storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in kept}
        found = sum(size for address, size in storages.items() if address not in own)
        assert found == napkin.activation_bytes(B, T, D, H, formula), (attention, device)


def test_a_model_that_fits_is_built_for_real():
    for shape in (SMALL_GPT, SMALL_LLAMA):
        model = build(shape, "cpu")
        assert model.blocks[0].attend is models.plain_attention, "unless it is asked for the other"
        assert build(shape, attention="fused").blocks[0].attend is models.fused_attention
        assert all(parameter.device.type == "cpu" and parameter.std() < 1 for parameter in model.parameters())
        assert model(torch.zeros(1, 5, dtype=torch.long)).isfinite().all()


REAL = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", REAL)
def test_a_model_too_big_for_the_device_is_refused_at_once(device):
    with LiveBytes() as memory, pytest.raises(ValueError, match=r'1000xGPT-3 has .* GB of .*\. Build it on "meta"'):
        build(replace(MODELS["GPT-3 175B"], name="1000xGPT-3", layers=96_000), device)
    assert memory.trace == []


def test_the_limit_is_the_parameters_in_the_dtype_they_will_have(monkeypatch):
    needed = 4 * napkin.parameter_count(SMALL_GPT)
    monkeypatch.setattr(models, "memory_limit", lambda device: needed)
    build(SMALL_GPT, "cpu")
    monkeypatch.setattr(models, "memory_limit", lambda device: needed - 1)
    with pytest.raises(ValueError, match="small has"):
        build(SMALL_GPT, "cpu")
    torch.set_default_dtype(torch.bfloat16)
    try:
        build(SMALL_GPT, "cpu")
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "change",
    [{"gated": True}, {"tied": False}, {"biases": False}, {"kv_heads": 1}, {"ffn": 100}],
)
def test_a_shape_that_no_network_here_has_is_refused(change):
    with pytest.raises(ValueError, match="neither GPT nor Llama"):
        build(replace(SMALL_GPT, **change))


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="width 10 does not split into 4 heads"):
        GPT(5, width=10, heads=4)
    with pytest.raises(ValueError, match="6 heads do not share 4 keys"):
        Llama(5, width=12, heads=6, kv_heads=4)
    with pytest.raises(ValueError, match="unknown attention 'flash': one of fused, plain"):
        GPT(5, attention="flash")
    for model in (GPT(5, context=4), Llama(5, context=4)):
        with pytest.raises(ValueError, match="5 tokens are more than the context of 4"):
            model(torch.zeros(1, 5, dtype=torch.long))


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs Linux to ask for the memory")
def test_the_memory_of_a_device(monkeypatch):
    """What the system names as its total, or less in a container; nothing on meta."""
    total = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert 0 < memory_limit(torch.device("cpu")) <= int(total[1]) * 1024
    assert memory_limit(torch.device("meta")) is None
    if torch.cuda.is_available():
        assert memory_limit(torch.device("cuda")) == torch.cuda.mem_get_info()[1]
    for text, limit in [("12345\n", 12_345), ("max\n", int(total[1]) * 1024)]:
        monkeypatch.setattr(Path, "read_text", lambda self, text=text: text)
        assert memory_limit(torch.device("cpu")) == limit
