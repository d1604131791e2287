"""Committed measurements are read by name, and the one of lecture 06 can be made again."""

import math
from dataclasses import asdict

import climb_staircase
import pytest
import sweep_optimizers
import sweep_precision
import torch
from helpers.paths import ROOT
from sweep_optimizers import Run

from utils.course.notebooks.notebook import read
from utils.measure import committed, committed_measurement, machines_in_words


def test_a_measurement_that_is_not_there_is_told_with_those_that_are(tmp_path, monkeypatch):
    monkeypatch.setattr(committed, "STORE", tmp_path)
    with pytest.raises(ValueError, match=r"no measurement 'x' in .*: there are none. Give one of these"):
        committed_measurement("x")
    (tmp_path / "y.json").write_text('{"machines": [], "runs": [1]}')
    assert committed_measurement("y") == {"machines": [], "runs": [1]}
    with pytest.raises(ValueError, match=r"there are y\. Give"):
        committed_measurement("x")


def test_machines_are_told_in_words():
    machine = {"cpu": "Some CPU", "threads": 2, "torch": "2.13.0", "date": "2026-11-29"}
    told = machines_in_words({"machines": [machine, machine | {"threads": 1}]})
    assert told == "Some CPU, 2 threads, torch 2.13.0, 2026-11-29; Some CPU, 1 thread, torch 2.13.0, 2026-11-29"
    assert machines_in_words({"machines": [machine, machine | {"program": "changed"}]}).count("Some CPU") == 1


def test_each_run_that_is_kept_is_one_that_the_script_makes():
    makes = [
        asdict(run) for runs in (sweep_optimizers.runs_of_gpt, sweep_optimizers.runs_of_classifier) for run in runs()
    ]
    kept = [each["run"] for each in committed_measurement("optimizers")["runs"]]
    assert kept and not [run for run in kept if run not in makes]
    makes = [asdict(run) for run in sweep_optimizers.runs_of_steps()]
    kept = [each["run"] for each in committed_measurement("optimizer_steps")["runs"]]
    assert kept and not [run for run in kept if run not in makes]
    makes = [asdict(run) for run in sweep_precision.runs()]
    kept = [each["run"] for each in committed_measurement("precisions")["runs"]]
    assert kept and not [run for run in kept if run not in makes]


def first_moves(optimizer, model):
    """How far one step moves each weight of a layer whose gradients are 1, 2 and 4 in one row and 8, 16, 32 in another."""
    before = model.weight.detach().clone()
    model(torch.tensor([[1.0, 2.0, 4.0]])).mul(torch.tensor([1.0, 8.0])).sum().backward()
    optimizer.step()
    return (before - model.weight.detach()).flatten()


@pytest.mark.parametrize(
    ("shared_by", "ratios"),
    [
        ("weight", [1] * 6),
        ("row", [1, 2, 4, 1, 2, 4]),
        ("tensor", [1, 2, 4, 8, 16, 32]),
        ("network", [1, 2, 4, 8, 16, 32]),
    ],
)
def test_a_step_is_as_the_gradient_among_weights_that_share_one_size(shared_by, ratios):
    layer = torch.nn.Linear(3, 2, bias=False)
    moves = first_moves(sweep_optimizers.SharedSize(layer.parameters(), 0.1, shared_by), layer)
    assert (moves / moves[0]).tolist() == pytest.approx(ratios, rel=1e-3)
    adams = torch.nn.Linear(3, 2, bias=False)
    if shared_by == "weight":
        assert moves.tolist() == pytest.approx(
            first_moves(torch.optim.Adam(adams.parameters(), 0.1), adams).tolist(), rel=1e-3
        )


@pytest.mark.parametrize(("shared_by", "shares"), [("first tensor", [True, False]), ("others", [False, True])])
def test_the_first_tensor_or_the_others_share_their_sizes_and_the_rest_is_adams(shared_by, shares):
    """Adam's first step is as long for every gradient; among weights that share a size it is as the gradient."""
    tensors = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    for p in tensors:
        p.grad = torch.tensor([1.0, 4.0])
    sweep_optimizers.SharedSize(tensors, 0.1, shared_by).step()
    assert [(p[1] / p[0]).item() for p in tensors] == pytest.approx([4 if shared else 1 for shared in shares], rel=1e-3)


def test_two_runs_clip_on_one_side_of_the_end_of_the_warmup_alone():
    inside, behind = (
        Run("gpt", f"AdamW, clipped {when} the warm-up", 0.01, warmup=2, clip=1.0) for when in ("in", "after")
    )
    assert [inside.limit(step) for step in range(4)] == [1.0, 1.0, math.inf, math.inf]
    assert [behind.limit(step) for step in range(4)] == [math.inf, math.inf, 1.0, 1.0]
    assert Run("gpt", "AdamW", 0.01, warmup=2, clip=1.0).limit(3) == 1.0
    assert Run("gpt", "AdamW", 0.01, warmup=2).limit(0) == math.inf


def test_the_schedule_of_the_script_is_that_of_the_program():
    program = (ROOT / "notebooks" / "program" / "06_optimizers_and_schedules.py").read_text(encoding="utf-8")
    body = program[program.index("def rate(step):") : program.index("def validate")]
    names = {"math": math, "learning_rate": 0.01, "warmup": 40, "steps": 400}
    exec(body, names)
    run = Run("gpt", "AdamW", 0.01, cosine=True, warmup=40)
    assert [run.rate(step, 400) for step in range(400)] == pytest.approx([names["rate"](step) for step in range(400)])
    assert Run("gpt", "AdamW", 0.01).rate(399, 400) == 0.01


def test_the_definitions_of_the_program_end_before_it_trains(tmp_path, monkeypatch):
    assert (
        "class GPT" in sweep_optimizers.definitions()
        and "for step in range(steps)" not in sweep_optimizers.definitions()
    )
    (tmp_path / "other.py").write_text("x = 1")
    monkeypatch.setattr(sweep_optimizers, "PROGRAM", tmp_path / "other.py")
    with pytest.raises(ValueError, match=r"other\.py has no line that begins with 'check_gradient"):
        sweep_optimizers.definitions()


def test_the_stairs_that_are_kept_are_those_of_the_capstone():
    (cell,) = (cell for cell in read(ROOT / "notebooks" / "capstone.ipynb").code if cell.id == climb_staircase.LAST)
    kept = [run["stairs"] for run in committed_measurement("staircase")["runs"] if run["model"] == "the program's"]
    assert kept and all(f'"{name}": ' in cell.source for stairs in kept for name in stairs)
