"""The grader: full marks for solutions, none for starters, and no more than was earned for those who cheat."""

import ctypes
import json
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from utils.course.grading import grade as grading
from utils.course.grading import gradebook
from utils.course.grading.judge import Patience
from utils.course.grading.sandbox import Limits

ROOT = Path(__file__).parents[1]
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
HOSTILE = sorted(Path(__file__).with_name("hostile").glob("*.py"))
LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"
RULES = grading.Rules(
    seed=20_260,
    patience=Patience(start=20, cell=4, question=4),
    limits=Limits(cpu=20, memory=4 << 30, file_bytes=8 << 20, disk=64 << 20, processes=64),
)


def load(path: Path) -> dict:
    return json.loads(path.read_text())


def with_cells(book: dict, changes: dict[str, str]) -> dict:
    """The notebook with these cells' sources; what it does not have yet stands right after the set-up."""
    cells = [cell | {"source": changes.get(cell["id"], cell["source"])} for cell in book["cells"]]
    place = next(index for index, cell in enumerate(cells) if cell["id"] == "setup") + 1
    known = {cell["id"] for cell in cells}
    new = [{"cell_type": "code", "id": name, "metadata": {}, "outputs": [], "execution_count": None, "source": source}
           for name, source in changes.items() if name not in known]  # fmt: skip
    return book | {"cells": cells[:place] + new + cells[place:]}


def solved(*tasks: str) -> dict[str, str]:
    codes = {cell["id"]: cell["source"] for cell in load(LAB)["cells"]}
    return {f"code-{task}": codes[f"code-{task}"] for task in tasks}


def hostile(path: Path, replace: dict[str, str]) -> tuple[dict, int]:
    """(the notebook, what it earns) of a file in tests/hostile."""
    text = path.read_text()
    for word, value in replace.items():
        text = text.replace(word, value)
    head, *parts = re.split(r"^# %% (\S+).*\n", text, flags=re.M)
    cells = dict(zip(parts[::2], parts[1::2], strict=True))
    honest = re.findall(r"^# honest: (\S+)$", head, re.M)
    (earns,) = re.findall(r"^# earns: (\d+)$", head, re.M)
    return with_cells(load(ROOT / "labs" / LAB.name), solved(*honest) | cells), int(earns)


def graded(
    folder: Path, books: dict[str, dict | str], lab: Path = LAB, rules: grading.Rules = RULES
) -> dict[str, dict]:
    """student -> record, of notebooks written to folder/in, the gradebook in folder/out."""
    for student, book in books.items():
        path = folder / "in" / student / lab.name
        path.parent.mkdir(parents=True)
        path.write_text(book if isinstance(book, str) else json.dumps(book))
    found = grading.grade(folder / "in", [lab], folder / "out", rules)
    return {record["student"]: record for record in found}


@pytest.mark.slow
def test_solutions_get_all_and_starters_nothing(tmp_path):
    for kind, source in (("solved", ROOT / "solutions"), ("starter", ROOT / "labs")):
        shutil.copytree(source, tmp_path / "in" / kind)
    records = grading.grade(tmp_path / "in", SOLUTIONS, tmp_path / "out", grading.Rules(seed=4711))
    for record in records:
        want = record["points"] if record["student"] == "solved" else 0
        assert (record["earned"], record["problem"], record["notes"]) == (want, "", []), (
            record["lab"],
            record["checks"],
        )
    assert len(records) == 2 * len(SOLUTIONS)


@pytest.mark.slow
def test_a_canary_shows_that_the_students_file_was_graded(tmp_path):
    wrong = {"code-strides": "def contiguous_strides(shape):\n    return ('canary', 4711)"}
    book = with_cells(load(LAB), wrong)
    record = graded(tmp_path, {"me": book})["me"]
    assert record["earned"] == record["points"] - 2
    assert "'canary', 4711" in record["checks"][0]["message"]


@pytest.fixture
def listener():
    """A server that counts what reaches it, and its (host, port)."""
    server, heard = socket.create_server(("127.0.0.1", 0)), []

    def listen():
        while True:
            try:
                heard.append(server.accept())
            except OSError:
                return

    threading.Thread(target=listen, daemon=True).start()
    yield server.getsockname(), heard
    server.close()


@pytest.mark.slow
def test_nobody_is_talked_into_a_grade(tmp_path, listener, monkeypatch):
    monkeypatch.setenv("CANARY", "4711")
    address, heard = listener
    replace = {"SUBMISSIONS": repr(str(tmp_path / "in")), "HOSTS": repr([address])}
    books = {path.stem: hostile(path, replace) for path in HOSTILE}
    victim = with_cells(load(ROOT / "labs" / LAB.name), solved("strides", "swap"))
    records = graded(tmp_path, {name: book for name, (book, _) in books.items()} | {"victim": victim})
    earned = {name: records[name]["earned"] for name in books}
    assert earned == {name: earns for name, (_, earns) in books.items()}
    assert records["victim"]["earned"] == 4
    assert heard == [] and not (tmp_path / "in" / "pwned").exists()
    assert {(record["points"], len(record["checks"])) for record in records.values()} == {(20, 11)}
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == sorted(records)
    left = [pid for pid in filter(str.isdecimal, os.listdir("/proc")) if is_of_a_submission(int(pid))]
    assert left == []


def is_of_a_submission(pid: int) -> bool:
    try:
        return "grade-" in os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False


# What is broken costs nobody else anything


def notebook(**changes) -> dict:
    return load(LAB) | changes


def without_ids(book: dict) -> dict:
    cells = [{key: value for key, value in cell.items() if key != "id"} for cell in book["cells"]]
    return book | {"cells": cells, "nbformat_minor": 0}


BROKEN = {  # name: (what was handed in, words of the sentence that says what is wrong)
    "empty": ("", "an empty file"),
    "not json": ("{'cells': []", "its JSON cannot be read"),
    "no notebook": ('{"a": 1}', "no nbformat"),
    "a list": ("[1, 2]", "not a notebook"),
    "deep": ("[" * 200_000, "its JSON cannot be read"),
    "no cells": (json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}), "without cells"),
    "cells are text": (json.dumps({"nbformat": 4, "cells": "code"}), "without cells"),
    "another lab's": ((ROOT / "solutions" / "02_formats_by_their_bits.ipynb").read_text(), "is it another lab's file?"),
    "old and empty": (json.dumps({"nbformat": 2, "worksheets": 7}), "cannot be converted"),
}
BIG = {"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}
NOISE = "import sys\nprint('hm', file=sys.stderr)\n%matplotlib inline\n!ls"
LOSES_NOTHING = {  # what an honest student may send: all 20 points
    "no ids": without_ids(load(LAB)),
    "zoë o'neil =cmd": load(LAB),
    "..": load(LAB),
    "ids twice": notebook(cells=[c | {"id": "x"} if c["id"].startswith("task") else c for c in load(LAB)["cells"]]),
    "odd metadata": notebook(metadata={"kernelspec": {"name": "evil", "language": "R"}, "colab": 7}),
    "prints to stderr": with_cells(load(LAB), {"noise": NOISE}),
    "copied cells": notebook(cells=load(LAB)["cells"] * 2),
    "syntax error elsewhere": with_cells(load(LAB), {"notes": "this is my note to myself"}),
    "50 MB of outputs": notebook(cells=[*load(LAB)["cells"], {"cell_type": "code", "source": [], "outputs": [BIG]}]),
    "no set-up": notebook(cells=[c for c in load(LAB)["cells"] if c["id"] not in ("setup", "parameters")]),
}  # fmt: skip


@pytest.mark.slow
def test_broken_ones_get_a_sentence_and_honest_ones_lose_nothing(tmp_path):
    missing = load(LAB) | {"cells": [cell for cell in load(LAB)["cells"] if cell["id"] != "code-swap"]}
    wrong = with_cells(load(LAB), {"code-swap": "def swapped(x, a b):\n    return x"})
    folder = tmp_path / "in"
    folder.mkdir()
    books = {name: text for name, (text, _) in BROKEN.items()} | LOSES_NOTHING | {"missing": missing, "wrong": wrong}
    for name, book in books.items():
        (folder / f"{name}.ipynb").write_text(book if isinstance(book, str) else json.dumps(book))
    records = {record["student"]: record for record in grading.grade(folder, [LAB], tmp_path / "out", RULES)}
    assert set(records) == set(books)
    for name, (_, words) in BROKEN.items():
        assert records[name]["earned"] == 0 and words in records[name]["problem"], records[name]["problem"]
    for name in LOSES_NOTHING:
        assert (records[name]["earned"], records[name]["problem"]) == (20, ""), (name, records[name]["checks"])
    assert records["missing"]["earned"] == records["wrong"]["earned"] == 18
    assert "task swap was not found" in records["missing"]["notes"]
    assert records["wrong"]["raised"]["code-swap"][0][0] == "SyntaxError"
    table = (tmp_path / "out" / "gradebook.csv").read_text()
    assert all(len(line.rsplit(",", 2)) == 3 for line in table.splitlines()) and len(table.splitlines()) == 1 + len(
        books
    )
    assert {path.parent for path in (tmp_path / "out").rglob("*.json")} == {tmp_path / "out" / LAB.stem}


# The gradebook


@pytest.mark.slow
def test_a_second_run_grades_only_what_changed(tmp_path, capsys):
    books = {"ada": load(LAB), "bob": load(ROOT / "labs" / LAB.name)}
    first = graded(tmp_path, books)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / LAB.stem).iterdir()}
    capsys.readouterr()
    assert grading.grade(tmp_path / "in", [LAB], tmp_path / "out", RULES) == list(first.values())
    assert "0 graded, 2 unchanged" in capsys.readouterr().err
    (tmp_path / "in" / "bob" / LAB.name).write_text(LAB.read_text())
    again = grading.grade(tmp_path / "in", [LAB], tmp_path / "out", RULES)
    assert "1 graded, 1 unchanged" in capsys.readouterr().err
    assert [record["earned"] for record in again] == [20, 20]
    changed = {path.stem for path, time in written.items() if path.stat().st_mtime_ns != time}
    assert changed == {"bob"}


@pytest.mark.slow
def test_killed_at_any_moment_no_grade_is_lost_and_none_made_twice(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(8):
        book = with_cells(load(ROOT / "labs" / LAB.name), solved("strides") | {"mine": f"number = {number}"})
        (folder / f"student{number}.ipynb").write_text(json.dumps(book))
    line = [sys.executable, "-m", "utils.course", "grade", folder, "--lab", "01", "--out", out, "--jobs", "1"]
    finished: dict[str, bytes] = {}
    for target in (1, 3, 6):  # killed when there are so many grades
        run = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True)
        while len(records := list((out / LAB.stem).glob("*.json"))) < target and run.poll() is None:
            time.sleep(0.005)
        run.kill()
        run.wait()
        for path in records:
            text = path.read_bytes()
            assert finished.setdefault(path.name, text) == text
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    graded_now, unchanged = map(int, re.search(r"(\d+) graded, (\d+) unchanged", done.stderr).groups())
    assert graded_now + unchanged == 8 and unchanged >= 6
    assert [record["earned"] for record in gradebook.records(out)] == [2] * 8
    assert all((out / LAB.stem / name).read_bytes() == text for name, text in finished.items())


@pytest.mark.slow
def test_changed_checks_do_not_change_grades_until_asked(tmp_path, capsys):
    lab = tmp_path / LAB.name
    lab.write_text(LAB.read_text())
    graded(tmp_path, {"ada": load(LAB)}, lab)
    book = load(lab)
    for cell in book["cells"]:
        if cell["id"] == "check-strides":
            cell["metadata"]["points"] = 5
    lab.write_text(json.dumps(book))
    (kept,) = grading.grade(tmp_path / "in", [lab], tmp_path / "out", RULES)
    assert kept["points"] == 20 and "--regrade" in capsys.readouterr().err
    (anew,) = grading.grade(tmp_path / "in", [lab], tmp_path / "out", RULES, regrade=True)
    assert anew["points"] == anew["earned"] == 24


@pytest.mark.slow
def test_same_submission_same_seed_same_record(tmp_path):
    books = {
        "ada": load(LAB),
        "bob": with_cells(load(LAB), {"code-swap": "def swapped(x, a, b):\n    return torch.rand(3)"}),
    }
    texts = []
    for number in (1, 2):
        graded(tmp_path / str(number), books)
        out = tmp_path / str(number) / "out"
        texts.append({path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()})
    assert texts[0] == texts[1] and len(texts[0]) >= 8


# The whole notebook, run


@pytest.mark.slow
def test_the_notebook_is_run_in_the_same_sandbox(tmp_path):
    spy = f"print(sum(range(10)))\nopen({str(LAB)!r}).read()"
    rules = replace(RULES, notebook=True, patience=Patience(20, 60, 20), limits=replace(RULES.limits, cpu=120))
    graded(tmp_path, {"ada": load(LAB), "eve": with_cells(load(LAB), {"spy": spy})}, rules=rules)
    pages = tmp_path / "out" / "feedback" / LAB.stem
    ran = {name: load(pages / f"{name}.ipynb")["cells"] for name in ("ada", "eve")}
    outputs = {cell["id"]: cell["outputs"] for cell in ran["ada"] if cell["cell_type"] == "code"}
    assert outputs["check-strides"][0]["text"] == ["Strides: right for six shapes.\n"]
    assert not [output for each in outputs.values() for output in each if output["output_type"] == "error"]
    said, error = next(cell for cell in ran["eve"] if cell["id"] == "spy")["outputs"]
    assert "".join(said["text"]).strip() == "45" and error["ename"] in ("PermissionError", "FileNotFoundError")


# What the kernel grants


UNSHARE, LANDLOCK_CREATE = {"x86_64": 272, "aarch64": 97}[platform.machine()], 444


def deny(*numbers: int) -> None:
    """These system calls fail with EPERM from now on, in this process and its children: a seccomp filter."""
    load, equal, give = 0x20, 0x15, 0x06  # a word of what is looked at; jump if equal; return
    program = [(load, 0, 0, 0)]
    for index, number in enumerate(numbers):
        program.append((equal, len(numbers) - index, 0, number))
    program += [(give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050001)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    filters = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    assert libc.prctl(22, 2, ctypes.c_char_p(filters), 0, 0) == 0, os.strerror(ctypes.get_errno())


def graded_under(tmp_path: Path, denied: tuple[int, ...], *options: str) -> subprocess.CompletedProcess:
    """The command line on one honest and one curious submission, where these system calls are denied."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ada.ipynb").write_text(LAB.read_text())
    curious, _ = hostile(Path(__file__).with_name("hostile") / "reads_the_solution_when_asked.py", {})
    (folder / "eve.ipynb").write_text(json.dumps(curious))
    line = [
        sys.executable,
        "-m",
        "utils.course",
        "grade",
        folder,
        "--lab",
        "01",
        "--out",
        tmp_path / "out",
        "--jobs",
        "1",
    ]
    return subprocess.run([*line, *options], cwd=ROOT, capture_output=True, text=True, preexec_fn=lambda: deny(*denied))


@pytest.mark.slow
def test_where_namespaces_are_denied_files_are_still_out_of_reach(tmp_path):
    done = graded_under(tmp_path, (UNSHARE,), "--strict")
    assert done.returncode == 0, done.stderr
    records = {record["student"]: record for record in gradebook.records(tmp_path / "out")}
    assert {name: record["earned"] for name, record in records.items()} == {"ada": 20, "eve": 0}
    assert records["ada"]["isolation"]["namespaces"] == "Operation not permitted"
    assert "PermissionError" in records["eve"]["checks"][0]["message"]


@pytest.mark.slow
def test_where_nothing_isolates_it_is_said_or_with_strict_refused(tmp_path):
    done = graded_under(tmp_path, (UNSHARE, LANDLOCK_CREATE))
    assert done.returncode == 0 and "not isolated" in (tmp_path / "out" / f"{LAB.stem}.csv").read_text()
    assert "not isolated" in done.stderr
    shutil.rmtree(tmp_path / "in")
    shutil.rmtree(tmp_path / "out")
    done = graded_under(tmp_path, (UNSHARE, LANDLOCK_CREATE), "--strict")
    assert done.returncode == 2 and "cannot be isolated here" in done.stderr
    assert gradebook.records(tmp_path / "out") == []
