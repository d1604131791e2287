"""Dry run of a training step: its memory under LiveBytes, on the CPU or on meta, where tensors take no memory.

The step is training_steps(): float32, plain attention, no dropout, cross-entropy in one line with the model, gradients
set to None after each update. memory_model.py predicts from shapes what is measured here; largest_micro_batch searches
for the largest batch that fits.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from utils import models
from utils.facts import ModelShape
from utils.measure.memory import LiveBytes
from utils.models import GPT, MLP


class Plan(NamedTuple):
    """How a training step is run.

    optimizer: "sgd" or "adamw". implementation, of its update: "for-loop" (torch's default on the CPU and on meta),
    "foreach" (its default on CUDA) or "fused" (one kernel; not on meta). checkpointed: each Transformer block, or each
    hidden layer of an MLP, keeps only its input and is recomputed in backward. micro_batches: forward and backward
    passes whose gradients are summed for one update. steps: AdamW allocates its state in the first; all later steps
    are like the second. named_logits: the loop says `logits = model(x)`, and this name keeps them until the next forward
    has made others; without it nobody holds them once the loss is there.
    """

    optimizer: str = "adamw"
    implementation: str = "for-loop"
    checkpointed: bool = False
    micro_batches: int = 1
    steps: int = 2
    named_logits: bool = False


PLAN = Plan()
IMPLEMENTATIONS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
OPTIMIZERS = {"sgd": partial(torch.optim.SGD, lr=0.1), "adamw": torch.optim.AdamW}


def check_plan(plan: Plan, **sizes: int) -> None:
    if plan.optimizer not in OPTIMIZERS or plan.implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"no prediction for {plan.optimizer!r}, {plan.implementation!r}: "
            f"one of {', '.join(OPTIMIZERS)} and one of {', '.join(IMPLEMENTATIONS)}"
        )
    for name, size in {**sizes, "micro_batches": plan.micro_batches, "steps": plan.steps}.items():
        if size < 1:
            raise ValueError(f"{name} is {size}: at least 1")


class Checkpointed(nn.Module):
    """A layer that keeps only its input and is recomputed in backward."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.layer, x, use_reentrant=False)


def checkpoint_layers(model: nn.Module) -> nn.Module:
    """The same model with each block of a Transformer, or each hidden layer of an MLP, Checkpointed."""
    if isinstance(model, MLP):
        flatten, *layers, last = model
        hidden = [Checkpointed(nn.Sequential(*layers[i : i + 2])) for i in range(0, len(layers), 2)]
        return nn.Sequential(flatten, *hidden, last)
    model.blocks = nn.Sequential(*map(Checkpointed, model.blocks))
    return model


def training_steps(model: nn.Module, inputs: Tensor, targets: Tensor, plan: Plan, memory: LiveBytes) -> None:
    """plan.steps updates on the same batch, split into plan.micro_batches; `memory` records the phases of each step."""
    optimizer = OPTIMIZERS[plan.optimizer](model.parameters(), **IMPLEMENTATIONS[plan.implementation])
    for step in range(1, plan.steps + 1):
        for x, y in zip(inputs.chunk(plan.micro_batches), targets.chunk(plan.micro_batches), strict=True):
            with memory.phase(f"forward {step}"):
                if plan.named_logits:
                    logits = model(x)
                    loss = F.cross_entropy(logits.flatten(0, -2), y.flatten()) / plan.micro_batches
                else:
                    loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten()) / plan.micro_batches
            with memory.phase(f"backward {step}"):
                loss.backward()
                del loss
        with memory.phase(f"update {step}"):
            optimizer.step()
        with memory.phase(f"clear {step}"):
            optimizer.zero_grad()


def ledger(
    build: Callable[[], nn.Module],
    data: Callable[[], tuple[Tensor, Tensor]],
    plan: Plan,
    device: torch.device | str,
) -> LiveBytes:
    """LiveBytes of training_steps(), including the model from build() and the (inputs, targets) from data().

    Both are called with `device` as torch's default. On "meta" nothing is allocated and nothing is computed,
    except AdamW's step counters: each update reads them, so they stay on the CPU.
    """
    with LiveBytes() as memory:
        with memory.phase("parameters"), torch.device(device):
            model = build()
        with memory.phase("data"), torch.device(device):
            inputs, targets = data()
        if plan.checkpointed:
            model = checkpoint_layers(model)
        training_steps(model, inputs, targets, plan, memory)
    return memory


def ledger_mlp(sizes: tuple[int, ...], batch: int, plan: Plan = PLAN, device: torch.device | str = "meta") -> LiveBytes:
    """LiveBytes of a real MLP(sizes), to compare with predict_mlp."""
    check_plan(plan, batch=batch, layers=len(sizes) - 1, narrowest=min(sizes, default=0))
    rows = plan.micro_batches * batch
    return ledger(
        lambda: MLP(sizes),
        lambda: (torch.zeros(rows, sizes[0]), torch.zeros(rows, dtype=torch.long)),
        plan,
        device,
    )


def ledger_gpt(
    vocabulary: int,
    context: int,
    width: int,
    heads: int,
    layers: int,
    batch: int,
    tokens: int,
    plan: Plan = PLAN,
    device: torch.device | str = "meta",
) -> LiveBytes:
    """LiveBytes of a real GPT with plain attention, to compare with predict_gpt."""
    check_plan(plan, batch=batch, tokens=tokens)
    rows = plan.micro_batches * batch
    return ledger(
        lambda: GPT(vocabulary, context, width, heads, layers, attention="plain"),
        lambda: tuple(torch.zeros(rows, tokens, dtype=torch.long) for _ in range(2)),
        plan,
        device,
    )


def ledger_shape(shape: ModelShape, batch: int, tokens: int | None = None, plan: Plan = PLAN) -> LiveBytes:
    """LiveBytes of a published model (facts.MODELS) on meta. tokens: the length of each sequence, by default the context."""
    tokens = shape.context if tokens is None else tokens
    check_plan(plan, batch=batch, tokens=tokens)
    rows = plan.micro_batches * batch
    return ledger(
        lambda: models.build(shape, "meta", attention="plain"),
        lambda: tuple(torch.zeros(rows, tokens, dtype=torch.long) for _ in range(2)),
        plan,
        "meta",
    )


def largest_micro_batch(shape: ModelShape, memory_bytes: int, tokens: int | None = None, plan: Plan = PLAN) -> int:
    """The most sequences whose training step fits into `memory_bytes`, measured on meta: needs no such device.

    0 if not even one fits. A batch fits if its peak does, in float32 with plain attention. A real device also needs
    memory for its libraries and for its allocator's rounding, so subtract those from `memory_bytes` first. Each probe
    runs a whole step on meta; the next probe is where a straight line through the last two meets the limit.
    """
    if memory_bytes < 1:
        raise ValueError(f"memory of {memory_bytes} bytes: at least 1")

    def spare_bytes(batch: int) -> int:
        return memory_bytes - ledger_shape(shape, batch, tokens, plan).peak

    fits, spare, fails, lacking = 1, spare_bytes(1), None, None
    if spare < 0:
        return 0
    step = 1
    while fails is None:
        if (left := spare_bytes(fits + step)) < 0:
            fails, lacking = fits + step, -left
        else:
            growth = max(1, (spare - left) // step)
            fits, spare = fits + step, left
            step = max(1, spare // growth)  # the batch that would just fit if memory grew linearly
    while fails - fits > 1:
        guess = fits + (fails - fits) * spare // (spare + lacking)
        middle = min(max(guess, fits + 1), fails - 1)
        if (left := spare_bytes(middle)) < 0:
            fails, lacking = middle, -left
        else:
            fits, spare = middle, left
    return fits
