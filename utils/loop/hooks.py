"""The caller's own look at each record of the log: it may add numbers to the record, and changes nothing else."""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from utils.device import deterministic_algorithms, own_random_streams
from utils.loop.attributes import attributes_put_back
from utils.loop.guards import checksum, eval_mode
from utils.loop.log import MEASURED
from utils.loop.state import State

OnStep = Callable[[dict, nn.Module], dict[str, float] | None]

# What a record may hold besides: a log record the first, a record of a validation the last.
OWN_NAMES = (
    *("step", "epoch", "loss", "lr", "grad_norm", "skipped", "skipped_steps", MEASURED),
    *("val_loss", "val_accuracy"),
)


def ask(on_step: OnStep, record: dict, model: nn.Module, state: State) -> dict[str, float]:
    """The numbers that on_step(record, model) adds to the record. Rank 0 computes them, and every rank has them.

    Raises ValueError if it returns anything else, and RuntimeError if it changes what the next step depends on, or, on the
    other ranks, if it has failed.
    """
    model = state.whole_model(model)  # of all ranks, if they hold it in parts
    numbers, failure = {}, None
    if state.ranks.first:
        try:
            with unchanged(state, model):
                returned = on_step(copy.deepcopy(record), model)
            numbers = numbers_of(returned, record)
        except Exception as error:
            error.add_note(f"in on_step, at step {record['step']}")
            failure = error
    numbers, reason = state.ranks.of_first((numbers, failure and f"{type(failure).__name__}: {failure}"))
    if failure:
        raise failure
    if reason:
        raise RuntimeError(f"on_step has failed on rank 0 at step {record['step']} ({reason})")
    return numbers


def numbers_of(returned: object, record: dict) -> dict[str, float]:
    """What on_step has returned, as numbers of Python. Raises ValueError unless it is None or a dict of new numbers."""
    where = f"on_step at step {record['step']}"
    if not isinstance(returned, dict | None):
        raise ValueError(
            f'{where} has returned {returned!r}: return a dict of the numbers to add to the record, {{"f1": 0.5}} say, or '
            "None"
        )
    numbers = {}
    for name, value in (returned or {}).items():
        if not isinstance(name, str) or name in OWN_NAMES:
            raise ValueError(
                f"{where} has returned a number under the name {name!r}: choose a string that is none of the record's own "
                f"({', '.join(OWN_NAMES)})"
            )
        if isinstance(value, np.generic) or (isinstance(value, Tensor) and value.dim() == 0):
            value = value.item()
        if type(value) not in (int, float):
            raise ValueError(f"{where} has returned {value!r} as {name}: it must be one real number, float(...) say")
        numbers[name] = value
    return numbers


@contextmanager
def unchanged(state: State, model: nn.Module) -> Iterator[None]:
    """Within the block `model` is in eval mode and takes no gradients. What a look may move is put back after it.

    That is: random streams, modes, buffers and attributes of this model and of the one that trains, torch's default dtype,
    threads and choice of kernels. Gradients may be read and changed, the next step zeroes them.

    Raises RuntimeError if a weight or a setting of the optimizer has changed; the next step sees whether what trains has.
    """
    models = [model] if model is state.model else [model, state.model]
    weights = [p for each in models for p in each.parameters()]
    before, settings = list(map(_mark, weights)), _settings(state.optimizer)
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    with ExitStack() as stack:
        for each in models:
            stack.enter_context(attributes_put_back(each))
            stack.enter_context(eval_mode(each))
        stack.enter_context(own_random_streams())
        stack.enter_context(deterministic_algorithms(state.config.deterministic))
        stack.enter_context(torch.no_grad())
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
    if before != list(map(_mark, weights)):
        raise RuntimeError("on_step has changed a weight of the model: it may look only; change a copy.deepcopy(model)")
    if settings != _settings(state.optimizer):
        raise RuntimeError(
            "on_step has changed a setting of the optimizer: rates follow `schedule`, all else stays as the run began"
        )


def _mark(weight: Tensor) -> tuple[int, str]:
    """How often it was changed in place, which a change through .data hides, and its sum."""
    return weight._version, str(checksum(weight))


def _settings(optimizer: torch.optim.Optimizer) -> list[dict[str, str]]:
    return [{name: str(value) for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
