"""Clipping, the loss scale of fp16, and autocast."""

import copy
import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from utils.checks.loop.comparing import relative_error
from utils.checks.toy_problem import (
    BATCH,
    EPOCH,
    EXAMPLES,
    ToyProblem,
    Train,
    clones,
    norm_of,
    plain_config,
    record_run,
)
from utils.data.datasets import TensorData

KEEP = "keep the weights in float32, and call the model within torch.autocast"
CLIP = 0.05  # clips at every step: the gradients have norms of 0.3 to 1. At 1.0 a broken clip would look right


def clip_binds(train: Train) -> None:
    """The gradient that each step uses has the clipped norm, 0.05; with a limit above all norms it is unchanged.

    Catches clipping before backward, clipping after the step, and clipping an exhausted generator of parameters. The norm
    that clip_grad_norm_ returns looks right after the step, so the norm is measured when the optimizer steps. The second
    run catches a "clip" that gives every gradient the norm of the limit, and so scales the short ones up.
    """
    norms = [norm_of(step.gradients) for step in record_run(train, ToyProblem(), plain_config(clip=CLIP)).steps]
    wrong = [round(norm, 6) for norm in norms if not math.isclose(norm, CLIP, rel_tol=1e-4)]
    assert norms and not wrong, (
        f"clipped to {CLIP}, but the optimizer got gradients of norm {wrong}: clip between backward and "
        "optimizer.step(), all parameters at once"
    )
    problem = ToyProblem()
    for step in record_run(train, problem, plain_config(clip=100.0)).steps:
        expected = problem.gradient(step.weights, step.x)
        assert relative_error(step.gradients, expected) < 1e-4, (
            f"clipped to 100, a gradient of norm {norm_of(expected):.3g} becomes one of {norm_of(step.gradients):.3g}: "
            "change only what is longer than the limit"
        )


def loss_scale_leaves_no_trace(train: Train) -> None:
    """With fp16 and its scaler an SGD update is as large as in fp32, to 3 %.

    Catches optimizer.step() in place of scaler.step(), or a missing unscale_: the update is 65,536 times too large. Adam
    would hide it: its update would be 1.0004 times as large.
    """
    ratio = _first_update(train, precision="fp16") / _first_update(train)
    assert 0.97 < ratio < 1.03, (
        f"the fp16 update is {ratio:.4g} times the fp32 update: step by scaler.step(optimizer), which divides by the scale"
    )


def clip_sees_unscaled_gradients(train: Train) -> None:
    """With fp16 and clipping an SGD update is as large as in fp32 with clipping, to 3 %.

    Catches clipping before unscale_: gradients 65,536 times too large are cut down to the limit and then divided
    by the scale. The limit must be below the norms, and the optimizer must not be Adam.
    """
    ratio = _first_update(train, precision="fp16", clip=CLIP) / _first_update(train, clip=CLIP)
    assert 0.97 < ratio < 1.03, (
        f"the clipped fp16 update is {ratio:.4g} times the clipped fp32 update: call scaler.unscale_(optimizer) before "
        "clipping"
    )


def _first_update(train: Train, **changes) -> float:
    """How far an SGD step moves the weights: the first of 3 steps that moves them, since a scaler may skip some."""
    problem = ToyProblem()
    recording = record_run(train, problem, plain_config(steps=3, batch_size=EXAMPLES, lr=1e-3, **changes))
    weights = [*(step.weights for step in recording.steps), clones(problem.model.parameters())]
    moves = [norm_of([a - b for a, b in zip(*pair, strict=True)]) for pair in pairwise(weights)]
    return next((move for move in moves if move > 0), 0.0)


def precision_takes_effect(train: Train) -> None:
    """bf16 and fp16 reach the layers, in training and in validation: a Linear's outputs have that dtype.

    Catches an autocast that is built and never entered, or exited before the forward pass: all runs work, in float32.
    """
    for precision, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        problem, seen = ToyProblem(), []
        problem.model[1].register_forward_hook(lambda module, inputs, outputs, seen=seen: seen.append(outputs.dtype))
        problem.run(train, plain_config(precision=precision), val=problem.val)
        assert set(seen) == {dtype}, (
            f"precision {precision!r}: a linear layer's outputs have {sorted(set(map(str, seen)))}: "
            f"call the model within torch.autocast, in training and in validation"
        )


def autocast_uses_new_weights(train: Train) -> None:
    """In bf16 the forward pass of each step uses the weights that the step before it left.

    Catches autocast entered once around the whole run: until it is left it keeps the bf16 copies of the weights that the
    first step made, and every later step runs on those. A high learning rate moves the weights by more than bf16's
    rounding, at most 2^-8 of a value.
    """
    problem, errors = ToyProblem(), []

    def compare(layer, inputs, outputs):
        if torch.is_grad_enabled():
            with torch.no_grad(), torch.autocast(outputs.device.type, enabled=False):
                expected = F.linear(inputs[0].float(), layer.weight, layer.bias)
            errors.append(norm_of([outputs.float() - expected]) / norm_of([expected]))

    problem.model[1].register_forward_hook(compare)
    problem.run(train, plain_config(steps=2 * EPOCH, lr=1.0, precision="bf16"))
    worst = torch.tensor(errors).max()  # NaN if one is: Python's max() passes over it
    assert worst < 0.01, (
        f"a layer's outputs differ by a relative {worst:.3g} from those that its weights now give: "
        "enter torch.autocast anew for each forward pass"
    )


def weights_stay_float32(train: Train) -> None:
    """Mixed precision keeps the weights in float32: an update of 0.001 moves a weight of 1, Adam stays finite.

    Catches `model.bfloat16()` (1 - 0.001 rounds to 1: nothing ever moves) and `model.half()` (Adam's eps is 0 in float16).
    Updates of 2^-8 or more would move even bfloat16. Four steps in fp16, since the scaler skips the first ones.
    """
    for precision in ("bf16", "fp16"):
        model = nn.Linear(3, 1, bias=False)
        nn.init.ones_(model.weight)
        data = TensorData(torch.tensor([[1.0, 1e-3, 0.0]] * BATCH), torch.zeros(BATCH, 1), regression=True)
        for optimizer in ("sgd", "adamw"):
            trained = copy.deepcopy(model)
            train(
                trained,
                data,
                config=plain_config(steps=4, lr=1e-3, precision=precision, optimizer=optimizer),
                loss=lambda outputs, _: outputs.float().sum(),
            )
            weights = trained.weight.detach().flatten().tolist()
            assert all(map(math.isfinite, weights)), f"{precision}, {optimizer}: the weights become {weights}: " + KEEP
            assert 0.99 < weights[0] < 1, (
                f"{precision}, {optimizer}: updates of 0.001 leave a weight of 1 at {weights[0]}: " + KEEP
            )
