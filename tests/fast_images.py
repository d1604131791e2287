"""A network for small grey images that a GPU trains in seconds, with what its recipe needs. For tests/bench_gpu.py."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.data import IGNORE, TensorData

REACH = 2  # pixels that an image is shifted by, at most


class Augment(nn.Module):
    """In training, each image of (B, 1, H, W) mirrored by a coin and shifted by up to REACH pixels, all on the device."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        B, _, H, W = x.shape
        x = torch.where(torch.rand(B, 1, 1, 1, device=x.device) < 0.5, x.flip(-1), x)
        x = F.pad(x, (REACH,) * 4, mode="reflect")
        top, left = torch.randint(2 * REACH + 1, (2, B, 1), device=x.device)
        rows = top + torch.arange(H, device=x.device)
        columns = left + torch.arange(W, device=x.device)
        images = torch.arange(B, device=x.device)[:, None, None]
        return x[images, 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)


class Residual(nn.Module):
    def __init__(self, *inner: nn.Module):
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


def convolution(inside: int, outside: int) -> nn.Sequential:
    """3×3, normalised, ReLU: (B, inside, H, W) → (B, outside, H, W)."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)
    )


class Head(nn.Module):
    """The largest of each channel, a linear layer, its logits scaled down: (B, C, H, W) → (B, classes)."""

    def __init__(self, channels: int, classes: int = 10, scale: float = 0.125):
        super().__init__()
        self.linear, self.scale = nn.Linear(channels, classes, bias=False), scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.linear(x.amax((-2, -1)))


def resnet(width: int = 64) -> nn.Sequential:
    """Eight convolutions, two of the three stages with a residual: (B, 1, 28, 28) → (B, 10).

    The shape is that of Page's "How to train your ResNet" (2018), made for CIFAR-10.
    """
    return nn.Sequential(
        convolution(1, width),
        convolution(width, 2 * width),
        nn.MaxPool2d(2),  # 14 × 14
        Residual(convolution(2 * width, 2 * width), convolution(2 * width, 2 * width)),
        convolution(2 * width, 4 * width),
        nn.MaxPool2d(2),  # 7 × 7
        convolution(4 * width, 8 * width),
        nn.MaxPool2d(2),  # 3 × 3
        Residual(convolution(8 * width, 8 * width), convolution(8 * width, 8 * width)),
        Head(8 * width),
    )


def smoothed(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy summed over the targets, a tenth of each spread over all classes."""
    return F.cross_entropy(logits, targets, ignore_index=IGNORE, label_smoothing=0.1, reduction="sum")


class Items(Dataset):
    """The same examples one at a time, as most datasets hand them out: workers of a DataLoader fetch and stack them."""

    def __init__(self, data: TensorData):
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self.data[i]
