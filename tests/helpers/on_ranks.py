"""A run on several ranks, each a process; as a script, one of them.

python on_ranks.py FOLDER CASE: does what CASE says, and writes what came of it to FOLDER/RANK.json.
"""

import json
import os
import socket
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

from utils.distributed.ranks import current_ranks
from utils.loop import Config, train

EXAMPLES = 40
X = torch.randn(EXAMPLES, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = X.argmax(1)


def on_ranks(python: list[str], world: int, folder: Path, case: str) -> list[dict]:
    """What each rank has written, in order. `case`: a name of CASES."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(world):
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = os.environ | {name: str(value) for name, value in told.items()} | {"OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen([*python, __file__, str(folder), case], env=environment))
    assert [process.wait(timeout=600) for process in processes] == [0] * world
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


class Noting(nn.Linear):
    """Keeps which examples it has trained on."""

    def __init__(self):
        torch.manual_seed(0)
        super().__init__(3, 3, dtype=torch.float64)
        self.batches = []

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.batches.append([int((row == X).all(1).nonzero()) for row in x])
        return super().forward(x)


class Lines(IterableDataset):
    """Every `step`-th example from `first` on, pass after pass; says where it is."""

    def __init__(self, first: int, step: int):
        self.first, self.step, self.next = first, step, first

    def __iter__(self):
        while self.next < EXAMPLES:
            self.next += self.step
            yield X[self.next - self.step], Y[self.next - self.step]
        self.next = self.first

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def order(step: int) -> list[int]:
    return torch.randperm(EXAMPLES)[: (7, 1, 4)[step % 3]].tolist()


def train_noting(data, folder: Path, **options) -> dict:
    model = Noting()
    settings = {"steps": 6, "lr": 0.1, "accumulation": 2, "device": "cpu", "log_every": 2} | options.pop("settings", {})
    result = train(model, data, None, Config(**settings), **options)
    losses = [record["loss"] for record in result.history]
    return {"weights": model.weight.flatten().tolist(), "batches": model.batches, "losses": losses}


def own_order(folder: Path) -> dict:
    return train_noting(TensorDataset(X, Y), folder, order=order, settings={"accumulation": 1})


def other_orders(folder: Path) -> dict:
    rank = current_ranks().rank
    return train_noting(TensorDataset(X, Y), folder, order=lambda step: [rank, step])


def stream(folder: Path, steps: int = 6, run: bool = False) -> dict:
    """Five steps a pass, on any number of ranks."""
    ranks = current_ranks()
    settings = {"batch_size": 8, "steps": steps, "save_every": 1}
    return train_noting(Lines(ranks.rank, ranks.world), folder, run=folder / "run" if run else None, settings=settings)


def same_stream(folder: Path) -> dict:
    return train_noting(Lines(0, 1), folder, settings={"batch_size": 8})


def shared_stream(folder: Path) -> dict:
    """By the lines of the message that refuses `same_stream`."""
    try:
        same_stream(folder)
    except ValueError as error:
        assert "train_data=stream:" in str(error)
        lines = [line for line in str(error).splitlines() if line.startswith("    ")]
    model, names = Noting(), {"train_data": Lines(0, 1)}
    exec(textwrap.dedent("\n".join(lines)), names)
    train(model, names["stream"], config=Config(steps=6, device="cpu"))
    return {"batches": model.batches}


class Batches:
    """Of as many as `size` examples, every `step`-th from `first` on."""

    def __init__(self, first: int, step: int, size: int):
        self.indices, self.size, self.next = torch.arange(first, EXAMPLES, step), size, 0

    def __iter__(self):
        while self.next < len(self.indices):
            chosen = self.indices[self.next : self.next + self.size]
            self.next += self.size
            yield X[chosen], Y[chosen]
        self.next = 0

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def uneven_stream(folder: Path) -> dict:
    rank = current_ranks().rank
    return train_noting(Batches(rank, 2, (3, 5)[rank]), folder, settings={"steps": 9, "accumulation": 4})


CASES = {
    "order": own_order,
    "other orders": other_orders,
    "stream": stream,
    **{f"stream to {steps}": partial(stream, steps=steps, run=True) for steps in (2, 4, 6, 8)},
    "same stream": same_stream,
    "shared stream": shared_stream,
    "uneven stream": uneven_stream,
}


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        came_of_it = CASES[sys.argv[2]](Path(sys.argv[1]))
    except Exception as error:
        came_of_it = {"error": f"{type(error).__name__}: {error}"}
    (Path(sys.argv[1]) / f"{current_ranks().rank}.json").write_text(json.dumps(came_of_it))
