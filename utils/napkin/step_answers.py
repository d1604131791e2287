"""The answers of three more calculators, about a step: its memory, its communication, its learning rate.

As in answers.py: pure functions of the user's inputs, each a frozen dataclass of numbers with its `words`.
"""

import math
from dataclasses import dataclass

from utils import napkin
from utils.facts import MODELS
from utils.figures.numbers import byte_size
from utils.napkin.answers import LOGITS, amount, count, one_of, shown

STATE = {"SGD": 0, "SGD with momentum": 4, "AdamW": 8}  # bytes of optimizer state per parameter, fp32
GPTS = ("GPT-2", "GPT-2 XL", "1.27B", "GPT-3 175B")
CHECKPOINTING = ("none", "every layer")
LATENCY = 5e-6  # seconds of each message in a ring
SHAPES = ("cosine", "linear", "constant", "constant, then down")
DECAY = 0.2  # share of the steps in which "constant, then down" falls


# 1. Memory over a step


@dataclass(frozen=True)
class StepMemory:
    """Live bytes over one step in fp32, by part. moments: (what has just happened, {part: bytes}), in order."""

    model: str
    optimizer: str
    moments: list[tuple[str, dict[str, int]]]
    other_peak: int  # of the other step, the first or the second

    @property
    def peak(self) -> tuple[str, int]:
        """When the most is alive, and how many bytes that is."""
        return max(((when, sum(parts.values())) for when, parts in self.moments), key=lambda each: each[1])

    @property
    def words(self) -> tuple[str, ...]:
        when, most = self.peak
        parts = dict(self.moments)[when]
        second = self.moments[0][1]["optimizer state"] > 0 or STATE[self.optimizer] == 0
        other = "first" if second else "second"
        return (
            f"{byte_size(most)} at the peak, at the {when}",
            ", ".join(f"{part} {byte_size(size)}" for part, size in parts.items() if size) + ".",
            f"The {other} step peaks at {byte_size(self.other_peak)}.",
        )


def step_memory(model: str, batch, tokens, optimizer: str, checkpointing: str, step: str) -> StepMemory:
    """The memory of a step of a GPT in fp32, layer by layer, plain attention.

    batch: sequences; tokens: in each. The optimizer allocates its state at the end of the first step. AdamW updates as on a
    GPU by default (foreach): with one more tensor for each weight.
    """
    one_of("model", model, GPTS)
    one_of("optimizer", optimizer, STATE)
    one_of("checkpointing", checkpointing, CHECKPOINTING)
    one_of("step", step, ("first", "second"))
    sizes = model, count("batch", batch), count("tokens", tokens), optimizer, checkpointing
    steps = {each: _moments(*sizes, each) for each in ("first", "second")}
    other = "first" if step == "second" else "second"
    return StepMemory(model, optimizer, steps[step], max(sum(parts.values()) for _, parts in steps[other]))


def _moments(model: str, batch: int, tokens: int, optimizer: str, checkpointing: str, step: str) -> list:
    shape = MODELS[model]
    weights = 4 * napkin.parameter_count(shape)
    parts = napkin.parameter_parts(shape)
    of_a_layer = (weights - 4 * (parts["embedding"] + parts["positions"])) // shape.layers
    state = STATE[optimizer] * weights // 4
    whole = napkin.activation_bytes(batch, tokens, shape.width, shape.heads)
    kept = 4 * batch * tokens * shape.width if checkpointing == "every layer" else whole
    logits = LOGITS * 4 * batch * tokens * shape.vocabulary

    def moment(layers: int, gradients: int, extra: int, has_state: bool) -> dict[str, int]:
        return {
            "weights": weights,
            "gradients": gradients,
            "optimizer state": state if has_state else 0,
            "activations, temporaries": layers * kept + extra,
        }

    later = step == "second"
    moments = [("start", moment(0, 0, 0, later))]
    moments += [(f"forward of layer {n}", moment(n, 0, 0, later)) for n in range(1, shape.layers + 1)]
    moments += [("loss", moment(shape.layers, 0, logits, later))]
    head = weights - shape.layers * of_a_layer  # the embedding's gradient begins at the LM head
    for n in range(shape.layers, 0, -1):
        done = head + (shape.layers - n + 1) * of_a_layer
        again = whole if checkpointing == "every layer" else 0
        moments.append((f"backward of layer {n}", moment(n, done, again, later)))
    roots = weights if optimizer == "AdamW" else 0
    return [*moments, ("update", moment(0, weights, roots, True))]


# 2. Buckets that overlap backward


@dataclass(frozen=True)
class Overlap:
    """A backward pass and the all-reduces of its gradients, in seconds; buckets: (ready, begins, ends) of each."""

    gradient_bytes: int
    backward: float
    buckets: list[tuple[float, float, float]]
    at_once: float  # when all would be over with one all-reduce after backward

    @property
    def end(self) -> float:
        return max(self.backward, self.buckets[-1][2])

    @property
    def words(self) -> tuple[str, ...]:
        busy = sum(ends - begins for _, begins, ends in self.buckets)
        seen = self.end - self.backward
        hidden = 1 - seen / busy if busy else 1.0
        return (
            f"{1e3 * self.end:,.1f} ms, of which {1e3 * seen:,.1f} ms wait for the network",
            f"Backward takes {1e3 * self.backward:,.1f} ms, {len(self.buckets):,} all-reduces take {1e3 * busy:,.1f} ms; "
            f"{100 * hidden:.0f} % of that is hidden.",
            f"One all-reduce after backward would end at {1e3 * self.at_once:,.1f} ms.",
        )


def overlap(parameters, backward_ms, bucket_mb, ranks, gigabytes_per_second) -> Overlap:
    """When the gradients of a step have been averaged: fp32, a ring, one all-reduce at a time, 5 µs for each message.

    Gradients become ready evenly over the backward pass; a bucket of bucket_mb (10⁶ bytes) goes off once it is full.
    """
    parameters, ranks = count("parameters", parameters), count("ranks", ranks)
    backward, bucket = amount("backward_ms", backward_ms) / 1e3, amount("bucket_mb", bucket_mb) * 1e6
    bandwidth = amount("gigabytes_per_second", gigabytes_per_second) * 1e9
    for name, value in (("backward_ms", backward), ("bucket_mb", bucket), ("gigabytes_per_second", bandwidth)):
        if value <= 0:
            raise ValueError(f"{name} must be above zero: give 1 or more")
    total = 4 * parameters
    number = math.ceil(total / bucket)
    if number > 10_000:
        raise ValueError(f"bucket_mb={bucket_mb} makes {number:,} buckets, more than 10,000: give a larger one")

    def all_reduce(nbytes: float) -> float:
        return 2 * (ranks - 1) * (nbytes / ranks / bandwidth + LATENCY)

    buckets, free = [], 0.0
    for n in range(number):
        sent = min((n + 1) * bucket, total)
        ready = backward * sent / total
        begins = max(ready, free)
        free = begins + all_reduce(sent - n * bucket)
        buckets.append((ready, begins, free))
    return Overlap(total, backward, buckets, backward + all_reduce(total))


# 3. The learning rate over a run


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each step, from 0."""

    rates: list[float]
    peak: float
    warmup: int

    @property
    def words(self) -> tuple[str, ...]:
        steps = len(self.rates)
        middle, mean = self.rates[steps // 2], sum(self.rates) / steps
        return (
            f"from {self.rates[0]:.3g} to {self.peak:.3g}, and {self.rates[-1]:.3g} at the last of {steps:,} steps",
            f"Half way it is {middle:.3g}; the mean is {100 * mean / self.peak:.0f} % of the peak.",
            f"{100 * self.warmup / steps:.3g} % of the steps are warm-up.",
        )


def schedule(shape: str, peak, steps, warmup, last) -> Schedule:
    """Linear warm-up, whose last step has `peak`; then down to the share `last` of it, which the step after the end has."""
    one_of("shape", shape, SHAPES)
    given, peak, steps, warmup = peak, amount("peak", peak), count("steps", steps), amount("warmup", warmup)
    last = amount("last", last)
    if peak <= 0:
        raise ValueError(f"peak={shown(given)} is no learning rate: give one above zero, such as 3e-4")
    if not (isinstance(warmup, int) and 0 <= warmup < steps):
        raise ValueError(f"warmup={warmup} of {steps:,} steps: give a whole number from 0 to {steps - 1:,}")
    if steps > 10**6:
        raise ValueError(f"steps={steps:,} are more than a million: the picture is the same with fewer")
    if not 0 <= last <= 1:
        raise ValueError(f"last={last} is no share of the peak: give 0 to 1")
    factors = [
        (step + 1) / warmup if step < warmup else _factor(shape, step, steps, warmup, last) for step in range(steps)
    ]
    return Schedule([peak * factor for factor in factors], peak, warmup)


def _factor(shape: str, step: int, steps: int, warmup: int, last: float) -> float:
    done = (step - warmup) / (steps - warmup)
    if shape == "constant":
        return 1.0
    if shape == "cosine":
        return last + (1 - last) * (1 + math.cos(math.pi * done)) / 2
    if shape == "constant, then down":
        done = max(0.0, (step - (1 - DECAY) * steps) / (DECAY * steps)) if warmup <= (1 - DECAY) * steps else done
    return 1 - (1 - last) * done
