"""The networks of the lectures: a perceptron, a small convolutional network, a small Transformer."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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


class Block(nn.Module):
    """One Transformer layer, normalised before each half: (B, T, D) → (B, T, D)."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(B, T, D)))
        return x + self.drop(self.feed(self.norm_2(x)))


class GPT(nn.Module):
    """A decoder-only Transformer with tied embeddings: token ids (B, T) → logits (B, T, vocabulary).

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
    ):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} does not split into {heads} heads: choose a multiple")
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        if T > self.context:  # noqa: SIM300  (T is no constant)
            raise ValueError(f"{T} tokens are more than the context of {self.context}: cut the text or raise context")
        x = self.tokens(tokens) + self.positions(torch.arange(T, device=tokens.device))
        return F.linear(self.norm(self.blocks(self.drop(x))), self.tokens.weight)  # the embedding is also the read-out
