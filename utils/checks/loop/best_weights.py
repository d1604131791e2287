"""The best weights, and when to stop."""

import math
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from utils.checks.loop.comparing import equal_bits
from utils.checks.parts import is_a_copy
from utils.checks.toy_problem import NotJudged, Recording, ToyProblem, Train, clones, plain_config, record_run, takes
from utils.loop import checkpoint
from utils.loop.config import Config
from utils.loop.metrics import cross_entropy_sum

BEST = (3, 1, 2, 4, 5, 6)  # validation losses, one after each step; the second is the lowest


def best_weights_are_those_validated(train: Train) -> None:
    """What the loop keeps as the best weights are those that it validated with the lowest loss.

    The validation losses are prescribed: 3, 1, 2, 4, 5, 6. Catches `best = model.state_dict()`, whose tensors are the live
    ones and change with the next step; a comparison the wrong way round; the newest weights taken for the best. It looks
    wherever the loop may keep them: in `best` (a loss, or a record of it) and `best_weights` (a state_dict or a model) of
    what it returns; in the model, if it ends with other weights than the last step's; in files of its `run` folder with
    "best" in their names, of any format that holds a tensor's bytes as they are. The course's own folder must hold one.
    """
    problem = ToyProblem()
    recording = _run(train, problem, BEST, plain_config(val_every=1))
    seen = [_returned_best_is_right(recording, problem), _model_is_right(recording, problem)]
    if takes(train, "run"):
        seen.append(_files_are_right(train))
    if not any(seen):
        raise NotJudged(
            "the loop returns no best and no best_weights, and saves no file with best in its name: return one of them"
        )


def _returned_best_is_right(recording: Recording, problem: ToyProblem) -> bool:
    """Whether the loop returns a best loss, or best weights. Raises AssertionError if one of them is wrong."""
    result, told = recording.result, f"validation losses {BEST}, the lowest after step 2"
    best = result.best if "best" in result else None
    loss = best.get("val_loss") if isinstance(best, dict) else best
    if isinstance(loss, float | int):
        assert math.isclose(loss, 1.0, rel_tol=1e-4), f"{told}: best is {best}: a loss is better if it is lower"
    if isinstance(best, dict) and {"step", "val_loss"} <= best.keys() and "history" in result:
        records = [record for record in result.history if "val_loss" in record]
        lowest = min(records, key=lambda record: record["val_loss"], default=best)
        assert best["step"] == lowest["step"], (
            f"{told}: best is {best}, but the lowest in the history is {dict(lowest)}: keep the step with the loss"
        )
    weights = result.best_weights if "best_weights" in result else None
    if isinstance(weights, nn.Module):
        weights = weights.state_dict()
    if weights is not None:
        names = [name for name, _ in problem.model.named_parameters()]
        if not isinstance(weights, dict) or not set(names) <= weights.keys():
            raise NotJudged(f"best_weights is no state_dict of the model: it must have the names {', '.join(names)}")
        is_a_copy(weights, problem.model)
        step = _step_of([weights[name] for name in names], recording, problem)
        assert step == 2, f"{told}: best_weights are those {_after(step)}: keep copy.deepcopy(model.state_dict())"
    return isinstance(loss, float | int) or weights is not None


def _model_is_right(recording: Recording, problem: ToyProblem) -> bool:
    """Whether the loop has put the best weights back into the model. Raises AssertionError if it has put others there."""
    step = _step_of(clones(problem.model.parameters()), recording, problem)
    if step == len(recording.steps) or step is None:
        return False
    assert step == 2, f"validation losses {BEST}: the loop ends with the weights {_after(step)}, the best were step 2's"
    return True


def _files_are_right(train: Train) -> bool:
    """Whether the run's folder holds best weights in a form that can be read here. AssertionError if they are others."""
    problem = ToyProblem()
    with tempfile.TemporaryDirectory() as folder:
        recording = _run(train, problem, BEST, plain_config(val_every=1), run=folder)
        files = [path for path in Path(folder).rglob("*best*") if path.is_file()]
        contents = {path.name: path.read_bytes() for path in files}
        if checkpoint.find(Path(folder) / "checkpoints"):
            assert len(files) == 1, (
                f"one best checkpoint is expected in the run's folder, there are {len(files)}: save it"
            )
    after = _weights_after(recording, problem)
    held = {
        name: [step for step, weights in after.items() if all(w.numpy().tobytes() in content for w in weights)]
        for name, content in contents.items()
    }
    held = {name: steps for name, steps in held.items() if steps}  # of the others the format is not known
    assert not held or any(2 in steps for steps in held.values()), (
        f"validation losses {BEST}: the weights in the best file are those {_after(*next(iter(held.values())))}, "
        f"the best were step 2's ({', '.join(held)}): save them when the loss is lower than all before"
    )
    return bool(held)


def _weights_after(recording: Recording, problem: ToyProblem) -> dict[int, list[Tensor]]:
    """The weights after each step, by its number from 1; those after the last are the model's, if nothing else is known."""
    weights = {step: later.weights for step, later in enumerate(recording.steps[1:], start=1)}
    last = recording.last_validation
    return weights | {len(recording.steps): last.weights if last.steps == len(recording.steps) else []}


def _step_of(weights: list[Tensor], recording: Recording, problem: ToyProblem) -> int | None:
    """The step after which the model had these weights."""
    after = _weights_after(recording, problem)
    return next((step for step, those in after.items() if those and equal_bits(those, weights)), None)


def _after(*steps: int | None) -> str:
    return " and ".join("after no step" if step is None else f"after step {step}" for step in steps)


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
        stopped = len(_run(train, problem, losses, plain_config(val_every=1, patience=2)).steps)
        assert stopped == expected, (
            f"validation losses {losses}, patience 2: stopped after {stopped} steps, not {expected}: "
            "count the validations that are not lower than the lowest so far, and count anew when one is"
        )


class _Script:
    """A loss: cross-entropy while training; on validation data, in batches of any size, means[k - 1] after step k.

    Before the first step it is larger than all of them. A hook tells it what the model, or a copy, has seen last.
    """

    def __init__(self, problem: ToyProblem, means: tuple[float, ...]):
        self.means = means
        self.steps = 0
        self.validating = self.was_asked = False
        problem.model.register_forward_hook(lambda module, inputs, outputs: self.look(problem.ids(inputs[0])))

    def look(self, ids: Tensor) -> None:
        self.validating = bool((ids < 0).any())
        self.steps += not self.validating and torch.is_grad_enabled()

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if not self.validating:
            return cross_entropy_sum(outputs, targets)
        self.was_asked = True
        mean = self.means[min(self.steps, len(self.means)) - 1] if self.steps else max(self.means) + 1
        return torch.tensor(mean * float(len(targets)))


def _run(train: Train, problem: ToyProblem, losses: tuple[float, ...], config: Config, **arguments) -> Recording:
    """Run the loop, validating after each step, with these validation losses."""
    script = _Script(problem, losses)
    recording = record_run(train, problem, config, val=problem.val, loss=script, **arguments)
    if not script.was_asked:
        raise NotJudged("the loop does not call its loss on the validation data")
    return recording
