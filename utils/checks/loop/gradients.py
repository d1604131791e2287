"""The gradient of a step: zeroed, of its own batch, the same in micro-batches, and enough to learn from."""

import contextlib
import io
import math

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import Dataset

from utils.checks.loop.comparing import assert_finite, assert_same_bits, logged, relative_error
from utils.checks.parts import Loss
from utils.checks.toy_problem import (
    BATCH,
    EXAMPLES,
    NotJudged,
    Returned,
    ToyProblem,
    Train,
    clones,
    needs,
    norm_of,
    plain_config,
    record_run,
    takes,
)
from utils.data.datasets import IGNORE, TensorData
from utils.loop.config import Config
from utils.loop.metrics import cross_entropy_sum

ROUNDED_SHARE = 1e-6  # relative: ten times the rounding of a float32


def gradients_are_fresh(train: Train) -> None:
    """Each step uses the gradient of its own batch at its own weights, and nothing else.

    Compares the gradient that the optimizer is given with one computed independently. Catches a forgotten zero_grad (the
    relative error is 0 at the first step and about 1 from the second on), a sum where a mean was meant, weights changed
    between forward and step, a graph used after a step. Plain SGD, because Adam would hide a constant factor. Batches of
    7, so that the last batch of each epoch is a single example.
    """
    problem = ToyProblem()
    recording = record_run(train, problem, plain_config(steps=8, batch_size=7))
    # A loop without a parameter for clipping may clip at a limit of its own: then no gradient is longer than that.
    limit = math.inf if takes(train, "clip") else max(norm_of(step.gradients) for step in recording.steps)
    for i, step in enumerate(recording.steps):
        expected = problem.gradient(step.weights, step.x)
        shorter = min(1.0, limit / norm_of(expected))
        error = relative_error(step.gradients, [shorter * g for g in expected])
        if error < recording.tolerance(1e-4):
            continue
        length = norm_of(step.gradients) / norm_of(expected)
        advice = (
            f"{length:.3g} times as long: take the mean over the targets, and leave the weights alone until the step"
        )
        if i and relative_error(step.gradients, _sums(expected, recording.steps[i - 1].gradients)) < 1e-3:
            advice = f"that of step {i} is still in it: call optimizer.zero_grad()"
        raise AssertionError(f"step {i + 1}: the gradient differs from its batch's by a relative {error:.3g}: {advice}")


def _sums(one: list[Tensor], other: list[Tensor | None]) -> list[Tensor]:
    return [a if b is None else a + b for a, b in zip(one, other, strict=True)]


def steps_have_gradients(train: Train) -> None:
    """At every step each parameter has a gradient, not all zero, and the run moves it.

    Catches zero_grad between backward and step: the model never trains. Moving weights prove little: with AdamW, and
    gradients of zero instead of None, weight decay alone moves them. Hence plain SGD without decay.
    """
    problem = ToyProblem()
    before = clones(problem.model.parameters())
    steps = record_run(train, problem, plain_config()).steps
    missing = [sum(g is None or not g.any() for g in step.gradients) for step in steps]
    assert steps and not any(missing), (
        f"parameters without a gradient, by step: {missing}: call optimizer.step() between backward and zero_grad, "
        "for all of model.parameters()"
    )
    unmoved = sum(torch.equal(a, b) for a, b in zip(before, problem.model.parameters(), strict=True))
    assert unmoved == 0, f"{unmoved} of {len(before)} parameters never moved: give the optimizer model.parameters()"


def accumulation_equals_big_batch(train: Train) -> None:
    """The gradient of a batch in 4 micro-batches is that of the whole batch, in float64.

    Batches of 10 and 2 in 4 micro-batches: 3, 3, 2, 2 and 1, 1. Catches a mean of the micro-batches' means, and a missing
    division by their number (a factor of 4 that Adam would hide). With equal micro-batches the mean of means is right. A
    loop may round each part's share to float32.
    """
    problem = ToyProblem(dtype=torch.float64)
    for step in record_run(train, problem, plain_config(batch_size=10, accumulation=4)).steps:
        assert len(step.sizes) > 1, (
            f"accumulation=4, and {len(step.x)} examples go forward in one piece: split the batch into 4 parts"
        )
        error = relative_error(step.gradients, problem.gradient(step.weights, step.x))
        assert error < ROUNDED_SHARE, (
            f"{len(step.x)} examples in micro-batches of {step.sizes}: relative error {error:.3g}: clear the gradients "
            "before the first of them alone, and divide the sum of each one's losses by the targets of the whole batch"
        )


def accumulation_counts_tokens(train: Train) -> None:
    """The same with masked targets: each target that counts has the same weight, whichever micro-batch it is in.

    Texts of 1 to 7 targets. Catches micro-batches weighted by their number of examples, or all equally; texts of equal
    length would hide both.
    """
    needs(train, "loss")  # for outputs (B, T, K)
    problem = ToyProblem(tokens=True, dtype=torch.float64)
    for step in record_run(train, problem, plain_config(accumulation=4)).steps:
        error = relative_error(step.gradients, problem.gradient(step.weights, step.x))
        counts = [int(problem.targets(x).ne(IGNORE).sum()) for x in step.x.split(step.sizes)]
        assert error < ROUNDED_SHARE, (
            f"micro-batches of {counts} targets: relative error {error:.3g}: divide the sum of each micro-batch's losses by "
            "the number of targets in the whole batch, not of examples or of parts"
        )


def no_micro_batch_is_left_over(train: Train) -> None:
    """Every example in a forward pass is in exactly one step, also at the end of an epoch and of the run.

    22 examples in batches of 8, 8, 6, each in micro-batches of 2 (6 in 4 parts: 2, 2, 1, 1). Catches a loop that makes no
    step for the remainder, `if (i + 1) % accumulation == 0: step()`, so that its gradients leak into the next epoch, and a
    loop that drops the remainder. With a whole number of batches both are invisible.
    """
    recording = record_run(train, ToyProblem(), plain_config(accumulation=4))
    sizes = [len(step.x) for step in recording.steps]
    assert sizes == [8, 8, 6] * 2, (
        f"22 examples in batches of 8, two epochs: the steps use {sizes} examples, not {[8, 8, 6] * 2}: "
        "make a step for the micro-batches that are left at the end of an epoch"
    )
    assert not recording.forwards, (
        f"{len(recording.forwards)} micro-batches went forward after the last step: make a step for them"
    )


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
    halving = plain_config(out_of_memory="halve")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            limited.run(train, halving)
    except torch.OutOfMemoryError:
        raise NotJudged("the loop does not try again when memory runs out") from None
    ample.run(train, plain_config(accumulation=2))
    assert_same_bits(
        *(clones(problem.model.state_dict().values()) for problem in (limited, ample)), "limited and ample memory"
    )
    broken, attempts = ToyProblem(), []

    def broken_loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad:
            attempts.append(len(targets))
            raise RuntimeError("broken")
        return cross_entropy_sum(outputs, targets)

    with contextlib.suppress(RuntimeError), contextlib.redirect_stdout(io.StringIO()):
        broken.run(train, halving, loss=broken_loss)
    assert attempts == [BATCH], (
        f"an error unrelated to memory was retried: attempts with {attempts} examples: retry only after OutOfMemoryError"
    )


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
        raise AssertionError(
            f"the loop treats a batch without targets as not finite: {error}: divide by the number of targets, or by 1 if "
            "there are none"
        ) from error
    assert_finite(problem.model)
    empty = [step for step in recording.steps if problem.targets(step.x).eq(IGNORE).all()]
    moved = [norm for norm in (norm_of(step.gradients) for step in empty) if norm]
    assert not moved, (
        f"{len(moved)} of {len(empty)} steps without a target have a gradient, of norm {moved[0]:.3g}: "
        "call optimizer.zero_grad() before each backward"
    )
    losses = [record["loss"] for _, _, record in logged(recording, "loss")]
    assert all(loss is None or math.isfinite(loss) for loss in losses), (
        f"logged losses: {losses}: leave out of the mean what has no targets"
    )


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
    rates = []
    handle = register_optimizer_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    try:
        result = Returned(train(model, data, config=config, **({"loss": loss} if loss else {})))
    finally:
        handle.remove()
    last = [record for record in result.history if "val_loss" not in record or "loss" in record][-1]["loss"]
    if last >= below and not takes(train, "schedule") and rates[-1] < 0.01 * max(rates):
        raise NotJudged(
            f"the loop takes no schedule, and its own brings the rate down from {max(rates):.2g} to {rates[-1]:.2g} in "
            f"{config.steps} steps"
        )
    assert last < below, (
        f"after {config.steps} steps on one batch its loss is {last:.4f}, not below {below:g}: look at the gradients, layer "
        "by layer, and at what the loss is given"
    )
