"""Detectors of silent bugs in a training loop: each runs a loop on a problem small enough to be checked by hand.

A detector takes `train`, any function with the signature of utils.loop.train, and raises AssertionError with the values
it saw. It looks from outside: a Witness notes what the model and the optimizer were given. Detectors that read the
history, the average or the best weights need a loop that returns a Result like utils.loop.train; the others are content
with any loop that trains the model in place, also ten lines written by hand that take **_ for what they do not know.

The test bed is the same wherever possible: 22 examples in batches of 8, so that the last batch is short and an epoch has
more than one step; more than one epoch, because the first step of a run hides a missing zero_grad; plain SGD, because
Adam divides every constant factor out of the gradient and so hides wrong scales.
"""

import contextlib
import copy
import io
import math
import random
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.checks.parts import Loss, batches_mix_classes, every_example_once, is_a_copy, order_is_kept
from utils.checks.toy_problem import BATCH, EPOCH, EXAMPLES, Bed, Train, Witness, clones, norm_of, plain_config, witness
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

    Compares what the optimizer is given with a gradient computed apart. Catches a forgotten zero_grad (a relative
    error of 0 at the first step, of about 1 from the second on), a sum where a mean was meant, weights changed between
    forward and step, a graph used after a step. Plain SGD; Adam would not mind a factor. Batches of 7, the last of each
    epoch a single example.
    """
    bed = Bed()
    for i, step in enumerate(witness(train, bed, plain_config(steps=8, batch_size=7)).steps):
        error = _relative_error(step.gradients, bed.gradient(step.weights, step.x))
        assert error < 1e-4, f"step {i + 1}: the gradient is off that of its batch by a relative {error:.3g}"


def steps_have_gradients(train: Train) -> None:
    """At every step each parameter has a gradient, not all zero, and the step moves it.

    Catches zero_grad between backward and step: the model never trains. That weights move proves little: with AdamW and
    zeros instead of None they move by weight decay alone; so plain SGD without decay.
    """
    bed = Bed()
    before = clones(bed.model.parameters())
    steps = witness(train, bed, plain_config()).steps
    empty = [sum(g is None or not g.any() for g in step.gradients) for step in steps]
    assert steps and not any(empty), f"parameters without a gradient, by step: {empty}"
    still = sum(torch.equal(a, b) for a, b in zip(before, bed.model.parameters(), strict=True))
    assert still == 0, f"{still} of {len(before)} parameters never moved"


def accumulation_equals_big_batch(train: Train) -> None:
    """The gradient of a batch in 4 micro-batches is that of the whole batch, to 1e-12 in float64.

    Batches of 10 and 2 in 4 parts: 3, 3, 2, 2 and 1, 1. Catches the mean of the parts' means, and a missing division by the
    number of parts (a factor of 4 that Adam would hide). With parts of one size the mean of means is right.
    """
    bed = Bed(dtype=torch.float64)
    for step in witness(train, bed, plain_config(batch_size=10, accumulation=4)).steps:
        error = _relative_error(step.gradients, bed.gradient(step.weights, step.x))
        assert error < 1e-12, f"{len(step.x)} examples in micro-batches of {step.sizes}: relative error {error:.3g}"


def accumulation_counts_tokens(train: Train) -> None:
    """The same where targets are masked: each target that counts weighs the same, whichever micro-batch it is in.

    Texts of 1 to 7 targets. Catches micro-batches weighted by their number of examples, or all alike; equal lengths would
    hide both.
    """
    bed = Bed(tokens=True, dtype=torch.float64)
    for step in witness(train, bed, plain_config(accumulation=4)).steps:
        error = _relative_error(step.gradients, bed.gradient(step.weights, step.x))
        kept = [int(bed.targets(x).ne(IGNORE).sum()) for x in step.x.split(step.sizes)]
        assert error < 1e-12, f"micro-batches of {kept} targets: relative error {error:.3g}"


def no_micro_batch_is_left_over(train: Train) -> None:
    """Every example that went forward is in exactly one step, also at the end of an epoch and of the run.

    22 examples in batches of 8, 8, 6, each in micro-batches of 2 (6 in 4 parts: 2, 2, 1, 1). Catches a loop without a last
    step for the rest, `if (i + 1) % accumulation == 0: step()`, whose gradients leak into the next epoch, and a rest that is
    thrown away. With a whole number of batches both are invisible.
    """
    seen = witness(train, Bed(), plain_config(accumulation=4))
    sizes = [len(step.x) for step in seen.steps]
    assert sizes == [8, 8, 6] * 2, f"22 examples in batches of 8, two epochs: the steps use {sizes} examples"
    assert not seen.forwards, f"{len(seen.forwards)} micro-batches went forward after the last step"


def memory_shortage_changes_nothing(train: Train) -> None:
    """A loop that runs out of memory at its first step ends with the bits of one that began with smaller micro-batches.

    The model raises torch.OutOfMemoryError for more than 4 examples, behind its BatchNorm and its dropout: both have seen
    the failed attempt, and must not have. Micro-batches change BatchNorm's statistics, so the other has accumulation=2.
    Any other RuntimeError must come through at the first attempt.
    """

    def too_much(module, inputs):
        if torch.is_grad_enabled() and len(inputs[0]) > BATCH // 2:
            raise torch.OutOfMemoryError("pretended")

    short, ample = Bed(norm=True, dropout=0.5), Bed(norm=True, dropout=0.5)
    short.model[-1].register_forward_pre_hook(too_much)
    with contextlib.redirect_stdout(io.StringIO()):
        short.run(train, plain_config())
    ample.run(train, plain_config(accumulation=2))
    _assert_same_bits(*(clones(bed.model.state_dict().values()) for bed in (short, ample)), "short and ample memory")
    broken, attempts = Bed(), []

    def broken_loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad:
            attempts.append(len(targets))
            raise RuntimeError("broken")
        return cross_entropy_sum(outputs, targets)

    with contextlib.suppress(RuntimeError), contextlib.redirect_stdout(io.StringIO()):
        broken.run(train, plain_config(), loss=broken_loss)
    assert attempts == [BATCH], f"an error that is not of memory: attempts with {attempts} examples"


def all_ignored_batch_is_harmless(train: Train) -> None:
    """A batch without a single target to learn from moves nothing and leaves every reported number finite.

    Catches the mean over kept targets, 0/0 = NaN. Its gradient is 0, so that the weights alone look fine: the history is
    looked at as well. Batches of 1, so that each ignored example is a whole batch.
    """
    bed = Bed()
    bed.data.y[5:9] = IGNORE
    try:
        result = bed.run(train, plain_config(steps=EXAMPLES, batch_size=1, log_every=1))
    except FloatingPointError as error:
        raise AssertionError(f"a batch without targets is taken for one that is not finite: {error}") from error
    _assert_finite(bed.model)
    losses = [record["loss"] for record in result.history]
    assert all(loss is None or math.isfinite(loss) for loss in losses), f"logged losses: {losses}"


# ---- clipping, scaling, precision ------------------------------------------------------------------------------------

CLIP = (
    0.05  # bites at every step of the bed, whose gradients are of norm 0.3 to 1; at 1.0 a broken clip would look right
)


def clip_binds(train: Train) -> None:
    """The gradient that each step uses has the clipped norm, 0.05.

    Catches clipping before backward, after the step, on an exhausted generator of parameters. The norm that clip_grad_norm_
    returns looks right in all of them but the first, so it is measured when the optimizer steps.
    """
    norms = [norm_of(step.gradients) for step in witness(train, Bed(), plain_config(clip=CLIP)).steps]
    off = [round(norm, 6) for norm in norms if not math.isclose(norm, CLIP, rel_tol=1e-4)]
    assert norms and not off, f"clipped to {CLIP}, but the steps see gradients of norm {off}"


def logged_norm_is_before_clipping(train: Train) -> None:
    """The history's grad_norm is the norm before clipping, that of the batch's gradient. After it, it would be constant."""
    bed = Bed()
    seen = witness(train, bed, plain_config(clip=CLIP, log_every=1))
    logged = [record["grad_norm"] for record in seen.result.history]
    true = [norm_of(bed.gradient(step.weights, step.x)) for step in seen.steps]
    assert np.allclose(logged, true, rtol=1e-3), f"logged norms {logged}, the batches' {true}"


def loss_scale_leaves_no_trace(train: Train) -> None:
    """With fp16 and its scaler an SGD update is as large as in fp32, to 3 %.

    Catches optimizer.step() in place of scaler.step() or a missing unscale_: the update is 65,536 times too large. Under
    Adam it would be 1.0004 times.
    """
    ratio = _first_update(train, precision="fp16") / _first_update(train)
    assert 0.97 < ratio < 1.03, f"the fp16 update is {ratio:.4g} times the fp32 update"


def clip_sees_unscaled_gradients(train: Train) -> None:
    """With fp16 and clipping an SGD update is as large as in fp32 with clipping, to 3 %.

    Catches clipping before unscale_: gradients 65,536 times too large are cut down to the limit and then divided
    by the scale. Clipping must bite, and the optimizer must not be Adam.
    """
    ratio = _first_update(train, precision="fp16", clip=CLIP) / _first_update(train, clip=CLIP)
    assert 0.97 < ratio < 1.03, f"the clipped fp16 update is {ratio:.4g} times the clipped fp32 update"


def precision_takes_effect(train: Train) -> None:
    """bf16 and fp16 reach the layers, in training and in validation: a Linear's outputs are of that type.

    Catches an autocast that is built and never entered, or left before the forward pass: everything works, in float32.
    """
    for precision, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        bed, seen = Bed(), []
        bed.model[1].register_forward_hook(lambda module, inputs, outputs, seen=seen: seen.append(outputs.dtype))
        bed.run(train, plain_config(precision=precision), val=bed.val)
        assert set(seen) == {dtype}, f"precision {precision!r}: a linear layer gives {sorted(set(map(str, seen)))}"


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
            own = copy.deepcopy(model)
            train(
                own,
                data,
                config=plain_config(steps=4, lr=1e-3, precision=precision, optimizer=optimizer),
                loss=lambda outputs, _: outputs.float().sum(),
            )
            weights = own.weight.detach().flatten().tolist()
            assert all(map(math.isfinite, weights)), f"{precision}, {optimizer}: the weights become {weights}"
            assert 0.99 < weights[0] < 1, (
                f"{precision}, {optimizer}: updates of 0.001 leave a weight of 1 at {weights[0]}"
            )


# ---- steps: optimizer, schedule, average -----------------------------------------------------------------------------


def rate_follows_schedule(train: Train) -> None:
    """Step t of 12 uses the rate of a warm-up over 3 steps and a cosine over the other 9, down towards a fifth of the peak.

    Catches a schedule that advances per epoch or per micro-batch, one that advances before the optimizer, and one that is
    never stepped. Looked at when the optimizer steps, not in the history: get_last_lr() after the step is the next one.
    A constant rate, or one step an epoch, would hide all of it; accumulation 2 and 3 steps an epoch.
    """
    config = plain_config(steps=12, warmup=3, schedule="cosine", final_lr=0.2, accumulation=2, lr=0.1)
    used = [step.lr for step in witness(train, Bed(), config).steps]
    cosine = [0.02 + 0.04 * (1 + math.cos(math.pi * t / 9)) for t in range(9)]
    expected = [0.1 / 3, 0.2 / 3, 0.1, *cosine]
    assert np.allclose(used, expected, rtol=0, atol=1e-9), (
        f"rates used {np.round(used, 5)}, planned {np.round(expected, 5)}"
    )


def logged_rate_is_the_one_used(train: Train) -> None:
    """The history's lr of a step is the one the optimizer used in it, not that of the step after; so is its epoch."""
    seen = witness(train, Bed(), plain_config(steps=9, warmup=3, schedule="cosine", log_every=1))
    logged, used = [record["lr"] for record in seen.result.history], [step.lr for step in seen.steps]
    assert np.allclose(logged, used, rtol=0, atol=1e-9), f"logged {np.round(logged, 5)}, used {np.round(used, 5)}"
    epochs = [record["epoch"] for record in seen.result.history]
    assert epochs == [0, 0, 0, 1, 1, 1, 2, 2, 2], f"epochs {epochs} are logged for 9 steps, 3 an epoch"


def updates_follow_their_rule(train: Train) -> None:
    """SGD with momentum and AdamW move the weights as their formulas say, from the gradients that the optimizer was given.

    Followed by hand in float64, to 1e-6. AdamW decays matrices and no biases. Step 1 is bad and skipped: a state that
    begins with a blocked step must be as if it had not been. Catches another optimizer than the one asked for, settings that
    do not reach it, weights that something else changes.
    """
    rules = {"sgd": ({"momentum": 0.9}, _momentum_rule), "adamw": ({"beta2": 0.99, "weight_decay": 0.5}, _adamw_rule)}
    for optimizer, (settings, rule) in rules.items():
        bed = Bed()
        config = plain_config(optimizer=optimizer, nonfinite="skip", lr=0.05, **settings)
        try:
            seen = witness(train, bed, config, loss=_nan_at(1))
        except FloatingPointError as error:  # what is read before it was written may be anything
            raise AssertionError(f"{optimizer}: after a blocked step it does not go on: {error}") from error
        expected = rule([w.double() for w in seen.steps[0].weights], [step.gradients for step in seen.steps[1:]])
        moved = max((a - b).abs().max().item() for a, b in zip(bed.model.parameters(), expected, strict=True))
        assert moved < 1e-6, (
            f"{optimizer}: after {len(seen.steps)} steps a weight is {moved:.3g} from where it should be"
        )


def _momentum_rule(weights: list[Tensor], gradients: list[list[Tensor]]) -> list[Tensor]:
    velocity = [torch.zeros_like(w) for w in weights]
    for step in gradients:
        velocity = [0.9 * v + g for v, g in zip(velocity, step, strict=True)]
        weights = [w - 0.05 * v for w, v in zip(weights, velocity, strict=True)]
    return weights


def _adamw_rule(weights: list[Tensor], gradients: list[list[Tensor]]) -> list[Tensor]:
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for t, step in enumerate(gradients, start=1):
        first = [0.9 * m + 0.1 * g for m, g in zip(first, step, strict=True)]
        second = [0.99 * v + 0.01 * g.double() ** 2 for v, g in zip(second, step, strict=True)]
        weights = [w * (1 - 0.05 * 0.5 * (w.ndim >= 2)) for w in weights]
        roots = [(v / (1 - 0.99**t)).sqrt() + 1e-8 for v in second]
        weights = [w - 0.05 * m / (1 - 0.9**t) / r for w, m, r in zip(weights, first, roots, strict=True)]
    return weights


def weight_decay_is_decoupled(train: Train) -> None:
    """Without a gradient AdamW shrinks every weight by the same share, lr · weight_decay.

    Catches Adam(weight_decay=…): there weights of 1 and of 5 shrink by the same amount. One size of weight could not tell
    the two apart, nor could SGD, where they are the same.
    """
    model = nn.Linear(2, 1, bias=False)
    model.weight.data = torch.tensor([[1.0, 5.0]])
    data = TensorData(torch.ones(BATCH, 2), torch.zeros(BATCH, 1), regression=True)
    config = plain_config(steps=1, optimizer="adamw", lr=0.01, weight_decay=0.1)
    train(model, data, config=config, loss=lambda outputs, _: 0 * outputs.sum())
    shares = [1 - model.weight[0, 0].item(), 1 - model.weight[0, 1].item() / 5]
    assert np.allclose(shares, 0.001, rtol=1e-2), f"weights 1 and 5 shrink by {shares}, lr · weight_decay is 0.001"


def frozen_weights_stay(train: Train) -> None:
    """A layer that is frozen from the start keeps its bits; so does one frozen at step 3, from then on.

    Catches an optimizer that decays what is frozen, and zero_grad(set_to_none=False), after which momentum goes on moving a
    weight whose gradient is 0. Frozen from the start alone proves little: no gradient, no momentum. With momentum and decay.
    """
    bed = Bed()
    first, last = bed.model[1], bed.model[-1]
    last.bias.requires_grad_(False)
    kept, calls = {"last.bias": last.bias.detach().clone()}, []

    def freeze(module, _):
        calls.append(None)
        if torch.is_grad_enabled() and "first.weight" not in kept and len(calls) > 3:
            kept["first.weight"] = first.weight.detach().clone()
            first.weight.requires_grad_(False)

    bed.model.register_forward_pre_hook(freeze)
    bed.run(train, plain_config(steps=9, momentum=0.9, weight_decay=0.1))
    moved = {
        name: (w - {"last.bias": last.bias, "first.weight": first.weight}[name]).abs().max().item()
        for name, w in kept.items()
    }
    assert len(kept) == 2 and not any(moved.values()), f"frozen weights moved by at most: {moved}"


def average_is_validated(train: Train) -> None:
    """With ema the reported validation loss is that of the running average, and the average is right.

    The average is followed by hand from the weights before each step; BatchNorm's statistics are those of the model. Catches
    validating the raw weights, an average updated before the step, or with decay and share exchanged, or with the statistics
    it began with. A large learning rate keeps the losses apart.
    """
    bed = Bed(norm=True)
    average = [p.double() for p in clones(bed.model.parameters())]
    seen = witness(train, bed, plain_config(lr=1.0, ema=0.8), val=bed.val)
    for weights in [*(step.weights for step in seen.steps[1:]), clones(bed.model.parameters())]:
        average = [0.8 * a + 0.2 * w.double() for a, w in zip(average, weights, strict=True)]
    expected, raw = (
        bed.mean_loss(w, bed.val.x, bed.val.y, like=bed.model) for w in (average, list(bed.model.parameters()))
    )
    reported = _validations(seen.result)[-1]["val_loss"]
    assert math.isclose(reported, expected, rel_tol=1e-4), (
        f"validation reports {reported:.6f}; the average's loss is {expected:.6f}, that of the raw weights {raw:.6f}"
    )


# ---- modes and validation --------------------------------------------------------------------------------------------


def trains_in_train_mode(train: Train) -> None:
    """Every module is in train mode at each training step, also after a validation.

    Catches a missing model.train() after validation: dropout goes off and BatchNorm stops counting. The losses point the
    wrong way (without dropout they are lower), so modes are looked at, and BatchNorm's own count. Validates every step.
    """
    bed = Bed(norm=True, dropout=0.5)
    steps = witness(train, bed, plain_config(val_every=1), val=bed.val).steps
    evaluating = [i + 1 for i, step in enumerate(steps) if not step.in_train_mode]
    tracked = int(bed.model[2].num_batches_tracked)
    assert not evaluating, (
        f"steps {evaluating} were made in eval mode (BatchNorm saw {tracked} of {len(steps)} batches)"
    )


def validates_in_eval_mode(train: Train) -> None:
    """Validation uses neither dropout nor the batch's statistics, and leaves BatchNorm's as they were.

    Catches a missing model.eval(). Two halves: the reported loss is that of the final weights in eval mode, and BatchNorm
    has counted the training batches only. With BatchNorm alone two validations agree; without it there is no count.
    """
    bed = Bed(norm=True, dropout=0.5)
    seen = witness(train, bed, plain_config(val_every=2), val=bed.val)
    tracked, steps = int(bed.model[2].num_batches_tracked), len(seen.steps)
    expected = bed.mean_loss(list(bed.model.parameters()), bed.val.x, bed.val.y, like=bed.model)
    reported = _validations(seen.result)[-1]["val_loss"]
    assert tracked == steps, f"BatchNorm counted {tracked} batches in {steps} steps: it saw validation data"
    assert math.isclose(reported, expected, rel_tol=1e-5), f"reported {reported:.6f}, in eval mode it is {expected:.6f}"


def validation_keeps_no_graph(train: Train) -> None:
    """Validation records nothing for a backward pass: its outputs have no graph.

    Catches a missing no_grad: the graph of one batch lives at least until the next (a higher peak), and where losses are
    summed as tensors, that of all batches. The value of the loss is the same, bit for bit.
    """
    bed = Bed()
    graphs = witness(train, bed, plain_config(val_every=2), val=bed.val).validation_graphs
    assert graphs, "no validation data went through the model"
    assert not any(graphs), f"{sum(graphs)} of {len(graphs)} validation batches recorded a graph"


def validation_keeps_order(train: Train) -> None:
    """Validation sees each example once and in order, so that predictions can be matched to ids by position.

    A loop may try a few examples before it starts: what counts is what came last.
    """
    bed = Bed()
    ids = witness(train, bed, plain_config(), val=bed.val).validation_ids[-len(bed.val) :]
    every_example_once([torch.tensor(sorted(ids))], len(bed.val))
    order_is_kept([torch.tensor(ids)])


def reported_losses_count_targets(train: Train) -> None:
    """Logged and validation loss and accuracy are sums over all targets since the last record, divided once by their number.

    Catches the mean of batch means, a mean over examples instead of targets, padding that counts, sums that are not divided
    at all, or not cleared. Short last batches and texts of 1 to 7 targets; equal batches would hide it. The learning
    rate is so small that the weights stay as they are: then the logged loss of two steps is that of their examples.
    """
    bed = Bed(tokens=True)
    weights = clones(bed.model.parameters())
    config = plain_config(lr=1e-30, log_every=2, val_every=EPOCH, val_batch_size=BATCH, accumulation=3)
    seen = witness(train, bed, config, val=bed.val)
    for record in (record for record in seen.result.history if "val_loss" not in record):
        x = torch.cat([step.x for step in seen.steps[record["step"] - 2 : record["step"]]])
        _assert_close("loss", record["loss"], bed.mean_loss(weights, x, bed.targets(x)))
    for record in _validations(seen.result):
        _assert_close("val_loss", record["val_loss"], bed.mean_loss(weights, bed.val.x, bed.val.y))
        _assert_close("val_accuracy", record["val_accuracy"], bed.accuracy(weights, bed.val.x, bed.val.y))


def rates_are_of_training_time(train: Train) -> None:
    """targets_per_second is of the time in training alone, seconds of all of it, and MFU of 272 FLOPs an example.

    The model sleeps: 5 ms in a training forward, 20 ms in a validation. Time can only be bounded: by the sleep from below,
    by the clock from above. FLOPs by hand: 2 · (4 · 8 + 8 · 3) forward, as many for the weights' gradients, and
    2 · 8 · 3 for the gradient of the second layer's inputs (the first layer's need none). Catches a rate that counts
    validation, a clock that is not set anew, FLOPs of a batch taken for those of an example.
    """
    bed = Bed()
    bed.model.register_forward_pre_hook(lambda *_: time.sleep(0.005 if torch.is_grad_enabled() else 0.02))
    began = time.perf_counter()
    result = bed.run(train, plain_config(log_every=2, val_every=2, peak_flops=1e6), val=bed.val)
    wall = time.perf_counter() - began
    records = [record[MEASURED] for record in result.history if "val_loss" not in record]
    in_training = sum(n / record["targets_per_second"] for n, record in zip((16, 14, 14), records, strict=True))
    seconds = records[-1]["seconds"]
    assert 6 * 0.005 <= in_training <= seconds - 2 * 0.02, (
        f"rates of {in_training:.4f} s of training in {seconds:.4f} s"
    )
    assert seconds <= wall, f"{seconds:.4f} s are reported after {wall:.4f} s"
    flops = [record["mfu"] * 1e6 / record["targets_per_second"] for record in records]
    assert np.allclose(flops, 272), f"MFU counts {flops} FLOPs per example, by hand they are 272"


def log_holds_no_graph(train: Train) -> None:
    """The history holds plain numbers: a tensor kept there keeps its graph's nodes, some 2 KB a step."""
    bed = Bed()
    result = bed.run(train, plain_config(log_every=1, val_every=1), val=bed.val)
    tensors = [key for record in result.history for key, value in _flat(record) if isinstance(value, Tensor)]
    assert result.history and not tensors, f"{len(tensors)} tensors in the history, under {sorted(set(tensors))}"


# ---- the order of the data -------------------------------------------------------------------------------------------


def epochs_are_complete(train: Train) -> None:
    """Each epoch sees every example once; 22 examples in batches of 7 are 7, 7, 7 and 1.

    Catches next(iter(loader)) at every step, a lost tail, be it of one example, and an example that is drawn twice.
    """
    seen = witness(train, Bed(), plain_config(steps=12, batch_size=7))
    for ids in _epochs(seen):
        every_example_once([ids], EXAMPLES)


def epochs_have_orders_of_their_own(train: Train) -> None:
    """Three epochs, three orders. Catches a shuffle seeded alike every epoch, as without set_epoch.

    One epoch proves nothing.
    """
    orders = [tuple(ids.tolist()) for ids in _epochs(witness(train, Bed(), plain_config(steps=3 * EPOCH)))]
    assert len(orders) == 3 and len(set(orders)) == 3, f"{len(set(orders))} different orders in {len(orders)} epochs"


def sorted_data_is_shuffled(train: Train) -> None:
    """Data sorted by class come in batches that mix classes. Shuffled data would hide a missing shuffle."""
    bed = Bed()
    bed.data.y.copy_(bed.data.y.sort().values)
    steps = witness(train, bed, plain_config(steps=EPOCH)).steps
    batches_mix_classes([(step.x, bed.targets(step.x)) for step in steps])


def examples_draw_anew(train: Train) -> None:
    """What examples draw from the global streams of torch, NumPy and Python differs over examples, epochs and workers.

    Catches worker processes that start from one seed, and a constant seed per epoch. Two workers and two epochs, since
    fewer hide it; "the same on every run" is what the buggy loader fulfils.
    """
    bed = Bed(draws=True)
    seen = witness(train, bed, plain_config(steps=2 * EPOCH, workers=2))
    for i, source in enumerate(("torch", "NumPy", "Python")):
        drawn = torch.cat([step.x[:, 1 + i] for step in seen.steps]).tolist()
        assert len(set(drawn)) == len(drawn), f"{source}: {len(drawn)} draws in 2 epochs, {len(set(drawn))} different"


def says_no_to_zero_steps(train: Train) -> None:
    """Fewer examples than a batch with drop_last is an error: an epoch would have no step, and training nothing to do."""
    bed = Bed()
    before = clones(bed.model.parameters())
    try:
        bed.run(train, plain_config(batch_size=EXAMPLES + 1, drop_last=True))
    except ValueError:
        return
    moved = any(not torch.equal(a, b) for a, b in zip(before, bed.model.parameters(), strict=True))
    raise AssertionError(f"{EXAMPLES} examples, batches of {EXAMPLES + 1}, drop_last: no error, weights moved: {moved}")


# ---- the same run ----------------------------------------------------------------------------------------------------


def same_run(train: Train) -> None:
    """The same config gives the same weights and history, bit for bit, whatever the caller drew before.

    The caller's streams are left as they were. With dropout, examples that draw, and a model that adds noise from NumPy's
    and Python's streams too. Another seed must give other weights: a
    loop that ignores its seed would pass otherwise.
    """
    runs = []
    for stream, seed in ((1, 0), (2, 0), (1, 1)):
        bed = Bed(dropout=0.5, draws=True, noise=True)
        with own_random_streams(stream):
            due = _draws()
        with own_random_streams(stream):
            result = bed.run(train, plain_config(seed=seed, log_every=1, val_every=2), val=bed.val)
            assert _draws() == due, "the caller's random streams have moved"
        runs.append((clones(bed.model.parameters()), _stable(result.history)))
    _assert_same_bits(runs[0][0], runs[1][0], "two runs of one config")
    assert runs[0][1] == runs[1][1], f"two runs of one config: {_first_difference(runs[0][1], runs[1][1])}"
    alike = all(torch.equal(a, b) for a, b in zip(runs[0][0], runs[2][0], strict=True))
    assert not alike, "seeds 0 and 1 give the same weights"


def kernels_are_deterministic(train: Train) -> None:
    """During training torch runs deterministic kernels only; afterwards the caller's setting is back.

    The setting is looked at, not its effect: on a CPU nearly all kernels are deterministic anyway.
    """
    assert not torch.are_deterministic_algorithms_enabled(), "switch deterministic algorithms off before this check"
    for wanted in (True, False):
        bed, seen = Bed(), []
        bed.model.register_forward_hook(lambda *_, seen=seen: seen.append(torch.are_deterministic_algorithms_enabled()))
        bed.run(train, plain_config(deterministic=wanted))
        assert seen and set(seen) == {wanted}, f"deterministic={wanted}: in the forward passes it is {set(seen)}"
        left = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        assert not left, "the loop leaves deterministic algorithms switched on"


def watching_changes_nothing(train: Train) -> None:
    """Logging, validating, saving at every step and counting FLOPs, or none of it: the same weights and buffers, to the bit.

    With dropout, BatchNorm and examples that draw, in the validation data too: what they draw must not move the streams of
    training, and BatchNorm must not see them. One example is not finite, and its steps are skipped: when a loop learns of
    that, and sets its schedule back, must not depend on who watches. FLOPs (for MFU) are counted on a real forward and
    backward pass, which must leave neither gradients nor statistics behind. Without all this most loops would pass.
    """
    states = []
    for watched in (False, True):
        bed = Bed(dropout=0.5, norm=True, draws=True)
        bed.data.x[3, 0] = math.nan
        with tempfile.TemporaryDirectory() as folder:
            every = {"log_every": 1, "val_every": 1, "save_every": 1, "peak_flops": 1e12}
            where = {"val": bed.val, "run": folder} if watched else {}
            bed.run(train, plain_config(schedule="cosine", nonfinite="skip", **(every if watched else {})), **where)
        states.append(clones(bed.model.state_dict().values()))
    _assert_same_bits(*states, "watched and not watched")


def workers_change_nothing(train: Train) -> None:
    """0 workers, 2, or 2 new ones in each epoch: the same weights, bit for bit, also when examples and the model draw."""
    weights = []
    for workers, persistent in ((0, True), (2, True), (2, False)):
        bed = Bed(dropout=0.5, draws=True)
        bed.run(train, plain_config(workers=workers, persistent_workers=persistent))
        weights.append(clones(bed.model.parameters()))
    _assert_same_bits(weights[0], weights[1], "0 and 2 workers")
    _assert_same_bits(weights[0], weights[2], "0 workers and 2 new ones in each epoch")


# What a resumed run may have lost, and a run that only this loss changes: plain SGD needs nothing but its weights.
RESUMED = {
    "position in the data": {},
    "optimizer": {"optimizer": "adamw"},
    "schedule": {"schedule": "cosine", "warmup": 2},
    "random streams": {},  # with a model that draws
    "average": {"ema": 0.8},
    "early stopping": {"lr": 1.0, "val_every": 1, "patience": 6},
    "loss scale": {"precision": "fp16"},  # with a loss so large that the scale must fall
    "skipped steps": {"nonfinite": "skip", "schedule": "cosine"},  # with an example that is not finite
}
INTERRUPTED = EPOCH + 1  # in the middle of an epoch, and of a log record


def resumes_exactly(train: Train, what: str = "") -> None:
    """A run that is interrupted in mid-epoch and resumed ends with the bits, and the history, of one that was not.

    what: one of RESUMED, or all of them. Each is a run of its own that only this loss would change, so that the error names
    what was lost; plain SGD would resume without an optimizer's state, a model without dropout without random streams.
    A loop that starts afresh would end with the same bits too: the steps after resuming are counted.
    """
    for name in [what] if what else RESUMED:
        straight, again = Bed.for_resuming(name), Bed.for_resuming(name)
        config = plain_config(steps=3 * EPOCH + 1, log_every=EPOCH, save_every=INTERRUPTED, **RESUMED[name])
        with tempfile.TemporaryDirectory() as folder:
            whole = straight.run(train, config, val=straight.val, run=folder)
            _forget_after(folder, INTERRUPTED)
            seen = witness(train, again, config, val=again.val, run=folder)
            log = (Path(folder) / "log.jsonl").read_text().count("\n")
        made = whole.steps - INTERRUPTED
        assert len(seen.steps) == made, f"{name}: {len(seen.steps)} steps after resuming, not {made}"
        lost = f"resumed, without what it knew of: {name}"
        _assert_same_bits(clones(straight.model.parameters()), clones(again.model.parameters()), lost)
        if whole.ema:
            _assert_same_bits(clones(whole.ema.parameters()), clones(seen.result.ema.parameters()), lost)
        one, other = _stable(whole.history), _stable(seen.result.history)
        assert repr(one) == repr(other), f"{lost}: {_first_difference(one, other)}"
        assert log == len(one), f"{lost}: {log} lines in the log of {len(one)} records"


def damaged_checkpoint_is_refused(train: Train) -> None:
    """One flipped bit in the newest checkpoint: it is named and passed over, and the run still ends with its own bits.

    The bit is the sign of a saved weight: a file that opens and looks sound. Chopping the file off would be loud by itself.
    """
    straight, again = Bed(), Bed()
    config = plain_config(steps=2 * EPOCH, save_every=INTERRUPTED)
    with tempfile.TemporaryDirectory() as folder:
        straight.run(train, config, run=folder)
        newest = checkpoint.find(Path(folder) / "checkpoints")[-1]
        content = bytearray(newest.read_bytes())
        weight = straight.model[1].weight.detach().numpy().tobytes()
        content[content.find(weight) + 3] ^= 0x80
        newest.write_bytes(content)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            again.run(train, config, run=folder)
    _assert_same_bits(
        clones(straight.model.parameters()), clones(again.model.parameters()), "after a damaged checkpoint"
    )
    assert newest.name in said.getvalue(), f"{newest.name} is damaged, and the loop says only {said.getvalue()!r}"


# ---- choosing --------------------------------------------------------------------------------------------------------


def best_weights_are_those_validated(train: Train) -> None:
    """best_weights are the weights at the time of the best validation, which is the one with the lowest loss.

    Validation losses are given: 3, 1, 2, 4, 5, 6. Catches `best = model.state_dict()`, whose tensors are the live ones and
    follow training, which takes a later step to see; a comparison the wrong way round; the newest taken for the best. The
    same weights must be found in a run's folder.
    """
    bed = Bed()
    seen = witness(train, bed, plain_config(val_every=1), val=bed.val, loss=_scripted(3, 1, 2, 4, 5, 6))
    assert seen.result.best == {"step": 2, "val_loss": 1.0}, (
        f"validation losses 3, 1, 2, 4, 5, 6: best {seen.result.best}"
    )
    is_a_copy(seen.result.best_weights, bed.model)
    saved = [seen.result.best_weights[name] for name, _ in bed.model.named_parameters()]
    _assert_same_bits(seen.steps[2].weights, saved, "the weights after step 2, which were best, and best_weights")
    with tempfile.TemporaryDirectory() as folder:
        again = Bed()
        again.run(train, plain_config(val_every=1), val=again.val, run=folder, loss=_scripted(3, 1, 2, 4, 5, 6))
        kept = checkpoint.find(Path(folder) / "checkpoints", "best")
        assert len(kept) == 1, f"one best checkpoint is expected in the run's folder, there are {len(kept)}"
        saved = [best_weights(folder)[name] for name, _ in bed.model.named_parameters()]
    _assert_same_bits(
        seen.steps[2].weights, saved, "the weights after step 2, which were best, and those in the folder"
    )


def stopping_follows_the_loss(train: Train) -> None:
    """patience=2 stops after two validations in a row that are no better than the best so far, and not before.

    Validation losses are given. Catches a comparison the wrong way round (a rule for accuracies applied to losses), one with
    the last value instead of the best, a count that a better loss does not reset, one that is off by one. Falling losses
    alone are passed by a loop that never stops, rising ones by one that always does.
    """
    for losses, expected in [
        ((6, 5, 4, 3, 2, 1), 6),
        ((1, 2, 3, 4, 5, 6), 3),
        ((3, 4, 2, 3, 2, 1), 5),
        ((1, 4, 3, 2, 1, 0), 3),
    ]:
        bed = Bed()
        stopped = bed.run(train, plain_config(val_every=1, patience=2), val=bed.val, loss=_scripted(*losses)).steps
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

    model, data, config, loss: your own, or a perceptron on 8 examples and the loop's own loss. Catches most of what breaks
    learning (a softmax before cross_entropy stays above 0.5). Blind to everything that needs more than a batch, and to
    labels that are wrong: those are memorised as well.
    """
    if model is None:
        bed = Bed()
        model, data = bed.model, TensorData(bed.data.x[:BATCH], bed.data.y[:BATCH])
    config = config or plain_config(steps=300, batch_size=len(data), optimizer="adamw", lr=0.05, log_every=1)
    last = train(model, data, config=config, **({"loss": loss} if loss else {})).history[-1]["loss"]
    assert last < below, f"after {config.steps} steps on one batch its loss is {last:.4f}"


# ---- what is not finite ----------------------------------------------------------------------------------------------


def nonfinite_never_reaches_the_weights(train: Train, log_every: int = 1) -> None:
    """A gradient that is not finite raises FloatingPointError, on the weights of the step before it.

    Catches an update that goes through: a single NaN makes every weight NaN. log_every: where a loop asks the device only at
    log steps, later steps must be blocked too; on a CPU, which is asked at every step, that cannot be seen.
    """
    good, bad = Bed(norm=True), Bed(norm=True)
    good.run(train, plain_config(steps=2))
    try:
        bad.run(train, plain_config(steps=2 * EPOCH, log_every=log_every), loss=_nan_at(3))
    except FloatingPointError:
        _assert_same_bits(*(clones(b.model.state_dict().values()) for b in (good, bad)), "before and after a NaN")
        return
    _assert_finite(bad.model)
    raise AssertionError("the loss of step 3 was NaN, and nothing was raised")


def skipped_step_leaves_no_trace(train: Train) -> None:
    """Under nonfinite="skip" a bad step changes neither weights, buffers, average, logged loss nor the schedule.

    Step 3 of 3 is bad; everything is compared with a run of the 2 steps before it. Catches an average that is updated
    although the step was blocked, BatchNorm statistics of the bad batch, a NaN in the logged mean, and (from the rates
    of a longer run) a schedule that moves on. NaN in a mean cannot be removed by multiplying it with 0.
    """
    good, bad = Bed(norm=True), Bed(norm=True)
    one = good.run(train, plain_config(steps=2, ema=0.5, log_every=10))
    other = bad.run(train, plain_config(steps=3, ema=0.5, log_every=10, nonfinite="skip"), loss=_nan_at(3))
    _assert_same_bits(*(clones(b.model.state_dict().values()) for b in (good, bad)), "without and with a skipped step")
    _assert_same_bits(*(clones(r.ema.parameters()) for r in (one, other)), "averages without and with a skipped step")
    losses = [result.history[-1]["loss"] for result in (one, other)]
    assert losses[0] == losses[1], f"logged losses without and with a skipped step: {losses}"
    config = plain_config(steps=6, schedule="cosine", nonfinite="skip", log_every=1)
    rates = [step.lr for step in witness(train, Bed(), config, loss=_nan_at(3)).steps]
    assert rates[2] == rates[3] < rates[1], f"step 3 is skipped, its rate is due again at step 4: {rates}"


def endless_skips_end_the_run(train: Train) -> None:
    """max_skips=3 bad steps in a row raise FloatingPointError; two, then a good one, do not.

    Nor may an interruption start the count afresh: a run whose every step is bad and that may skip 6, resumed after 4,
    makes 2 more.
    """
    few, many = Bed(), Bed()
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
        raise AssertionError("5 bad steps in a row, and max_skips=3 raised nothing")
    config = plain_config(steps=10, nonfinite="skip", max_skips=6, save_every=4)
    with tempfile.TemporaryDirectory() as folder:
        calls = [_steps_until_it_raises(train, config, folder) for _ in range(2)]
    assert calls == [6, 2], f"6 skips end the run: {calls[0]} steps until then, {calls[1]} more when resumed after 4"


# ---- small things ----------------------------------------------------------------------------------------------------


def _relative_error(got: list[Tensor | None], expected: list[Tensor]) -> float:
    wrong = [torch.zeros_like(e) if g is None else g for g, e in zip(got, expected, strict=True)]
    return norm_of([g - e for g, e in zip(wrong, expected, strict=True)]) / norm_of(expected)


def _first_update(train: Train, **changes) -> float:
    """How far an SGD step moves the weights; the best of 3 steps, since a scaler may skip the first."""
    bed = Bed()
    seen = witness(train, bed, plain_config(steps=3, batch_size=EXAMPLES, lr=1e-3, **changes))
    places = [*(step.weights for step in seen.steps), clones(bed.model.parameters())]
    moves = [norm_of([a - b for a, b in zip(*pair, strict=True)]) for pair in pairwise(places)]
    return next((move for move in moves if move > 0), 0.0)


def _epochs(seen: Witness) -> list[Tensor]:
    """The ids of each whole epoch, in the order in which they came."""
    ids = torch.cat([(step.x[:, 0].double() * 64).round().long() for step in seen.steps])
    return list(ids.split(EXAMPLES))


def _validations(result) -> list[dict]:
    return [record for record in result.history if "val_loss" in record]


def _stable(history: list[dict]) -> list[dict]:
    """The history without what is measured, and so differs from run to run."""
    return [{key: value for key, value in record.items() if key != MEASURED} for record in history]


def _first_difference(one: list[dict], other: list[dict]) -> str:
    pairs = zip([*one, None], [*other, None], strict=False)
    return "{} against {}".format(*next((a, b) for a, b in pairs if repr(a) != repr(b)))  # repr: NaN is unlike itself


def _flat(record: dict, prefix: str = ""):
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _forget_after(run: str, step: int) -> None:
    """Delete the checkpoints of later steps, as if the process had been killed before they were written."""
    for kind in ("step", "best"):
        for path in checkpoint.find(Path(run) / "checkpoints", kind):
            if int(path.name.split("-")[1]) > step:
                path.unlink()


def _steps_until_it_raises(train: Train, config: Config, folder: str) -> int:
    """How many training steps, all of them bad, a run makes before it raises FloatingPointError."""
    bed, calls = Bed(), []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        calls.extend([None] * outputs.requires_grad)
        return outputs.sum() * math.nan

    with contextlib.suppress(FloatingPointError):
        bed.run(train, config, run=folder, loss=loss)
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
    """Cross-entropy while training; in validation (all examples in one batch) a mean of `values`, one after the other."""
    coming = iter(values)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad or len(targets) < EXAMPLES:
            return cross_entropy_sum(outputs, targets)
        return torch.tensor(next(coming) * float(EXAMPLES))

    return loss


def _draws() -> tuple[float, float, float]:
    """What the three global streams give next."""
    return torch.rand(()).item(), np.random.rand(), random.random()  # noqa: NPY002


def _assert_close(name: str, reported: float, expected: float) -> None:
    assert math.isclose(reported, expected, rel_tol=1e-5), f"{name} {reported:.6f}, over all its targets {expected:.6f}"


def _assert_finite(model: nn.Module) -> None:
    bad = [name for name, t in model.state_dict().items() if not t.isfinite().all()]
    assert not bad, f"not finite: {', '.join(bad)}"


def _assert_same_bits(one: list[Tensor], other: list[Tensor], what: str) -> None:
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(a, b), f"{what}: tensor {i} differs by {(a.double() - b.double()).abs().max().item():.3g}"
