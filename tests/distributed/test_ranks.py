"""A run is the same on one process and on many; a rank that is lost or told nonsense ends them all, and says why."""

import json
import math
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from helpers import ranked_run
from helpers.paths import ROOT

from utils.distributed import rendezvous, sharded_checkpoint
from utils.distributed.ranks import SINGLE_PROCESS, Ranks, current_ranks
from utils.loop import checkpoint
from utils.loop.config import Config
from utils.loop.state import State
from utils.loop.training import halve_micro_batches

pytestmark = pytest.mark.xdist_group("ranks")  # fixtures that take seconds: on one worker, see conftest

SCRIPT = ROOT / "tests" / "helpers" / "ranked_run.py"
HANGS = 1200  # seconds after which a process is taken for hanging, and killed: many times what a busy machine needs


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(python: list[str], world: int, *arguments, port: int | None = None, **changes) -> list[subprocess.Popen]:
    """One process a rank, as torchrun starts them, with changes to what each is told: RANK={1: "0"} for rank 1."""
    port = port or free_port()
    processes = []
    for rank in range(world):
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        told |= {name: by_rank[rank] for name, by_rank in changes.items() if rank in by_rank}
        environment = os.environ | {name: str(value) for name, value in told.items()} | {"OMP_NUM_THREADS": "1"}
        line = [*python, str(SCRIPT), *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        processes.append(subprocess.Popen(line, env=environment, **pipes))
    return processes


def finish(processes: list[subprocess.Popen]) -> list[tuple[int, str]]:
    """(exit code, all that it printed) of each process; none is left behind."""
    try:
        return [(p.returncode, output) for p in processes for output in [p.communicate(timeout=HANGS)[0]]]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()


def launch(python: list[str], world: int, *arguments, **changes) -> list[tuple[int, str]]:
    return finish(start(python, world, *arguments, **changes))


def results(folder: Path, case: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{case}-*.json"))]


# ---- the same run ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone():
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RANK", "WORLD_SIZE"):
            patch.delenv(name, raising=False)
        return {case: ranked_run.outcome(*ranked_run.run(case)) for case in ranked_run.CASES}


NOISY = ("noisy", "noisy parts")
STOPPED = ("interrupted", "cut_short")
TOGETHER = (*ranked_run.CASES, "evaluated", *NOISY, *(f"{how}:{case}" for how in STOPPED for case in NOISY))


def run_together(python: list[str], world: int, folder: Path) -> dict[str, list[dict]]:
    ended = launch(python, world, folder, *TOGETHER)
    assert [code for code, _ in ended] == [0] * world, ended
    return {case: results(folder, case.replace(":", " ")) for case in TOGETHER}


@pytest.fixture(scope="module")
def two(tmp_path_factory, forked_python):
    return run_together(forked_python, 2, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def four(tmp_path_factory, forked_python):
    return run_together(forked_python, 4, tmp_path_factory.mktemp("four"))


@pytest.fixture(params=[2, pytest.param(4, marks=pytest.mark.nightly)])
def together(request):
    return request.getfixturevalue({2: "two", 4: "four"}[request.param])


def apart(one: float | None, other: float | None) -> float:
    """Their difference; infinite where only one of them is a finite number: max() would pass over a NaN."""
    if None in (one, other) or not math.isfinite(one - other):
        return 0.0 if str(one) == str(other) else math.inf
    return abs(one - other)


def furthest(history: list[dict], reference: list[dict]) -> float:
    """The largest difference between two histories of the same steps."""
    assert [record.keys() for record in history] == [record.keys() for record in reference]
    pairs = [(theirs[key], ours[key]) for theirs, ours in zip(history, reference, strict=True) for key in ours]
    assert all(theirs == ours for theirs, ours in pairs if isinstance(ours, list))  # steps by name
    return max(apart(theirs, ours) for theirs, ours in pairs if not isinstance(ours, list))


@pytest.mark.slow
@pytest.mark.parametrize("case", ranked_run.CASES)
def test_a_run_is_the_same_on_any_number_of_ranks(alone, together, case):
    assert len(alone[case]["history"]) >= 12 and (alone[case]["steps"] == 50) == (case != "stopping")
    for outcome in together[case]:
        assert furthest(outcome["history"], alone[case]["history"]) < 1e-12
        assert {key: outcome[key] for key in ("steps", "stopped")} == {
            key: alone[case][key] for key in ("steps", "stopped")
        }
        assert outcome["best"]["step"] == alone[case]["best"]["step"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ranked_run.CASES)
def test_all_ranks_end_with_the_same_bits(together, case):
    assert len({outcome["weights"] for outcome in together[case]}) == 1
    assert len({outcome["average"] for outcome in together[case]}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", ranked_run.CASES)
def test_every_example_is_trained_on_by_one_rank(alone, together, case):
    visits = [example for outcome in together[case] for example in outcome["seen"]]
    assert sorted(visits) == sorted(alone[case]["seen"])
    shares = [len(outcome["seen"]) for outcome in together[case]]
    assert max(shares) < 0.7 * len(visits)  # and not all of it by one


@pytest.mark.slow
def test_evaluation_counts_every_example_once(together):
    alone = ranked_run.evaluated(Path())
    assert [scores[2] for scores in alone.values()] == [41, 41, 1, 96]
    for theirs in together["evaluated"]:
        for name, (loss, *counts) in theirs.items():
            assert counts == list(alone[name][1:])
            assert abs(loss - alone[name].loss) < 1e-12


# ---- stopped, resumed, lost ------------------------------------------------------------------------------------------


LEGS = ((1, "ddp", 11), (2, "ddp", 8), (4, "fsdp", 10), (2, "fsdp", 12))


@pytest.fixture(scope="module")
def moved(tmp_path_factory, forked_python):
    """A folder with a run that went on 1 → 2 → 4 → 2 → 1 ranks.

    Each time SIGTERM reaches one rank only, and all end with that step saved, whole or in parts.
    """
    tmp_path = tmp_path_factory.mktemp("moved")
    done = 0
    for world, parallel, steps in LEGS:
        ended = launch(forked_python, world, tmp_path, f"stopped:{steps}:{parallel}")
        assert [code for code, _ in ended] == [143] * world, ended
        done += steps
        assert checkpoint.load_newest(tmp_path / "run" / "checkpoints")["progress"]["step"] == done
    assert launch(forked_python, 1, tmp_path, "resumed")[0][0] == 0
    return tmp_path


@pytest.mark.slow
def test_a_run_goes_on_on_another_number_of_ranks(alone, moved):
    (outcome,) = results(moved, "resumed")
    assert furthest(without_accuracy(outcome["history"]), without_accuracy(alone["ten"]["history"])) < 1e-12
    sessions = json.loads((moved / "run" / "run.json").read_text())["sessions"]
    assert [session["fingerprint"]["ranks"] for session in sessions] == [1, 2, 4, 2, 1]
    assert {path.suffix for path in (moved / "run" / "checkpoints").iterdir()} == {".pt", ".shards"}


@pytest.fixture
def in_parts(moved, tmp_path):
    """A copy of a checkpoint that two ranks wrote together, as the only one in its folder."""
    newest = max((moved / "run" / "checkpoints").glob("step-*.shards"))
    return Path(shutil.copytree(newest, tmp_path / newest.name))


@pytest.mark.slow
def test_every_file_of_a_checkpoint_in_parts_is_verified(in_parts):
    assert checkpoint.load(in_parts)["progress"]["step"] == 41
    assert {".metadata", "__0_0.distcp", "__1_0.distcp", "manifest.json", "rest.pt"} == {
        p.name for p in in_parts.iterdir()
    }
    for file in list(in_parts.iterdir()):
        content = file.read_bytes()
        for damaged in (content[: len(content) // 2], bytes([content[0] ^ 1]) + content[1:]):
            file.write_bytes(damaged)
            with pytest.raises(ValueError, match=f"{in_parts.name} is damaged"):
                checkpoint.load(in_parts)
        file.unlink()
        said = []
        assert checkpoint.load_newest(in_parts.parent, say=said.append) is None and "is damaged" in said[0]
        file.write_bytes(content)
    (in_parts / "one more").touch()
    with pytest.raises(ValueError, match="one more missing or not in its manifest"):
        checkpoint.load(in_parts)


class Trap:
    """Unpickled, it leaves a mark in the file system."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.slow
@pytest.mark.parametrize("name", [".metadata", "rest.pt"])
def test_a_checkpoint_in_parts_runs_no_code(in_parts, tmp_path, name):
    """A forger can compute the digests as well: what is read must not run anything."""
    mark = tmp_path / "it ran"
    if name == ".metadata":
        (in_parts / name).write_bytes(pickle.dumps(Trap(mark)))
    else:
        torch.save({"model": Trap(mark)}, in_parts / name)
    (in_parts / "manifest.json").unlink()
    digest = sharded_checkpoint.seal(in_parts)
    forged = in_parts.rename(tmp_path / f"step-000000041-{digest[:16]}.shards")
    with pytest.raises(ValueError, match="is not a checkpoint of plain data"):
        checkpoint.load(forged)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Trap(mark)))
    assert mark.exists()  # the trap works


def require_same_bits(outcomes: list[dict], references: list[dict]) -> None:
    """But for the examples seen: some of them twice."""
    for ours, theirs in zip(outcomes, references, strict=True):
        one, other = (
            {key: value for key, value in outcome.items() if key != "seen"}
            | {"history": without_accuracy(outcome["history"])}
            for outcome in (ours, theirs)
        )
        assert one == other


def without_accuracy(history: list[dict]) -> list[dict]:
    """A run has none before it is stopped: what stops it is a loss of its own."""
    return [{key: value for key, value in record.items() if key != "val_accuracy"} for record in history]


@pytest.mark.slow
@pytest.mark.parametrize("case", NOISY)
def test_the_same_ranks_resume_with_the_same_bits(together, case):
    """Dropout included: each rank finds its own random streams again."""
    require_same_bits(together[f"interrupted:{case}"], together[case])
    assert len(together[f"interrupted:{case}"][0]["seen"]) < len(together[case][0]["seen"])  # it did stop


@pytest.mark.slow
@pytest.mark.parametrize("case", NOISY)
def test_a_signal_to_one_rank_cuts_a_validation_short_on_all_of_them(together, case):
    """After the batch at hand; and the same ranks make it anew, and end with the same bits."""
    cut_short = [outcome.pop("cut short") for outcome in together[f"cut_short:{case}"]]
    assert cut_short == [[{"step": 20, "validation_due": True}, 2]] * len(cut_short)
    require_same_bits(together[f"cut_short:{case}"], together[case])


@pytest.mark.slow
def test_a_killed_rank_is_started_again_by_torchrun_and_the_run_ends_with_the_same_bits(tmp_path, two):
    """A run with copies of the model, which is killed and ends; then one with parts of it, likewise."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    line = [*torchrun, SCRIPT, tmp_path, "killed:noisy:0", "killed:noisy parts:1"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert "Signal 9" in done.stderr or "SIGKILL" in done.stderr or "exitcode: -9" in done.stderr, done.stderr
    for case, restarts, sessions in (("noisy", 0, [0, 10, 50]), ("noisy parts", 1, [0, 10])):
        require_same_bits(results(tmp_path, f"killed {case} {restarts}"), two[case])
        begun = json.loads((tmp_path / case / "run.json").read_text())["sessions"]
        assert [session["from_step"] for session in begun] == sessions
    assert {path.suffix for path in (tmp_path / "noisy parts" / "checkpoints").iterdir()} == {".shards"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happens", "victim", "told"),
    [
        ("lost:1", 1, "RuntimeError: rank 1 is gone (killed?)"),
        pytest.param(
            *("lost:0", 0, "RuntimeError: rank 0, where the ranks meet, is gone (killed?)"), marks=pytest.mark.nightly
        ),
        pytest.param(
            *("failed:1", 1, "RuntimeError: rank 1 stopped with ValueError: step 17, examples ["),
            marks=pytest.mark.nightly,
        ),
        ("failed:0", 0, "RuntimeError: rank 0 stopped with ValueError: step 17, examples ["),
    ],
)
def test_when_a_rank_ends_the_others_name_it_and_end(tmp_path, forked_python, happens, victim, told):
    ended = launch(forked_python, 3, tmp_path, happens)
    assert ended[victim][0] == (1 if happens.startswith("failed") else -signal.SIGKILL)
    (happened,) = results(tmp_path, "happened")
    for rank in {0, 1, 2} - {victim}:
        code, output = ended[rank]
        assert code == 1 and told in output.splitlines()[-1], output
        assert f"This is rank {rank}" in output and "start all ranks again" in output
        assert json.loads((tmp_path / f"over-{rank}.json").read_text()) - happened < rendezvous.LOST_SECONDS + 60


@pytest.fixture(scope="module")
def decided(tmp_path_factory, forked_python):
    folder = tmp_path_factory.mktemp("alike")
    ended = launch(forked_python, 2, folder, "alike")
    assert [code for code, _ in ended] == [0, 0], ended
    return results(folder, "alike")


@pytest.mark.slow
def test_mfu_is_of_the_peak_of_all_ranks(decided):
    forward, inputs = 2 * (5 * 16 + 16 * 3), 2 * 16 * 3  # FLOPs of a target; the data need no gradient
    assert [outcome["flops"] for outcome in decided] == pytest.approx([(2 * forward + inputs) / 2] * 2)


@pytest.mark.slow
def test_in_parts_too_validation_changes_nothing_and_nested_lists_and_ties_train(decided):
    for outcome in decided:
        assert outcome["watched"][0] == outcome["watched"][1] == decided[0]["watched"][0]
        copies, parts = outcome["nested"]
        assert furthest(parts, copies) < 1e-12 and len(parts) > 9


def one_rank_with_nan(**changes):
    return ranked_run.outcome(*ranked_run.run("ten", loss=ranked_run.At(5, 0, lambda loss: loss * math.nan), **changes))


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_on_one_rank_stops_or_skips_on_all(decided):
    for outcome in decided:
        assert outcome["raised"].startswith("FloatingPointError: the gradient of step 5 is not finite")
        assert (
            outcome["raised"] == decided[0]["raised"] and "10 in all" in outcome["raised"]
        )  # the whole batch's examples
        assert outcome["skipped"]["history"][-2]["skipped"] == 1
        skipping = one_rank_with_nan(nonfinite="skip")["history"]
        assert furthest(outcome["skipped"]["history"], skipping) < 1e-12
        assert outcome["skipped in parts"]["history"][-2]["skipped"] == 1
        assert furthest(outcome["skipped in parts"]["history"], skipping) < 1e-12
        assert outcome["scaled"]["history"][-2]["skipped"] >= 1
        assert outcome["scaled in parts"]["history"][-2]["skipped"] == outcome["scaled"]["history"][-2]["skipped"]
    for what in ("skipped", "scaled", "skipped in parts", "scaled in parts"):
        assert decided[0][what]["weights"] == decided[1][what]["weights"]
        assert decided[0][what]["average"] == decided[1][what]["average"]
        assert decided[0][what]["history"] == decided[1][what]["history"]


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["spoilt", "spoilt in parts"])
def test_the_rank_that_holds_what_is_not_finite_is_named_by_all(decided, parallel):
    """Its first part of the batch is bad and the others' is not: all repeat all parts, or they would wait for each other."""
    for outcome in decided:
        assert "the gradient of step 7 is not finite" in outcome[parallel]
        assert "10 in all]): the input on rank 1 is not finite. The weights are" in outcome[parallel], outcome[parallel]


# ---- bad input: an error on every rank, never a hang ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "other models",
            "the model differs between ranks: 1.weight is (16, 5) torch.float64 trains=True on rank 0",
        ),
        ("other configs", "ValueError: the run differs between ranks: lr is 0.1 on rank 0 and 0.2 on rank 1"),
    ],
)
def test_what_cannot_work_on_ranks_is_refused_on_each(decided, what, message):
    assert all(message in outcome[what] for outcome in decided), [outcome[what] for outcome in decided]


@pytest.mark.slow
@pytest.mark.parametrize("case", ranked_run.TOO_SMALL)
def test_a_batch_with_too_few_examples_for_all_ranks_is_padded(decided, case):
    """What a rank without an example computes counts nowhere: weights and history are those of one process."""
    alone = ranked_run.outcome(*ranked_run.run("even", **ranked_run.TOO_SMALL[case]))
    assert len({outcome[case]["weights"] for outcome in decided}) == 1
    for outcome in decided:
        assert furthest(outcome[case]["history"], alone["history"]) < 1e-12


@pytest.mark.slow
def test_after_a_refusal_the_ranks_can_train(decided, alone):
    assert [outcome["still works"]["steps"] for outcome in decided] == [3, 3]


@pytest.mark.slow
def test_ranks_that_cannot_meet_say_why(tmp_path, forked_python):
    """All of them at once, each within a few seconds: they wait for each other at the same time.

    Each clocks itself, from when the processes that it could meet are all ready.
    """
    patience = 12
    wrongly = {
        "port in use": {},
        "other worlds": {"WORLD_SIZE": {1: 3}},
        "one too few": {"WORLD_SIZE": {0: 3, 1: 3}},
    }
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        started_wrongly = {}
        for name, changes in wrongly.items():
            (tmp_path / name).mkdir()
            port = taken.getsockname()[1] if name == "port in use" else None
            changes = changes | {"JOIN_SECONDS": dict.fromkeys(range(2), patience)}
            started_wrongly[name] = start(forked_python, 2, tmp_path / name, "cannot_meet:2", port=port, **changes)
        ended = {name: finish(processes) for name, processes in started_wrongly.items()}
    assert all(code == 1 for processes in ended.values() for code, _ in processes), ended
    for name in wrongly:
        assert max(results(tmp_path / name, "gave up")) < patience + 60, ended[name]
    last = {name: [output.splitlines()[-1] for _, output in processes] for name, processes in ended.items()}
    assert "is the port in use by another program? Choose a free MASTER_PORT" in last["port in use"][0]
    assert "rank 1 cannot meet the others" in last["port in use"][1]
    assert any("WORLD_SIZE is 2 on rank 0 and 3 on rank 1" in line for line in last["other worlds"])
    assert all("WORLD_SIZE is" in line or "cannot meet" in line for line in last["other worlds"])
    message = f"rank 2 of 3 did not come within {patience} s"
    assert all(message in line or "cannot meet" in line for line in last["one too few"])
    assert any(message in line for line in last["one too few"])


def test_a_rank_that_waits_where_rank_0_has_given_up_says_so():
    held = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)]
    threading.Timer(0.5, held.clear).start()
    with pytest.raises(
        RuntimeError, match=r"rank 1 cannot meet the others .* rank 0, .* has given up; look at its output"
    ):
        rendezvous._meet(1, 2, "127.0.0.1", held[0].port)


def test_memory_that_runs_out_on_one_of_several_ranks():
    """It cannot repeat the step: the others are already in the sum of its gradients."""
    state = State(ranked_run.perceptron(), Config(device="cpu"), torch.device("cpu"))
    state.ranks, state.n_micro_batches = Ranks(1, 2), 4
    with pytest.raises(RuntimeError, match=r"out of memory at step 1 on rank 1, .* start again with accumulation=8"):
        halve_micro_batches(state, RuntimeError("can't allocate memory"), torch.zeros(8, 2), torch.zeros(8))


# ---- what torchrun tells a process ----------------------------------------------------------------------------------

TOLD = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "here", "MASTER_PORT": "29500"}


def test_a_process_that_was_told_nothing_is_alone():
    assert current_ranks({}) is SINGLE_PROCESS and current_ranks({"WORLD_SIZE": "1", "RANK": "0"}) is SINGLE_PROCESS
    assert current_ranks({"LOCAL_RANK": "3", "MASTER_PORT": "29500"}) is SINGLE_PROCESS
    place = current_ranks(TOLD)
    assert (place.rank, place.world, place.local, place.first) == (1, 4, 1, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"RANK": ""},
            "WORLD_SIZE is 4, LOCAL_RANK is 1, MASTER_ADDR is here, MASTER_PORT is 29500, but RANK is not set",
        ),
        ({"WORLD_SIZE": ""}, "but WORLD_SIZE is not set"),
        (
            {"MASTER_ADDR": "", "MASTER_PORT": ""},
            "but MASTER_ADDR, MASTER_PORT are not set: start n processes by torchrun",
        ),
        ({"RANK": "first"}, "RANK is 'first': it must be a whole number"),
        ({"WORLD_SIZE": "-4"}, "WORLD_SIZE is '-4': it must be a whole number"),
        ({"RANK": "4"}, "RANK is 4, WORLD_SIZE is 4, LOCAL_RANK is 1"),
        ({"LOCAL_RANK": "2"}, "ranks count from 0 to WORLD_SIZE - 1"),
        ({"LOCAL_WORLD_SIZE": "1"}, "LOCAL_WORLD_SIZE is 1: ranks count"),
        ({"LOCAL_WORLD_SIZE": "8"}, "LOCAL_WORLD_SIZE is 8: ranks count"),
        ({"MASTER_PORT": "70000"}, "a port is below 65536"),
        ({"RANK": "1", "WORLD_SIZE": "1"}, "RANK is 1, WORLD_SIZE is 1"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(ValueError) as error:
        current_ranks(TOLD | changes)
    assert message in str(error.value)


def test_one_process_sums_and_gathers_nothing():
    tensor = torch.ones(2)
    assert SINGLE_PROCESS.sum(tensor) is tensor and SINGLE_PROCESS.any(True) is True
    assert SINGLE_PROCESS.gather("x") == ["x"] and SINGLE_PROCESS.of_first("x") == "x"


# ---- the end of the program -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("looks", "needed"),
    [
        ([["a sleeps, 7"], ["a sleeps, 7"]], 2),
        ([["a (running)"], ["a (running)"], ["a sleeps, 7"], ["a sleeps, 7"]], 4),  # it waits for a CPU
        ([["a sleeps, 7"], ["a sleeps, 8"], ["a sleeps, 8"]], 3),  # it waited for the GIL, and got it
        ([[], []], 2),
    ],
    ids=["idle", "waits for a CPU", "waits for the GIL", "a system without /proc"],
)
def test_the_program_ends_when_gloo_s_threads_have_nothing_to_do(monkeypatch, looks, needed):
    left = iter([*looks, ["a (running)"]])
    monkeypatch.setattr(rendezvous, "_gloo_threads", lambda: next(left))
    rendezvous._drain()
    assert len(list(left)) == len(looks) + 1 - needed


def test_the_program_ends_though_a_thread_of_gloo_never_rests(monkeypatch):
    monkeypatch.setattr(rendezvous, "DRAIN_SECONDS", 0.2)
    monkeypatch.setattr(rendezvous, "_gloo_threads", lambda: ["a (running)"])
    rendezvous._drain()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_gloo_s_threads_are_found():
    assert rendezvous._gloo_threads() == []
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        while len(found := rendezvous._gloo_threads()) < 2:  # each gives itself its name when it first runs
            time.sleep(0.01)
        assert all("State:" in thread and "_ctxt_switches:" in thread for thread in found)
    finally:
        dist.destroy_process_group()
