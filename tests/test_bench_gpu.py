"""The benchmark of a GPU works, in small, on a CPU: what it holds against each other is the same work."""

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import bench_gpu
import pytest
import torch
import torch.nn.functional as F
from fast_images import REACH, Augment

from utils.facts import gpt_shape
from utils.loop import Config
from utils.loop.metrics import cross_entropy_sum

pytestmark = pytest.mark.nightly

BENCH = Path(bench_gpu.__file__)
CPU = torch.device("cpu")
SHAPE = gpt_shape("small", 1, 32, 2, 16, "this test", 64)


def test_the_ledger_made_on_fake_tensors_is_that_of_real_ones(monkeypatch):
    fake = bench_gpu.ledger(SHAPE, 3, CPU)
    monkeypatch.setattr(bench_gpu, "FakeTensorMode", nullcontext)
    assert fake == bench_gpu.ledger(SHAPE, 3, CPU)
    parameters = sum(p.numel() for p in bench_gpu._model(SHAPE).parameters())
    assert fake > 5 * 4 * parameters  # weights, gradients, two moments and an average, before any activation


@pytest.fixture
def job(tmp_path):
    config = Config(
        steps=6, batch_size=4, lr=1e-3, warmup=2, schedule="cosine", clip=bench_gpu.CLIP, ema=bench_gpu.DECAY,
        precision="bf16", device="cpu",
    )  # fmt: skip
    torch.manual_seed(0)
    return bench_gpu._model(SHAPE), bench_gpu._tokens(tmp_path, SHAPE, 40), config, cross_entropy_sum


def test_train_and_the_bare_loop_do_the_same_work(job):
    before = [p.clone() for p in job[0].parameters()]
    assert bench_gpu.check(*job) < 0.02
    assert all(map(torch.equal, before, job[0].parameters()))


def test_unequal_work_is_refused(job, monkeypatch):
    by_hand = bench_gpu.bare
    monkeypatch.setattr(bench_gpu, "bare", lambda m, d, config, loss: by_hand(m, d, replace(config, warmup=0), loss))
    with pytest.raises(ValueError, match="of their way apart"):
        bench_gpu.check(*job)


def test_augmented_images_are_the_images_shifted_and_mirrored():
    torch.manual_seed(0)
    x = torch.randn(60, 1, 9, 7)
    augmented = Augment()(x)
    seen = set()
    for image, changed in zip(x[:, 0], augmented[:, 0], strict=True):
        made = {
            (mirrored, top, left): F.pad(one[None], (REACH,) * 4, mode="reflect")[0, top : top + 9, left : left + 7]
            for mirrored, one in enumerate((image, image.flip(-1)))
            for top in range(2 * REACH + 1)
            for left in range(2 * REACH + 1)
        }
        found = [how for how, one in made.items() if torch.equal(one, changed)]
        assert len(found) == 1
        seen |= set(found)
    assert len(seen) > 30 and {how[0] for how in seen} == {0, 1}
    assert torch.equal(Augment().eval()(x), x)


def test_without_a_gpu_only_the_tiny_form_runs():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = subprocess.run([sys.executable, BENCH], capture_output=True, text=True)
    assert done.returncode == 2 and "no CUDA GPU here" in done.stderr and "--tiny" in done.stderr


@pytest.mark.slow
def test_all_of_it_runs_in_small(tmp_path):
    out = tmp_path / "bench.json"
    command = [sys.executable, BENCH, "--tiny", "--rounds", "1", "--seeds", "1", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert set(found) == {"machine", "ceilings", "gpt", "fashion"}
    assert set(found["gpt"]) == {"tiny eager", "tiny compiled"}
    assert found["gpt"]["tiny eager"]["predicted"] > 0
    assert all(0 <= row["accuracy"][0] <= 1 for row in found["fashion"].values())
