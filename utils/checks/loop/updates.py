"""What a step does to the weights: the optimizer, its learning rate, frozen layers, the running average."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from utils.checks.loop.comparing import validations
from utils.checks.parts import Loss
from utils.checks.toy_problem import (
    NotJudged,
    Step,
    ToyProblem,
    Train,
    clones,
    needs,
    options,
    plain_config,
    record_run,
    takes,
)
from utils.loop.config import Config


def rate_follows_schedule(train: Train) -> None:
    """12 steps use the rates of a warm-up over 3 steps and a cosine over the other 9, down towards a fifth of the peak.

    Catches a schedule that advances per epoch or per micro-batch, one that advances before the optimizer, one that is
    never stepped, and one that sets the rate of the first group of parameters alone. The rate is read when the optimizer
    steps, not from the history: after the step, get_last_lr() is the next step's. A constant rate or one step per epoch
    would hide all of this; here an epoch has 3 steps of 2 micro-batches.
    """
    wanted = options(train, warmup=3, final_lr=0.2, accumulation=2, weight_decay=0.1)  # the decay: for a second group
    config = plain_config(steps=12, schedule="cosine", lr=0.1, **wanted)
    used = [step.rates for step in record_run(train, ToyProblem(), config).steps]
    warmup, end = config.warmup_steps, config.final_lr
    falling = [end + (1 - end) * (1 + math.cos(math.pi * t / (12 - warmup))) / 2 for t in range(12 - warmup)]
    expected = [0.1 * share for share in [*((t + 1) / 3 for t in range(warmup)), *falling]]
    for group, rates in enumerate(zip(*used, strict=True)):
        assert len(rates) == 12, f"the loop makes {len(rates)} steps, not 12: count the steps over all epochs"
        wrong = [t for t in range(12) if not math.isclose(rates[t], expected[t], rel_tol=0, abs_tol=1e-9)]
        assert not wrong, (
            f"step {wrong[0] + 1} uses the rate {rates[wrong[0]]:.4g}, planned is {expected[wrong[0]]:.4g} "
            f"({len(wrong)} of 12 steps are wrong), for group {group} of the parameters: "
            "step the schedule once after each optimizer.step(), for all groups"
        )


def updates_follow_their_rule(train: Train) -> None:
    """SGD with momentum and AdamW move the weights as their formulas say, from the gradients that the optimizer was given.

    The formulas are computed here in float64 and agree to 1e-6. Weights decay; biases may or may not. Catches an optimizer
    other than the configured one, Adam(weight_decay=…) for AdamW, settings that do not reach it (SGD without its weight
    decay), and weights that something else changes.
    """
    follow_the_rules(train)


def follow_the_rules(train: Train, loss: Loss | None = None, **changes) -> None:
    needs(train, "optimizer")
    rules = {
        "sgd": (options(train, momentum=0.9, weight_decay=0.5), _momentum_rule),
        "adamw": (options(train, beta2=0.99, weight_decay=0.5), _adamw_rule),
    }
    for optimizer, (settings, rule) in rules.items():
        problem = ToyProblem()
        config = plain_config(optimizer=optimizer, lr=0.05, **settings, **changes)
        try:
            recording = record_run(train, problem, config, loss=loss)
        except FloatingPointError as error:  # a state that was read before it was written can hold any value
            raise AssertionError(
                f"{optimizer}: the run fails after a skipped step: {error}: "
                "leave the optimizer's state alone when a step is skipped"
            ) from error
        steps = [step for step in recording.steps if step.finite]
        built, rates = _as_built(train, config, steps)
        moved = min(
            torch.stack([(a - b).abs().max() for a, b in zip(problem.model.parameters(), expected, strict=True)]).max()
            for expected in (rule(built, rates, steps, decayed) for decayed in ("matrices", "all"))
        )
        assert moved < 1e-6, (
            f"{optimizer}: after {len(steps)} steps a weight is {moved:.3g} away from the formula's: hand every setting to "
            "the optimizer, which alone changes the weights"
        )


def _as_built(train: Train, config: Config, steps: list[Step]) -> tuple[Config, list[float]]:
    """The config, with the optimizer's own value where the loop takes no parameter for it; and the rate of each step."""
    groups = steps[0].settings
    if any(group.get(name) for group in groups for name in ("nesterov", "dampening", "amsgrad", "maximize")):
        raise NotJudged("the loop's optimizer is another variant than torch's default (nesterov, amsgrad, dampening)")
    betas = groups[0].get("betas", (config.beta1, config.beta2))
    own = {
        "momentum": groups[0].get("momentum", config.momentum),
        "weight_decay": max(group.get("weight_decay", config.weight_decay) for group in groups),
        "beta1": betas[0],
        "beta2": betas[1],
    }
    config = replace(config, **{name: float(value) for name, value in own.items() if not takes(train, name)})
    rates = [step.rates[0] for step in steps]
    fixed_schedule = not takes(train, "schedule") and len(set(rates)) > 1
    return config, rates if fixed_schedule else [config.lr] * len(steps)


def _momentum_rule(config: Config, rates: list[float], steps: list[Step], decayed: str) -> list[Tensor]:
    weights = [w.double() for w in steps[0].weights]
    velocity = [torch.zeros_like(w) for w in weights]
    decays = [config.weight_decay * (decayed == "all" or w.ndim >= 2) for w in weights]
    for lr, step in zip(rates, steps, strict=True):
        gradients = [g + d * w for g, d, w in zip(step.gradients, decays, weights, strict=True)]
        velocity = [config.momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        weights = [w - lr * v for w, v in zip(weights, velocity, strict=True)]
    return weights


def _adamw_rule(config: Config, rates: list[float], steps: list[Step], decayed: str) -> list[Tensor]:
    weights = [w.double() for w in steps[0].weights]
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    alpha, beta = config.beta1, config.beta2
    for t, (lr, step) in enumerate(zip(rates, steps, strict=True), start=1):
        first = [alpha * m + (1 - alpha) * g for m, g in zip(first, step.gradients, strict=True)]
        second = [beta * v + (1 - beta) * g.double() ** 2 for v, g in zip(second, step.gradients, strict=True)]
        weights = [w * (1 - lr * config.weight_decay * (decayed == "all" or w.ndim >= 2)) for w in weights]
        roots = [(v / (1 - beta**t)).sqrt() + 1e-8 for v in second]
        weights = [w - lr * m / (1 - alpha**t) / r for w, m, r in zip(weights, first, roots, strict=True)]
    return weights


def frozen_weights_stay(train: Train) -> None:
    """A weight that is frozen from the start keeps its bits; so do those that no gradient reaches from step 4 on.

    Catches an optimizer that decays frozen weights, and zero_grad(set_to_none=False), after which momentum keeps moving a
    weight whose gradient is 0. A weight frozen from the start has no gradient and no momentum, so it proves little alone.
    """
    problem = ToyProblem()
    first, last = problem.model[1], problem.model[-1]
    last.bias.requires_grad_(False)
    frozen, passes = {"last.bias": last.bias.detach().clone()}, []

    def cut_off(module, _, outputs):
        passes.extend([None] * torch.is_grad_enabled())
        if len(passes) <= 3:
            return outputs
        frozen.setdefault("first.weight", first.weight.detach().clone())
        return outputs.detach()

    first.register_forward_hook(cut_off)
    problem.run(train, plain_config(steps=9, momentum=0.9, weight_decay=0.1))
    moved = {
        name: (w - {"last.bias": last.bias, "first.weight": first.weight}[name]).abs().max().item()
        for name, w in frozen.items()
    }
    assert len(frozen) == 2 and not any(moved.values()), (
        f"frozen weights moved by at most: {moved}: clear gradients by optimizer.zero_grad(), which sets them to None"
    )


def average_is_validated(train: Train) -> None:
    """With ema the reported validation loss is that of the running average, and the average is right.

    The detector computes the average from the weights before each step, with the model's BatchNorm statistics. Catches
    validation of the raw weights, and an average that is updated before the step, or with decay and 1 - decay exchanged,
    or that keeps its initial BatchNorm statistics. A large learning rate keeps the two losses apart.
    """
    problem = ToyProblem(norm=True)
    first = {name: buffer.clone() for name, buffer in problem.model.named_buffers()}
    average = [p.double() for p in clones(problem.model.parameters())]
    recording = record_run(train, problem, plain_config(lr=1.0, ema=0.8), val=problem.val)
    last = recording.last_validation
    after = [*(step.weights for step in recording.steps[1:]), clones(problem.model.parameters())][: last.steps]
    for weights in after:
        average = [0.8 * a + 0.2 * w.double() for a, w in zip(average, weights, strict=True)]

    def loss_of(weights: list[Tensor], buffers: dict[str, Tensor]) -> float:
        return problem.mean_loss(weights, problem.val.x, problem.val.y, buffers)

    expected = loss_of(average, last.buffers_in_training)
    right = [expected]
    if any(not torch.equal(first[name], buffer) for name, buffer in last.buffers.items()):
        right.append(loss_of(average, last.buffers))  # some average the statistics, too
    reported = validations(recording.result)[-1]["val_loss"]
    assert any(math.isclose(reported, loss, rel_tol=recording.tolerance(1e-4)) for loss in right), (
        f"validation reports {reported:.6f}; the average's loss is {expected:.6f}, the raw weights' "
        f"{loss_of(after[-1], last.buffers_in_training):.6f}: after each step make the average "
        "ema · average + (1 - ema) · weights, and validate it with the model's BatchNorm statistics"
    )
