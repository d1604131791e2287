"""The best weights, and when to stop."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from utils.checks.loop.comparing import assert_same_bits
from utils.checks.parts import is_a_copy
from utils.checks.toy_problem import EXAMPLES, ToyProblem, Train, plain_config, record_run
from utils.loop import checkpoint
from utils.loop.metrics import cross_entropy_sum
from utils.loop.run_folder import best_weights


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
    assert_same_bits(recording.steps[2].weights, saved, "the weights after step 2, which were best, and best_weights")
    with tempfile.TemporaryDirectory() as folder:
        again = ToyProblem()
        again.run(train, plain_config(val_every=1), val=again.val, run=folder, loss=_scripted(3, 1, 2, 4, 5, 6))
        saved_best = checkpoint.find(Path(folder) / "checkpoints", "best")
        assert len(saved_best) == 1, f"one best checkpoint is expected in the run's folder, there are {len(saved_best)}"
        saved = [best_weights(folder)[name] for name, _ in problem.model.named_parameters()]
    assert_same_bits(
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


def _scripted(*values: float):
    """Cross-entropy while training; in validation (all examples in one batch) the next of `values`, as the mean."""
    remaining = iter(values)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad or len(targets) < EXAMPLES:
            return cross_entropy_sum(outputs, targets)
        return torch.tensor(next(remaining) * float(EXAMPLES))

    return loss
