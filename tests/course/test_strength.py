"""Assertion strength, on lectures of a few lines: what is changed, what becomes of each change, what is kept."""

import ast
import json
import os
import subprocess

import pytest
from test_course import claim, code, markdown, trial

from utils.course.__main__ import main
from utils.course.mutation import strength
from utils.course.mutation.mutants import Code, mutants_of
from utils.course.mutation.strength import (
    CRASHED,
    KILLED,
    STILLBORN,
    SURVIVED,
    Entry,
    draw,
    measure,
    read_equivalents,
    stored,
)
from utils.course.notebooks.notebook import read

SETUP = "import os"
CHECKS = "from utils import checks\nfrom utils.checks import not_verified, raises"
HEAD = markdown("head", "## Another section")


def changes(folder, *cells, leave_out=(), setup=SETUP) -> list[str]:
    """What the mutants of a lecture are called, without the number of the line."""
    found = mutants_of(Code(read(trial(folder, *cells, setup=setup))), set(leave_out))
    return [mutant.change.split(": ", 1)[1] for mutant in found]


def marks(folder, proof: str, *tags) -> list[str]:
    """The changes of one proof: old → new."""
    return [change.split("⟦")[1].split("⟧")[0] for change in changes(folder, claim(1, proof, *tags))]


def outcomes(folder, *cells, entries=(), **options) -> dict[str, str]:
    """The outcome of each mutant by its change; those held equivalent are left out."""
    measured = measure(read(trial(folder, *cells, setup=SETUP)), list(entries), sample=None, **options)
    assert measured.unmeasured == {}
    return {f"{t.mutant.cell.id} {t.mutant.change}": t.outcome for t in measured.trials if not t.equivalent}


def only(found: dict[str, str], words: str) -> str:
    """The outcome of the one mutant whose name holds `words`."""
    matching = {name: outcome for name, outcome in found.items() if words in name}
    assert len(matching) == 1, (words, found)
    return next(iter(matching.values()))


# What is changed


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = 5", ["5 → 10", "5 → 6", "5 → 4"]),
        ("x = -1", ["-1 → 0", "-1 → -2", "-1 → 1"]),
        ("x = 0.5", ["0.5 → 1.0", "0.5 → -0.5"]),
        ("x = 1e9", ["1e9 → 2000000000.0", "1e9 → -1000000000.0"]),
        ("x = f(True)", ["True → False"]),
        ("x = a + b", ["+ → -"]),
        ("x = a * b", ["* → //"]),
        ("x = a @ b", ["@ → *"]),
        ("x = a < b", ["< → <="]),
        ("x = a is not b", ["is not → is"]),
        ("x = a not in b", ["not in → in"]),
        ("x = (a  # and\n     and b)", ["and → or"]),
        ("x = not a", ["not → "]),
        ("x = torch.float32", ["torch.float32 → torch.float64", "torch.float32 → torch.bfloat16"]),
        ('x = f("bf16")', ['"bf16" → "fp16"']),
        ("x = a.double()", ["double → float"]),
        ("x = torch.arange(6).view(2, 3)", ["6).view(2, 3 → 12).view(4, 3", "6).view(2, 3 → 9).view(3, 3"]),
        ("x = 0\nx += y", ["0 → 1", "0 → -1", "x += y → pass", "+ → -"]),
        ("x = 'ünï', a + b", ["+ → -"]),
        ("with torch.no_grad():\n    x = y", ["with torch.no_grad() → if True"]),
        ("x = f()\nx = g(x)", ["x = g(x) → pass"]),
        ("x = f()\nx.step()", ["x.step() → pass"]),
        ("x = f()\nx[a] = b", ["x[a] = b → pass"]),
    ],
)
def test_a_line_is_changed_in_these_ways(tmp_path, line, expected):
    found = [mark.replace("⟦", "") for mark in marks(tmp_path, f"{line}\nassert x")]
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) or "view" in line


@pytest.mark.parametrize(
    "line",
    [
        "assert 1 + 1 == 2, 3",
        "with raises(ValueError, '1'):\n    f(x)",
        "torch.testing.assert_close(x, 2 * y, rtol=0.1)",
        "loop_checks.same_run(train, 3)",
        "print(1 + 1)",
        "figures.draw(x, 3)",
        "torch.manual_seed(3)",
        "g = torch.Generator().manual_seed(3)",
        "g = np.random.default_rng(3)",
        "seeds = (0, 1)",
        "y = f(seed=1)",
        "y = [f(seed) for seed in range(3)]",
        "y = time_paired(f, rounds=9, warmup=2)",
        "import math",
        "'''A text: 1 + 1'''",
        "y = f'{x + 1}'",
        "y: Annotated[int, 3] = f(x)",
        "y = 'a' + b",
        "time.sleep(0.1)",
        "if full:\n    y = 3",
        "y = 3 if full else f(x)",
        "def check(z):\n    assert z\n\n\ncheck(x)",
        "try:\n    assert x\nfinally:\n    restore(True)",
        "file.close()",
        "y = list(zip(a, b, strict=True))",
    ],
)
def test_this_is_never_changed(tmp_path, line):
    found = marks(tmp_path, f"x = f()\n{line}\nassert x")
    assert found in ([], ["f(x) → pass"]), found


def test_asserts_come_through_every_mutant_unchanged(tmp_path):
    proof = "x = 3 * 4 - 2\nfor i in range(3):\n    x += i\n    assert x < 100 and i + 1 < 5\nassert x == 13 and x > 0"
    source = [ast.dump(node) for node in ast.walk(ast.parse(proof)) if isinstance(node, ast.Assert)]
    mutants = mutants_of(Code(read(trial(tmp_path, claim(1, proof)))), set())
    assert len(mutants) > 10 and len({mutant.source for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        assert [ast.dump(n) for n in ast.walk(ast.parse(mutant.source)) if isinstance(n, ast.Assert)] == source


def test_what_no_assert_can_see_is_no_subject(tmp_path):
    found = changes(
        tmp_path,
        [code("colab", "course = 1")],
        [code("shown", "seconds = 3 * f()\nprint(seconds)")],
        [code("shared", "def used():\n    return 1\n\n\ndef unused():\n    return 2\n\n\nscale = 3")],
        claim(1, "x = used()\nassert x == course"),
        [code("picture-1-1", "y = 4\nfigures.draw(y)")],
        [code("calculator-tax", "z = 7\nshow(z)")],
        claim(2, "x = 5\nif device.type == 'cuda':\n    assert x\nelse:\n    not_verified('no GPU')", "gpu"),
        claim(3, "x = 6\nassert x == f(x)"),
        leave_out={"proof-1-3"},
    )
    assert found == ["return ⟦1 → 2⟧", "return ⟦1 → 0⟧"]


def test_of_a_choice_by_the_device_only_the_cpus_part_is_changed(tmp_path):
    proof = """
if device.type in ("cpu", "cuda"):
    x = a + b
if device.type != "cpu":
    x = 2
y = 3 if device.type == "cuda" and full else c * d
if device.type == other.type:
    z = True
assert x + y + z"""
    assert set(marks(tmp_path, proof)) == {"+ → -", "* → //", "== → !=", "True → False"}


def test_a_cell_that_is_not_python_is_named(tmp_path):
    with pytest.raises(ValueError, match="cell proof-1-1 is not plain Python"):
        Code(read(trial(tmp_path, claim(1, "!ls"))))


# What becomes of a change


STRONG = "values = [n * n for n in range(2, 6)]\ntotal = sum(values)\nassert total == 54"
VACUOUS = STRONG.replace("== 54", "< 1000")


def test_a_strong_proof_kills_and_a_vacuous_one_lets_live(tmp_path):
    strong, vacuous = outcomes(tmp_path, claim(1, STRONG)), outcomes(tmp_path, claim(1, VACUOUS))
    assert strong.keys() == vacuous.keys() and len(strong) == 7
    assert set(strong.values()) == {KILLED}
    assert set(vacuous.values()) == {SURVIVED}


def test_crash_hang_refusal_and_survival_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(strength, "LEAST", 1.0)
    proof = """
places = [0, 1, 2]
n = 2
seen = places[n]
rest = [7, 8][1]
wait = n > 2
while wait:
    pass
assert seen > 0
"""
    found = outcomes(tmp_path, claim(1, proof))
    assert only(found, "n = ⟦2 → 4⟧") == CRASHED
    assert only(found, "wait = n ⟦> → >=⟧ 2") == CRASHED
    assert only(found, "[7, 8][⟦1 → 2⟧]") == STILLBORN
    assert only(found, "[7, 8][⟦1 → 0⟧]") == SURVIVED
    assert only(found, "[⟦0 → 1⟧, 1, 2]") == SURVIVED
    assert only(found, "[0, 1, ⟦2 → 1⟧]") == SURVIVED
    assert only(found, "n = ⟦2 → 3⟧") == CRASHED


def test_a_statement_left_out_without_which_only_its_name_is_missing_does_not_count(tmp_path):
    proof = """
class Thing:
    size = None


thing, seen = Thing(), {}
thing.width = 3
seen["x"] = 4
thing.size = [5]
assert thing.width + seen["x"] + len(thing.size) == 8
"""
    found = outcomes(tmp_path, claim(1, proof))
    assert only(found, "⟦thing.width = 3 → pass⟧") == STILLBORN
    assert only(found, '⟦seen["x"] = 4 → pass⟧') == STILLBORN
    assert only(found, "⟦thing.size = [5] → pass⟧") == CRASHED


@pytest.mark.slow
def test_raises_and_detectors_count_as_asserts_and_foreign_ones_do_not(tmp_path):
    proofs = [
        "limit = 1\nwith raises(ValueError):\n    [][:limit].remove(limit) if limit < 2 else None",
        "rate = 2.0\ntorch.testing.assert_close(torch.full((2,), rate), torch.tensor([2.0, 2.0]))",
        "names = 3\nnet = nn.Softmax(1) if names > 3 else nn.Tanh()\nchecks.outputs_are_logits(net, torch.ones(1, names))",
        "pad = 2\nlayer = nn.Embedding(3, 2, padding_idx=pad)\nassert layer",
    ]
    tools = code("tools", CHECKS + "\nimport torch\nfrom torch import nn")
    found = outcomes(tmp_path, [tools], *(claim(n, proof) for n, proof in enumerate(proofs, 1)))
    assert only(found, "limit = ⟦1 → 2⟧") == KILLED
    assert only(found, "rate = ⟦2.0 → 3.0⟧") == KILLED
    assert only(found, "names = ⟦3 → 4⟧") == KILLED
    assert only(found, "pad = ⟦2 → 3⟧") == CRASHED, "torch's own assert is no proof"


def test_a_change_does_not_leak_into_the_next(tmp_path):
    proof = "log.append(3)\ncount = len(log)\nassert count < 5"
    cells = [code("log", "log = []")], claim(1, proof), claim(2, "assert log == [3]")
    found = outcomes(tmp_path, *cells)
    assert only(found, "⟦log.append(3) → pass⟧") == KILLED
    assert only(found, "log.append(⟦3 → 4⟧)") == KILLED
    assert set(found.values()) == {KILLED}


def test_files_do_not_leak_either(tmp_path):
    setting = """
import tempfile
from multiprocessing.connection import Listener
from pathlib import Path
folder = Path(tempfile.mkdtemp())
(folder / "kept").write_text("7")
listener = Listener(family="AF_UNIX")  # its socket lies in the temporary folder
"""
    proof = """
number = 3
(folder / "kept").write_text("8")
(folder / f"new-{number}").mkdir()
count = len(list(folder.iterdir()))
assert count == 2 and number < 5
"""
    found = outcomes(
        tmp_path, [code("setting", setting)], claim(1, proof), claim(2, "assert len(os.listdir(folder)) == 2")
    )
    assert only(found, "number = ⟦3 → 4⟧") == SURVIVED
    assert only(found, "number = ⟦3 → 6⟧") == KILLED
    assert only(found, "mkdir() → pass⟧") == KILLED


def test_a_mutant_runs_to_the_end_of_its_section_and_no_further(tmp_path):
    late = claim(2, "assert x == 1")
    near = claim(1, "x = 1\nassert x")
    assert only(outcomes(tmp_path, near, late), "x = ⟦1 → 2⟧") == KILLED
    assert only(outcomes(tmp_path, near, [HEAD], late), "x = ⟦1 → 2⟧") == SURVIVED


def test_shared_code_is_followed_to_the_sections_that_use_it(tmp_path):
    shared = code("shared", "def twice(x):\n    return 2 * x\n\n\nbase = 10")
    far = [HEAD, code("more", "def four_times(x):\n    return twice(twice(x))")]
    found = outcomes(tmp_path, [shared], claim(1, "assert base > 0"), far, claim(2, "assert four_times(1) == 4"))
    assert only(found, "return ⟦2 → 3⟧ * x") == KILLED
    assert only(found, "base = ⟦10 → 11⟧") == SURVIVED
    assert only(found, "base = ⟦10 → 20⟧") == SURVIVED


@pytest.mark.slow
def test_backward_and_workers_run_in_a_fork_of_a_process_that_ran_them(tmp_path):
    step = """
w = torch.tensor([3.0], requires_grad=True)
(w * 2).sum().backward()
rows = [row.item() for row in DataLoader(range(4), num_workers=2, multiprocessing_context="fork")]
assert (w.grad.item(), rows) == (2.0, [0, 1, 2, 3])
"""
    tools = code("tools", "import torch\nfrom torch.utils.data import DataLoader")
    found = outcomes(tmp_path, [tools], claim(1, step), claim(2, step))
    assert only(found, "proof-1-2 3: (w * ⟦2 → 3⟧)") == KILLED
    assert only(found, "proof-1-2 4: rows = [row.item() for row in DataLoader(range(⟦4 → 5⟧)") == KILLED


@pytest.mark.slow
def test_what_a_mutant_leaves_running_is_ended_with_it(tmp_path):
    seconds = f"600.{os.getpid()}"  # a sleep that no other process has
    proof = f"""
import subprocess
sleepers = 1
if sleepers > 1:
    subprocess.Popen(["sleep", "{seconds}"]), open({str(tmp_path / "began")!r}, "w").close()
assert sleepers
"""
    assert only(outcomes(tmp_path, claim(1, proof)), "sleepers = ⟦1 → 2⟧") == SURVIVED
    assert (tmp_path / "began").exists()
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert f"sleep {seconds}" not in listed


def test_a_lecture_that_fails_as_it_stands_is_refused(tmp_path, capsys):
    path = trial(tmp_path, claim(1, "x = 1\nassert x == 2"))
    with pytest.raises(RuntimeError, match="cell proof-1-1 fails as it stands, make it green first: AssertionError"):
        measure(read(path), [])
    options = {"sample": None, "seed": 0, "jobs": 1, "build": tmp_path / "build", "store": tmp_path / "store"}
    assert strength.strength([path], **options) == 1
    assert "fails as it stands" in capsys.readouterr().err and not (tmp_path / "store").exists()


def test_where_a_fork_alone_fails_nothing_is_measured(tmp_path):
    parent = "parent = os.getpid()"
    path = trial(tmp_path, [code("parent", parent)], claim(1, "x = 1\nassert x and os.getpid() == parent"), setup=SETUP)
    measured = measure(read(path), [], sample=None)
    assert measured.trials == () and "AssertionError" in measured.unmeasured["proof-1-1"]
    assert "NOT MEASURED  proof-1-1: unchanged it fails too" in strength.report(measured)


def test_a_trial_cannot_reach_the_network_nor_eat_all_memory(tmp_path):
    proof = """
import socket
size = 1
host = "localhost" if size < 2 else "example.org"
found = len(socket.getaddrinfo(host, 80))
size = 3
big = bytearray(10 + 7 * 2**30 * (size > 3))
assert found
"""
    found = outcomes(tmp_path, claim(1, proof))
    assert only(found, "size = ⟦1 → 2⟧") == CRASHED
    assert only(found, "size = ⟦3 → 2⟧") == SURVIVED
    assert only(found, "size = ⟦3 → 4⟧") == CRASHED


# The sample


def lecture_of_many(folder):
    proofs = [claim(n, "\n".join([f"x = {n} + {m}" for m in range(n)] + ["assert x"])) for n in range(1, 6)]
    return read(trial(folder, *proofs))


def test_the_sample_is_the_same_for_the_same_seed_and_gives_each_proof_its_share(tmp_path):
    mutants = mutants_of(Code(lecture_of_many(tmp_path)), set())
    names = [(m.cell.id, m.change) for m in draw(mutants, 20, seed=1)]
    assert names == [(m.cell.id, m.change) for m in draw(mutants, 20, seed=1)] and len(names) == 20
    assert names != [(m.cell.id, m.change) for m in draw(mutants, 20, seed=2)]
    shares = [sum(cell == f"proof-1-{n}" for cell, _ in names) for n in range(1, 6)]
    assert shares[0] >= 1 and shares == sorted(shares) and shares[4] > 2 * shares[0]
    assert names == sorted(names, key=[(m.cell.id, m.change) for m in mutants].index), "in the order of the lecture"
    assert draw(mutants, 10_000, seed=1) == mutants
    assert {m.cell.id for m in draw(mutants, 1, seed=1)} == {f"proof-1-{n}" for n in range(1, 6)}


# Equivalent mutants


def entry_for(lecture, words: str, reason="no value differs") -> Entry:
    found = [m for m in mutants_of(Code(lecture), set()) if words in m.change]
    assert len(found) == 1
    return Entry(lecture.name, found[0].cell.id, found[0].cell_hash, found[0].change, reason)


def test_equivalents_are_honoured_and_stale_or_wrong_ones_reported(tmp_path):
    proof = "rows = [3, 1, 2]\nlargest = max(rows)\nspare = 7\nassert largest == 3"
    lecture = read(trial(tmp_path, claim(1, proof)))
    bare = measure(lecture, [], sample=None)
    assert (bare.count(KILLED), bare.count(SURVIVED)) == (4, 7)
    entries = [entry_for(lecture, "spare = ⟦7 → 8⟧"), entry_for(lecture, "[⟦3 → 6⟧, 1, 2]")]
    judged = measure(lecture, entries, sample=None)
    assert (judged.count(SURVIVED), judged.equivalent) == (6, 1) and judged.percent == 40
    assert len(judged.notes) == 1 and "held equivalent, yet an assert kills it" in judged.notes[0]
    edited = read(trial(tmp_path, claim(1, proof.replace("spare = 7", "spare = 7  # of no use"))))
    stale = measure(edited, entries, sample=None)
    assert stale.equivalent == 0 and [note.split(",")[0] for note in stale.notes] == ["stale"] * 2
    assert measure(lecture, [Entry("02_other", "x", "y", "z", "w")], sample=None).notes == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[equivalent]]\nlecture = 'a'", "missing"),
        ("[[equivalent", "Expected"),
        ("[[equivalent]]\nlecture='a'\ncell='b'\nhash='c'\nchange='d'\nreason=' '", "without a reason"),
    ],
)
def test_a_bad_list_of_equivalents_is_refused(tmp_path, text, words):
    (tmp_path / "equivalent.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_equivalents(tmp_path / "equivalent.toml")
    assert read_equivalents(tmp_path / "none.toml") == []


# What is kept


def test_the_result_is_kept_and_goes_stale_with_the_code_alone(tmp_path, capsys):
    path = trial(tmp_path, claim(1, VACUOUS), [code("picture-1-1", "print(3)")])
    build, store = tmp_path / "build", tmp_path / "store"
    options = {"sample": 250, "seed": 3, "jobs": 2, "build": build, "store": store}
    assert stored(read(path), store) == "–"
    assert strength.strength([path], **options, cells=["proof-1-1"]) == 0
    assert not store.exists(), "a part is not stored"
    assert strength.strength([path], **options) == 0
    printed = capsys.readouterr().out
    assert "survived  proof-1-1  1: values = [n ⟦* → //⟧ n for n in range(2, 6)]" in printed
    result = json.loads((store / "01_trial.json").read_text())
    assert (result["killed by an assert"], result["survived"], result["seed"]) == (0, 7, 3)
    assert stored(read(path), store) == "0 %"
    proposal = build / "strength" / "01_trial.toml"
    filled = proposal.read_text().replace('reason = ""', 'reason = "a loose bound, on purpose"')
    (store / "equivalent.toml").write_text(filled)
    assert strength.strength([path], **options) == 0
    assert json.loads((store / "01_trial.json").read_text())["held equivalent"] == 7
    more = [code("colab", "course = 1"), markdown("why", "Why?"), code("calculator-tax", "show(5)")]
    prose = trial(tmp_path, more, claim(1, VACUOUS), [code("picture-1-1", "print(4)")])
    assert not stored(read(prose), store).endswith("stale")
    assert stored(read(trial(tmp_path, claim(1, STRONG))), store).endswith("stale")


def test_the_command_says_how_to_use_it(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["strength", "--help"])
    assert stop.value.code == 0 and "usage: " in capsys.readouterr().out
    assert main(["strength", "no/such.ipynb"]) == 2
    assert "no such notebook" in capsys.readouterr().err
