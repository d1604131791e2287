"""A checkpoint is written whole or not at all, and loaded only if every byte is as it was written."""

import os
import pickle
import random
import resource
import signal

import numpy as np
import pytest
import torch

from utils.device import rng_state, set_rng_state
from utils.loop import checkpoint

STATE = {"model": {"w": torch.arange(1000.0)}, "step": 3, "best": None, "names": ["a", "b"]}


def test_what_was_saved_is_loaded(tmp_path):
    path = checkpoint.save(tmp_path / "new", 3, STATE)
    loaded = checkpoint.load(path)
    assert torch.equal(loaded["model"]["w"], STATE["model"]["w"])
    assert {k: v for k, v in loaded.items() if k != "model"} == {k: v for k, v in STATE.items() if k != "model"}


def test_a_step_of_ten_digits_is_found_and_kept(tmp_path):
    for step in (999_999_998, 999_999_999, 10**9, 10**9 + 1):
        newest = checkpoint.save(tmp_path, step, {"step": step})
    assert checkpoint.load_newest(tmp_path)["step"] == 10**9 + 1
    checkpoint.prune(newest, keep=3)
    assert [checkpoint.load(path)["step"] for path in checkpoint.find(tmp_path)] == [999_999_999, 10**9, 10**9 + 1]


def test_a_folder_that_was_replaced_since_the_save_loses_nothing(tmp_path):
    for step in (1, 2, 3):
        checkpoint.save(tmp_path / "another", step, {"step": step})
    ours = checkpoint.save(tmp_path / "ours", 9, {"step": 9})
    before = checkpoint.find(tmp_path / "another")
    checkpoint.prune(tmp_path / "another" / ours.name, keep=1)
    assert checkpoint.find(tmp_path / "another") == before and len(before) == 3


def test_the_newest_is_by_step_not_by_time(tmp_path):
    for step in (10, 2, 100, 9):
        checkpoint.save(tmp_path, step, {"step": step})
    assert checkpoint.load_newest(tmp_path)["step"] == 100
    assert [int(path.name[5:14]) for path in checkpoint.find(tmp_path)] == [2, 9, 10, 100]
    assert checkpoint.load_newest(tmp_path, kind="best") is None


def steps(folder, kind="step") -> list[int]:
    return [int(path.name.split("-")[1]) for path in checkpoint.find(folder, kind)]


@pytest.mark.parametrize(("keep", "left"), [(1, [4]), (2, [3, 4]), (5, [0, 1, 2, 3, 4]), (9, [0, 1, 2, 3, 4])])
def test_prune_keeps_the_newest_and_other_kinds(tmp_path, keep, left):
    checkpoint.save(tmp_path, 1, {}, kind="best")
    for step in range(5):
        newest = checkpoint.save(tmp_path, step, {"step": step})
    checkpoint.prune(newest, keep)
    assert steps(tmp_path) == left and steps(tmp_path, "best") == [1]


def test_a_best_checkpoint_that_is_newer_is_the_newest(tmp_path):
    """Else a run that goes on from an older step would keep best weights that it never had."""
    for step, kind in [(4, "step"), (6, "best"), (3, "best")]:
        checkpoint.save(tmp_path, step, {"step": step, "kind": kind}, kind)
    assert checkpoint.load_newest(tmp_path, kind=None)["step"] == 6
    assert (checkpoint.load_newest(tmp_path)["step"], checkpoint.load_newest(tmp_path, "best")["step"]) == (4, 6)
    checkpoint.save(tmp_path, 6, {"step": 6, "kind": "step"})
    assert checkpoint.load_newest(tmp_path, kind=None)["kind"] == "step"


def test_sweep_deletes_what_crashed_saves_left_and_nothing_else(tmp_path):
    (tmp_path / ".tmp-step-000000009-1").write_bytes(b"half a file")
    (tmp_path / ".tmp-step-000000009-shards").mkdir()
    checkpoint.save(tmp_path, 1, {})
    checkpoint.sweep(tmp_path)
    assert steps(tmp_path) == [1] and len(list(tmp_path.iterdir())) == 1
    checkpoint.sweep(tmp_path / "not there")


def test_a_whole_checkpoint_that_cannot_be_read_is_an_error_and_not_skipped(tmp_path):
    """To go on from an older one would in time delete it."""
    checkpoint.save(tmp_path, 1, {"step": 1})
    checkpoint.save(tmp_path, 2, {"step": Odd()})
    with pytest.raises(ValueError, match="is not a checkpoint of plain data"):
        checkpoint.load_newest(tmp_path)


class Odd:
    """Nothing that loads without running code."""


@pytest.mark.parametrize("keep", [1, 2])
def test_a_damaged_file_of_a_later_step_does_not_push_out_good_ones(tmp_path, keep):
    """Resumed from step 10 because 30 is damaged: what is saved from here on must stay."""
    for step in (10, 30):
        path = checkpoint.save(tmp_path, step, {"step": step})
    path.write_bytes(b"damaged")
    newest = checkpoint.save(tmp_path, 20, {"step": 20})
    checkpoint.prune(newest, keep)
    assert steps(tmp_path) == [10, 20][-keep:]
    assert checkpoint.load_newest(tmp_path)["step"] == 20
    path = checkpoint.save(tmp_path, 30, {"step": 30})
    path.write_bytes(b"damaged")
    checkpoint.prune(checkpoint.save(tmp_path, 30, {"step": 30, "again": True}), keep)
    assert checkpoint.load_newest(tmp_path)["again"]


@pytest.mark.parametrize("damage", ["flip", "truncate", "append", "empty"])
def test_damage_is_refused_and_the_one_before_it_used(tmp_path, damage):
    checkpoint.save(tmp_path, 1, {"step": 1})
    newest = checkpoint.save(tmp_path, 2, {"step": 2, "w": torch.zeros(1000)})
    whole = newest.read_bytes()
    choose = random.Random(0)
    for _ in range(10):
        place = choose.randrange(len(whole))
        flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        newest.write_bytes({"flip": flipped, "truncate": whole[:place], "append": whole + b"\0", "empty": b""}[damage])
        with pytest.raises(ValueError, match="damaged"):
            checkpoint.load(newest)
        said = []
        assert checkpoint.load_newest(tmp_path, say=said.append)["step"] == 1
        assert len(said) == 1 and newest.name in said[0]
    newest.write_bytes(whole)
    assert checkpoint.load_newest(tmp_path)["step"] == 2


def test_torch_alone_does_not_notice(tmp_path):
    """Why there is a digest: torch.load takes a file with one flipped bit in a weight."""
    path = checkpoint.save(tmp_path, 1, {"w": torch.zeros(1000)})
    content = bytearray(path.read_bytes())
    content[content.index(bytes(400)) + 200] ^= 1  # in the middle of the zeros
    path.write_bytes(content)
    assert torch.load(path)["w"].count_nonzero() == 1
    with pytest.raises(ValueError, match="damaged"):
        checkpoint.load(path)


class Hostile:
    def __reduce__(self):
        return os.mkdir, (self.target,)


def test_a_file_that_would_run_code_is_refused_and_nothing_runs(tmp_path):
    hostile = Hostile()
    Hostile.target = str(tmp_path / "it-ran")
    with pytest.raises(ValueError, match="plain data"):
        checkpoint.load(checkpoint.save(tmp_path, 1, {"x": hostile}))
    assert not (tmp_path / "it-ran").exists()
    pickle.loads(pickle.dumps(hostile))
    assert (tmp_path / "it-ran").exists()  # it would have


def test_a_renamed_file_is_refused(tmp_path):
    path = checkpoint.save(tmp_path, 1, {})
    with pytest.raises(ValueError, match="was it renamed"):
        checkpoint.load(path.rename(tmp_path / "step-1.pt"))


@pytest.fixture
def full_disk():
    """No file may grow beyond 100 kB: what a full disk does to a write, without needing a disk to fill."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, previous)


def test_a_full_disk_is_an_error_that_leaves_the_last_one_intact(tmp_path, full_disk):
    checkpoint.save(tmp_path, 1, {"step": 1})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match=r"step 2 could not be written .* Earlier checkpoints are intact"):
        checkpoint.save(tmp_path, 2, {"w": torch.zeros(10**6)})
    assert sorted(tmp_path.iterdir()) == before
    assert checkpoint.load_newest(tmp_path)["step"] == 1


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RuntimeError, match="could not be written"):
        checkpoint.save(tmp_path / "file" / "checkpoints", 1, {})


def test_the_random_streams_survive_the_file(tmp_path):
    path = checkpoint.save(tmp_path, 1, {"rng": rng_state()})
    expected = torch.rand(3), np.random.rand(), np.random.randn(), random.random()  # noqa: NPY002
    set_rng_state(checkpoint.load(path)["rng"])
    again = torch.rand(3), np.random.rand(), np.random.randn(), random.random()  # noqa: NPY002
    assert torch.equal(expected[0], again[0]) and expected[1:] == again[1:]
