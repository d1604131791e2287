"""Detectors of silent bugs in a training loop: each runs the loop on a problem small enough to check by hand.

A detector takes `train`, a function with the signature of utils.loop.train, and raises AssertionError with the values
it saw. It observes from outside: a Recording holds what the model and the optimizers were given. any_loop.py makes such a
`train` of any loop that trains a model in place; what a detector cannot judge in it raises NotJudged, which says why.

The toy problem is the same wherever possible: 22 examples in batches of 8, so that the last batch is short and an epoch
has more than one step; more than one epoch, because the first step of a run hides a missing zero_grad; plain SGD, because
Adam divides every constant factor out of the gradient and so hides wrong scales.
"""

from utils.checks.loop.best_weights import best_weights_are_those_validated, stopping_follows_the_loss
from utils.checks.loop.clipping_and_precision import (
    autocast_uses_new_weights,
    clip_binds,
    clip_sees_unscaled_gradients,
    loss_scale_leaves_no_trace,
    precision_takes_effect,
    weights_stay_float32,
)
from utils.checks.loop.data_order import (
    epochs_are_complete,
    epochs_have_orders_of_their_own,
    examples_draw_anew,
    says_no_to_zero_steps,
    sorted_data_is_shuffled,
)
from utils.checks.loop.gradients import (
    accumulation_counts_tokens,
    accumulation_equals_big_batch,
    all_ignored_batch_is_harmless,
    gradients_are_fresh,
    memory_shortage_changes_nothing,
    no_micro_batch_is_left_over,
    overfits_one_batch,
    steps_have_gradients,
)
from utils.checks.loop.not_finite import (
    endless_skips_end_the_run,
    nonfinite_never_reaches_the_weights,
    skipped_step_counts_nowhere,
    skipped_step_leaves_no_trace,
)
from utils.checks.loop.reports import (
    log_holds_no_graph,
    logged_norm_is_before_clipping,
    logged_rate_is_the_one_used,
    rates_are_of_training_time,
    reported_losses_count_targets,
)
from utils.checks.loop.reproducibility import (
    dropout_draws_anew,
    kernels_are_deterministic,
    same_run,
    watching_changes_nothing,
    workers_change_nothing,
)
from utils.checks.loop.resuming import RESUMED, damaged_checkpoint_is_refused, resumes_exactly
from utils.checks.loop.updates import (
    average_is_validated,
    frozen_weights_stay,
    rate_follows_schedule,
    updates_follow_their_rule,
)
from utils.checks.loop.validation import (
    trains_in_train_mode,
    validates_in_eval_mode,
    validation_keeps_no_graph,
    validation_keeps_order,
)
