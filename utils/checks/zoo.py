"""The zoo: what goes wrong in training loops without an error. Each bug is planted, and its detector catches it.

A bug of our own loop is planted at a seam: for as long as a run lasts, one function is a wrong one. It is called with
`right`, the right one, and then with that one's own arguments. Where no function can be replaced, an expression or a
statement of the source is, found by its syntax tree. The detector must pass on the loop as it is and raise
AssertionError, by itself, on the wrong one. Bugs of models, data, losses, optimizers and scripts stand next to their
right versions in tests/checks/test_checks.py.

The numbers are those of the zoo's 52 bugs; what has none is a broken promise of our loop's own.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_, get_total_norm
from torch.optim import Adam

from utils.checks import loop as check
from utils.checks.planting import Change, Copy, Seam, wrong_loop
from utils.checks.toy_problem import Train
from utils.loop import forward_backward
from utils.loop.metrics import count_targets, cross_entropy_sum
from utils.loop.training import check_skipped_updates

BUGS = range(1, 53)
resumes = {what: partial(check.resumes_exactly, what=what) for what in check.RESUMED}


@dataclass(frozen=True)
class Planted:
    bug: int | None
    name: str
    detector: Callable
    seams: tuple[Seam, ...] = ()
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        return f"{self.bug or 'own'}: {self.name}"


PLANTED: list[Planted] = []


@contextmanager
def planted_in_loop(bug: Planted) -> Iterator[Train]:
    """utils.loop.train with this bug in it, for as long as the block runs."""
    if bug.seams:
        yield wrong_loop(*bug.seams, bug=str(bug))
    else:
        with TemporaryDirectory() as folder, Copy(Path(folder), *bug.changes, bug=str(bug)) as copy:
            yield copy.module("loop").train


def planted(bug: int | None, name: str, detector: Callable, at: str, *others: Seam) -> Callable:
    """Decorates the wrong function that stands at the seam `at`; `others` are wrong as well."""

    def register(wrong: Callable) -> Callable:
        PLANTED.append(Planted(bug, name, detector, seams=(Seam(at, wrong), *others)))
        return wrong

    return register


def in_source(bug: int | None, name: str, detector: Callable, file: str, old: str, new: str) -> None:
    PLANTED.append(Planted(bug, name, detector, changes=(Change(file, old, new),)))


def nothing(right, *args, **options) -> None:
    """Forgotten."""


def restores_nothing(right, *args, **options):
    before = right(*args, **options)
    before.restore = lambda: None
    return before


# ---- what several bugs need ------------------------------------------------------------------------------------------


def wait_for_no_gradient(right, guard, *args, **options):
    right(guard, *args, **options)
    guard.on_host = False


# On a GPU the loop does not look at each gradient: it blocks on the device, and learns of it later.
GPU = Seam("loop.guards.Guard.__init__", wait_for_no_gradient)
AT_ONCE = Seam("loop.training.CHECK_EVERY", 1)

STEP = ("backward", "unscale", "clip", "block", "step", "rescale", "schedule", "average")  # as it should be


def in_order(*verbs: str) -> Callable:
    """train_step, doing these verbs in this order. Backward begins by clearing the gradients."""

    def train_step(right, state, x, y, loss):
        losses, targets = [], count_targets(y)

        def clip():
            state.norm = clip_grad_norm_(state.parameters, state.config.clip or math.inf)

        def average():
            if state.ema:
                state.ema.update(state.parameters, unless=state.guard.step_blocked)

        meaning = {
            "backward": lambda: losses.extend(
                total for total, _ in forward_backward(state, x, y, targets.clamp(min=1), loss)
            ),
            "unscale": lambda: state.scaler.unscale_(state.optimizer),
            "clip": clip,
            "block": lambda: state.guard.block_unless_finite(state.norm),
            "step": state.optimizer.step,
            "rescale": state.scaler.update,
            "schedule": state.scheduler.step,
            "average": average,
            "zero": state.optimizer.zero_grad,
        }
        for verb in verbs:
            meaning[verb]()
        state.train_loss.add(losses, targets, unless=state.guard.step_blocked)
        state.step += 1

    return train_step


def reordered(bug: int | None, name: str, detector: Callable, order: str) -> None:
    planted(bug, name, detector, "loop.training.train_step")(in_order(*order.split()))


def resumed_without(bug: int | None, what: str, detector: Callable, *path: str) -> None:
    """Of what a checkpoint holds, a resumed run does not take up what is under `path`: there it is as if it began."""

    def load_state_dict(right, state, saved):
        right(state, _with_other(saved, state.state_dict(), *path))

    planted(bug, f"resumed without {what}", detector, "loop.state.State.load_state_dict")(load_state_dict)


def _with_other(saved: dict, other: dict, key: str, *deeper: str) -> dict:
    return saved | {key: _with_other(saved[key], other[key], *deeper) if deeper else other[key]}


# ---- gradients -------------------------------------------------------------------------------------------------------

planted(1, "zero_grad forgotten", check.gradients_are_fresh, "loop.training.zero_grad")(nothing)

reordered(
    2,
    "zero_grad between backward and step",
    check.steps_have_gradients,
    "backward unscale clip block zero step rescale schedule average",
)


@planted(27, "a sum where a mean was meant", check.gradients_are_fresh, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    return right(state, x, y, 1, loss)


@planted(28, "softmax before cross-entropy", check.overfits_one_batch, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    return right(state, x, y, targets, lambda outputs, y: loss(outputs.softmax(-1), y))


@planted(37, "a loss that has a softmax of its own", check.overfits_one_batch, "loop.training.train")
def _(right, *args, **options):
    return right(*args, **options, loss=lambda outputs, y: cross_entropy_sum(outputs.softmax(-1), y))


@planted(32, "weights edited between forward and backward", check.gradients_are_fresh, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    def editing(outputs, y):
        state.parameters[-2].data *= 1.1
        return loss(outputs, y)

    return right(state, x, y, targets, editing)


@planted(47, "a graph used again after a fused step", check.gradients_are_fresh, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    state.optimizer.zero_grad()
    total = loss(state.forward(x), y)
    (total / targets).backward(retain_graph=True)
    state.optimizer.step()  # the weights of the graph are others now, and no error says so
    (total / targets).backward()
    return [(total.detach(), targets)]


@planted(41, "a frozen weight moves", check.frozen_weights_stay, "loop.training.zero_grad")
def _(right, parameters):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.zero_()  # 0 is a gradient, by which momentum goes on; None is not


# ---- micro-batches, and what a gradient is divided by ----------------------------------------------------------------


@planted(17, "accumulation by the mean of means", check.accumulation_equals_big_batch, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    parts = min(state.n_micro_batches, len(x))
    return right(state, x, y, parts, lambda outputs, y: loss(outputs, y) / count_targets(y))


@planted(18, "masked tokens weighted by examples", check.accumulation_counts_tokens, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    return right(state, x, y, len(x), lambda outputs, y: len(y) * loss(outputs, y) / count_targets(y))


@planted(
    20,
    "not divided by the number of micro-batches",
    check.accumulation_equals_big_batch,
    "loop.training.forward_backward",
)
def _(right, state, x, y, targets, loss):
    return right(state, x, y, 1, lambda outputs, y: loss(outputs, y) / count_targets(y))


@planted(19, "micro-batches left over", check.no_micro_batch_is_left_over, "loop.training.micro_batches")
def _(right, state, x, y):
    size = len(x) // state.n_micro_batches
    return list(zip(x.split(size), y.split(size), strict=True))[: state.n_micro_batches]


@planted(
    None,
    "a batch without a target repeats the step before",
    check.all_ignored_batch_is_harmless,
    "loop.training.forward_backward",
)
def _(right, state, x, y, targets, loss):
    return right(state, x, y, targets, loss) if count_targets(y) else [(torch.zeros(()), targets)]


@planted(None, "accumulation never begins", check.accumulation_equals_big_batch, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    state.n_micro_batches = 1
    return right(state, x, y, targets, loss)


@planted(None, "targets counted in the wrong tensor", check.gradients_are_fresh, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    return right(state, x, y, count_targets(x), loss)


@planted(None, "a single target counts half", check.gradients_are_fresh, "loop.training.forward_backward")
def _(right, state, x, y, targets, loss):
    return right(state, x, y, targets.clamp(min=2), loss)


# ---- clipping, scaling, precision ------------------------------------------------------------------------------------

reordered(3, "clip before backward", check.clip_binds, "clip backward unscale block step rescale schedule average")
reordered(4, "clip after step", check.clip_binds, "backward unscale block step clip rescale schedule average")
reordered(
    6,
    "clip before unscale",
    check.clip_sees_unscaled_gradients,
    "backward clip unscale block step rescale schedule average",
)
reordered(
    7, "a step that is never unscaled", check.loss_scale_leaves_no_trace, "backward clip block step schedule average"
)


@planted(5, "clip on an exhausted generator", check.clip_binds, "loop.training.clip_gradients")
def _(right, parameters, limit):
    return clip_grad_norm_(iter(()), limit)


@planted(None, "clipping that scales up as well", check.clip_binds, "loop.training.clip_gradients")
def _(right, parameters, limit):
    norm = right(parameters, limit)
    for parameter in parameters if limit else ():
        parameter.grad *= limit / norm.clamp(max=limit)
    return norm


@planted(None, "autocast entered once around the run", check.autocast_uses_new_weights, "loop.training.train")
def _(right, *args, **options):
    with torch.autocast("cpu", torch.bfloat16):
        return right(*args, **options)


@planted(50, "weights in bfloat16", check.weights_stay_float32, "loop.state.State.__init__")
def _(right, state, model, config, *args):
    right(state, model, config, *args)
    if config.precision == "bf16":
        model.bfloat16()  # once nobody looks any more


@planted(None, "a precision that is never entered", check.precision_takes_effect, "loop.state.autocast")
def _(right, device, precision):
    return nullcontext()


@planted(None, "a validation in another precision", check.precision_takes_effect, "loop.training.autocast")
def _(right, device, precision):
    return nullcontext()


# ---- optimizer -------------------------------------------------------------------------------------------------------


@planted(40, "Adam(weight_decay) for AdamW", check.updates_follow_their_rule, "loop.state.make_optimizer")
def _(right, model, config):
    groups = right(model, config).param_groups
    return Adam([{key: group[key] for key in ("params", "weight_decay")} for group in groups], config.lr, fused=True)


@planted(None, "another optimizer than the one asked for", check.updates_follow_their_rule, "loop.state.make_optimizer")
def _(right, model, config):
    return right(model, replace(config, optimizer="adamw"))


@planted(None, "a bias that becomes NaN", check.updates_follow_their_rule, "loop.training.train")
def _(right, model, *args, **options):
    result = right(model, *args, **options)
    model[-1].bias.data.fill_(math.nan)
    return result


@planted(None, "a beta that does not arrive", check.updates_follow_their_rule, "loop.state.make_optimizer")
def _(right, model, config):
    return right(model, replace(config, beta2=0.999))


@planted(None, "SGD's weight decay lost", check.updates_follow_their_rule, "loop.state.make_optimizer")
def _(right, model, config):
    return right(model, replace(config, weight_decay=config.weight_decay * (config.optimizer == "adamw")))


@planted(
    None, "momentum that begins with a blocked step", check.skipped_step_leaves_no_trace, "loop.state.make_optimizer"
)
def _(right, model, config):
    optimizer = right(model, config)
    optimizer.state.clear()
    return optimizer


# ---- schedule --------------------------------------------------------------------------------------------------------

reordered(
    9,
    "schedule before the optimizer",
    check.rate_follows_schedule,
    "backward unscale clip block schedule step rescale average",
)


@planted(
    8,
    "schedule in the loop over micro-batches",
    check.rate_follows_schedule,
    "loop.training.micro_batches",
    Seam("loop.training.train_step", in_order(*(verb for verb in STEP if verb != "schedule"))),
)
def _(right, state, x, y):
    for part in right(state, x, y):
        yield part
        state.scheduler.step()


@planted(8, "schedule in steps, stepped once an epoch", check.rate_follows_schedule, "loop.state.lr_factor")
def _(right, config, step, **own):
    return right(config, step // 3, **own)


@planted(None, "a schedule for the first group alone", check.rate_follows_schedule, "loop.optim.Rates.step")
def _(right, rates):
    others = [group["lr"] for group in rates.optimizer.param_groups[1:]]
    right(rates)
    for group, rate in zip(rates.optimizer.param_groups[1:], others, strict=True):
        group["lr"] = rate


@planted(8, "a schedule without its floor", check.rate_follows_schedule, "loop.state.lr_factor")
def _(right, config, step, **own):
    return right(replace(config, final_lr=0.0), step, **own)


# ---- the running average ---------------------------------------------------------------------------------------------

reordered(
    None,
    "the average before the step",
    check.average_is_validated,
    "backward unscale clip block average step rescale schedule",
)


@planted(None, "the average is not what is validated", check.average_is_validated, "loop.state.State.validation_model")
def _(right, state):
    return state.model


@planted(None, "decay and share exchanged", check.average_is_validated, "loop.state.Ema.__init__")
def _(right, ema, model, decay, *args):
    right(ema, model, 1 - decay, *args)


planted(None, "the average keeps its first buffers", check.average_is_validated, "loop.state.Ema.copy_buffers")(nothing)


# ---- validation ------------------------------------------------------------------------------------------------------


@planted(10, "train() forgotten after validation", check.trains_in_train_mode, "loop.training.eval_mode")
def _(right, model):
    return nullcontext(model.eval())


@planted(None, "left in eval mode at the end", check.trains_in_train_mode, "loop.training.train")
def _(right, model, *args, **options):
    result = right(model, *args, **options)
    model.eval()
    return result


@planted(11, "eval() forgotten in validation", check.validates_in_eval_mode, "loop.training.eval_mode")
def _(right, model):
    return nullcontext()


in_source(
    12,
    "no_grad forgotten in validation",
    check.validation_keeps_no_graph,
    "loop/training.py",
    "torch.no_grad()",
    "torch.enable_grad()",
)


@planted(15, "validation shuffled", check.validation_keeps_order, "loop.training.Order")
def _(right, *args, **options):
    return right(*args, **options | {"shuffle": True})


@planted(None, "validation drops its last batch", check.reported_losses_count_targets, "loop.training.Order")
def _(right, *args, **options):
    in_validation = not options.get("shuffle", True)
    return right(*args, **options | {"drop_last": in_validation})


# ---- reported numbers ------------------------------------------------------------------------------------------------


def log_last_loss(right, monitor):
    right(monitor)
    monitor.log.records[-1]["last_loss"] = monitor.state.last_loss


@planted(
    36,
    "graph tensors in the log",
    check.log_holds_no_graph,
    "loop.training.forward_backward",
    Seam("loop.monitor.Monitor.log_step", log_last_loss),
)
def _(right, state, x, y, targets, loss):
    def kept(outputs, y):
        state.last_loss = loss(outputs, y)
        return state.last_loss

    return right(state, x, y, targets, kept)


@planted(42, "epoch mean of batch means", check.reported_losses_count_targets, "loop.metrics.Mean.add")
def _(right, mean, totals, count, unless=None):
    right(mean, [total / count for total in totals], torch.ones_like(count), unless)


in_source(
    52,
    "a batch without targets is 0/0",
    check.all_ignored_batch_is_harmless,
    "loop/monitor.py",
    "total / targets if targets else None",
    "float(torch.tensor(total) / targets)",
)


@planted(None, "padding counts in the reported loss", check.reported_losses_count_targets, "loop.metrics.count_targets")
def _(right, targets):
    return torch.tensor(targets.numel())


@planted(
    None, "totals of the last micro-batch only", check.reported_losses_count_targets, "loop.training.forward_backward"
)
def _(right, *args):
    return right(*args)[-1:]


planted(None, "totals are not cleared after a record", check.reported_losses_count_targets, "loop.metrics.Mean.clear")(
    nothing
)


@planted(
    None, "the logged norm is the clipped one", check.logged_norm_is_before_clipping, "loop.training.clip_gradients"
)
def _(right, parameters, limit):
    right(parameters, limit)
    return get_total_norm([parameter.grad for parameter in parameters])


@planted(None, "the logged rate is the next step's", check.logged_rate_is_the_one_used, "loop.monitor.lr_factor")
def _(right, config, step, **own):
    return right(config, step + 1, **own)


@planted(None, "the logged epoch is the next step's", check.logged_rate_is_the_one_used, "data.order.Order.epoch")
def _(right, order, step):
    return right(order, step + 1)


@planted(None, "validation time counts in the rate", check.rates_are_of_training_time, "loop.monitor.Monitor.paused")
def _(right, monitor):
    return nullcontext()


@planted(None, "the rate's clock is not set anew", check.rates_are_of_training_time, "loop.monitor.Monitor.log_step")
def _(right, monitor):
    began = monitor.window
    right(monitor)
    monitor.window = began


in_source(
    None,
    "the FLOPs of two examples taken for one's",
    check.rates_are_of_training_time,
    "loop/monitor.py",
    "return flops / count_examples(x)",
    "return flops",
)

in_source(None, "seconds counted twice", check.rates_are_of_training_time, "loop/monitor.py", "self.tick = now", "")


# ---- the order of the data -------------------------------------------------------------------------------------------


@planted(16, "training not shuffled", check.sorted_data_is_shuffled, "loop.training.Order")
def _(right, *args, **options):
    return right(*args, **options | {"shuffle": False})


@planted(35, "every epoch in the first one's order", check.epochs_have_orders_of_their_own, "data.order.Order.batch")
def _(right, order, step):
    return right(order, step % order.steps_per_epoch)


@planted(44, "next(iter(loader)) at every step", check.epochs_are_complete, "data.order.Order.batch")
def _(right, order, step):
    return right(order, step * order.steps_per_epoch)  # the first of an epoch of its own


@planted(45, "drop_last that drops everything", check.says_no_to_zero_steps, "data.order.Order.steps_per_epoch")
def _(right, order):
    return max(1, right(order))


@planted(None, "a last batch of one example is lost", check.epochs_are_complete, "data.order.Order.steps_per_epoch")
def _(right, order):
    full, rest = divmod(order.examples, order.batch_size)
    return full + (rest > 1)


# In the source, because it is the workers who draw: only those that are forked have this process's seams.
in_source(
    21,
    "one seed for every epoch",
    check.examples_draw_anew,
    "data/order.py",
    "derive_seed(self.seed, 'example', epoch, index)",
    "derive_seed(self.seed, 'example', index)",
)
in_source(
    21,
    "one seed for every example",
    check.examples_draw_anew,
    "data/order.py",
    "derive_seed(self.seed, 'example', epoch, index)",
    "derive_seed(self.seed, 'example', epoch)",
)


@planted(None, "new workers start a step late", check.workers_change_nothing, "loop.training.batches")
def _(right, data, order, start, stop, *, persistent=True, **options):
    if persistent:
        yield from right(data, order, start, stop, **options)
    else:
        yield from right(data, order, start, order.steps_per_epoch, **options)
        yield from right(data, order, order.steps_per_epoch + 1, stop + 1, **options)


# ---- gradients that are not finite -----------------------------------------------------------------------------------


@planted(
    None,
    "an update that is not blocked",
    check.nonfinite_never_reaches_the_weights,
    "loop.guards.Guard.block_unless_finite",
)
def _(right, guard, norm):
    right(guard, norm)
    guard.optimizer.found_inf = None


@planted(
    None,
    "only the bad step is blocked, not those after it",
    partial(check.nonfinite_never_reaches_the_weights, log_every=6),
    "loop.guards.Guard.block_unless_finite",
    GPU,
)
def _(right, guard, norm):
    limit, guard.limit = guard.limit, math.inf
    right(guard, norm)
    guard.limit = limit


@planted(
    None,
    "one blocked step blocks all that follow",
    check.skipped_step_leaves_no_trace,
    "loop.guards.Guard.block_unless_finite",
)
def _(right, guard, norm):
    before = getattr(guard.optimizer, "found_inf", None)
    right(guard, norm)
    guard.optimizer.found_inf = guard.optimizer.found_inf if before is None else before


def streak_never_ends(right, guard, norm):
    before = guard.streak.clone()
    right(guard, norm)
    guard.streak.clamp_(min=before)


planted(
    None,
    "a good step does not end a row of bad ones",
    check.endless_skips_end_the_run,
    "loop.guards.Guard.block_unless_finite",
)(streak_never_ends)
planted(
    None,
    "a good step does not end a row of bad ones on a GPU",
    check.endless_skips_end_the_run,
    "loop.guards.Guard.block_unless_finite",
    GPU,
    AT_ONCE,
)(streak_never_ends)


@planted(None, "endless skips", check.endless_skips_end_the_run, "loop.guards.Guard.limit_reached")
def _(right, guard):
    return False


@planted(None, "resuming forgives bad steps", check.endless_skips_end_the_run, "loop.guards.Guard.load_state_dict")
def _(right, guard, saved):
    right(guard, saved | {"streak": 0})


planted(
    None, "BatchNorm remembers a blocked step", check.skipped_step_counts_nowhere, "loop.guards.Guard.undo_buffers"
)(nothing)


@planted(None, "the average moves in a blocked step", check.skipped_step_counts_nowhere, "loop.state.Ema.update")
def _(right, ema, weights, unless=None):
    right(ema, weights)


@planted(None, "totals of a blocked step are not masked", check.skipped_step_counts_nowhere, "loop.metrics.Mean.add")
def _(right, mean, totals, count, unless=None):
    right(mean, totals, count)


@planted(
    None, "totals of a blocked step are multiplied by 0", check.skipped_step_counts_nowhere, "loop.metrics.Mean.add"
)
def _(right, mean, totals, count, unless=None):
    weight = 1 if unless is None else ~unless
    right(mean, [total * weight for total in totals], count * weight)


@planted(
    None,
    "the schedule moves on in a blocked step",
    check.skipped_step_counts_nowhere,
    "loop.training.check_skipped_updates",
)
def _(right, state, *args):
    place = state.scheduler.last_epoch
    right(state, *args)
    state.scheduler.last_epoch = place - 1
    state.scheduler.step()


@planted(
    None,
    "the schedule is set back when somebody looks",
    check.watching_changes_nothing,
    "loop.training.check_updates",
    GPU,
)
def _(right, *args, watching):
    if watching:
        check_skipped_updates(*args)
    right(*args, watching=watching)


# ---- out of memory ---------------------------------------------------------------------------------------------------


@planted(
    None,
    "every error is taken for a lack of memory",
    check.memory_shortage_changes_nothing,
    "loop.training.is_out_of_memory",
)
def _(right, error):
    return True


planted(
    None, "the failed attempt at a step leaves traces", check.memory_shortage_changes_nothing, "loop.state.Snapshot"
)(restores_nothing)


@planted(
    None,
    "the failed attempt leaves its random numbers",
    check.memory_shortage_changes_nothing,
    "loop.state.Snapshot",
)
def _(right, *args, **options):
    before = right(*args, **options)
    before.restore = before.put_back
    return before


# ---- the same run, watched or not ------------------------------------------------------------------------------------


@planted(None, "no seed", check.same_run, "loop.training.own_random_streams")
def _(right, seed=None):
    return right()


@planted(None, "NumPy's stream is not seeded", check.same_run, "device.seed_everything")
def _(right, seed):
    kept = np.random.get_state()  # noqa: NPY002
    right(seed)
    np.random.set_state(kept)  # noqa: NPY002


@planted(None, "a seed that does not reach the order", check.same_run, "loop.training.Order")
def _(right, examples, batch_size, seed=0, **options):
    return right(examples, batch_size, **options)


@planted(None, "one seed for every step's dropout", check.dropout_draws_anew, "loop.training.forward_backward")
def _(right, *args):
    torch.manual_seed(0)
    return right(*args)


planted(None, "examples move the model's streams", check.workers_change_nothing, "data.order.set_rng_state")(nothing)


@planted(
    None,
    "starting the workers moves the model's streams",
    check.workers_change_nothing,
    "data.order.DataLoader.__init__",
)
def _(right, loader, *args, **options):
    right(loader, *args, **options | {"generator": None})


@planted(None, "validation seeds the model's streams", check.watching_changes_nothing, "loop.training.score")
def _(right, *args, **options):
    torch.manual_seed(0)
    return right(*args, **options)


@planted(None, "a record draws a random number", check.watching_changes_nothing, "loop.log.Log.add")
def _(right, log, **record):
    torch.rand(())
    return right(log, **record)


@planted(None, "counting FLOPs leaves traces", check.watching_changes_nothing, "loop.monitor.without_a_trace")
def _(right, model):
    return nullcontext()


@planted(None, "any kernel will do", check.kernels_are_deterministic, "loop.training.deterministic_algorithms")
def _(right, on):
    return nullcontext()


@planted(
    None,
    "determinism is imposed on the caller",
    check.kernels_are_deterministic,
    "loop.training.deterministic_algorithms",
)
def _(right, on):
    return nullcontext(torch.use_deterministic_algorithms(on))


# ---- choosing --------------------------------------------------------------------------------------------------------


@planted(25, "best weights are an alias", check.best_weights_are_those_validated, "loop.training.validate")
def _(right, state, *args):
    right(state, *args)
    state.best_weights = state.best_weights and state.validation_model.state_dict()


@planted(51, "stopping by a rule for accuracies", check.stopping_follows_the_loss, "loop.state.State.is_best")
def _(right, state, val_loss):
    return right(state, -val_loss)


@planted(
    None, "the last validation taken for the best", check.best_weights_are_those_validated, "loop.state.State.is_best"
)
def _(right, state, val_loss):
    state.best = None
    return right(state, val_loss)


@planted(None, "the best is not saved", check.best_weights_are_those_validated, "loop.run_folder.RunFolder.save")
def _(right, folder, *args, kind="step"):
    if kind == "step":
        right(folder, *args)


@planted(None, "patience off by one", check.stopping_follows_the_loss, "loop.state.State.is_best")
def _(right, state, val_loss):
    best = right(state, val_loss)
    state.stopped_early = 0 < state.config.patience < state.validations_without_improvement
    return best


@planted(None, "a better loss does not reset the count", check.stopping_follows_the_loss, "loop.state.State.is_best")
def _(right, state, val_loss):
    before = state.validations_without_improvement
    best = right(state, val_loss)
    if best:
        state.validations_without_improvement = before
    return best


@planted(None, "compared with the last loss, not the best", check.stopping_follows_the_loss, "loop.state.State.is_best")
def _(right, state, val_loss):
    best = right(state, val_loss)
    state.last_improvement = val_loss
    return best


# ---- resuming --------------------------------------------------------------------------------------------------------

resumed_without(23, "the optimizer's state", resumes["optimizer"], "optimizer")
resumed_without(None, "the momentum", resumes["momentum"], "optimizer")
resumed_without(24, "the random streams", resumes["random streams"], "rng")
resumed_without(None, "BatchNorm's running mean", resumes["BatchNorm statistics"], "model", "2.running_mean")
resumed_without(None, "NumPy's stream", resumes["random streams"], "rng", "numpy")
resumed_without(None, "Python's stream", resumes["random streams"], "rng", "python")
resumed_without(None, "the schedule", resumes["schedule"], "scheduler")
resumed_without(None, "the average", resumes["average"], "ema")
resumed_without(None, "the loss scale", resumes["loss scale"], "scaler")
resumed_without(None, "the blocked steps", resumes["skipped steps"], "guard")
resumed_without(None, "the skipped steps", resumes["skipped steps"], "progress", "skipped")
resumed_without(None, "the totals of half a record", resumes["position in the data"], "train_loss")
resumed_without(None, "the step", resumes["position in the data"], "progress", "step")
resumed_without(None, "the best", resumes["early stopping"], "progress", "best")
resumed_without(None, "the last improvement", resumes["early stopping"], "progress", "last_improvement")
resumed_without(
    None,
    "the validations since the best",
    resumes["early stopping"],
    "progress",
    "validations_without_improvement",
)


@planted(None, "resumed at the start of the data", resumes["position in the data"], "loop.training.batches")
def _(right, data, order, start, stop, **options):
    return right(data, order, 0, stop - start, **options)


@planted(None, "resumed in the order of the epoch before", resumes["order of the next epoch"], "loop.training.batches")
def _(right, data, order, start, stop, **options):
    whole = order.steps_per_epoch if start % order.steps_per_epoch == 0 < start else 0
    return right(data, order, start - whole, stop - whole, **options)


@planted(
    None,
    "resumed never: every start is a fresh one",
    resumes["position in the data"],
    "loop.run_folder.RunFolder.load_newest",
)
def _(right, folder):
    return None


@planted(None, "the log keeps what a crashed run wrote", resumes["position in the data"], "loop.log.Log.resume")
def _(right, log, step):
    right(log, math.inf)


@planted(None, "the log's file is not cut", resumes["position in the data"], "loop.log.Log.resume")
def _(right, log, step):
    written = log.path.read_bytes() if log.path.exists() else None
    right(log, step)
    if written:
        log.path.write_bytes(written)


@planted(None, "a checkpoint is believed", check.damaged_checkpoint_is_refused, "loop.checkpoint.load")
def _(right, path):
    return torch.load(path, weights_only=True)


@planted(
    None,
    "a damaged checkpoint is passed over in silence",
    check.damaged_checkpoint_is_refused,
    "loop.checkpoint.load_newest",
)
def _(right, folder, kind="step", say=print, **options):
    return right(folder, kind, say=lambda text: None, **options)
