"""A look at each record may add numbers to it, and changes nothing else, whatever it tries."""

import importlib
import json
import random
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.by_hand import distance
from helpers.paths import ROOT
from torch import nn
from torch.utils.data import Dataset

from utils.data import TensorData, spiral
from utils.distributed.launch import on_ranks
from utils.loop import Config, evaluate, train
from utils.loop.attributes import Attributes
from utils.loop.log import MEASURED
from utils.loop.metrics import cross_entropy_sum

TESTS = ROOT / "tests"
SPIRAL = spiral()
DATA = TensorData(SPIRAL.train.x[:96], SPIRAL.train.y[:96])
VAL = TensorData(SPIRAL.train.x[96:150], SPIRAL.train.y[96:150])


class Jittered(Dataset):
    """Points whose every visit is moved by numbers from all three global streams."""

    def __len__(self):
        return len(DATA)

    def __getitem__(self, i):
        jitter = torch.randn(2) + float(np.random.randn()) + random.gauss(0, 1)  # noqa: NPY002
        return DATA.x[i] + 0.1 * jitter, DATA.y[i]


class Restless(nn.Module):
    """BatchNorm, dropout, a counter in a dict, and noise in a dtype that torch chooses."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
        self.stats = {"passes": 0}

    def forward(self, x):
        self.stats["passes"] += 1
        noise = torch.rand(len(x), 1, device=x.device)
        return self.net((x + 0.01 * noise / self.stats["passes"]).float())


def config(**changes) -> Config:
    return Config(**{"steps": 12, "batch_size": 24, "lr": 0.03, "log_every": 3, "val_every": 4, "ema": 0.9} | changes)


def outcome(on_step=None, model=None, **changes) -> tuple:
    """Everything that a run ends with: weights and buffers of the model and the average, attributes, records, streams."""
    model = model or Restless()
    result = train(model, Jittered(), VAL, config(**changes), on_step=on_step)
    tensors = [tensor.tolist() for each in (result.model, result.ema) for tensor in each.state_dict().values()]
    records = [{name: value for name, value in record.items() if name != MEASURED} for record in result.history]
    modes = [module.training for module in model.modules()]
    return tensors, model.stats, records, modes, result.best, {k: v.tolist() for k, v in result.best_weights.items()}


# ---- what it may try -------------------------------------------------------------------------------------------------


def seeds_every_stream(record, model):
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002


def draws_from_torch(record, model):
    torch.randn(5)


def draws_from_numpy(record, model):
    np.random.rand(3)  # noqa: NPY002


def draws_from_python(record, model):
    random.random()


def leaves_it_in_eval_mode(record, model):
    model.eval()


def leaves_batchnorm_in_train_mode(record, model):
    model.net[1].train()


def trains_batchnorm(record, model):
    model.train()
    model(5 + torch.randn(16, 2))


def resets_batchnorm(record, model):
    model.net[1].reset_running_stats()


def counts(record, model):
    model(torch.randn(16, 2))
    model.stats["seen"] = 1


def changes_settings_of_modules(record, model):
    model.net[3].p, model.net[1].momentum = 0.9, 0.9


def zeroes_gradients(record, model):
    model.zero_grad(set_to_none=False)


def drops_gradients(record, model):
    model.zero_grad()


def adds_to_gradients(record, model):
    x = torch.randn(16, 2, requires_grad=True)  # the average has no gradients of its own
    with torch.enable_grad():
        model(x).sum().backward()


def overwrites_gradients(record, model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.fill_(float("nan"))


def edits_the_record(record, model):
    record["loss"] = record["val_loss"] = record["step"] = -1.0


def asks_for_float64(record, model):
    torch.set_default_dtype(torch.float64)


def asks_for_gradients(record, model):
    torch.set_grad_enabled(True)


def trains_another_model(record, model):
    with torch.enable_grad():
        train(nn.Linear(2, 3), DATA, None, Config(steps=2, batch_size=8, seed=5))


def evaluates(record, model):
    evaluate(model, VAL)


HARMLESS = [
    *(seeds_every_stream, draws_from_torch, draws_from_numpy, draws_from_python, leaves_it_in_eval_mode),
    *(leaves_batchnorm_in_train_mode, trains_batchnorm, resets_batchnorm, counts, changes_settings_of_modules),
    *(zeroes_gradients, drops_gradients, adds_to_gradients, overwrites_gradients, edits_the_record, asks_for_float64),
    *(asks_for_gradients, trains_another_model, evaluates),
]


@pytest.fixture(scope="module")
def unseen():
    return outcome()


@pytest.mark.parametrize("look", HARMLESS)
@pytest.mark.parametrize("of", ["what it is shown", "the model that trains"])
def test_a_look_at_each_record_changes_no_bit(look, of, unseen):
    """Also one that looks at the model that trains while it is shown the average."""
    model = Restless()
    assert outcome(look if of == "what it is shown" else lambda record, _: look(record, model), model) == unseen
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_threads_and_kernels_are_as_before():
    before, seen = torch.get_num_threads(), []

    def look(record, model):
        assert not torch.is_grad_enabled() and not model.training
        seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))
        torch.set_num_threads(before + 1)
        torch.use_deterministic_algorithms(False)

    outcome(look)
    assert set(seen) == {(before, True)} and torch.get_num_threads() == before


def in_place(model, optimizer):
    with torch.no_grad():
        model.net[0].bias.add_(1e-3)


def through_data(model, optimizer):
    model.net[0].bias.data.add_(1e-3)


def another_tensor_as_data(model, optimizer):
    model.net[0].bias.data = model.net[0].bias + 1e-3


def by_the_optimizer(model, optimizer):
    optimizer.step()


def by_training(model, optimizer):
    with torch.enable_grad():
        train(model, DATA, None, Config(steps=1))


def by_loading(model, optimizer):
    model.load_state_dict({name: 2 * tensor for name, tensor in model.state_dict().items()})


def weight_decay(model, optimizer):
    optimizer.param_groups[0]["weight_decay"] = 0.5


def freezing(model, optimizer):
    model.net[0].bias.requires_grad_(False)


CHANGES = {
    **dict.fromkeys(
        (in_place, through_data, another_tensor_as_data, by_the_optimizer, by_training, by_loading),
        "on_step has changed a weight of the model: it may look only; change a copy",
    ),
    weight_decay: "on_step has changed a setting of the optimizer",
    freezing: r"net\.0\.bias was frozen during the run",
}


@pytest.mark.parametrize("kind", ["loss", "val_loss"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_look_that_changes_what_trains_ends_the_run(change, kind):
    """Also where it is shown the average, and changes the model that trains."""
    model, made = Restless(), []

    def make(model):
        made.append(torch.optim.AdamW(model.parameters(), lr=0.03))
        return made[0]

    def look(record, shown):
        if kind in record:
            change(model, made[0])

    with pytest.raises(RuntimeError, match=CHANGES[change]):
        train(model, Jittered(), VAL, config(lr=1e-3), optimizer=make, on_step=look)


# ---- what it may add -------------------------------------------------------------------------------------------------


def share_of_class_0(model: nn.Module) -> float:
    return (model(VAL.x).argmax(1) == 0).float().mean()


def two_numbers(record, model):
    if "val_loss" in record:
        return {"class 0": share_of_class_0(model), "again": evaluate(model, VAL).loss}
    return {"norm of the first": model[0].weight.grad.norm(), "at": np.float32(record["step"])}


def plain_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))


def test_its_numbers_are_in_the_records_of_log_steps_and_validations(tmp_path):
    """Of a validation they are those of the average, which is validated; a gradient is that of the step."""
    model = plain_net()
    result = train(model, DATA, VAL, config(steps=8, log_every=8), run=tmp_path, on_step=two_numbers)
    logged, *validated = sorted(result.history, key=lambda record: "val_loss" in record)
    assert logged["at"] == 8.0 and 0 < logged["norm of the first"] < logged["grad_norm"]
    assert [record["again"] for record in validated] == [record["val_loss"] for record in validated]
    assert validated[-1]["class 0"] == share_of_class_0(result.ema).item()
    assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == result.history
    again = train(plain_net(), DATA, VAL, config(steps=8, log_every=8), run=tmp_path, on_step=two_numbers)
    assert again.history == result.history


def test_the_gradient_that_it_sees_is_that_of_the_step():
    model, seen = plain_net(), []
    whole = config(steps=1, batch_size=96, log_every=1, ema=0.0)
    train(model, DATA, None, whole, on_step=lambda record, model: seen.append(model[2].bias.grad.clone()))
    by_hand = plain_net()
    F.cross_entropy(by_hand(DATA.x), DATA.y).backward()
    torch.testing.assert_close(seen[0], by_hand[2].bias.grad)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (0.5, "has returned 0.5: return a dict of the numbers to add to the record"),
        ([("f1", 0.5)], r"has returned \[\('f1', 0.5\)\]: return a dict"),
        ({"f1": "0.5"}, "has returned '0.5' as f1: it must be one real number"),
        ({"f1": None}, "has returned None as f1: it must be one real number"),
        ({"f1": torch.ones(2)}, r"has returned tensor\(\[1., 1.\]\) as f1: it must be one real number"),
        ({"f1": {"a": 1.0}}, "has returned {'a': 1.0} as f1"),
        ({"f1": 1j}, "has returned 1j as f1"),
        (
            {"loss": 0.5},
            r"has returned a number under the name 'loss': choose a string that is none of the record's own",
        ),
        ({"val_loss": 0.5}, "has returned a number under the name 'val_loss'"),
        ({MEASURED: 0.5}, "has returned a number under the name 'measured'"),
        ({3: 0.5}, "has returned a number under the name 3"),
    ],
)
def test_anything_else_that_it_returns_is_refused_with_its_value(returned, words, tmp_path):
    with pytest.raises(ValueError, match=f"on_step at step 3 {words}"):
        train(plain_net(), DATA, VAL, config(), run=tmp_path, on_step=lambda record, model: returned)
    (record,) = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert record["step"] == 3 and "f1" not in record  # what the run itself had to say is not lost


def test_a_look_that_fails_says_where():
    with pytest.raises(ZeroDivisionError) as raised:
        train(plain_net(), DATA, VAL, config(), on_step=lambda record, model: 1 / 0)
    assert "in on_step, at step 3" in raised.value.__notes__


def test_a_list_that_it_keeps_in_the_model_does_not_grow():
    """Numbers go into the record; the model is as it was."""
    model = plain_net()
    model.norms = []

    def look(record, model):
        model.norms.append(model[0].weight.norm().item())
        return {"norm": model.norms[-1]}

    result = train(model, DATA, None, config(), on_step=look)
    assert model.norms == [] and [record["norm"] > 0 for record in result.history] == [True] * 4
    assert Attributes(model).values[".norms"] == []


def train_on_a_rank(tests: str, parallel: str) -> list:
    """The steps at which on_step was called, and what the records say."""
    sys.path.insert(0, tests)
    module, asked = importlib.import_module("loop.test_hooks"), []

    def look(record, model):
        asked.append(record["step"])
        return {"share": module.share_of_class_0(model), "draw": module.random.random()}

    config = module.config(parallel=parallel, device="cpu", log_every=4)
    result = module.train(module.plain_net(), module.DATA, module.VAL, config, on_step=look)
    return [asked, [[record["step"], record["share"], record["draw"]] for record in result.history]]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_the_first_rank_looks_and_every_rank_has_the_numbers(parallel):
    first, second = (rank.result for rank in on_ranks(2, train_on_a_rank, str(TESTS), parallel, group=False))
    assert first[0] == [4, 4, 8, 8, 12, 12] and second[0] == []
    assert first[1] == second[1] and [step for step, _, _ in first[1]] == first[0]


def fail_on_a_rank(tests: str) -> list[str]:
    sys.path.insert(0, tests)
    module = importlib.import_module("loop.test_hooks")
    try:
        module.train(module.plain_net(), module.DATA, None, module.config(device="cpu"), on_step=lambda *_: "no dict")
    except (ValueError, RuntimeError) as error:
        return [str(error)]
    return []


def test_no_rank_waits_for_one_whose_look_has_failed():
    first, second = (rank.result[0] for rank in on_ranks(2, fail_on_a_rank, str(TESTS), group=False))
    assert first.startswith("on_step at step 3 has returned 'no dict'")
    assert second.startswith(
        "on_step has failed on rank 0 at step 3 (ValueError: on_step at step 3 has returned 'no dict'"
    )


def test_a_loss_of_the_callers_own_is_left_alone():
    """What a probe computes with the loss leaves no gradient behind that a step would take."""

    def probe(record, model):
        with torch.enable_grad():
            cross_entropy_sum(model(VAL.x), VAL.y).backward()
        return {"held out": model[0].weight.grad.norm()}

    seen, unseen = plain_net(), plain_net()
    train(seen, DATA, None, config(log_every=1), on_step=probe)
    train(unseen, DATA, None, config(log_every=1))
    assert distance(seen, unseen) == 0
