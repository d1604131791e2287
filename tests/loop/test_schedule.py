"""A schedule of the caller's own is followed at each step, also after a resume and after skipped steps."""

import importlib
import math
import random
import sys

import numpy as np
import pytest
import torch
from helpers.by_hand import classes, distance
from helpers.paths import ROOT
from torch import nn
from torch.optim import lr_scheduler

from utils.distributed.launch import on_ranks
from utils.distributed.ranks import current_ranks
from utils.loop import Config, checkpoint, train
from utils.loop.optim import lr_factor
from utils.loop.saved_run import read_run
from utils.loop.schedule import factors_of

DATA = classes()
STEPS = 20


def config(**changes) -> Config:
    plain = {"steps": STEPS, "batch_size": 12, "lr": 0.1, "log_every": 1, "device": "cpu"}
    return Config(**plain | changes)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5)).double()


def rates(history: list[dict]) -> list[float]:
    return [record["lr"] for record in history if "lr" in record]


def cosine(step, steps):
    """The config's, after a warm-up of 5 steps, down to a tenth."""
    if step < 5:
        return (step + 1) / 5
    done = min(1.0, (step - 5) / (steps - 5))
    return 0.1 + (1 - 0.1) * (1 + math.cos(math.pi * done)) / 2


def warmup_stable_decay(step, steps):
    """Five steps up, then constant, then down to 0 in the last fifth."""
    return min((step + 1) / 5, 1.0, (steps - step) / (steps / 5))


def restarts(step, steps):
    """Cosines of 5 and of 10 steps, and so on."""
    length = 5
    while step >= length:
        step, length = step - length, 2 * length
    return (1 + math.cos(math.pi * step / length)) / 2


def inverse_root(step, steps):
    return 1 / math.sqrt(step + 1)


def one_cycle(step, steps):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=steps, cycle_momentum=False)
    for _ in range(step):
        optimizer.step()
        schedule.step()
    return schedule.get_last_lr()[0]


def twice_the_peak_in_tensors(step, steps):
    return torch.tensor(2.0) if step % 2 else np.float32(0.25)


OWN = [cosine, warmup_stable_decay, restarts, inverse_root, one_cycle, twice_the_peak_in_tensors]


def test_the_cosine_of_the_config_written_as_a_function_gives_the_same_bits():
    ours, theirs = net(), net()
    one = train(ours, DATA, DATA, config(ema=0.9, val_every=5), schedule=cosine)
    two = train(theirs, DATA, DATA, config(warmup=5, schedule="cosine", final_lr=0.1, ema=0.9, val_every=5))
    assert distance(ours, theirs) == 0 and rates(one.history) == rates(two.history) and one.best == two.best


def groups(model):
    return torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.02}, {"params": model[2].parameters()}], lr=0.1)


@pytest.mark.parametrize("schedule", OWN)
@pytest.mark.parametrize("make", [None, groups])
def test_each_step_has_the_rate_that_it_says(schedule, make):
    """Each group its share; by a loop by hand with torch's LambdaLR."""
    ours, theirs = net(), net()
    result = train(ours, DATA, None, config(), optimizer=make, schedule=schedule)
    first = 0.02 if make else 0.1
    assert rates(result.history) == [first * float(schedule(step, STEPS)) for step in range(STEPS)]
    optimizer = (make or (lambda model: torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)))(theirs)
    by_hand = lr_scheduler.LambdaLR(optimizer, lambda step: float(schedule(min(step, STEPS - 1), STEPS)))
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(theirs(DATA.x), DATA.y).backward()
        optimizer.step()
        by_hand.step()
    assert distance(ours, theirs) < 1e-12


@pytest.mark.parametrize("schedule", [warmup_stable_decay, restarts, one_cycle])
def test_a_resumed_run_ends_with_the_same_bits(schedule, tmp_path):
    def stop(record, model):
        return {"none": 1 / (7 - record["step"])}

    straight, resumed = net(), net()
    whole = train(straight, DATA, None, config(), schedule=schedule)
    with pytest.raises(ZeroDivisionError):
        train(net(), DATA, None, config(save_every=3), run=tmp_path, schedule=schedule, on_step=stop)
    assert read_run(tmp_path).saved_steps()[-1] == 6
    again = train(resumed, DATA, None, config(save_every=3), run=tmp_path, schedule=schedule)
    assert distance(straight, resumed) == 0 and rates(again.history) == rates(whole.history)
    assert "schedule by a function" in read_run(tmp_path).summary()["config"]


class Overflowing(nn.Module):
    """Its output is not finite in the third and the sixth pass that trains."""

    def __init__(self):
        super().__init__()
        self.inner, self.passes = net(), 0

    def forward(self, x):
        if torch.is_grad_enabled() and self.training:
            self.passes += 1
            if self.passes in (3, 6):
                return self.inner(x) * torch.inf
        return self.inner(x)


def test_a_skipped_step_does_not_count():
    """As with a schedule of the config: a step that was blocked is as if it had not happened."""
    ours, theirs = Overflowing(), Overflowing()
    one = train(ours, DATA, None, config(nonfinite="skip"), schedule=cosine)
    two = train(theirs, DATA, None, config(nonfinite="skip", warmup=5, schedule="cosine", final_lr=0.1))
    assert one.skipped == two.skipped == 2 and rates(one.history) == rates(two.history)
    assert rates(one.history)[-1] == 0.1 * cosine(STEPS - 3, STEPS) and distance(ours, theirs) == 0


# ---- other schedules on resume ---------------------------------------------------------------------------------------


def begin(folder, schedule, **changes):
    return train(net(), DATA, None, config(**changes), run=folder, schedule=schedule)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (restarts, inverse_root),
        (restarts, None),
        (None, restarts),
        (lambda s, n: 1.0, lambda s, n: 1.0 - (s == 19) / 2),
    ],
)
def test_another_schedule_is_refused_before_anything_is_written(tmp_path, before, now):
    begin(tmp_path, before)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="holds a run of another schedule"):
        begin(tmp_path, now)
    assert files == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    begin(tmp_path, before)


def test_more_steps_are_possible_where_those_before_stay_the_same(tmp_path):
    """The tenth step was the last, so that the rate of the eleventh was not known when it was saved."""
    for schedule in (restarts, inverse_root):
        straight, longer = net(), net()
        train(straight, DATA, None, config(), schedule=schedule)
        begin(tmp_path / schedule.__name__, schedule, steps=10)
        result = train(longer, DATA, None, config(), run=tmp_path / schedule.__name__, schedule=schedule)
        assert distance(straight, longer) == 0 and result.steps == STEPS
        assert rates(result.history) == [0.1 * schedule(step, STEPS) for step in range(STEPS)]
    begin(tmp_path / "decaying", warmup_stable_decay, steps=10)
    with pytest.raises(ValueError, match=r"another schedule .* more steps if the values at those that it had"):
        begin(tmp_path / "decaying", warmup_stable_decay)
    with pytest.raises(ValueError, match="steps: 20 → 10"):
        begin(tmp_path / "restarts", restarts, steps=10)


def test_a_run_that_got_more_steps_and_stopped_before_it_saved_any_goes_on(tmp_path):
    begin(tmp_path, restarts, steps=10)
    with pytest.raises(ZeroDivisionError):
        train(net(), DATA, None, config(), run=tmp_path, schedule=restarts, on_step=lambda record, model: 1 / 0)
    assert begin(tmp_path, restarts).steps == STEPS


def test_a_folder_of_an_older_version_had_the_configs_schedule(tmp_path):
    begin(tmp_path, None, steps=10)
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"schedule": "by the config"', '"none": ""'))
    with pytest.raises(ValueError, match="another schedule"):
        begin(tmp_path, restarts, steps=10)
    assert begin(tmp_path, None).steps == STEPS
    assert checkpoint.load_newest(tmp_path / "checkpoints")["progress"]["step"] == STEPS


# ---- what is no schedule ---------------------------------------------------------------------------------------------


def counting():
    calls = []

    def schedule(step, steps):
        calls.append(step)
        return 1 / len(calls)

    return schedule


def highest_so_far():
    seen = [0]

    def schedule(step, steps):
        seen[0] = max(seen[0], step)
        return seen[0] + 1

    return schedule


BAD = [
    ("cosine", r"schedule is 'cosine': pass a function of \(step, steps\), or name one of the config's"),
    (lr_scheduler.ConstantLR, r"schedule\(0, 20\) raises ValueError"),
    (lambda step: 1.0, r"schedule\(0, 20\) raises TypeError: .*It is called with the step, from 0 to 19, and the"),
    (lambda step, steps: 1 / (10 - step), r"schedule\(10, 20\) raises ZeroDivisionError"),
    (lambda step, steps: 1 - step / 10, r"schedule\(11, 20\) is -0\.1.*: it must be a finite number, at least 0"),
    (lambda step, steps: math.nan, r"schedule\(0, 20\) is nan"),
    (lambda step, steps: math.inf if step == 19 else 1, r"schedule\(19, 20\) is inf"),
    (lambda step, steps: None, r"schedule\(0, 20\) is None"),
    (lambda step, steps: "1.0", r"schedule\(0, 20\) is '1\.0'"),
    (lambda step, steps: 1j, r"schedule\(0, 20\) is 1j"),
    (lambda step, steps: torch.ones(2), r"schedule\(0, 20\) is tensor"),
    (lambda step, steps: 0.0, "schedule is 0 at each of the 20 steps: nothing would train"),
    (lambda step, steps: random.random(), r"schedule\(19, 20\) is 0\.\d+ at one call and 0\.\d+ at another"),
    (lambda step, steps: np.random.rand(), r"at one call and .* at another"),  # noqa: NPY002
    (counting(), r"at one call and .* at another: it must depend on the step and the steps alone"),
    (highest_so_far(), r"schedule\(18, 20\) is 19\.0 at one call and 20\.0 at another"),
]


@pytest.mark.parametrize(("schedule", "words"), BAD)
def test_what_is_no_schedule_is_refused_before_anything_is_written(schedule, words, tmp_path):
    streams = random.getstate(), torch.get_rng_state().tolist()
    with pytest.raises(ValueError, match=words):
        begin(tmp_path / "run", schedule)
    assert not (tmp_path / "run").exists() and streams == (random.getstate(), torch.get_rng_state().tolist())


@pytest.mark.parametrize("setting", [{"warmup": 5.0}, {"warmup": 0.1}, {"schedule": "cosine"}, {"final_lr": 0.1}])
def test_a_schedule_in_the_config_too_is_refused_with_lines_that_work(setting, tmp_path):
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=f"and {name} is {value!r} there: leave it out") as raised:
        train(net(), DATA, None, config(**setting), run=tmp_path / "run", schedule=restarts)
    assert not (tmp_path / "run").exists()
    lines = str(raised.value).partition(":\n")[2]
    given = {"train": train, "model": net(), "data": DATA, "config": config(), "schedule": restarts}
    exec("\n".join(line.removeprefix("    ") for line in lines.splitlines()), given)
    warm = [min(1, (step + 1) / 100) * restarts(step, STEPS) for step in range(STEPS)]
    assert list(factors_of(given["warmed_up"], config())) == warm


def test_a_function_in_the_config_is_told_where_to_go():
    with pytest.raises(ValueError, match="pass a function to train, as its argument `schedule`"):
        config(schedule=restarts)


def test_beyond_its_last_step_a_schedule_stays_where_it_was():
    factors = factors_of(warmup_stable_decay, config())
    assert lr_factor(config(), STEPS, factors) == lr_factor(config(), STEPS - 1, factors) == pytest.approx(0.25)


def test_a_schedule_that_seeds_the_streams_moves_none():
    def seeding(step, steps):
        random.seed(step)
        return random.random()

    random.seed(7)
    following = random.random()
    random.seed(7)
    train(net(), DATA, None, config(), schedule=seeding)
    assert random.random() == following


def train_on_a_rank(tests: str) -> list[str]:
    sys.path.insert(0, tests)
    module = importlib.import_module("loop.test_schedule")
    try:
        module.train(
            module.net(), module.DATA, None, module.config(), schedule=lambda step, steps: 1.0 + current_ranks().rank
        )
    except ValueError as error:
        return [str(error)]
    return []


def test_all_ranks_follow_one_schedule():
    for rank in on_ranks(2, train_on_a_rank, str(ROOT / "tests"), group=False):
        assert "the run differs between ranks: schedule is " in rank.result[0]
