"""NaN, infinities and spikes, planted anywhere: a bad update is blocked and named, or skipped as if it had not been.

Each try trains in one forked process, or in two ranks, and is then compared in a further one with the same run by hand.
"""

import copy
import math
import random
import re
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate
from torture.tally import Tally
from torture.victims import together

from utils.loop import checkpoint, state, train, training
from utils.loop.config import Config
from utils.loop.guards import Guard

EXAMPLES, BATCH, STEPS = 44, 12, 14  # four steps an epoch, the last of them short; the run ends in the middle of one
EPOCH = math.ceil(EXAMPLES / BATCH)
CHECK_EVERY = 5  # steps after which a device is asked, instead of 50
LR, WARMUP, DECAY, CLIP = 1e-2, 3, 0.9, 0.5
DIGESTED = [0, EXAMPLES // 2, EXAMPLES - 1]  # the examples that the loop reads last before the first step


@dataclass(frozen=True)
class Plan:
    """What is planted where, in what kind of run."""

    value: float
    place: str  # data, loss (times the value), loss plus (the value), layer, gradient
    steps: tuple[int, ...]  # from 0
    part: int  # which micro-batch of such a step
    rank: int = 0
    lasting: bool = False  # from the first such step on
    norm: bool = False
    dropout: float = 0.0
    world: int = 1
    late: bool = False  # decided on the device, as on a GPU: the host learns of it later
    options: dict = field(default_factory=dict)  # of Config

    def strikes(self, step: int, part: int) -> bool:
        if self.lasting:
            return (step, part) >= (self.steps[0], self.part)
        return step in self.steps and part == self.part

    @property
    def config(self) -> Config:
        return Config(steps=STEPS, batch_size=BATCH, seed=3, device="cpu", deterministic=False, **self.options)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.world > 1 and self.config.precision == "fp32" else torch.float32


def drawn(draw: random.Random, number: int) -> Plan:
    """A random plan; of every six runs one is of two ranks with copies, one of two with parts."""
    world, parallel = {4: (2, "ddp"), 5: (2, "fsdp")}.get(number % 6, (1, "ddp"))
    policy = draw.choice(("raise", "skip"))
    row = draw.randrange(STEPS - 4)
    steps = draw.choice(
        [
            (0,),
            (5,),
            (2 * EPOCH - 1,),
            (STEPS - 1,),
            (0, 3, 7, 8, STEPS - 1),
            tuple(range(row, row + draw.randint(2, 5))),
        ]
    )
    accumulation = draw.choice((1, 1, 2, 3))
    precision = draw.choice(("fp32", "fp32", "bf16", "fp16")) if world == 1 else "fp32"
    return Plan(
        value=draw.choice((math.nan, math.nan, math.inf, -math.inf, 1e38, 1e15)),
        place=draw.choice(("data", "data", "data", "loss", "loss", "loss plus", "layer", "layer", "gradient", "gradient")),
        steps=steps,
        part=draw.randrange(accumulation),
        rank=draw.randrange(world),
        lasting=policy == "raise" or draw.random() < 0.2,
        norm=world == 1 and draw.random() < 0.5,
        dropout=0.2 if world == 1 and draw.random() < 0.5 else 0.0,
        world=world,
        late=draw.random() < 0.3,
        options={
            "nonfinite": policy, "accumulation": accumulation, "precision": precision, "parallel": parallel,
            "optimizer": draw.choice(("adamw", "sgd")), "lr": LR, "warmup": WARMUP, "schedule": "cosine",
            "clip": draw.choice((0.0, CLIP)), "ema": draw.choice((0.0, DECAY)), "max_skips": draw.randint(2, 5),
            "log_every": draw.choice((1, 4)), "save_every": draw.choice((0, 1, 3)),
        },
    )  # fmt: skip


def nan(folder: Path, count: int, seed: int = 0) -> Tally:
    tally, draw = Tally("NaN, infinities, spikes"), random.Random(seed)
    for number in range(count):
        plan = drawn(draw, number)
        here = folder / str(number)
        here.mkdir()
        tally.count += 1
        for work, world in ((_train, plan.world), (_judge, 1)):
            ended = together(partial(work, plan, here), world, here)
            if any(code for code, _ in ended):
                tally.wrong.append(f"try {number},{work.__name__.replace('_', ' ')}: {ended}; {plan}")
                break
        else:
            tally.notes[(here / "verdict").read_text()] += 1
    return tally


# ---- what is planted ------------------------------------------------------------------------------------------------


class Clock:
    """Which micro-batch of which step is at work on this rank, by the losses that were computed for training."""

    def __init__(self, plan: Plan, rank: int):
        self.plan, self.on, self.losses = plan, rank == plan.rank, 0
        self.struck = 0  # times

    def strikes(self, place: str) -> bool:
        strikes = (
            self.on
            and self.plan.place == place
            and self.plan.strikes(*divmod(self.losses, self.plan.config.accumulation))
        )
        self.struck += strikes
        return strikes


clock: Clock  # of this process; a copied model would carry a copy of it


class Points(Dataset):
    """Of one example one number is bad when its step has come. It notes what it was asked for."""

    def __init__(self, plan: Plan, rank: int = 0):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(EXAMPLES, 5, generator=generator).to(plan.dtype)
        self.y = self.x[:, :3].argmax(1)
        self.seen, self.bad, self.struck = [], set(), 0
        self.plan = plan if plan.place == "data" and plan.rank == rank else None
        self.tried = None  # how many were read before the first step; None while they are being read
        sizes = [len(range(rank, _batch_size(step), plan.world)) for step in range(STEPS)]
        starts = [sum(sizes[:step]) for step in range(STEPS)]
        self.planted = {starts[s] + _part_starts(sizes[s], plan.config.accumulation)[plan.part] for s in plan.steps}

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        if self.tried is None and self.seen[-3:] == DIGESTED:
            self.tried = len(self.seen)
        if self.plan and self.tried is not None and len(self.seen) - self.tried in self.planted:
            self.bad.add(i)
        self.struck += i in self.bad
        x = _struck(self.x[i], self.plan.value) if i in self.bad else self.x[i]
        if self.plan and not self.plan.lasting:
            self.bad.clear()
        self.seen.append(i)
        return x, self.y[i]


def _batch_size(step: int) -> int:
    return BATCH if (step + 1) % EPOCH else EXAMPLES - (EPOCH - 1) * BATCH


def _part_starts(size: int, parts: int) -> list[int]:
    return [int(part[0]) for part in torch.arange(size).tensor_split(parts)]


def _struck(tensor: Tensor, value: float) -> Tensor:
    """A copy whose first number is bad."""
    tensor = tensor.clone()
    tensor.view(-1)[0] = value
    return tensor


class Tap(nn.Module):
    """Hands on what it is given, but for a strike."""

    def forward(self, x):
        return _struck(x, clock.plan.value) if self.training and clock.strikes("layer") else x


class Last(nn.Linear):
    """Its weight's gradient may be struck on its way."""

    def forward(self, x):
        weight = self.weight * 1
        if self.training and clock.strikes("gradient"):
            weight.register_hook(lambda gradient: _struck(gradient, clock.plan.value))
        return F.linear(x, weight, self.bias)


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    total = F.cross_entropy(outputs, targets, reduction="sum")
    if not outputs.requires_grad:
        return total
    if clock.strikes("loss"):
        total = total * clock.plan.value
    if clock.strikes("loss plus"):
        total = total + clock.plan.value
    clock.losses += 1
    return total


def build(plan: Plan) -> nn.Sequential:
    torch.manual_seed(1)
    norm = [nn.BatchNorm1d(16)] if plan.norm else []
    dropout = [nn.Dropout(plan.dropout)] if plan.dropout else []
    return nn.Sequential(nn.Linear(5, 16), *norm, Tap(), nn.Tanh(), *dropout, Last(16, 3)).to(plan.dtype)


# ---- the run --------------------------------------------------------------------------------------------------------


class LateGuard(Guard):
    """As on a GPU."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.on_host = False


def _train(plan: Plan, here: Path, rank: int) -> None:
    """The run; and, if it raised, the same folder once more with good data."""
    global clock
    clock = Clock(plan, rank)
    model, data = build(plan), Points(plan, rank)
    late = patch.object(state, "Guard", LateGuard) if plan.late else nullcontext()
    found = {"error": None}
    with late, patch.object(training, "CHECK_EVERY", CHECK_EVERY):
        try:
            found["history"] = train(model, data, None, plan.config, run=here / "run", loss=loss).history
        except FloatingPointError as raised:
            found["error"] = str(raised)
        found |= {"model": copy.deepcopy(model.state_dict()), "seen": data.seen[data.tried :]}
        found["struck"] = clock.struck + data.struck
        found["saved"] = checkpoint.load_newest(here / "run" / "checkpoints")
        if f"step {plan.steps[0] + 1} is not finite" in (found["error"] or ""):
            _go_on(replace(plan, place="nowhere"), here, rank)
    torch.save(found, here / f"found-{rank}")


def _go_on(plan: Plan, here: Path, rank: int) -> None:
    """With good data the run ends as one that was never stopped."""
    global clock
    outcomes = []
    for folder in (here / "run", None):
        clock = Clock(plan, rank)
        outcomes.append(
            train(build(plan), Points(plan, rank), None, plan.config, run=folder, loss=loss).model.state_dict()
        )
    if not all(torch.equal(outcomes[0][name], outcomes[1][name]) for name in outcomes[1]):
        raise ValueError("went on to other weights")


# ---- the same by hand -----------------------------------------------------------------------------------------------


class ByHand:
    """The run that should have been; stops where it should have raised."""

    def __init__(self, plan: Plan, seen: list[list[int]]):
        self.plan, config = plan, plan.config
        self.model = build(plan)
        self.average = copy.deepcopy(self.model)
        parameters = list(self.model.parameters())
        kind = {"adamw": partial(torch.optim.AdamW, weight_decay=0), "sgd": partial(torch.optim.SGD, momentum=0.9)}
        self.optimizer = kind[config.optimizer](parameters, lr=LR, fused=True)
        self.ranks = [(Clock(plan, rank), Points(plan, rank), iter(seen[rank])) for rank in range(plan.world)]
        for _, data, _ in self.ranks:
            data.tried = 0
        self.scale = 65536.0 if config.precision == "fp16" else 1.0
        self.blocked: list[int] = []
        self.known = 0  # of these, by the schedule
        self.after: list[dict] = [_copied(self.model)]
        self.batches: list[list[int]] = []
        self.records: list[dict] = []
        self.raised: tuple[int, int] | None = None  # the first bad step of the last row, and the last
        self.other_error: str | None = None
        torch.manual_seed(config.seed)
        since = []
        for step in range(STEPS):
            totals = self._step(step)
            since += totals
            done, row, watched = step + 1, self._row(step), False
            if row >= self.limit:
                self.raised = (step - row + 1, step)
                return
            if not plan.late or done % CHECK_EVERY == 0 or done == STEPS:
                self.known = len(self.blocked)
            if done % config.log_every == 0 or done == STEPS:
                mean = sum(total for total, _ in since) / sum(n for _, n in since) if since else None
                if mean is not None and not math.isfinite(mean) and config.nonfinite == "raise":
                    self.other_error = f"the training loss since the last record is {mean} at step {done}, "
                    return
                self.records.append(
                    {"step": done, "loss": mean, "skipped": self.known, "lr": self._rate(max(0, step - self.known))}
                )
                since = []
                watched = True
            broken = [name for name, buffer in self.model.named_buffers() if not buffer.isfinite().all()]
            if broken and (watched or (config.save_every and done % config.save_every == 0)):
                self.other_error = f"the buffer {broken[0]} is not finite after step {done}, "
                return
            self.after.append(_copied(self.model))

    @property
    def limit(self) -> int:
        config = self.plan.config
        return 1 if config.nonfinite == "raise" and config.precision != "fp16" else config.max_skips

    def _row(self, step: int) -> int:
        return next(n for n in range(STEPS + 1) if step - n not in self.blocked)

    def _rate(self, update: int) -> float:
        return LR * (
            (update + 1) / WARMUP
            if update < WARMUP
            else (1 + math.cos(math.pi * ((update - WARMUP) / (STEPS - WARMUP)))) / 2
        )

    def parts(self, step: int):
        """(rank, x, y) of each micro-batch, at its time."""
        global clock
        shares = [
            [next(order) for _ in range(rank, _batch_size(step), self.plan.world)]
            for rank, (_, _, order) in enumerate(self.ranks)
        ]
        self.batches.append([shares[i % self.plan.world][i // self.plan.world] for i in range(_batch_size(step))])
        self.x_y = [
            default_collate([data[i] for i in share]) for share, (_, data, _) in zip(shares, self.ranks, strict=True)
        ]
        yield from self.again()

    def again(self):
        global clock
        parts = self.plan.config.accumulation
        for rank, (x, y) in enumerate(self.x_y):
            clock = self.ranks[rank][0]
            for x_part, y_part in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True):
                yield rank, x_part, y_part

    @property
    def autocast(self):
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.plan.config.precision)
        return torch.autocast("cpu", kind) if kind else nullcontext()

    def _step(self, step: int) -> list[tuple[float, int]]:
        """The (sum, count) of the losses, none if the update was blocked."""
        config, parameters = self.plan.config, list(self.model.parameters())
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(step - self.known)
        self.optimizer.zero_grad()
        before, totals = _copied(self.model), []
        for _, x, y in self.parts(step):
            with self.autocast:
                total = loss(self.model(x), y)
            (total / _batch_size(step) * self.scale).backward()
            totals.append((total.item(), len(y)))
        gradients = [p.grad.mul_(1 / self.scale) for p in parameters]
        finite = all(g.isfinite().all() for g in gradients)
        square = sum(g.double().square().sum() for g in gradients)
        if not finite or square > torch.finfo(self.plan.dtype).max:
            self.model.load_state_dict(before)
            self.blocked.append(step)
            if not finite and config.precision == "fp16":
                self.scale /= 2
            return []
        if config.clip:
            nn.utils.clip_grad_norm_(parameters, config.clip)
        self.optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(self.average.parameters(), parameters, strict=True):
                mine.lerp_(theirs, 1 - DECAY)
        for mine, theirs in zip(self.average.buffers(), self.model.buffers(), strict=True):
            mine.copy_(theirs)
        return totals

    def suspects(self) -> set[str]:
        """What may be named as not finite first in the last step: one thing, or any gradient of that backward."""
        gradients = set()
        for rank, x, y in self.again():
            where = f" on rank {rank}" * (self.plan.world > 1)
            self.model.zero_grad()
            with self.autocast:
                values = {"the input": x}
                for name, module in self.model.named_children():
                    x = module(x)
                    values[f"the output of {name} ({type(module).__name__})"] = x
                values["the loss"] = loss(x, y)
            if first := [name for name, value in values.items() if not value.isfinite().all()]:
                return {first[0] + where}
            values["the loss"].backward()
            bad = [name for name, p in self.model.named_parameters() if not p.grad.isfinite().all()]
            anywhere = [f" on rank {rank}" for rank in range(2)] if self.plan.config.parallel == "fsdp" else [where]
            gradients |= {f"the gradient of {name}{place}" for name in bad for place in anywhere}
        return gradients or {"the norm of the gradient, all of whose numbers are finite,"}


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _judge(plan: Plan, here: Path, rank: int) -> None:
    """Raises ValueError, saying what differs, or writes a word on what happened."""
    found = [torch.load(here / f"found-{rank}") for rank in range(plan.world)]
    if not found[plan.rank]["struck"]:
        raise ValueError("the run went by without a strike: nothing was tried")
    hand = ByHand(plan, [one["seen"] for one in found])
    differences = [
        f"on rank {rank}, {what}" for rank, one in enumerate(found) for what in _differences(plan, one, hand)
    ]
    if differences:
        raise ValueError("; ".join(differences))
    verdict = "raised" if hand.raised or hand.other_error else "skipped" if hand.blocked else "harmless"
    (here / "verdict").write_text(verdict + " on ranks" * (plan.world > 1))


def _differences(plan: Plan, found: dict, hand: ByHand):
    def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
        tolerance = 1e-10 if plan.world > 1 else 0.0
        return ours.keys() == theirs.keys() and all(
            torch.allclose(ours[name], theirs[name], rtol=tolerance, atol=tolerance) for name in ours
        )

    saved = found["saved"]
    if saved and saved["progress"]["step"] >= len(hand.after):
        yield f"a checkpoint of step {saved['progress']['step']}, after the bad one"
    elif saved and not same(saved["model"], hand.after[saved["progress"]["step"]]):
        yield f"the checkpoint of step {saved['progress']['step']} is not what it was"
    elsewhere = hand.other_error and plan.config.parallel == "fsdp"  # the weights are, and may have moved
    if not elsewhere and not same(found["model"], _copied(hand.model)):
        yield "other weights"
    if hand.raised:
        yield from _wrong_words(plan, found["error"], hand)
    elif hand.other_error:
        if hand.other_error not in (found["error"] or ""):
            yield f"not {hand.other_error!r} but {found['error']}"
    elif found["error"]:
        yield f"should not have raised: {found['error']}"
    else:
        yield from _wrong_state(plan, saved, hand, same)
        for ours, theirs in zip(found["history"], hand.records, strict=True):
            for key, value in theirs.items():
                if str(ours[key]) != str(value) and (
                    None in (ours[key], value) or not math.isclose(ours[key], value, rel_tol=1e-6)
                ):
                    yield f"step {theirs['step']}: {key} {ours[key]}, expected {value}"


def _wrong_words(plan: Plan, error: str | None, hand: ByHand):
    first, last = hand.raised
    if error is None:
        yield f"did not raise for step {first + 1}"
        return
    batch = hand.batches[last]
    indices = f"examples [{', '.join(map(str, batch[:8]))}{f', … {len(batch)} in all' if len(batch) > 8 else ''}]"
    words = [indices, f"step {last + 1} "]
    if hand.limit == 1:
        suspects = hand.suspects()
        named = re.search(r"\]\): (.*) is not finite\. ", error)
        if not named or named[1] not in suspects:
            yield f"names {named and named[1]}, not {suspects}"
    else:
        words.append(f"{hand.limit} updates in a row were not finite, the last of them at step {last + 1} ")
    if missing := [word for word in words if word not in error]:
        yield f"no {missing} in {error!r}"


def _wrong_state(plan: Plan, saved: dict, hand: ByHand, same):
    if saved["ema"] is not None and not same(saved["ema"], _copied(hand.average)):
        yield "another average"
    state = hand.optimizer.state_dict()["state"]
    for number, ours in saved["optimizer"]["state"].items():
        if not same(ours, state.get(number, {})):
            yield f"another optimizer state of parameter {number}"
    expected = {
        "step": STEPS, "skipped": len(hand.blocked), "updates": STEPS - len(hand.blocked),
        "scale": hand.scale, "blocked": len(hand.blocked),
    }  # fmt: skip
    found = {
        "step": saved["progress"]["step"], "skipped": saved["progress"]["skipped"],
        "updates": saved["scheduler"]["last_epoch"], "scale": saved["scaler"].get("scale", 1.0),
        "blocked": saved["guard"]["blocked"],
    }  # fmt: skip
    yield from (f"{key} {found[key]}, expected {value}" for key, value in expected.items() if found[key] != value)
