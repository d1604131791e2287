"""The data of the course: FashionMNIST, TinyShakespeare (or any text file) as a memmap of tokens, the spiral.

A split holds what training needs and nothing random: an item is a function of its index. Where the real files
cannot be had, a stand-in of the same shapes and types takes their place, says so, and Splits.real is False.
"""

import gzip
import hashlib
import math
import mmap
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics as PYTHON_REFERENCE

import numpy as np
import torch
from torch.utils.data import Dataset

from utils import facts
from utils.atomic_write import write_bytes
from utils.data.download import cache_folder, find
from utils.data.trees import Tree, count_examples, map_tensors, named_leaves, rows, tensors, to_device

IGNORE = -100  # targets with this value count nowhere: cross_entropy's own ignore_index, by default
MOST_SYMBOLS = 1 << 16  # what fits into uint16
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
STAND_IN_TRAIN, STAND_IN_TEST = 6_000, 1_000


@dataclass(frozen=True)
class Splits:
    """Disjoint parts of one data set.

    train, val, test: datasets of (x, y), or None where there is no such part. real: False for a stand-in.
    names: of the classes (or the symbols), by label.
    mean, std: what images were normalised with, x = (pixel / 255 - mean) / std.
    """

    train: Dataset
    val: Dataset | None
    test: Dataset | None
    real: bool
    names: tuple[str, ...]
    mean: float = 0.0
    std: float = 1.0


class TensorData(Dataset):
    """Examples x (N, ...) with labels y (N, ...), in memory, on any one device; each a tensor or a tree of them.

    y holds classes: int64, at least 0, or IGNORE; with regression=True it holds floats. ValueError otherwise,
    and for different lengths or no examples at all. A y of several tensors may hold anything.
    """

    pure = True  # an item is a function of its index alone

    def __init__(self, x: Tree, y: Tree, regression: bool = False):
        leaves = [*tensors(x), *tensors(y)]
        if any(leaf.dim() == 0 for leaf in leaves) or len({len(leaf) for leaf in leaves}) != 1:
            parts = [*named_leaves(x, "x"), *named_leaves(y, "y")]
            shapes = [f"{place} {tuple(leaf.shape)}" for place, leaf in parts if isinstance(leaf, torch.Tensor)]
            raise ValueError(f"{' and '.join(shapes)} differ in length: one label per example")
        if len(leaves[0]) == 0:
            raise ValueError(f"no examples: x has shape {tuple(leaves[0].shape)}")
        if isinstance(y, torch.Tensor):
            _check_labels(y, regression)
        self.x, self.y, self.regression = x, y, regression

    def __len__(self) -> int:
        return count_examples(self.x)

    @property
    def device(self) -> torch.device:
        return tensors(self.x)[0].device

    def __getitem__(self, i: int) -> tuple[Tree, Tree]:
        return rows(self.x, i), rows(self.y, i)

    def batch(self, indices: list[int] | torch.Tensor) -> tuple[Tree, Tree]:
        """The batch (x, y) of `indices`, fetched at once. IndexError for an index below 0 or past the end."""
        indices = torch.as_tensor(indices, dtype=torch.int64, device=self.device)

        def chosen(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.index_select(0, indices)  # a third of the time of tensor[indices]

        return map_tensors(chosen, self.x), map_tensors(chosen, self.y)

    def to(self, device: torch.device | str) -> "TensorData":
        """The same data on `device`; this one stays where it is."""
        x, y = to_device((self.x, self.y), device)
        return TensorData(x, y, self.regression)


def _check_labels(y: torch.Tensor, regression: bool) -> None:
    if regression:
        if not y.is_floating_point():
            raise ValueError(f"regression=True needs float targets, got {y.dtype}: call y.float()")
        return
    if y.dtype != torch.int64:
        raise ValueError(
            f"labels must be int64, got {y.dtype}: call y.long(), or pass regression=True for real targets"
        )
    wrong = y[(y < 0) & (y != IGNORE)]
    if len(wrong):
        raise ValueError(f"label {wrong[0].item()} is negative: classes count from 0, and {IGNORE} means no label")


def split_indices(n: int, sizes: tuple[int, ...], seed: int) -> tuple[torch.Tensor, ...]:
    """Disjoint random subsets of 0 .. n-1, of the given sizes, each in ascending order (int64).

    They cover everything if the sizes sum to n. ValueError for a negative size or more than n in all.
    """
    if min(sizes, default=0) < 0 or sum(sizes) > n:
        raise ValueError(f"cannot draw disjoint parts of sizes {tuple(sizes)} from {n} examples")
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    parts = torch.split(order[: sum(sizes)], list(sizes))
    return tuple(part.sort().values for part in parts)


# --- images -------------------------------------------------------------------------------------------------


def read_idx(path: str | Path) -> np.ndarray:
    """The array in a gzipped IDX file, in its own shape and type (native byte order, writable).

    Format (http://yann.lecun.com/exdb/mnist): two zero bytes, a type code, the number of dimensions; each
    dimension as a big-endian uint32; the items, big-endian, row by row. ValueError for anything else.
    """
    try:
        with gzip.open(path) as stream:
            content = stream.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: expected a whole gzip file, found one broken or cut short ({error}): fetch it again"
        ) from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in IDX_TYPES or content[3] == 0:
        codes = ", ".join(f"{code:02x}" for code in IDX_TYPES)
        raise ValueError(
            f"{path}: expected the magic number of an IDX file (00 00, one of {codes}, dimensions), "
            f"found {content[:4].hex(' ') or 'an empty file'}"
        )
    dtype, start = np.dtype(IDX_TYPES[content[2]]), 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise ValueError(f"{path}: expected {expected:,} bytes for shape {shape} of {dtype}, found {len(content):,}")
    if math.prod(shape) == 0:
        raise ValueError(f"{path}: expected at least one item, found shape {shape}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def fashion_mnist(val: int = 5_000, seed: int = 0) -> Splits:
    """FashionMNIST: images float32 (N, 1, 28, 28), labels int64 (N,) in 0 .. 9; 60,000 - val, val and 10,000.

    val: images held out of the training set, drawn by `seed`; 0 trains on all 60,000, and Splits.val is None.
    All images are normalised by mean and std of the pixels of the train part alone.
    The stand-in has 6,000 training and 1,000 test images, and holds out a tenth of `val`.
    """
    if not 0 <= val < facts.FASHION_MNIST_TRAIN:
        raise ValueError(f"val={val}: hold out at least 0 and fewer than {facts.FASHION_MNIST_TRAIN:,} images")
    paths = _fashion_paths()
    if paths is None:
        train, test = _drawn_fashion()
        return _image_splits(train, test, -(-val // 10), seed, False, SHAPES)
    train = read_images(paths["train images"], paths["train labels"], len(facts.FASHION_MNIST_CLASSES))
    test = read_images(paths["test images"], paths["test labels"], len(facts.FASHION_MNIST_CLASSES))
    return _image_splits(train, test, val, seed, True, facts.FASHION_MNIST_CLASSES)


@dataclass(frozen=True)
class IdxFiles:
    """Files unpacked: IDX bytes by part ("train images"); names: of the classes; real: False for a stand-in."""

    content: dict[str, bytes]
    real: bool
    names: tuple[str, ...]


def fashion_mnist_files() -> IdxFiles:
    """The four files of FashionMNIST as they were published, or of the stand-in's images; nothing is read out of them."""
    paths = _fashion_paths()
    if paths is None:
        arrays = [array for part in _drawn_fashion() for array in part]
        content = {part: _as_idx(array) for part, array in zip(facts.FASHION_MNIST, arrays, strict=True)}
        return IdxFiles(content, False, SHAPES)
    content = {part: gzip.decompress(path.read_bytes()) for part, path in paths.items()}
    return IdxFiles(content, True, facts.FASHION_MNIST_CLASSES)


def _as_idx(array: np.ndarray) -> bytes:
    """A uint8 array in the IDX format."""
    return bytes((0, 0, 0x08, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def _fashion_paths() -> dict[str, Path] | None:
    """Where the four files are; None, and it is announced, where one is missing."""
    paths = {part: find(file) for part, file in facts.FASHION_MNIST.items()}
    if None not in paths.values():
        return paths
    missing = next(facts.FASHION_MNIST[part].path for part, path in paths.items() if path is None)
    _announce_stand_in("FashionMNIST", missing, "drawn shapes (6,000 + 1,000 images) take its place")
    return None


def read_images(images_path: Path, labels_path: Path, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (N, H, W) and labels uint8 (N,) from two IDX files; ValueError if they do not match."""
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or images.dtype != np.uint8:
        raise ValueError(f"{images_path}: expected uint8 images (N, H, W), found {images.dtype} {images.shape}")
    if labels.ndim != 1 or labels.dtype != np.uint8:
        raise ValueError(f"{labels_path}: expected uint8 labels (N,), found {labels.dtype} {labels.shape}")
    if len(images) != len(labels):
        raise ValueError(f"{images_path} has {len(images):,} images but {labels_path} has {len(labels):,} labels")
    if labels.max() >= classes:
        raise ValueError(f"{labels_path}: expected labels below {classes}, found {labels.max()}")
    return images, labels


def _image_splits(train, test, val: int, seed: int, real: bool, names: tuple[str, ...]) -> Splits:
    """train, test: pairs of uint8 images (N, H, W) and labels (N,)."""
    images, labels = (torch.from_numpy(array) for array in train)
    chosen, held_out = split_indices(len(images), (len(images) - val, val), seed)
    mean, std = pixel_statistics(images[chosen])

    def data(images: torch.Tensor, labels: torch.Tensor) -> TensorData:
        x = images.to(torch.float32).div_(255).sub_(mean).div_(std).unsqueeze(1)
        return TensorData(x, labels.long())

    return Splits(
        train=data(images[chosen], labels[chosen]),
        val=data(images[held_out], labels[held_out]) if val else None,
        test=data(*(torch.from_numpy(array) for array in test)),
        real=real,
        names=names,
        mean=mean,
        std=std,
    )


def pixel_statistics(images: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation of pixel / 255 over all pixels of uint8 `images`, from exact counts."""
    counts = torch.bincount(images.flatten(), minlength=256).double()
    values = torch.arange(256, dtype=torch.float64) / 255
    mean = (counts @ values / counts.sum()).item()
    variance = (counts @ (values - mean) ** 2 / counts.sum()).item()
    if variance == 0:
        raise ValueError(f"all pixels are the same ({mean * 255:.0f}): there is nothing to normalise by")
    return mean, math.sqrt(variance)


def _drawn_fashion() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The stand-in: images and labels to train on, images and labels to test on."""
    return _draw_shapes(STAND_IN_TRAIN, seed=1), _draw_shapes(STAND_IN_TEST, seed=2)


SHAPES = ("square", "frame", "disc", "ring", "rows", "columns", "plus", "cross", "triangle", "checkers")


def _draw_shapes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n noisy uint8 images (n, 28, 28) of ten shapes, at random places, sizes and greys; uint8 labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % len(SHAPES)).astype(np.uint8)
    center = rng.uniform(10, 17, size=(2, n, 1, 1))
    radius = rng.uniform(5, 10, size=(n, 1, 1))
    dy, dx = np.arange(28).reshape(1, 28, 1) - center[0], np.arange(28).reshape(1, 1, 28) - center[1]
    box, round_ = np.maximum(abs(dy), abs(dx)) / radius, np.hypot(dy, dx) / radius
    rows, columns = np.floor(dy / 2.5) % 2 == 0, np.floor(dx / 2.5) % 2 == 0
    masks = (
        box < 0.9,
        (box < 1) & (box > 0.6),
        round_ < 1,
        (round_ < 1.1) & (round_ > 0.7),
        (box < 1) & rows,
        (box < 1) & columns,
        (box < 1) & (np.minimum(abs(dy), abs(dx)) < 2),
        (box < 1) & (abs(abs(dy) - abs(dx)) < 2),
        (box < 1) & (2 * abs(dx) < dy + radius),
        (box < 1) & (rows ^ columns),
    )
    shape = np.choose(labels.reshape(n, 1, 1), masks)
    grey = rng.uniform(0.35, 1.0, size=(n, 1, 1))
    pixels = shape * grey + rng.normal(0, 0.25, size=shape.shape)
    return (pixels.clip(0, 1) * 255).astype(np.uint8), labels


# --- text ---------------------------------------------------------------------------------------------------


class Windows(Dataset):
    """Stretches of `context` tokens and, one place on, their targets: x, y int64 (context,).

    tokens: integers (n,), best a memmap: only the pages in use are read. Window i starts at i * stride.
    stride=1 is for training: every full window. stride=context is for validation: each of the n - 1 targets
    once; the last window may be ragged, then it is padded with the last token, and its targets with IGNORE.
    A worker process reopens a memmap; it does not get a copy.
    """

    pure = True  # an item is a function of its index alone

    def __init__(self, tokens: np.ndarray, context: int, stride: int):
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise ValueError(f"tokens must be integers (n,), got {tokens.dtype} {tokens.shape}")
        if len(tokens) < 2:
            raise ValueError(f"{len(tokens)} tokens hold no target: at least 2 are needed")
        if not 1 <= context < len(tokens):
            raise ValueError(f"context={context}: at least 1, and less than the {len(tokens):,} tokens of the text")
        if not 1 <= stride <= context:
            raise ValueError(f"stride={stride}: at least 1, and at most context={context} lest targets are left out")
        self.tokens, self.context, self.stride = tokens, context, stride

    def __len__(self) -> int:
        return math.ceil((len(self.tokens) - 1 - self.context) / self.stride) + 1

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = self.batch([i])
        return x[0], y[0]

    def batch(self, indices: list[int] | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch (x, y), each int64 (B, context). IndexError for an index below 0 or past the end."""
        indices = np.asarray(indices.cpu() if isinstance(indices, torch.Tensor) else indices, dtype=np.int64)
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"window {indices.min()} .. {indices.max()} of {len(self):,}")
        places = (indices * self.stride)[:, None] + np.arange(self.context + 1)
        beyond = places >= len(self.tokens)
        places[beyond] = len(self.tokens) - 1
        # A plain view of the memmap: indexing then skips what the subclass adds.
        window = np.asarray(self.tokens)[places].astype(np.int64)
        targets = window[:, 1:].copy()
        targets[beyond[:, 1:]] = IGNORE
        return torch.from_numpy(window[:, :-1].copy()), torch.from_numpy(targets)

    def __getstate__(self) -> dict:
        """A memmap would be pickled as a copy of its file; where it lies is enough."""
        state = self.__dict__.copy()
        if isinstance(self.tokens, np.memmap) and isinstance(self.tokens.base, mmap.mmap):
            state["tokens"] = TokenFile(
                self.tokens.filename, self.tokens.dtype.str, self.tokens.offset, len(self.tokens)
            )
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        if isinstance(self.tokens, TokenFile):
            self.tokens = self.tokens.open()


@dataclass(frozen=True)
class TokenFile:
    """`length` tokens of type `dtype` in the file `path`, from byte `offset` on."""

    path: str
    dtype: str
    offset: int
    length: int

    def open(self) -> np.memmap:
        return np.memmap(self.path, dtype=self.dtype, mode="r", offset=self.offset, shape=(self.length,))


def tiny_shakespeare(context: int = 64) -> Splits:
    """TinyShakespeare by the character: 1,003,854 tokens for training, the last 111,540 for validation.

    A token is the place of its character in the sorted alphabet, Splits.names. No test part.
    """
    content, source, real = _shakespeare()
    return _text_splits(content, source, context, real)


def shakespeare() -> str:
    """The text of TinyShakespeare, 1,115,394 characters; or, and it is announced, of its stand-in."""
    content, _, _ = _shakespeare()
    return content.decode()


def _shakespeare() -> tuple[bytes, str, bool]:
    """The text, where it comes from, and whether it is TinyShakespeare."""
    path = find(facts.TINY_SHAKESPEARE)
    if path is not None:
        return path.read_bytes(), str(path), True
    replacement = "the Python reference that ships inside CPython takes its place"
    _announce_stand_in("TinyShakespeare", facts.TINY_SHAKESPEARE.path, replacement)
    text = "\n\n".join(PYTHON_REFERENCE[topic] for topic in sorted(PYTHON_REFERENCE))
    return text.encode(), "the Python reference", False


def text_file(path: str | Path, context: int) -> Splits:
    """Any UTF-8 text by the character, split like tiny_shakespeare, with its own alphabet (up to 65,536).

    ValueError for a file that is missing, empty, not UTF-8, or too short for one window in each part.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is no file: pass the path of a text file")
    return _text_splits(path.read_bytes(), str(path), context, real=True)


def _text_splits(content: bytes, source: str, context: int, real: bool) -> Splits:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source} is not UTF-8 ({error}): convert it first") from error
    if not text:
        raise ValueError(f"{source} is empty: there is nothing to learn from")
    ids, alphabet = encode(text)
    cut = len(ids) * 9 // 10
    if not 1 <= context < min(cut, len(ids) - cut):
        raise ValueError(
            f"context={context} for {source}: at least 1, and less than the {len(ids) - cut:,} characters "
            f"(of {len(ids):,}) that validation gets; take a shorter context or a longer text"
        )
    path = _store_tokens(ids, hashlib.md5(content, usedforsecurity=False).hexdigest())
    train = TokenFile(str(path), "<u2", 0, cut).open()
    val = TokenFile(str(path), "<u2", 2 * cut, len(ids) - cut).open()
    return Splits(Windows(train, context, 1), Windows(val, context, context), None, real, alphabet)


def encode(text: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Each character as its place in the sorted alphabet of `text`, uint16 (n,); and that alphabet."""
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    seen = np.zeros(codes.max() + 1, dtype=bool)
    seen[codes] = True
    if seen.sum() > MOST_SYMBOLS:
        raise ValueError(
            f"{seen.sum():,} distinct characters do not fit into uint16 tokens, which count {MOST_SYMBOLS:,}"
        )
    places = (np.cumsum(seen) - 1).astype("<u2")
    return places[codes], tuple(chr(code) for code in np.flatnonzero(seen))


def _store_tokens(ids: np.ndarray, md5: str) -> Path:
    """A file that holds exactly `ids`: the cached one, or if that differs a new one, whole or not at all."""
    path = cache_folder() / "tokens" / f"{md5}.uint16"
    if path.is_file() and path.stat().st_size == ids.nbytes and np.array_equal(np.memmap(path, ids.dtype, "r"), ids):
        return path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_bytes(path, ids.tobytes())
    return path


# --- points -------------------------------------------------------------------------------------------------


def spiral(n: int = 1_998, classes: int = 3, noise: float = 0.1, seed: int = 0) -> Splits:
    """Arms of a spiral, one a class: points float32 (n, 2), labels int64 (n,); train, val, test 70 : 15 : 15.

    noise: standard deviation of the angle, in radians.
    """
    if classes < 1 or n < 10 * classes:
        raise ValueError(f"n={n}, classes={classes}: at least one class and ten points of each are needed")
    if not noise >= 0:
        raise ValueError(f"noise={noise}: a standard deviation is at least 0")
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    radius = 0.1 + 0.9 * torch.rand(n, generator=generator)
    angle = 2 * math.pi * labels / classes + 4 * radius + noise * torch.randn(n, generator=generator)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    part = n * 15 // 100
    sizes = [n - 2 * part, part, part]  # the points are independent: the first are as good as any
    train, val, test = (TensorData(x, y) for x, y in zip(points.split(sizes), labels.split(sizes), strict=True))
    return Splits(train, val, test, True, tuple(f"arm {arm}" for arm in range(classes)))


# --- stand-ins ----------------------------------------------------------------------------------------------

_announced: set[str] = set()


def _announce_stand_in(name: str, missing: str, replacement: str) -> None:
    """Say once per process that the real data is not here, and where its file `missing` was looked for."""
    if name not in _announced:
        _announced.add(name)
        named = os.environ.get("COURSE_DATA")
        move = f"COURSE_DATA={named!r} holds no {missing}" if named else f"Name a folder with {missing} in COURSE_DATA"
        print(f"{name} is not at hand: {replacement}. {move}.", flush=True)
