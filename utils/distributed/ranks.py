"""The processes of a run: the rank of this one, and collectives between them."""

import os
from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from utils.device import pick_device

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # what torchrun sets


class Ranks:
    """The processes of one run: their number (`world`), and the number of this one (`rank`; `local` on its machine)."""

    def __init__(self, rank: int = 0, world: int = 1, local: int = 0):
        self.rank, self.world, self.local = rank, world, local

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    def pick_device(self, name: str) -> torch.device:
        """The device called `name`; with several ranks on a machine, each takes the GPU with its local rank's number.

        Raises ValueError for a device that this machine does not have, for meta, for one GPU requested for several ranks,
        and for several ranks on an accelerator other than CUDA, over which they cannot sum.
        """
        device = pick_device(name)
        if device.type == "meta":
            raise ValueError("device is 'meta', whose tensors have no values to train: try 'auto' or 'cpu'")
        if self.world == 1 or device.type == "cpu":
            return device
        if device.type != "cuda":
            raise ValueError(f"device is {name!r}, but {self.world} ranks can sum on cpu and cuda only: choose cpu")
        if device.index is not None:
            raise ValueError(
                f"device is {name!r}, but {self.world} ranks would share it: choose cuda, and each takes its own"
            )
        device = pick_device(f"cuda:{self.local}")
        torch.cuda.set_device(device)  # the one that nccl uses
        return device

    def sum(self, tensor: Tensor) -> Tensor:
        """A tensor's sum over all ranks, a new tensor; in one process the tensor itself."""
        if self.world == 1:
            return tensor
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank. Sums CPU tensors over gloo, so it does not wait for a GPU."""
        return flag if self.world == 1 else bool(self.sum(torch.tensor(int(flag))))

    def gather(self, value: object) -> list:
        """The value of each rank, in order. Any value that pickles: the data come from processes of this run only."""
        if self.world == 1:
            return [value]
        values = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def of_first(self, value: object) -> object:
        """Rank 0's value, on every rank."""
        if self.world == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor with rank 0's."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def require_same(self, what: str, facts: dict[str, object]) -> None:
        """Raises ValueError on every rank, with the first difference, unless the facts are the same on all ranks."""
        gathered = self.gather({name: str(fact) for name, fact in facts.items()})
        for rank, facts_there in enumerate(gathered):
            for name in {**gathered[0], **facts_there}:
                first, other = (values.get(name, "nothing") for values in (gathered[0], facts_there))
                if first != other:
                    raise ValueError(
                        f"{what} differs between ranks: {name} is {first} on rank 0 and {other} on rank {rank}. Start "
                        "every rank with the same script and arguments, and build the same model on each"
                    )


SINGLE_PROCESS = Ranks()


def current_ranks(environment: Mapping[str, str] = os.environ) -> Ranks:
    """The Ranks of this process, from the variables that torchrun sets. Opens no connection.

    Raises ValueError if the variables are incomplete or contradict each other.
    """
    given = {name: environment[name] for name in VARIABLES if environment.get(name)}
    shown = ", ".join(f"{name} is {value}" for name, value in given.items())
    if not {"RANK", "WORLD_SIZE"} & given.keys() or (given.get("WORLD_SIZE"), given.get("RANK", "0")) == ("1", "0"):
        return SINGLE_PROCESS
    if missing := [name for name in VARIABLES if name not in given]:
        raise ValueError(
            f"{shown}, but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: start n processes by "
            "torchrun --standalone --nproc-per-node=n, or unset them all for one process"
        )
    numbers = {name: _whole_number(name, given[name]) for name in VARIABLES if name != "MASTER_ADDR"}
    rank, world, local, port = numbers.values()
    on_machine = _whole_number("LOCAL_WORLD_SIZE", environment.get("LOCAL_WORLD_SIZE", str(world)))
    if not (0 <= rank < world and 0 <= local <= rank and local < on_machine <= world and 0 < port < 2**16):
        raise ValueError(
            f"{shown}, LOCAL_WORLD_SIZE is {on_machine}: ranks count from 0 to WORLD_SIZE - 1, those of one machine from 0 "
            "to LOCAL_WORLD_SIZE - 1, and a port is below 65536. Let torchrun set them, or unset them all for one process"
        )
    return Ranks(rank, world, local)


def _whole_number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"{name} is {value!r}: it must be a whole number; torchrun sets it")
    return int(value)
