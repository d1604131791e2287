"""Rehearsals, seen green and red on small lectures: on the stand-in GPU, and with every seed shifted."""

import json
import os
import subprocess
import sys
from datetime import date

import pytest
from standin_gpu import standin
from test_course import CHECKS, SETUP, claim, code, statuses, trial, write

from utils.course.__main__ import parser
from utils.course.notebooks.notebook import read
from utils.course.rehearsal.rehearse import at_start, rehearse, unexpected_lines
from utils.course.rehearsal.seeds import SHIFTS, drawn, seeds
from utils.course.run import run

DEVICE = """
import random
import numpy as np
import torch
from torch import nn
from utils.device import pick_device
device = pick_device()
"""
GREEN = {
    1: ("x = torch.ones(3, device=device)\nassert (x + x).tolist() == [2, 2, 2]",),
    2: ("assert len(os.listdir('/proc/self/fd')) > 2", "host"),
    3: ("""
def on_the_gpu():
    assert torch.ones(3, device="cuda").sum() == 3

if device.type == "cuda":
    on_the_gpu()
else:
    not_verified("needs a CUDA GPU")
""", "gpu"),
    4: ("""
import subprocess
line = "import torch; from utils.device import pick_device; print(torch.ones(2, device=pick_device()).sum())"
assert "2" in subprocess.run([sys.executable, "-c", line], capture_output=True, text=True).stdout
""",),
}  # fmt: skip
SABOTAGED = {
    "a proof moved back to the CPU": ("x = torch.ones(3)\nassert (x + x).tolist() == [2, 2, 2]", "ran no operator"),
    "a helper without .to(device)": (
        "net = nn.Linear(3, 1)\nassert net(torch.ones(3, device=device)).shape == (1,)",
        "same device",
    ),
    "a CPU generator on the device": (
        "g = torch.Generator().manual_seed(0)\nassert torch.rand(3, generator=g, device=device).sum() > 0",
        "generator",
    ),
    "numpy without .cpu()": ("assert torch.ones(3, device=device).numpy().sum() == 3", "can't convert"),
    "a state of the wrong device": (
        "net = nn.Linear(3, 1).to(device)\nstate = nn.Linear(3, 1).state_dict()\n"
        "net.load_state_dict(state, assign=True)\nassert net(torch.ones(3, device=device)).shape == (1,)",
        "same device",
    ),
    "targets left on the CPU in the loop": (
        """
import inspect
from utils import loop
from utils.data import spiral
from utils.models import MLP
module = sys.modules["utils.loop.training"]
moved = "y = to_device(y, state.device, non_blocking=True)"
source = inspect.getsource(module.train_step)
assert moved in source
exec(source.replace(moved, "pass"), vars(module))
result = loop.train(MLP((2, 8, 3)), spiral().train, None, loop.Config(steps=2, batch_size=8))
assert len(result.history) > 0""",
        "same device",
    ),
    "a warning": ("print('careful', file=sys.stderr)\nassert torch.ones(3, device=device).sum() == 3", "NOISY"),
}
buildable = pytest.mark.skipif(bool(standin.why_not()), reason=standin.why_not() or "")


def lecture(folder, proofs: dict):
    path = trial(folder, *(claim(n, *proof) for n, proof in proofs.items()), setup=SETUP + CHECKS + DEVICE)
    book = json.loads(path.read_text())
    for cell in book["cells"]:
        if "host" in cell["metadata"].get("tags", ()):
            cell["metadata"]["host"] = "counts the files that this process holds open"
    return write(path, book["cells"])


@buildable
@pytest.mark.slow
def test_a_lecture_on_the_stand_in(tmp_path, capsys):
    assert rehearse([lecture(tmp_path, GREEN)], tmp_path / "build") == 0, capsys.readouterr().out
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("01_trial"))
    assert row.split()[1:8] == ["4", "2", "1", "1", "0", "0", "0"]


@buildable
@pytest.mark.nightly
@pytest.mark.slow
def test_a_lab_gets_the_device_as_its_parameter(tmp_path, capsys):
    cells = [
        code("parameters", 'device = "cpu"', "parameters"),
        code("setup", DEVICE.replace("pick_device()", "pick_device(device)")),
        code("check", "assert torch.ones(3, device=device).device.type == 'gpu', device"),
    ]
    path = write(tmp_path / "01_lab.ipynb", cells)
    assert rehearse([path], tmp_path / "build") == 0, capsys.readouterr().out


@buildable
@pytest.mark.nightly
@pytest.mark.slow
def test_each_sabotage_turns_it_red(tmp_path, capsys):
    proofs = {n: (proof,) for n, (proof, _) in enumerate(SABOTAGED.values(), 1)}
    proofs[len(proofs) + 1] = ("assert torch.ones(3, device=device).sum() == 3", "host")
    path = lecture(tmp_path, proofs)
    assert run([path], tmp_path / "build") == (1 if os.environ.get("CUDA_VISIBLE_DEVICES") else 0), "green on a CPU"
    capsys.readouterr()
    assert rehearse([path], tmp_path / "build") == 1
    blocks = capsys.readouterr().out.split("01_trial", 1)[1]
    for words in [*(words for _, words in SABOTAGED.values()), "tagged host, and ran"]:
        assert words in blocks
    row = next(line for line in blocks.splitlines() if line.startswith("total"))
    assert row.split()[5:8] == ["2", "1", str(len(SABOTAGED) - 2)]


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match=r"C\+\+ compiler|Linux only"):
        rehearse([lecture(tmp_path, GREEN)], tmp_path / "build")


DRAWS = """
import random, numpy as np, torch
from utils.data.order import Order, derive_seed
def drawn(seed):
    random.seed(seed); np.random.seed(seed); torch.manual_seed(seed)
    return [
        random.random(), random.Random(seed).random(), np.random.rand(), np.random.default_rng(seed).random(),
        torch.rand(()).item(), torch.rand((), generator=torch.Generator().manual_seed(seed)).item(),
    ]
print(drawn({seed})); print(Order(50, 5, 1).batch(0)); print(derive_seed(3, "x"))
"""


def draws(seed: int, shift: int) -> list[str]:
    environment = os.environ | at_start(shift=shift)
    line = [sys.executable, "-c", DRAWS.format(seed=seed)]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
def test_every_seed_is_shifted():
    plain, shifted, ahead = draws(3, 0), draws(3, 40), draws(43, 0)
    assert shifted[0] == ahead[0] != plain[0], "the numbers of the seed 43"
    assert shifted[1:] != plain[1:] and shifted[2] != plain[2], "and the course's own order and seeds are others too"
    assert draws(3, 40) == shifted


@pytest.mark.nightly
@pytest.mark.slow
def test_a_digit_of_one_draw_turns_red_at_another_seed_and_a_law_does_not(tmp_path, capsys):
    digit = "torch.manual_seed(0)\nassert round(torch.rand(()).item(), 4) == 0.4963"
    law = "torch.manual_seed(0)\nassert abs(torch.rand(10_000).mean() - 0.5) < 0.02"
    path = lecture(tmp_path, {1: (digit,), 2: (law,)})
    assert run([path], tmp_path / "build") == 0
    assert statuses(tmp_path) == {"1.1": "verified", "1.2": "verified"}
    capsys.readouterr()
    assert seeds([path], tmp_path / "build", shifts=[1, 2]) == 1
    printed = capsys.readouterr().out
    table = next(line for line in printed.splitlines() if line.startswith("01_trial"))
    assert table.split() == ["01_trial", "1", "1"]
    assert "Claim 1.1." in printed and "Claim 1.2." not in printed


def test_the_shift_of_a_day_is_fixed_and_all_have_their_turn():
    days = [date.fromordinal(date(2026, 1, 1).toordinal() + n) for n in range(365)]
    assert drawn(days[0]) == drawn(days[0])
    assert set(map(drawn, days)) == set(SHIFTS)


def test_shifts_are_asked_for_by_number_or_range(capsys):
    assert parser(line := ["seeds", "--shift", "3", "--shift", "18-20"]).parse_args(line).shift == [3, 18, 19, 20]
    with pytest.raises(SystemExit):
        parser(line := ["seeds", "--shift", "20-18"]).parse_args(line)
    assert "'20-18' is an empty range" in capsys.readouterr().err


def test_noise_is_what_goes_to_stderr_or_names_this_machine(tmp_path):
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["all well\n"]},
        {"output_type": "stream", "name": "stderr", "text": ["careful\n", "again\n"]},
        {"output_type": "stream", "name": "stdout", "text": "in /x/site-packages/torch\n"},
    ]
    cell = code("setup", "1") | {"outputs": outputs, "execution_count": 1}
    found = unexpected_lines(read(write(tmp_path / "01_trial.ipynb", [cell])))
    assert found == [("setup", "careful"), ("setup", "in /x/site-packages/torch")]
