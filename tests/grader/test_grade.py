"""The grader: full marks for solutions, none for starters, and no more than was earned for those who cheat."""

import contextlib
import csv
import ctypes
import fcntl
import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from helpers.paths import ROOT
from helpers.records import record_of, worth
from landed import not_shown, trace

from utils.course.notebooks.lab import read_lab
from utils.grader import folders, gradebook, protocol, sandbox, worker
from utils.grader import grade as grading
from utils.grader import judge as judging
from utils.grader.clock import Clock
from utils.grader.judge import Lost, RemoteAsk
from utils.grader.rules import Patience
from utils.grader.sandbox import Limits

SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
HOSTILE = sorted(Path(__file__).with_name("hostile").glob("*.py"))
LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"
WORTH = worth(read_lab(LAB))
ALL = sum(WORTH.values())
UNHURRIED = Patience(
    start=600, cell=600, question=600, own=600
)  # where the machine is busy, and time is not the matter
RULES = grading.Rules(
    seed=20_260,
    patience=UNHURRIED,
    seconds=7200,
    limits=Limits(cpu=20, memory=3 << 30, file_bytes=8 << 20, disk=64 << 20, processes=64),
)
HURRIED = Patience(start=600, cell=8, question=5)  # for those who let others wait: what is honest works far less


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
    head, *parts = re.split(r"^# %% (\S+)(?: points=(\d+))?\n", text, flags=re.M)
    cells = dict(zip(parts[::3], parts[2::3], strict=True))
    points = {name: int(given) for name, given in zip(parts[::3], parts[1::3], strict=True) if given}
    honest = re.findall(r"^# honest: (\S+)$", head, re.M)
    (earns,) = re.findall(r"^# earns: (\d+)$", head, re.M)
    book = with_cells(load(ROOT / "labs" / LAB.name), solved(*honest) | cells)
    for cell in book["cells"]:
        if cell["id"] in points:
            cell["metadata"] = {"points": points[cell["id"]]}
    return book, int(earns)


def graded(
    folder: Path, books: dict[str, dict | str], lab: Path = LAB, rules: grading.Rules = RULES
) -> dict[str, dict]:
    """student -> record, of notebooks written to folder/in, the gradebook in folder/out."""
    for student, book in books.items():
        path = folder / "in" / student / lab.name
        path.parent.mkdir(parents=True)
        path.write_text(book if isinstance(book, str) else json.dumps(book))
        os.utime(path, (0, 0))  # when it was handed in
    found = grading.grade(folder / "in", [lab], folder / "out", rules)
    return {record["student"]: record for record in found}


@pytest.mark.slow
@pytest.mark.parametrize("solutions", [[LAB], pytest.param(SOLUTIONS, marks=pytest.mark.nightly)], ids=["one", "all"])
def test_solutions_get_all_and_starters_nothing(tmp_path, solutions):
    for kind, source in (("solved", ROOT / "solutions"), ("starter", ROOT / "labs")):
        (tmp_path / "in" / kind).mkdir(parents=True)
        for lab in solutions:
            shutil.copy(source / lab.name, tmp_path / "in" / kind)
    records = grading.grade(
        tmp_path / "in", solutions, tmp_path / "out", grading.Rules(seed=4711, patience=UNHURRIED, seconds=7200)
    )
    for record in records:
        by_checks = sum(check["points"] for check in record["checks"])  # the rest is read by a person
        want = by_checks if record["student"] == "solved" else 0
        assert (record["earned"], record["problem"], record["notes"]) == (want, "", []), (
            record["lab"],
            record["checks"],
        )
    assert len(records) == 2 * len(solutions)


@pytest.mark.slow
def test_a_canary_shows_that_the_students_file_was_graded(tmp_path):
    wrong = {"code-strides": "def contiguous_strides(shape):\n    return ('canary', 4711)"}
    book = with_cells(load(LAB), wrong)
    record = graded(tmp_path, {"me": book})["me"]
    assert record["earned"] == ALL - WORTH["check-strides"] - WORTH["hidden-strides"]
    assert "'canary', 4711" in record["checks"][0]["message"]


@pytest.fixture
def alone_on_sockets():
    """While this test runs, no other one opens servers that any user may call, or looks for such on this machine."""
    with FileLock(Path(tempfile.gettempdir(), "servers-of-the-grader's-tests.lock")):
        yield


@pytest.fixture
def listeners(alone_on_sockets):
    """Servers of every kind that student code could call: (family, kind, address) -> the socket that would hear it."""
    folder, opened = Path(tempfile.mkdtemp()), {}
    folder.chmod(0o755)
    addresses = [(socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("::1", 0))]
    addresses += [(socket.AF_UNIX, f"\0grader-{os.getpid()}-"), (socket.AF_UNIX, f"{folder}/bus-")]
    for family, address in addresses:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            own = f"{address}{int(kind)}" if isinstance(address, str) else address
            server = socket.socket(family, kind)
            server.bind(own)
            server.setblocking(False)
            if isinstance(own, str) and own.startswith("/"):
                os.chmod(own, 0o777)
            if kind == socket.SOCK_STREAM:
                server.listen()
            opened[int(family), int(kind), own if isinstance(own, str) else server.getsockname()] = server
    yield opened
    for server in opened.values():
        server.close()
    shutil.rmtree(folder)


def heard(listeners: dict) -> list[tuple]:
    """Those that were called."""
    return [known for known, server in listeners.items() if select.select([server], [], [], 0)[0]]


def test_the_listeners_hear(listeners):
    assert heard(listeners) == [] and len(listeners) == 8
    for family, kind, address in listeners:
        with socket.socket(family, kind) as sock:
            sock.connect(address)
            sock.send(b"hello")
    assert heard(listeners) == list(listeners)
    for server in listeners.values():
        with contextlib.suppress(OSError):
            server.accept()[0].close()


@pytest.mark.slow
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_nobody_is_talked_into_a_grade(tmp_path, listeners, monkeypatch, every):
    monkeypatch.setenv("CANARY", "4711")
    first = graded(tmp_path / "first", {"ada": load(LAB)})["ada"]["isolation"]
    if sandbox.ON not in (first["namespaces"], first["signals"]):
        pytest.skip("nothing here keeps a submission from killing this user's processes")
    lab = read_lab(LAB)
    checks = {task.check.id: task.check.source for task in lab.tasks}
    words = {"SUBMISSIONS": repr(str(tmp_path / "in")), "HOSTS": repr(list(listeners)), "CHECKS": repr(checks)}
    hidden_line = max(lab.tasks[0].hidden.source.splitlines(), key=len).strip()
    words |= {"PREFIX": repr(folders.PREFIX), "HIDDEN_LINE": repr(hidden_line[::-1])}  # else an attack finds itself
    looked_into = ("edits_the_checks", "tells_of_what_was_hidden")
    tried = [path for n, path in enumerate(HOSTILE) if n % every == 0 or path.stem in looked_into]
    books = {path.stem: hostile(path, words) for path in tried}
    victim = with_cells(load(ROOT / "labs" / LAB.name), solved("strides", "swap"))
    books_of_all = {name: book for name, (book, _) in books.items()} | {"victim": victim}
    records = graded(tmp_path, books_of_all, rules=replace(RULES, patience=HURRIED, seconds=900))
    earned = {name: records[name]["earned"] for name in books}
    assert earned == {name: earns for name, (_, earns) in books.items()}
    dead = {
        path.stem: (lacks, trace(records[path.stem]))
        for path in tried
        if (lacks := not_shown(path, records[path.stem]))
    }
    assert dead == {}, "not carried out, or with another end than the file says"
    assert records["victim"]["earned"] == WORTH["check-strides"] + WORTH["hidden-strides"] + WORTH["check-swap"]
    assert heard(listeners) == [] and not (tmp_path / "in" / "pwned").exists()
    assert {(record["points"], len(record["checks"])) for record in records.values()} == {(ALL, len(WORTH))}
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == sorted(records)
    assert left_over(grading.users_of(os.getpid())) == []
    assert "check-strides was changed; points come from the lab's own" in records["edits_the_checks"]["notes"]
    messages = {check["check"]: check["message"] for check in records["tells_of_what_was_hidden"]["checks"]}
    assert "ValueError: 19 shapes seen" in messages["check-swap"]  # of the visible check: six three times, one once
    pages = list((tmp_path / "out" / "feedback").rglob("*.html")) + list((tmp_path / "out").glob("*.html"))
    assert len(pages) == len(records) + 1
    assert [
        page.name for page in pages if "<script" in page.read_text() or "onerror=alert(4)>" in page.read_text()
    ] == []


def left_over(users: range) -> list[int]:
    """The processes that still run of submissions that ran as these users; nobody else does."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if int(re.search(r"Uid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) in users:
                found.append(int(pid))
    return found


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
    "half a character's worth": (
        '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "\\ud800"}]}',
        "no task of",
    ),
    "deep metadata": (
        '{"nbformat": 4, "metadata": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + ', "cells": []}',
        "cannot be read",
    ),
    "numbers": ('{"nbformat": 4, "cells": ' + "9" * 10_000 + "}", "its JSON cannot be read"),
    "bytes": ("\x00\x00\x00", "its JSON cannot be read"),
    "=HYPERLINK(1)": ("<script>", "its JSON cannot be read"),
    'a\nb,"c': ("x", "its JSON cannot be read"),
    "another lab's": ((ROOT / "solutions" / "02_formats_by_their_bits.ipynb").read_text(), "is of lab 02"),
    "old and empty": (json.dumps({"nbformat": 2, "worksheets": 7}), "cannot be converted"),
}
BIG = {"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}


def load_cell(name: str) -> str:
    (cell,) = (cell for cell in load(LAB)["cells"] if cell["id"] == name)
    return "".join(cell["source"])


NOISE = "import sys\nprint('hm', file=sys.stderr)\n%matplotlib inline\n!ls"
LOSES_NOTHING = {  # what an honest student may send: it gets all points
    "no ids": without_ids(load(LAB)),
    "zoë o'neil =cmd": load(LAB),
    "..": load(LAB),
    "文" * 80: load(LAB),
    "ids twice": notebook(cells=[c | {"id": "x"} if c["id"].startswith("task") else c for c in load(LAB)["cells"]]),
    "odd metadata": notebook(metadata={"kernelspec": {"name": "evil", "language": "R"}, "colab": 7}),
    "prints to stderr": with_cells(load(LAB), {"noise": NOISE}),
    "copied cells": notebook(cells=load(LAB)["cells"] * 2),
    "syntax error elsewhere": with_cells(load(LAB), {"notes": "this is my note to myself"}),
    "50 MB of outputs": notebook(cells=[*load(LAB)["cells"], {"cell_type": "code", "source": [], "outputs": [BIG]}]),
    "half a character": with_cells(load(LAB), {"half": "print('\ud800')", "code-swap": load_cell("code-swap") + "# \udfff"}),
    "huge metadata": notebook(metadata={"widgets": {"state": ["x" * 1000] * 50_000}}),
    "odd cells": notebook(cells=[*load(LAB)["cells"], 5, None, {}, {"cell_type": "code", "metadata": [], "source": 7}]),
    "many magics": with_cells(load(LAB), {"noise": "!ls\n" * 50}),
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
        assert (records[name]["earned"], records[name]["problem"]) == (ALL, ""), (name, records[name]["checks"])
    assert records["missing"]["earned"] == records["wrong"]["earned"] == ALL - WORTH["check-swap"]
    assert "task swap was not found" in records["missing"]["notes"]
    assert records["wrong"]["raised"]["code-swap"][0][0] == "SyntaxError"
    with (tmp_path / "out" / "gradebook.csv").open(newline="") as file:
        table = list(csv.reader(file))
    assert len(table) == 1 + len(books) and {len(row) for row in table} == {3}
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
    assert [record["earned"] for record in again] == [ALL, ALL]
    changed = {path.stem for path, time in written.items() if path.stat().st_mtime_ns != time}
    assert changed == {"bob"}
    os.utime(tmp_path / "in" / "bob" / LAB.name, (0, 86400 * 365.25 * 50))  # the first copy had a wrong date
    copy = tmp_path / "out" / "feedback" / LAB.stem / f"{again[0]['key']}.ipynb"
    assert copy.read_text().count('"feedback"') > 0
    (tmp_path / "out" / LAB.stem / f"{again[0]['key']}.json").unlink()  # to have it graded again
    dates = [each["handed_in"][:7] for each in grading.grade(tmp_path / "in", [LAB], tmp_path / "out", RULES)]
    assert "1 graded, 1 unchanged" in capsys.readouterr().err
    assert dates[0] == again[0]["handed_in"][:7] and dates[1] in ("2020-01", "2019-12")
    assert copy.read_text().count('"feedback"') > 0


HOLDS = """
import time
from utils.grader import folders
with folders.submission_folder() as folder:
    (folder / "work" / "0").mkdir(parents=True)
    print(folder.name, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_and_nothing_that_is_in_use(tmp_path, monkeypatch):
    scratch, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    scratch.mkdir()
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    environment = os.environ | {"TMPDIR": str(scratch)}
    line = [sys.executable, "-c", HOLDS]
    runs = [
        subprocess.Popen(line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in ("killed", "lives")
    ]
    try:
        killed, lives = (run.stdout.readline().strip() for run in runs)
        runs[0].kill()
        runs[0].wait()
        (scratch / f"{folders.PREFIX}link").symlink_to(elsewhere)
        (scratch / f"{folders.PREFIX}notes").write_text("")
        (scratch / "grading-of-last-year").mkdir()
        Path(tempfile.mkdtemp(prefix=folders.PREFIX))  # of one that was killed before it could lock it
        kept = {lives, f"{folders.PREFIX}link", f"{folders.PREFIX}notes", "grading-of-last-year"}
        with folders.submission_folder() as own:
            assert killed in os.listdir(scratch) and len(os.listdir(scratch)) == len(kept) + 3
            folders.remove_abandoned()
            assert set(os.listdir(scratch)) == kept | {own.name}
        assert set(os.listdir(scratch)) == kept
        assert os.listdir(scratch / lives / "work") == ["0"] and os.listdir(elsewhere) == ["thesis.tex"]
    finally:
        for run in runs:
            run.kill()
            run.communicate()


@pytest.mark.parametrize("moment", [(tempfile, "mkdtemp"), (fcntl, "flock")], ids=["made", "opened"])
def test_a_folder_taken_for_abandoned_before_it_was_locked_is_not_used(tmp_path, monkeypatch, moment):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner, name = moment
    real, gone = getattr(owner, name), []

    def meanwhile(*given, **named):
        made = real(*given, **named) if owner is tempfile else None
        if not gone:  # another run comes by
            gone.extend(os.listdir(tmp_path))
            folders.remove_abandoned()
        return made or real(*given, **named)

    monkeypatch.setattr(owner, name, meanwhile)
    with folders.submission_folder() as folder:
        assert len(gone) == 1 and os.listdir(tmp_path) == [folder.name] != gone
        folders.remove_abandoned()
        assert folder.exists()
    assert os.listdir(tmp_path) == []


def files_of(folder: Path) -> dict[Path, bytes]:
    """All files under it, without the one thing that differs from run to run: its time, in the tables for Moodle."""
    found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    dated = {
        path: re.sub(rb",20\d\d-[-+:\dT]+,", b",TIME,", text) for path, text in found.items() if ".moodle" in path.name
    }
    return found | dated


@pytest.mark.nightly
@pytest.mark.slow
def test_killed_at_any_moment_no_grade_is_lost_and_none_made_twice(tmp_path, shared):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(8):
        book = with_cells(load(ROOT / "labs" / LAB.name), solved("strides") | {"mine": f"number = {number}"})
        (folder / f"student{number}.ipynb").write_text(json.dumps(book))
    line = [sys.executable, "-m", "utils.course", "grade", folder, "--lab", "01", "--seed", "7", "--jobs", "1", "--out"]
    at_once = [*line, tmp_path / "at once"]
    line.append(out)
    environment = os.environ | {"TMPDIR": str(shared)}
    finished: dict[str, bytes] = {}
    users: list[range] = []
    for target in (1, 3, 6):  # killed when there are so many grades
        run = subprocess.Popen(line, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
        users.append(grading.users_of(run.pid))
        while len(records := list((out / LAB.stem).glob("*.json"))) < target and run.poll() is None:
            time.sleep(0.005)
        run.kill()
        run.wait()
        for path in records:
            text = path.read_bytes()
            assert finished.setdefault(path.name, text) == text
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
    graded_now, unchanged = map(int, re.search(r"(\d+) graded, (\d+) unchanged", done.stderr).groups())
    assert graded_now + unchanged == 8 and unchanged >= 6
    assert [record["earned"] for record in gradebook.records(out)] == [2] * 8
    assert all((out / LAB.stem / name).read_bytes() == text for name, text in finished.items())
    subprocess.run(at_once, cwd=ROOT, env=environment, check=True, capture_output=True)
    assert files_of(out) == files_of(tmp_path / "at once") and len(files_of(out)) > 3 * 8
    until = time.monotonic() + 30
    while any(map(left_over, users)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(left_over, users))
    assert list(shared.glob(f"{folders.PREFIX}*")) == []


def test_where_nothing_is_new_nothing_heavy_is_imported_and_no_page_is_written(tmp_path):
    """A gradebook as a run leaves it, and the same command again."""
    book, out = tmp_path / "in" / "eve.ipynb", tmp_path / "out"
    book.parent.mkdir()
    shutil.copy(LAB, book)
    record = record_of(read_lab(LAB), file=book.name, submission_sha256=hashlib.sha256(book.read_bytes()).hexdigest())
    gradebook.write_record(out, record | {"checks_sha256": grading.checks_digest(read_lab(LAB))})
    heavy = ["torch", "matplotlib", "jinja2", "nbconvert", "bs4"]
    program = (
        "import sys; from utils.course.__main__ import main; code = main(sys.argv[1:]); "
        f"sys.exit(code or ' '.join(name for name in {heavy} if name in sys.modules))"
    )
    line = [sys.executable, "-c", program, "grade", str(book.parent), "--lab", "01", "--out", str(out)]
    runs = []
    for _ in range(2):
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
        pages = {path: path.stat().st_mtime_ns for path in out.rglob("*.html")}
        runs.append((done.stderr.splitlines()[-1], pages))
        assert "0 graded, 1 unchanged" in done.stderr
    (first, written), (second, kept) = runs
    assert "jinja2" in first.split() and len(written) == 2, "the first run writes the pages"
    assert second == "" and kept == written


def test_the_digest_of_checks_has_all_that_decides_a_grade(monkeypatch):
    lab = read_lab(LAB)
    digests = {grading.checks_digest(lab)}
    for name in grading.GRADING_MODULES:
        monkeypatch.setattr(grading, "GRADING_MODULES", [other for other in grading.GRADING_MODULES if other != name])
        digests.add(grading.checks_digest(lab))
        monkeypatch.undo()
    for part in ("tasks", "others"):
        digests.add(grading.checks_digest(replace(lab, **{part: getattr(lab, part)[:-1]})))
    first, *others = lab.tasks
    digests.add(
        grading.checks_digest(replace(lab, tasks=(replace(first, code=replace(first.code, source="")), *others)))
    )
    assert len(digests) == 1 + len(grading.GRADING_MODULES) + 3


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
    assert kept["points"] == ALL and "--regrade" in capsys.readouterr().err
    (anew,) = grading.grade(tmp_path / "in", [lab], tmp_path / "out", RULES, regrade=True)
    assert anew["points"] == anew["earned"] == ALL - WORTH["check-strides"] + 5
    text = {"cell_type": "markdown", "metadata": {}, "source": "## Why?\n\n1 point: `why`."}
    asked = [text | {"id": "question-why"}, text | {"id": "written-why", "metadata": {"points": 3}}]
    lab.write_text(json.dumps(book | {"cells": [*book["cells"], *asked]}))
    page = (tmp_path / "out" / "feedback" / lab.stem / f"{anew['key']}.html").read_bytes()
    assert grading.grade(tmp_path / "in", [lab], tmp_path / "out", RULES) == [anew]
    assert page == (tmp_path / "out" / "feedback" / lab.stem / f"{anew['key']}.html").read_bytes()
    (asked,) = grading.grade(tmp_path / "in", [lab], tmp_path / "out", RULES, regrade=True)
    assert [answer["name"] for answer in asked["written"]] == ["why"]


@pytest.mark.slow
def test_same_submission_same_seed_same_record(tmp_path):
    books = {
        "ada": load(LAB),
        "bob": with_cells(load(LAB), {"code-swap": "def swapped(x, a, b):\n    return torch.rand(3)"}),
    }
    texts = []
    for number in (1, 2):
        graded(tmp_path / str(number), books)
        texts.append(files_of(tmp_path / str(number) / "out"))
    assert texts[0] == texts[1] and len(texts[0]) >= 8


# The whole notebook, run


@pytest.mark.slow
def test_the_notebook_is_run_in_the_same_sandbox(tmp_path):
    spy = f"print(sum(range(10)))\nopen({str(LAB)!r}).read()"
    rules = replace(RULES, notebook=True, limits=replace(RULES.limits, cpu=120))
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(with_cells(load(LAB), {"other": "# of another student"})))
    link = f"import os\nos.unlink('executed.ipynb')\nos.symlink({str(secret)!r}, 'executed.ipynb')"
    books = {
        "ada": load(LAB),
        "eve": with_cells(load(LAB), {"spy": spy}),
        "link": with_cells(load(LAB), {"link": link}),
    }
    graded(tmp_path, books, rules=rules)
    pages = tmp_path / "out" / "feedback" / LAB.stem
    # Whoever reads what came of it may read more than the student: the copy is then of what was handed in.
    assert [cell["outputs"] for cell in load(pages / "link.ipynb")["cells"] if cell.get("outputs")] == []
    assert "another student" not in (pages / "link.ipynb").read_text()
    ran = {name: load(pages / f"{name}.ipynb")["cells"] for name in ("ada", "eve")}
    outputs = {cell["id"]: cell["outputs"] for cell in ran["ada"] if cell["cell_type"] == "code"}
    assert outputs["check-strides"][0]["text"] == ["Strides: right for seven shapes.\n"]
    assert not [output for each in outputs.values() for output in each if output["output_type"] == "error"]
    said, error = next(cell for cell in ran["eve"] if cell["id"] == "spy")["outputs"]
    assert "".join(said["text"]).strip() == "45" and error["ename"] in ("PermissionError", "FileNotFoundError")


# What a worker says


FORGED = {
    "another number": lambda number: {"number": number + 1, "value": 1},
    "a text": lambda number: {"number": str(number), "value": 1},
    "no number": lambda number: {"value": 1},
    "no answer": lambda number: {"number": number},
    "two answers": lambda number: {"number": number, "value": 1, "raised": (("ValueError",), "")},
    "a list": lambda number: [number, 1],
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_reply_counts_only_in_its_form_and_with_its_number(forged):
    ours, theirs = socket.socketpair()
    ask = RemoteAsk(lambda: ours, None, "secret", UNHURRIED, time.monotonic() + 600, Clock())
    for make in (lambda number: {"number": number, "value": 1}, FORGED[forged]):
        ask.worker = ours
        said = threading.Thread(
            target=lambda make=make: protocol.send(theirs, make(protocol.receive(theirs)["number"]))
        )
        said.start()
        if make is FORGED[forged]:
            with pytest.raises(Lost, match="it answered something else"):
                ask("1")
        else:
            assert ask("1").value == 1
        said.join()
    assert ask.worker is None
    theirs.close()


@pytest.mark.parametrize(
    "said", [5, None, "x", (), ["E", "t"], ("E", "t"), ((), "t"), (("E",),), (("E",), "t", "u"), {"a": 1}]
)
def test_what_was_raised_is_told_in_its_form_whatever_came(said):
    assert judging._exception_reported(said) == (("RuntimeError",), "an exception that did not say what it is")
    kinds, text = judging._exception_reported((("E", 5) * 1000, 7))
    assert len(kinds) == 10 and set(kinds) == {"E", "5"} and text == "7"


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


ORDINARY = 1_800_000_000 + os.getpid()  # a user that nobody is


def show_again(needed: list[Path]) -> None:
    """A folder that only root may enter is replaced by one that has nothing but what is `needed` of it."""
    inside: dict[Path, list[Path]] = {}
    for path in needed:
        private = next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)
        if private:
            inside.setdefault(private, []).append(path)
    for private, paths in inside.items():
        held = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths]
        sandbox._mount("tmpfs", private, "tmpfs", sandbox.MS_NOSUID | sandbox.MS_NODEV, "mode=755")
        for path, handle in zip(paths, held, strict=True):
            path.mkdir(parents=True)
            sandbox._mount(f"/proc/self/fd/{handle}", path, "", sandbox.MS_BIND | sandbox.MS_REC)
            os.close(handle)


def become_ordinary(*needed: Path) -> None:
    """From here on an ordinary user, to whom an interpreter in root's home is shown all the same."""
    assert sandbox.libc.unshare(sandbox.CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    sandbox._mount("none", Path("/"), "", sandbox.MS_REC | sandbox.MS_PRIVATE)
    show_again([path.resolve() for path in needed])
    os.setgroups([])
    os.setresgid(ORDINARY, ORDINARY, ORDINARY)
    os.setresuid(ORDINARY, ORDINARY, ORDINARY)


@pytest.fixture
def shared():
    """A folder that any user may enter: pytest's own are this user's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folders.remove(folder)


def drop_the_capability_of_mounting() -> None:
    """As in a container: root may have a namespace of users, and mount there, but none of another kind here."""
    assert sandbox.libc.prctl(24, 21, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())  # for what is executed from here


def graded_under(
    folder: Path, names: list[str], denied: tuple[int, ...], *options: str, ordinary: bool = False, mapped: bool = True
):
    """The command line on an honest submission and these hostile ones, where these system calls are denied.

    mapped: whether a user may map its number in a namespace of its own, and root mount at all.
    """
    source = folder / "in"
    source.mkdir()
    (source / "ada.ipynb").write_text(LAB.read_text())
    for name in names:
        book, _ = hostile(HOSTILE[0].with_name(f"{name}.py"), {"HOSTS": repr(CALLED)})
        (source / f"{name}.ipynb").write_text(json.dumps(book))
    if ordinary:
        for path in [folder, source, *source.iterdir()]:
            os.chown(path, ORDINARY, ORDINARY)
    line = [sys.executable, "-m", "utils.course", "grade", source, "--lab", "01", "--out", folder / "out"]

    def prepared():
        if ordinary:
            become_ordinary(Path(sys.prefix), Path(sys.base_prefix), ROOT, folder)
        if not mapped:
            deny_the_map_of_numbers() if ordinary else drop_the_capability_of_mounting()
        deny(*denied)

    environment = {name: value for name, value in os.environ.items() if not name.startswith("COURSE_DATA")}
    environment |= {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        [*line, "--jobs", "1", *options], cwd=ROOT, env=environment, preexec_fn=prepared, **pipes
    ) as run:
        said = run.communicate()
    users = range(ORDINARY, ORDINARY + 1) if ordinary else grading.users_of(run.pid)
    return subprocess.CompletedProcess(run.args, run.returncode, *said), users


CALLED = [(int(socket.AF_INET), 0, ("127.0.0.1", 9)), (int(socket.AF_INET), 0, ("198.51.100.7", 53))]
CAGED = ["reads_the_solution_when_asked", "calls_home", "outlives_its_cell", "deep_folders", "reads_proc",
         "looks_into_other_processes", "memory_that_nobody_counts", "new_namespaces", "reads_its_own_memory",
         "a_name_that_is_no_text", "signals_all", "stops_its_keeper", "watches_its_neighbours", "becomes_root",
         "a_network_link", "full_pipes", "poisons_bytecode", "takes_back_the_clock", "more_processes",
         "limits_of_others", "owner_of_a_pipe"]  # fmt: skip


def deny_the_map_of_numbers() -> None:
    """Nothing under /proc can be written from now on, such as the map of a user namespace: a Landlock rule set."""
    create, add, restrict = 444, 445, 446
    writing = 1 << 1 | 1 << 13  # and moving, which every rule set denies that does not name it
    ruleset = sandbox.libc.syscall(create, struct.pack("Q", writing), 8, 0)
    for path in Path("/").iterdir():
        if path.name != "proc":
            handle = os.open(path, os.O_PATH)
            sandbox.libc.syscall(add, ruleset, 1, struct.pack("=Qi", writing, handle), 0)
            os.close(handle)
    sandbox.libc.prctl(38, 1, 0, 0, 0)
    assert sandbox.libc.syscall(restrict, ruleset, 0) == 0, os.strerror(ctypes.get_errno())


ENVIRONMENTS = {  # name: (an ordinary user, denied calls, whether a user may map its number, what is said of namespaces)
    "denied": (False, (UNSHARE,), True, "Operation not permitted"),
    "root of a container": (False, (), False, "Operation not permitted"),
    "user": (True, (), True, "on"),
    "user, denied": (True, (UNSHARE,), True, "Operation not permitted"),
    "user, no map": (True, (), False, "Permission denied: '/proc/self/"),
    "user, neither namespaces nor Landlock": (True, (UNSHARE, LANDLOCK_CREATE), True, "Operation not permitted"),
}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.usefixtures("alone_on_sockets")
def test_the_cage_holds_for_any_user_and_where_namespaces_are_denied(shared, environment):
    ordinary, denied, mapped, namespaces = ENVIRONMENTS[environment]
    if ordinary and os.getuid() != 0:
        pytest.skip("not root here: the other cases are an ordinary user's")
    alone, locked = namespaces == "on", LANDLOCK_CREATE not in denied
    names = CAGED if locked else ["signals_all", "stops_its_keeper", "a_name_that_is_no_text", "becomes_root"]
    strict = ["--strict"] if alone else []
    done, users = graded_under(shared, names, denied, *strict, ordinary=ordinary, mapped=mapped)
    assert done.returncode == 0, done.stderr
    records = {record["student"]: record for record in gradebook.records(shared / "out")}
    earned = {name: record["earned"] for name, record in records.items()}
    wanted = {name: hostile(HOSTILE[0].with_name(f"{name}.py"), {"HOSTS": "[]"})[1] for name in names} | {"ada": ALL}
    assert earned.pop("deep_folders", 0) <= wanted.pop("deep_folders", 0)  # it may be ended while it is asked
    assert earned == wanted
    isolation = records["ada"]["isolation"]
    assert namespaces in isolation["namespaces"] and isolation["signals"] == isolation["calls"] == "on"
    assert (isolation["files"] == "on") == locked and (isolation["network"] == "on") == alone
    said = "isolated, as tried here: files, network, signals, processes" if alone else "NOT ISOLATED here: "
    assert said in done.stderr and (" processes: " not in done.stderr)
    assert left_over(users) == [] and not list(shared.glob(f"{folders.PREFIX}*"))
    if not alone:
        shutil.rmtree(shared / "in")
        done, _ = graded_under(shared, [], denied, "--strict", "--regrade", ordinary=ordinary, mapped=mapped)
        refused = done.returncode == 2 and "cannot be isolated here" in done.stderr
        assert refused or "0 graded, 1 unchanged" in done.stderr, done.stderr


def test_what_isolates_is_told_as_it_is():
    on = {"namespaces": "on", "mounts": "on", "calls": "on", "files": "on", "network": "on"}
    off = on | {"namespaces": "denied", "mounts": "denied"}
    assert sandbox.network_of(on) == "on"
    assert "whom their modes allow" in sandbox.network_of(off)
    assert sandbox.network_of(off | {"calls": "denied"}) == "UDP is open"  # Landlock alone knows TCP only
    assert sandbox.network_of(off | {"calls": "denied", "network": "too old"}) == "too old"
    assert sandbox.files_of(on, [Path("/usr")], [Path("/usr/local/course/solutions")]) == "on"
    assert "lies in what it may read" in sandbox.files_of(off, [Path("/usr")], [Path("/usr/local/course/solutions")])
    assert sandbox.files_of(off, [Path("/usr")], [Path("/home/course/solutions")]) == "on"


# What the kernel limits for each process alone is counted for all that a submission has started


BUSY = """
import os, sys, time
children = [os.fork() for _ in range(2)]
hoard = b"x" * (60 << 20)
while time.process_time() < 0.3:
    pass
sys.stdout.write(".")
sys.stdout.flush()
time.sleep(600)
"""


def test_the_processes_of_a_submission_share_its_limits(tmp_path):
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, start_new_session=True) as run:
        try:
            assert run.stdout.read(4) == b"...."  # each has used its time and its memory

            assert len(worker._family(run.pid)) == 4  # two forks make four of one
            used = worker._used(run.pid, {}, own_network=False)
            assert used.cpu > 1.1 and 4 * (60 << 20) < used.memory < 1 << 30
        finally:
            os.killpg(run.pid, signal.SIGKILL)
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    assert 1 << 20 <= worker._bytes_in(tmp_path) < 2 << 20


LOOPS = """
import os, socket, sys
from pathlib import Path
from utils.grader import clock, protocol, grade, sandbox, worker
ours, theirs = socket.socketpair()
cage = sandbox.Cage(Path(sys.argv[1]), tuple(grade._readable(None)), (), sandbox.Limits(), int(sys.argv[2]), {})
keeper = worker.start(cage, theirs, sandbox.namespaces_denied(), clock.Clock())
theirs.close()
protocol.receive(ours)
protocol.send(ours, {"cells": [("mine", "while True: pass")], "given": {}, "number": 1}, 600)
assert protocol.receive(ours) == {"begun": "mine"}
print(*worker._family(keeper.pid), flush=True)
input()
"""


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["the keeper", "who started the keeper"])
def test_a_worker_ends_with_its_keeper_and_the_keeper_with_who_started_it(shared, killed):
    (shared / "work").mkdir()
    line = [sys.executable, "-c", LOOPS, shared / "work", str(grading.users_of(os.getpid())[0])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(line, cwd=ROOT, **pipes) as run:
        keeper, loops = (os.pidfd_open(pid) for pid in map(int, run.stdout.readline().split()))
        try:
            if killed == "the keeper":
                signal.pidfd_send_signal(keeper, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(keeper, signal.SIGSTOP)  # which hears nothing now: the kernel has to end it
                run.kill()
            assert select.select([keeper], [], [], 30)[0] and select.select([loops], [], [], 30)[0]
        finally:
            run.kill()
            for process in (loops, keeper):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                os.close(process)


@pytest.mark.slow
def test_folders_are_measured_and_removed_however_deep_they_are(shared):
    top = shared / "top"
    top.mkdir()
    depth = os.open(top, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("deep", dir_fd=depth)
        inner = os.open("deep", os.O_RDONLY, dir_fd=depth)
        os.close(depth)
        depth = inner
    os.fchmod(depth, 0)
    os.close(depth)
    (top / "wide").mkdir()
    for number in range(50):
        (top / "wide" / str(number)).mkdir(mode=0o000)
    (top / "link").symlink_to(shared / "stays")
    (shared / "stays").mkdir()
    assert worker._bytes_in(top) == sys.maxsize  # what lies deeper than a path can be long is not to be hidden
    assert worker._bytes_in(shared / "stays") == 0
    folders.remove(top)
    assert [path.name for path in shared.iterdir()] == ["stays"]


@pytest.mark.slow
def test_when_the_time_is_up_what_was_reached_counts(tmp_path):
    book, _ = hostile(HOSTILE[0].with_name("endless_loop_in_a_task.py"), {})
    limits = replace(RULES.limits, cpu=1000)
    rules = replace(RULES, seconds=12, limits=limits, patience=UNHURRIED)
    record = graded(tmp_path, {"eve": book}, rules=rules)["eve"]
    earned = {check["check"]: check["earned"] for check in record["checks"] if check["earned"]}
    assert earned == {"check-strides": 1}  # the loop is in the next task, and hidden checks are run last
    assert (record["earned"], record["problem"]) == (1, "")
    late = {
        check["check"] for check in record["checks"] if "the time for one submission is used up" in check["message"]
    }
    assert late == {check["check"] for check in record["checks"]} - set(earned)


@pytest.mark.slow
def test_inputs_are_drawn_anew_for_each_class_and_each_submission(tmp_path):
    told = {"code-swap": "def swapped(x, a, b):\n    raise ValueError(x.flatten()[:3].tolist())"}
    books = {"ada": with_cells(load(LAB), told), "bob": with_cells(load(LAB), told | {"mine": "0"})}
    drawn = []
    for seed in (1, 2):
        records = graded(tmp_path / str(seed), books, rules=replace(RULES, seed=seed))
        drawn += [
            check["message"]
            for record in records.values()
            for check in record["checks"]
            if check["check"] == "check-swap"
        ]
    assert len(set(drawn)) == 4 and all("ValueError: [" in message for message in drawn)
    seeds = {grading.class_seed(tmp_path / name) for name in ("a", "b", "c")}
    assert len(seeds) == 3 and grading.class_seed(tmp_path / "a") in seeds and max(seeds) > 1 << 128


@pytest.mark.slow
def test_where_nothing_isolates_it_is_said_or_with_strict_refused(shared):
    done, _ = graded_under(shared, [], (UNSHARE, LANDLOCK_CREATE))
    assert done.returncode == 0 and "not isolated" in (shared / "out" / f"{LAB.stem}.csv").read_text()
    assert "not isolated" in done.stderr
    shutil.rmtree(shared / "in")
    shutil.rmtree(shared / "out")
    done, _ = graded_under(shared, [], (UNSHARE, LANDLOCK_CREATE), "--strict")
    assert done.returncode == 2 and "cannot be isolated here" in done.stderr
    assert gradebook.records(shared / "out") == []


# On a cluster


CLUSTER = """
import sys
import distributed
from utils.course.__main__ import main

if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        sys.exit(main([*sys.argv[1:], "--cluster", cluster.scheduler_address]))
"""


@pytest.mark.slow
def test_the_workers_of_a_cluster_make_the_same_gradebook_byte_for_byte(tmp_path):
    pytest.importorskip("dask", reason="Dask is not installed: tests/grader/cluster/requirements.txt")
    (tmp_path / "in").mkdir()
    for number in range(4):
        book = with_cells(load(LAB), {"mine": f"number = {number}"} | ({} if number else {"code-swap": "1 / 0"}))
        (tmp_path / "in" / f"student{number}.ipynb").write_text(json.dumps(book))
    (tmp_path / "cluster.py").write_text(CLUSTER)
    options = ["grade", tmp_path / "in", "--lab", "01", "--seed", "7", "--out"]
    texts = []
    for name, line in (("here", ["-m", "utils.course"]), ("there", [tmp_path / "cluster.py"])):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        line = [sys.executable, *line, *options, tmp_path / name]
        done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "4 graded" in done.stderr, done.stderr
        texts.append(files_of(tmp_path / name))
    assert texts[0] == texts[1] and len(texts[0]) >= 12
    assert [record["earned"] for record in gradebook.records(tmp_path / "there")] == [
        ALL - WORTH["check-swap"],
        ALL,
        ALL,
        ALL,
    ]
