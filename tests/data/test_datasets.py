"""The data: what is read is what was written, splits are disjoint, every target counts once, bad input is named."""

import collections
import gzip
import hashlib
import math
import os
import pickle
import re
import struct
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from utils import facts
from utils.data import IGNORE, TensorData, Windows, datasets, download, read_idx, split_indices

COURSE_DATA = os.environ.get("COURSE_DATA")
real_data = pytest.mark.skipif(not COURSE_DATA, reason="needs the published files: set COURSE_DATA")


def as_is(batch):
    return batch


@pytest.fixture(autouse=True)
def own_world(tmp_path, monkeypatch):
    """Offline, with a cache of our own, and nothing announced yet."""
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setenv("COURSE_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(datasets, "_announced", set())


# --- IDX files ----------------------------------------------------------------------------------------------


def idx(shape, content: bytes, code=0x08, magic=b"\0\0") -> bytes:
    return magic + bytes([code, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content


def write_gz(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


@pytest.mark.parametrize(
    ("code", "letter", "dtype"),
    [
        (0x08, "B", np.uint8),
        (0x09, "b", np.int8),
        (0x0B, "h", np.int16),
        (0x0C, "i", np.int32),
        (0x0D, "f", np.float32),
        (0x0E, "d", np.float64),
    ],
)
def test_idx_of_every_type_is_read(code, letter, dtype, tmp_path):
    values = [1, 2, 3, 100, 5, 6] if letter == "B" else [1, -2, 3, 100, 5, -6]
    path = write_gz(tmp_path / "a.gz", idx((2, 3), struct.pack(f">6{letter}", *values), code))
    array = read_idx(path)
    assert array.dtype == np.dtype(dtype) and array.dtype.isnative and array.flags.writeable
    assert array.tolist() == [values[:3], values[3:]]


PIXELS = bytes(range(12))


def zipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # without the time: the cases below must have one name in every process


GOOD = zipped(idx((3, 2, 2), PIXELS))


@pytest.mark.parametrize(
    ("content", "expected", "found"),
    [
        (zipped(idx((3, 2, 2), PIXELS, magic=b"\1\0")), "magic number", "01 00 08 03"),
        (zipped(idx((3, 2, 2), PIXELS, code=0x0A)), "magic number", "00 00 0a 03"),
        (zipped(idx((), b"x")), "magic number", "00 00 08 00"),
        (zipped(b"\x89PNG and more"), "magic number", "89 50 4e 47"),
        (zipped(b""), "magic number", "an empty file"),
        (b"", "magic number", "an empty file"),
        (zipped(idx((3, 2, 2), PIXELS[:-1])), r"28 bytes for shape \(3, 2, 2\)", "27"),
        (zipped(idx((3, 2, 2), PIXELS + b"\0")), r"28 bytes for shape \(3, 2, 2\)", "29"),
        (zipped(idx((3, 2, 2), PIXELS)[:13]), "bytes for shape", "13"),
        (zipped(idx((1 << 31, 1 << 31, 4), PIXELS)), "18,446,744,073,709,551,632 bytes", "28"),
        (zipped(idx((0, 28, 28), b"")), "at least one item", r"\(0, 28, 28\)"),
        (idx((3, 2, 2), PIXELS), "a whole gzip file", "broken"),
        (GOOD[:-1], "a whole gzip file", "cut short"),
        (GOOD[:-20], "a whole gzip file", "cut short"),
        (GOOD[:-8] + bytes([GOOD[-8] ^ 1]) + GOOD[-7:], "a whole gzip file", "CRC"),
        (GOOD + b"more", "a whole gzip file", "broken"),
    ],
)
def test_idx_that_is_wrong_is_named(content, expected, found, tmp_path):
    path = tmp_path / "bad.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"bad.gz: expected .*{expected}.*found.*{found}"):
        read_idx(path)
    assert path.read_bytes() == content


def test_images_and_labels_must_belong_together(tmp_path):
    images = write_gz(tmp_path / "images.gz", idx((3, 2, 2), PIXELS))
    labels = write_gz(tmp_path / "labels.gz", idx((3,), bytes([0, 9, 1])))
    assert [array.shape for array in datasets.read_images(images, labels, 10)] == [(3, 2, 2), (3,)]
    with pytest.raises(ValueError, match=r"3 images but .*labels.gz has 4 labels"):
        datasets.read_images(images, write_gz(labels, idx((4,), bytes(4))), 10)
    with pytest.raises(ValueError, match=r"labels.gz: expected labels below 10, found 10"):
        datasets.read_images(images, write_gz(labels, idx((3,), bytes([0, 10, 1]))), 10)
    with pytest.raises(ValueError, match=r"labels.gz: expected uint8 labels \(N,\), found uint8 \(3, 2, 2\)"):
        datasets.read_images(images, images.rename(labels) and write_gz(images, idx((3, 2, 2), PIXELS)) and labels, 10)
    with pytest.raises(ValueError, match=r"images.gz: expected uint8 images \(N, H, W\), found float32 \(1, 1, 3\)"):
        datasets.read_images(write_gz(images, idx((1, 1, 3), PIXELS, code=0x0D)), labels, 10)


# --- TensorData ---------------------------------------------------------------------------------------------


def test_a_batch_is_its_items_stacked():
    examples = TensorData(torch.randn(7, 2, 3), torch.arange(7))
    assert len(examples) == 7 and examples.pure
    for indices in ([3, 0, 3], torch.tensor([3, 0, 3]), torch.tensor([], dtype=torch.int64)):
        x, y = examples.batch(indices)
        assert x.shape == (len(indices), 2, 3) and y.tolist() == [int(i) for i in indices]
        assert all(torch.equal(row, examples[int(i)][0]) for row, i in zip(x, indices, strict=True))


def test_torchs_own_loader_makes_batches_of_it():
    examples = TensorData(torch.randn(7, 2, 3), torch.arange(7))
    x, y = zip(*DataLoader(examples, 3), strict=True)
    assert [len(part) for part in x] == [3, 3, 1]
    assert torch.equal(torch.cat(x), examples.x) and torch.equal(torch.cat(y), examples.y)


@pytest.mark.parametrize("index", [7, -1])
def test_index_outside_is_refused(index):
    with pytest.raises(IndexError):
        TensorData(torch.randn(7, 2), torch.arange(7)).batch([0, index])


def test_to_leaves_the_original_where_it_is():
    examples = TensorData(torch.zeros(2, 1), torch.zeros(2), regression=True)
    moved = examples.to("cpu")
    assert moved is not examples and moved.regression and moved.x.device.type == "cpu"
    if torch.cuda.is_available():
        moved = examples.to("cuda")
        assert moved.batch([1, 0])[0].is_cuda and not examples.x.is_cuda


def test_ignored_labels_are_allowed():
    assert TensorData(torch.zeros(2, 3), torch.tensor([[0, IGNORE, 2], [IGNORE, 1, 1]])).y.min() == -100


@pytest.mark.parametrize(
    ("x", "y", "regression", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(4).long(), False, r"\(3, 2\) and y \(4,\) differ in length"),
        (torch.zeros(3, 2), torch.tensor(0), False, r"y \(\) differ"),
        (torch.zeros(0, 2), torch.zeros(0).long(), False, r"no examples: x has shape \(0, 2\)"),
        (torch.zeros(3, 2), torch.zeros(3), False, r"must be int64, got torch.float32.*regression=True"),
        (torch.zeros(3, 2), torch.zeros(3).int(), False, r"must be int64, got torch.int32"),
        (torch.zeros(3, 2), torch.tensor([0, -1, IGNORE]), False, "label -1 is negative"),
        (torch.zeros(3, 2), torch.zeros(3).long(), True, "needs float targets, got torch.int64"),
    ],
)
def test_wrong_tensors_are_refused(x, y, regression, message):
    with pytest.raises(ValueError, match=message):
        TensorData(x, y, regression)


# --- splits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(70, 20, 10), (50, 20), (100,), (100, 0), ()])
def test_parts_are_disjoint_and_as_large_as_they_claim(sizes):
    parts = split_indices(100, sizes, seed=3)
    together = torch.cat([*parts, torch.tensor([], dtype=torch.int64)]).tolist()
    assert tuple(map(len, parts)) == sizes
    assert len(set(together)) == len(together) == sum(sizes) and set(together) <= set(range(100))
    assert all(part.tolist() == sorted(part.tolist()) for part in parts)


def test_split_depends_on_its_seed_alone():
    first = split_indices(100, (50, 50), seed=3)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    assert torch.equal(first[0], split_indices(100, (50, 50), seed=3)[0])
    assert torch.equal(state, torch.get_rng_state())  # nothing was drawn from the global stream
    other = split_indices(100, (50, 50), seed=4)[0]
    assert 10 < len(set(first[0].tolist()) & set(other.tolist())) < 40  # neither the same nor in order


@pytest.mark.parametrize("sizes", [(60, 50), (101,), (-1, 50)])
def test_impossible_split_is_refused(sizes):
    with pytest.raises(ValueError, match=re.escape(f"{sizes} from 100 examples")):
        split_indices(100, sizes, seed=0)


def digests(images: torch.Tensor) -> collections.Counter:
    return collections.Counter(hashlib.md5(image.numpy().tobytes()).hexdigest() for image in images)


def raw_digests(x: torch.Tensor, mean: float, std: float) -> collections.Counter:
    """Of the pixels before they were normalised."""
    return digests((x.double() * std + mean).mul(255).round().to(torch.uint8).squeeze(1))


# --- FashionMNIST -------------------------------------------------------------------------------------------


def test_stand_in_has_the_shapes_and_types_of_the_real_images():
    splits = datasets.fashion_mnist(val=1_000, seed=5)
    assert not splits.real and len(splits.names) == 10
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [5_900, 100, 1_000]
    for part in (splits.train, splits.val, splits.test):
        assert part.x.dtype == torch.float32 and part.x.shape[1:] == (1, 28, 28)
        assert part.y.dtype == torch.int64 and set(part.y.tolist()) == set(range(10))


def test_no_validation_trains_on_everything():
    splits = datasets.fashion_mnist(val=0)
    assert splits.val is None and len(splits.train) == datasets.STAND_IN_TRAIN


@pytest.mark.parametrize("val", [-1, 60_000])
def test_impossible_validation_size_is_refused(val):
    with pytest.raises(ValueError, match=f"val={val}"):
        datasets.fashion_mnist(val=val)


def test_train_and_validation_partition_the_images():
    images, _ = datasets._draw_shapes(datasets.STAND_IN_TRAIN, seed=1)
    splits = datasets.fashion_mnist()
    parts = [raw_digests(part.x, splits.mean, splits.std) for part in (splits.train, splits.val, splits.test)]
    assert parts[0] + parts[1] == digests(torch.from_numpy(images))
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]


def test_labels_stay_with_their_images():
    images, labels = datasets._draw_shapes(datasets.STAND_IN_TRAIN, seed=1)
    label_of = {
        hashlib.md5(image.tobytes()).hexdigest(): int(label) for image, label in zip(images, labels, strict=True)
    }
    splits = datasets.fashion_mnist()
    for part in (splits.train, splits.val):
        raw = (part.x.double() * splits.std + splits.mean).mul(255).round().to(torch.uint8)
        assert part.y.tolist() == [label_of[hashlib.md5(image.numpy().tobytes()).hexdigest()] for image in raw]


def test_images_are_normalised_by_the_train_part_alone(monkeypatch):
    """Whatever is in the validation images moves nothing; one pixel of a training image does."""
    images, labels = datasets._draw_shapes(datasets.STAND_IN_TRAIN, seed=1)
    before = datasets.fashion_mnist(seed=7)
    train = before.train.x.double()
    assert abs(train.mean()) < 1e-6 and abs(train.std(correction=0) - 1) < 1e-6
    chosen, held_out = split_indices(len(images), (5_500, 500), seed=7)
    pixels = images[chosen.numpy()] / 255
    assert before.mean == pytest.approx(pixels.mean(), rel=1e-12) and before.std == pytest.approx(
        pixels.std(), rel=1e-12
    )

    def redraw(n, seed):
        return (
            (images.copy(), labels)
            if n == datasets.STAND_IN_TRAIN
            else (np.full((n, 28, 28), 255, np.uint8), labels[:n])
        )

    monkeypatch.setattr(datasets, "_draw_shapes", redraw)
    images[held_out.numpy()] = 255
    after = datasets.fashion_mnist(seed=7)
    assert (after.mean, after.std) == (before.mean, before.std)
    assert torch.equal(after.train.x, before.train.x) and not torch.equal(after.val.x, before.val.x)
    images[chosen[0].item(), 0, 0] ^= 255
    assert datasets.fashion_mnist(seed=7).mean != before.mean


def test_images_without_contrast_are_refused():
    with pytest.raises(ValueError, match=r"all pixels are the same \(3\)"):
        datasets.pixel_statistics(torch.full((2, 4, 4), 3, dtype=torch.uint8))


def test_stand_in_announces_itself_once(capsys):
    datasets.fashion_mnist()
    datasets.fashion_mnist()
    datasets.tiny_shakespeare()
    datasets.tiny_shakespeare()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "FashionMNIST is not at hand" in lines[0] and "TinyShakespeare" in lines[1]
    assert all("in COURSE_DATA" in line for line in lines)


def test_stand_in_names_the_file_that_course_data_lacks(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    datasets.tiny_shakespeare()
    assert f"COURSE_DATA={str(tmp_path)!r} holds no tinyshakespeare/input.txt" in capsys.readouterr().out


def test_the_stand_in_as_files_holds_the_same_images(tmp_path):
    found = datasets.fashion_mnist_files()
    assert (
        not found.real
        and found.names == datasets.fashion_mnist().names
        and list(found.content) == list(facts.FASHION_MNIST)
    )
    for part, drawn in zip(("train", "test"), ((datasets.STAND_IN_TRAIN, 1), (datasets.STAND_IN_TEST, 2)), strict=True):
        for kind, array in zip(("images", "labels"), datasets._draw_shapes(*drawn), strict=True):
            path = tmp_path / "packed.gz"
            path.write_bytes(gzip.compress(found.content[f"{part} {kind}"], 1))
            assert np.array_equal(read_idx(path), array)


def test_one_missing_file_means_the_stand_in_for_all(monkeypatch):
    missing = facts.FASHION_MNIST["test labels"]
    monkeypatch.setattr(datasets, "find", lambda file: None if file is missing else Path("never opened"))
    assert datasets.fashion_mnist().real is False


def fit(model, part: TensorData, steps: int, lr: float) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        x, y = part.batch(torch.randint(len(part), (64,), generator=generator))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def accuracy(model, part: TensorData) -> float:
    return (model(part.x).argmax(1) == part.y).double().mean().item()


def test_stand_in_can_be_learned_and_is_not_trivial():
    torch.manual_seed(0)
    splits = datasets.fashion_mnist()
    flat, hidden, last = torch.nn.Flatten(), torch.nn.Linear(784, 128), torch.nn.Linear(128, 10)
    mlp, linear = (
        torch.nn.Sequential(flat, hidden, torch.nn.ReLU(), last),
        torch.nn.Sequential(flat, torch.nn.Linear(784, 10)),
    )
    fit(mlp, splits.train, 400, 1e-3)
    fit(linear, splits.train, 400, 1e-3)
    assert accuracy(mlp, splits.test) > 0.8
    assert 0.3 < accuracy(linear, splits.test) < 0.7


@real_data
def test_real_images_are_the_published_ones(monkeypatch):
    monkeypatch.setenv("COURSE_DATA", COURSE_DATA)
    paths = {part: download.find(file) for part, file in facts.FASHION_MNIST.items()}
    images, labels = datasets.read_images(paths["train images"], paths["train labels"], 10)
    assert images.shape == (facts.FASHION_MNIST_TRAIN, 28, 28) and np.bincount(labels).tolist() == [6_000] * 10
    mean, std = datasets.pixel_statistics(torch.from_numpy(images))
    assert (round(mean, 4), round(std, 4)) == (0.2860, 0.3530)
    assert round(100 * (images == 0).mean(), 1) == 50.2
    images, labels = datasets.read_images(paths["test images"], paths["test labels"], 10)
    assert images.shape == (facts.FASHION_MNIST_TEST, 28, 28) and np.bincount(labels).tolist() == [1_000] * 10


@real_data
@pytest.mark.slow
def test_real_splits_partition_the_published_images(monkeypatch):
    monkeypatch.setenv("COURSE_DATA", COURSE_DATA)
    images = read_idx(download.find(facts.FASHION_MNIST["train images"]))
    real_fashion = datasets.fashion_mnist()
    assert real_fashion.real and real_fashion.names[9] == "Ankle boot"
    assert [len(part) for part in (real_fashion.train, real_fashion.val, real_fashion.test)] == [55_000, 5_000, 10_000]
    both = torch.bincount(real_fashion.train.y) + torch.bincount(real_fashion.val.y)
    assert both.tolist() == [6_000] * 10
    parts = [
        raw_digests(part.x, real_fashion.mean, real_fashion.std) for part in (real_fashion.train, real_fashion.val)
    ]
    assert parts[0] + parts[1] == digests(torch.from_numpy(images))


@real_data
def test_the_real_files_are_only_unpacked(monkeypatch):
    monkeypatch.setenv("COURSE_DATA", COURSE_DATA)
    found = datasets.fashion_mnist_files()
    sizes = {part: len(content) for part, content in found.content.items()}
    assert sizes == {
        "train images": 47_040_016,
        "train labels": 60_008,
        "test images": 7_840_016,
        "test labels": 10_008,
    }
    assert found.real and found.names[9] == "Ankle boot"
    assert found.content["train images"][:16].hex() == "000008030000ea600000001c0000001c"


@real_data
def test_tampered_images_are_never_used(tmp_path, monkeypatch):
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for file in facts.FASHION_MNIST.values():
        (folder / Path(file.path).name).symlink_to((download.COURSE_ROOT / COURSE_DATA / file.path).resolve())
    labels = folder / "train-labels-idx1-ubyte.gz"
    content = labels.read_bytes()
    labels.unlink()
    labels.write_bytes(content[:-1])
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"train-labels-idx1-ubyte.gz is not the published file: expected 29,515 bytes"
    ):
        datasets.fashion_mnist()


# --- windows of tokens --------------------------------------------------------------------------------------


def tokens_of(n: int) -> np.ndarray:
    """No two places near each other hold the same token."""
    return (np.arange(n) * 7 % 1_009).astype(np.uint16)


@pytest.mark.parametrize(
    ("n", "context"), [(2, 1), (65, 64), (66, 64), (129, 64), (128, 64), (1_000, 7), (11, 10), (50, 1)]
)
def test_validation_counts_every_target_once(n, context):
    tokens = tokens_of(n)
    windows = Windows(tokens, context, stride=context)
    x, y = windows.batch(range(len(windows)))
    assert x.shape == y.shape == (len(windows), context) and x.dtype == y.dtype == torch.int64
    counted = y != IGNORE
    assert y[counted].tolist() == tokens[1:].tolist()
    assert x[counted].tolist() == tokens[:-1].tolist()
    assert counted.any(dim=1).all()  # no window of padding alone
    assert x.min() >= 0 and x.max() < 1_009  # padding can be looked up in an embedding


@pytest.mark.parametrize(("n", "context", "stride"), [(2, 1, 1), (65, 64, 1), (100, 7, 1), (100, 7, 3)])
def test_training_windows_are_slices_of_the_text(n, context, stride):
    tokens = tokens_of(n).tolist()
    windows = Windows(tokens_of(n), context, stride)
    for i in range(len(windows)):
        x, y = windows[i]
        start = i * stride
        padded = tokens[start + 1 : start + 1 + context]
        assert y.tolist() == padded + [IGNORE] * (context - len(padded))
        assert x.tolist()[: len(padded)] == tokens[start : start + len(padded)]
    assert start + context >= n - 1  # the last target is reached
    if stride == 1:
        assert len(windows) == n - context and len(padded) == context  # every window that is full


def test_windows_are_fetched_alike_one_by_one_and_at_once():
    windows = Windows(tokens_of(100), 8, 8)
    for indices in ([3, 0, 12], torch.tensor([3, 0, 12]), np.array([3, 0, 12])):
        x, y = windows.batch(indices)
        for row, i in enumerate([3, 0, 12]):
            assert torch.equal(x[row], windows[i][0]) and torch.equal(y[row], windows[i][1])
    assert windows.pure and len(list(windows)) == len(windows)  # a plain for ends


@pytest.mark.parametrize("index", [-1, 13, 10**9])
def test_window_outside_is_refused(index):
    with pytest.raises(IndexError, match=f"{index}.* of 13"):
        Windows(tokens_of(100), 8, 8)[index]


@pytest.mark.parametrize(
    ("tokens", "context", "stride", "message"),
    [
        (tokens_of(10), 0, 1, "context=0"),
        (tokens_of(10), 10, 1, "context=10: at least 1, and less than the 10 tokens"),
        (tokens_of(1), 1, 1, "1 tokens hold no target"),
        (tokens_of(0), 1, 1, "0 tokens hold no target"),
        (tokens_of(10), 4, 0, "stride=0"),
        (tokens_of(10), 4, 5, "stride=5: .*left out"),
        (tokens_of(10).astype(np.float32), 4, 1, "integers .*, got float32"),
        (tokens_of(10).reshape(2, 5), 4, 1, r"got uint16 \(2, 5\)"),
    ],
)
def test_impossible_windows_are_refused(tokens, context, stride, message):
    with pytest.raises(ValueError, match=message):
        Windows(tokens, context, stride)


# --- text ---------------------------------------------------------------------------------------------------


def test_text_comes_back_from_its_tokens(tmp_path):
    text = "Hä? 🙂\r\n" * 500 + "the end"
    (tmp_path / "mine.txt").write_bytes(text.encode())
    splits = datasets.text_file(tmp_path / "mine.txt", context=8)
    assert splits.names == tuple(sorted(set(text))) and splits.real and splits.test is None
    ids = [*splits.train.tokens.tolist(), *splits.val.tokens.tolist()]
    assert "".join(splits.names[i] for i in ids) == text
    assert len(splits.train.tokens) == len(text) * 9 // 10
    assert (splits.train.stride, splits.val.stride) == (1, 8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad.txt is empty"),
        (b"fine so far \xff\xfe", "bad.txt is not UTF-8.*position 12"),
        (b"short", "context=8 for .*bad.txt: .*the 1 characters .of 5. that validation gets"),
        (b"x" * 80, "less than the 8 characters"),
        (None, "bad.txt is no file"),
    ],
)
def test_text_that_cannot_be_used_is_named(content, message, tmp_path):
    if content is not None:
        (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        datasets.text_file(tmp_path / "bad.txt", context=8)
    with pytest.raises(ValueError, match="is no file"):
        datasets.text_file(tmp_path, context=8)


def test_alphabet_has_room_for_uint16_and_no_more():
    largest = "".join(chr(0x10000 + i) for i in range(1 << 16))
    ids, alphabet = datasets.encode(largest[::-1])
    assert ids.dtype == np.uint16 and ids[:2].tolist() == [65_535, 65_534] and alphabet == tuple(largest)
    with pytest.raises(ValueError, match="65,537 distinct characters"):
        datasets.encode(largest + "a")


def test_tokens_are_a_memmap_of_uint16_in_the_cache(tmp_path):
    splits = datasets.tiny_shakespeare(context=32)
    (path,) = (tmp_path / "cache" / "honest-training-loop" / "tokens").iterdir()
    n = len(splits.train.tokens) + len(splits.val.tokens)
    assert path.stat().st_size == 2 * n
    for part in (splits.train, splits.val):
        assert type(part.tokens) is np.memmap and part.tokens.dtype == np.uint16 and part.tokens.mode == "r"
        assert Path(part.tokens.filename) == path
    assert not splits.real and len(splits.val.tokens) == n - n * 9 // 10
    before = path.stat()
    datasets.tiny_shakespeare(context=32)
    assert path.stat().st_ino == before.st_ino and path.stat().st_mtime_ns == before.st_mtime_ns  # used again


@pytest.mark.parametrize("harm", ["cut", "odd", "emptied", "flipped", "longer"])
def test_derived_token_file_is_rebuilt_when_wrong(harm, tmp_path):
    first = datasets.tiny_shakespeare(context=32)
    path = Path(first.train.tokens.filename)
    good = path.read_bytes()
    bad = {
        "cut": good[:-2],
        "odd": good[:-1],
        "emptied": b"",
        "flipped": good[:100] + bytes([good[100] ^ 1]) + good[101:],
        "longer": good + b"\0\0",
    }[harm]
    path.write_bytes(bad)
    datasets.tiny_shakespeare(context=32)
    assert path.read_bytes() == good
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_token_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def crash(source, target, **folders):
        raise OSError("power cut")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="power cut"):
        datasets.tiny_shakespeare()
    assert not list(tmp_path.rglob("*.uint16"))


def test_the_text_of_shakespeare_is_what_the_tokens_spell():
    splits = datasets.tiny_shakespeare(context=32)
    tokens = np.concatenate([splits.train.tokens, splits.val.tokens])
    assert "".join(np.array(splits.names)[tokens]) == datasets.shakespeare()


def test_other_text_gets_another_token_file(tmp_path):
    paths = set()
    for content in ("abc" * 100, "abd" * 100):  # the same ids
        (tmp_path / "text.txt").write_text(content)
        splits = datasets.text_file(tmp_path / "text.txt", context=8)
        paths.add(splits.train.tokens.filename)
        assert splits.names == tuple(sorted(set(content)))
    assert len(paths) == 2


def test_only_the_pages_in_use_are_read(tmp_path):
    """Windows over a file of 256 MB allocate less than one."""
    path = tmp_path / "large.uint16"
    n = 1 << 27
    with open(path, "wb") as stream:
        stream.truncate(2 * n)  # a hole: it takes no space on the disk
        stream.seek(2 * n - 2)
        stream.write(struct.pack("<H", 513))
    tracemalloc.start()
    try:
        windows = Windows(np.memmap(path, "<u2", "r"), 64, 1)
        _, y = windows.batch([0, n // 2, len(windows) - 1])
        copy = pickle.loads(pickle.dumps(windows))
        assert torch.equal(copy.batch([len(windows) - 1])[1][0], y[2])
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    assert y[2, -1] == 513 and y.sum() == 513


def test_pickled_windows_reopen_their_part_of_the_file():
    splits = datasets.tiny_shakespeare(context=32)
    for part in (splits.train, splits.val):
        content = pickle.dumps(part)
        copy = pickle.loads(content)
        assert len(content) < 2_000 and type(copy.tokens) is np.memmap
        assert copy.tokens.offset == part.tokens.offset and np.array_equal(copy.tokens, part.tokens)
    sliced = Windows(splits.train.tokens[100:200], 8, 1)  # no whole file: copied
    assert np.array_equal(pickle.loads(pickle.dumps(sliced)).tokens, splits.train.tokens[100:200])


# Python 3.12 warns of every fork in a process with threads, and torch has threads; "fork" is the loader's own default.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_deliver_the_same_batches(method):
    windows = datasets.tiny_shakespeare(context=32).val
    keys = [[0, 5], [len(windows) - 1], [7, 7, 7]]
    loader = DataLoader(windows, batch_sampler=keys, num_workers=1, multiprocessing_context=method)
    for (x, y), key in zip(loader, keys, strict=True):
        assert torch.equal(x, windows.batch(key)[0]) and torch.equal(y, windows.batch(key)[1])


@real_data
def test_real_text_is_the_published_one(monkeypatch):
    monkeypatch.setenv("COURSE_DATA", COURSE_DATA)
    splits = datasets.tiny_shakespeare(context=64)
    text = download.find(facts.TINY_SHAKESPEARE).read_bytes().decode("utf-8")
    assert splits.real and len(splits.names) == 65 == facts.TINY_SHAKESPEARE_SYMBOLS
    assert len(text) == 1_115_394 == facts.TINY_SHAKESPEARE_CHARACTERS
    assert (len(splits.train.tokens), len(splits.val.tokens)) == (1_003_854, 111_540)
    assert "".join(splits.names[i] for i in splits.train.tokens[:1_000]) == text[:1_000]
    assert "".join(splits.names[i] for i in splits.val.tokens) == text[1_003_854:]
    _, y = splits.val.batch(range(len(splits.val)))
    assert (y != IGNORE).sum() == 111_539


# --- the spiral ---------------------------------------------------------------------------------------------


def test_spiral_is_split_in_three_disjoint_parts():
    splits = datasets.spiral(seed=2)
    parts = (splits.train, splits.val, splits.test)
    assert [len(part) for part in parts] == [1_400, 299, 299] and splits.real and len(splits.names) == 3
    assert all(part.x.dtype == torch.float32 and part.x.shape[1:] == (2,) for part in parts)
    together = {tuple(point) for part in parts for point in part.x.tolist()}
    assert len(together) == 1_998
    assert all(torch.bincount(part.y).min() >= len(part) // 3 for part in parts)
    assert torch.cat([part.x for part in parts]).norm(dim=1).max() <= 1.0001


def test_spiral_depends_on_its_seed_alone():
    first = datasets.spiral(seed=2).train.x
    torch.manual_seed(99)
    assert torch.equal(first, datasets.spiral(seed=2).train.x) and not torch.equal(
        first, datasets.spiral(seed=3).train.x
    )


def test_spiral_is_learned_by_an_mlp_and_not_by_a_line():
    torch.manual_seed(0)
    splits = datasets.spiral()
    layers = [
        torch.nn.Linear(2, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 3),
    ]
    mlp, line = torch.nn.Sequential(*layers), torch.nn.Linear(2, 3)
    fit(mlp, splits.train, 600, 3e-3)
    fit(line, splits.train, 600, 3e-3)
    assert accuracy(mlp, splits.test) >= 0.99 and accuracy(line, splits.test) < 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 5}, "n=5"),
        ({"classes": 0}, "classes=0"),
        ({"noise": -0.1}, "noise=-0.1"),
        ({"noise": math.nan}, "noise=nan"),
    ],
)
def test_impossible_spiral_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.spiral(**arguments)


def test_tensors_of_several_parts():
    """A dict of tokens and masks, say; and targets of any kind, if there are several."""
    x = {"ids": torch.arange(12).reshape(6, 2), "more": (torch.arange(6.0), None)}
    y = {"label": torch.arange(6), "box": torch.rand(6, 4)}
    data = TensorData(x, y)
    (ids, more), target = data.batch([4, 1])[0].values(), data[5][1]
    assert ids.tolist() == [[8, 9], [2, 3]] and more[0].tolist() == [4.0, 1.0] and more[1] is None
    assert target["label"] == 5 and len(data) == 6 and data.to("meta").x["more"][0].device.type == "meta"
    with pytest.raises(IndexError):
        data.batch([6])
    with pytest.raises(
        ValueError, match=r"x\['ids'\] \(6, 2\) and x\['more'\]\[0\] \(6,\) and y \(5,\) differ in length"
    ):
        TensorData(x, torch.arange(5))
