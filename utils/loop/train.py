"""The honest training loop: `train` and `evaluate`. Read this file first, then optim, guards, state and metrics.

`train` is a plain function over a plain `for`. What it promises, and the tests hold it to:

1. A reported number covers every example it claims: sums and counts, divided once.
2. Watching changes nothing: log, validate and save more often, and the weights are the same, bit for bit.
3. The same config gives the same run, also if it was interrupted anywhere and resumed.
4. A crash loses nothing that was saved.
5. The test set is not an argument.
6. It fails early, with the value and the next move, before anything is overwritten.
"""

from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.data.order import CPU, Order, batches, collated, device_of
from utils.device import autocast, copies_from_pinned, deterministic_algorithms, own_random_streams
from utils.distributed.parallel import full_tensor, sync_on_last_micro_batch
from utils.distributed.ranks import SINGLE_PROCESS, Ranks, started
from utils.distributed.rendezvous import joined
from utils.loop.config import Config
from utils.loop.diagnosis import check_updates, explained, halve_micro_batches, require_finite_validation_loss
from utils.loop.guards import Snapshot, eval_mode, retry_in_smaller_parts
from utils.loop.inputs import inputs_of
from utils.loop.log import Log
from utils.loop.metrics import Mean, Scores, count_correct, count_targets, cross_entropy_sum, no_loss
from utils.loop.monitor import Monitor
from utils.loop.optim import clip_gradients, zero_grad
from utils.loop.preflight import check_data, check_kinds, check_ranks, warm_up_ddp
from utils.loop.result import Result
from utils.loop.run_folder import RunFolder
from utils.loop.signals import SIGTERM_EXIT, Termination
from utils.loop.state import State

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) → the loss summed over the targets, 0-dim


def train_step(state: State, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Zero, forward, loss, backward, clip, step, schedule. Nothing here waits for a GPU.

    x (B, ...), y (B, ...): this rank's examples of the batch.
    """
    y = y.to(state.device, non_blocking=True)
    before = Snapshot(state.model)  # to undo an attempt that runs out of memory, or a blocked step
    own_targets = count_targets(y)
    targets = state.ranks.sum(own_targets) if state.ranks.world > 1 else own_targets  # of the whole batch
    losses = retry_in_smaller_parts(
        lambda: forward_backward(state, x, y, targets.clamp(min=1), loss),
        halve=lambda error: halve_micro_batches(state, before, error, x, y),
    )
    state.scaler.unscale_(state.optimizer)
    state.norm = clip_gradients(state.parameters, state.config.clip)  # the norm before clipping
    state.guard.block_unless_finite(state.norm)
    state.optimizer.step()
    state.scaler.update()
    state.scheduler.step()
    state.guard.undo_buffers(before)
    if state.ema:
        state.ema.update(state.parameters, unless=state.guard.bad)
    state.train_loss.add(losses, own_targets, unless=state.guard.bad)
    state.step += 1


def forward_backward(state: State, x: Tensor, y: Tensor, targets: Tensor, loss: Loss) -> list[Tensor]:
    """Compute the gradient of the batch's mean loss, one micro-batch at a time; return the summed loss of each.

    Every sum is divided by the targets of the whole batch, so micro-batches and ranks may have different sizes.
    """
    zero_grad(state.parameters)
    losses = []
    for x_part, y_part in micro_batches(state, x, y):
        with state.autocast:
            total = loss(state.forward(x_part), y_part)
        state.scaler.scale(total / targets).backward()
        losses.append(total.detach())
    return losses


def micro_batches(state: State, x: Tensor, y: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    """(x, y) in at most state.parts pieces whose sizes differ by at most one; x moves to the device piece by piece."""
    count = min(state.parts, len(x), state.fewest)  # as many on every rank
    pairs = zip(x.tensor_split(count), y.tensor_split(count), strict=True)
    parts = ((x_part.to(state.device, non_blocking=True), y_part) for x_part, y_part in pairs)
    return sync_on_last_micro_batch(state.forward, parts, count) if state.ranks.world > 1 else parts


def train(
    model: nn.Module,
    train_data: Dataset,
    val_data: Dataset | None = None,
    config: Config | None = None,
    *,
    run: str | Path | None = None,
    labels: dict[str, str | float] | None = None,
    loss: Loss = cross_entropy_sum,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    collate: Callable[[list], tuple[Tensor, Tensor]] | None = None,
    on_log: Callable[[dict, nn.Module], None] | None = None,
) -> Result:
    """Train `model` in place for config.steps steps and return the history.

    train_data, val_data: datasets of (x, y) pairs (utils.data.order says what they may draw at random). Selection and
    early stopping see val_data only; there is no place for a test set.
    run: a folder for the log, the checkpoints and the metadata. If it holds an unfinished run of the same config, that
    run is resumed from its newest complete checkpoint and ends with the same bits as if it had never stopped.
    labels: whatever else decides the run, such as the data's name: saved as metadata; others forbid a resume.
    loss: (outputs, targets) → the loss summed over the targets.
    optimizer: model → an optimizer with groups of its own, whose rates the schedule scales; none: config.optimizer.
    collate: list of examples → (x, y), where torch cannot stack them: examples of several lengths, or dicts.
    on_log: called on rank 0 with each log record and the model, in eval mode; it may look, not change.

    Under torchrun n processes train one model: each on its share of every batch, with summed gradients; rank 0 writes.
    With config.parallel="fsdp" each holds shards of a copy, which is copied into `model` at the end.
    On SIGTERM, SIGHUP or SIGUSR1 it finishes the step, saves, and exits with 143. The caller's random streams do not change.

    Raises ValueError for arguments that cannot work (before anything is written), FloatingPointError for gradients, losses
    or buffers that are not finite, RuntimeError if a checkpoint cannot be written.
    """
    config = Config() if config is None else config
    check_kinds(model, config, loss, optimizer=optimizer, on_log=on_log)
    train_data = collated(train_data, collate, "train_data")
    val_data = None if val_data is None else collated(val_data, collate, "val_data")
    ranks = started()
    device = ranks.pick_device(config.device)
    own = {"rank": ranks.rank, "world": ranks.world, "device": device_of(train_data), "pad": True}
    order = Order(len(train_data), config.batch_size, config.seed, drop_last=config.drop_last, **own)
    folder = RunFolder(run, config, len(train_data), labels, ranks) if run is not None else None
    log = folder.log if folder else Log(ranks=ranks)
    with (
        joined(ranks),
        own_random_streams(config.seed),
        deterministic_algorithms(config.deterministic),
        Termination() as sigterm,
        folder or nullcontext(),
    ):
        check_ranks(ranks, config, order, val_data, run)
        state = State(model, config, device, ranks, optimizer)
        check_data(state, order, train_data, val_data, loss)
        warm_up_ddp(state, train_data)
        monitor = Monitor(state, order, log, train_data, loss, on_log)
        if folder:
            folder.resume(state, inputs_of(state, train_data, val_data, loss, optimizer is not None))
        steps = range(state.step, state.step if state.stopped_early else config.steps)
        with monitor, closing(batches(train_data, order, steps.start, steps.stop, **config.loading(device))) as stream:
            for x, y in stream:
                state.fewest, padding = order.fewest(state.step), order.is_padding(state.step)
                with explained(order, state.step, f"step {state.step + 1}"):  # padding: an example without targets
                    train_step(state, x, y[:0] if padding else y, no_loss if padding else loss)

                log_now = state.due(config.log_every)
                validate_now = val_data is not None and state.due(config.val_every)
                stop = ranks.any(sigterm.asked)
                save_now = folder is not None and (state.due(config.save_every) or stop)
                check_updates(state, order, train_data, loss, watching=log_now or validate_now or save_now)
                if log_now:
                    monitor.log_step()
                if validate_now:
                    with monitor.paused():
                        validate(state, val_data, loss, log, folder)
                if save_now or (folder and state.stopped_early):
                    with monitor.paused():
                        folder.save(state.state_dict(), state.step, state.seconds)
                if stop:
                    raise SystemExit(SIGTERM_EXIT)
                if state.stopped_early:
                    break
        return Result(log, state)


def validate(state: State, data: Dataset, loss: Loss, log: Log, folder: RunFolder | None) -> None:
    """Evaluate and log. Save the best weights so far: in the run folder, or without one as a copy in `state`."""
    c = state.config
    options = {"batch_size": c.val_batch_size, "workers": c.workers, "worker_timeout": c.worker_timeout}
    scores = evaluate(state.evaluated, data, precision=c.precision, loss=loss, ranks=state.ranks, **options)
    log.add(step=state.step, val_loss=scores.loss, val_accuracy=scores.accuracy)
    require_finite_validation_loss(state, scores.loss)
    if not state.is_best(scores.loss):
        return
    if folder:
        folder.save(state.state_dict(), state.step, state.seconds, kind="best")
    else:
        weights = state.evaluated.state_dict()
        state.best_weights = {n: full_tensor(t.clone()) if isinstance(t, Tensor) else t for n, t in weights.items()}


def evaluate(
    model: nn.Module,
    data: Dataset,
    *,
    batch_size: int = 256,
    precision: str = "fp32",
    workers: int = 0,
    worker_timeout: float = 0,
    loss: Loss = cross_entropy_sum,
    collate: Callable[[list], tuple[Tensor, Tensor]] | None = None,
    ranks: Ranks = SINGLE_PROCESS,
) -> Scores:
    """Average over every example of `data`, in order. Changes no module's mode, no buffer and no random stream.

    workers: processes that load the batches; a wait of more than worker_timeout seconds is an error (0: no limit).
    loss, collate: as for train.
    With several ranks, each takes its share of every batch, and all return the scores of the whole.
    """
    data = collated(data, collate, "data")
    device = next((p.device for p in model.parameters()), CPU)
    own = {"rank": ranks.rank, "world": ranks.world, "device": device_of(data)}
    order = Order(len(data), batch_size, shuffle=False, pad=True, **own)
    steps, pin = order.steps_per_epoch, copies_from_pinned(device)
    nats, right, classes = Mean(device), Mean(device), True
    stream = batches(data, order, 0, steps, workers=workers, timeout=worker_timeout, pin=pin)
    with eval_mode(model), own_random_streams(), torch.no_grad(), closing(stream):
        for step, (x, y) in enumerate(stream):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with explained(order, step, "the evaluation"), autocast(device, precision):
                outputs = model(x)
                total = loss(outputs, y)
            targets = count_targets(y)
            classes = not y.is_floating_point() and y.shape == outputs.shape[:-1] and outputs.shape[-1] > 1
            if order.is_padding(step):
                continue  # counted by the rank that it belongs to
            nats.add([total], targets)
            if classes:
                right.add([count_correct(outputs, y)], targets)
    nats, right = nats.over(ranks), right.over(ranks)
    return Scores(nats.value(), right.value() if classes else None, int(nats.sums[1]))
