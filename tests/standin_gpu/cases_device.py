"""utils/device.py on a device that is not the CPU."""

import pytest
import torch
import torch.nn.functional as F

from utils.device import (
    accelerator,
    autocast,
    copies_from_pinned,
    fingerprint,
    memory_limit,
    own_random_streams,
    pick_device,
    rng_state,
    seed_everything,
    set_rng_state,
    synchronize,
)
from utils.distributed.ranks import Ranks
from utils.loop.guards import Snapshot
from utils.loop.monitor import peak_memory_bytes


def drawn() -> torch.Tensor:
    """A dropout mask, drawn on the device."""
    return F.dropout(torch.ones(64, device="gpu"), 0.5)


def test_auto_is_the_accelerator_whatever_it_is_called(gpu):
    assert pick_device() == accelerator() == gpu
    assert Ranks().pick_device("auto") == gpu
    with pytest.raises(ValueError, match="'cuda' is not available here"):
        pick_device("cuda")
    with pytest.raises(ValueError, match="'gpu:1' is not available here"):
        pick_device("gpu:1")


def test_several_ranks_are_refused_where_they_cannot_reach_each_other():
    with pytest.raises(ValueError, match=r"'auto'.*2 ranks.*cpu and cuda only"):
        Ranks(0, 2).pick_device("auto")
    assert Ranks(0, 2).pick_device("cpu") == torch.device("cpu")


def test_the_random_streams_of_the_device_are_among_all_streams():
    state = rng_state()
    first = drawn()
    assert not torch.equal(drawn(), first)
    set_rng_state(state)
    assert torch.equal(drawn(), first)


def test_a_seed_decides_what_the_device_draws():
    seed_everything(7)
    first = drawn()
    assert not torch.equal(drawn(), first)
    seed_everything(7)
    assert torch.equal(drawn(), first)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_block_with_random_streams_of_its_own_leaves_the_devices_alone(seed):
    before = torch.gpu.get_rng_state()
    with own_random_streams(seed):
        drawn()
    assert torch.equal(torch.gpu.get_rng_state(), before)


def test_a_forward_pass_is_forgotten_with_what_it_drew():
    before = Snapshot(torch.nn.Module()).take()
    first = drawn()
    before.restore()
    assert torch.equal(drawn(), first)


def test_streams_of_devices_that_are_not_here_are_left_out(tmp_path):
    """A checkpoint of another machine: of CUDA, of a CPU, of more devices than there are."""
    ours = rng_state()
    assert [tensor.shape for tensor in ours["gpu"]] == [torch.gpu.get_rng_state().shape]
    torch.save(ours, tmp_path / "state")
    loaded = torch.load(tmp_path / "state", weights_only=True)
    before = torch.gpu.get_rng_state()
    drawn()
    moved = torch.gpu.get_rng_state()
    of_cpu = {name: value for name, value in loaded.items() if name != "gpu"}
    for other in (of_cpu, of_cpu | {"cuda": []}, of_cpu | {"cuda": [torch.zeros(16, dtype=torch.uint8)]}):
        set_rng_state(other)
        assert torch.equal(torch.gpu.get_rng_state(), moved)
    set_rng_state(of_cpu | {"gpu": [*loaded["gpu"], torch.zeros(16, dtype=torch.uint8)]})
    assert torch.equal(torch.gpu.get_rng_state(), before)


def test_what_is_known_of_the_device(gpu):
    assert fingerprint(gpu)["hardware"] == "stand-in GPU" and fingerprint(gpu)["device"] == "gpu"
    assert fingerprint(torch.device("cpu"))["hardware"] != "stand-in GPU"
    assert memory_limit(gpu) == memory_limit(torch.device("cpu"))  # it tells nothing, and has the host's
    assert copies_from_pinned(gpu) and not copies_from_pinned(torch.device("cpu"))
    torch.gpu.reset_peak_memory_stats()
    large = torch.zeros(1 << 20, device=gpu)
    assert large.nbytes <= peak_memory_bytes(gpu) < 2 * large.nbytes
    synchronize(gpu)
    with pytest.raises(ValueError, match="'cuda:1' is not available here, it has gpu: try"):
        synchronize(torch.device("cuda:1"))


def test_autocast_is_the_devices(gpu):
    x = torch.ones(2, 2, device=gpu)
    for precision, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}.items():
        with autocast(gpu, precision):
            assert (x @ x).dtype == dtype
