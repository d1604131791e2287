"""Loops that were not written for the detectors: right ones in other styles raise no alarm, wrong ones the right alarm."""

import re
from collections.abc import Callable
from dataclasses import replace

import nbformat
import numpy as np
import pytest
import torch
from helpers.caught import assert_caught
from helpers.other_loops import STYLES, Lit, Runner, Trainer, in_a_class, like_lightning
from helpers.paths import ROOT
from right_loops import RIGHT
from torch.optim import LBFGS, SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from utils.checks import loop as check
from utils.checks import parts, toy_problem
from utils.checks.any_loop import adapt, detectors, examine, public_functions
from utils.checks.toy_problem import NotJudged, needs, options
from utils.device import own_random_streams, rng_state, seed_everything
from utils.loop import train

# ---- right loops -----------------------------------------------------------------------------------------------------

ALWAYS = {
    *("gradients_are_fresh", "steps_have_gradients", "epochs_are_complete", "epochs_have_orders_of_their_own"),
    *("sorted_data_is_shuffled", "dropout_draws_anew"),
}
MORE = {
    "a class with a file of its own": {
        *("clip_binds", "rate_follows_schedule", "same_run", "updates_follow_their_rule", "trains_in_train_mode"),
        *("autocast_uses_new_weights", "accumulation_equals_big_batch", "skipped_step_leaves_no_trace"),
        *("nonfinite_never_reaches_the_weights", "loss_scale_leaves_no_trace"),
        *(f"resumes_exactly: {what}" for what in check.RESUMED if what not in ("average", "early stopping")),
    },
    "like Lightning, by epochs": {
        *("clip_binds", "rate_follows_schedule", "same_run", "updates_follow_their_rule", "trains_in_train_mode"),
        *(f"resumes_exactly: {what}" for what in ("optimizer", "random streams", "BatchNorm statistics", "schedule")),
        *("resumes_exactly: position in the data", "resumes_exactly: order of the next epoch"),
    },
    "a step that GradScaler skips": {"loss_scale_leaves_no_trace", "updates_follow_their_rule"},
}


def assert_no_alarm(style: str) -> None:
    verdicts = examine(STYLES[style])
    assert {name: verdict for name, verdict in verdicts.items() if verdict.startswith("ALARM")} == {}
    passed = {name for name, verdict in verdicts.items() if verdict == "passes"}
    assert passed >= ALWAYS | MORE.get(style, set())
    assert all(verdict.startswith("not judged: the loop ") for name, verdict in verdicts.items() if name not in passed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("style", STYLES)
def test_a_right_loop_in_another_style_raises_no_alarm(style, seed, monkeypatch):
    monkeypatch.setattr(toy_problem, "SEED", seed)
    assert_no_alarm(style)


# What passes of RIGHT, besides ALWAYS.
JUDGED = {
    "functions": {
        *(
            "best_weights_are_those_validated",
            "stopping_follows_the_loss",
            "clip_binds",
            "logged_norm_is_before_clipping",
        ),
        *("same_run", "validates_in_eval_mode"),
    },
    "like torch's ImageNet example": {
        *("best_weights_are_those_validated", "same_run", "frozen_weights_stay"),
        *(f"resumes_exactly: {what}" for what in ("momentum", "random streams", "position in the data")),
    },
    "closures": {"best_weights_are_those_validated", "stopping_follows_the_loss", "autocast_uses_new_weights"},
    "a generator": {"validates_in_eval_mode", "validation_keeps_order"},
    "accumulation and an average": {
        *("average_is_validated", "reported_losses_count_targets", "accumulation_counts_tokens"),
        *("all_ignored_batch_is_harmless", "no_micro_batch_is_left_over"),
    },
    "a sampler of its own": {
        *("updates_follow_their_rule", "rate_follows_schedule", "same_run"),
        *(f"resumes_exactly: {what}" for what in ("optimizer", "average", "schedule", "random streams")),
    },
    "arrays and JSON": {
        *("best_weights_are_those_validated", "stopping_follows_the_loss", "same_run"),
        *(f"resumes_exactly: {what}" for what in ("momentum", "early stopping", "random streams")),
    },
    "callbacks": {"best_weights_are_those_validated", "logged_norm_is_before_clipping", "clip_binds"},
    "all is fixed": set(),
    "whole models": {"best_weights_are_those_validated"},
    "by epochs": {"updates_follow_their_rule", "validates_in_eval_mode", "accumulation_equals_big_batch"},
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", JUDGED)
def test_a_right_loop_that_keeps_things_its_own_way_raises_no_alarm(name, seed, monkeypatch):
    monkeypatch.setattr(toy_problem, "SEED", seed)
    verdicts = examine(RIGHT[name])
    assert {detector: verdict for detector, verdict in verdicts.items() if verdict.startswith("ALARM")} == {}
    raised = {detector for detector, verdict in verdicts.items() if verdict.startswith("RAISED")}
    assert raised == ({"loss_scale_leaves_no_trace", "precision_takes_effect"} if name == "closures" else set())
    passed = {detector for detector, verdict in verdicts.items() if verdict == "passes"}
    assert passed >= ALWAYS | JUDGED[name]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("SAM", "the loop makes several forward passes of a batch in a step, with other weights"),
        ("by hand", "the loop moves the weights without an optimizer of torch.optim, whose steps the detectors read"),
    ],
)
def test_a_right_loop_whose_steps_cannot_be_read_is_not_judged(name, why):
    verdicts = examine(RIGHT[name])
    assert verdicts["gradients_are_fresh"] == verdicts["steps_have_gradients"] == f"not judged: {why}"
    assert all(verdict == "passes" or verdict.startswith("not judged: ") for verdict in verdicts.values())


def test_each_right_loop_is_examined():
    assert RIGHT.keys() == JUDGED.keys() | {"SAM", "by hand"}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 20))
@pytest.mark.parametrize("style", STYLES)
def test_nor_does_it_at_other_seeds(style, seed, monkeypatch):
    monkeypatch.setattr(toy_problem, "SEED", seed)
    assert_no_alarm(style)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_honest_loop_passes_them_all(seed, monkeypatch):
    monkeypatch.setattr(toy_problem, "SEED", seed)
    assert set(examine(train).values()) == {"passes"}


# ---- wrong ones: each class differs from the right one by what its docstring says, which somebody believed ------------

WRONG: dict[type, str] = {}


def caught_by(detector: str) -> Callable[[type], type]:
    """Decorates a wrong class: `detector` must raise the alarm."""
    return lambda wrong: WRONG.setdefault(wrong, detector) and wrong


def loop_of(kind: type) -> Callable:
    if issubclass(kind, Trainer):
        return in_a_class(kind)
    return like_lightning(**{"module" if issubclass(kind, Lit) else "runner": kind})


@caught_by("resumes_exactly: optimizer")
class ResumesWithoutOptimizer(Trainer):
    """What was learned is in the weights: the optimizer can begin anew."""

    def restore(self, state):
        super().restore(state | {"optimizer": self.optimizer.state_dict()})


@caught_by("resumes_exactly: optimizer")
class RunsOnWithoutOptimizer(Runner):
    """What was learned is in the weights: the optimizer can begin anew."""

    def restore(self, lit, state):
        return super().restore(lit, state | {"optimizer": self.optimizer.state_dict()})


@caught_by("resumes_exactly: random streams")
class ResumesWithoutStreams(Trainer):
    """The run is seeded, so it draws the same numbers, resumed or not."""

    def restore(self, state):
        super().restore(state | {"streams": rng_state()})


@caught_by("resumes_exactly: random streams")
class RunsOnWithoutStreams(Runner):
    """The run is seeded, so it draws the same numbers, resumed or not."""

    def restore(self, lit, state):
        return super().restore(lit, state | {"streams": rng_state()})


@caught_by("resumes_exactly: BatchNorm statistics")
class SavesParametersOnly(Trainer):
    """The parameters are the model."""

    def restore(self, state):
        own = {name: buffer for name, buffer in self.model.state_dict().items() if "running" in name}
        super().restore(state | {"model": state["model"] | own})


@caught_by("resumes_exactly: BatchNorm statistics")
class RunsOnWithoutStatistics(Runner):
    """The parameters are the model."""

    def restore(self, lit, state):
        own = {name: buffer for name, buffer in lit.net.state_dict().items() if "running" in name}
        return super().restore(lit, state | {"net": state["net"] | own})


@caught_by("resumes_exactly: order of the next epoch")
class ResumesInTheEpochBefore(Trainer):
    """A run that stopped after step 6 of 3 steps an epoch stopped in the second epoch."""

    begins_anew = False

    def restore(self, state):
        super().restore(state)
        self.begins_anew = True

    def order(self, examples, epoch):
        return super().order(examples, epoch - 1 if self.begins_anew and self.done < 9 else epoch)


@caught_by("resumes_exactly: order of the next epoch")
class RunsOnInTheEpochBefore(Runner):
    """The epoch in the checkpoint is the one to go on with."""

    def restore(self, lit, state):
        return super().restore(lit, state) - 1


@caught_by("dropout_draws_anew")
class SeedsEachStep(Trainer):
    """A seed before each step makes the run reproducible."""

    def one_step(self, x, y):
        seed_everything(self.seed)
        super().one_step(x, y)


@caught_by("dropout_draws_anew")
class SeedsEachTrainingStep(Lit):
    """A seed before each step makes the run reproducible."""

    def training_step(self, x, y):
        torch.manual_seed(0)
        return super().training_step(x, y)


@caught_by("same_run")
class OrdersByEpochAlone(Trainer):
    """The order needs a seed so that it is another one in each epoch."""

    def order(self, examples, epoch):
        return np.random.default_rng(epoch).permutation(examples).tolist()


@caught_by("same_run")
class SeedsLoaderByEpochAlone(Runner):
    """The loader needs a seed so that its order is another one in each epoch."""

    def seed_of(self, epoch):
        return epoch


@caught_by("rate_follows_schedule")
class SchedulesOneGroup(Trainer):
    """An optimizer has one learning rate: param_groups[0]["lr"]."""

    def set_rates(self):
        self.optimizer.param_groups[0]["lr"] = self.rate()


@caught_by("rate_follows_schedule")
class SchedulesOneGroupOfTwo(Lit):
    """A schedule is for the weights that decay; biases train at the full rate."""

    def configure_optimizers(self):
        groups = [{"params": [p for p in self.net.parameters() if (p.ndim > 1) == many]} for many in (True, False)]
        optimizer = SGD(groups, self.lr)
        return optimizer, LambdaLR(optimizer, [self.factor, lambda step: 1.0])


@caught_by("updates_follow_their_rule")
class LosesDecay(Trainer):
    """Weight decay is AdamW's; SGD has none."""

    def make_optimizer(self, matrices, others):
        self.weight_decay *= self.optimizer == "adamw"
        return super().make_optimizer(matrices, others)


@caught_by("updates_follow_their_rule")
class ConfiguresNoDecay(Lit):
    """Weight decay is AdamW's; SGD has none."""

    def configure_optimizers(self):
        self.weight_decay *= self.kind == "adamw"
        return super().configure_optimizers()


@caught_by("clip_binds")
class ClipsUpwards(Trainer):
    """Clipping to 1 means: the gradient has norm 1."""

    def clip_to(self, limit):
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters()])
        for p in self.model.parameters():
            p.grad *= limit / norm


@caught_by("clip_binds")
class ClipsUpwardsToo(Runner):
    """Clipping to 1 means: the gradient has norm 1."""

    def clip(self, parameters):
        gradients = [p.grad for p in parameters]
        norm = torch.nn.utils.get_total_norm(gradients)
        for gradient in gradients:
            gradient *= self.limit / norm


@caught_by("trains_in_train_mode")
class LeavesEvalMode(Trainer):
    """Each step calls train(), so nobody else has to."""

    def one_step(self, x, y):
        self.model.train()
        super().one_step(x, y)

    def validate(self, val):
        super().validate(val)
        self.model.eval()


@caught_by("trains_in_train_mode")
class EndsInEvalMode(Runner):
    """After the last epoch the model is for use, so it stays in eval mode."""

    def fit(self, lit, *loaders):
        super().fit(lit, *loaders)
        lit.net.eval()


@caught_by("autocast_uses_new_weights")
class EntersAutocastOnce(Trainer):
    """Autocast is a mode of the program: once around the run is enough, and cheaper."""

    def fit(self, data, val):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            super().fit(data, val)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda kind: f"{kind.__name__}({kind.__base__.__name__})")
def test_a_wrong_loop_is_caught_by_its_detector(wrong):
    with own_random_streams(0):
        assert_caught(detectors()[WRONG[wrong]], loop_of(wrong))


# ---- one detector at a time ------------------------------------------------------------------------------------------


def with_result(train, change):
    """The loop, with `change` made to each record of its history."""

    def changed(*arguments, **options):
        result = train(*arguments, **options)
        result.history = [change(record) for record in result.history]
        return result

    changed.parameters = train.parameters
    return changed


@pytest.mark.parametrize(
    ("key", "detector"),
    [
        ("grad_norm", "logged_norm_is_before_clipping"),
        ("loss", "all_ignored_batch_is_harmless"),
        ("val_loss", "validates_in_eval_mode"),
    ],
)
def test_a_missing_key_of_the_history_costs_no_other_verdict(key, detector):
    judged = examine(RIGHT["functions"])
    lacks = examine(with_result(RIGHT["functions"], lambda record: {k: v for k, v in record.items() if k != key}))
    assert judged[detector] == "passes"
    assert lacks[detector].startswith(f'not judged: your history has no {key}: add "{key}" to its records')
    assert {name for name in judged if lacks[name] != judged[name]} == {detector}


def test_a_history_of_another_form_costs_no_other_verdict():
    verdicts = examine(with_result(RIGHT["functions"], lambda record: tuple(record.items())))
    told = {name: verdict for name, verdict in verdicts.items() if "is not a list of records" in verdict}
    assert told.keys() >= {"logged_norm_is_before_clipping", "validates_in_eval_mode", "log_holds_no_graph"}
    assert {verdicts[name] for name in ("gradients_are_fresh", "stopping_follows_the_loss", "same_run")} == {"passes"}


@pytest.mark.parametrize("kind", [ValueError, AssertionError, KeyError])
def test_what_the_loop_raises_costs_no_other_verdict(kind):
    @adapt
    def loop(model, data, loss, steps, batch_size, lr):
        if batch_size == 7:
            raise kind("seven")
        optimizer = SGD(model.parameters(), lr)
        for x, y in DataLoader(data, batch_size, shuffle=True):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()

    verdicts = examine(loop)
    raised = {name for name, verdict in verdicts.items() if verdict.startswith("RAISED")}
    assert raised == {"gradients_are_fresh", "epochs_are_complete"}
    told = verdicts["gradients_are_fresh"]
    assert told.startswith(f"RAISED: {kind.__name__}: ") and "seven" in told
    assert re.search(r'\(in loop, line \d+: raise kind\("seven"\)\)$', told)
    assert verdicts["sorted_data_is_shuffled"] == verdicts["steps_have_gradients"] == "passes"


# ---- what cannot be judged -------------------------------------------------------------------------------------------


def test_a_loop_is_judged_by_what_it_takes():
    calls = []
    loop = adapt(lambda model, data, lr, clip: calls.append((lr, clip)))
    loop("model", "data", None, toy_problem.plain_config(clip=0.5, lr=0.3))
    assert calls == [(0.3, 0.5)]
    assert options(loop, clip=1.0, ema=0.5) == {"clip": 1.0} and options(train, ema=0.5) == {"ema": 0.5}
    needs(train, "ema")
    with pytest.raises(NotJudged, match="not judged: the loop takes no ema"):
        needs(loop, "lr", "ema")
    plain = toy_problem.plain_config()
    for lacks, given in {"ema": (None, replace(plain, ema=0.5)), "val": ("val", plain)}.items():
        with pytest.raises(NotJudged, match=f"takes no {lacks}$"):
            loop("model", "data", *given)
    loop("model", "data", None, replace(plain, log_every=1))  # a record less or more: nothing to judge


@pytest.mark.parametrize(
    ("loop", "word"), [(lambda model, data, epochs: None, "epochs"), (lambda model, lr: None, "model and data")]
)
def test_a_name_that_no_detector_knows_is_refused(loop, word):
    with pytest.raises(ValueError, match=word):
        adapt(loop)


def test_a_loss_is_handed_over_as_a_mean():
    seen = []
    loop = adapt(lambda model, data, loss: seen.append(loss))
    logits, y = torch.randn(3, 4), torch.tensor([0, 1, toy_problem.IGNORE])
    loop(None, None, None, toy_problem.plain_config())
    assert torch.allclose(seen[0](logits, y), torch.nn.functional.cross_entropy(logits, y))
    loop(None, None, None, toy_problem.plain_config(), loss=lambda outputs, y: outputs.sum())
    assert torch.allclose(seen[1](logits, y), logits.sum() / 2)


def test_an_optimizer_that_calls_its_closure_many_times_is_not_judged():
    @adapt
    def loop(model, data, steps, batch_size):
        def closure():
            optimizer.zero_grad()
            value = torch.nn.functional.cross_entropy(model(data.x), data.y)
            value.backward()
            return value

        optimizer = LBFGS(model.parameters())
        optimizer.step(closure)

    with pytest.raises(NotJudged, match="LBFGS"):
        check.gradients_are_fresh(loop)


def test_a_loop_that_never_steps_is_an_alarm():
    @adapt
    def loop(model, data, loss, steps, batch_size, lr):
        for x, y in DataLoader(data, batch_size, shuffle=True):
            loss(model(x), y).backward()

    assert "make one of model.parameters(), and call optimizer.step()" in str(
        assert_caught(check.gradients_are_fresh, loop)
    )


def test_a_step_without_a_forward_pass_is_an_alarm():
    @adapt
    def loop(model, data, steps, batch_size, lr):
        optimizer = SGD(model.parameters(), lr)
        torch.nn.functional.cross_entropy(model(data.x), data.y).backward()
        optimizer.step()
        optimizer.step()

    assert "without a forward pass of its own" in str(assert_caught(check.gradients_are_fresh, loop))


# ---- what is told ----------------------------------------------------------------------------------------------------


def test_the_readme_shows_what_its_loop_is_told(capsys):
    page = (ROOT / "utils" / "checks" / "README.md").read_text(encoding="utf-8")
    code, shown = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("python", "text"))
    exec(code, {"__name__": "__main__"})
    told, shown = (
        [re.sub(r"\d\.\d+", "", line) for line in text.splitlines()] for text in (capsys.readouterr().out, shown)
    )
    assert set(shown) <= set(told) and len(told) == len(detectors())


def seen_by() -> list[str]:
    """The cells of the columns "what sees it" in the tables of the zoo."""
    zoo = nbformat.read(ROOT / "notebooks" / "deeper" / "11_bug_zoo.ipynb", 4)
    seen = []
    for line in "\n".join(cell.source for cell in zoo.cells if cell.cell_type == "markdown").splitlines():
        row = [cell.strip() for cell in line.split("|")]
        if "what sees it" in row:
            column = row.index("what sees it")
        elif line[:1] == "|":
            seen.append(row[column])
    return seen


def test_each_detector_stands_in_the_tables_of_the_zoo():
    named = {name for cell in seen_by() for name in re.findall(r"`(\w+)[^`]*`", cell)}
    assert named == public_functions(check).keys() | public_functions(parts).keys()
    states = {state for cell in seen_by() for state in re.findall(r'`resumes_exactly\(train, "([^"]+)"\)`', cell)}
    assert states == set(check.RESUMED)
