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

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import Dataset

from utils.data.order import CPU, Order, batches, device_of, is_stream, with_collate
from utils.data.own_order import OwnOrder
from utils.data.trees import Tree, count_examples, rows, split, to_device
from utils.device import autocast, copies_from_pinned, deterministic_algorithms, is_accelerator, own_random_streams
from utils.distributed.parallel import sync_on_last_micro_batch, to_local
from utils.distributed.ranks import SINGLE_PROCESS, Ranks, current_ranks
from utils.distributed.rendezvous import connect
from utils.loop.attributes import attributes_put_back
from utils.loop.batch_form import check_batch, pair_of
from utils.loop.config import Config
from utils.loop.diagnosis import (
    bad_gradient_message,
    explain,
    format_batch,
    name_examples_in_errors,
    out_of_memory_message,
    require_every_gradient,
    require_finite,
    require_finite_validation_loss,
    selected_number,
    too_many_skips_message,
)
from utils.loop.draws import check_draws
from utils.loop.guards import eval_mode, is_out_of_memory
from utils.loop.hooks import OnStep
from utils.loop.inputs import inputs_of
from utils.loop.log import Log
from utils.loop.metrics import (
    UNSAID_LOSS,
    KnownLoss,
    Loss,
    Mean,
    Scores,
    as_known_loss,
    count_beforehand,
    count_correct,
    or_one,
    sum_and_count,
)
from utils.loop.monitor import Monitor
from utils.loop.optim import has_modes, require_all_saved
from utils.loop.preflight import (
    NOT_ADDITIVE,
    check_arguments,
    check_data,
    check_kind_of_loss,
    check_outputs_and_targets,
    check_own_loss,
    check_ranks,
    check_selection,
    warm_up_ddp,
)
from utils.loop.reading import Stream, examples_of_first_batch, own_order
from utils.loop.run_folder import RunFolder
from utils.loop.schedule import Schedule, factors_of, name_of_schedule
from utils.loop.signals import Termination
from utils.loop.state import State

EPS = 1e-6  # added to the norm before the division, as in torch
CHECK_EVERY = 50  # steps between reads of a GPU's count of skipped updates


# ---- one step --------------------------------------------------------------------------------------------------------


def train_step(state: State, x: Tree, y: Tree, loss: Loss) -> None:
    """Zero, forward, backward, clip, step, schedule: the verbs and the order of lecture 09. Nothing here waits for a GPU.


    x (B, ...), y (B, ...): this rank's examples of the batch, each one tensor or a tree of them.

    What a GPU runs here beyond a loop by hand of the same maths, and what it is good for:
        ne, count_nonzero, clamp, eq, add, div: the sum of the losses is divided once, by the count of all parts and ranks
        stack, sum, _to_copy, _foreach_mul_: a loss that says its count when it is called may correct that count afterwards
        lt, logical_not_, ge, logical_or_, copy_, mul_, _foreach_sub_: a step that is not finite is left out, nobody waiting
        clone, where: then buffers are as before
        masked_fill, add_: then the average of the weights and the mean of the losses are as before
    """
    y = to_device(y, state.device, non_blocking=True)
    state.before.take()  # to undo an attempt that runs out of memory, or a step that is left out
    count = count_beforehand(loss, y)
    on_host = state.guard.on_host
    divisor = or_one(state.ranks.sum(count), on_host)  # as in lecture 09, "Accumulate": sums, divided once
    parts = forward_backward_with_retry(state, x, y, divisor, loss)  # zero, forward, backward
    losses, counts = zip(*parts, strict=True)
    state.scaler.unscale_(state.optimizer)  # before the clip, as in lecture 08; nothing to do but in fp16
    if not isinstance(loss, KnownLoss):  # it has said its count by now
        count = torch.stack(counts).sum(dtype=torch.float64)
        scale_gradients(state.parameters, divisor / or_one(state.ranks.sum(count), on_host))
    state.norm = clip_gradients(state.parameters, state.config.clip)  # the norm before clipping
    state.guard.block_unless_finite(state.norm)
    # Lecture 08 has scaler.step(optimizer) here, which leaves out a step with an infinite gradient, in fp16 only. The guard
    # has just told the optimizer to do so in every precision, and the gradients are unscaled: the plain step is right.
    state.optimizer.step()
    state.scaler.update()
    # Lecture 08 lets the schedule wait if the step was left out. On a GPU nobody here knows whether it was: the schedule
    # moves on, and check_skipped_updates sets it back.
    state.scheduler.step()
    state.before.note_uncounted_writes()
    state.guard.undo_buffers(state.before)
    if state.ema:
        state.ema.update(state.parameters, unless=state.guard.step_blocked)
    state.train_loss.add(losses, count, unless=state.guard.step_blocked)
    if isinstance(loss, KnownLoss) and loss.count_labels:
        state.labels.add([], loss.count_labels(y), unless=state.guard.step_blocked)
    state.step += 1


def forward_backward_with_retry(
    state: State, x: Tree, y: Tree, divisor: Tensor, loss: Loss
) -> list[tuple[Tensor, Tensor | None]]:
    """Returns forward_backward(…). If memory runs out, and the config says so, the attempt is undone, and made in halves."""
    while True:
        try:
            return forward_backward(state, x, y, divisor, loss)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            failure = error.with_traceback(None)  # a traceback keeps the tensors of the failed attempt alive
        halve_micro_batches(state, failure, x, y)


def forward_backward(state: State, x: Tree, y: Tree, divisor: Tensor, loss: Loss) -> list[tuple[Tensor, Tensor | None]]:
    """Compute the gradient of the batch's loss, one micro-batch at a time; return the sum and the count of each (None, of a
    KnownLoss: `divisor` is made of its counts).

    Every sum is divided by the count of the whole batch, so micro-batches and ranks may have different sizes.
    """
    zero_grad(state.all_parameters)  # zero: right anywhere between a step and the next backward (lecture 09)
    parts = []
    for x_part, y_part in micro_batches(state, x, y):
        with state.autocast:
            total, count = sum_and_count(loss, state.forward(x_part), y_part, count_known=False)  # forward
        state.scaler.scale(total / divisor).backward()  # backward
        parts.append((total.detach(), count))
    state.require_same_training()
    require_every_gradient(state)
    return parts


def micro_batches(state: State, x: Tree, y: Tree) -> Iterable[tuple[Tree, Tree]]:
    """(x, y) in at most state.n_micro_batches parts whose sizes differ by at most one; each x moves to the device here."""
    if state.n_micro_batches == state.ranks.world == 1:  # what follows would say the same, and take longer
        return [(to_device(x, state.device, non_blocking=True), y)]
    count = min(state.n_micro_batches, count_examples(x), state.smallest_share)  # as many on every rank
    parts = zip(split(x, count), split(y, count), strict=True)
    if state.ranks.world > 1:
        parts = sync_on_last_micro_batch(state.forward, parts, count)
    return ((to_device(x_part, state.device, non_blocking=True), y_part) for x_part, y_part in parts)


def halve_micro_batches(state: State, error: Exception, x: Tree, y: Tree) -> None:
    """Undo the attempt at this step that ran out of memory, and use micro-batches half as large from now on.

    Raises the error again, with the bytes in use besides activations, if nobody has asked for that, and if a single example
    is too much; with the reason where the loss needs the whole batch, and where the attempt cannot be undone. Raises
    RuntimeError with several ranks, since the others are already summing their gradients.
    """
    if state.n_micro_batches >= count_examples(x):
        raise type(error)(
            f"{out_of_memory_message(state, error, x, y)}. Take a smaller model, shorter examples, or a device with more "
            "memory"
        ) from error
    if not state.additive:
        raise type(error)(
            f"out of memory at step {state.step + 1} with {count_examples(x)} examples, and {NOT_ADDITIVE}. Take a smaller "
            "batch_size, with which the loss compares fewer examples, or a device with more memory"
        ) from error
    if state.ranks.world > 1:
        raise RuntimeError(
            f"out of memory at step {state.step + 1} on rank {state.ranks.rank}, which cannot repeat it without the "
            f"others: start again with accumulation={2 * state.n_micro_batches}, or with more ranks"
        )
    if state.config.out_of_memory == "raise":
        raise type(error)(
            f"{out_of_memory_message(state, error, x, y)}. Start again with accumulation={2 * state.n_micro_batches}, "
            "which makes the same gradient of smaller parts, or with out_of_memory='halve', and the run finds the parts "
            "that fit. If it has a folder, it goes on there from its newest checkpoint"
        ) from error
    if reason := state.before.why_it_cannot_be_undone():
        raise type(error)(
            f"out of memory at step {state.step + 1}, which cannot be repeated in smaller parts: {reason}. Start again with "
            f"accumulation={2 * state.n_micro_batches}"
        ) from error
    state.optimizer.zero_grad()
    state.before.restore()
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
    """Multiply all gradients in place by `factor`, 0-dim; torch has no public name for that in one operation."""
    if factor.device.type == "cpu" and factor == 1:  # the usual case; to ask a GPU would be to wait for it
        return
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
    if any(gradient.layout != torch.strided for gradient in gradients):
        raise ValueError(
            "a gradient is sparse, which can neither be clipped nor kept from being infinite: look rows up with "
            "sparse=False, and take an optimizer for dense gradients"
        )
    norms = torch._foreach_norm(gradients)
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
    schedule: Schedule | None = None,
    order: Callable[[int], list[int] | Tensor] | None = None,
    collate: Callable[[list], tuple[Tree, Tree]] | None = None,
    on_step: OnStep | None = None,
    progress: bool = False,
    dollars_per_hour: float = 0.0,
    peak_flops: float = 0.0,
) -> "Result":
    """Train `model` in place for config.steps steps and return the history.

    train_data, val_data: datasets of (x, y) pairs (utils.data.order says what they may draw at random). Selection and
    early stopping see val_data only; there is no place for a test set. x and y are tensors, or trees of them
    (utils.data.trees): dicts, pairs, lists, with the batch first in each. The model is called as model(x), the tree itself.
    train_data may be a stream, with state_dict and load_state_dict: an IterableDataset of examples, or batches, such as a
    StatefulDataLoader (utils.loop.reading).
    run: a folder for the log, the checkpoints and the metadata. If it holds an unfinished run of the same config, that
    run is resumed from its newest complete checkpoint and ends with the same bits as if it had never stopped.
    labels: whatever else decides the run, such as the data's name: saved as metadata; others forbid a resume.
    loss: a loss module of torch, whose mean over the whole batch is trained and reported; or (outputs, targets) → (the loss
    summed over the targets, what to divide it by); or → the sum alone, if that is over all targets. None given:
    cross-entropy of outputs (..., K). outputs and targets are what the model returns and y, trees for a loss of your own;
    torch's modules want their classes on axis 1. Where the loss of a batch is not the sum of its parts' (a contrastive one),
    accumulation, several ranks and halving are refused, and validation takes val_batch_size examples at a time.
    optimizer: model → an optimizer with groups of its own, whose rates the schedule scales; none: config.optimizer. It may
    add adapters to the model, or freeze parts. One with two modes is in eval() for validation, looks, saves and at the end.
    schedule: (step from 0, steps) → the factor of the peak rate at this step; it replaces schedule, warmup and final_lr of
    the config. It is asked for all steps beforehand, and must give the same answers again.
    order: step, from 0 → the indices of its batch, over all ranks, as a sampler chooses them. It must be a pure function of
    the step, for which the global random streams are seeded. A batch is as large as it says. None: epochs, shuffled.
    collate: list of examples → (x, y), where torch cannot stack them, since they differ in length, or where they are no
    pairs yet, but rows of a table.
    on_step: called on rank 0 with each record, of a log step or of a validation ("val_loss" in record), and with the model
    that it is of, in eval mode. The numbers that it returns in a dict are added to the record. It may look, not change.
    progress: show a progress bar.
    dollars_per_hour: price of the machine, for the cost in the run's metadata.
    peak_flops: peak FLOP/s of one device, for MFU; 0: the published peak of the GPU, or no MFU if it is unknown. On a GPU
    convolutions in fp32 run in tf32, unless torch.backends.cudnn.allow_tf32 is False: then give the peak of tf32.

    Under torchrun n processes train one model: each on its share of every batch, with summed gradients; rank 0 writes.
    With config.parallel="fsdp" each holds shards of a copy, which is copied into `model` at the end.
    On SIGTERM, and on signals by which clusters announce it, it finishes the step or the batch that it validates, saves, and
    exits with 143. On Ctrl-C it does so and raises KeyboardInterrupt; a second one ends it at once. Whatever ends it early
    carries the Result so far: error.result. The caller's random streams do not change.

    Raises ValueError for arguments that cannot work (before anything is written), FloatingPointError for gradients, losses
    or buffers that are not finite, RuntimeError if a checkpoint cannot be written, or if what trains changes during the run.
    """
    config = Config() if config is None else config
    check_arguments(model, config, loss, optimizer, on_step, progress, dollars_per_hour, peak_flops)
    check_selection(config, val_data, loss, on_step)
    factors = factors_of(schedule, config)
    streamed = is_stream(train_data)
    if not streamed:
        train_data = with_collate(train_data, collate, "train_data")
    if val_data is not None:
        val_data = with_collate(val_data, collate, "val_data")
    ranks = current_ranks()
    device = ranks.pick_device(config.device)
    if streamed:
        order = Stream(train_data, config, order, collate, ranks)
    elif order is not None:
        order = own_order(order, len(train_data), config, ranks, device_of(train_data))
    else:
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
    folder = None if run is None else RunFolder(run, config, order.examples, labels, ranks, dollars_per_hour)
    log = folder.log if folder else Log(ranks=ranks)
    with (
        connect(ranks),
        own_random_streams(config.seed),
        deterministic_algorithms(config.deterministic),
        Termination() as sigterm,
        folder or nullcontext(),
        order if streamed else nullcontext(),
    ):

        def asked() -> bool:
            return ranks.any(sigterm.asked)

        check_ranks(ranks, config, order, val_data, run, peak_flops, name_of_schedule(factors, config.steps))
        if streamed:
            train_data = order.try_out()
        sample = examples_of_first_batch(train_data, order) if isinstance(order, OwnOrder) else train_data
        state = State(model, config, device, ranks, optimizer, factors)
        state.stream = order if streamed else None
        known_loss = check_data(state, order, sample, val_data, loss)
        check_draws(train_data, "train_data", config.workers, say=ranks.first)
        if val_data is not None:
            check_draws(val_data, "val_data", config.workers, say=ranks.first)
        warm_up_ddp(state, sample)
        monitor = Monitor(state, order, log, sample, known_loss, on_step, progress, peak_flops)
        if folder:
            require_all_saved(state.optimizer)
            folder.resume(state, inputs_of(state, train_data, val_data, loss, optimizer, order))
        if state.validation_due and val_data is not None:
            with result_in_errors(log, state, folder), monitor.paused(), state.weights_to_evaluate():
                validate(state, val_data, known_loss, monitor, folder, asked)
                save(state, folder)
                if state.validation_due:
                    raise sigterm.exception(folder.where_it_goes_on(state.step))
        end = state.step if state.stopped_early else config.steps  # a run that has stopped early stays as it is
        loading = config.loading(device)
        if streamed:
            stream = order.read(state.step, end, loading["pin"])
        else:
            stream = batches(train_data, order, state.step, end, **loading)
        with result_in_errors(log, state, folder), monitor, closing(stream):
            for x, y in stream:
                state.smallest_share = order.smallest_share(state.step)
                if collate and not streamed:
                    check_batch(x, y, len(order.indices(state.step)))
                if order.is_padding(state.step):  # a rank without examples takes part with one that has no targets
                    y = rows(y, slice(0))
                try:
                    train_step(state, x, y, known_loss)
                except Exception as error:
                    explain(error, f"step {state.step + 1}, {format_batch(order, state.step, of_rank=True)}")
                    raise

                log_now = state.due(config.log_every)
                validate_now = val_data is not None and state.due(config.val_every)
                stop = asked()
                save_now = folder is not None and (state.due(config.save_every) or stop)
                check_updates(state, order, train_data, known_loss, watching=log_now or validate_now or save_now)
                if (log_now or save_now) and isinstance(order, OwnOrder):
                    order.require_pure(state.step - 1)
                if log_now:
                    monitor.log_step()
                    stop = asked()  # on_step may take long
                if validate_now:
                    with monitor.paused(), state.weights_to_evaluate():
                        validate(state, val_data, known_loss, monitor, folder, asked)
                    stop = stop or state.validation_due
                if folder and (save_now or stop or state.stopped_early):
                    with monitor.paused(), state.weights_to_evaluate():
                        save(state, folder)
                if stop:
                    raise sigterm.exception(folder.where_it_goes_on(state.step) if folder else "")
                if state.stopped_early:
                    break
            if has_modes(state.optimizer):
                state.optimizer.eval()
            result = Result(log, state)
            if asked():
                raise sigterm.exception()
        return result


def check_updates(state: State, order: Order, data: Dataset, loss: Loss, watching: bool) -> None:
    """Raise if updates were blocked under the policy "raise", or if weights or buffers are not finite; otherwise rewind
    the schedule by the blocked steps.

    A CPU is read at every step. Reading a GPU means waiting for it, and rewinding the schedule changes the run: so the
    GPU is read at fixed steps that do not depend on logging or validation. If blocked updates have ended the run, it is
    also read before anything is logged or saved.

    Raises FloatingPointError under the policy "raise", and after config.max_skips blocked updates in a row.
    """
    if state.guard.on_host:
        check_now = state.guard.step_blocked is not None
    else:
        check_now = state.due(CHECK_EVERY) or (watching and state.guard.limit_reached)
    if check_now and state.guard.step_blocked is not None:
        check_skipped_updates(state, order, data, loss)
    if watching:
        state.require_same_parameters()
        require_finite(state)


def check_skipped_updates(state: State, order: Order, data: Dataset, loss: Loss) -> None:
    """Read the device's count of skipped updates; raise, or rewind the schedule."""
    newly_skipped = int(state.guard.blocked) - state.skipped
    if newly_skipped:
        require_finite(state)  # the cause may be a bad weight, not a bad gradient
    if state.guard.limit_reached:
        state.whole_model(state.model)  # with FSDP the caller's model gets the weights
        first_bad = state.step - int(state.guard.streak)  # from 0; all later ones were blocked too
        if state.raises_on_nonfinite:
            raise FloatingPointError(bad_gradient_message(state, order, data, loss, first_bad))
        raise FloatingPointError(too_many_skips_message(state, order, first_bad))
    if newly_skipped:
        if reason := state.before.why_it_cannot_be_undone():
            raise RuntimeError(f"a step up to {state.step} was skipped, and may have left a trace: {reason}")
        state.skipped += newly_skipped
        if state.guard.on_host:
            state.skipped_steps = [*state.skipped_steps, f"{state.step}"]
        else:
            first = (state.step - 1) // CHECK_EVERY * CHECK_EVERY + 1
            state.skipped_steps = [*state.skipped_steps, f"{newly_skipped} of {first} to {state.step}"]
        state.scheduler.last_epoch -= newly_skipped + 1  # as if these steps had not happened
        state.scheduler.step()


def validate(
    state: State, data: Dataset, loss: Loss, monitor: Monitor, folder: RunFolder | None, stop: Callable[[], bool]
) -> None:
    """Evaluate and log. Keep a copy of the best weights so far in `state`; the next checkpoint takes them along.

    If stop() is true, on all ranks alike, this ends before the next batch, and state.validation_due stays true: a resumed
    run validates this step anew.
    """
    config = state.config
    state.validation_due = True
    if stop():
        return
    model = state.validation_model
    with attributes_put_back(model):
        scores = score(
            model,
            data,
            config.val_batch_size,
            config.precision,
            config.workers,
            config.worker_timeout,
            loss,
            state.ranks,
            stop=stop,
        )
    if scores is None:
        return
    state.validation_due = False
    record = monitor.add({"step": state.step, "val_loss": scores.loss, "val_accuracy": scores.accuracy}, model)
    require_finite_validation_loss(state, scores.loss)
    if state.is_best(selected_number(state, record)):
        state.keep_best(for_file=folder is not None)


def save(state: State, folder: RunFolder) -> None:
    """Save a checkpoint, after the best weights that it speaks of."""
    save_best(state, folder)
    folder.save(state.state_dict(), state.step, state.seconds)


def save_best(state: State, folder: RunFolder) -> None:
    """Save the best weights, unless the folder has them. A run cannot go on from them: there is no more to it."""
    if state.best_weights is not None:
        step = state.best["step"]
        weights = {"model": state.best_weights, "ema": None, "progress": {"step": step}}
        folder.save(weights, step, state.seconds, kind="best")
        state.best_weights = None


@contextmanager
def result_in_errors(log: Log, state: State, folder: RunFolder | None) -> Iterator[None]:
    """Give whatever is raised within the block the result so far, as its attribute `result`.

    Without a run folder a note says so, in the lines that a notebook needs, if there is a record yet. With one the best
    weights are saved that no checkpoint has; but not after a second Ctrl-C, nor those in parts: other ranks may be gone.
    """
    try:
        yield
    except BaseException as error:
        error.result = Result(log, state, failed=True)
        if folder is None and log.records:
            error.add_note(KEPT)
        if folder and isinstance(error, Exception) and state.ranks.first and not state.in_parts:
            with suppress(RuntimeError):  # the error itself says more
                save_best(state, folder)
        raise


KEPT = """there is no run folder, so nothing was saved; what the run has made is here until the next error:
    import sys
    result = sys.last_value.result  # result.history, result.best_weights, result.model"""


class Result:
    """The result of `train`, which trains the model in place.

    history: log and validation records, in order; only values under "measured" differ from run to run. ema: the averaged
    model, or None. steps: the number made. skipped: how many of these had a blocked update. best: {"step", "val_loss"} of
    the best validation, or the number that was selected by in place of val_loss; None without a validation. best_weights:
    the state_dict validated then; None if it is in the run folder.
    Of a run that has failed, model and ema are as they were then, and None if several ranks hold them in parts.
    """

    def __init__(self, log: Log, state: State, failed: bool = False):
        self._log = log  # reads a resumed run's earlier records at the first access
        if failed:
            self.model = None if state.in_parts else state.model
            self.ema = state.ema.model if state.ema and not state.in_parts else None
            with suppress(RuntimeError):  # of a device that has failed
                if self.ema:
                    state.ema.copy_buffers(state.model)
        else:
            self.model = state.whole_model(state.model)
            self.ema = state.whole_model(state.validation_model) if state.ema else None
        self.steps = state.step
        self.skipped = state.skipped if failed else int(state.guard.blocked)  # a device that has failed cannot be read
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
    collate: Callable[[list], tuple[Tree, Tree]] | None = None,
    ranks: Ranks = SINGLE_PROCESS,
) -> Scores:
    """Average over every example of `data`, in order. Changes no module's mode, no buffer and no random stream.

    workers: processes that load the batches; a wait of more than worker_timeout seconds is an error (0: no limit).
    loss, collate: as for train. accuracy: of a cross-entropy of class indices, else None.
    With several ranks, each takes its share of every batch, and all return the scores of the whole.
    """
    data = with_collate(data, collate, "data")
    check_kind_of_loss(loss)
    if not as_known_loss(loss) and len(data):
        check_own_loss(model, data, loss, device_of_model(model), precision)
    return score(model, data, batch_size, precision, workers, worker_timeout, loss, ranks, check_shapes_of="data")


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
    check_shapes_of: str = "",
    stop: Callable[[], bool] = lambda: False,
) -> Scores | None:
    """What `evaluate` returns, without its trial of a loss of the caller's own. None if stop() is true before a batch, on
    all ranks alike.

    check_shapes_of: what to call the data if the first outputs and targets do not fit one of torch's; "": that was asked.
    """
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
        for step, batch in enumerate(stream):
            if stop():
                return None
            x, y = pair_of(batch, check_shapes_of, data) if check_shapes_of and step == 0 else batch
            if hasattr(data, "collate"):
                check_batch(x, y, len(order.indices(step)))
            x, y = (to_device(part, device, non_blocking=True) for part in (x, y))
            with name_examples_in_errors(order, step, "the evaluation"), autocast(device, precision):
                outputs = model(x)
                if check_shapes_of and step == 0:
                    check_outputs_and_targets(loss, outputs, y, check_shapes_of)
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
