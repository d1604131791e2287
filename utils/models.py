"""The networks of the lectures: a perceptron, a small convolutional network, Transformers as GPT-2 and as LLaMA."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils import napkin
from utils.device import memory_limit
from utils.facts import ModelShape

SLOWEST = 10_000  # ratio of the first frequency to the last; LLaMA-3 has 500,000, which changes no count here


class MLP(nn.Sequential):
    """Linear layers with ReLU and dropout between them: (B, ...) → (B, sizes[-1]), inputs flattened to sizes[0]."""

    def __init__(self, sizes: tuple[int, ...] = (784, 256, 256, 10), dropout: float = 0.0):
        layers: list[nn.Module] = [nn.Flatten()]
        for wide, narrow in pairwise(sizes[:-1]):
            layers += [nn.Linear(wide, narrow), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
        super().__init__(*layers, nn.Linear(sizes[-2], sizes[-1]))


class CNN(nn.Sequential):
    """Two convolutions that halve the picture, two linear layers: (B, 1, 28, 28) → (B, classes)."""

    def __init__(self, classes: int = 10, dropout: float = 0.2):
        super().__init__(
            nn.Conv2d(1, 16, kernel_size=5, stride=2, padding=2),  # (B, 16, 14, 14)
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),  # (B, 32, 7, 7)
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, classes),
        )


def fused_attention(q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
    """Causal attention in one kernel: (B, H, T, D) each → (B, H, T, D); the tensors that it saves depend on the device."""
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)


def plain_attention(q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
    """The same, written out, so that every device multiplies, counts and saves the same tensors."""
    T, D = q.shape[-2:]
    future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-2, -1)) / D**0.5
    shares = scores.masked_fill(future, -torch.inf).softmax(-1)
    if dropout:
        shares = F.dropout(shares, dropout)
    return shares @ v


ATTENTION = {"fused": fused_attention, "plain": plain_attention}


def _attention(name: str):
    if name not in ATTENTION:
        raise ValueError(f"unknown attention {name!r}: one of {', '.join(ATTENTION)}")
    return ATTENTION[name]


def _check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise ValueError(f"width {width} does not split into {heads} heads: choose a multiple")


def _check_length(tokens: int, context: int) -> None:
    if tokens > context:
        raise ValueError(f"{tokens} tokens are more than the context of {context}: cut the text or raise context")


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


class Block(nn.Module):
    """One Transformer layer, normalised before each half: (B, T, D) → (B, T, D)."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, attention: str = "fused", bias: bool = True):
        super().__init__()
        _check_heads(width, heads)
        self.heads, self.dropout, self.attend = heads, dropout, _attention(attention)
        self.norm_1, self.norm_2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.qkv = nn.Linear(width, 3 * width, bias)
        self.out = nn.Linear(width, width, bias)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width, bias), nn.GELU(), nn.Linear(4 * width, width, bias))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        mixed = self.attend(q, k, v, self.dropout if self.training else 0.0)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(B, T, D)))
        return x + self.drop(self.feed(self.norm_2(x)))


def sinusoids(tokens: int, width: int, device: torch.device | str = "cpu") -> Tensor:
    """Positions that are computed, not learned: (tokens, width), sines and cosines of waves 2π to 2π x 10,000 long.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """
    angles = _angles(tokens, width, device)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def _angles(tokens: int, width: int, device: torch.device | str) -> Tensor:
    """(tokens, width / 2): the position times the frequency of each pair of dimensions."""
    frequencies = SLOWEST ** -(torch.arange(0, width, 2, device=device) / width)
    return torch.arange(tokens, device=device)[:, None] * frequencies


class GPT(nn.Module):
    """A decoder-only Transformer with tied embeddings: token ids (B, T) → logits (B, T, vocabulary).

    attention: "fused" for speed, "plain" to see and count every product. learned_positions: a table, or else sinusoids.
    Raises ValueError if `width` is no multiple of `heads`, or for a text longer than `context`.
    Source: Radford et al. 2019 (GPT-2), the layer order of its code.
    """

    def __init__(
        self,
        vocabulary: int,
        context: int = 64,
        width: int = 128,
        heads: int = 4,
        layers: int = 1,
        dropout: float = 0.0,
        attention: str = "fused",
        bias: bool = True,
        learned_positions: bool = True,
    ):
        super().__init__()
        _check_heads(width, heads)
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width) if learned_positions else None
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout, attention, bias) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.apply(_initialise)

    def forward(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        _check_length(T, self.context)
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(T, device=tokens.device))
        else:
            x = x + sinusoids(T, x.shape[-1], x.device).to(x.dtype)
        return F.linear(self.norm(self.blocks(self.drop(x))), self.tokens.weight)  # the embedding is also the LM head


def rotate(x: Tensor) -> Tensor:
    """Rotate each pair of dimensions (i, i + D/2) of x (..., T, D) by an angle that grows with the position.

    The product of a query and a key then depends on their distance, not on their positions.
    Source: Su et al. 2021, arXiv:2104.09864, in the order of dimensions of LLaMA's weights as published for transformers.
    """
    angles = _angles(*x.shape[-2:], x.device)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


class LlamaBlock(nn.Module):
    """One LLaMA layer: RMSNorm, queries that share keys and values, a gated feed-forward: (B, T, D) → (B, T, D)."""

    def __init__(self, width: int, heads: int, kv_heads: int, ffn: int, attention: str = "fused"):
        super().__init__()
        _check_heads(width, heads)
        if heads % kv_heads:
            raise ValueError(f"{heads} heads do not share {kv_heads} keys and values evenly: choose a divisor")
        self.heads, self.kv_heads, self.attend = heads, kv_heads, _attention(attention)
        shared = width // heads * kv_heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, shared, bias=False), nn.Linear(width, shared, bias=False)
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        y = self.norm_1(x)
        q = self.q(y).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = (part(y).view(B, T, self.kv_heads, -1).transpose(1, 2) for part in (self.k, self.v))
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=1) for part in (rotate(k), v))
        x = x + self.out(self.attend(rotate(q), k, v).transpose(1, 2).reshape(B, T, D))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A decoder-only Transformer with rotary positions and a separate LM head: ids (B, T) → logits (B, T, vocabulary).

    Raises ValueError if the heads do not split evenly, or for a text longer than `context`.
    Source: Touvron et al. 2023, arXiv:2302.13971 and 2307.09288 (grouped queries); the layer order of its code.
    """

    def __init__(
        self,
        vocabulary: int,
        context: int = 64,
        width: int = 128,
        heads: int = 4,
        kv_heads: int = 2,
        ffn: int = 384,
        layers: int = 1,
        attention: str = "fused",
    ):
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(LlamaBlock(width, heads, kv_heads, ffn, attention) for _ in range(layers)))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(_initialise)

    def forward(self, tokens: Tensor) -> Tensor:
        _check_length(tokens.shape[1], self.context)
        return self.head(self.norm(self.blocks(self.tokens(tokens))))


def build(shape: ModelShape, device: torch.device | str = "meta", attention: str = "plain") -> nn.Module:
    """The network of that shape, initialised, in torch's default dtype; on "meta" its tensors have no values.

    Raises ValueError, before anything is allocated, for a shape that neither GPT nor Llama has, and for one whose
    parameters alone are more than the device's memory.
    """
    parameters, dtype = napkin.parameter_count(shape), torch.get_default_dtype()
    nbytes, limit = parameters * dtype.itemsize, memory_limit(torch.device(device))
    if limit is not None and nbytes > limit:
        raise ValueError(
            f"{shape.name} has {parameters:,} parameters, {nbytes / napkin.GB:,.1f} GB in {str(dtype)[6:]}: more than the "
            f'{limit / napkin.GB:,.1f} GB of {device}. Build it on "meta", or build a smaller one'
        )
    sizes = {name: getattr(shape, name) for name in ("vocabulary", "context", "width", "heads", "layers")}
    with torch.device(device):
        if _is_gpt(shape):
            positions = shape.learned_positions
            return GPT(**sizes, attention=attention, bias=shape.biases, learned_positions=positions)
        if _is_llama(shape):
            return Llama(**sizes, kv_heads=shape.kv_heads, ffn=shape.ffn, attention=attention)
    raise ValueError(f"neither GPT nor Llama has the parts of {shape}: choose one of the shapes in facts.MODELS")


def _is_gpt(shape: ModelShape) -> bool:
    """Whether tied, not gated, as many key heads as heads, ffn = 4 · width, and biases everywhere or nowhere."""
    plain = shape.tied and not shape.gated and shape.biases == shape.norm_biases
    return plain and shape.kv_heads == shape.heads and shape.ffn == 4 * shape.width


def _is_llama(shape: ModelShape) -> bool:
    """Whether gated, with a separate LM head, no learned positions and no biases."""
    extras = (shape.tied, shape.learned_positions, shape.biases, shape.norm_biases)
    return shape.gated and not any(extras)
