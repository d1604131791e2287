"""The honest training loop: one step, the loop around it, and `evaluate`.

To read one step, open this file and three more: state.py (what a step reads and writes), guards.py (what keeps a bad step
from doing harm) and metrics.py (sums and counts, divided once).

`train` is a plain function over a plain `for`. What it promises, and the tests hold it to:

1. A reported number covers every example it claims: sums and counts, divided once.
2. Watching changes nothing: log, validate and save more often, and the weights are the same, bit for bit.
3. The same config gives the same run, also if it was interrupted anywhere and resumed.
4. A crash loses nothing that was saved.
5. The test set is not an argument.
6. It fails early, with the value and the next move, before anything is overwritten.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import Dataset

from utils.data.order import CPU, Order, batches, device_of, with_collate
from utils.device import autocast, copies_from_pinned, deterministic_algorithms, is_accelerator, own_random_streams
from utils.distributed.parallel import full_tensor, sync_on_last_micro_batch, to_local
from utils.distributed.ranks import SINGLE_PROCESS, Ranks, current_ranks
from utils.distributed.rendezvous import connect
from utils.loop.config import Config
from utils.loop.diagnosis import (
    bad_gradient_message,
    name_examples_in_errors,
    out_of_memory_message,
    require_every_gradient,
    require_finite,
    require_finite_validation_loss,
    too_many_skips_message,
)
from utils.loop.guards import Snapshot, eval_mode, is_out_of_memory
from utils.loop.inputs import inputs_of
from utils.loop.log import Log
from utils.loop.metrics import (
    UNSAID_LOSS,
    Loss,
    Mean,
    Scores,
    count_beforehand,
    count_correct,
    known,
    nonzero,
    sum_and_count,
)
from utils.loop.monitor import Monitor
from utils.loop.optim import has_modes, require_all_saved
from utils.loop.preflight import (
    NOT_ADDITIVE,
    check_arguments,
    check_data,
    check_kind_of_loss,
    check_lengths,
    check_one_shape,
    check_own_loss,
    check_ranks,
    warm_up_ddp,
)
from utils.loop.run_folder import RunFolder
from utils.loop.signals import SIGTERM_EXIT, Termination
from utils.loop.state import State

EPS = 1e-6  # added to the norm before the division, as in torch
CHECK_EVERY = 50  # steps between reads of a GPU's count of skipped updates


# ---- one step --------------------------------------------------------------------------------------------------------


def train_step(state: State, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Zero, forward, loss, backward, clip, step, schedule. Nothing here waits for a GPU.

    x (B, ...), y (B, ...): this rank's examples of the batch.
    """
    y = y.to(state.device, non_blocking=True)
    before = Snapshot(state.model)  # to undo an attempt that runs out of memory, or a blocked step
    own_count, certain = count_beforehand(loss, y)
    divisor = nonzero(state.ranks.sum(own_count))
    losses, counts = zip(*forward_backward_with_retry(state, before, x, y, divisor, loss), strict=True)
    state.scaler.unscale_(state.optimizer)
    if not certain:  # by now the loss has said it
        own_count = torch.stack(counts).sum(dtype=torch.float64)
        scale_gradients(state.parameters, divisor / nonzero(state.ranks.sum(own_count)))
    state.norm = clip_gradients(state.parameters, state.config.clip)  # the norm before clipping
    state.guard.block_unless_finite(state.norm)
    state.optimizer.step()
    state.scaler.update()
    state.scheduler.step()
    state.guard.undo_buffers(before)
    if state.ema:
        state.ema.update(state.parameters, unless=state.guard.bad)
    state.train_loss.add(losses, own_count, unless=state.guard.bad)
    state.step += 1


def forward_backward_with_retry(
    state: State, before: Snapshot, x: Tensor, y: Tensor, divisor: Tensor, loss: Loss
) -> list[tuple[Tensor, Tensor]]:
    """Return forward_backward(…). Each time that memory runs out, undo the attempt and halve the micro-batches."""
    while True:
        try:
            return forward_backward(state, x, y, divisor, loss)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            failure = error.with_traceback(None)  # a traceback keeps the tensors of the failed attempt alive
        halve_micro_batches(state, before, failure, x, y)


def forward_backward(state: State, x: Tensor, y: Tensor, divisor: Tensor, loss: Loss) -> list[tuple[Tensor, Tensor]]:
    """Compute the gradient of the batch's loss, one micro-batch at a time; return the sum and the count of each.

    Every sum is divided by the count of the whole batch, so micro-batches and ranks may have different sizes.
    """
    zero_grad(state.all_parameters)
    parts = []
    for x_part, y_part in micro_batches(state, x, y):
        with state.autocast:
            total, count = sum_and_count(loss, state.forward(x_part), y_part)
        state.scaler.scale(total / divisor).backward()
        parts.append((total.detach(), count))
    state.require_same_training()
    require_every_gradient(state)
    return parts


def micro_batches(state: State, x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(x, y) in at most state.n_micro_batches parts whose sizes differ by at most one; each x moves to the device here."""
    count = min(state.n_micro_batches, len(x), state.smallest_share)  # as many on every rank
    parts = zip(x.tensor_split(count), y.tensor_split(count), strict=True)
    if state.ranks.world > 1:
        parts = sync_on_last_micro_batch(state.forward, parts, count)
    for x_part, y_part in parts:
        yield x_part.to(state.device, non_blocking=True), y_part


def halve_micro_batches(state: State, before: Snapshot, error: Exception, x: Tensor, y: Tensor) -> None:
    """Undo the attempt at this step that ran out of memory, and use micro-batches half as large from now on.

    Raises the error again, with the bytes in use besides activations, if a single example is too much, and where the loss
    needs the whole batch. Raises RuntimeError with several ranks, because the others are already summing their gradients.
    """
    if state.n_micro_batches >= len(x):
        raise type(error)(out_of_memory_message(state, error, x, y)) from error
    if not state.additive:
        raise type(error)(
            f"out of memory at step {state.step + 1} with {len(x)} examples, and {NOT_ADDITIVE}. Take a smaller batch_size, "
            "with which the loss compares fewer examples, or a device with more memory"
        ) from error
    if state.ranks.world > 1:
        raise RuntimeError(
            f"out of memory at step {state.step + 1} on rank {state.ranks.rank}, which cannot repeat it without the "
            f"others: start again with accumulation={2 * state.n_micro_batches}, or with more ranks"
        )
    state.optimizer.zero_grad()
    before.restore()
    if is_accelerator(state.device):
        torch.get_device_module(state.device).empty_cache()
    state.n_micro_batches *= 2
    print(
        f"out of memory at step {state.step + 1}: this step and all after it run in {state.n_micro_batches} micro-batches"
    )


def zero_grad(parameters: list[Tensor]) -> None:
    """optimizer.zero_grad() without its record for the profiler, which takes longer than the rest."""
    for parameter in parameters:
        parameter.grad = None


def scale_gradients(parameters: list[Tensor], factor: Tensor) -> None:
    """Multiply all gradients in place by `factor`, 0-dim."""
    gradients = to_local(parameter.grad for parameter in parameters if parameter.grad is not None)
    if gradients:
        torch._foreach_mul_(gradients, factor.to(gradients[0].dtype))


def clip_gradients(parameters: list[Tensor], limit: float) -> Tensor:
    """Scale all gradients in place by one factor, so that their global L2 norm is at most `limit` (0: no limit).

    Returns the norm before scaling, 0-dim; it is NaN or infinite if any entry is. The result has the bits of torch's
    clip_grad_norm_, which sorts the gradients by device first and takes twice as long.

    Raises ValueError if no parameter has a gradient.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise ValueError("backward has reached no parameter that trains: is something detached on the way to the loss?")
    try:
        norms = torch._foreach_norm(gradients)
    except NotImplementedError as error:  # torch's text speaks of its backends
        raise ValueError(
            "a gradient is sparse, which can neither be clipped nor kept from being infinite: look rows up with "
            "sparse=False, and take an optimizer for dense gradients"
        ) from error
    norm = torch.linalg.vector_norm(torch.stack(norms))
    if limit:
        torch._foreach_mul_(gradients, (limit / (norm + EPS)).clamp(max=1.0))
    return norm.full_tensor() if isinstance(norm, DTensor) else norm  # FSDP returns it in parts


# ---- the loop --------------------------------------------------------------------------------------------------------


def train(
    model: nn.Module,
    train_data: Dataset,
    val_data: Dataset | None = None,
    config: Config | None = None,
    *,
    run: str | Path | None = None,
    labels: dict[str, str | float] | None = None,
    loss: Loss = UNSAID_LOSS,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    collate: Callable[[list], tuple[Tensor, Tensor]] | None = None,
    on_log: Callable[[dict, nn.Module], None] | None = None,
    progress: bool = False,
    dollars_per_hour: float = 0.0,
    peak_flops: float = 0.0,
) -> "Result":
    """Train `model` in place for config.steps steps and return the history.

    train_data, val_data: datasets of (x, y) pairs (utils.data.order says what they may draw at random). Selection and
    early stopping see val_data only; there is no place for a test set.
    run: a folder for the log, the checkpoints and the metadata. If it holds an unfinished run of the same config, that
    run is resumed from its newest complete checkpoint and ends with the same bits as if it had never stopped.
    labels: whatever else decides the run, such as the data's name: saved as metadata; others forbid a resume.
    loss: a loss module of torch, whose mean over the whole batch is trained and reported; or (outputs, targets) → (the loss
    summed over the targets, what to divide it by); or → the sum alone, if that is over all targets. None given:
    cross-entropy of outputs (..., K). Where the loss of a batch is not the sum of its parts' (a contrastive one),
    accumulation, several ranks and halving are refused, and validation takes val_batch_size examples at a time.
    optimizer: model → an optimizer with groups of its own, whose rates the schedule scales; none: config.optimizer. It may
    add adapters to the model, or freeze parts. One with two modes is in eval() for validation, on_log, saves and at the end.
    collate: list of examples → (x, y), where torch cannot stack them: examples of several lengths, or dicts.
    on_log: called on rank 0 with each log record and the model, in eval mode; it may look, not change.
    progress: show a progress bar.
    dollars_per_hour: price of the machine, for the cost in the run's metadata.
    peak_flops: peak FLOP/s of one device, for MFU; 0: the published peak of the GPU, or no MFU if it is unknown. On a GPU
    convolutions in fp32 run in tf32, unless torch.backends.cudnn.allow_tf32 is False: then give the peak of tf32.

    Under torchrun n processes train one model: each on its share of every batch, with summed gradients; rank 0 writes.
    With config.parallel="fsdp" each holds shards of a copy, which is copied into `model` at the end.
    On SIGTERM, SIGHUP or SIGUSR1 it finishes the step, saves, and exits with 143. The caller's random streams do not change.

    Raises ValueError for arguments that cannot work (before anything is written), FloatingPointError for gradients, losses
    or buffers that are not finite, RuntimeError if a checkpoint cannot be written, or if what trains changes during the run.
    """
    config = Config() if config is None else config
    check_arguments(model, config, loss, optimizer, on_log, progress, dollars_per_hour, peak_flops)
    train_data = with_collate(train_data, collate, "train_data")
    if val_data is not None:
        val_data = with_collate(val_data, collate, "val_data")
    ranks = current_ranks()
    device = ranks.pick_device(config.device)
    order = Order(
        len(train_data),
        config.batch_size,
        config.seed,
        drop_last=config.drop_last,
        rank=ranks.rank,
        world=ranks.world,
        device=device_of(train_data),
        pad=True,
    )
    folder = None if run is None else RunFolder(run, config, len(train_data), labels, ranks, dollars_per_hour)
    log = folder.log if folder else Log(ranks=ranks)
    with (
        connect(ranks),
        own_random_streams(config.seed),
        deterministic_algorithms(config.deterministic),
        Termination() as sigterm,
        folder or nullcontext(),
    ):
        check_ranks(ranks, config, order, val_data, run, peak_flops)
        state = State(model, config, device, ranks, optimizer)
        check_data(state, order, train_data, val_data, loss)
        warm_up_ddp(state, train_data)
        monitor = Monitor(state, order, log, train_data, loss, on_log, progress, peak_flops)
        if folder:
            require_all_saved(state.optimizer)
            folder.resume(state, inputs_of(state, train_data, val_data, loss, optimizer is not None))
        end = state.step if state.stopped_early else config.steps  # a run that has stopped early stays as it is
        stream = batches(train_data, order, state.step, end, **config.loading(device))
        with monitor, closing(stream):
            for x, y in stream:
                state.smallest_share = order.smallest_share(state.step)
                if collate:
                    check_lengths(x, y, len(order.indices(state.step)))
                if order.is_padding(state.step):  # a rank without examples takes part with one that has no targets
                    y = y[:0]
                with name_examples_in_errors(order, state.step, f"step {state.step + 1}"):
                    train_step(state, x, y, loss)

                log_now = state.due(config.log_every)
                validate_now = val_data is not None and state.due(config.val_every)
                stop = ranks.any(sigterm.asked)
                save_now = folder is not None and (state.due(config.save_every) or stop)
                check_updates(state, order, train_data, loss, watching=log_now or validate_now or save_now)
                if log_now:
                    monitor.log_step()
                if validate_now:
                    with monitor.paused(), state.weights_to_evaluate():
                        validate(state, val_data, loss, log, folder)
                if save_now or (folder and state.stopped_early):
                    with monitor.paused(), state.weights_to_evaluate():
                        folder.save(state.state_dict(), state.step, state.seconds)
                if stop:
                    raise SystemExit(SIGTERM_EXIT)
                if state.stopped_early:
                    break
        if has_modes(state.optimizer):
            state.optimizer.eval()
        return Result(log, state)


def check_updates(state: State, order: Order, data: Dataset, loss: Loss, watching: bool) -> None:
    """Raise if updates were blocked under the policy "raise", or if weights or buffers are not finite; otherwise rewind
    the schedule by the blocked steps.

    A CPU is read at every step. Reading a GPU means waiting for it, and rewinding the schedule changes the run: so the
    GPU is read at fixed steps that do not depend on logging or validation. If blocked updates have ended the run, it is
    also read before anything is logged or saved.

    Raises FloatingPointError under the policy "raise", and after config.max_skips blocked updates in a row.
    """
    if state.guard.on_host:
        check_now = state.guard.bad is not None
    else:
        check_now = state.due(CHECK_EVERY) or (watching and state.guard.over)
    if check_now and state.guard.bad is not None:
        check_skipped_updates(state, order, data, loss)
    if watching:
        state.require_same_parameters()
        require_finite(state)


def check_skipped_updates(state: State, order: Order, data: Dataset, loss: Loss) -> None:
    """Read the device's count of skipped updates; raise, or rewind the schedule."""
    newly_skipped = int(state.guard.blocked) - state.skipped
    if newly_skipped:
        require_finite(state)  # the cause may be a bad weight, not a bad gradient
    if state.guard.over:
        state.whole_model(state.model)  # with FSDP the caller's model gets the weights
        first_bad = state.step - int(state.guard.streak)  # from 0; all later ones were blocked too
        if state.raises_on_nonfinite:
            raise FloatingPointError(bad_gradient_message(state, order, data, loss, first_bad))
        raise FloatingPointError(too_many_skips_message(state, order, first_bad))
    if newly_skipped:
        state.skipped += newly_skipped
        if state.guard.on_host:
            state.skipped_steps = [*state.skipped_steps, f"{state.step}"]
        else:
            first = (state.step - 1) // CHECK_EVERY * CHECK_EVERY + 1
            state.skipped_steps = [*state.skipped_steps, f"{newly_skipped} of {first} to {state.step}"]
        state.scheduler.last_epoch -= newly_skipped + 1  # as if these steps had not happened
        state.scheduler.step()


def validate(state: State, data: Dataset, loss: Loss, log: Log, folder: RunFolder | None) -> None:
    """Evaluate and log. Save the best weights so far: in the run folder, or without one as a copy in `state`."""
    config = state.config
    scores = score(
        state.validation_model,
        data,
        config.val_batch_size,
        config.precision,
        config.workers,
        config.worker_timeout,
        loss,
        state.ranks,
    )
    log.add(step=state.step, val_loss=scores.loss, val_accuracy=scores.accuracy)
    require_finite_validation_loss(state, scores.loss)
    if not state.is_best(scores.loss):
        return
    if folder:
        folder.save(state.state_dict(), state.step, state.seconds, kind="best")
    else:
        state.best_weights = {
            name: full_tensor(value.clone()) if isinstance(value, Tensor) else value
            for name, value in state.validation_model.state_dict().items()
        }


class Result:
    """The result of `train`, which trains the model in place.

    history: log and validation records, in order; only values under "measured" differ from run to run. ema: the averaged
    model, or None. steps: the number made. skipped: how many of these had a blocked update. best: {"step", "val_loss"} of
    the best validation, or None. best_weights: the state_dict validated then; None if it is in the run folder.
    """

    def __init__(self, log: Log, state: State):
        self._log = log  # reads a resumed run's earlier records at the first access
        self.model = state.whole_model(state.model)
        self.ema = state.whole_model(state.validation_model) if state.ema else None
        self.steps = state.step
        self.skipped = int(state.guard.blocked)
        self.stopped_early = state.stopped_early
        self.best = state.best
        self.best_weights = state.best_weights

    @property
    def history(self) -> list[dict]:
        return self._log.records


# ---- evaluation ------------------------------------------------------------------------------------------------------


def evaluate(
    model: nn.Module,
    data: Dataset,
    *,
    batch_size: int = 256,
    precision: str = "fp32",
    workers: int = 0,
    worker_timeout: float = 0,
    loss: Loss = UNSAID_LOSS,
    collate: Callable[[list], tuple[Tensor, Tensor]] | None = None,
    ranks: Ranks = SINGLE_PROCESS,
) -> Scores:
    """Average over every example of `data`, in order. Changes no module's mode, no buffer and no random stream.

    workers: processes that load the batches; a wait of more than worker_timeout seconds is an error (0: no limit).
    loss, collate: as for train. accuracy: of a cross-entropy of class indices, else None.
    With several ranks, each takes its share of every batch, and all return the scores of the whole.
    """
    data = with_collate(data, collate, "data")
    check_kind_of_loss(loss)
    if not known(loss) and len(data):
        check_own_loss(model, data, loss, device_of_model(model), precision)
    return score(model, data, batch_size, precision, workers, worker_timeout, loss, ranks)


def device_of_model(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), CPU)


def score(
    model: nn.Module,
    data: Dataset,
    batch_size: int,
    precision: str,
    workers: int,
    worker_timeout: float,
    loss: Loss,
    ranks: Ranks,
) -> Scores:
    """What `evaluate` returns, without its trial of the loss."""
    device = device_of_model(model)
    order = Order(
        len(data),
        batch_size,
        shuffle=False,
        rank=ranks.rank,
        world=ranks.world,
        device=device_of(data),
        pad=True,
    )
    pin = copies_from_pinned(device)
    stream = batches(data, order, 0, order.steps_per_epoch, workers=workers, timeout=worker_timeout, pin=pin)
    mean_loss = Mean(device)
    accuracy = Mean(device)
    correct = None
    with eval_mode(model), own_random_streams(), torch.no_grad(), closing(stream):
        for step, (x, y) in enumerate(stream):
            if hasattr(data, "collate"):
                check_lengths(x, y, len(order.indices(step)))
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            with name_examples_in_errors(order, step, "the evaluation"), autocast(device, precision):
                outputs = model(x)
                if step == 0:
                    check_one_shape(loss, outputs, y, f"outputs {tuple(outputs.shape)}, targets {tuple(y.shape)}")
                total, count = sum_and_count(loss, outputs, y)
            correct = count_correct(loss, outputs, y)
            if order.is_padding(step):
                continue  # counted by the rank that it belongs to
            mean_loss.add([total], count)
            if correct:
                accuracy.add([correct[0]], correct[1])
    mean_loss = mean_loss.over(ranks)
    accuracy = accuracy.over(ranks)
    targets = (accuracy if correct else mean_loss).sums[1]
    return Scores(mean_loss.value(), accuracy.value() if correct else None, targets)
