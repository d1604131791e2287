"""What lecture 08 compares and nobody waits for: the student's GPT, trained in five precisions.

    python tests/sweep_precision.py    # 20 to 40 s a run on one quiet core

bfloat16 is PyTorch's autocast. Most CPUs have no fast products in float16: a run would take ten minutes and more. So for
float16 the operands and the results of each product are rounded to float16, forward and backward, and the products run in
float32, which is what tensor cores do. Each run is kept in tests/measured/precisions.json as
soon as it is done, with the machine, the versions and the day. Runs that are there are not made again. The model, its
batches, its schedule and its validation are those of the student's program after lecture 07.
"""

import ast
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import sweep_optimizers
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from utils.atomic_write import write_text

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "tests" / "measured" / "precisions.json"
PROGRAM = ROOT / "notebooks" / "program" / "07_memory_to_the_byte.py"
PRODUCTS = {F.linear, F.scaled_dot_product_attention, torch.Tensor.matmul, torch.Tensor.__matmul__}


@dataclass(frozen=True)
class Run:
    """precision: "float32", "bfloat16" (autocast), "float16", "float16, scaler", or "bfloat16 weights", a bfloat16 model."""

    precision: str
    seed: int = 0


def runs() -> Iterator[Run]:
    for seed in range(2):
        yield from (Run(precision, seed) for precision in ("float32", "bfloat16", "bfloat16 weights"))
        yield from (Run(precision, seed) for precision in ("float16", "float16, scaler"))


class Rounded(torch.autograd.Function):
    """Rounds a tensor to float16, and on the way back its gradient; the dtype stays float32."""

    @staticmethod
    def forward(context, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.half().float()

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.half().float()


class InFloat16(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function not in PRODUCTS:
            return function(*args, **(kwargs or {}))
        return Rounded.apply(function(*map(Rounded.apply, args), **(kwargs or {})))


def precision_of(run: Run, device: str) -> AbstractContextManager:
    """What the forward pass and the loss run in."""
    if run.precision.startswith("float16"):
        return InFloat16()
    return torch.autocast(device, torch.bfloat16, enabled=run.precision == "bfloat16")


def definitions() -> str:
    """The student's program down to where it begins to run. ValueError if that line is not there."""
    text, mark = PROGRAM.read_text(encoding="utf-8"), "\ncheck_gradient(lambda"
    if mark not in text:
        raise ValueError(f"{PROGRAM.name} has no line that begins with {mark.strip()!r}: say where it begins to run")
    return text.split(mark)[0]


def train(run: Run) -> dict:
    """The loss of each step, the loss on the text that was kept back, and the scaler's scale before each step."""
    names = {}
    exec(compile(definitions(), str(PROGRAM), "exec"), names)
    torch.manual_seed(run.seed)
    names["model"] = model = names["GPT"]().to(names["device"])
    if run.precision == "bfloat16 weights":
        model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=names["weight_decay"])
    scaler = torch.amp.GradScaler(names["device"], enabled=run.precision == "float16, scaler")
    losses, scales = [], []
    for step in range(names["steps"]):
        x, y = names["batch"](10_000 * run.seed + step)  # each seed has batches of its own, and seed 0 the program's
        with precision_of(run, names["device"]):
            loss = names["loss_of"](x, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), names["clip"])
        optimizer.param_groups[0]["lr"] = names["rate"](step)
        scales.append(scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {"val": names["validate"](), "loss": losses, "scale": scales}


def fingerprint() -> str:
    """Of what the program computes: its comments and blank lines do not count."""
    return hashlib.sha256(ast.dump(ast.parse(definitions())).encode()).hexdigest()[:16]


def main() -> None:
    torch.set_num_threads(1)
    kept = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {"machines": [], "runs": []}
    here = sweep_optimizers.machine() | {"program": fingerprint()}
    if here not in kept["machines"]:
        kept["machines"].append(here)
    done = [each["run"] for each in kept["runs"]]
    for run in runs():
        if asdict(run) in done:
            continue
        start = time.process_time()
        result = {name: sweep_optimizers.rounded(value) for name, value in train(run).items()}
        seconds = round(time.process_time() - start, 1)
        kept["runs"].append({"run": asdict(run), "machine": kept["machines"].index(here), "seconds": seconds, **result})
        print(f"{run} val {result['val']} {seconds} s", flush=True)
        write_text(STORE, sweep_optimizers.as_lines(kept))


if __name__ == "__main__":
    main()
