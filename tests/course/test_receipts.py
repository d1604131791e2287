"""Receipts of GPU runs: written whole, read back, merged; stale where a proof changed; refused where no GPU is."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_output
from test_course import claim, code, trial

from utils.course.__main__ import main
from utils.course.notebooks import engine
from utils.course.notebooks.ledger import FAILED, UNVERIFIED, VERIFIED, WHOLE, LectureResult, Verdict, judge
from utils.course.notebooks.notebook import Lecture, read
from utils.course.receipts import provenance
from utils.course.receipts.provenance import book_hash, code_of, commit_of, find_commit, hashes_of
from utils.course.receipts.reach import Library
from utils.course.receipts.receipts import (
    ON_HOST,
    RUN_KEYS,
    STALE,
    Receipt,
    empty,
    file_name,
    is_done,
    is_red,
    lecture_entry,
    merge,
    read_receipt,
    receipts,
    status,
    with_entry,
    write_receipt,
)
from utils.course.receipts.rehash import rehashed
from utils.course.receipts.table import NONE_YET, RAN, page_block, readme_block, solved, table

RUN = dict.fromkeys(RUN_KEYS, "x") | {
    "gpu": "NVIDIA X1",
    "device": "cuda",
    "torch": "2.11.0",
    "cuda": "13.0",
    "date": "2026-01-02T03:04:05+00:00",
    "form": "full",
    "commit": "c0ffee",
    "dirty": False,
}


def entry(lecture: Lecture, verdicts: dict[str, str], *broken: str) -> dict:
    """What a receipt keeps of a lecture, in the file's own format; `broken`: ids of failing cells that are no proof."""
    rows = [
        {"id": number, "number": number, **hashes_of(lecture)[number], "status": verdict}
        | {"reason": "", "on_device": True, "seconds": 0.1}
        for number, verdict in verdicts.items()
    ]
    cells = [{"cell": cell, "reason": "saw it fail"} for cell in broken]
    return {"computes": book_hash(lecture), "run": 0, "seconds": 2.5, "broken": cells, "claims": rows}


def kept(folder: Path, lecture: Lecture, verdicts: dict[str, str], name: str = "x1.json", **run: str) -> Path:
    """A receipt of one lecture with these verdicts."""
    content = {
        "gpu": RUN["gpu"],
        "runs": [RUN | run],
        "lectures": {lecture.name: entry(lecture, verdicts)},
        "solutions": {},
    }
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))
    return folder / name


def seen(path: Path, folder: Path) -> dict[str, list[str]]:
    return {number: [one.status for one in there] for number, there in status(read(path), receipts(folder)).items()}


def test_a_verdict_is_stale_once_its_proof_or_what_it_leans_on_has_changed(tmp_path):
    def lecture(
        first="assert two == 2",
        setup="import os\ntwo = 2\nother = 3",
        third="assert other == 3",
        drawn="print(other)",
        alone="import os",
        shown="show()",
    ):
        before = [[code("colab", alone), code("calculator-tax", shown)], [code("picture-1-1", drawn)]]
        proved = [claim(1, first), claim(2, "assert other > 2"), claim(3, third)]
        return trial(tmp_path, *before, *proved, setup=setup)

    store = tmp_path / "receipts"
    kept(store, read(lecture()), {"1.1": VERIFIED, "1.2": FAILED, "1.3": UNVERIFIED})
    as_kept = {"1.1": [VERIFIED], "1.2": [FAILED], "1.3": [UNVERIFIED]}
    assert seen(lecture(), store) == as_kept
    assert seen(lecture(first="assert two == 2  \n"), store) == as_kept, "blanks are no change"
    assert seen(lecture(drawn="print(other, 3)"), store) == as_kept, "a picture proves nothing"
    assert seen(lecture(alone="two = other = 9"), store) == as_kept, "nor does what Colab needs"
    assert seen(lecture(shown="from utils.napkin import calculators"), store) == as_kept, "nor does a calculator"
    assert seen(lecture(setup="import os, sys\ntwo = 2\nother = 3"), store) == as_kept, "nobody leans on the new import"
    assert seen(lecture(first="assert two < 3"), store) == as_kept | {"1.1": [STALE]}
    assert seen(lecture(setup="import os\ntwo = 1 + 1  # or so\nother = 3"), store) == as_kept | {"1.1": [STALE]}
    assert seen(lecture(setup="import os\ntwo = 2\nother = 4"), store) == as_kept | {"1.2": [STALE], "1.3": [STALE]}
    gone = trial(tmp_path, claim(1, "assert two == 2"), setup="import os\ntwo = 2\nother = 3")
    assert seen(gone, store) == {"1.1": [VERIFIED]}
    odd = trial(tmp_path, claim(1, "assert two == 2"), [code("odd", "x = (")], setup="import os\ntwo = 2\nother = 3")
    assert seen(odd, store) == {"1.1": [STALE]}, "a cell that is not Python is the run's to report"


def test_a_verdict_leans_on_names_of_pictures_and_on_what_an_if_may_leave(tmp_path):
    def lecture(value="2", least="1"):
        drawn = f"def two():\n    return {value}\nprint(two())"
        setup = f"least = {least}\nfull = False"
        proved = [claim(1, "assert two() == 2"), claim(2, "assert least == 1")]
        return trial(
            tmp_path, [code("picture-1-1", drawn), code("form", "if full:\n    least = 9")], *proved, setup=setup
        )

    store = tmp_path / "receipts"
    kept(store, read(lecture()), {"1.1": VERIFIED, "1.2": VERIFIED})
    assert seen(lecture(), store) == {"1.1": [VERIFIED], "1.2": [VERIFIED]}
    assert seen(lecture(value="1 + 1"), store) == {"1.1": [STALE], "1.2": [VERIFIED]}
    assert seen(lecture(least="0 + 1"), store) == {"1.1": [VERIFIED], "1.2": [STALE]}


def test_each_gpu_has_its_say(tmp_path):
    path, other = trial(tmp_path, claim(1, "assert 2 > 1"), claim(2, "assert 1")), trial(tmp_path, name="02_other")
    assert status(read(path), receipts(tmp_path / "receipts")) == {"1.1": (), "1.2": ()}, "no folder, no receipt"
    kept(tmp_path / "receipts", read(path), {"1.1": VERIFIED})
    kept(tmp_path / "receipts", read(path), {"1.1": FAILED, "1.2": VERIFIED}, "x2.json")
    kept(tmp_path / "receipts", read(other), {}, "x3.json")
    assert seen(path, tmp_path / "receipts") == {"1.1": [VERIFIED, FAILED], "1.2": [VERIFIED]}
    first = status(read(path), receipts(tmp_path / "receipts"))["1.1"][0]
    assert first.words == "verified on NVIDIA X1, torch 2.11.0, 2026-01-02" and first.run["commit"] == "c0ffee"


def test_what_is_no_receipt_is_named(tmp_path):
    path = tmp_path / "x.json"
    texts = ["", "[]", "{}", '{"gpu": "X", "runs": [], "lectures": {"01": {"run": 0}}, "solutions": {}}']
    for text in texts:
        path.write_text(text)
        with pytest.raises(ValueError, match=r"x\.json: not a receipt"):
            receipts(tmp_path)


def test_a_receipt_without_a_gpu_is_none(tmp_path):
    path = kept(tmp_path / "receipts", read(trial(tmp_path, claim(1, "assert 1"))), {"1.1": VERIFIED}, device="cpu")
    assert isinstance(read_receipt(path), Receipt)
    with pytest.raises(ValueError, match=r"x1\.json: written without a GPU"):
        receipts(tmp_path / "receipts")


def test_a_damaged_run_is_named(tmp_path):
    path = kept(tmp_path, read(trial(tmp_path, claim(1, "assert 1"))), {"1.1": VERIFIED})
    raw = json.loads(path.read_text())
    del raw["runs"][0]["driver"]
    path.write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=r"x1\.json: not a receipt \(KeyError: 'driver'\)"):
        receipts(tmp_path)


# Writing


def two(folder: Path) -> tuple[Lecture, Lecture]:
    first = trial(folder, claim(1, "assert 2 > 1"))
    return read(first), read(trial(folder, claim(1, "assert 3 > 1", lecture=2), name="02_trial"))


def test_a_receipt_comes_back_as_it_was_written(tmp_path):
    first, second = two(tmp_path)
    receipt = empty(tmp_path / "receipts" / file_name("NVIDIA H100 80GB HBM3"), "NVIDIA X1")
    for book in (second, first):
        receipt = with_entry(receipt, RUN, book, entry(book, {f"{book.number}.1": VERIFIED}))
    write_receipt(receipt)
    assert [path.name for path in (tmp_path / "receipts").iterdir()] == ["nvidia-h100-80gb-hbm3.json"]
    (again,) = receipts(tmp_path / "receipts")
    assert again == receipt and list(again.lectures) == ["01_trial", "02_trial"] and again.runs == (RUN,)


def test_of_two_receipts_the_later_run_of_each_notebook_counts(tmp_path):
    first, second = two(tmp_path)
    early, late = RUN | {"date": "2026-01-02T00"}, RUN | {"date": "2026-01-03T00", "commit": "beef"}
    nothing = empty(tmp_path / "x1.json", "NVIDIA X1")
    old = with_entry(nothing, early, first, entry(first, {"1.1": FAILED}))
    old = with_entry(old, early, second, entry(second, {"2.1": VERIFIED}))
    new = with_entry(nothing, late, first, entry(first, {"1.1": VERIFIED}))
    for both in (merge(old, new), merge(new, old)):
        assert sorted(run["date"] for run in both.runs) == [early["date"], late["date"]]
        assert both.run_of(both.lectures["01_trial"])["commit"] == "beef" and not is_red(both, first)
        assert both.run_of(both.lectures["02_trial"])["commit"] == "c0ffee"
    assert merge(merge(old, new), with_entry(nothing, late, second, entry(second, {}))).runs == (late,), (
        "no run is idle"
    )
    with pytest.raises(ValueError, match="one file for each GPU"):
        merge(old, empty(tmp_path / "x2.json", "NVIDIA X2"))


def test_a_short_form_or_a_broken_off_run_takes_no_long_forms_place(tmp_path):
    first, _ = two(tmp_path)
    late = RUN | {"date": "2026-01-03T00"}
    long = with_entry(empty(tmp_path / "x1.json", "NVIDIA X1"), RUN, first, entry(first, {"1.1": VERIFIED}))
    short = with_entry(long, late | {"form": "short"}, first, entry(first, {"1.1": FAILED}))
    assert short.runs == (RUN,) and not is_red(short, first)
    broken = with_entry(long, late, first, entry(first, {"1.1": FAILED}, WHOLE))
    assert broken.runs == (RUN,)
    changed = read(trial(tmp_path, claim(1, "assert 2 > 0")))
    mended = with_entry(long, late | {"form": "short"}, changed, entry(changed, {"1.1": FAILED}))
    assert is_red(mended, changed) and mended.runs[0]["form"] == "short", "of other code the long form says nothing"
    newer = late | {"form": "short", "torch": "2.13.0"}
    upgraded = with_entry(long, newer, first, entry(first, {"1.1": VERIFIED}))
    assert is_done(upgraded, first, newer), "nor does one of an older torch"


def test_what_is_done_is_of_the_same_code_versions_and_form(tmp_path):
    first, second = two(tmp_path)
    nothing = empty(tmp_path / "x1.json", "NVIDIA X1")
    long = with_entry(nothing, RUN, first, entry(first, {"1.1": FAILED}))
    assert is_done(long, first, RUN) and not is_done(long, second, RUN)
    assert is_done(long, first, RUN | {"form": "short", "date": "later", "commit": "other"})
    assert not is_done(long, first, RUN | {"torch": "2.13.0"}) and not is_done(long, first, RUN | {"cuda": "12.8"})
    short = with_entry(nothing, RUN | {"form": "short"}, first, entry(first, {"1.1": VERIFIED}))
    assert is_done(short, first, RUN | {"form": "short"}) and not is_done(short, first, RUN)
    assert not is_done(long, read(trial(tmp_path, claim(1, "assert 2 > 0"))), RUN)
    assert not is_done(with_entry(nothing, RUN, first, entry(first, {"1.1": FAILED}, WHOLE)), first, RUN)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True).stdout


def test_code_is_of_the_commit_that_has_just_these_files(tmp_path):
    for folder in provenance.CODE:
        (tmp_path / folder).mkdir()
    (tmp_path / "utils" / "loop.py").write_text("x = 1")
    (tmp_path / "notebooks" / "Ünïcode name.ipynb").write_text("{}")
    assert commit_of(code_of(tmp_path), tmp_path) == {"commit": None, "dirty": None}
    git(tmp_path, "init", "-q")
    commits = []
    for text in ("x = 1", "x = 2"):
        (tmp_path / "utils" / "loop.py").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", text)
        commits.append(git(tmp_path, "rev-parse", "HEAD").strip())
    (tmp_path / "README.md").write_text("is no code")
    (tmp_path / "utils" / "cache.pyc").write_text("nor is this")
    clean = {"commit": commits[1], "dirty": False}
    assert commit_of(code_of(tmp_path), tmp_path) == find_commit(code_of(tmp_path), tmp_path) == clean
    (tmp_path / "utils" / "loop.py").write_text("x = 1")
    assert commit_of(code_of(tmp_path), tmp_path) == {"commit": commits[1], "dirty": True}
    assert find_commit(code_of(tmp_path), tmp_path) == {"commit": commits[0], "dirty": False}
    (tmp_path / "utils" / "more.py").write_text("x = 1")
    assert commit_of(code_of(tmp_path), tmp_path) == {"commit": commits[1], "dirty": True}
    assert find_commit(code_of(tmp_path), tmp_path) == {"commit": None, "dirty": None}


# Showing


def test_a_receipt_holds_no_path_of_its_machine(tmp_path):
    lecture = read(trial(tmp_path, claim(1, "assert 1")))
    reason = "OSError: '/opt/here/bin/python3' and 3/4 of https://a.org/b/c"
    told = Verdict(lecture.claims[0], lecture.name, FAILED, reason, 0.0)
    [row] = lecture_entry(lecture, LectureResult(lecture.name, "Trial", (told,), (), 1.0))["claims"]
    assert row["reason"] == "OSError: '…/python3' and 3/4 of https://a.org/b/c"


def test_a_receipt_keeps_what_a_proof_compared_and_says_it(tmp_path):
    path = trial(tmp_path, claim(1, "assert 2 > 1"), claim(2, "assert 3 > 1"), claim(3, "assert 4 > 1"))
    book = json.loads(path.read_text())
    printed = "7 seen\n\x1b[32m✓\x1b[0m 1.1  ratio 0.21 < 0.5\n"
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = 1
            first = [{"output_type": "stream", "name": "stdout", "text": printed}]
            cell["outputs"] = first if cell["id"] == "proof-1-1" else []
    (tmp_path / "executed.ipynb").write_text(json.dumps(book))
    lecture = read(path)
    result = judge(lecture, read(tmp_path / "executed.ipynb"), cuda=True, full=False, seconds=1.0)
    there = lecture_entry(lecture, result)
    assert [row["compared"] for row in there["claims"]] == ["ratio 0.21 < 0.5", "", ""]
    there["claims"][0]["on_device"] = True
    del there["claims"][2]["compared"]  # as receipts were before
    receipt = with_entry(empty(tmp_path / "nvidia-x1.json", "NVIDIA X1"), RUN, lecture, there)
    words = [each.words for (each,) in status(lecture, [receipt]).values()]
    assert words[0] == "verified on NVIDIA X1, torch 2.11.0, 2026-01-02: ratio 0.21 < 0.5"
    assert words[1:] == ["verified on the host of NVIDIA X1, torch 2.11.0, 2026-01-02"] * 2


@pytest.mark.parametrize(("cell", "line"), [("proof-8-12", "○ 8.12  needs Linux\n"), ("demo", "○ needs Linux\n")])
def test_the_line_of_a_proof_that_cannot_run_here_gets_its_number(cell, line):
    """A kernel that papermill runs knows no cell's name."""
    ran = new_code_cell(id=cell, outputs=[new_output("stream", text="○ needs Linux\n")])
    engine._number(ran)
    assert ran.outputs[0]["text"] == line


def test_a_rehash_is_of_the_code_that_ran(tmp_path):
    """As when the rule changes: the hashes are those of the commit, whatever stands in the folder now."""
    for folder in provenance.CODE:
        (tmp_path / folder).mkdir()
    path = trial(tmp_path / "notebooks", claim(1, "assert two == 2"), setup="from utils.facts import two")
    (tmp_path / "utils" / "facts.py").write_text("two = 2\n")
    lab = trial(tmp_path / "solutions", name="01_lab")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    ran = RUN | {"commit": git(tmp_path, "rev-parse", "HEAD").strip(), "code": code_of(tmp_path)}
    expected = hashes_of(read(path), Library(tmp_path))["1.1"]
    (tmp_path / "utils" / "facts.py").write_text("two = 3\n")
    old = entry(read(path), {"1.1": VERIFIED}) | {"computes": "old"}
    old["claims"][0] |= {"computes": "old"}
    receipt = with_entry(empty(tmp_path / "x1.json", "NVIDIA X1"), ran, read(path), old)
    solved = {"computes": "old", "seconds": 1.0, "broken": [], "ran": True, "points": 1, "of": 1}
    new = rehashed(with_entry(receipt, ran, read(lab), solved), tmp_path)
    [row] = new.lectures["01_trial"]["claims"]
    assert {key: row[key] for key in ("proof", "computes")} == expected
    assert row["computes"] != hashes_of(read(path), Library(tmp_path))["1.1"]["computes"]
    assert (row["status"], row["seconds"]) == (VERIFIED, 0.1) and new.runs[0]["rehash"] == ran["commit"]
    assert new.solutions["01_lab"]["computes"] == book_hash(read(lab), Library(tmp_path))
    elsewhere = replace(receipt, runs=(ran | {"code": "other"},))
    with pytest.raises(ValueError, match="run it again on its GPU"):
        rehashed(elsewhere, tmp_path)
    with pytest.raises(ValueError, match="no commit None"):
        rehashed(replace(receipt, runs=(ran | {"commit": None},)), tmp_path)


def receipt_with_a_stale_claim(folder: Path) -> tuple[Receipt, list[Lecture], list[Lecture]]:
    """Of three lectures one has a stale claim, one a broken cell, one did not run; of two solutions one ran."""
    first = read(trial(folder, claim(1, "assert 2 > 1"), claim(2, "assert 3 > 1")))
    second = read(trial(folder, claim(1, "assert 1", lecture=2), name="02_trial"))
    solutions = [read(trial(folder, name=name)) for name in ("01_lab", "02_lab")]
    receipt = empty(folder / "nvidia-x1.json", "NVIDIA X1")
    receipt = with_entry(receipt, RUN, first, entry(first, {"1.1": VERIFIED, "1.2": VERIFIED}))
    receipt = with_entry(receipt, RUN | {"form": "short"}, second, entry(second, {"2.1": UNVERIFIED}, "setup"))
    ran = {key: entry(solutions[0], {})[key] for key in ("computes", "seconds", "broken")}
    receipt = with_entry(receipt, RUN, solutions[0], ran | {"ran": True, "points": 20, "of": 20})
    first = read(trial(folder, claim(1, "assert 2 > 1"), claim(2, "assert 3 > 2")))
    return receipt, [first, second, read(trial(folder, claim(1, "assert 1", lecture=3), name="03_trial"))], solutions


def test_the_table_counts_what_was_verified_there_and_what_is_stale(tmp_path):
    lines = table(*receipt_with_a_stale_claim(tmp_path)).splitlines()
    assert [line.split() for line in lines[2:5]] == [
        ["01_trial", "2", "1", "0", "0", "0", "1", "2.5", "long"],
        ["02_trial", "1", "0", "0", "1", "0", "0", "2.5", "short", "and", "1", "broken", "cell"],
        ["03_trial", "1", "(did", "not", "run)"],
    ]
    assert lines[6].split()[:8] == ["total", "4", "1", "0", "1", "0", "1", "5.0"]
    assert lines[8] == "solutions: 1 of 2 ran, 20 of 20 points, 2.5 s"
    assert "NVIDIA X1" in lines[10] and "commit c0ffee" in lines[10] and "CUDA 13.0" in lines[10]


def test_what_held_beside_a_gpu_is_not_verified_on_it(tmp_path):
    path = trial(tmp_path, claim(1, "assert 2 > 1"), claim(2, "assert 3 > 2"))
    lecture = read(path)
    there = entry(lecture, {"1.1": VERIFIED, "1.2": VERIFIED})
    there["claims"][1]["on_device"] = False
    receipt = with_entry(empty(tmp_path / "nvidia-x1.json", "NVIDIA X1"), RUN, lecture, there)
    seen = status(lecture, [receipt])
    assert [seen[number][0].status for number in ("1.1", "1.2")] == [VERIFIED, ON_HOST]
    assert seen["1.2"][0].words.startswith("verified on the host of NVIDIA X1, torch")
    assert "1 of 2 claims verified on it, 1 verified on the host" in readme_block([receipt], [lecture], [])


def test_the_readmes_show_each_gpu_and_what_is_stale_or_that_there_is_none(tmp_path):
    receipt, lectures, solutions = receipt_with_a_stale_claim(tmp_path)
    words = "1 of 4 claims verified on it, 1 not verified, 1 stale, 1 did not run; solutions: 1 of 2 ran"
    assert readme_block([receipt], lectures, solutions) == f"- [NVIDIA X1](tests/receipts/nvidia-x1.json): {words}"
    lines = page_block([receipt], lectures, solutions).splitlines()
    assert lines[:2] == ["| verified on | [NVIDIA X1](nvidia-x1.json) |", "|---|---|"]
    assert lines[2:6] == [
        "| 01_trial | 1 of 2, 1 stale (1.2) |",
        "| 02_trial | 0 of 1, 1 not verified (2.1) (short form) |",
        "| 03_trial | – |",
        "| solutions | 1 of 2 ran |",
    ]
    for block in (readme_block, page_block):
        none = block([], lectures, solutions)
        assert none == NONE_YET and "](" not in none and "no machine has verified" in none


def test_a_lecture_that_is_not_there_is_not_all_of_them(capsys):
    assert main(["receipt", "99"]) == 2
    assert "no lecture has the number 99" in capsys.readouterr().err


def test_a_solution_that_failed_is_no_run_whatever_was_edited_since(tmp_path):
    book, _ = two(tmp_path)
    there = empty(tmp_path / "x1.json", "NVIDIA X1")
    for changed, ran, told in [("", True, RAN), ("other", True, STALE), ("", False, FAILED), ("other", False, FAILED)]:
        one = replace(there, solutions={book.name: {"computes": changed or book_hash(book), "ran": ran}})
        assert solved(book, one) == told


def test_a_claim_keeps_its_verdict_when_it_gets_another_number_or_moves_to_another_notebook(tmp_path):
    def named(number: int, name: str, lecture: int = 1) -> list[dict]:
        cells = claim(number, f"assert {len(name)} > 1", lecture=lecture)
        return [cells[0] | {"metadata": {"name": name}}, *cells[1:]]

    was = read(trial(tmp_path, named(1, "first"), named(2, "second")))
    rows = entry(was, {"1.1": VERIFIED, "1.2": VERIFIED})
    for row, each in zip(rows["claims"], was.claims, strict=True):
        row["id"] = each.name
    receipt = with_entry(empty(tmp_path / "x1.json", "NVIDIA X1"), RUN, was, rows)
    renumbered = read(trial(tmp_path, named(1, "new"), named(2, "first")))
    moved = read(trial(tmp_path, named(1, "second", lecture=2), name="02_trial"))
    assert {number: [seen.status for seen in all_of] for number, all_of in status(renumbered, [receipt]).items()} == {
        "1.1": [],
        "1.2": [VERIFIED],
    }
    assert [seen.status for seen in status(moved, [receipt])["2.1"]] == [VERIFIED]
