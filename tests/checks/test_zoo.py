"""The zoo: every silent bug is put where it belongs and caught by its detector.

A bug that a loop can have is planted in a copy of our own loop's source: an exact snippet, which must occur exactly once, is
replaced by the bug. Its detector must pass on the loop as it is and raise AssertionError, by itself, on the copy. Bugs
of models, data, losses, optimizers and scripts stand next to their right versions in test_checks.py.

The numbers are those of the zoo's 52 bugs; what has none is a broken promise of our loop's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from helpers.bug_injection import Copy, assert_caught
from test_checks import BESIDE, ELSEWHERE
from torch.optim import SGD
from torch.utils.data import DataLoader

from utils.checks import loop as loop_checks
from utils.checks import parts
from utils.loop import train

BUGS = range(1, 53)
resumes = {what: partial(loop_checks.resumes_exactly, what=what) for what in loop_checks.RESUMED}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


# ---- bugs planted in a copy of the loop's source ---------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """changes: (file, what stands there, the bug in its place). gpu: in a loop that takes the way of a GPU."""

    bug: int | None
    name: str
    detector: Callable
    changes: tuple[tuple[str, str, str], ...]
    gpu: bool = False


def planted(bug: int | None, name: str, detector: Callable, *changes: str, gpu: bool = False) -> Planted:
    return Planted(bug, name, detector, tuple(zip(*[iter(changes)] * 3, strict=True)), gpu)


CLIP = (
    "    state.norm = clip_gradients(state.parameters, state.config.clip, state.guard.on_host)  # the norm before it\n"
)
# torch's own takes no gradients for gradients of norm 0
TORCHS_CLIP = CLIP.replace("clip_gradients", "nn.utils.clip_grad_norm_").replace(", state.guard.on_host", "")
UNSCALE = "    state.scaler.unscale_(state.optimizer)\n"
STEP = "    state.optimizer.step()\n"
SCHEDULE = "    state.scheduler.step()\n"
ZERO = "            zero_grad(state.parameters)\n            losses"
BACKWARD = "                part.backward(state.scaler.scale(state.share(targets, part.dtype)))\n"
AVERAGE = "    if state.ema:\n        state.ema.update(state.parameters, unless=state.guard.bad)\n"
SHARE = "state.share(targets, part.dtype)"
WITH = "with evaluating(model), own_random_streams(), torch.no_grad(), closing(stream):"
# On a GPU the loop does not look at each gradient: it blocks on the device, and learns of it later.
GPU = (("loop/guards.py", 'device.type == "cpu"', "False"),)
AT_ONCE = (("loop/state.py", "SETTLE_EVERY = 50", "SETTLE_EVERY = 1"),)
AS_GPU = partial(loop_checks.nonfinite_never_reaches_the_weights, log_every=6)

PLANTED = (
    planted(1, "zero_grad forgotten", loop_checks.gradients_are_fresh, "loop/train.py", ZERO, "            losses"),
    planted(
        2,
        "zero_grad between backward and step",
        loop_checks.steps_have_gradients,
        *("loop/train.py", UNSCALE, "    state.optimizer.zero_grad(set_to_none=False)\n" + UNSCALE),
    ),
    planted(
        3,
        "clip before backward",
        loop_checks.clip_binds,
        *("loop/train.py", ZERO, ZERO.replace("losses", TORCHS_CLIP.strip() + "\n            losses")),
        *("loop/train.py", UNSCALE + CLIP, UNSCALE),
    ),
    planted(
        4,
        "clip after step",
        loop_checks.clip_binds,
        *("loop/train.py", CLIP, CLIP.replace("state.config.clip", "0")),
        *("loop/train.py", STEP, STEP + CLIP),
    ),
    planted(
        5,
        "clip on an exhausted generator",
        loop_checks.clip_binds,
        *("loop/train.py", CLIP, TORCHS_CLIP.replace("state.parameters", "iter(())")),
    ),
    planted(
        6,
        "clip before unscale",
        loop_checks.clip_sees_unscaled_gradients,
        "loop/train.py",
        UNSCALE + CLIP,
        CLIP + UNSCALE,
    ),
    planted(
        7,
        "a step that is never unscaled",
        loop_checks.loss_scale_leaves_no_trace,
        *("loop/train.py", UNSCALE, ""),
        *("loop/train.py", "    state.scaler.update()\n", ""),
    ),
    planted(
        8,
        "schedule in the loop over micro-batches",
        loop_checks.rate_follows_schedule,
        *("loop/train.py", SCHEDULE, ""),
        *("loop/train.py", BACKWARD, BACKWARD + "                state.scheduler.step()\n"),
    ),
    planted(
        8,
        "schedule in steps, stepped once an epoch",
        loop_checks.rate_follows_schedule,
        *("loop/train.py", SCHEDULE, "    if state.step % 3 == 2:\n        state.scheduler.step()\n"),
    ),
    planted(
        8,
        "a schedule without its floor",
        loop_checks.rate_follows_schedule,
        *("loop/optim.py", "config.final_lr + (1 - config.final_lr) * (1 + math.cos", "(1 + math.cos"),
    ),
    planted(
        9,
        "schedule before the optimizer",
        loop_checks.rate_follows_schedule,
        *("loop/train.py", SCHEDULE, ""),
        *("loop/train.py", STEP, SCHEDULE + STEP),
    ),
    planted(
        10,
        "train() forgotten after validation",
        loop_checks.trains_in_train_mode,
        *("loop/guards.py", "module.training = mode", "pass"),
    ),
    planted(
        11,
        "eval() forgotten in validation",
        loop_checks.validates_in_eval_mode,
        *("loop/train.py", WITH, "with own_random_streams(), torch.no_grad(), closing(stream):"),
    ),
    planted(
        12,
        "no_grad forgotten in validation",
        loop_checks.validation_keeps_no_graph,
        *("loop/train.py", WITH, "with evaluating(model), own_random_streams(), closing(stream):"),
    ),
    planted(
        15,
        "validation shuffled",
        loop_checks.validation_keeps_order,
        *("loop/train.py", "shuffle=False", "shuffle=True"),
    ),
    planted(
        16,
        "training not shuffled",
        loop_checks.sorted_data_is_shuffled,
        *("data/order.py", "if self.shuffle:", "if False:"),
    ),
    planted(
        17,
        "accumulation by the mean of means",
        loop_checks.accumulation_equals_big_batch,
        *("loop/train.py", SHARE, "(1 / count_targets(y_part) / min(state.parts, len(x)))"),
    ),
    planted(
        18,
        "masked tokens weighted by examples",
        loop_checks.accumulation_counts_tokens,
        *("loop/train.py", SHARE, "(len(x_part) / len(x) / count_targets(y_part))"),
    ),
    planted(
        19,
        "micro-batches left over",
        loop_checks.no_micro_batch_is_left_over,
        *("loop/train.py", "zip(x.tensor_split(parts), y.tensor_split(parts), strict=True)", "_whole(x, y, parts)"),
        *(
            "loop/train.py",
            "def train(\n",
            "def _whole(x, y, parts):\n"
            "    size = len(x) // parts\n"
            "    return list(zip(x.split(size), y.split(size), strict=True))[:parts]\n\n\n"
            "def train(\n",
        ),
    ),
    planted(
        20,
        "not divided by the number of micro-batches",
        loop_checks.accumulation_equals_big_batch,
        *("loop/train.py", SHARE, "(1 / count_targets(y_part))"),
    ),
    planted(
        21,
        "one seed for every epoch",
        loop_checks.examples_draw_anew,
        *("data/order.py", '"example", epoch, index', '"example", index'),
    ),
    planted(
        21,
        "one seed for every example",
        loop_checks.examples_draw_anew,
        *("data/order.py", '"example", epoch, index', '"example", epoch'),
    ),
    planted(
        23,
        "resumed without the optimizer's state",
        resumes["optimizer"],
        *("loop/state.py", '        self.optimizer.load_state_dict(saved["optimizer"])\n', ""),
    ),
    planted(
        24,
        "resumed without the random streams",
        resumes["random streams"],
        *("loop/state.py", '        set_rng_state(saved["rng"])\n', ""),
    ),
    planted(
        25,
        "best weights are an alias",
        loop_checks.best_weights_are_those_validated,
        *("loop/train.py", "whole(tensor.clone()) for name", "whole(tensor) for name"),
    ),
    planted(
        27,
        "a sum where a mean was meant",
        loop_checks.gradients_are_fresh,
        "loop/train.py",
        SHARE,
        "torch.ones_like(part)",
    ),
    planted(
        28,
        "softmax before cross-entropy",
        loop_checks.overfits_one_batch,
        *(
            "loop/train.py",
            "                    part = loss",
            "                    outputs = outputs.softmax(-1)\n                    part = loss",
        ),
    ),
    planted(
        32,
        "weights edited between forward and backward",
        loop_checks.gradients_are_fresh,
        *("loop/train.py", BACKWARD, "                state.parameters[-2].data *= 1.1\n" + BACKWARD),
    ),
    planted(
        35,
        "every epoch in the first one's order",
        loop_checks.epochs_have_orders_of_their_own,
        *(
            "data/order.py",
            "_permutation(self.examples, self.seed, epoch,",
            "_permutation(self.examples, self.seed, 0,",
        ),
    ),
    planted(
        36,
        "graph tensors in the log",
        loop_checks.log_holds_no_graph,
        *("loop/train.py", "losses.append(part.detach())", "losses.append(part)"),
        *("loop/train.py", "    state.step += 1\n", "    state.step += 1\n    state.norm = losses[0]\n"),
        *("loop/monitor.py", "state.norm.item()", "state.norm"),
    ),
    planted(
        37,
        "a loss that has a softmax of its own",
        loop_checks.overfits_one_batch,
        *(
            "loop/metrics.py",
            "        logits.reshape(-1, logits.shape[-1]),",
            "        logits.reshape(-1, logits.shape[-1]).softmax(-1),",
        ),
    ),
    planted(
        40,
        "Adam(weight_decay) for AdamW",
        loop_checks.weight_decay_is_decoupled,
        *("loop/optim.py", "torch.optim.AdamW(", "torch.optim.Adam("),
    ),
    planted(
        41,
        "a frozen weight moves",
        loop_checks.frozen_weights_stay,
        *(
            "loop/train.py",
            ZERO,
            ZERO.replace("zero_grad(state.parameters)", "state.optimizer.zero_grad(set_to_none=False)"),
        ),
    ),
    planted(
        42,
        "epoch mean of batch means",
        loop_checks.reported_losses_count_targets,
        *(
            "loop/metrics.py",
            "_held.append((totals, count))",
            "_held.append(([t / count for t in totals], count / count))",
        ),
    ),
    planted(
        44,
        "next(iter(loader)) at every step",
        loop_checks.epochs_are_complete,
        *("data/order.py", "self.device)[start:stop]", "self.device)[: stop - start]"),
    ),
    planted(
        45,
        "drop_last that drops everything",
        loop_checks.says_no_to_zero_steps,
        *("data/order.py", "return full + (rest > 0 and not self.drop_last)", "return max(1, full)"),
    ),
    planted(
        47,
        "a graph used again after a fused step",
        loop_checks.gradients_are_fresh,
        *("loop/train.py", BACKWARD, BACKWARD.replace("dtype)))", "dtype)), retain_graph=True)")),
        *("loop/train.py", STEP, STEP + "    part.backward()\n" + STEP),
    ),
    planted(
        50,
        "weights in bfloat16",
        loop_checks.weights_stay_float32,
        *(
            "loop/state.py",
            "model.to(device)",
            'model.to(device, torch.bfloat16 if config.precision == "bf16" else None)',
        ),
    ),
    planted(
        51,
        "stopping by a rule for accuracies",
        loop_checks.stopping_follows_the_loss,
        *("loop/state.py", 'val_loss < self.best["val_loss"] - self', 'val_loss > self.best["val_loss"] + self'),
    ),
    planted(
        52,
        "a batch without targets is 0/0",
        loop_checks.all_ignored_batch_is_harmless,
        *("loop/monitor.py", "total / targets if targets else None", "float(torch.tensor(total) / targets)"),
    ),
    # Promises of our own: honest numbers.
    planted(
        None,
        "targets counted in the wrong tensor",
        loop_checks.gradients_are_fresh,
        *("loop/train.py", "count_targets(y)\n    before", "count_targets(x)\n    before"),
    ),
    planted(
        None,
        "a single target counts half",
        loop_checks.gradients_are_fresh,
        *("loop/state.py", "targets.clamp(min=1)", "targets.clamp(min=2)"),
    ),
    planted(
        None,
        "padding counts in the reported loss",
        loop_checks.reported_losses_count_targets,
        *("loop/metrics.py", "return targets.ne(IGNORE).count_nonzero()", "return torch.tensor(targets.numel())"),
    ),
    planted(
        None,
        "validation drops its last batch",
        loop_checks.reported_losses_count_targets,
        *("loop/train.py", "shuffle=False, device", "shuffle=False, drop_last=True, device"),
    ),
    planted(
        None,
        "totals of the last micro-batch only",
        loop_checks.reported_losses_count_targets,
        *("loop/train.py", "add(losses, own_targets", "add(losses[-1:], own_targets"),
    ),
    planted(
        None,
        "totals are not cleared after a record",
        loop_checks.reported_losses_count_targets,
        *("loop/monitor.py", "        state.train_loss.clear()\n", ""),
    ),
    planted(
        None,
        "the logged norm is the clipped one",
        loop_checks.logged_norm_is_before_clipping,
        *(
            "loop/train.py",
            CLIP,
            CLIP + "    state.norm = torch.nn.utils.get_total_norm([p.grad for p in state.parameters])\n",
        ),
    ),
    planted(
        None,
        "the logged rate is the next step's",
        loop_checks.logged_rate_is_the_one_used,
        *("loop/monitor.py", "state.scheduler.last_epoch - 1", "state.scheduler.last_epoch"),
    ),
    planted(
        None,
        "a precision that is never entered",
        loop_checks.precision_takes_effect,
        *("loop/train.py", "                with state.autocast:", "                with torch.enable_grad():"),
    ),
    planted(
        None,
        "a validation in another precision",
        loop_checks.precision_takes_effect,
        *("loop/train.py", "with autocast(device, precision):", "with torch.no_grad():"),
    ),
    planted(
        None,
        "the logged epoch is the next step's",
        loop_checks.logged_rate_is_the_one_used,
        *("loop/monitor.py", "self.order.epoch(state.step - 1)", "self.order.epoch(state.step)"),
    ),
    planted(
        None,
        "a last batch of one example is lost",
        loop_checks.epochs_are_complete,
        *("data/order.py", "rest > 0 and", "rest > 1 and"),
    ),
    planted(
        None,
        "new workers start a step late",
        loop_checks.workers_change_nothing,
        *("data/order.py", "(order.epoch(first) + 1) * order", "1 + (order.epoch(first) + 1) * order"),
        *("data/order.py", "        first = last\n", "        first = last - (last < stop)\n"),
    ),
    planted(
        None,
        "validation time counts in the rate",
        loop_checks.rates_are_of_training_time,
        *("loop/monitor.py", "        self.window += time.perf_counter() - began\n", ""),
    ),
    planted(
        None,
        "the rate's clock is not set anew",
        loop_checks.rates_are_of_training_time,
        *(
            "loop/monitor.py",
            "        state.train_loss.clear()\n        self.window = time.perf_counter()\n",
            "        state.train_loss.clear()\n",
        ),
    ),
    planted(
        None,
        "a batch's FLOPs taken for an example's",
        loop_checks.rates_are_of_training_time,
        *("loop/monitor.py", "flops / max(1, int(count_targets(y)))", "flops"),
    ),
    planted(
        None,
        "seconds counted twice",
        loop_checks.rates_are_of_training_time,
        *("loop/monitor.py", "        self.tick = now\n", ""),
    ),
    # The average.
    planted(
        None,
        "the average is not what is validated",
        loop_checks.average_is_validated,
        *("loop/state.py", "        return self.ema.model\n", "        return self.model\n"),
    ),
    planted(
        None,
        "the average before the step",
        loop_checks.average_is_validated,
        *("loop/train.py", AVERAGE, ""),
        *(
            "loop/train.py",
            STEP,
            AVERAGE + STEP,
        ),
    ),
    planted(
        None,
        "decay and share exchanged",
        loop_checks.average_is_validated,
        *("loop/optim.py", "new_tensor(1 - decay)", "new_tensor(decay)"),
    ),
    planted(
        None,
        "the average keeps its first buffers",
        loop_checks.average_is_validated,
        *("loop/state.py", "        self.ema.copy_buffers(self.model)\n", ""),
    ),
    planted(
        None,
        "another optimizer than the one asked for",
        loop_checks.updates_follow_their_rule,
        *("loop/optim.py", 'if config.optimizer == "adamw":', "if True:"),
    ),
    planted(
        None,
        "a beta that does not arrive",
        loop_checks.updates_follow_their_rule,
        *("loop/optim.py", "betas=(config.beta1, config.beta2), ", ""),
    ),
    planted(
        None,
        "biases decay",
        loop_checks.updates_follow_their_rule,
        *("loop/optim.py", "(p.ndim >= 2) == wanted", "(p.ndim >= 1) == wanted"),
    ),
    planted(
        None,
        "momentum that begins with a blocked step",
        loop_checks.updates_follow_their_rule,
        *("loop/optim.py", "    if config.momentum:\n", "    if False:\n"),
    ),
    # What is not finite, and what does not fit.
    planted(
        None,
        "an update that is not blocked",
        loop_checks.nonfinite_never_reaches_the_weights,
        *("loop/guards.py", "self.optimizer.found_inf = self.found_inf", "self.found_inf"),
    ),
    planted(
        None,
        "only the bad step is blocked, not those after it",
        AS_GPU,
        *("loop/guards.py", "        self.bad.logical_or_(self.streak >= self.limit)\n", ""),
        gpu=True,
    ),
    planted(
        None,
        "BatchNorm remembers a blocked step",
        loop_checks.skipped_step_leaves_no_trace,
        *("loop/train.py", "    state.guard.undo_buffers(before)\n", ""),
    ),
    planted(
        None,
        "the average moves in a blocked step",
        loop_checks.skipped_step_leaves_no_trace,
        *("loop/optim.py", "share.masked_fill(unless, 0)", "share"),
    ),
    planted(
        None,
        "totals of a blocked step are not masked",
        loop_checks.skipped_step_leaves_no_trace,
        *("loop/train.py", "add(losses, own_targets, unless=state.guard.bad)", "add(losses, own_targets)"),
    ),
    planted(
        None,
        "totals of a blocked step are multiplied by 0",
        loop_checks.skipped_step_leaves_no_trace,
        *("loop/metrics.py", "total.masked_fill(unless, 0)", "total * ~unless"),
    ),
    planted(
        None,
        "the schedule moves on in a blocked step",
        loop_checks.skipped_step_leaves_no_trace,
        *("loop/state.py", "self.scheduler.last_epoch -= fresh + 1", "self.scheduler.last_epoch -= 1"),
    ),
    planted(
        None,
        "a good step does not end a row of bad ones",
        loop_checks.endless_skips_end_the_run,
        *("loop/guards.py", "            self.streak.zero_()\n", ""),
    ),
    planted(
        None,
        "a good step does not end a row of bad ones on a GPU",
        loop_checks.endless_skips_end_the_run,
        *("loop/guards.py", "self.streak.add_(1).mul_(self.found_inf)", "self.streak.add_(self.found_inf)"),
        *AT_ONCE[0],
        gpu=True,
    ),
    planted(
        None,
        "one blocked step blocks all that follow",
        loop_checks.updates_follow_their_rule,
        *("loop/guards.py", "self.bad = self.optimizer.found_inf = None", "self.bad = None"),
    ),
    planted(
        None,
        "the schedule is set back when somebody looks",
        loop_checks.watching_changes_nothing,
        *("loop/state.py", "(watching and self.guard.over)", "watching"),
        gpu=True,
    ),
    planted(
        None,
        "resuming forgives bad steps",
        loop_checks.endless_skips_end_the_run,
        *("loop/guards.py", '        self.streak.fill_(saved["streak"])\n', ""),
    ),
    planted(
        None,
        "endless skips",
        loop_checks.endless_skips_end_the_run,
        *("loop/state.py", "        if self.guard.over:\n", "        if False:\n"),
    ),
    planted(
        None,
        "the failed attempt at a step leaves traces",
        loop_checks.memory_shortage_changes_nothing,
        *("loop/state.py", "        before.restore()\n", ""),
    ),
    planted(
        None,
        "every error is taken for a lack of memory",
        loop_checks.memory_shortage_changes_nothing,
        *("loop/train.py", "            if not is_out_of_memory(error):\n                raise\n", ""),
    ),
    planted(
        None,
        "the failed attempt leaves its random numbers",
        loop_checks.memory_shortage_changes_nothing,
        *("loop/guards.py", "        torch.set_rng_state(self.cpu_stream)\n", ""),
    ),
    # The same run, watched or not.
    planted(
        None,
        "no seed",
        loop_checks.same_run,
        *("loop/train.py", "own_random_streams(config.seed)", "own_random_streams()"),
    ),
    planted(
        None,
        "the caller's streams are seeded over",
        loop_checks.same_run,
        *("device.py", "    finally:\n        set_rng_state(kept)\n", "    finally:\n        pass\n"),
    ),
    planted(
        None,
        "examples move the model's streams",
        loop_checks.workers_change_nothing,
        *(
            "data/order.py",
            "        finally:\n            set_rng_state(kept)\n",
            "        finally:\n            pass\n",
        ),
    ),
    planted(
        None,
        "starting the workers moves the model's streams",
        loop_checks.workers_change_nothing,
        *("data/order.py", "            generator=torch.Generator(),", ""),
    ),
    planted(
        None,
        "validation seeds the model's streams",
        loop_checks.watching_changes_nothing,
        *("loop/train.py", WITH, "torch.manual_seed(0)\n    with evaluating(model), torch.no_grad(), closing(stream):"),
    ),
    planted(
        None,
        "a record draws a random number",
        loop_checks.watching_changes_nothing,
        *(
            "loop/monitor.py",
            "        state.train_loss.clear()\n",
            "        state.train_loss.clear()\n        torch.rand(())\n",
        ),
    ),
    planted(
        None,
        "counting FLOPs leaves traces",
        loop_checks.watching_changes_nothing,
        *("loop/monitor.py", "        before.restore()\n", ""),
    ),
    planted(
        None,
        "NumPy's stream is not seeded",
        loop_checks.same_run,
        *("device.py", "    np.random.seed(seed % 2**32)", "    "),
    ),
    planted(
        None,
        "any kernel will do",
        loop_checks.kernels_are_deterministic,
        *("device.py", "        torch.use_deterministic_algorithms(True)\n", ""),
    ),
    planted(
        None,
        "determinism is imposed on the caller",
        loop_checks.kernels_are_deterministic,
        *("device.py", "        torch.use_deterministic_algorithms(kept[0], warn_only=kept[1])\n", ""),
    ),
    # Choosing.
    planted(
        None,
        "the last validation taken for the best",
        loop_checks.best_weights_are_those_validated,
        *("loop/state.py", 'val_loss < self.best["val_loss"] - self.config.min_delta', "True"),
    ),
    planted(
        None,
        "the best is not saved",
        loop_checks.best_weights_are_those_validated,
        *("loop/train.py", '        folder.save(state.state_dict(), state.step, state.seconds, kind="best")\n', ""),
    ),
    planted(
        None,
        "patience off by one",
        loop_checks.stopping_follows_the_loss,
        *("loop/state.py", "0 < self.config.patience <= self.worse", "0 < self.config.patience < self.worse"),
    ),
    planted(
        None,
        "a better loss does not reset the count",
        loop_checks.stopping_follows_the_loss,
        *("loop/state.py", '"val_loss": val_loss}, 0\n', '"val_loss": val_loss}, self.worse\n'),
    ),
    planted(
        None,
        "compared with the last loss, not the best",
        loop_checks.stopping_follows_the_loss,
        *(
            "loop/state.py",
            "        self.worse += 1\n",
            '        self.best["val_loss"] = val_loss\n        self.worse += 1\n',
        ),
    ),
    # Resuming.
    planted(
        None,
        "resumed without NumPy's stream",
        resumes["random streams"],
        *(
            "device.py",
            "    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))",
            "    ",
        ),
    ),
    planted(
        None,
        "resumed without Python's stream",
        resumes["random streams"],
        *("device.py", '    random.setstate(state["python"])\n', ""),
    ),
    planted(
        None,
        "resumed without the schedule",
        resumes["schedule"],
        *("loop/state.py", '        self.scheduler.load_state_dict(saved["scheduler"])\n', ""),
    ),
    planted(
        None,
        "resumed without the average",
        resumes["average"],
        *("loop/state.py", '            self.ema.model.load_state_dict(saved["ema"])\n', "            pass\n"),
    ),
    planted(
        None,
        "resumed without the loss scale",
        resumes["loss scale"],
        *("loop/state.py", '        self.scaler.load_state_dict(saved["scaler"])\n', ""),
    ),
    planted(
        None,
        "resumed without the blocked steps",
        resumes["skipped steps"],
        *("loop/state.py", '        self.guard.load_state_dict(saved["guard"])\n', ""),
    ),
    planted(
        None,
        "resumed without the skipped steps",
        resumes["skipped steps"],
        *("loop/state.py", '"skipped", "parts"', '"parts"'),
    ),
    planted(
        None,
        "resumed without the totals of half a record",
        resumes["position in the data"],
        *("loop/state.py", '        self.train_loss = Mean(self.device, saved["train_loss"])\n', ""),
    ),
    planted(
        None,
        "resumed without the step",
        resumes["position in the data"],
        *("loop/state.py", '("step", "skipped"', '("skipped"'),
    ),
    planted(
        None,
        "resumed at the start of the data",
        resumes["position in the data"],
        *("loop/train.py", "        state.step,\n        stop,\n", "        0,\n        stop - state.step,\n"),
    ),
    planted(
        None,
        "resumed without the best",
        resumes["early stopping"],
        *("loop/state.py", '"best", "worse"', '"worse"'),
    ),
    planted(
        None,
        "resumed without the validations since the best",
        resumes["early stopping"],
        *("loop/state.py", '"best", "worse"', '"best"'),
    ),
    planted(
        None,
        "resumed never: every start is a fresh one",
        resumes["position in the data"],
        *("loop/train.py", "            if saved:\n", "            if False:\n"),
    ),
    planted(
        None,
        "the log keeps what a crashed run wrote",
        resumes["position in the data"],
        *("loop/metrics.py", 'if record and record["step"] <= step', "if record"),
    ),
    planted(
        None,
        "the log's file is not cut",
        resumes["position in the data"],
        *("loop/metrics.py", "                file.truncate(self._end)\n", "                pass\n"),
    ),
    planted(
        None,
        "a checkpoint is believed",
        loop_checks.damaged_checkpoint_is_refused,
        *("loop/checkpoint.py", 'if digest != match["digest"]:', "if False:"),
    ),
    planted(
        None,
        "a damaged checkpoint is passed over in silence",
        loop_checks.damaged_checkpoint_is_refused,
        *("loop/checkpoint.py", '            say(f"skipped a checkpoint: {error}")\n', "            pass\n"),
    ),
)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: f"{bug.bug or 'own'}: {bug.name}")
def test_a_planted_bug_is_caught(bug, tmp_path):
    before = GPU if bug.gpu else ()
    with Copy(tmp_path, before + bug.changes) as copy:
        assert_caught(bug.detector, copy.module("loop").train)


def called(detector: Callable) -> str:
    return detector.__name__ if not isinstance(detector, partial) else f"{detector.func.__name__} {detector.keywords}"


USED = {called(bug.detector): bug.detector for bug in PLANTED}
# These look at each step for what a GPU's loop learns of later.
STEP_BY_STEP = {loop_checks.skipped_step_leaves_no_trace, loop_checks.endless_skips_end_the_run}


@pytest.mark.parametrize("name", USED)
def test_the_loop_as_it_is_passes(name):
    USED[name](train)


@pytest.mark.parametrize("name", USED)
def test_the_loop_on_the_way_of_a_gpu_passes(name, tmp_path):
    with Copy(tmp_path, GPU + (AT_ONCE if USED[name] in STEP_BY_STEP else ())) as copy:
        USED[name](copy.module("loop").train)


# ---- bugs of loops written by hand -----------------------------------------------------------------------------------


def by_hand(model, data, val=None, config=None, *, flush: bool = True, check: bool = True, **_) -> None:
    """Two epochs as tutorials have them: micro-batches come from the loader, every `accumulation`-th makes a step."""
    examples = [data[i] for i in range(len(data))]
    loader = DataLoader(examples, config.batch_size // config.accumulation, shuffle=True, drop_last=config.drop_last)
    if check and len(loader) == 0:
        raise ValueError("no batch at all")
    optimizer = SGD(model.parameters(), lr=config.lr)
    for _ in range(2):
        for i, (x, y) in enumerate(loader, start=1):
            (F.cross_entropy(model(x), y) / config.accumulation).backward()
            if i % config.accumulation == 0 or (flush and i == len(loader)):
                optimizer.step()
                optimizer.zero_grad()


BY_HAND = (
    (19, "micro-batches left over at an epoch's end", loop_checks.no_micro_batch_is_left_over, {"flush": False}),
    (45, "no batch, no step, no word", loop_checks.says_no_to_zero_steps, {"check": False}),
)


@pytest.mark.parametrize(("bug", "name", "detector", "wrong"), BY_HAND, ids=[name for _, name, _, _ in BY_HAND])
def test_a_bug_of_a_loop_by_hand_is_caught(bug, name, detector, wrong):
    detector(by_hand)
    assert_caught(detector, partial(by_hand, **wrong))


# ---- the zoo is complete ---------------------------------------------------------------------------------------------


def test_every_bug_of_the_zoo_is_here():
    here = {bug.bug for bug in (*PLANTED, *BESIDE)} | {int(name.split(":")[0]) for name in ELSEWHERE if name[0] != "o"}
    here |= {bug for bug, *_ in BY_HAND} | {33}  # which has a test of its own
    assert here - {None} == set(BUGS)


def test_every_detector_has_a_bug_that_it_catches():
    public = {
        function
        for module in (parts, loop_checks)
        for name, function in vars(module).items()
        if callable(function) and getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
    }
    used = {bug.detector for bug in (*PLANTED, *BESIDE)} | {detector for detector, *_ in ELSEWHERE.values()}
    used = {getattr(detector, "func", detector) for detector in used}
    assert used == public


@pytest.mark.parametrize("table", [PLANTED, BESIDE], ids=["planted", "beside"])
def test_the_names_are_told_apart(table):
    assert len({(bug.bug, bug.name) for bug in table}) == len(table)
