"""The stand-in itself: it computes like the CPU, and is another device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from standin_gpu import standin
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def stepped(device: str, optimizer: type, dtype: torch.dtype) -> list[torch.Tensor]:
    """Everything that two steps leave behind."""
    model = network().to(dtype)
    updates = optimizer(model.parameters(), lr=0.1)  # made before the move, as a GPU allows
    model.to(device)
    for seed in range(2):
        x = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(seed)).to(device, dtype)
        loss = F.cross_entropy(model(x), torch.arange(8, device=device) % 3)
        updates.zero_grad()
        loss.backward()
        updates.step()
    return [loss, *(p.grad for p in model.parameters()), *model.state_dict().values()]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_computes_what_the_cpu_computes_bit_for_bit(optimizer, dtype):
    there, here = stepped("gpu", optimizer, dtype), stepped("cpu", optimizer, dtype)
    assert all(tensor.device == torch.device("gpu:0") for tensor in there)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(there, here, strict=True))


@pytest.mark.parametrize("bias", [True, False])
def test_an_lstm_and_its_gradients_are_the_cpus(bias):
    def gradients(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layer, x = nn.LSTM(3, 4, num_layers=2, bias=bias).to(device), torch.randn(5, 2, 3).to(device).requires_grad_()
        outputs, (h, c) = layer(x)
        (outputs.square().sum() + 2 * h.sum() + 3 * c.sin().sum()).backward()
        return [outputs.detach(), x.grad, *(p.grad for p in layer.parameters())]

    there, here = gradients("gpu"), gradients("cpu")
    for ours, cpus in zip(there, here, strict=True):
        torch.testing.assert_close(ours.cpu(), cpus)


def test_it_is_the_accelerator_and_there_is_one_of_it():
    assert torch.accelerator.current_accelerator(check_available=True) == torch.device("gpu")
    assert torch.accelerator.device_count() == 1
    with pytest.raises(RuntimeError, match="no number 1"):
        torch.empty(1, device="gpu:1")


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x, y: x + y,
        lambda x, y: y.mul_(x),
        lambda x, y: x @ y,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: F.linear(x, y),
        lambda x, y: torch._foreach_add([x], [y]),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: F.cross_entropy(x, y.argmax(1)),
    ],
)
def test_it_refuses_to_mix_devices(mixed):
    x = torch.ones(3, 3)
    mixed(x, x.clone())
    for one, other in ((x.to("gpu"), x), (x, x.to("gpu"))):
        with pytest.raises(RuntimeError, match="same device"):
            mixed(one, other)


def test_what_a_gpu_takes_from_the_host_it_takes_too():
    """Numbers, indices, and the lengths of sequences."""
    x = torch.arange(6.0, device="gpu")
    assert (x + torch.tensor(1.0)).sum() == 21
    assert x[torch.tensor([1, 5])].tolist() == [1, 5]
    x[torch.tensor([0])] = 7.0
    assert x[0] == 7
    packed = pack_padded_sequence(torch.ones(2, 3, 1, device="gpu"), torch.tensor([3, 2]), batch_first=True)
    assert packed.data.shape == (5, 1) and packed.data.device.type == "gpu"


def test_numpy_has_no_access_to_its_memory():
    with pytest.raises(TypeError, match="can't convert gpu:0"):
        torch.ones(1, device="gpu").numpy()


def test_views_share_their_bytes_and_their_storage():
    x = torch.zeros(4, 3, device="gpu")
    views = [x.t(), x[1:], x.view(12), x.unfold(0, 2, 1), x.reshape(2, 6), x.detach(), torch.as_strided(x, (2,), (1,))]
    complexes = torch.zeros(3, dtype=torch.complex64, device="gpu")
    for whole, view in [*((x, view) for view in views), (complexes, torch.view_as_real(complexes))]:
        assert view.untyped_storage()._cdata == whole.untyped_storage()._cdata
        view.fill_(1)
        assert whole.abs().max() >= 1
        whole.zero_()


def test_out_and_resize_change_the_tensor_that_was_given():
    out = torch.empty(0, device="gpu")
    torch.add(torch.ones(3, device="gpu"), 1, out=out)
    assert out.tolist() == [2, 2, 2] and out.device.type == "gpu"
    out.resize_(5)[3:] = 4.0
    assert out.tolist() == [2, 2, 2, 4, 4]


def test_a_seed_begins_another_stream_than_on_the_cpu_and_the_same_one_each_time():
    torch.manual_seed(5)
    assert torch.initial_seed() == 5
    one, other = torch.randn(4, device="gpu"), torch.randn(4)
    assert not torch.equal(one.cpu(), other)
    torch.manual_seed(5)
    assert torch.equal(torch.randn(4, device="gpu"), one)
    torch.gpu.manual_seed(5)
    assert torch.equal(torch.randn(4, device="gpu"), one)
    generator = torch.Generator("gpu").manual_seed(5)
    assert generator.initial_seed() == 5
    assert torch.equal(torch.randn(4, device="gpu", generator=generator), one)
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(4, device="gpu", generator=torch.Generator())


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(4, device="gpu"),
        lambda: torch.randperm(9, device="gpu"),
        lambda: torch.randint(9, (4,), device="gpu"),
        lambda: F.dropout(torch.ones(32, device="gpu"), 0.5),
        lambda: torch.bernoulli(torch.full((32,), 0.5, device="gpu")),
        lambda: torch.multinomial(torch.ones(9, device="gpu"), 4),
        lambda: F.rrelu(-torch.ones(9, device="gpu"), training=True),
        lambda: nn.init.kaiming_normal_(torch.empty(3, 3, device="gpu")),
        lambda: nn.init.trunc_normal_(torch.empty(3, 3, device="gpu")),
        lambda: F.scaled_dot_product_attention(*torch.ones(3, 1, 1, 8, 4, device="gpu"), dropout_p=0.5),
    ],
)
def test_what_is_drawn_on_it_comes_from_its_own_stream(draw):
    state, cpus = torch.gpu.get_rng_state(), torch.get_rng_state()
    one = draw()
    assert not torch.equal(torch.gpu.get_rng_state(), state) and torch.equal(torch.get_rng_state(), cpus)
    torch.gpu.set_rng_state(state)
    assert torch.equal(draw(), one)


def test_pinned_memory_is_known_as_such():
    x = torch.ones(3)
    assert x.pin_memory().is_pinned() and not x.is_pinned()
    assert torch.equal(x.pin_memory().to("gpu", non_blocking=True).cpu(), x)


def test_autocast_knows_what_to_lower_and_what_to_keep():
    x = torch.ones(2, 2, device="gpu")
    with torch.autocast("gpu", dtype=torch.float16):
        assert (x @ x).dtype == torch.float16
        assert torch.exp(x @ x).dtype == torch.float32
        assert torch.cat([x, x.half()]).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32


def test_its_stream_is_out_of_reach_in_a_forked_process_as_cudas_is():
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            torch.gpu.get_rng_state()
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as told:
        assert "in forked subprocess" in told.read()
    os.wait()


def test_it_counts_the_operators_that_run_on_it_and_no_copies_views_or_allocations():
    def counted(work) -> int:
        before = torch.gpu.operators()
        work()
        return torch.gpu.operators() - before

    host, x = torch.ones(4, 4), torch.ones(4, 4, device="gpu")
    assert counted(lambda: host @ host) == 0
    assert counted(lambda: (host.to("gpu"), x.cpu(), x.sum, x.view(16), x.T, torch.empty(3, device="gpu"))) == 0
    assert counted(lambda: x.tolist()) == 0
    assert counted(lambda: x + x) == 1
    assert counted(lambda: x.clone()) == 1, "a copy within the device"
    assert counted(lambda: F.conv2d(x.view(1, 1, 4, 4), x.view(1, 1, 4, 4))) == 1


def test_processes_count_together(tmp_path):
    count, script = tmp_path / "count", "import standin, torch; standin.load(); torch.ones(2, device='gpu').add_(1); {}"
    said = "print(torch.gpu.operators())"
    where = {"PYTHONPATH": str(Path(standin.__file__).parent), standin.COUNT: str(count)}
    for expected in ("2", "4"):  # fill_ and add_
        done = subprocess.run([sys.executable, "-c", script.format(said)], env=os.environ | where, capture_output=True)
        assert done.stdout.decode().strip() == expected, done.stderr.decode()


def test_a_fork_before_its_first_use_may_use_it_and_one_after_may_not():
    script = """
import os, sys, torch, standin
standin.load()
if sys.argv[1] == "after":
    torch.ones(1, device="gpu")
child = os.fork()
if child == 0:
    try:
        torch.gpu.get_rng_state()
        os._exit(0)
    except RuntimeError as error:
        os._exit(7 if "forked" in str(error) else 8)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    where = os.environ | {"PYTHONPATH": str(Path(standin.__file__).parent)}
    for when, code in (("before", "0"), ("after", "7")):
        done = subprocess.run([sys.executable, "-c", script, when], env=where, capture_output=True, text=True)
        assert done.stdout.strip() == code, done.stderr


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own forward mode uses it
def test_forward_mode_has_its_zeros():
    def loss(weight):
        return torch.tanh(x @ weight.T).pow(2).sum()

    weight, x = (torch.randn(*sizes, generator=torch.Generator().manual_seed(0)) for sizes in ((4, 3), (2, 3)))
    here = torch.func.hessian(loss)(weight)
    weight, x = weight.to("gpu"), x.to("gpu")
    assert torch.equal(torch.func.hessian(loss)(weight).cpu(), here)


@pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no gloo")
def test_gloo_takes_its_tensors_but_for_send(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        x, found = torch.arange(3.0, device="gpu"), [torch.empty(3, device="gpu")]
        dist.all_reduce(x)
        dist.all_gather(found, x)
        assert found[0].tolist() == [0, 1, 2] and found[0].device.type == "gpu"
        network = nn.parallel.DistributedDataParallel(nn.Linear(3, 1).to("gpu"))
        network(x).backward()
        assert network.module.weight.grad.tolist() == [[0, 1, 2]]
        with pytest.raises(RuntimeError, match="send of gloo takes tensors of the host only"):
            dist.group.WORLD.send([x], 0, 0)
    finally:
        dist.destroy_process_group()
