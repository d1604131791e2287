"""Gradients that are not finite: the step is blocked, and leaves no trace."""

import contextlib
import math
import tempfile

from torch import Tensor

from utils.checks.loop.comparing import assert_finite, assert_same_bits
from utils.checks.loop.updates import follow_the_rules
from utils.checks.toy_problem import EPOCH, ToyProblem, Train, clones, needs, plain_config, record_run
from utils.loop.config import Config
from utils.loop.metrics import cross_entropy_sum


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
        assert_same_bits(*(clones(b.model.parameters()) for b in (good, bad)), "before and after a NaN")
        return
    assert_finite(bad.model)
    raise AssertionError(
        "the loss of step 3 was NaN, but nothing was raised: raise FloatingPointError before the step if the "
        "gradient's norm is not finite"
    )


def skipped_step_leaves_no_trace(train: Train) -> None:
    """With nonfinite="skip" a first step that is bad changes neither weights nor the optimizer's state.

    The steps after it must move the weights as if it had never been. Catches momentum that has seen a NaN, and one bad
    step that blocks those after it.
    """
    follow_the_rules(train, loss=_nan_at(1), nonfinite="skip")


def skipped_step_counts_nowhere(train: Train) -> None:
    """With nonfinite="skip" a bad step moves neither BatchNorm, nor average, logged loss or schedule.

    Step 3 of 3 is bad; everything is compared with a run of the 2 steps before it. Catches an average that is updated
    although the step was blocked, BatchNorm statistics of the bad batch, a NaN in the logged mean (multiplying it by 0
    does not remove it), and, from the rates of a longer run, a schedule that advances.
    """
    good, bad = ToyProblem(norm=True), ToyProblem(norm=True)
    one = good.run(train, plain_config(steps=2, ema=0.5, log_every=10))
    other = bad.run(train, plain_config(steps=3, ema=0.5, log_every=10, nonfinite="skip"), loss=_nan_at(3))
    assert_same_bits(*(clones(b.model.state_dict().values()) for b in (good, bad)), "without and with a skipped step")
    assert_same_bits(*(clones(r.ema.parameters()) for r in (one, other)), "averages without and with a skipped step")
    losses = [result.history[-1]["loss"] for result in (one, other)]
    assert losses[0] == losses[1], (
        f"logged losses without and with a skipped step: {losses}: leave the skipped step out of sum and count"
    )
    config = plain_config(steps=6, schedule="cosine", nonfinite="skip", log_every=1)
    steps = record_run(train, ToyProblem(), config, loss=_nan_at(3)).steps
    rates = [step.rates[0] for step in steps if step.finite]
    assert math.isclose(rates[2], 0.075), f"step 3 is skipped, so step 4 must use its rate, 0.075: {rates}: " + (
        "let the schedule stand still when a step is skipped"
    )


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
        raise AssertionError(
            f"never more than 2 bad steps in a row, but max_skips=3 ends the run: {error}: a good step sets the count to 0"
        ) from error
    assert skipped == 4, f"4 steps were bad, {skipped} are reported as skipped: count each of them"
    try:
        many.run(train, config, loss=_nan_at(2, 3, 4, 5, 6))
    except FloatingPointError:
        pass
    else:
        raise AssertionError(
            "5 bad steps in a row, but max_skips=3 raised nothing: raise FloatingPointError at the third"
        )
    config = plain_config(steps=10, nonfinite="skip", max_skips=6, save_every=4)
    with tempfile.TemporaryDirectory() as folder:
        calls = [_steps_until_it_raises(train, config, folder) for _ in range(2)]
    assert calls == [6, 2], (
        f"6 skips end the run: {calls[0]} steps until then, {calls[1]} more when resumed after 4: "
        + ("save the count with the checkpoint")
    )


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
