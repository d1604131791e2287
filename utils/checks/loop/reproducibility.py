"""The same seed gives the same run, watched or not, whatever the number of workers."""

import math
import tempfile
from itertools import combinations

import torch

from utils.checks.loop.comparing import assert_same_bits, epochs_of, first_difference, stable_history
from utils.checks.toy_problem import NotJudged, ToyProblem, Train, clones, needs, options, plain_config, record_run
from utils.device import own_random_streams

SEED_ALL = "seed the streams of torch, NumPy and Python at the start, and the order of the data"

SEED_EXAMPLES = "seed the streams anew before each example, from seed, epoch and index"


def dropout_draws_anew(train: Train) -> None:
    """Each step drops other units. Catches a seed that is set before every step, which gives all of them one mask."""
    problem, masks = ToyProblem(dropout=0.5), []

    def remember(dropout, inputs, outputs):
        if torch.is_grad_enabled():
            masks.append(outputs.detach().eq(0))

    problem.model[-2].register_forward_hook(remember)
    problem.run(train, plain_config())
    repeated = sum(torch.equal(one, other) for one, other in combinations(masks, 2))
    assert masks and not repeated, f"of {len(masks)} steps' dropout masks, {repeated} pairs are the same: " + (
        "seed once, before the first step"
    )


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
        runs.append(
            (clones(problem.model.parameters()), stable_history(recording.result), torch.cat(epochs_of(recording)))
        )
    one, again, other = runs
    assert_same_bits(one[0], again[0], "two runs of one config", SEED_ALL)
    assert repr(one[1]) == repr(again[1]), f"two runs of one config: {first_difference(one[1], again[1])}: {SEED_ALL}"
    assert not torch.equal(one[2], other[2]), (
        "two seeds give the examples the same order: make it from the seed as well"
    )


def kernels_are_deterministic(train: Train) -> None:
    """During training torch runs deterministic kernels only; afterwards the caller's setting is restored.

    The detector reads the setting, not its effect: on a CPU nearly all kernels are deterministic anyway.
    """
    if torch.are_deterministic_algorithms_enabled():
        raise NotJudged("deterministic algorithms are on: call torch.use_deterministic_algorithms(False) before")
    for wanted in (False, True):
        problem, seen = ToyProblem(), []
        problem.model.register_forward_hook(
            lambda *_, seen=seen: seen.append(torch.are_deterministic_algorithms_enabled())
        )
        problem.run(train, plain_config(deterministic=wanted))
        assert seen and set(seen) == {wanted}, f"deterministic={wanted}: in the forward passes it is {set(seen)}: " + (
            "call torch.use_deterministic_algorithms before training"
        )
        still_on = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        assert not still_on, "the loop leaves deterministic algorithms switched on: put the caller's setting back"


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
    assert_same_bits(
        *states, "with and without logging, validation and checkpoints", "none of them may draw random numbers"
    )


def workers_change_nothing(train: Train) -> None:
    """0 workers, 2, or 2 new ones in each epoch give the same weights, bit for bit, with random examples and dropout."""
    weights = []
    for workers, persistent in ((0, True), (2, True), (2, False)):
        problem = ToyProblem(dropout=0.5, draws=True)
        problem.run(train, plain_config(workers=workers, persistent_workers=persistent))
        weights.append(clones(problem.model.parameters()))
    assert_same_bits(weights[0], weights[1], "0 and 2 workers", SEED_EXAMPLES)
    assert_same_bits(weights[0], weights[2], "0 workers and 2 new ones in each epoch", SEED_EXAMPLES)
