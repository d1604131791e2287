"""The machinery that runs the course, seen green and red on small lectures written for the purpose."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from utils.course.__main__ import main
from utils.course.commands import find
from utils.course.lint import lectures
from utils.course.notebooks.colab_links import address_of, cell_source, title_source
from utils.course.notebooks.ledger import judge
from utils.course.notebooks.navigation import navigation
from utils.course.notebooks.notebook import callout, plain_claim, read, readable, source_hash
from utils.course.notebooks.tidy import FOLDED, METADATA, as_bytes, changes_of, tidied, tidy
from utils.course.run import execute_and_judge, header_of, kernels, run, run_beside
from utils.distributed.forked_python import possible

SETUP = "import os, signal, sys, time"
CHECKS = """
from utils.checks import explain_asserts, not_verified, raises
explain_asserts()
"""


def markdown(name: str, source: str) -> dict:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source.splitlines(keepends=True)}


def code(name: str, source: str, *tags: str) -> dict:
    cell = {"cell_type": "code", "execution_count": None, "id": name, "outputs": []}
    return cell | {"metadata": {"tags": list(tags)} if tags else {}, "source": source.splitlines(keepends=True)}


def claim(number: int, proof: str, *tags: str, lecture: int = 1) -> list[dict]:
    name = f"{lecture}-{number}"
    return [
        markdown(
            f"claim-{name}",
            f"> ◆ **Claim {lecture}.{number}.** The sentence of claim {number} has a\n> number in it.\n\nMore.",
        ),
        code(f"proof-{name}", proof, *tags),
    ]


def write(path: Path, cells: list[dict]) -> Path:
    book = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    path.write_bytes(as_bytes(book))
    return path


def trial(folder: Path, *claims: list[dict], setup: str = SETUP, name: str = "01_trial") -> Path:
    head = [markdown("title", "# A trial"), code("parameters", "full = False", "parameters"), code("setup", setup)]
    return write(folder / f"{name}.ipynb", head + [cell for pair in claims for cell in pair])


@pytest.fixture(params=["alone", "forked"])
def started(request, monkeypatch):
    """How a kernel starts: in a new Python, or, as with several notebooks, forked from one that has imported torch."""
    if request.param == "forked":
        if not possible("cpu"):
            pytest.skip("kernels are forked on Linux only")
        monkeypatch.setattr("utils.course.run.FEW", 1)
    return request.param


def ledger_of(folder: Path) -> dict[str, dict]:
    claims = json.loads((folder / "build/ledger.json").read_text())["claims"]
    return {row["id"]: row for row in claims}


def statuses(folder: Path) -> dict[str, str]:
    return {number: row["status"] for number, row in ledger_of(folder).items()}


# Running


@pytest.mark.slow
def test_all_cells_run_and_every_failure_is_named(tmp_path, capsys):
    proofs = [
        "assert len([1, 2, 3]) == 4",
        "x = 5\nassert x == 5",
        "assert 'spiral' in 'shakespeare'",
        "print('forged')\nsys.exit(0)",
        "print('○ needs a CUDA GPU')",
        "not_verified('stand-in data')",
        "assert {} == {'left': 1}, 'the words of the author'",
        "with raises(ValueError, 'no such thing'):\n    raise ValueError('something else')",
        f"assert os.getcwd() == {str(tmp_path)!r} and os.environ['OMP_NUM_THREADS'] == '1' and not full",
    ]
    path = trial(tmp_path, *(claim(n, proof) for n, proof in enumerate(proofs, 1)), setup=SETUP + CHECKS)
    before = path.read_bytes()
    assert run([path], tmp_path / "build") == 1
    assert path.read_bytes() == before, "the lecture itself is never written to"
    failed, unverified = "failed", "not verified"
    assert list(statuses(tmp_path).values()) == [
        *(failed, "verified", failed, failed, unverified),
        *(unverified, failed, failed, "verified"),
    ]
    printed = capsys.readouterr().out
    words = ["Claim 1.1. The sentence of claim 1 has a number in it.", "claimed:  len([1, 2, 3]) == 4", "measured: 3"]
    words += ["Claim 1.3.", "'spiral' in 'shakespeare'", "SystemExit: 0", "the words of the author", "something else"]
    for word in words:
        assert word in printed
    assert "Claim 1.2." not in printed
    assert "not verified here:   1  stand-in data" in printed
    row = next(line for line in printed.splitlines() if line.startswith("01 A trial"))
    assert row.split()[3:9] == ["9", "2", "0", "0", "2", "5"]


@pytest.mark.slow
def test_the_ledger_says_where_it_comes_from(tmp_path):
    path = trial(tmp_path, claim(1, "assert full"), claim(2, "assert full", "full"), claim(3, "assert full", "gpu"))
    assert run([path], tmp_path / "build", full=True) == 0
    written = json.loads((tmp_path / "build/ledger.json").read_text())
    assert written["run"]["form"] == "full"
    assert written["run"]["torch"] == written["claims"][0]["torch"]
    assert {"date", "commit", "python", "device", "gpu"} <= written["run"].keys()
    first = written["claims"][0]
    assert first["text"] == "The sentence of claim 1 has a number in it."
    assert first["proof"] == source_hash("assert full")
    assert (first["id"], first["lecture"], first["kind"]) == ("1.1", "01_trial", "Claim")
    on_gpu = written["run"]["device"] == "cuda"
    assert [row["status"] for row in written["claims"]] == [
        "verified",
        "verified",
        "verified" if on_gpu else "not verified",
    ]
    executed = read(tmp_path / "build/notebooks/01_trial.ipynb")
    assert all(cell.raw["execution_count"] for cell in executed.code)
    assert not list((tmp_path / "build").glob("*.tmp"))


@pytest.mark.slow
def test_what_stands_beside_the_lectures_runs_too_and_has_no_row_in_the_ledger(tmp_path, capsys):
    path = trial(tmp_path, claim(1, "assert not full"))
    other = write(tmp_path / "start.ipynb", [markdown("title", "# Start"), code("one", "print(6 * 7)")])
    assert run([path], tmp_path / "build", beside=[other]) == 0
    assert read(tmp_path / "build/beside/start.ipynb").code[0].raw["outputs"][0]["text"] == ["42\n"]
    assert [row["lecture"] for row in json.loads((tmp_path / "build/ledger.json").read_text())["lectures"]] == [
        "01_trial"
    ]
    assert "Start: executed, " in capsys.readouterr().err
    write(other, [code("two", "print(six)")])
    for again in (
        lambda: run([path], tmp_path / "build", beside=[other]),
        lambda: run_beside([other], tmp_path / "build"),
    ):
        assert again() == 1
        printed = capsys.readouterr()
        assert "FAILED  start, cell two." in printed.out and "name 'six' is not defined" in printed.out


@pytest.mark.slow
def test_a_tag_outweighs_what_the_proof_printed(tmp_path):
    path = trial(
        tmp_path, claim(1, "print('verified')", "full"), claim(2, "assert full", "full"), claim(3, "assert not full")
    )
    assert run([path], tmp_path / "build") == 1, "a tagged proof that raises is red on any machine"
    assert list(statuses(tmp_path).values()) == ["not verified", "failed", "verified"]
    assert ledger_of(tmp_path)["1.1"]["reason"] == "short form"


@pytest.mark.slow
def test_the_ledger_shows_the_strength_that_was_measured(tmp_path, capsys, monkeypatch):
    shown = {"01_trial": "83 %", "02_weak": "40 % stale"}
    monkeypatch.setattr("utils.course.run.stored", lambda lecture: shown[lecture.name])
    paths = [trial(tmp_path, claim(1, "assert not full")), trial(tmp_path, claim(1, "assert not full"), name="02_weak")]
    assert run(paths, tmp_path / "build") == 0
    printed = capsys.readouterr().out.splitlines()
    assert next(line for line in printed if line.startswith("lecture")).endswith("strength")
    assert next(line for line in printed if line.startswith("01 A trial")).endswith("  83 %")
    assert next(line for line in printed if line.startswith("02 A trial")).endswith("  40 % stale")
    written = json.loads((tmp_path / "build/ledger.json").read_text())
    assert [row["strength"] for row in written["lectures"]] == ["83 %", "40 % stale"]


def test_on_a_gpu_a_gpu_proof_counts_unless_it_says_otherwise(tmp_path):
    path = trial(tmp_path, claim(1, "assert 1", "gpu"), claim(2, "assert 1", "gpu"), claim(3, "assert 1", "gpu"))
    book = json.loads(path.read_text())
    for cell in book["cells"]:
        if cell["cell_type"] == "code" and cell["id"] != "proof-1-3":
            cell["execution_count"] = 1
    text = ["first\n", "○ 1.2  compute capability 7. On an H200 (2026-11-27): 3 < 4\n"]
    line = {"output_type": "stream", "name": "stdout", "text": text}
    book["cells"][-3]["outputs"] = [line]
    (tmp_path / "executed.ipynb").write_text(json.dumps(book))
    result = judge(read(path), read(tmp_path / "executed.ipynb"), cuda=True, full=False, seconds=1.0)
    assert [verdict.status for verdict in result.verdicts] == ["verified", "not verified", "failed"]
    assert [verdict.reason for verdict in result.verdicts] == ["", "compute capability 7", "not run"]
    assert result.red


def test_a_mute_assert_is_named_by_its_line(tmp_path):
    assert run([trial(tmp_path, claim(1, "x = []\nassert x\ny = 3"))], tmp_path / "build") == 1
    assert ledger_of(tmp_path)["1.1"]["reason"] == "AssertionError at: assert x"


@pytest.mark.slow
def test_a_dead_kernel_fails_the_rest_and_the_next_lecture_runs(tmp_path, started):
    dead = trial(tmp_path, claim(1, "assert not full"), claim(2, "os._exit(0)"), claim(3, "assert not full"))
    alive = trial(tmp_path, claim(1, "assert not full", lecture=2), name="02_alive")
    assert run([dead, alive], tmp_path / "build") == 1
    assert statuses(tmp_path) == {"1.1": "verified", "1.2": "failed", "1.3": "failed", "2.1": "verified"}
    assert "the kernel died in this cell" in ledger_of(tmp_path)["1.2"]["reason"]
    assert "'proof-1-2'" in ledger_of(tmp_path)["1.3"]["reason"]


@pytest.mark.slow
def test_a_cell_over_its_time_fails_even_if_it_swallows_the_interrupt(tmp_path, started):
    swallow = "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    pass\nassert not full"
    never = "while True:\n    try:\n        time.sleep(1)\n    except KeyboardInterrupt:\n        pass"
    proofs = [swallow, "assert not full", never, "assert not full"]
    path = trial(tmp_path, *(claim(n, proof) for n, proof in enumerate(proofs, 1)))
    assert run([path], tmp_path / "build", timeout=5) == 1
    assert list(statuses(tmp_path).values()) == ["failed", "verified", "failed", "failed"]
    assert "timed out" in ledger_of(tmp_path)["1.1"]["reason"]
    assert "its kernel was killed" in ledger_of(tmp_path)["1.4"]["reason"]


@pytest.mark.slow
def test_a_lecture_whose_runner_is_killed_is_red_and_says_so(tmp_path, started, capsys):
    kill = "os.kill(int(os.environ['JPY_PARENT_PID']), signal.SIGKILL)\ntime.sleep(5)"
    path = trial(tmp_path, claim(1, "assert not full"), claim(2, kill))
    stale = json.loads(path.read_text())
    stale["cells"] = [cell | {"execution_count": 1} if cell["cell_type"] == "code" else cell for cell in stale["cells"]]
    (tmp_path / "build/notebooks").mkdir(parents=True)
    (tmp_path / "build/notebooks/01_trial.ipynb").write_text(json.dumps(stale))  # an earlier run's, all green
    assert run([path], tmp_path / "build") == 1
    assert statuses(tmp_path) == {"1.1": "failed", "1.2": "failed"}
    assert "exit status -9" in capsys.readouterr().out


def test_a_broken_set_up_cell_makes_the_lecture_red(tmp_path, capsys):
    path = trial(tmp_path, claim(1, "assert True in [True]"), setup="import no_such_module")
    assert run([path], tmp_path / "build") == 1
    assert statuses(tmp_path) == {"1.1": "verified"}
    printed = capsys.readouterr().out
    assert "cell setup" in printed and "No module named 'no_such_module'" in printed and "1 broken cell" in printed


def test_wrong_calls_are_refused_before_anything_runs(tmp_path, capsys, monkeypatch):
    def call(*words) -> str:
        assert main(["run", *map(str, words), "--build", str(tmp_path / "build")]) == 2
        return capsys.readouterr().err

    (tmp_path / "other").mkdir()
    good, twin = trial(tmp_path), trial(tmp_path / "other")
    assert f"no such notebook: {tmp_path / '99.ipynb'}" in call(good, tmp_path / "99.ipynb")
    (tmp_path / "notes.txt").write_text("")
    assert "is not a notebook" in call(tmp_path / "notes.txt")
    assert "two notebooks are called 01_trial" in call(good, twin)
    (tmp_path / "02_torn.ipynb").write_text('{"cells": [')
    assert "02_torn.ipynb: not a notebook" in call(good, tmp_path / "02_torn.ipynb")
    (tmp_path / "empty").mkdir()
    assert "no notebooks in" in call(tmp_path / "empty")
    with pytest.raises(SystemExit) as stop:
        main(["run", "--jobs", "0"])
    assert stop.value.code == 2
    assert not (tmp_path / "build").exists()
    assert find([good, good, tmp_path / "other"]) == [good, twin]
    more = trial(tmp_path / "other", name="calculators")
    assert find([tmp_path / "other"]) == [twin, more], "all notebooks of a folder"
    assert find([tmp_path / "other"], lectures=True) == [twin], "or those with a lecture's number"
    assert find([more], lectures=True) == [more], "but whatever is named is taken"


@pytest.mark.slow
def test_a_forked_kernel_is_what_a_new_one_would_be(tmp_path):
    began = "import random; from pathlib import Path; Path(f'{name}.txt').write_text(str(random.random()))"
    proof = f"""name = Path(os.getcwd()).name + os.environ["MARK"]
{began}
assert [os.getpgid(0), os.isatty(0), signal.getsignal(signal.SIGCHLD)] == [os.getpid(), False, signal.SIG_DFL]
assert ("torch" in sys.modules) == (os.environ["MARK"] == "forked")
assert plt.get_backend() == "module://matplotlib_inline.backend_inline" and len(sys.path) == len(set(sys.path))"""
    set_up = SETUP + "\nimport matplotlib.pyplot as plt\nfrom pathlib import Path"
    path = trial(tmp_path, claim(1, proof), setup=set_up)
    header = header_of(False)
    with kernels([read(path)] * 3, "cpu", {"MARK": "forked"}) as forked:
        for number, variables in enumerate((forked, forked, {"MARK": "alone"})):
            result, _ = execute_and_judge(read(path), tmp_path / f"{number}.ipynb", header, 60, [], variables)
            assert [verdict.status for verdict in result.verdicts] == ["verified"], result
            Path(tmp_path, f"{tmp_path.name}{variables['MARK']}.txt").rename(tmp_path / f"drawn-{number}")
    assert len({file.read_text() for file in tmp_path.glob("drawn-*")}) == 3, "random numbers of their own"


@pytest.mark.slow
@pytest.mark.parametrize("notebooks", [1, 3])
def test_an_interrupted_run_ends_at_once_and_its_kernels_with_it(tmp_path, notebooks):
    long = claim(1, "open(f'began-{os.getpid()}', 'w').close()\ntime.sleep(600)")
    books = [trial(tmp_path, long, name=f"0{number}_long") for number in range(notebooks)]
    command = [sys.executable, "-m", "utils.course", "run", *map(str, books), "--build", str(tmp_path / "build")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(1200):
        if began := list(tmp_path.glob("began-*")):
            break
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
    process.send_signal(2)
    _, words = process.communicate(timeout=600)
    assert process.returncode == 130 and "interrupted" in words
    assert not (tmp_path / "build/ledger.json").exists()
    kernel = int(began[0].name.removeprefix("began-"))
    with pytest.raises(ProcessLookupError):
        for _ in range(600):
            os.kill(kernel, 0)  # does nothing to a process that is there
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["nbmake", "papermill"])
def test_a_plain_assert_shows_its_values_in_other_tools_too(tmp_path, tool):
    path = trial(tmp_path, claim(1, "rows = [1, 2, 3]\nassert len(rows) == 4"), setup=CHECKS)
    command = {
        "nbmake": ["pytest", "--nbmake", str(path), "-q", "-p", "no:cacheprovider"],
        "papermill": ["papermill", str(path), str(tmp_path / "out.ipynb")],
    }[tool]
    environment = os.environ | {"NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 1
    assert "claimed:  len(rows) == 4\nmeasured: 3\n" in done.stdout + done.stderr


# Reading


def test_reading_a_lecture(tmp_path):
    folklore = markdown("claim-1-2", "**Folklore 1.2.** All is four.\nIn truth it is three.\n\nAnd so on.")
    path = trial(tmp_path, claim(1, "assert full\n\n", "gpu"), [folklore, markdown("why", "Because.")])
    lecture = read(path)
    assert (lecture.number, lecture.title, lecture.name) == (1, "A trial", "01_trial")
    assert lecture.parameters.source == "full = False"
    first, second = lecture.claims
    assert (first.number, first.kind, first.proof.tags) == ("1.1", "Claim", ("gpu",))
    assert (second.number, second.kind, second.proof) == ("1.2", "Folklore", None)
    assert second.text == "All is four. In truth it is three."


def test_the_hash_of_a_proof_is_the_hash_of_what_it_says():
    one = source_hash("x = 1\nassert x == 1")
    assert one == source_hash("\nx = 1   \r\nassert x == 1\n\n")
    assert one != source_hash("x = 1\nassert x == 2")
    assert source_hash("if x:\n    y()\n    z()") != source_hash("if x:\n    y()\nz()")


# Tidying


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("**Claim 1.1.** One\nand two.\n\nMore.", "> ◆ **Claim 1.1.** One\n> and two.\n\nMore."),
        ('**Folklore 1.1.** "One."\n\nMore.\n\nAnd more.', '> ✗ ***Folklore 1.1.*** "One."\n\nMore.\n\nAnd more.'),
        ("> ✗ **Claim 1.1.** It was folklore.", "> ◆ **Claim 1.1.** It was folklore."),
        ("> ◆ **Misconception 1.1.** One\nand two.", "> ✗ ***Misconception 1.1.*** One\n> and two."),
    ],
)
def test_a_claim_is_set_apart_and_reads_the_same(tmp_path, written, shown):
    path = write(tmp_path / "01_trial.ipynb", [markdown("claim-1-1", written), code("proof-1-1", "assert f(1) == 2")])
    (before,) = read(path).claims
    tidy([path])
    (after,) = read(path).claims
    assert after.cell.source == callout(shown) == shown
    assert plain_claim(shown) == plain_claim(written)
    assert (after.kind, after.number, after.text) == (before.kind, before.number, before.text)


def test_tidy_stores_text_alone_and_twice_is_once(tmp_path, capsys):
    cells = [
        markdown("3f9a1c0e", "# Strides, shapes\n\nand more"),
        code("c0ffee00", "full = False", "parameters"),
        code("kZ3x9fG2hQwE", "import os"),
        markdown("claim-7-9", "**Claim 7.3.** A sentence with 3 in it."),
        code("proof-7-9", "assert len('abc') == 3"),
        code("picture-7-3", "3"),
        markdown("reading-7-3", "Three."),
        code("proof-7-3", "6 * 7"),
        markdown("", "**bold**"),
        markdown("6f1e0a4e-0b77-4b2c-9d62-0c1f8a2b3c4d", "Strides, shapes and more"),
        markdown("same", "one") | {"attachments": {"a.png": {"image/png": "AAAA"}}},
        markdown("same", "two"),
    ]
    del cells[8]["id"]
    cells[2] |= {"execution_count": 4, "outputs": [{"output_type": "stream", "name": "stdout", "text": "hi"}]}
    cells[2]["metadata"] = {"collapsed": True, "tags": []}
    path = tmp_path / "07_x.ipynb"
    book = {"cells": cells, "metadata": {"colab": {}}, "nbformat": 4, "nbformat_minor": 4}
    path.write_text(json.dumps(book))

    assert tidy([path], check=True) == 1
    assert json.loads(path.read_text()) == book, "--check writes nothing"
    assert tidy([path]) == 0
    said = capsys.readouterr().out
    assert "id '3f9a1c0e' becomes 'strides-shapes-and-more'" in said and "outputs and count removed" in said
    lecture = read(path)
    assert [cell.id for cell in lecture.cells] == [
        *("strides-shapes-and-more", "parameters", "import-os", "claim-7-1", "proof-7-1", "picture-7-1", "reading-7-1"),
        *("proof-7-1-2", "bold", "strides-shapes-and-more-2", "same", "same-2"),
    ]
    sources = ["".join(cell["source"]) for cell in cells]
    sources[3] = "> ◆ **Claim 7.1.** A sentence with 3 in it."
    assert [cell.source for cell in lecture.cells] == sources
    assert lecture.cells[10].raw["attachments"] == cells[10]["attachments"]
    assert lecture.raw["metadata"] == METADATA
    assert not lectures.nothing_is_stored_but_text(lecture)
    once = path.read_bytes()
    assert once.endswith(b"}\n") and once.startswith(b'{\n "cells"')
    assert tidy([path]) == 0 and path.read_bytes() == once
    assert tidy([path], check=True) == 0 and changes_of(path) == []
    assert capsys.readouterr().out == "", "nothing is said where nothing changed"


def test_tidy_keeps_a_helper_between_claim_and_proof_apart():
    cells = [*claim(1, "assert full"), *claim(2, "assert full")]
    cells.insert(1, code("helper", "x = 1"))
    ids = [cell["id"] for cell in tidied({"cells": cells})["cells"]]
    assert ids == ["claim-1-1", "helper", "proof-1-1", "claim-1-2", "proof-1-2"]


def test_tidy_keeps_an_id_that_a_claim_s_number_gives_for_that_claim():
    cells = [markdown("claim-1-2", "No claim."), *claim(1, "assert full"), *claim(2, "assert full")]
    ids = [cell["id"] for cell in tidied({"cells": cells})["cells"]]
    assert ids == ["claim-1-2-2", "claim-1-1", "proof-1-1", "claim-1-2", "proof-1-2"]


def test_tidy_leaves_a_torn_notebook_alone(tmp_path, capsys):
    path = tmp_path / "01_torn.ipynb"
    path.write_text('{"cells": [{')
    assert tidy([path, trial(tmp_path, name="02_good")]) == 1
    assert path.read_text() == '{"cells": [{'
    assert f"left alone: {path}: not a notebook" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["setup", "claim-1-3", "fp16-by-hand", "HVP-by_hand", "Newton-step"])
def test_readable_ids(name):
    assert readable(name)


@pytest.mark.parametrize("name", ["", "3f9a1c0e", "deadbeef", "kZ3x9fG2hQwE", "a b", "x--y", "a" * 65])
def test_ids_that_are_not_readable(name):
    assert not readable(name)


def test_a_lecture_ends_with_its_links(tmp_path):
    names = ("start_here", "00_first", "01_second", "02_third", "calculators", "deeper/01_more")
    for name in names:
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, [markdown("title", f"# {path.stem[:2]} · The {path.stem[3:]}")])
    (tmp_path / "labs").mkdir()
    write(tmp_path / "labs" / "01_lab.ipynb", [markdown("title", "# Lab 01 · Do it")])
    links = {name: navigation(tmp_path / "notebooks" / f"{name}.ipynb") for name in names}
    index = "[all lectures](../README.md#lectures-and-labs)"
    assert links["start_here"] == f"{index} · [00 The first](00_first.ipynb) →"
    assert links["01_second"] == (
        f"← [00 The first](00_first.ipynb) · {index} · [Lab 01: Do it](../labs/01_lab.ipynb)"
        " · deeper: [01 The more](deeper/01_more.ipynb) · [02 The third](02_third.ipynb) →"
    )
    assert links["deeper/01_more"] == f"[01 The second](../01_second.ipynb) · {index.replace('../', '../../')}"
    assert links["calculators"] == "" == navigation(tmp_path / "labs" / "01_lab.ipynb")
    path = tmp_path / "notebooks" / "01_second.ipynb"
    assert tidy([path]) == 0 and read(path).cells[-1].source == links["01_second"]
    assert changes_of(path) == []
    with contextlib.chdir(path.parent):
        assert changes_of(Path(path.name)) == []
    third = path.with_name("02_third.ipynb")
    third.write_text(third.read_text().replace("02 · The third", "02 · The last"))
    assert changes_of(path) == ["cell navigation: links written"]


# The static rules: one good lecture, and each rule seen red on a copy with one thing wrong


def good_cells() -> list[dict]:
    """The cells of a lecture that no rule of the lint finds fault with."""
    cells = _good_cells()
    for cell in cells:
        if cell["id"].startswith("claim-"):
            cell["metadata"]["name"] = f"the-{cell['id']}"
    return cells


def _good_cells() -> list[dict]:
    gpu = 'if device.type == "cuda":\n    assert f(1) == 2\nelse:\n    not_verified("needs a CUDA GPU")'
    both = 'if device.type == "cuda" and full:\n    assert f(1) == 2\nelse:\n    not_verified("short form")'
    real = 'if data.real:\n    assert f(1) == 2\nelse:\n    not_verified("stand-in data")'
    return [
        markdown(
            "title", title_source("# Trial\n\nIt takes about 45 minutes.", "notebooks/01_trial.ipynb", address_of())
        ),
        folded(code("colab", cell_source("notebooks/01_trial.ipynb", address_of()))),
        code("parameters", "full = False  # True: the long form", "parameters"),
        markdown("tools", "Tools."),
        folded(code("setup", "import os")),
        *claim(1, "assert f(1) == 2"),
        code("picture-1-1", "figures.draw()"),
        markdown("reading-1-1", "It rises by 1."),
        *claim(2, "with raises(ValueError, 'size'):\n    f(2)"),
        markdown("guess", "Guess: how much is it?"),
        code("calculator-tax", lectures.CALCULATOR.format(name="tax")),
        *claim(3, gpu, "gpu"),
        *claim(4, real, "real-data"),
        *claim(5, both, "gpu", "full"),
        *(cell for number in range(6, 19) for cell in claim(number, "assert f(1) == 2")),
        markdown("aloud", "## How to say it out loud\n\nSo."),
        markdown("not-mean", "## What this does not mean"),
        *claim(19, "torch.testing.assert_close(f(1), 2)"),
        *claim(20, "for x in range(3):\n    assert f(x) == 2"),
        markdown("did-not-work", "**What did not work.** Nothing."),
        markdown("takeaways", "## Takeaways"),
        markdown("questions", "## Questions\n\n<details><summary>Answer</summary>\n\n3\n\n</details>"),
        markdown("reading", "## Where to read on"),
    ]


def folded(cell: dict) -> dict:
    return cell | {"metadata": cell["metadata"] | FOLDED}


def bad(name: str, **changes):
    """A change of the good lecture: the cell `name` gets other fields."""

    def change(cells: list[dict]) -> list[dict]:
        assert any(cell["id"] == name for cell in cells)
        return [cell | changes if cell["id"] == name else cell for cell in cells]

    return change


def proof(source: str, *tags: str, name: str = "proof-1-1"):
    return bad(name, source=source.splitlines(keepends=True), metadata={"tags": list(tags)} if tags else {})


def without(name: str):
    return lambda cells: [cell for cell in cells if cell["id"] != name]


def extra(cell: dict):
    return lambda cells: [*cells, cell]


GPU_OPEN = 'if device.type == "cuda":\n    assert f(1) == 2'
REAL = "![a strided tensor](https://example.org/x.png)"
BAD = [
    (
        lectures.claims_are_well_formed,
        bad("claim-1-1", source=["**Claim 1.1:** It is 2 by now."]),
        "cell claim-1-1: one claim",
    ),
    (
        lectures.claims_are_well_formed,
        bad("claim-1-1", source=["Now\n\n**Claim 1.1.** It is 2 now."]),
        "one claim a cell",
    ),
    (
        lectures.claims_are_well_formed,
        bad("claim-1-1", source=["**Claim 1.1.** It is 2.\n\n**Folklore 1.2.** No."]),
        "one claim",
    ),
    (lectures.claims_are_well_formed, bad("claim-1-1", source=["**Claim C.1** It is 2."]), "one claim a cell"),
    (lectures.claims_are_well_formed, bad("claim-1-1", source=["**Claim 1.1.**"]), "says nothing"),
    (
        lectures.claims_are_numbered_in_order,
        bad("claim-1-2", source=["**Claim 1.3.** It is 2 by now."]),
        "1.3 stands where 1.2",
    ),
    (
        lectures.claims_are_numbered_in_order,
        bad("claim-1-2", source=["**Claim 2.2.** It is 2 by now."]),
        "2.2 stands where 1.2",
    ),
    (lectures.claims_are_numbered_in_order, lambda cells: cells[:4] + cells[8:], "1.2 stands where 1.1"),
    (
        lectures.says_its_minutes,
        bad("title", source=["# Trial\n\nIt takes about 10 minutes."]),
        "not say 'about 45 minutes'",
    ),
    (
        lectures.folklore_names_who_tells_it,
        bad("claim-1-1", source=['**Folklore 1.1.** "It is two." It is 3.']),
        "folklore 1.1 links nobody",
    ),
    (lectures.turns_are_whole, extra(code("turn", "@your_turn\ndef f():\n    ...")), "no @ours with a function f"),
    (lectures.guesses_are_settled, extra(code("asked", "guess = ...")), "cell asked: no settle(guess, …) below it"),
    (
        lectures.the_program_stands_where_it_grows,
        extra(code("begin", "x = 1", "program-begin")),
        "cell begin: no notebook before this one ends with the program",
    ),
    (
        lectures.the_program_is_plain,
        extra(code("end", "import utils.loop", "program-end")),
        "cell end: the program imports utils.loop",
    ),
    (lectures.words_are_the_fields, bad("tools", source=["A batch of 8 texts."]), "cell tools: '8 texts': sequences"),
    (lectures.every_claim_has_a_proof, without("proof-1-2"), "claim 1.2: the next cell is no code cell"),
    (lectures.every_claim_has_a_proof, proof("print(f(1))"), "claim 1.1: its proof contains no assert"),
    (lectures.every_claim_has_a_proof, proof("assert True"), "claim 1.1: its proof contains no assert"),
    (lectures.every_claim_has_a_proof, proof("assert 1 + 1 == 2"), "claim 1.1: its proof contains no assert"),
    (lectures.every_claim_has_a_proof, proof("assert (f(1) == 3, 'three')"), "claim 1.1: its proof contains no assert"),
    (lectures.every_claim_has_a_proof, proof("x = f(1)\nassert x.y == x.y"), "claim 1.1: its proof contains no assert"),
    (
        lectures.every_claim_has_a_proof,
        proof("def g():\n    assert f(1) == 2"),
        "claim 1.1: its proof contains no assert",
    ),
    (lectures.every_claim_has_a_proof, proof("try:\n    f(1)\nexcept E as e:\n    assert e"), "contains no assert"),
    (lectures.every_claim_has_a_proof, proof(GPU_OPEN), "claim 1.1: all its asserts stand under an if"),
    (lectures.every_claim_has_a_proof, proof("assert f(1) =="), "claim 1.1: its proof is not Python"),
    (
        lectures.green_lines_name_what_they_compare,
        proof("assert 76 == 76\nassert f(1) == 2"),
        "1.1: 'assert 76 == 76' names",
    ),
    (lectures.green_lines_name_what_they_compare, proof("assert round(38 * 2.0) == 76"), "name a value"),
    (
        lectures.green_lines_name_what_they_compare,
        proof("assert sum(n for n in range(9)) == 36 and f(1)"),
        "name a value",
    ),
    (lectures.green_lines_name_what_they_compare, proof("assert True"), "name a value"),
    (lectures.green_lines_name_what_they_compare, proof("assert_equal(2 * 38, 76)"), "name a value"),
    (lectures.tags_are_known, proof("assert f(1) == 2", "raises-exception"), "unknown tag raises-exception"),
    (lectures.tags_are_known, proof("assert f(1) == 2", "skip-execution"), "unknown tag skip-execution"),
    (lectures.tags_are_known, proof("import os", "gpu", name="setup"), "cell setup: only a proof"),
    (lectures.tags_say_what_proofs_do, proof("assert f(1) == 2", "gpu"), "cell proof-1-1: tagged gpu"),
    (lectures.tags_say_what_proofs_do, proof(GPU_OPEN, "gpu"), "cell proof-1-1: tagged gpu"),
    (lectures.tags_say_what_proofs_do, proof(GPU_OPEN + "\nelse:\n    print('no GPU')", "gpu"), "tagged gpu"),
    (
        lectures.tags_say_what_proofs_do,
        proof("if full:\n    assert f(1)\nelse:\n    not_verified('x')", "gpu"),
        "tagged gpu",
    ),
    (lectures.tags_say_what_proofs_do, proof(GPU_OPEN + "\nelse:\n    not_verified('x')", "full"), "tagged full"),
    (lectures.tags_say_what_proofs_do, proof("assert f(1) == 2", "real-data"), "tagged real-data"),
    (lectures.tags_say_what_proofs_do, proof(GPU_OPEN + "\nelse:\n    not_verified('x')", "compiler"), "if compiler:"),
    (
        lectures.tags_say_what_proofs_do,
        proof(GPU_OPEN + "\nelse:\n    not_verified('x')"),
        "not_verified without a tag",
    ),
    (
        lectures.tags_say_what_proofs_do,
        proof("not_verified('x')", name="setup"),
        "cell setup: not_verified is for proofs",
    ),
    (
        lectures.every_claim_has_a_proof,
        proof("def on_the_gpu():\n    print(1)\n\nif device.type == 'cuda':\n    on_the_gpu()", "gpu"),
        "no assert that could fail",
    ),
    (lectures.host_proofs_say_why, proof("assert f(1) == 2", "host"), "cell proof-1-1: the tag host and its reason"),
    (
        lectures.host_proofs_say_why,
        bad("proof-1-1", metadata={"host": "reads the bytes of a process"}),
        "the tag host and its reason",
    ),
    (lectures.host_proofs_say_why, bad("proof-1-1", metadata={"host": "so", "tags": ["host"]}), "is no phrase"),
    (
        lectures.no_assert_spares_a_gpu,
        proof("assert f(1) == 2 or device.type == 'cuda'"),
        "makes true",
    ),
    (lectures.gpu_proofs_leave_no_names, proof("if device.type == 'cuda':\n    x = f(1)"), "x bound on CUDA alone"),
    (lectures.ids_are_readable, bad("setup", id="3f9a1c0e"), "'3f9a1c0e' is not in words"),
    (lectures.ids_are_readable, bad("setup", id=""), "the id '' is not in words"),
    (lectures.ids_are_readable, bad("setup", id="title"), "2 cells have the id 'title'"),
    (lectures.ids_are_readable, bad("proof-1-1", id="helper"), "claim 1.1: its proof's id is 'helper'"),
    (lectures.ids_are_readable, bad("claim-1-1", id="claim-1-11"), "claim 1.1: its id is 'claim-1-11'"),
    (
        lectures.nothing_is_stored_but_text,
        bad("setup", outputs=[{"output_type": "stream"}]),
        "cell setup: stored with outputs",
    ),
    (lectures.nothing_is_stored_but_text, bad("setup", execution_count=1), "cell setup: stored with a count"),
    (lectures.nothing_is_stored_but_text, bad("setup", metadata={"scrolled": True}), "cell setup: metadata scrolled"),
    (lectures.is_tidy, bad("setup", id="3f9a1c0e"), "not tidy: cell 4"),
    (lectures.title_comes_first, without("title"), "the first cell is not"),
    (lectures.title_comes_first, bad("title", source=["Trial"]), "the first cell is not"),
    (lectures.colab_comes_before_all_code, without("colab"), "the second cell is not Colab's"),
    (lectures.colab_comes_before_all_code, lambda cells: [cells[0], cells[2], cells[1], *cells[3:]], "second cell"),
    (lectures.colab_comes_before_all_code, proof("import sys\nsys.path.insert(0, '..')", name="colab"), "second cell"),
    (lectures.colab_comes_before_all_code, bad("title", source=["# Trial\n\n[Open in Colab](https://x.org)"]), "link"),
    (
        lectures.parameters_are_there_where_used,
        without("parameters"),
        "0 cells are tagged parameters, and the name full is used",
    ),
    (
        lectures.parameters_are_there_where_used,
        without("proof-1-5"),
        "the name full is not used",
    ),
    (lectures.parameters_are_there_where_used, proof("full = False", "parameters", name="setup"), "2 cells are tagged"),
    (
        lectures.parameters_are_there_where_used,
        lambda cells: [cells[4], *cells[:4], *cells[5:]],
        "not the first code cell",
    ),
    (lectures.parameters_are_there_where_used, proof("full = True", "parameters", name="parameters"), "does not say"),
    *((lectures.sections_are_there, without(name), "no section") for name in ("aloud", "not-mean", "did-not-work")),
    *((lectures.sections_are_there, without(name), "no section") for name in ("takeaways", "questions", "reading")),
    (lectures.sections_are_there, bad("questions", source=["## Questions\n\nWhat is 3?"]), "no answers folded"),
    (lectures.pictures_are_read_aloud, without("reading-1-1"), "cell picture-1-1: no prose after it"),
    (lectures.calculators_are_introduced, without("guess"), "cell calculator-tax: no prose before it asks"),
    (lectures.calculators_are_introduced, bad("guess", source=["It is so much."]), "cell calculator-tax: no prose"),
    (
        lectures.calculators_are_introduced,
        bad("guess", source=["**Claim 1.3.** Is it 2 or 3?"]),
        "calculator-tax: no prose",
    ),
    (lectures.calculators_are_introduced, proof("f(1)", name="calculator-tax"), "cell calculator-tax: not exactly"),
    (lectures.code_is_plain_python, proof("x = (", name="setup"), "cell setup: not Python"),
    (lectures.code_is_plain_python, proof("!pip install einops", name="setup"), "cell setup: installs"),
    (lectures.code_is_plain_python, proof("%pip install -q einops", name="setup"), "cell setup: installs"),
    (lectures.code_is_plain_python, proof("!python -m pip install x", name="setup"), "cell setup: installs"),
    (lectures.code_is_plain_python, proof("%%capture\nf(1)", name="setup"), "cell setup: a cell magic"),
    (lectures.code_is_plain_python, proof("import sys\nsys.path.insert(0, '..')", name="setup"), "edits sys.path"),
    (lectures.code_is_plain_python, proof("sys.path += ['..']", name="setup"), "edits sys.path"),
    (lectures.code_is_plain_python, proof("from torch import *", name="setup"), "cell setup: star import"),
    (
        lectures.code_is_plain_python,
        proof("warnings.filterwarnings('ignore')", name="setup"),
        "cell setup: hides warnings",
    ),
    (lectures.code_is_plain_python, proof("simplefilter(action='once')", name="setup"), "cell setup: hides warnings"),
    (
        lectures.links_to_cells_land,
        bad("title", source=["# Trial\n\n[1.1](#claim-1-1)"]),
        "01_trial.ipynb has no claim-1-1 (a cell is #cell-id=NAME",
    ),
    (
        lectures.links_to_cells_land,
        bad("title", source=["# Trial\n\n[x](#cell-id=claim-9-9) and [y](02_other.ipynb#cell-id=claim-2-1)"]),
        "02_other.ipynb has no cell-id=claim-2-1",
    ),
    (lectures.images_are_local, bad("title", source=["# Trial\n\n" + REAL]), "cell title: a remote image"),
    (lectures.images_are_local, bad("title", source=['<img width="3" src="http://x.org/y">']), "a remote image"),
    (lectures.images_are_local, proof("Image(url='https://x.org/y')", name="setup"), "a remote image"),
]


def test_the_good_lecture_has_no_problem(tmp_path):
    assert lectures.problems_of(read(write(tmp_path / "01_trial.ipynb", good_cells()))) == []


@pytest.mark.parametrize(("rule", "change", "words"), BAD, ids=[f"{n}-{row[0].__name__}" for n, row in enumerate(BAD)])
def test_each_rule_finds_what_it_is_for(tmp_path, rule, change, words):
    problems = rule(read(write(tmp_path / "01_trial.ipynb", change(good_cells()))))
    assert any(words in problem for problem in problems), problems


def test_every_rule_has_been_seen_red():
    assert {row[0] for row in BAD} == set(lectures.RULES)
    assert set(lectures.NOTEBOOK_RULES) < set(lectures.RULES)


def test_a_lecture_without_a_number_or_with_other_metadata_is_refused(tmp_path):
    unnumbered = read(write(tmp_path / "trial.ipynb", good_cells()))
    assert "two digits" in lectures.claims_are_numbered_in_order(unnumbered)[0]
    path = tmp_path / "01_trial.ipynb"
    path.write_text(json.dumps({"cells": good_cells(), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert "metadata" in lectures.nothing_is_stored_but_text(read(path))[0]


def test_shown_warnings_and_nan_are_allowed(tmp_path):
    change = proof("warnings.simplefilter('error')\nassert x != x\nassert f() == f()")
    lecture = read(write(tmp_path / "01_trial.ipynb", change(good_cells())))
    assert lectures.problems_of(lecture) == []
