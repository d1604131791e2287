"""A model on every rank: copies whose gradients are summed (DDP), or parts that are gathered where needed (FSDP2)."""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim.sgd import sgd
from torch.utils._pytree import tree_leaves

from utils.distributed.ranks import Ranks


def broadcast_initial_state(model: nn.Module, ranks: Ranks) -> None:
    """Every rank starts from rank 0's weights and buffers.

    Raises ValueError, on every rank, if their models are not alike.
    """
    if ranks.world > 1:
        ranks.require_same("the model", _describe(model))
        ranks.copy_from_first([*model.parameters(), *model.buffers()])


def wrap_ddp(model: nn.Module, ranks: Ranks, device: torch.device) -> Callable[[object], object]:
    """What to call for the forward pass of `model`, so that every rank gets the gradient of the sum of all ranks' losses.

    In one process, and for a model that is sharded already, it is the model itself.
    """
    if ranks.world == 1 or isinstance(model, FSDPModule):
        return model
    copies = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None, init_sync=False)
    copies.register_comm_hook(None, _sum)
    return copies


def warm_up_buckets(forward: Callable, x: object) -> None:
    """A forward and a backward pass of DDP before the first step; leaves gradients and moves random streams and buffers.

    DDP packs gradients into buckets anew after its first backward, in the order in which that had them ready. Where a
    gradient lies decides in which order its addends are summed over more than two ranks. A resumed run would begin with
    the first packing, in the middle of one that was not interrupted, and round differently.
    """
    if isinstance(forward, DistributedDataParallel):
        outputs = [leaf for leaf in tree_leaves(forward(x)) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        sum(leaf.sum() for leaf in outputs).backward()


def _sum(group: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """The sum over ranks, where DDP's own would divide it by their number.

    Each rank's loss is divided by the targets of the whole batch beforehand. The mean of the ranks' means would be another
    number wherever ranks hold unequal shares of them.
    """
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])


def sync_on_last_micro_batch(forward: Callable, parts: Iterable, count: int) -> Iterable:
    """Hands on the `count` parts of a batch. DDP sums over ranks in the last one's backward; until then gradients add up.

    DDP begins each step with rank 0's buffers on every rank. FSDP does not, so that is done here.
    """
    if isinstance(forward, DistributedDataParallel):
        return _switched(forward, parts, count)
    for buffer in forward.buffers():
        dist.broadcast(buffer.detach(), src=0)
    return parts


def _switched(copies: DistributedDataParallel, parts: Iterable, count: int) -> Iterator:
    for number, part in enumerate(parts, start=1):
        with copies.no_sync() if number < count else nullcontext():
            yield part


def shard_model(model: nn.Module, ranks: Ranks, device: torch.device) -> nn.Module:
    """A copy of `model` on `device`, of each of whose parameters every rank holds one part.

    A block's parameters are gathered for its forward and again for its backward, when their gradients are summed. Blocks
    are what stands in a Sequential or a ModuleList, has modules of its own and shares no parameter with the rest, which is
    gathered at once.
    """
    model = copy.deepcopy(model)
    mesh = init_device_mesh(device.type, (ranks.world,))
    uses = _uses(model)
    lists = [module for module in model.modules() if isinstance(module, nn.Sequential | nn.ModuleList)]
    blocks = [
        block
        for modules in reversed(lists)
        for block in modules
        if any(block.children()) and _stands_alone(block, uses)
    ]
    for module in dict.fromkeys([*blocks, model]):
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
        module.set_gradient_divide_factor(1.0)  # a sum, as above
        module.set_force_sum_reduction_for_comms(True)
    return model


def _uses(module: nn.Module) -> Counter:
    """How often each parameter stands in a module: a tied one more than once."""
    return Counter(id(p) for _, p in module.named_parameters(remove_duplicate=False))


def _stands_alone(block: nn.Module, uses: Counter) -> bool:
    containers = nn.ModuleList | nn.ModuleDict  # have no forward to gather for
    return not isinstance(block, containers) and all(uses[p] == n for p, n in _uses(block).items())


def full_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor that ranks hold in parts, on each of them; another tensor as it is. A collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def to_local(tensors: Iterable[Tensor]) -> list[Tensor]:
    """This rank's parts of tensors, sharing their memory; those that are whole as they are."""
    return [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]


def copy_full(model: nn.Module, parts: nn.Module) -> nn.Module:
    """Overwrite `model` by its sharded copy `parts`; returns it. A collective."""
    pairs = zip([*model.parameters(), *model.buffers()], [*parts.parameters(), *parts.buffers()], strict=True)
    with torch.no_grad():
        for mine, part in pairs:
            mine.copy_(full_tensor(part))
    return model


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor as `like` is: this rank's part of it, or all. No collective: every rank has the whole one."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def shard_state(optimizer: torch.optim.Optimizer, saved: dict) -> None:
    """Cut what an optimizer has loaded whole as its parameters are cut; in the dtype saved: torch takes the parameter's."""
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        state = optimizer.state.get(parameter, {})
        for name, value in state.items():
            before = saved["state"][number].get(name)
            if isinstance(value, Tensor) and isinstance(before, Tensor) and value.dtype != before.dtype:
                value = state[name] = before.to(value.device)
            if isinstance(value, Tensor) and value.shape == parameter.shape and not isinstance(value, DTensor):
                state[name] = shard_like(value, parameter)


def shard_all(saved: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A whole state_dict, sharded as `model` is."""
    own = model.state_dict()
    return {name: shard_like(tensor, own[name]) for name, tensor in saved.items()}


def sgd_class(parameters: list[Tensor]) -> type[torch.optim.Optimizer]:
    return ShardedSGD if isinstance(parameters[0], DTensor) else torch.optim.SGD


class ShardedSGD(torch.optim.SGD):
    """SGD for parameters that ranks hold in parts: each steps its own, for the fused kernel takes no DTensor.

    torch.optim.sgd.sgd is what SGD.step calls; torch documents no other way to step tensors that are not the optimizer's.
    """

    @torch.no_grad()
    def step(self) -> None:
        names = ("lr", "momentum", "weight_decay", "dampening", "nesterov", "maximize")
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            buffers = [self.state[p]["momentum_buffer"] for p in moved] if group["momentum"] else []
            sgd(
                to_local(moved),
                to_local(p.grad for p in moved),
                to_local(buffers) or [None] * len(moved),
                fused=bool(group["fused"]),
                found_inf=getattr(self, "found_inf", None),
                **{name: group[name] for name in names},
            )


def _describe(model: nn.Module) -> dict[str, str]:
    """{name: shape, type and whether it trains} of every parameter and buffer."""
    parameters = {name: f"{tuple(p.shape)} {p.dtype} trains={p.requires_grad}" for name, p in model.named_parameters()}
    return parameters | {name: f"{tuple(b.shape)} {b.dtype}" for name, b in model.named_buffers()}
