"""Lab 09's adverse bed: whatever the noise draws, the first validation is the best, so that a later best tells of a bug."""

import pytest
import torch
from helpers import lab_worker
from helpers.labs import LABS, cells_of

LAB = LABS["09_silent_bugs"]


@pytest.fixture(scope="module")
def lab_09():
    """What the lab's cells before the first solution make."""
    torch.set_num_threads(1)
    return lab_worker.run(cells_of(LAB, {}, LAB.tasks[0]))


def validations(lab_09: dict, seed: int, bed_first: bool) -> list[float]:
    """The validation losses of three epochs of the right loop, seeded after the bed is made, or before."""
    if not bed_first:
        torch.manual_seed(seed)
    model, data, val = lab_09["bed"](noise=True, adverse=True)
    if bed_first:
        torch.manual_seed(seed)
    return lab_09["silent_bugs"].train(model, data, val, 9)["log"]["val_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("bed_first", [True, False])
def test_the_first_validation_is_the_best_at_every_seed(lab_09, bed_first):
    told = {seed: validations(lab_09, seed, bed_first) for seed in range(100)}
    assert {seed: losses for seed, losses in told.items() if losses[0] >= min(losses[1:])} == {}
    assert len({tuple(losses) for losses in told.values()}) == 100  # the noise does reach the losses
