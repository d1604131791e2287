"""Making a receipt: what runs, what is kept, what is refused; and that a machine without a GPU notices nothing of it."""

import json
from pathlib import Path

import pytest
import torch
from test_course import claim, code, ledger_of, markdown, trial, write
from test_receipts import RUN, kept

from utils.course.__main__ import main
from utils.course.notebooks.ledger import FAILED, VERIFIED
from utils.course.notebooks.notebook import read
from utils.course.receipts import receipt_run, receipts
from utils.course.receipts.provenance import hashes_of
from utils.course.run import ROOT, run

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
COUNTED = "open('ran', 'a').write('x')"  # a set-up that can be counted


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A machine that takes itself for one with an NVIDIA X1, with receipts and solutions of its own."""
    monkeypatch.setattr(receipt_run, "machine", lambda full: RUN | {"form": "full" if full else "short"})
    monkeypatch.setattr(receipt_run, "STORE", tmp_path / "receipts")
    monkeypatch.setattr(receipt_run, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(receipt_run, "LECTURES", tmp_path)
    monkeypatch.setattr(receipt_run, "ROOT", tmp_path)
    (tmp_path / "receipts").mkdir()
    (tmp_path / "solutions").mkdir()
    return tmp_path


def made(folder: Path, *paths: Path, **options) -> int:
    settings = {"full": False, "jobs": 2, "build": folder / "build"}
    return receipt_run.certify(list(paths), **settings | options)


def content(path: Path) -> dict:
    return json.loads(path.read_text())


def small_lab(folder: Path, answer: str) -> Path:
    """A solution of one task with two checks, of three points and of one; the second wants 4."""
    cells = [markdown("title", "# A lab"), markdown("task-double", "Twice."), markdown("hints-double", "Add.")]
    cells += [code("code-double", f"double = {answer}")]
    cells += [code("check-double", "assert double"), code("hidden-double", "assert double == 4", "hidden")]
    cells[4]["metadata"], cells[5]["metadata"] = {"points": 3}, {"points": 1, "tags": ["hidden"]}
    return write(folder / "solutions" / "01_lab.ipynb", cells)


# On a machine with a GPU: a test double


@pytest.mark.slow
def test_a_receipt_holds_every_verdict_and_goes_on_where_it_stopped(gpu, capsys):
    lecture = trial(
        gpu, claim(1, "assert 1"), claim(2, "assert 'seen' == 'it'"), claim(3, "assert 2", "gpu"), setup=COUNTED
    )
    lab = small_lab(gpu, "4")
    assert made(gpu, lecture, lab) == 1
    path = gpu / "receipts" / "nvidia-x1.json"
    first = content(path)
    claims = first["lectures"]["01_trial"]["claims"]
    assert [(row["id"], row["status"]) for row in claims] == [("1.1", VERIFIED), ("1.2", FAILED), ("1.3", VERIFIED)]
    assert [row["computes"] for row in claims] == [each["computes"] for each in hashes_of(read(lecture)).values()]
    assert "'seen' == 'it'" in claims[1]["reason"] or "AssertionError" in claims[1]["reason"]
    assert all(row["seconds"] >= 0 for row in claims) and first["runs"] == [RUN | {"form": "short"}]
    solution = first["solutions"]["01_lab"]
    assert (solution["ran"], solution["points"], solution["of"]) == (True, 4, 4)
    printed, said = capsys.readouterr()
    assert "01_trial" in printed and "FAILED  Claim 1.2" in printed and "failed: 01_trial" in printed
    assert "make tidy" in said

    assert made(gpu, lecture, lab) == 1 and content(path) == first, "what failed stays failed"
    assert (gpu / "ran").read_text() == "x"
    assert made(gpu, lecture, again=True) == 1 and (gpu / "ran").read_text() == "xx"
    mended = trial(gpu, claim(1, "assert 1"), claim(2, "assert full"), claim(3, "assert 2", "gpu"), setup=COUNTED)
    assert made(gpu, mended, lab, full=True) == 0 and (gpu / "ran").read_text() == "xxx"
    second = content(path)
    assert second["solutions"]["01_lab"]["seconds"] == solution["seconds"], "no reason to run it again"
    assert [run["form"] for run in second["runs"]] == ["full", "short"]
    assert not (gpu / "build" / "ledger.json").exists()


@pytest.mark.slow
def test_a_solution_earns_the_points_of_the_checks_that_pass(gpu):
    assert made(gpu, small_lab(gpu, "3")) == 1
    solution = content(gpu / "receipts" / "nvidia-x1.json")["solutions"]["01_lab"]
    assert (solution["ran"], solution["points"], solution["of"]) == (False, 3, 4)
    assert [broken["cell"] for broken in solution["broken"]] == ["hidden-double"]


@pytest.mark.slow
def test_when_time_is_up_nothing_runs_on_and_nothing_is_lost(gpu, capsys):
    wait = "assert open('began', 'w').close() is None\nimport time\ntime.sleep(600)"
    quick = trial(gpu, claim(1, "assert 1"))
    asleep = trial(gpu, claim(1, wait, "gpu", lecture=2), name="02_asleep")
    never = trial(gpu, claim(1, "assert open('began')", "gpu", lecture=3), name="03_never")
    assert made(gpu, quick, jobs=1) == 0
    assert made(gpu, quick, asleep, never, limit=5) == 1, "lectures for a GPU run one at a time"
    assert list(content(gpu / "receipts" / "nvidia-x1.json")["lectures"]) == ["01_trial"]
    words = "left to run, 2 of 3, the same call continues there: 02_asleep, 03_never"
    assert words in capsys.readouterr().out


def test_what_compares_times_runs_alone(tmp_path):
    alone = trial(tmp_path, claim(1, "assert 1"), claim(2, "assert 1", "gpu"))
    assert receipt_run.compares_times(read(alone))
    assert not receipt_run.compares_times(read(trial(tmp_path, claim(1, "assert 1", "full"))))


def test_what_runs_at_a_time(gpu, monkeypatch):
    """Those that may share the machine, then one by one those that compare times; all at once if they are said not to."""
    batches = []
    monkeypatch.setattr(
        receipt_run, "_all_of", lambda work, books, jobs: batches.append(([b.name for b in books], jobs))
    )
    timed = [trial(gpu, claim(1, "assert 1", "gpu", lecture=n), name=f"0{n}_timed") for n in (1, 2)]
    plain = trial(gpu, claim(1, "assert 1", lecture=3), name="03_plain")
    assert made(gpu, *timed, plain, jobs=5) == made(gpu, *timed, plain, jobs=5, together=True) == 1, "none has run"
    assert batches[:2] == [(["03_plain"], 5), (["01_timed", "02_timed"], 1)]
    assert batches[2:] == [(["01_timed", "02_timed", "03_plain"], 5), ([], 1)]


@pytest.mark.slow
def test_what_turns_red_beside_others_runs_again_alone(gpu, capsys):
    once = f"from pathlib import Path\nseen = Path({str(gpu / 'seen')!r})\nfirst = not seen.exists()\nseen.touch()"
    timed = trial(gpu, claim(1, f"{once}\nassert not first", "gpu"))
    assert made(gpu, timed, together=True) == 0
    [row] = content(gpu / "receipts" / "nvidia-x1.json")["lectures"]["01_trial"]["claims"]
    assert row["status"] == VERIFIED and "FAILED" not in capsys.readouterr().out


def test_receipts_from_elsewhere_are_added_with_the_commit_of_their_code(gpu, monkeypatch, capsys):
    monkeypatch.setattr(receipt_run, "find_commit", lambda code, root: {"commit": f"of {code}", "dirty": False})
    lecture = read(trial(gpu, claim(1, "assert 1")))
    there = kept(gpu / "there", lecture, {"1.1": VERIFIED}, commit=None, dirty=None, code="these files")
    assert receipt_run.add([there]) == 0
    (added,) = receipts.receipts(gpu / "receipts")
    assert added.path.name == "nvidia-x1.json"
    assert [(run["commit"], run["dirty"]) for run in added.runs] == [("of these files", False)]
    printed = capsys.readouterr()
    assert "01_trial" in printed.out and "make tidy" in printed.err


# On a machine without one


@needs_no_gpu
def test_without_a_gpu_it_is_refused_and_nothing_is_written(tmp_path, capsys):
    path, before = trial(tmp_path, claim(1, "assert 1"), setup=COUNTED), sorted(receipts.STORE.glob("*"))
    assert main(["receipt", str(path)]) == 2
    words = capsys.readouterr().err
    assert "no CUDA GPU here" in words and "--allow-cpu OUT" in words
    assert not (tmp_path / "ran").exists() and sorted(receipts.STORE.glob("*")) == before


@pytest.mark.parametrize(
    "out", ["tests/receipts/mine.json", "tests/../tests/receipts/deep/mine.json", "tests/receipts"]
)
def test_a_trial_never_gets_among_the_receipts(out, capsys):
    before = sorted(receipts.STORE.glob("*"))
    assert main(["receipt", "--allow-cpu", str(ROOT / out), "01"]) == 2
    assert "name a file outside" in capsys.readouterr().err and sorted(receipts.STORE.glob("*")) == before


def test_a_trial_is_not_added_to_the_receipts(gpu):
    there = kept(gpu / "there", read(trial(gpu, claim(1, "assert 1"))), {"1.1": VERIFIED}, device="cpu")
    with pytest.raises(ValueError, match="written without a GPU"):
        receipt_run.add([there])
    assert not list((gpu / "receipts").glob("*.json"))


@needs_no_gpu
@pytest.mark.slow
def test_a_trial_runs_without_a_gpu_and_says_what_it_could_not_verify(tmp_path, capsys):
    path = trial(tmp_path, claim(1, "assert 1"), claim(2, "assert 1", "gpu"))
    assert main(["receipt", "--allow-cpu", str(tmp_path / "out.json"), str(path)]) == 0
    out = content(tmp_path / "out.json")
    assert [row["status"] for row in out["lectures"]["01_trial"]["claims"]] == [VERIFIED, "not verified"]
    run = out["runs"][0]
    assert run["device"] == "cpu" and run["gpu"] is None and run["torch"] == torch.__version__
    assert "needs a CUDA GPU" in capsys.readouterr().out


@pytest.mark.slow
def test_the_notebooks_import_this_utils_where_it_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    proof = f"assert os.environ['PYTHONPATH'] == {str(ROOT)!r} + os.pathsep + 'elsewhere'"
    assert run([trial(tmp_path, claim(1, proof))], tmp_path / "build", store=tmp_path) == 0


@pytest.mark.slow
def test_the_ledger_shows_what_receipts_say_and_nothing_without_any(tmp_path, capsys, monkeypatch):
    first, second = claim(1, "assert 1"), claim(2, "print('○ no')")
    path = trial(tmp_path, first, second, claim(3, "assert 1"))
    with monkeypatch.context() as patched:
        patched.setattr(receipts, "hashes_of", lambda lecture: 1 / 0)  # nothing is computed that nobody asked for
        assert run([path], tmp_path / "build", store=tmp_path / "receipts") == 0
    assert "verified on" not in capsys.readouterr().out
    assert [row["elsewhere"] for row in ledger_of(tmp_path).values()] == [[], [], []]
    kept(tmp_path / "receipts", read(path), {"1.1": VERIFIED, "1.2": VERIFIED, "1.3": VERIFIED})
    trial(tmp_path, first, second, claim(3, "assert 2"))
    assert run([path], tmp_path / "build", store=tmp_path / "receipts") == 0
    assert "verified on NVIDIA X1:   2 of them, 1 of which not verified here, 1 stale" in capsys.readouterr().out
    stale = {"gpu": "NVIDIA X1", "status": "stale", "date": RUN["date"]}
    assert ledger_of(tmp_path)["1.3"]["elsewhere"] == [stale]


def test_a_receipt_that_cannot_be_read_stops_a_run_before_it_begins(tmp_path):
    (tmp_path / "x1.json").write_text("{")
    with pytest.raises(ValueError, match=r"x1\.json: not a receipt"):
        run([trial(tmp_path, claim(1, "assert 1"))], tmp_path / "build", store=tmp_path)
    assert not (tmp_path / "build").exists()
