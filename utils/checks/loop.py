"""Detectors of silent bugs in a training loop: each runs the loop on a problem small enough to check by hand.

A detector takes `train`, a function with the signature of utils.loop.train, and raises AssertionError with the values
it saw. It observes from outside: a Recording holds what the model and the optimizers were given. any_loop.py makes such a
`train` of any loop that trains a model in place; what a detector cannot judge in it raises NotJudged, which says why.

The toy problem is the same wherever possible: 22 examples in batches of 8, so that the last batch is short and an epoch
has more than one step; more than one epoch, because the first step of a run hides a missing zero_grad; plain SGD, because
Adam divides every constant factor out of the gradient and so hides wrong scales.
"""

import contextlib
import copy
import io
import math
import tempfile
import time
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.checks.parts import Loss, batches_mix_classes, every_example_once, is_a_copy, order_is_kept
from utils.checks.toy_problem import (
    BATCH,
    EPOCH,
    EXAMPLES,
    NotJudged,
    Recording,
    Returned,
    Step,
    ToyProblem,
    Train,
    clones,
    needs,
    norm_of,
    options,
    plain_config,
    record_run,
    run_until_killed,
)
from utils.data.datasets import IGNORE, TensorData
from utils.device import own_random_streams
from utils.loop import checkpoint
from utils.loop.config import Config
from utils.loop.log import MEASURED
from utils.loop.metrics import cross_entropy_sum
from utils.loop.run_folder import best_weights

# ---- gradients: zero, forward, loss, backward ------------------------------------------------------------------------


def gradients_are_fresh(train: Train) -> None:
    """Each step uses the gradient of its own batch at its own weights, and nothing else.

    Compares the gradient that the optimizer is given with one computed independently. Catches a forgotten zero_grad (the
    relative error is 0 at the first step and about 1 from the second on), a sum where a mean was meant, weights changed
    between forward and step, a graph used after a step. Plain SGD, because Adam would hide a constant factor. Batches of
    7, so that the last batch of each epoch is a single example.
    """
    problem = ToyProblem()
    for i, step in enumerate(record_run(train, problem, plain_config(steps=8, batch_size=7)).steps):
        error = _relative_error(step.gradients, problem.gradient(step.weights, step.x))
        assert error < 1e-4, f"step {i + 1}: the gradient differs from its batch's by a relative {error:.3g}"


def steps_have_gradients(train: Train) -> None:
    """At every step each parameter has a gradient, not all zero, and the run moves it.

    Catches zero_grad between backward and step: the model never trains. Moving weights prove little: with AdamW, and
    gradients of zero instead of None, weight decay alone moves them. Hence plain SGD without decay.
    """
    problem = ToyProblem()
    before = clones(problem.model.parameters())
    steps = record_run(train, problem, plain_config()).steps
    missing = [sum(g is None or not g.any() for g in step.gradients) for step in steps]
    assert steps and not any(missing), f"parameters without a gradient, by step: {missing}"
    unmoved = sum(torch.equal(a, b) for a, b in zip(before, problem.model.parameters(), strict=True))
    assert unmoved == 0, f"{unmoved} of {len(before)} parameters never moved"


def accumulation_equals_big_batch(train: Train) -> None:
    """The gradient of a batch in 4 micro-batches is that of the whole batch, to 1e-12 in float64.

    Batches of 10 and 2 in 4 micro-batches: 3, 3, 2, 2 and 1, 1. Catches a mean of the micro-batches' means, and a missing
    division by their number (a factor of 4 that Adam would hide). With equal micro-batches the mean of means is right.
    """
    problem = ToyProblem(dtype=torch.float64)
    for step in record_run(train, problem, plain_config(batch_size=10, accumulation=4)).steps:
        assert len(step.sizes) > 1, f"accumulation=4, and {len(step.x)} examples go forward in one piece"
        error = _relative_error(step.gradients, problem.gradient(step.weights, step.x))
        assert error < 1e-12, f"{len(step.x)} examples in micro-batches of {step.sizes}: relative error {error:.3g}"


def accumulation_counts_tokens(train: Train) -> None:
    """The same with masked targets: each target that counts has the same weight, whichever micro-batch it is in.

    Texts of 1 to 7 targets. Catches micro-batches weighted by their number of examples, or all equally; texts of equal
    length would hide both.
    """
    problem = ToyProblem(tokens=True, dtype=torch.float64)
    for step in record_run(train, problem, plain_config(accumulation=4)).steps:
        error = _relative_error(step.gradients, problem.gradient(step.weights, step.x))
        counts = [int(problem.targets(x).ne(IGNORE).sum()) for x in step.x.split(step.sizes)]
        assert error < 1e-12, f"micro-batches of {counts} targets: relative error {error:.3g}"


def no_micro_batch_is_left_over(train: Train) -> None:
    """Every example in a forward pass is in exactly one step, also at the end of an epoch and of the run.

    22 examples in batches of 8, 8, 6, each in micro-batches of 2 (6 in 4 parts: 2, 2, 1, 1). Catches a loop that makes no
    step for the remainder, `if (i + 1) % accumulation == 0: step()`, so that its gradients leak into the next epoch, and a
    loop that drops the remainder. With a whole number of batches both are invisible.
    """
    recording = record_run(train, ToyProblem(), plain_config(accumulation=4))
    sizes = [len(step.x) for step in recording.steps]
    assert sizes == [8, 8, 6] * 2, f"22 examples in batches of 8, two epochs: the steps use {sizes} examples"
    assert not recording.forwards, f"{len(recording.forwards)} micro-batches went forward after the last step"


def memory_shortage_changes_nothing(train: Train) -> None:
    """A run that is out of memory at its first step ends with the bits of a run that began with smaller micro-batches.

    The model raises torch.OutOfMemoryError for more than 4 examples, after its BatchNorm and its dropout have run: the
    loop must undo what the failed attempt did to both. Micro-batches change BatchNorm's statistics, so the run that it is
    compared with has accumulation=2. Any other RuntimeError must be raised at the first attempt.
    """

    def too_much(module, inputs):
        if torch.is_grad_enabled() and len(inputs[0]) > BATCH // 2:
            raise torch.OutOfMemoryError("simulated")

    limited, ample = ToyProblem(norm=True, dropout=0.5), ToyProblem(norm=True, dropout=0.5)
    limited.model[-1].register_forward_pre_hook(too_much)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            limited.run(train, plain_config())
    except torch.OutOfMemoryError:
        raise NotJudged("the loop does not try again when memory runs out") from None
    ample.run(train, plain_config(accumulation=2))
    _assert_same_bits(
        *(clones(problem.model.state_dict().values()) for problem in (limited, ample)), "limited and ample memory"
    )
    broken, attempts = ToyProblem(), []

    def broken_loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad:
            attempts.append(len(targets))
            raise RuntimeError("broken")
        return cross_entropy_sum(outputs, targets)

    with contextlib.suppress(RuntimeError), contextlib.redirect_stdout(io.StringIO()):
        broken.run(train, plain_config(), loss=broken_loss)
    assert attempts == [BATCH], f"an error unrelated to memory was retried: attempts with {attempts} examples"


def all_ignored_batch_is_harmless(train: Train) -> None:
    """A batch whose targets are all ignored gives no gradient and leaves every reported number finite.

    Catches a mean over the targets that count, 0/0 = NaN. Its gradient is 0, so the weights alone look fine: the detector
    reads the history as well. Batches of 1, so that each ignored example is a whole batch.
    """
    problem = ToyProblem()
    problem.data.y[5:9] = IGNORE
    try:
        recording = record_run(train, problem, plain_config(steps=EXAMPLES, batch_size=1, log_every=1))
    except FloatingPointError as error:
        raise AssertionError(f"the loop treats a batch without targets as not finite: {error}") from error
    _assert_finite(problem.model)
    empty = [step for step in recording.steps if problem.targets(step.x).eq(IGNORE).all()]
    moved = [norm for norm in (norm_of(step.gradients) for step in empty) if norm]
    assert not moved, f"{len(moved)} of {len(empty)} steps without a target have a gradient, of norm {moved[0]:.3g}"
    losses = [record["loss"] for record in recording.result.history]
    assert all(loss is None or math.isfinite(loss) for loss in losses), f"logged losses: {losses}"


# ---- clipping, scaling, precision ------------------------------------------------------------------------------------

CLIP = 0.05  # clips at every step: the gradients have norms of 0.3 to 1. At 1.0 a broken clip would look right


def clip_binds(train: Train) -> None:
    """The gradient that each step uses has the clipped norm, 0.05; with a limit above all norms it is unchanged.

    Catches clipping before backward, clipping after the step, and clipping an exhausted generator of parameters. The norm
    that clip_grad_norm_ returns looks right after the step, so the norm is measured when the optimizer steps. The second
    run catches a "clip" that gives every gradient the norm of the limit, and so scales the short ones up.
    """
    norms = [norm_of(step.gradients) for step in record_run(train, ToyProblem(), plain_config(clip=CLIP)).steps]
    wrong = [round(norm, 6) for norm in norms if not math.isclose(norm, CLIP, rel_tol=1e-4)]
    assert norms and not wrong, f"clipped to {CLIP}, but the optimizer got gradients of norm {wrong}"
    problem = ToyProblem()
    for step in record_run(train, problem, plain_config(clip=100.0)).steps:
        expected = problem.gradient(step.weights, step.x)
        assert _relative_error(step.gradients, expected) < 1e-4, (
            f"clipped to 100, a gradient of norm {norm_of(expected):.3g} becomes one of {norm_of(step.gradients):.3g}"
        )


def logged_norm_is_before_clipping(train: Train) -> None:
    """The history's grad_norm is the norm of the batch's gradient before clipping. After clipping it would be constant."""
    problem = ToyProblem()
    recording = record_run(train, problem, plain_config(clip=CLIP, log_every=1))
    logged = [record["grad_norm"] for record in recording.result.history]
    expected = [norm_of(problem.gradient(step.weights, step.x)) for step in recording.steps]
    assert np.allclose(logged, expected, rtol=1e-3), f"logged norms {logged}, the batches' {expected}"


def loss_scale_leaves_no_trace(train: Train) -> None:
    """With fp16 and its scaler an SGD update is as large as in fp32, to 3 %.

    Catches optimizer.step() in place of scaler.step(), or a missing unscale_: the update is 65,536 times too large. Adam
    would hide it: its update would be 1.0004 times as large.
    """
    ratio = _first_update(train, precision="fp16") / _first_update(train)
    assert 0.97 < ratio < 1.03, f"the fp16 update is {ratio:.4g} times the fp32 update"


def clip_sees_unscaled_gradients(train: Train) -> None:
    """With fp16 and clipping an SGD update is as large as in fp32 with clipping, to 3 %.

    Catches clipping before unscale_: gradients 65,536 times too large are cut down to the limit and then divided
    by the scale. The limit must be below the norms, and the optimizer must not be Adam.
    """
    ratio = _first_update(train, precision="fp16", clip=CLIP) / _first_update(train, clip=CLIP)
    assert 0.97 < ratio < 1.03, f"the clipped fp16 update is {ratio:.4g} times the clipped fp32 update"


def precision_takes_effect(train: Train) -> None:
    """bf16 and fp16 reach the layers, in training and in validation: a Linear's outputs have that dtype.

    Catches an autocast that is built and never entered, or exited before the forward pass: all runs work, in float32.
    """
    for precision, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        problem, seen = ToyProblem(), []
        problem.model[1].register_forward_hook(lambda module, inputs, outputs, seen=seen: seen.append(outputs.dtype))
        problem.run(train, plain_config(precision=precision), val=problem.val)
        assert set(seen) == {dtype}, (
            f"precision {precision!r}: a linear layer's outputs have {sorted(set(map(str, seen)))}"
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
    assert worst < 0.01, f"a layer's outputs differ by a relative {worst:.3g} from those that its weights now give"


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
            assert all(map(math.isfinite, weights)), f"{precision}, {optimizer}: the weights become {weights}"
            assert 0.99 < weights[0] < 1, (
                f"{precision}, {optimizer}: updates of 0.001 leave a weight of 1 at {weights[0]}"
            )


# ---- steps: optimizer, schedule, average -----------------------------------------------------------------------------


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
        assert len(rates) == 12 and np.allclose(rates, expected, rtol=0, atol=1e-9), (
            f"group {group} of the parameters: rates used {np.round(rates, 5)}, planned {np.round(expected, 5)}"
        )


def logged_rate_is_the_one_used(train: Train) -> None:
    """The history's lr at a step is the one that the optimizer used, not the next step's; the same holds for the epoch."""
    recording = record_run(train, ToyProblem(), plain_config(steps=9, warmup=3, schedule="cosine", log_every=1))
    logged, used = [record["lr"] for record in recording.result.history], [step.rates[0] for step in recording.steps]
    assert np.allclose(logged, used, rtol=0, atol=1e-9), f"logged {np.round(logged, 5)}, used {np.round(used, 5)}"
    epochs = [record["epoch"] for record in recording.result.history]
    assert epochs == [0, 0, 0, 1, 1, 1, 2, 2, 2], f"epochs {epochs} are logged for 9 steps, 3 per epoch"


def updates_follow_their_rule(train: Train) -> None:
    """SGD with momentum and AdamW move the weights as their formulas say, from the gradients that the optimizer was given.

    The formulas are computed here in float64 and agree to 1e-6. Weights decay; biases may or may not. Catches an optimizer
    other than the configured one, Adam(weight_decay=…) for AdamW, settings that do not reach it (SGD without its weight
    decay), and weights that something else changes.
    """
    _follow_the_rules(train)


def _follow_the_rules(train: Train, loss: Loss | None = None, **changes) -> None:
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
            raise AssertionError(f"{optimizer}: the run fails after a skipped step: {error}") from error
        steps = [step for step in recording.steps if step.finite]
        moved = min(
            torch.stack([(a - b).abs().max() for a, b in zip(problem.model.parameters(), expected, strict=True)]).max()
            for expected in (rule(config, steps, decayed) for decayed in ("matrices", "all"))
        )
        assert moved < 1e-6, f"{optimizer}: after {len(steps)} steps a weight is {moved:.3g} away from the formula's"


def _momentum_rule(config: Config, steps: list[Step], decayed: str) -> list[Tensor]:
    weights = [w.double() for w in steps[0].weights]
    velocity = [torch.zeros_like(w) for w in weights]
    decays = [config.weight_decay * (decayed == "all" or w.ndim >= 2) for w in weights]
    for step in steps:
        gradients = [g + d * w for g, d, w in zip(step.gradients, decays, weights, strict=True)]
        velocity = [config.momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        weights = [w - config.lr * v for w, v in zip(weights, velocity, strict=True)]
    return weights


def _adamw_rule(config: Config, steps: list[Step], decayed: str) -> list[Tensor]:
    weights = [w.double() for w in steps[0].weights]
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    lr, beta = config.lr, config.beta2
    for t, step in enumerate(steps, start=1):
        first = [0.9 * m + 0.1 * g for m, g in zip(first, step.gradients, strict=True)]
        second = [beta * v + (1 - beta) * g.double() ** 2 for v, g in zip(second, step.gradients, strict=True)]
        weights = [w * (1 - lr * config.weight_decay * (decayed == "all" or w.ndim >= 2)) for w in weights]
        roots = [(v / (1 - beta**t)).sqrt() + 1e-8 for v in second]
        weights = [w - lr * m / (1 - 0.9**t) / r for w, m, r in zip(weights, first, roots, strict=True)]
    return weights


def frozen_weights_stay(train: Train) -> None:
    """A layer that is frozen from the start keeps its bits; so does one frozen at step 3, from then on.

    Catches an optimizer that decays frozen weights, and zero_grad(set_to_none=False), after which momentum keeps moving a
    weight whose gradient is 0. A weight frozen from the start has no gradient and no momentum, so it proves little alone.
    """
    problem = ToyProblem()
    first, last = problem.model[1], problem.model[-1]
    last.bias.requires_grad_(False)
    frozen, calls = {"last.bias": last.bias.detach().clone()}, []

    def freeze(module, _):
        calls.append(None)
        if torch.is_grad_enabled() and "first.weight" not in frozen and len(calls) > 3:
            frozen["first.weight"] = first.weight.detach().clone()
            first.weight.requires_grad_(False)

    problem.model.register_forward_pre_hook(freeze)
    problem.run(train, plain_config(steps=9, momentum=0.9, weight_decay=0.1))
    moved = {
        name: (w - {"last.bias": last.bias, "first.weight": first.weight}[name]).abs().max().item()
        for name, w in frozen.items()
    }
    assert len(frozen) == 2 and not any(moved.values()), f"frozen weights moved by at most: {moved}"


def average_is_validated(train: Train) -> None:
    """With ema the reported validation loss is that of the running average, and the average is right.

    The detector computes the average from the weights before each step, with the model's BatchNorm statistics. Catches
    validation of the raw weights, and an average that is updated before the step, or with decay and 1 - decay exchanged,
    or that keeps its initial BatchNorm statistics. A large learning rate keeps the two losses apart.
    """
    problem = ToyProblem(norm=True)
    average = [p.double() for p in clones(problem.model.parameters())]
    recording = record_run(train, problem, plain_config(lr=1.0, ema=0.8), val=problem.val)
    for weights in [*(step.weights for step in recording.steps[1:]), clones(problem.model.parameters())]:
        average = [0.8 * a + 0.2 * w.double() for a, w in zip(average, weights, strict=True)]
    expected, raw = (
        problem.mean_loss(w, problem.val.x, problem.val.y, like=problem.model)
        for w in (average, list(problem.model.parameters()))
    )
    reported = _validations(recording.result)[-1]["val_loss"]
    assert math.isclose(reported, expected, rel_tol=1e-4), (
        f"validation reports {reported:.6f}; the average's loss is {expected:.6f}, the raw weights' {raw:.6f}"
    )


# ---- modes and validation --------------------------------------------------------------------------------------------


def trains_in_train_mode(train: Train) -> None:
    """Every module is in train mode at each training step, also after a validation, and when the loop returns.

    Catches a missing model.train() after validation: dropout is off and BatchNorm stops counting. The losses mislead
    (without dropout they are lower), so the detector reads the modes and BatchNorm's own count. Validates at every step.
    A model that the last validation leaves in eval mode is trained in eval mode by whoever goes on with it.
    """
    problem = ToyProblem(norm=True, dropout=0.5)
    steps = record_run(train, problem, plain_config(**options(train, val_every=1)), val=problem.val).steps
    evaluating = [i + 1 for i, step in enumerate(steps) if not step.in_train_mode]
    tracked = int(problem.model[2].num_batches_tracked)
    assert not evaluating, f"steps {evaluating} ran in eval mode (BatchNorm counted {tracked} of {len(steps)} batches)"
    left = [name or "the model" for name, module in problem.model.named_modules() if not module.training]
    assert not left, f"the loop returns with {len(left)} modules in eval mode, such as {left[0]}"


def validates_in_eval_mode(train: Train) -> None:
    """Validation uses neither dropout nor the batch's statistics, and does not change BatchNorm's.

    Catches a missing model.eval(). Two assertions: the reported loss is that of the final weights in eval mode, and
    BatchNorm has counted the training batches only. With BatchNorm alone, two validations agree; without it, there is no
    count.
    """
    problem = ToyProblem(norm=True, dropout=0.5)
    recording = record_run(train, problem, plain_config(**options(train, val_every=2)), val=problem.val)
    tracked, steps = int(problem.model[2].num_batches_tracked), len(recording.steps)
    expected = problem.mean_loss(list(problem.model.parameters()), problem.val.x, problem.val.y, like=problem.model)
    reported = _validations(recording.result)[-1]["val_loss"]
    assert tracked == steps, f"BatchNorm counted {tracked} batches in {steps} steps: validation changed it"
    assert math.isclose(reported, expected, rel_tol=1e-5), f"reported {reported:.6f}, in eval mode it is {expected:.6f}"


def validation_keeps_no_graph(train: Train) -> None:
    """Validation records nothing for a backward pass: its outputs have no graph.

    Catches a missing no_grad: the graph of one batch lives at least until the next (a higher peak), and if the loop sums
    losses as tensors, the graphs of all batches do. The loss has the same value, bit for bit.
    """
    problem = ToyProblem()
    config = plain_config(**options(train, val_every=2))
    graphs = record_run(train, problem, config, val=problem.val).validation_graphs
    if not graphs:
        raise NotJudged("no validation data went through the model")
    assert not any(graphs), f"{sum(graphs)} of {len(graphs)} validation batches recorded a graph"


def validation_keeps_order(train: Train) -> None:
    """Validation sees each example once and in order, so that predictions can be matched to ids by position.

    A loop may run a few examples before it starts: only the last validation counts.
    """
    problem = ToyProblem()
    ids = record_run(train, problem, plain_config(), val=problem.val).validation_ids[-len(problem.val) :]
    if not ids:
        raise NotJudged("no validation data went through the model")
    every_example_once([torch.tensor(sorted(ids))], len(problem.val))
    order_is_kept([torch.tensor(ids)])


def reported_losses_count_targets(train: Train) -> None:
    """Reported losses and accuracies are sums over all targets since the last record, divided once by their number.

    Catches a mean of batch means, a mean over examples instead of targets, padding that counts, and sums that are never
    divided or never cleared. Short last batches and texts of 1 to 7 targets, because equal batches would hide it. The
    learning rate is so small that the weights do not change: the logged loss of two steps is that of their examples.
    """
    problem = ToyProblem(tokens=True)
    weights = clones(problem.model.parameters())
    config = plain_config(lr=1e-30, log_every=2, val_every=EPOCH, val_batch_size=BATCH, accumulation=3)
    recording = record_run(train, problem, config, val=problem.val)
    for record in (record for record in recording.result.history if "val_loss" not in record):
        x = torch.cat([step.x for step in recording.steps[record["step"] - 2 : record["step"]]])
        _assert_close("loss", record["loss"], problem.mean_loss(weights, x, problem.targets(x)))
    for record in _validations(recording.result):
        _assert_close("val_loss", record["val_loss"], problem.mean_loss(weights, problem.val.x, problem.val.y))
        _assert_close("val_accuracy", record["val_accuracy"], problem.accuracy(weights, problem.val.x, problem.val.y))


def rates_are_of_training_time(train: Train) -> None:
    """targets_per_second divides by training time alone, `seconds` is all time, and MFU counts 272 FLOPs per example.

    The model sleeps: 5 ms in a training forward pass, 20 ms in validation. Time can only be bounded: from below by the
    sleep, from above by the clock. FLOPs by hand: 2 · (4 · 8 + 8 · 3) forward, as many for the weights' gradients, and
    2 · 8 · 3 for the gradient of the second layer's inputs (the first layer's need none). Catches a rate that includes
    validation time, a clock that is never reset, and a batch's FLOPs taken for an example's.
    """
    problem = ToyProblem()
    problem.model.register_forward_pre_hook(lambda *_: time.sleep(0.005 if torch.is_grad_enabled() else 0.02))
    began = time.perf_counter()
    result = problem.run(train, plain_config(log_every=2, val_every=2), val=problem.val, peak_flops=1e6)
    wall = time.perf_counter() - began
    records = [record[MEASURED] for record in result.history if "val_loss" not in record]
    in_training = sum(n / record["targets_per_second"] for n, record in zip((16, 14, 14), records, strict=True))
    seconds = records[-1]["seconds"]
    assert 6 * 0.005 <= in_training <= seconds - 2 * 0.02, (
        f"the rates imply {in_training:.4f} s of training in {seconds:.4f} s"
    )
    assert seconds <= wall, f"{seconds:.4f} s are reported, but the clock says {wall:.4f} s"
    flops = [record["mfu"] * 1e6 / record["targets_per_second"] for record in records]
    assert np.allclose(flops, 272), f"MFU counts {flops} FLOPs per example, by hand they are 272"


def log_holds_no_graph(train: Train) -> None:
    """The history holds plain numbers: a tensor in it would keep its graph alive, some 2 KB per step."""
    problem = ToyProblem()
    result = problem.run(train, plain_config(log_every=1, val_every=1), val=problem.val)
    tensors = [key for record in result.history for key, value in _flat(record) if isinstance(value, Tensor)]
    assert result.history and not tensors, f"{len(tensors)} tensors in the history, under {sorted(set(tensors))}"


# ---- the order of the data -------------------------------------------------------------------------------------------


def epochs_are_complete(train: Train) -> None:
    """Each epoch sees every example once; 22 examples in batches of 7 are 7, 7, 7 and 1.

    Catches next(iter(loader)) at every step, a lost tail, be it of one example, and an example that is drawn twice.
    """
    recording = record_run(train, ToyProblem(), plain_config(steps=12, batch_size=7))
    for ids in _epochs(recording):
        every_example_once([ids], EXAMPLES)


def epochs_have_orders_of_their_own(train: Train) -> None:
    """Three epochs have three orders. Catches a shuffle with the same seed in every epoch, as without set_epoch.

    One epoch proves nothing.
    """
    orders = [tuple(ids.tolist()) for ids in _epochs(record_run(train, ToyProblem(), plain_config(steps=3 * EPOCH)))]
    assert len(orders) == 3 and len(set(orders)) == 3, f"{len(set(orders))} different orders in {len(orders)} epochs"


def sorted_data_is_shuffled(train: Train) -> None:
    """Data sorted by class arrive in batches that mix classes. Data already shuffled would hide a missing shuffle."""
    problem = ToyProblem()
    problem.data.y.copy_(problem.data.y.sort().values)
    steps = record_run(train, problem, plain_config(steps=EPOCH)).steps
    batches_mix_classes([(step.x, problem.targets(step.x)) for step in steps])


def examples_draw_anew(train: Train) -> None:
    """Random numbers that examples draw from torch, NumPy and Python differ between examples, epochs and workers.

    Catches worker processes that start from the same seed, and a constant seed per epoch. Two workers and two epochs,
    since fewer hide it. A test for "the same numbers on every run" would pass: the buggy loader repeats itself.
    """
    problem = ToyProblem(draws=True)
    recording = record_run(train, problem, plain_config(steps=2 * EPOCH, workers=2))
    for i, source in enumerate(("torch", "NumPy", "Python")):
        drawn = torch.cat([step.x[:, 1 + i] for step in recording.steps]).tolist()
        assert len(set(drawn)) == len(drawn), f"{source}: {len(drawn)} draws in 2 epochs, {len(set(drawn))} different"


def says_no_to_zero_steps(train: Train) -> None:
    """Fewer examples than a batch, with drop_last, is an error: an epoch would have no steps."""
    problem = ToyProblem()
    before = clones(problem.model.parameters())
    try:
        problem.run(train, plain_config(batch_size=EXAMPLES + 1, drop_last=True))
    except ValueError:
        return
    moved = any(not torch.equal(a, b) for a, b in zip(before, problem.model.parameters(), strict=True))
    raise AssertionError(f"{EXAMPLES} examples, batches of {EXAMPLES + 1}, drop_last: no error, weights moved: {moved}")


# ---- the same run ----------------------------------------------------------------------------------------------------


def dropout_draws_anew(train: Train) -> None:
    """Each step drops other units. Catches a seed that is set before every step, which gives all of them one mask."""
    problem, masks = ToyProblem(dropout=0.5), []

    def remember(dropout, inputs, outputs):
        if torch.is_grad_enabled():
            masks.append(outputs.detach().eq(0))

    problem.model[-2].register_forward_hook(remember)
    problem.run(train, plain_config())
    repeated = sum(torch.equal(one, other) for one, other in combinations(masks, 2))
    assert masks and not repeated, f"of {len(masks)} steps' dropout masks, {repeated} pairs are the same"


def same_run(train: Train) -> None:
    """The same seed gives the same weights and history, bit for bit, whatever the caller drew before.

    The problem has dropout, examples that draw random numbers, and a model that adds noise from NumPy's and Python's
    streams too. Another seed must give the examples another order: otherwise a loop that ignores its seed would pass, or
    one that seeds dropout and not the order.
    """
    needs(train, "seed")
    runs, first = [], plain_config().seed
    for stream, seed in ((1, first), (2, first), (1, first + 1)):
        problem = ToyProblem(dropout=0.5, draws=True, noise=True)
        with own_random_streams(stream):
            config = plain_config(seed=seed, log_every=1)
            recording = record_run(train, problem, config, **options(train, val=problem.val))
        runs.append((clones(problem.model.parameters()), _stable(recording.result), torch.cat(_epochs(recording))))
    one, again, other = runs
    _assert_same_bits(one[0], again[0], "two runs of one config")
    assert one[1] == again[1], f"two runs of one config: {_first_difference(one[1], again[1])}"
    assert not torch.equal(one[2], other[2]), "two seeds give the examples the same order"


def kernels_are_deterministic(train: Train) -> None:
    """During training torch runs deterministic kernels only; afterwards the caller's setting is restored.

    The detector reads the setting, not its effect: on a CPU nearly all kernels are deterministic anyway.
    """
    assert not torch.are_deterministic_algorithms_enabled(), "switch deterministic algorithms off before this check"
    for wanted in (False, True):
        problem, seen = ToyProblem(), []
        problem.model.register_forward_hook(
            lambda *_, seen=seen: seen.append(torch.are_deterministic_algorithms_enabled())
        )
        problem.run(train, plain_config(deterministic=wanted))
        assert seen and set(seen) == {wanted}, f"deterministic={wanted}: in the forward passes it is {set(seen)}"
        still_on = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        assert not still_on, "the loop leaves deterministic algorithms switched on"


def watching_changes_nothing(train: Train) -> None:
    """Logging, validation, checkpoints and FLOP counts at every step change neither weights nor buffers, bit for bit.

    The problem has dropout, BatchNorm, and examples that draw random numbers, in the validation data too: validation must
    move neither the random streams of training nor BatchNorm's statistics. One example is not finite, and its steps are
    skipped: the step at which the loop notices this and rewinds its schedule must not depend on how often it logs. FLOPs
    (for MFU) are counted on a real forward and backward pass, which must leave no gradients and no statistics behind.
    Without these difficulties most loops would pass.
    """
    states = []
    for watched in (False, True):
        problem = ToyProblem(dropout=0.5, norm=True, draws=True, noise=True)
        problem.data.x[3, 0] = math.nan
        with tempfile.TemporaryDirectory() as folder:
            every = {"log_every": 1, "val_every": 1, "save_every": 1} if watched else {}
            options = {"val": problem.val, "run": folder, "peak_flops": 1e12} if watched else {}
            problem.run(train, plain_config(schedule="cosine", nonfinite="skip", **every), **options)
        states.append(clones(problem.model.state_dict().values()))
    _assert_same_bits(*states, "with and without logging, validation and checkpoints")


def workers_change_nothing(train: Train) -> None:
    """0 workers, 2, or 2 new ones in each epoch give the same weights, bit for bit, with random examples and dropout."""
    weights = []
    for workers, persistent in ((0, True), (2, True), (2, False)):
        problem = ToyProblem(dropout=0.5, draws=True)
        problem.run(train, plain_config(workers=workers, persistent_workers=persistent))
        weights.append(clones(problem.model.parameters()))
    _assert_same_bits(weights[0], weights[1], "0 and 2 workers")
    _assert_same_bits(weights[0], weights[2], "0 workers and 2 new ones in each epoch")


# For each state that a resumed run may have lost: settings of a run whose result depends on this state and no other.
RESUMED = {
    "position in the data": {},
    "order of the next epoch": {},  # saved at the end of an epoch
    "optimizer": {"optimizer": "adamw"},
    "schedule": {"schedule": "cosine"},
    "random streams": {},  # with a model that draws random numbers
    "BatchNorm statistics": {},  # with a model that has some
    "average": {"ema": 0.8},
    "early stopping": {"lr": 1.0, "val_every": 1, "patience": 6},
    "loss scale": {"precision": "fp16"},  # with a loss so large that the scale must fall
    "skipped steps": {"nonfinite": "skip", "schedule": "cosine"},  # with an example that is not finite
}
INTERRUPTED = EPOCH + 1  # a step in the middle of an epoch, and between two log records
KILLED = 2 * EPOCH + 1  # the step in which a run ends: after a log record that no checkpoint holds


def resumes_exactly(train: Train, what: str = "") -> None:
    """A run that is killed and started again ends with the bits and the history of an uninterrupted run.

    what: a key of RESUMED; all of them by default. Each is a run whose result depends on one part of the state, so that
    AdamW would resume without its state, and noise without the random streams. A loop that starts afresh would end with
    the same bits too, so the steps after resuming are counted. The model itself ends the run, in a forward pass, so any
    format of checkpoints will do; the history is compared if the loop keeps it in log.jsonl.
    """
    needs(train, "run")
    for name in [what] if what else RESUMED:
        uninterrupted, killed, resumed = (ToyProblem.for_resuming(name) for _ in range(3))
        save_every = EPOCH if name == "order of the next epoch" else INTERRUPTED
        every = options(train, save_every=save_every)
        config = plain_config(steps=3 * EPOCH + 1, log_every=EPOCH, **every, **RESUMED[name])
        val = options(train, val=uninterrupted.val)
        with tempfile.TemporaryDirectory() as folder:
            whole = record_run(train, uninterrupted, config, **val, run=f"{folder}/whole")
            run_until_killed(train, killed, config, KILLED, **val, run=f"{folder}/killed")
            saved = any(path.is_file() for path in Path(folder, "killed").rglob("*"))
            recording = record_run(train, resumed, config, **val, run=f"{folder}/killed")
            log = Path(folder, "killed", "log.jsonl")
            lines = log.read_text().count("\n") if log.exists() else None
        made, again = whole.passes, recording.passes
        if not saved:
            raise NotJudged(f"the loop, killed in step {KILLED}, had saved nothing")
        assert again < made, f"{name}: the run makes all its {made} steps again: it was not resumed"
        lost = f"the resumed run has lost its {name}"
        _assert_same_bits(*(clones(p.model.state_dict().values()) for p in (uninterrupted, resumed)), lost)
        if "ema" in RESUMED[name]:
            _assert_same_bits(*(clones(r.result.ema.parameters()) for r in (whole, recording)), lost)
        if lines is not None:
            one, other = _stable(whole.result), _stable(recording.result)
            assert repr(one) == repr(other), f"{lost}: {_first_difference(one, other)}"
            assert lines == len(one), f"{lost}: {lines} lines in the log of {len(one)} records"


def damaged_checkpoint_is_refused(train: Train) -> None:
    """With one flipped bit in the newest checkpoint the loop names the file, skips it, and ends with the same bits.

    The bit is the sign of a saved weight: the file opens and looks sound. A truncated file would fail by itself.
    """
    uninterrupted, resumed = ToyProblem(), ToyProblem()
    config = plain_config(steps=2 * EPOCH, save_every=INTERRUPTED)
    with tempfile.TemporaryDirectory() as folder:
        uninterrupted.run(train, config, run=folder)
        found = checkpoint.find(Path(folder) / "checkpoints")
        if not found:
            raise NotJudged("the loop keeps its checkpoints in a format of its own")
        newest = found[-1]
        content = bytearray(newest.read_bytes())
        weight = uninterrupted.model[1].weight.detach().numpy().tobytes()
        content[content.find(weight) + 3] ^= 0x80
        newest.write_bytes(content)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            resumed.run(train, config, run=folder)
    _assert_same_bits(
        clones(uninterrupted.model.parameters()), clones(resumed.model.parameters()), "after a damaged checkpoint"
    )
    assert newest.name in printed.getvalue(), f"{newest.name} is damaged, and the loop says only {printed.getvalue()!r}"


# ---- best weights, early stopping ------------------------------------------------------------------------------------


def best_weights_are_those_validated(train: Train) -> None:
    """best_weights are the weights at the time of the best validation, which is the one with the lowest loss.

    The validation losses are prescribed: 3, 1, 2, 4, 5, 6. Catches `best = model.state_dict()`, whose tensors are the live
    ones and change with the next step; a comparison the wrong way round; the newest weights taken for the best. The run's
    folder must hold the same weights.
    """
    problem = ToyProblem()
    recording = record_run(train, problem, plain_config(val_every=1), val=problem.val, loss=_scripted(3, 1, 2, 4, 5, 6))
    assert recording.result.best == {"step": 2, "val_loss": 1.0}, (
        f"validation losses 3, 1, 2, 4, 5, 6: best {recording.result.best}"
    )
    is_a_copy(recording.result.best_weights, problem.model)
    saved = [recording.result.best_weights[name] for name, _ in problem.model.named_parameters()]
    _assert_same_bits(recording.steps[2].weights, saved, "the weights after step 2, which were best, and best_weights")
    with tempfile.TemporaryDirectory() as folder:
        again = ToyProblem()
        again.run(train, plain_config(val_every=1), val=again.val, run=folder, loss=_scripted(3, 1, 2, 4, 5, 6))
        saved_best = checkpoint.find(Path(folder) / "checkpoints", "best")
        assert len(saved_best) == 1, f"one best checkpoint is expected in the run's folder, there are {len(saved_best)}"
        saved = [best_weights(folder)[name] for name, _ in problem.model.named_parameters()]
    _assert_same_bits(
        recording.steps[2].weights, saved, "the weights after step 2, which were best, and those in the folder"
    )


def stopping_follows_the_loss(train: Train) -> None:
    """patience=2 stops after two validations in a row that are no better than the best so far, and not before.

    The validation losses are prescribed. Catches a comparison the wrong way round (a rule for accuracies applied to
    losses), a comparison with the last value instead of the best, a count that a better loss does not reset, and a count
    that is off by one. With falling losses alone a loop that never stops would pass; with rising losses alone, one that
    always stops.
    """
    for losses, expected in [
        ((6, 5, 4, 3, 2, 1), 6),
        ((1, 2, 3, 4, 5, 6), 3),
        ((3, 4, 2, 3, 2, 1), 5),
        ((1, 4, 3, 2, 1, 0), 3),
    ]:
        problem = ToyProblem()
        stopped = problem.run(
            train, plain_config(val_every=1, patience=2), val=problem.val, loss=_scripted(*losses)
        ).steps
        assert stopped == expected, f"validation losses {losses}, patience 2: stopped after {stopped}, not {expected}"


def overfits_one_batch(
    train: Train,
    model: nn.Module | None = None,
    data: Dataset | None = None,
    *,
    config: Config | None = None,
    loss: Loss | None = None,
    below: float = 0.05,
) -> None:
    """300 steps on one small batch bring its loss below 0.05: model, loss and loop can learn at all.

    model, data, config, loss: yours, or by default a perceptron, 8 examples and the loop's default loss. Catches most bugs
    that prevent learning (with a softmax before cross_entropy the loss stays above 0.5). Blind to everything that needs
    more than one batch, and to wrong labels: the model memorises those as well.
    """
    if model is None:
        problem = ToyProblem()
        model, data = problem.model, TensorData(problem.data.x[:BATCH], problem.data.y[:BATCH])
    config = config or plain_config(steps=300, batch_size=len(data), optimizer="adamw", lr=0.05, log_every=1)
    result = Returned(train(model, data, config=config, **({"loss": loss} if loss else {})))
    last = result.history[-1]["loss"]
    assert last < below, f"after {config.steps} steps on one batch its loss is {last:.4f}, not below {below:g}"


# ---- values that are not finite --------------------------------------------------------------------------------------


def nonfinite_never_reaches_the_weights(train: Train, log_every: int = 1) -> None:
    """A gradient that is not finite raises FloatingPointError, and the weights are those of the step before it.

    Catches an update that is applied: a single NaN makes every weight NaN. log_every: a loop that reads the device only at
    log steps must block the steps in between too. On a CPU, which the loop reads at every step, that cannot be seen.
    """
    needs(train, "nonfinite")
    good, bad = ToyProblem(), ToyProblem()
    good.run(train, plain_config(steps=2))
    try:
        bad.run(train, plain_config(steps=2 * EPOCH, log_every=log_every), loss=_nan_at(3))
    except FloatingPointError:
        _assert_same_bits(*(clones(b.model.parameters()) for b in (good, bad)), "before and after a NaN")
        return
    _assert_finite(bad.model)
    raise AssertionError("the loss of step 3 was NaN, but nothing was raised")


def skipped_step_leaves_no_trace(train: Train) -> None:
    """With nonfinite="skip" a first step that is bad changes neither weights nor the optimizer's state.

    The steps after it must move the weights as if it had never been. Catches momentum that has seen a NaN, and one bad
    step that blocks those after it.
    """
    _follow_the_rules(train, loss=_nan_at(1), nonfinite="skip")


def skipped_step_counts_nowhere(train: Train) -> None:
    """With nonfinite="skip" a bad step moves neither BatchNorm, nor average, logged loss or schedule.

    Step 3 of 3 is bad; everything is compared with a run of the 2 steps before it. Catches an average that is updated
    although the step was blocked, BatchNorm statistics of the bad batch, a NaN in the logged mean (multiplying it by 0
    does not remove it), and, from the rates of a longer run, a schedule that advances.
    """
    good, bad = ToyProblem(norm=True), ToyProblem(norm=True)
    one = good.run(train, plain_config(steps=2, ema=0.5, log_every=10))
    other = bad.run(train, plain_config(steps=3, ema=0.5, log_every=10, nonfinite="skip"), loss=_nan_at(3))
    _assert_same_bits(*(clones(b.model.state_dict().values()) for b in (good, bad)), "without and with a skipped step")
    _assert_same_bits(*(clones(r.ema.parameters()) for r in (one, other)), "averages without and with a skipped step")
    losses = [result.history[-1]["loss"] for result in (one, other)]
    assert losses[0] == losses[1], f"logged losses without and with a skipped step: {losses}"
    config = plain_config(steps=6, schedule="cosine", nonfinite="skip", log_every=1)
    steps = record_run(train, ToyProblem(), config, loss=_nan_at(3)).steps
    rates = [step.rates[0] for step in steps if step.finite]
    assert math.isclose(rates[2], 0.075), f"step 3 is skipped, so step 4 must use its rate, 0.075: {rates}"


def endless_skips_end_the_run(train: Train) -> None:
    """With max_skips=3, three bad steps in a row raise FloatingPointError; two, then a good one, do not.

    An interruption must not reset the count: a run whose every step is bad, with max_skips=6, resumed after 4 steps,
    makes 2 more.
    """
    few, many = ToyProblem(), ToyProblem()
    config = plain_config(steps=8, nonfinite="skip", max_skips=3, log_every=1)
    try:
        skipped = few.run(train, config, loss=_nan_at(2, 3, 5, 6)).skipped
    except FloatingPointError as error:
        raise AssertionError(f"never more than 2 bad steps in a row, but max_skips=3 ends the run: {error}") from error
    assert skipped == 4, f"4 steps were bad, {skipped} are reported as skipped"
    try:
        many.run(train, config, loss=_nan_at(2, 3, 4, 5, 6))
    except FloatingPointError:
        pass
    else:
        raise AssertionError("5 bad steps in a row, but max_skips=3 raised nothing")
    config = plain_config(steps=10, nonfinite="skip", max_skips=6, save_every=4)
    with tempfile.TemporaryDirectory() as folder:
        calls = [_steps_until_it_raises(train, config, folder) for _ in range(2)]
    assert calls == [6, 2], f"6 skips end the run: {calls[0]} steps until then, {calls[1]} more when resumed after 4"


# ---- helpers ---------------------------------------------------------------------------------------------------------


def _relative_error(got: list[Tensor | None], expected: list[Tensor]) -> float:
    wrong = [torch.zeros_like(e) if g is None else g for g, e in zip(got, expected, strict=True)]
    return norm_of([g - e for g, e in zip(wrong, expected, strict=True)]) / norm_of(expected)


def _first_update(train: Train, **changes) -> float:
    """How far an SGD step moves the weights: the first of 3 steps that moves them, since a scaler may skip some."""
    problem = ToyProblem()
    recording = record_run(train, problem, plain_config(steps=3, batch_size=EXAMPLES, lr=1e-3, **changes))
    weights = [*(step.weights for step in recording.steps), clones(problem.model.parameters())]
    moves = [norm_of([a - b for a, b in zip(*pair, strict=True)]) for pair in pairwise(weights)]
    return next((move for move in moves if move > 0), 0.0)


def _epochs(recording: Recording) -> list[Tensor]:
    """The ids of each epoch, in the order of training."""
    ids = torch.cat([(step.x[:, 0].double() * 64).round().long() for step in recording.steps])
    return list(ids.split(EXAMPLES))


def _validations(result) -> list[dict]:
    return [record for record in result.history if "val_loss" in record]


def _stable(result: Returned) -> list[dict] | None:
    """The history without measured times and rates, which differ from run to run. None if the loop returns none."""
    history = getattr(result.value, "history", None)
    return history and [{key: value for key, value in record.items() if key != MEASURED} for record in history]


def _first_difference(one: list[dict], other: list[dict]) -> str:
    pairs = zip([*one, None], [*other, None], strict=False)
    return "{} against {}".format(*next((a, b) for a, b in pairs if repr(a) != repr(b)))  # repr, because NaN != NaN


def _flat(record: dict, prefix: str = ""):
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _steps_until_it_raises(train: Train, config: Config, folder: str) -> int:
    """How many training steps, all of them bad, a run makes before it raises FloatingPointError."""
    problem, calls = ToyProblem(), []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        calls.extend([None] * outputs.requires_grad)
        return outputs.sum() * math.nan

    with contextlib.suppress(FloatingPointError):
        problem.run(train, config, run=folder, loss=loss)
    return len(calls)


def _nan_at(*steps: int):
    """Cross-entropy, but NaN at these training steps (from 1, without accumulation)."""
    calls = []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        total = cross_entropy_sum(outputs, targets)
        if not total.requires_grad:
            return total
        calls.append(None)
        return total * math.nan if len(calls) in steps else total

    return loss


def _scripted(*values: float):
    """Cross-entropy while training; in validation (all examples in one batch) the next of `values`, as the mean."""
    remaining = iter(values)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad or len(targets) < EXAMPLES:
            return cross_entropy_sum(outputs, targets)
        return torch.tensor(next(remaining) * float(EXAMPLES))

    return loss


def _assert_close(name: str, reported: float, expected: float) -> None:
    assert math.isclose(reported, expected, rel_tol=1e-5), (
        f"{name} is {reported:.6f}, but over all its targets it is {expected:.6f}"
    )


def _assert_finite(model: nn.Module) -> None:
    bad = [name for name, t in model.state_dict().items() if not t.isfinite().all()]
    assert not bad, f"not finite: {', '.join(bad)}"


def _assert_same_bits(one: list[Tensor], other: list[Tensor], what: str) -> None:
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(a, b), f"{what}: tensor {i} differs by {(a.double() - b.double()).abs().max().item():.3g}"
