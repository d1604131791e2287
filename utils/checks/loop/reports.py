"""The numbers that a loop reports: losses, accuracies, norms, learning rates, speeds."""

import math
import time

import numpy as np
import torch
from torch import Tensor

from utils.checks.loop.clipping_and_precision import CLIP
from utils.checks.loop.comparing import logged, validations
from utils.checks.toy_problem import (
    BATCH,
    EPOCH,
    ToyProblem,
    Train,
    clones,
    needs,
    norm_of,
    options,
    plain_config,
    record_run,
)
from utils.loop.log import MEASURED


def reported_losses_count_targets(train: Train) -> None:
    """Reported losses and accuracies are sums over all targets since the last record, divided once by their number.

    Catches a mean of batch means, a mean over examples instead of targets, padding that counts, and sums that are never
    divided or never cleared. Short last batches and texts of 1 to 7 targets, because equal batches would hide it. The
    learning rate is so small that the weights do not change: the logged loss of two steps is that of their examples.
    """
    needs(train, "loss")  # for outputs (B, T, K)
    problem = ToyProblem(tokens=True)
    weights = clones(problem.model.parameters())
    size = options(train, val_batch_size=BATCH)
    config = plain_config(lr=1e-30, log_every=2, val_every=EPOCH, accumulation=3, **size)
    recording = record_run(train, problem, config, val=problem.val)
    tolerance = recording.tolerance(1e-5)
    for before, end, record in logged(recording, "loss"):
        x = torch.cat([step.x for step in recording.steps[before:end]])
        _assert_close("loss", record["loss"], problem.mean_loss(weights, x, problem.targets(x)), tolerance)
    val = problem.val
    for record in validations(recording.result):
        _assert_close("val_loss", record["val_loss"], problem.mean_loss(weights, val.x, val.y), tolerance)
        if record.get("val_accuracy") is not None:
            _assert_close("val_accuracy", record["val_accuracy"], problem.accuracy(weights, val.x, val.y), tolerance)


def _assert_close(name: str, reported: float, expected: float, tolerance: float) -> None:
    assert math.isclose(reported, expected, rel_tol=tolerance), (
        f"{name} is {reported:.6f}, but over all its targets it is {expected:.6f}: add up the losses and the targets that "
        "count, and divide once"
    )


def logged_norm_is_before_clipping(train: Train) -> None:
    """The history's grad_norm is the norm of the batch's gradient before clipping. After clipping it would be constant."""
    problem = ToyProblem()
    recording = record_run(train, problem, plain_config(clip=CLIP, log_every=1))
    records = logged(recording, "grad_norm")
    norms = [record["grad_norm"] for _, _, record in records]
    steps = [recording.steps[end - 1] for _, end, _ in records]
    expected = [norm_of(problem.gradient(step.weights, step.x)) for step in steps]
    assert np.allclose(norms, expected, rtol=recording.tolerance(1e-3)), (
        f"logged norms {np.round(norms, 4)}, the batches' {np.round(expected, 4)}: log what clip_grad_norm_ returns"
    )


def logged_rate_is_the_one_used(train: Train) -> None:
    """The history's lr at a step is the one that the optimizer used, not the next step's; the same holds for the epoch."""
    recording = record_run(train, ToyProblem(), plain_config(steps=9, warmup=3, schedule="cosine", log_every=1))
    records = logged(recording, "lr")
    rates = [record["lr"] for _, _, record in records]
    used = [recording.steps[end - 1].rates[0] for _, end, _ in records]
    assert np.allclose(rates, used, rtol=0, atol=1e-9), (
        f"logged {np.round(rates, 5)}, used {np.round(used, 5)}: read the rate before the schedule steps"
    )
    if all("epoch" in record for _, _, record in records):
        epochs = [record["epoch"] for _, _, record in records]
        first = epochs[0]  # some count from 1
        assert [epoch - first for epoch in epochs] == [(end - 1) // EPOCH for _, end, _ in records], (
            f"epochs {epochs} are logged for steps {[end for _, end, _ in records]}, 3 per epoch: log the epoch of the step"
        )


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
        f"the rates imply {in_training:.4f} s of training in {seconds:.4f} s: "
        "stop the clock of the rate during validation"
    )
    assert seconds <= wall, f"{seconds:.4f} s are reported, but the clock says {wall:.4f} s: count no time twice"
    flops = [record["mfu"] * 1e6 / record["targets_per_second"] for record in records]
    assert np.allclose(flops, 272), (
        f"MFU counts {flops} FLOPs per example, by hand they are 272: divide by the examples"
    )


def log_holds_no_graph(train: Train) -> None:
    """The history holds plain numbers: a tensor in it would keep its graph alive, some 2 KB per step."""
    problem = ToyProblem()
    result = problem.run(train, plain_config(log_every=1, val_every=1), val=problem.val)
    tensors = [key for record in result.history for key, value in _flat(record) if isinstance(value, Tensor)]
    assert result.history and not tensors, (
        f"{len(tensors)} tensors in the history, under {sorted(set(tensors))}: keep the number, by .item()"
    )


def _flat(record: dict, prefix: str = ""):
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
