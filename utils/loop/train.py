"""The honest training loop: `train` and `evaluate`. Read this file first.

`train` is a plain function over a plain `for`. What it promises, and the tests hold it to:

1. A reported number covers every example it claims: sums and counts, divided once.
2. Watching changes nothing: log, validate and save more often, and the weights are the same, bit for bit.
3. The same config gives the same run, also if it was interrupted anywhere and resumed.
4. A crash loses nothing that was saved.
5. The test set is not an argument.
6. It says no early, with the value and the next move, before anything is overwritten.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.data.order import CPU, Order, batches, device_of, require_dataset
from utils.device import autocast, deterministic_algorithms, own_random_streams
from utils.distributed.parallel import summed_with_last, whole
from utils.distributed.ranks import ALONE, Ranks, joined, started
from utils.loop.config import Config
from utils.loop.guards import SIGTERM_EXIT, Rewind, Termination, evaluating, explain, is_out_of_memory
from utils.loop.metrics import Log, Mean, count_correct, count_targets, cross_entropy_sum
from utils.loop.monitor import Watch
from utils.loop.optim import clear_gradients, clip_gradients
from utils.loop.preflight import check_fit, check_kinds, check_ranks, check_smallest_part
from utils.loop.run_folder import RunFolder
from utils.loop.state import State, shortened
from utils.loop.suspects import first_not_finite

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) → the loss summed over the targets, 0-dim


def train_step(state: State, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Zero, forward, loss, backward, clip, step, schedule. Nothing here waits for a GPU.

    x (B, ...), y (B, ...): this rank's part of the batch. Each backward begins with 1 / targets of the whole batch: what
    the parts and the ranks add up to is the gradient of its mean.
    """
    y = y.to(state.device, non_blocking=True)  # whole: its targets are counted before the first part
    own_targets = count_targets(y)
    before = Rewind(state.buffers)
    targets = state.ranks.sum(own_targets)  # of the whole batch
    while True:  # once, unless memory runs out
        try:
            clear_gradients(state.parameters)
            losses = []
            parts = micro_batches(x, y, state.parts, state.device)
            for x_part, y_part in summed_with_last(state.forward, parts, min(state.parts, len(x))):
                with state.autocast:
                    outputs = state.forward(x_part)
                    part = loss(outputs, y_part)
                part.backward(state.scaler.scale(state.share(targets, part.dtype)))
                losses.append(part.detach())
            break
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if state.parts >= len(x):
                raise type(error)(state.why_memory_ran_out(error, x, y)) from error
        # Only here, behind the except block, is nothing of the failed attempt alive any more: not even a graph, if it was
        # backward that failed.
        outputs = part = None
        state.halve_micro_batches(before)
    state.scaler.unscale_(state.optimizer)
    state.norm = clip_gradients(state.parameters, state.config.clip, state.guard.on_host)  # the norm before it
    state.guard.block_unless_finite(state.norm)
    state.optimizer.step()
    state.scaler.update()
    state.scheduler.step()
    state.guard.undo_buffers(before)
    if state.ema:
        state.ema.update(state.parameters, unless=state.guard.bad)
    state.train_loss.add(losses, own_targets, unless=state.guard.bad)
    state.step += 1


def micro_batches(x: Tensor, y: Tensor, parts: int, device: torch.device) -> Iterable[tuple[Tensor, Tensor]]:
    """(x, y) in at most `parts` pieces whose sizes differ by at most one; each of x moves when its turn comes."""
    if parts == 1:
        return [(x.to(device, non_blocking=True), y)]
    parts = min(parts, len(x))
    pieces = zip(x.tensor_split(parts), y.tensor_split(parts), strict=True)
    return ((x_part.to(device, non_blocking=True), y_part) for x_part, y_part in pieces)


def train(
    model: nn.Module,
    train_data: Dataset,
    val_data: Dataset | None = None,
    config: Config | None = None,
    *,
    run: str | Path | None = None,
    labels: dict[str, str | float] | None = None,
    loss: Loss = cross_entropy_sum,
) -> "Result":
    """Train `model` in place for config.steps steps and return the history.

    train_data, val_data: datasets of (x, y) pairs (utils.data.order says what they may draw at random). Selection and early
    stopping see val_data only; there is no place for a test set.
    run: a folder for the log, the checkpoints and the metadata. If it holds an unfinished run of the same config, that
    run is resumed from its newest whole checkpoint and ends with the same bits as if it had never stopped.
    labels: what else decides the run, such as the data's name: kept in the metadata, and a folder of others is refused.
    loss: (outputs, targets) → the loss summed over the targets.

    Started by torchrun, n processes train as one: each on its share of every batch, the gradients summed, rank 0 writing.
    With config.parallel="fsdp" they train parts of a copy; `model` is overwritten by it at the end, or before bad gradients
    raise.
    On SIGTERM it finishes the step, saves, and exits with 143. The caller's random streams are left as they were.

    Raises ValueError for what cannot work (before anything is written), FloatingPointError for gradients, losses or buffers
    that are not finite, RuntimeError if a checkpoint cannot be written.
    """
    config = Config() if config is None else config
    check_kinds(model, config, loss)
    ranks = started()
    device = ranks.pick_device(config.device)
    require_dataset(train_data, "train_data")
    order = _order(train_data, config, ranks)
    folder = RunFolder(run, config, len(train_data), labels, ranks) if run is not None else None
    log = folder.log if folder else Log(ranks=ranks)
    best_weights = None

    with (
        joined(ranks),
        own_random_streams(config.seed),
        deterministic_algorithms(config.deterministic),
        Termination() as sigterm,
        folder or nullcontext(),
    ):
        check_ranks(ranks, config, order, val_data, run)
        state = State(model, config, device, ranks)
        check_fit(state, train_data, loss, "train_data")
        check_smallest_part(state, train_data, order)
        state.rehearse(train_data)
        if val_data is not None:
            check_fit(state, val_data, loss, "val_data")
        watch = Watch(state, order, log)
        watch.count_flops(train_data, loss)
        if folder:
            saved = folder.newest()
            if saved:
                state.load_state_dict(saved)
            folder.begin(state.step, device)
            log.resume(state.step)
        with watch, closing(_stream(train_data, order, state)) as stream:
            for x, y in stream:
                _step_or_explain(state, x, y, loss, order)

                log_now = state.due(config.log_every)
                validate = val_data is not None and state.due(config.val_every)
                terminate = ranks.any(sigterm.asked)
                save = folder is not None and (state.due(config.save_every) or terminate)
                if state.must_settle(log_now or validate or save):
                    state.settle_blocked(order, partial(_suspect, state, train_data, order, loss))
                if log_now or validate or save:
                    state.require_finite()
                if log_now:
                    watch.log_step()
                if validate:
                    with watch.paused():
                        scores = evaluate(state.evaluated, val_data, loss=loss, ranks=ranks, **_as_in(config))
                        log.add(step=state.step, val_loss=scores.loss, val_accuracy=scores.accuracy)
                        if state.judge(scores.loss):
                            best_weights = _keep_best(state, folder)
                if save or (folder and state.stopped_early):
                    with watch.paused():
                        folder.save(state.state_dict(), state.step, state.seconds)
                if terminate:
                    raise SystemExit(SIGTERM_EXIT)
                if state.stopped_early:
                    break
        return Result(log, state, best_weights)


class Scores(NamedTuple):
    """What `evaluate` returns: mean loss per target, share of targets predicted right, and how many targets."""

    loss: float
    accuracy: float | None  # None unless each target is a class, and has a row of outputs
    targets: int


def evaluate(
    model: nn.Module,
    data: Dataset,
    *,
    batch_size: int = 256,
    precision: str = "fp32",
    workers: int = 0,
    worker_timeout: float = 0,
    loss: Loss = cross_entropy_sum,
    ranks: Ranks = ALONE,
) -> Scores:
    """Average over every example of `data`, in order, changing nothing: not the modes, the buffers, or a random stream.

    workers fetch the batches, if there are any; to wait for one longer than worker_timeout seconds is an error (0: never).
    Of several ranks each takes its share of every batch, and all return the scores of the whole.
    """
    require_dataset(data, "data")
    device = next((p.device for p in model.parameters()), CPU)
    order = Order(
        len(data), batch_size, shuffle=False, device=device_of(data), rank=ranks.rank, world=ranks.world, lend=True
    )
    nats, right, classes = Mean(device), Mean(device), True
    pin = device.type == "cuda"
    stream = batches(data, order, 0, order.steps_per_epoch, workers=workers, timeout=worker_timeout, pin=pin)
    with evaluating(model), own_random_streams(), torch.no_grad(), closing(stream):
        for step, (x, y) in enumerate(stream):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            try:
                with autocast(device, precision):
                    outputs = model(x)
                    total = loss(outputs, y)
            except Exception as error:
                explain(error, f"the evaluation, examples {shortened(order.indices(step))}")
                raise
            targets = count_targets(y)
            classes = not y.is_floating_point() and y.shape == outputs.shape[:-1]
            if order.borrows(step):
                continue  # its owner counts it
            nats.add([total], targets)
            if classes:
                right.add([count_correct(outputs, y)], targets)
    nats, right = nats.over(ranks), right.over(ranks)
    return Scores(nats.value(), right.value() if classes else None, int(nats.sums[1]))


class Result:
    """What `train` returns. The model itself was trained in place.

    history: log and validation records, in order; what stands under "measured" differs from run to run. Those from before
    a resume are read from the log when they are first asked for.
    ema: the averaged model, or None. steps: made. skipped: of these, with a blocked update. best: {"step", "val_loss"} of
    the best validation, or None. best_weights: the state_dict that was validated then; None if it lies in the run folder.
    """

    def __init__(self, log: Log, state: State, best_weights: dict | None):
        self._log = log
        self.model, self.ema = state.gathered(state.model), state.gathered(state.ema and state.evaluated)
        self.steps, self.skipped, self.stopped_early = state.step, state.skipped, state.stopped_early
        self.best, self.best_weights = state.best, best_weights

    @property
    def history(self) -> list[dict]:
        return self._log.records


def _step_or_explain(state: State, x: Tensor, y: Tensor, loss: Loss, order: Order) -> None:
    try:
        train_step(state, x, y, loss)
    except Exception as error:
        explain(error, f"step {state.step + 1}, examples {shortened(order.indices(state.step))}")
        raise


def _suspect(state: State, data: Dataset, order: Order, loss: Loss, step: int) -> str:
    """What in a step, counted from 0, was not finite: the first that any rank finds when it repeats its part of it."""
    x, y = next(batches(data, order, step, step + 1))
    parts = micro_batches(x, y, state.parts, state.device)
    found = state.ranks.gather(first_not_finite(state.model, loss, parts, state.autocast))
    suspects = [what + f" on rank {rank}" * (len(found) > 1) for rank, what in enumerate(found) if what]
    # With fsdp all ranks have one rank's bad gradient, or a part of it, and all of them its norm.
    suspects.sort(key=lambda what: (what.startswith("the norm"), what.startswith("the gradient")))
    return f"{suspects[0]} is not finite" if suspects else "repeated, all in it is finite, so chance has a part in it"


def _order(data: Dataset, config: Config, ranks: Ranks) -> Order:
    shared = {"device": device_of(data), "rank": ranks.rank, "world": ranks.world}
    return Order(len(data), config.batch_size, config.seed, drop_last=config.drop_last, **shared)


def _stream(data: Dataset, order: Order, state: State) -> Iterator[tuple[Tensor, Tensor]]:
    config = state.config
    stop = state.step if state.stopped_early else config.steps
    return batches(
        data,
        order,
        state.step,
        stop,
        workers=config.workers,
        prefetch=config.prefetch,
        persistent=config.persistent_workers,
        timeout=config.worker_timeout,
        pin=state.device.type == "cuda",
    )


def _as_in(config: Config) -> dict:
    return {
        "batch_size": config.val_batch_size,
        "precision": config.precision,
        "workers": config.workers,
        "worker_timeout": config.worker_timeout,
    }


def _keep_best(state: State, folder: RunFolder | None) -> dict | None:
    if folder:
        folder.save(state.state_dict(), state.step, state.seconds, kind="best")
        return None
    return {name: whole(tensor.clone()) for name, tensor in state.evaluated.state_dict().items()}
