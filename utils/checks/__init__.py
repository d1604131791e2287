"""Asserts that explain themselves, and detectors of silent bugs."""

from utils.checks.asserts import explain_asserts, not_verified, raises
from utils.checks.parts import (
    batches_mix_classes,
    decay_is_decoupled,
    draws_are_fresh,
    epochs_differ,
    eval_is_deterministic,
    every_example_once,
    every_parameter_gets_gradient,
    examples_do_not_mix,
    future_does_not_leak,
    gradients_match_differences,
    is_a_copy,
    loss_is_a_mean,
    loss_is_a_sum,
    loss_survives_no_targets,
    names_are_portable,
    optimizer_holds_parameters,
    order_is_kept,
    outputs_are_logits,
    perfection_costs_nothing,
    ranks_share_each_batch,
    rate_holds_while_improving,
    small_updates_arrive,
    splits_are_disjoint,
    stale_graph_raises,
    statistics_ignore,
    weights_are_tied,
)
from utils.checks.turns import ours, settle, whose, your_turn
