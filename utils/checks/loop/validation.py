"""Train and eval mode, and what a validation sees and leaves behind."""

import math

import torch

from utils.checks.loop.comparing import validations
from utils.checks.parts import every_example_once, order_is_kept
from utils.checks.toy_problem import ToyProblem, Train, options, plain_config, record_run


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
    assert not evaluating, (
        f"steps {evaluating} ran in eval mode (BatchNorm counted {tracked} of {len(steps)} batches): "
        "call model.train() after each validation"
    )
    left = [name or "the model" for name, module in problem.model.named_modules() if not module.training]
    assert not left, (
        f"the loop returns with {len(left)} modules in eval mode, such as {left[0]}: "
        "call model.train() after the last validation, too"
    )


def validates_in_eval_mode(train: Train) -> None:
    """Validation uses neither dropout nor the batch's statistics, and does not change BatchNorm's.

    Catches a missing model.eval(). Two assertions: the loss reported last is that of the validated weights in eval mode, and
    BatchNorm has counted the training batches only. With BatchNorm alone, two validations agree; without it, there is no
    count.
    """
    problem = ToyProblem(norm=True, dropout=0.5)
    recording = record_run(train, problem, plain_config(**options(train, val_every=2)), val=problem.val)
    tracked, steps = int(problem.model[2].num_batches_tracked), len(recording.steps)
    assert tracked == steps, (
        f"BatchNorm counted {tracked} batches in {steps} steps: validation changed it: call model.eval() before it"
    )
    last = recording.last_validation
    expected = problem.mean_loss(last.weights, problem.val.x, problem.val.y, buffers=last.buffers)
    reported = validations(recording.result)[-1]["val_loss"]
    assert math.isclose(reported, expected, rel_tol=recording.tolerance(1e-5)), (
        f"reported {reported:.6f}, in eval mode it is {expected:.6f}: call model.eval() before validation"
    )


def validation_keeps_no_graph(train: Train) -> None:
    """Validation records nothing for a backward pass: its outputs have no graph.

    Catches a missing no_grad: the graph of one batch lives at least until the next (a higher peak), and if the loop sums
    losses as tensors, the graphs of all batches do. The loss has the same value, bit for bit.
    """
    problem = ToyProblem()
    config = plain_config(**options(train, val_every=2))
    recording = record_run(train, problem, config, val=problem.val)
    graphs = recording.last_validation.graphs
    assert not any(graphs), (
        f"{sum(graphs)} of {len(graphs)} batches of the last validation recorded a graph: "
        "validate within with torch.no_grad():"
    )


def validation_keeps_order(train: Train) -> None:
    """Validation sees each example once and in order, so that predictions can be matched to ids by position.

    A loop may run a few examples before it starts: only the last validation counts.
    """
    problem = ToyProblem()
    ids = record_run(train, problem, plain_config(), val=problem.val).last_validation.ids[-len(problem.val) :]
    every_example_once([torch.tensor(sorted(ids))], len(problem.val))
    order_is_kept([torch.tensor(ids)])
