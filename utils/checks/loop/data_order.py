"""Which examples an epoch sees, in which order, and what they draw."""

import torch

from utils.checks.loop.comparing import epochs_of
from utils.checks.parts import batches_mix_classes, every_example_once
from utils.checks.toy_problem import EPOCH, EXAMPLES, ToyProblem, Train, clones, plain_config, record_run


def epochs_are_complete(train: Train) -> None:
    """Each epoch sees every example once; 22 examples in batches of 7 are 7, 7, 7 and 1.

    Catches next(iter(loader)) at every step, a lost tail, be it of one example, and an example that is drawn twice.
    """
    recording = record_run(train, ToyProblem(), plain_config(steps=12, batch_size=7))
    for ids in epochs_of(recording):
        every_example_once([ids], EXAMPLES)


def epochs_have_orders_of_their_own(train: Train) -> None:
    """Three epochs have three orders. Catches a shuffle with the same seed in every epoch, as without set_epoch.

    One epoch proves nothing.
    """
    orders = [tuple(ids.tolist()) for ids in epochs_of(record_run(train, ToyProblem(), plain_config(steps=3 * EPOCH)))]
    assert len(orders) == 3 and len(set(orders)) == 3, (
        f"{len(set(orders))} different orders in {len(orders)} epochs: shuffle anew in each, with a seed that depends on it"
    )


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
        assert len(set(drawn)) == len(drawn), (
            f"{source}: {len(drawn)} draws in 2 epochs, {len(set(drawn))} different: "
            + ("seed each worker, and in each epoch, differently")
        )


def says_no_to_zero_steps(train: Train) -> None:
    """Fewer examples than a batch, with drop_last, is an error: an epoch would have no steps."""
    problem = ToyProblem()
    before = clones(problem.model.parameters())
    try:
        problem.run(train, plain_config(batch_size=EXAMPLES + 1, drop_last=True))
    except ValueError:
        return
    moved = any(not torch.equal(a, b) for a, b in zip(before, problem.model.parameters(), strict=True))
    raise AssertionError(
        f"{EXAMPLES} examples, batches of {EXAMPLES + 1}, drop_last: no error, weights moved: {moved}: "
        "raise ValueError where an epoch has no batch"
    )
