"""Runs that are the same on any number of ranks; as a script, one of the processes that hold them together.

python ranked.py FOLDER CASE …: trains each case, on as many ranks as the environment says, and writes what came of it
to FOLDER/CASE-RANK.json. Everything is float64, without dropout and BatchNorm, which differ from rank to rank on purpose.
"""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.data import IGNORE
from utils.distributed import rendezvous
from utils.distributed.ranks import current_ranks
from utils.distributed.rendezvous import connect
from utils.loop import Config, Result, checkpoint, evaluate, train
from utils.loop.draws import LOOKED_AT
from utils.loop.log import MEASURED
from utils.loop.metrics import cross_entropy_sum
from utils.models import GPT, MLP

EXAMPLES, STEPS = 96, 50


class Points(Dataset):
    """Points of three classes; it notes which of them were asked for."""

    def __init__(self, examples: int = EXAMPLES, seed: int = 0):
        self.x = torch.randn(examples, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.y = self.x[:, :3].argmax(1)
        self.seen = []

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        self.seen.append(i)
        return self.x[i], self.y[i]


class Sentences(Points):
    """Eight tokens each, of which example i has only the first 1 + i % 8 as targets."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.x, self.y = torch.randint(7, (2, EXAMPLES, 8), generator=generator)
        self.y[torch.arange(8) > torch.arange(EXAMPLES)[:, None] % 8] = IGNORE


def perceptron() -> nn.Module:
    return MLP((5, 16, 3)).double()


def forgetful() -> nn.Module:
    return MLP((5, 16, 3), dropout=0.2).double()


def single() -> nn.Module:
    return perceptron().float()


class Centred(nn.Linear):
    """Its outputs, less a running mean of them, which each rank sees of its own examples."""

    def __init__(self):
        super().__init__(5, 3)
        self.register_buffer("centre", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        outputs = super().forward(x)
        self.centre.mul_(0.9).add_(outputs.detach().mean(0), alpha=0.1)
        return outputs - self.centre


def centred() -> nn.Module:
    return Centred().double()


class Nested(nn.Module):
    """Layers in lists of lists, and the first one tied to the last."""

    def __init__(self):
        super().__init__()
        self.pairs = nn.ModuleList(nn.ModuleList([nn.Sequential(nn.Linear(5, 5)), nn.Tanh()]) for _ in range(3))
        self.pairs[2][0][0].weight = self.pairs[0][0][0].weight

    def forward(self, x: Tensor) -> Tensor:
        for layer, function in self.pairs:
            x = function(layer(x))
        return x


def nested() -> nn.Module:
    return Nested().double()


def transformer() -> nn.Module:
    return GPT(7, context=8, width=8, heads=2, layers=2).double()


class Singles(Points):
    """Points in float32."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.x = self.x.float()


class Spoilt(Points):
    """One of them is not finite, and so one rank's alone."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.x[50] = float("nan")


SGD = {"optimizer": "sgd", "lr": 0.1}
SHARDED = {"parallel": "fsdp", "batch_size": 10, "accumulation": 2, "drop_last": True, "lr": 1e-2, "weight_decay": 0.1}
CASES = {  # name: (model, data, what differs from COMMON): the same on any number of ranks
    "even": (perceptron, Points, {"batch_size": 8, **SGD}),
    "seven": (perceptron, Points, {"batch_size": 7, **SGD, "clip": 0.1}),
    "ten": (perceptron, Points, {"batch_size": 10, "lr": 1e-2, "ema": 0.9, "weight_decay": 0.1}),
    "masked": (transformer, Sentences, {"batch_size": 7, "lr": 1e-2, "clip": 0.5, "schedule": "cosine", "warmup": 5}),
    "parts": (perceptron, Points, {"batch_size": 10, "accumulation": 2, "drop_last": True, **SGD, "ema": 0.9}),
    "stopping": (perceptron, Points, {**SGD, "batch_size": 10, "lr": 3.0, "patience": 2, "val_every": 3}),
    "sharded": (perceptron, Points, SHARDED),
    "sharded sgd": (perceptron, Points, {"batch_size": 7, **SGD, "parallel": "fsdp", "weight_decay": 0.1}),
    "sharded masks": (
        transformer,
        Sentences,
        {"batch_size": 7, "lr": 1e-2, "clip": 0.5, "ema": 0.9, "parallel": "fsdp"},
    ),
}
OTHERS = {  # the same on the same number of ranks
    "noisy": (forgetful, Points, {"batch_size": 10, "lr": 1e-2, "ema": 0.9, "clip": 0.5}),
    "noisy parts": (forgetful, Points, {"batch_size": 10, "lr": 1e-2, "ema": 0.9, "clip": 0.5, "parallel": "fsdp"}),
    "half": (single, Singles, {"batch_size": 10, "lr": 1e-2, "ema": 0.9}),
    "spoilt": (perceptron, Spoilt, SHARDED | {"val_every": 0}),
    "centred": (centred, Points, SHARDED),
    "nested": (nested, Points, SHARDED),
}
COMMON = {"steps": STEPS, "seed": 3, "log_every": 1, "val_every": 10, "val_batch_size": 13, "save_every": 10}
COMMON["deterministic"] = False  # a CPU is so by itself, and to switch it on takes seconds of imports


SHORT = {"batch_size": 5, "accumulation": 3, "steps": 24, "log_every": 4}  # 3 and 2 examples a rank; at last 1 and none
TOO_SMALL = {  # batches, or the last of an epoch, with too few examples for all ranks and micro-batches
    "too small": {"batch_size": 1, "steps": 8},
    "short last batch": SHORT,
    "short last batch in parts": SHORT | {"parallel": "fsdp"},
}


class At:
    """Cross-entropy during which, at training step `step`, something happens on rank `rank`: `action` gets the loss."""

    def __init__(self, step: int, rank: int, action: Callable[[Tensor], Tensor]):
        self.step, self.rank, self.action = step, rank, action

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        loss = cross_entropy_sum(outputs, targets)
        if not outputs.requires_grad:
            return loss
        self.step -= 1
        return self.action(loss) if self.step == 0 and self.rank == current_ranks().rank else loss


class InValidation(At):
    """The same in the second batch of the validation that follows that step. Notes how many batches follow."""

    def __init__(self, step: int, rank: int, action: Callable[[Tensor], Tensor]):
        super().__init__(step, -1, action)
        self.on, self.batches = rank, 0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        loss = super().__call__(outputs, targets)
        if self.step == 0 and not outputs.requires_grad:
            self.batches += 1
            return self.action(loss) if self.batches == 2 and self.on == current_ranks().rank else loss
        return loss


def send(number: int) -> Callable[[Tensor], Tensor]:
    def to_itself(loss: Tensor) -> Tensor:
        os.kill(os.getpid(), number)
        return loss

    return to_itself


def fail(loss: Tensor) -> Tensor:
    raise IndexError("Target 7 is out of bounds.")


def run(
    case: str, folder: Path | None = None, loss=cross_entropy_sum, peak_flops=0.0, **changes
) -> tuple[Result, Dataset]:
    build, data, options = (CASES | OTHERS)[case]
    torch.manual_seed(1 + current_ranks().rank)  # other weights on each rank: those of rank 0 count
    train_data = data()
    val_data = (
        Points(41, seed=1) if data is Points else data()
    )  # 41: of the last 2 in batches of 13, two ranks have none
    config = Config(device="cpu", **COMMON | options | changes)
    result = train(build(), train_data, val_data, config, run=folder, loss=loss, peak_flops=peak_flops)
    trials = 2 if current_ranks().world > 1 and config.parallel == "ddp" else 1
    del train_data.seen[: 2 * trials + 2 * LOOKED_AT]  # two examples are tried each time, and a few are fetched twice
    return result, train_data


def outcome(result: Result, data: Dataset) -> dict:
    return {
        "history": [{k: v for k, v in record.items() if k != MEASURED} for record in result.history],
        "seen": data.seen,
        "steps": result.steps,
        "best": result.best,
        "stopped": result.stopped_early,
        "weights": digest(result.model),
        "average": result.ema and digest(result.ema),
    }


def digest(model: nn.Module) -> str:
    return hashlib.sha256(b"".join(t.numpy().tobytes() for t in model.state_dict().values())).hexdigest()


def evaluated(folder: Path) -> dict[str, tuple]:
    """The scores of data whose last batches leave some ranks with nothing, by (examples, batch size)."""
    torch.manual_seed(0)
    model, us = perceptron(), current_ranks()
    with connect(us):
        sizes = ((41, 13), (41, 4), (1, 4), (96, 7))
        return {str(s): evaluate(model, Points(s[0]), batch_size=s[1], ranks=us) for s in sizes}


def stopped(folder: Path, step: str, parallel: str) -> None:
    """The last rank alone is sent SIGTERM in a step."""
    sigterm = At(int(step), current_ranks().world - 1, send(signal.SIGTERM))
    run("ten", folder / "run", loss=sigterm, parallel=parallel)


def resumed(folder: Path) -> dict:
    return outcome(*run("ten", folder / "run"))


def interrupted(folder: Path, case: str) -> dict:
    """As above, and the same ranks go on."""
    with suppress(SystemExit):
        run(case, folder / case, loss=At(17, current_ranks().world - 1, send(signal.SIGTERM)))
    return outcome(*run(case, folder / case))


def cut_short(folder: Path, case: str) -> dict:
    """The last rank alone is sent SIGTERM in the validation after step 20; then the same ranks go on. With how many batches
    each had validated, and what was saved."""
    loss = InValidation(20, current_ranks().world - 1, send(signal.SIGTERM))
    here = folder / f"cut short {case}"
    with suppress(SystemExit):
        run(case, here, loss=loss)
    with connect(current_ranks()):
        current_ranks().any(False)  # rank 0 has saved
    progress = checkpoint.load_newest(here / "checkpoints")["progress"]
    saved = {name: progress[name] for name in ("step", "validation_due")}
    return outcome(*run(case, here)) | {"cut short": [saved, loss.batches]}


def killed(folder: Path, case: str, restarts: str) -> dict:
    """Rank 1 is killed in step 17, when torchrun has started the ranks again this many times."""
    now = os.environ["TORCHELASTIC_RESTART_COUNT"] == restarts
    return outcome(*run(case, folder / case, loss=At(17 if now else 0, 1, send(signal.SIGKILL))))


def clocked(action: Callable[[Tensor], Tensor], folder: Path) -> Callable[[Tensor], Tensor]:
    """The action, and when it happened, in a file."""

    def at_a_time(loss: Tensor) -> Tensor:
        write(folder, "happened", time.time())
        return action(loss)

    return at_a_time


def ends(folder: Path, rank: str, action: Callable[[Tensor], Tensor]) -> None:
    """The action happens on one rank in step 17; each notes when its run was over."""
    try:
        run("even", loss=At(17, int(rank), clocked(action, folder)))
    finally:
        write(folder, "over", time.time())


def lost(folder: Path, rank: str) -> None:
    ends(folder, rank, send(signal.SIGKILL))


def failed(folder: Path, rank: str) -> None:
    """The one that fails does not linger on its way out, as some programs do not."""
    try:
        ends(folder, rank, fail)
    except ValueError:
        os._exit(1)


def cannot_meet(folder: Path, processes: str) -> None:
    """Trains as soon as this many processes are ready to; how long it took to give up goes to a file."""
    write(folder, "ready", True)
    while len(list(folder.glob("ready-*.json"))) < int(processes):
        time.sleep(0.05)
    began = time.monotonic()
    try:
        run("even")
    finally:
        write(folder, "gave up", time.monotonic() - began)


def refusal(function: Callable, *arguments, **options) -> str:
    """The error that it raises, as a line."""
    try:
        function(*arguments, **options)
    except (ValueError, FloatingPointError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


def flops_of_a_target(result: Result, data: Dataset) -> float:
    """As MFU counts them, which divides by the peak of all ranks."""
    measured = result.history[0][MEASURED]
    return measured["mfu"] * 1e12 / measured["targets_per_second"]


def alike(folder: Path) -> dict:
    """What every rank must decide, or refuse, as the others do."""
    bad = partial(torch.mul, other=float("nan"))
    model, wide = perceptron(), MLP((5, 17, 3)).double()
    other = wide if current_ranks().rank == 1 else model
    data, config = Points(), Config(steps=3, batch_size=8, device="cpu")
    return {
        "raised": refusal(run, "ten", loss=At(5, 1, bad)),
        "spoilt": refusal(run, "spoilt", parallel="ddp"),
        "spoilt in parts": refusal(run, "spoilt"),
        "skipped": outcome(*run("ten", loss=At(5, 1, bad), nonfinite="skip")),
        "scaled": outcome(*run("half", loss=At(5, 1, bad), precision="fp16")),
        "skipped in parts": outcome(*run("ten", loss=At(5, 1, bad), nonfinite="skip", parallel="fsdp")),
        "scaled in parts": outcome(*run("half", loss=At(5, 1, bad), precision="fp16", parallel="fsdp")),
        **{name: outcome(*run("even", **options)) for name, options in TOO_SMALL.items()},
        "other models": refusal(train, other, data, None, config),
        "other configs": refusal(run, "even", lr=0.1 * (1 + current_ranks().rank)),
        "still works": outcome(*run("even", steps=3)),
        "watched": [outcome(*run("centred", steps=9, val_every=every))["weights"] for every in (0, 3)],
        "nested": [outcome(*run("nested", steps=9, parallel=how))["history"] for how in ("ddp", "fsdp")],
        "flops": flops_of_a_target(*run("even", steps=3, peak_flops=1e12)),
    }


def write(folder: Path, name: str, value: object) -> None:
    (folder / f"{name}-{current_ranks().rank}.json").write_text(json.dumps(value))


if __name__ == "__main__":
    torch.set_num_threads(1)
    rendezvous.JOIN_SECONDS = float(
        os.environ.get("JOIN_SECONDS", 600)
    )  # a busy machine may take minutes to import torch
    folder = Path(sys.argv[1])
    for word in sys.argv[2:]:
        name, *arguments = word.split(":")  # lost:1 is lost(folder, "1")
        plain = name in CASES | OTHERS
        write(folder, word.replace(":", " "), outcome(*run(name)) if plain else globals()[name](folder, *arguments))
