"""The recipes of the loop's README run as printed, and do what their words say: most beside a loop by hand."""

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.paths import ROOT
from helpers.schedule_free import ScheduleFree
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import default_collate

from utils.data.order import Order
from utils.data.own_order import OwnOrder
from utils.data.positioned import PositionedExamples
from utils.loop import train
from utils.loop.run_folder import best_weights
from utils.loop.training import Result

PAGE = (ROOT / "utils" / "loop" / "README.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
RECIPES = SECTIONS["Recipes"]
SETUP = re.search(r"```python\n(.*?)```", RECIPES, re.DOTALL)[1]
PIECES = dict(
    re.findall(r"^\*\*([^*]+)\*\*[^`]*(?:`[^`\n]+`[^`]*)*\n```python\n(.*?)```", RECIPES, re.DOTALL | re.MULTILINE)
)


# ---- what the recipes find around them -------------------------------------------------------------------------------


class Theirs(nn.Module):
    """Called as a model of Hugging Face is, and answers as one does."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        mean = (self.embedding(input_ids) * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        return SimpleNamespace(logits=self.head(mean), loss=None)


class Writer:
    """In the place of tensorboard's, which the course does not install: notes what it is given."""

    scalars = ()

    def __init__(self, folder):
        Writer.scalars = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def add_scalar(self, *scalar):
        self.scalars.append(scalar)


def caption(i: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """Pixels, tokens, which of them are no padding, and a label that depends on both."""
    words = 1 + i % 5
    tokens = torch.tensor([1 + (i + j) % 9 if j < words else 0 for j in range(5)])
    return torch.randn(8, 8), tokens, (torch.arange(5) < words).double(), (i // 3) % 2


def surroundings() -> dict:
    """The names that a recipe speaks of without making them, and the files that it reads."""
    Path("book.txt").write_text("the thin thing thinks that this is the thing. " * 40)
    rows = torch.randn(1000, 4)
    lines = [",".join(map(str, [*row.tolist(), row.argmax().item()])) for row in rows]
    Path("numbers.csv").write_text("\n".join(lines) + "\n")
    return {
        "model": Theirs(),
        "rows": [{"input_ids": [1 + (i + j) % 8 for j in range(1 + i % 4)], "labels": i % 2} for i in range(200)],
        "captions": [caption(i) for i in range(200)],
    }


# ---- the same by hand ------------------------------------------------------------------------------------------------


class Call:
    """One call of `train`, on the CPU: what it was given, with the model as it was before, and what came of it."""

    def __init__(self, model, train_data, val_data=None, config=None, **options):
        self.before, self.model = copy.deepcopy(model), model
        self.data, self.config, self.options = train_data, replace(config, device="cpu"), options
        self.result: Result = train(model, train_data, val_data, self.config, **options)
        self.after = copy.deepcopy(model)

    def shuffled(self) -> Iterable[tuple]:
        """Its batches, where the data are shuffled."""
        return self.batches(Order(len(self.data), self.config.batch_size, self.config.seed))

    def ordered(self) -> Iterable[tuple]:
        """Its batches, in an order of the caller's own."""
        own = OwnOrder(self.options["order"], len(self.data), self.config.steps, self.config.seed)
        return self.batches(own)

    def batches(self, order, collate: Callable | None = None) -> Iterable[tuple]:
        collate = collate or self.options.get("collate", default_collate)
        for step in range(self.config.steps):
            yield collate([self.data[i] for i in order.batch(step).tolist()])


def by_hand(
    call: Call,
    mean: Callable = F.cross_entropy,
    batches: Iterable[tuple] | None = None,
    *,
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    factor: Callable[[int], float] = lambda step: 1.0,
) -> nn.Module:
    """The model after a plain loop over whole batches: nothing of this package but the order of examples is in it.

    mean: (outputs, targets) → the loss of a batch. A step that is not finite is left out, with what it did to buffers.
    """
    model = (model or call.before).train()
    if optimizer is None:
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=call.config.lr, weight_decay=0)
    rates = [group["lr"] for group in optimizer.param_groups]
    for step, (x, y) in enumerate(batches or call.shuffled()):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor(step)
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        optimizer.zero_grad()
        mean(model(x), y).backward()
        if all(p.grad.isfinite().all() for group in optimizer.param_groups for p in group["params"]):
            optimizer.step()
        else:
            model.load_state_dict(buffers, strict=False)
    return model


def require_same(one: nn.Module, other: nn.Module) -> None:
    """Raises AssertionError unless both have the same weights and buffers, apart from rounding in float64."""
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=1e-7, atol=1e-9)


def as_by_hand(mean: Callable = F.cross_entropy) -> Callable:
    """A check of a recipe with one call of `train`, whose data are shuffled."""

    def check(names, calls):
        (call,) = calls
        require_same(by_hand(call, mean), call.model)

    return check


# ---- which examples --------------------------------------------------------------------------------------------------


def rare_ones_are_drawn_as_often(names, calls):
    (call,) = calls
    drawn = torch.bincount(torch.cat([y for _, y in call.ordered()])) / 6400
    there = torch.bincount(names["y"][:500]) / 500
    assert there[3] < 0.15 and 0.23 < drawn.min() <= drawn.max() < 0.27
    require_same(by_hand(call, batches=call.ordered()), call.model)


def half_are_left_out(names, calls):
    (call,) = calls
    order = call.options["order"]
    for start in (0, 5, 10):  # each of the first half once in a pass
        assert sorted(torch.cat([order(step) for step in range(start, start + 5)]).tolist()) == list(range(250))
    require_same(by_hand(call, batches=call.ordered()), call.model)


def the_file_is_read_in_order_and_a_resumed_run_reads_on(names, calls):
    (call,) = calls
    examples = list(names["examples"]())
    assert len(examples) == 1000
    one_pass = [default_collate(examples[i : i + 64]) for i in range(0, 1000, 64)]
    copies = [copy.deepcopy(call.before) for _ in range(2)]
    require_same(by_hand(call, batches=(one_pass * 7)[:100]), call.model)
    for model, steps in zip(copies, (40, 100), strict=True):
        train(model, PositionedExamples(names["examples"]), names["val"], replace(call.config, steps=steps), run="run")
    assert all(torch.equal(p, copies[1].state_dict()[name]) for name, p in call.model.state_dict().items())


def padding_counts_nowhere(names, calls):
    (call,) = calls

    def unpadded(pairs):
        inputs, targets = zip(*pairs, strict=True)
        return pad_sequence(inputs, True), ([len(text) for text in targets], torch.cat(targets))

    def mean(outputs, targets):
        lengths, answers = targets
        return F.cross_entropy(torch.cat([row[:length] for row, length in zip(outputs, lengths, strict=True)]), answers)

    order = Order(len(call.data), call.config.batch_size, call.config.seed)
    require_same(by_hand(call, mean, call.batches(order, unpadded)), call.model)


def rows_are_as_without_padding(names, calls):
    (call,) = calls
    x, _ = names["batch"](names["rows"])
    assert x["input_ids"].eq(0).any()
    with torch.no_grad():
        together = call.model(x)
        for row, outputs in zip(names["rows"], together, strict=True):
            ids = torch.tensor([row["input_ids"]])
            torch.testing.assert_close(
                call.model.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0], outputs
            )
    as_by_hand()(names, calls)


def what_the_mask_leaves_out_is_not_read(names, calls):
    as_by_hand()(names, calls)
    (call,) = calls
    model = call.model
    x, _ = default_collate(call.data)
    other = x | {"tokens": torch.where(x["mask"] > 0, x["tokens"], 7)}
    assert not torch.equal(x["tokens"], other["tokens"]) and torch.equal(model(x), model(other))


# ---- the loss --------------------------------------------------------------------------------------------------------


def whole_batches_are_divided_by_their_weights(names, calls):
    def mean(outputs, targets):
        weights = torch.tensor([0.0, 1.0, 1.0, 5.0])[targets]  # 0 is the padding
        costs = -outputs.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        return (weights * costs).sum() / weights.sum()

    assert calls[0].config.accumulation == 4
    as_by_hand(mean)(names, calls)


def mean_over_known(outputs, targets):
    known = ~targets.isnan()
    return ((outputs[known] - targets[known]) ** 2).mean()


def teacher_teaches(names, calls):
    def mean(outputs, targets):
        labels, shares = targets
        return F.cross_entropy(outputs, labels) - 4 * (shares * (outputs / 2).log_softmax(-1)).sum(-1).mean()

    teacher, student = calls
    shares = (teacher.model(names["x"][:500]) / 2).softmax(-1)
    torch.testing.assert_close(torch.stack([pair[1] for _, pair in student.data]), shares.detach())
    require_same(by_hand(student, mean), student.model)


def views_find_each_other(names, calls):
    def mean(outputs, targets):
        scores = torch.stack([F.cosine_similarity(one, outputs[:, 1]) for one in outputs[:, 0]]) / 0.1
        return F.cross_entropy(scores, torch.arange(len(scores)))

    as_by_hand(mean)(names, calls)
    (call,) = calls
    with pytest.raises(ValueError, match="accumulation is 2"):
        train(call.model, call.data, None, replace(call.config, accumulation=2), loss=names["contrast"])


# ---- the model -------------------------------------------------------------------------------------------------------


def the_bank_is_kept_from_what_is_not_finite(names, calls):
    (call,) = calls
    start = copy.deepcopy(call.before)
    require_same(by_hand(call), call.model)
    views, y = (tensor.clone() for tensor in call.data.tensors)
    views[7] = torch.inf
    poisoned = Call(start, type(call.data)(views, y), None, call.config)
    assert poisoned.result.skipped >= 10 and poisoned.model.bank.isfinite().all()
    require_same(by_hand(poisoned), poisoned.model)


def low_ranks_are_added_to_what_stays(names, calls):
    (call,) = calls
    for layer in (0, 2):
        original = call.model[layer].parametrizations.weight.original
        assert torch.equal(original, call.before[layer].weight) and not original.requires_grad
        assert torch.equal(call.model[layer].bias, call.before[layer].bias)
        assert torch.linalg.matrix_rank(call.model[layer].weight - original) == 2
    losses = [record["val_loss"] for record in call.result.history if "val_loss" in record]
    assert losses[-1] < losses[0]


def first_the_head_then_all(names, calls):
    head, whole = calls
    assert torch.equal(head.before[0].weight, whole.before[0].weight)
    assert not torch.equal(whole.before[0].weight, whole.model[0].weight)
    require_same(by_hand(head), whole.before)
    require_same(by_hand(whole), whole.model)


def both_take_turns(names, calls):
    mean = F.binary_cross_entropy_with_logits
    critic, both = calls[0].before, calls[1].before
    generator = both[0]
    judges, makes = (torch.optim.Adam(part.parameters(), lr=1e-2) for part in (critic, generator))
    for judging, making in zip(calls[::2], calls[1::2], strict=True):
        made = generator(making.data.tensors[0]).detach()
        torch.testing.assert_close(judging.data.tensors[0][500:], made)
        by_hand(judging, mean, model=critic, optimizer=judges)
        by_hand(making, mean, model=nn.Sequential(generator, critic), optimizer=makes)
    require_same(generator, names["generator"])
    require_same(critic, names["critic"])
    assert len(calls) == 40 and {int(state["step"]) for state in names["makes"].state.values()} == {40}


# ---- optimizer and rate ----------------------------------------------------------------------------------------------


def groups_keep_their_shares(names, calls):
    (call,) = calls
    optimizer = torch.optim.AdamW(
        [{"params": call.before[0].parameters(), "lr": 1e-3}, {"params": call.before[2].parameters(), "lr": 1e-2}]
    )
    require_same(by_hand(call, optimizer=optimizer, factor=lambda step: 1 - step / 100), call.model)


def averaged_weights_are_what_is_left(names, calls):
    (call,) = calls
    model = call.before
    optimizer = ScheduleFree(model.parameters(), lr=1e-2)
    optimizer.train()
    by_hand(call, optimizer=optimizer)
    assert not torch.allclose(model[0].weight, call.model[0].weight)
    optimizer.eval()
    require_same(model, call.model)


def warm_up_stay_decay(names, calls):
    (call,) = calls
    rates = {record["step"]: record["lr"] for record in call.result.history if "lr" in record}
    stages = {1: 0.1, 10: 1.0, 50: 1.0, 80: 1.0, 91: 0.5, 100: 0.05}
    for step, share in stages.items():
        assert names["stable"](step - 1, 100) == pytest.approx(share)
        assert rates.get(step, share * 1e-2) == pytest.approx(share * 1e-2)
    require_same(by_hand(call, factor=lambda step: min((step + 1) / 10, 1, (100 - step) / 20)), call.model)


def each_rate_is_tried_once(names, calls):
    scores = names["scores"]
    assert len(list(Path("runs").glob("lr-*/run.json"))) == len(scores) == 4
    assert max(scores.values()) > 2 * min(scores.values())
    starts = [call.before.state_dict() for call in calls]
    assert all(torch.equal(starts[0][name], start[name]) for start in starts for name in start)
    before = dict(scores)
    exec(PIECES["Which learning rate?"], names)
    assert names["scores"] == before and all(len(json_of(f"runs/lr-{lr}")["sessions"]) == 2 for lr in before)


def json_of(run: str) -> dict:
    return json.loads(Path(run, "run.json").read_text())


# ---- watch and select ------------------------------------------------------------------------------------------------


def best_f1_is_selected(names, calls):
    (call,) = calls
    found = {record["step"]: record["f1"] for record in call.result.history if "val_loss" in record}
    assert len(found) == 4 and call.result.best["f1"] == max(found.values()) == found[call.result.best["step"]]
    model = names["build"]()
    model.load_state_dict(call.result.best_weights)
    answers, y = model(names["x"][500:]).argmax(-1), names["y"][500:]
    scores = []
    for label in range(4):
        hits = ((answers == label) & (y == label)).sum().item()
        precision, recall = hits / max(1, (answers == label).sum().item()), hits / (y == label).sum().item()
        scores.append(2 * precision * recall / (precision + recall) if hits else 0.0)
    assert sum(scores) / 4 == pytest.approx(call.result.best["f1"])


def every_record_prints_text(names, calls, printed):
    (call,) = calls
    lines = [line for line in printed.splitlines() if re.match(r"\d+ ", line)]
    assert [int(line.split()[0]) for line in lines] == [record["step"] for record in call.result.history]
    assert all(re.match(r"\d+ (None|[\d.]+) th", line) for line in lines)


def tensorboard_is_complete(names, calls):
    log = [json.loads(line) for line in Path("runs/board/log.jsonl").read_text().splitlines()]
    for name in ("loss", "val_loss"):
        written = [(step, value) for key, value, step in Writer.scalars if key == name]
        assert written == [(record["step"], record[name]) for record in log if name in record] and written


# ---- after a run -----------------------------------------------------------------------------------------------------


def what_it_has_made_is_there(names, calls):
    """The signal came at the record of step 150."""
    result = names["result"]
    assert result.steps == 150 and result.history[-1]["step"] == 150 and result.best["step"] in range(25, 151, 25)
    assert not calls  # it has raised


def first_layer_is_frozen(names, calls):
    before, after = best_weights("runs/base"), best_weights("runs/tuned")
    assert torch.equal(before["0.weight"], after["0.weight"]) and not torch.equal(before["2.weight"], after["2.weight"])


def longer_is_as_long_from_the_start(names, calls):
    first, longer, after = calls
    whole = copy.deepcopy(first.before)
    train(whole, names["data"], names["val"], replace(names["config"], steps=200))
    assert all(torch.equal(p, longer.after.state_dict()[name]) for name, p in whole.state_dict().items())
    assert all(torch.equal(p, after.before.state_dict()[name]) for name, p in best_weights("runs/longer").items())


def any_batch_size(names, calls):
    loaded = torch.export.load("model.pt2").module()
    x = torch.randn(7, 4)
    assert torch.equal(loaded(x), names["model"](x))


CHECKS = {
    "Rare classes drawn more often": rare_ones_are_drawn_as_often,
    "A batch sampler of torch": half_are_left_out,
    "A stream": the_file_is_read_in_order_and_a_resumed_run_reads_on,
    "Examples of several lengths": padding_counts_nowhere,
    "Rows as Hugging Face has them": rows_are_as_without_padding,
    "Pictures and text together": what_the_mask_leaves_out_is_not_read,
    "Class weights and padding": whole_batches_are_divided_by_their_weights,
    "Targets with gaps": as_by_hand(mean_over_known),
    "Distillation": teacher_teaches,
    "A contrastive loss": views_find_each_other,
    "A memory bank": the_bank_is_kept_from_what_is_not_finite,
    "LoRA": low_ranks_are_added_to_what_stays,
    "Unfreeze in stages": first_the_head_then_all,
    "A GAN": both_take_turns,
    "Groups with rates of their own": groups_keep_their_shares,
    "An optimizer without a schedule": averaged_weights_are_what_is_left,
    "A schedule of your own": warm_up_stay_decay,
    "Which learning rate?": each_rate_is_tried_once,
    "The best by a number of yours": best_f1_is_selected,
    "Text, while it trains": every_record_prints_text,
    "TensorBoard": tensorboard_is_complete,
    "Stopped by hand": what_it_has_made_is_there,
    "Fine-tune the best weights": first_layer_is_frozen,
    "A longer run": longer_is_as_long_from_the_start,
    "Export": any_batch_size,
}


def test_each_recipe_is_run_and_checked():
    assert len(PIECES) == RECIPES.count("```python") - 1 and PIECES.keys() == CHECKS.keys()


# ---- each is run -----------------------------------------------------------------------------------------------------


def ctrl_c_at_150(record, model):
    if record["step"] == 150:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def in_float64():
    """So that two ways to the same weights are close after a hundred steps, too."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("title", PIECES)
def test_a_recipe_does_what_it_says(title, tmp_path, monkeypatch, capsys, in_float64):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    monkeypatch.setitem(sys.modules, "schedulefree", SimpleNamespace(AdamWScheduleFree=ScheduleFree))
    torch.manual_seed(0)
    names, calls = {"__name__": "__main__", **surroundings()}, []

    def noted(*arguments, **options):
        if title == "Stopped by hand":
            options["on_step"] = ctrl_c_at_150
        calls.append(Call(*arguments, **options))
        return calls[-1].result

    exec(compile(SETUP, "set-up", "exec"), names)
    names |= {"train": noted, "device": "cpu", "config": replace(names["config"], device="cpu")}
    exec(compile(PIECES[title], title, "exec"), names)
    check, printed = CHECKS[title], capsys.readouterr().out
    if title == "Text, while it trains":
        check(names, calls, printed)
    else:
        check(names, calls)


@pytest.mark.slow
def test_the_loop_runs_from_the_files_that_one_is_told_to_copy(tmp_path):
    """And from no others: the page's first example, in a fresh process."""
    table = SECTIONS["Take it into your project"]
    copied = [
        word for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for word in re.findall(r"`(.+?)`", row)
    ]
    assert "utils/loop/" in copied
    for name in copied:
        copy_of = shutil.copytree if name.endswith("/") else shutil.copy
        (tmp_path / name).parent.mkdir(exist_ok=True)
        copy_of(ROOT / name, tmp_path / name)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.partition("\n## ")[0], re.DOTALL)
    code = f"{example}\nimport utils.loop.log; print(utils.loop.log.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown, file = done.stdout.splitlines()
    losses = json.loads(shown)
    assert Path(file).is_relative_to(tmp_path) and losses[-1] < losses[0] / 10
