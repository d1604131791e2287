"""A submission costs nobody else anything, a busy machine costs nobody points, and nothing is earned without a solution."""

import ast
import contextlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.paths import ROOT
from helpers.records import record_of, worth

from utils.course.__main__ import main
from utils.course.notebooks.lab import read_lab
from utils.course.notebooks.notebook import text_of
from utils.course.notebooks.tidy import POINTS
from utils.grader import (
    copied_cells,
    decisions,
    folders,
    gradebook,
    judge,
    probe,
    protocol,
    roster,
    sandbox,
    similar,
    worker,
)
from utils.grader import grade as grading
from utils.grader.rules import Patience
from utils.grader.submission import ELSEWHERE, Submission, read_submission
from utils.lab import Ask

SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"
WORTH = worth(read_lab(LAB))
ALL = sum(WORTH.values())
RULES = grading.Rules(seed=7)
UNSHARES = pytest.mark.skipif(bool(sandbox.namespaces_denied()), reason="there are no namespaces of one's own here")


def book_of(path: Path, changes: dict[str, str] | None = None) -> dict:
    """The notebook with these cells' sources."""
    book = json.loads(path.read_text())
    cells = [cell | {"source": (changes or {}).get(cell["id"], cell["source"])} for cell in book["cells"]]
    return book | {"cells": cells}


def hand_in(folder: Path, books: dict[str, dict]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for student, book in books.items():
        (folder / f"{student}.ipynb").write_text(json.dumps(book))
    return folder


# The clock


SPINS = """
import socket, sys, time
from pathlib import Path
from utils.grader import clock, grade, protocol, sandbox, worker
ours, theirs = socket.socketpair()
cage = sandbox.Cage(Path(sys.argv[1]), tuple(grade._readable(None)), (), sandbox.Limits(), int(sys.argv[2]), {})
watch = clock.Clock()
keeper = worker.start(cage, theirs, sandbox.namespaces_denied(), watch)
theirs.close()
protocol.receive(ours)
protocol.send(ours, {"cells": [("mine", sys.argv[3])], "given": {}, "number": 1}, 600)
assert protocol.receive(ours) == {"begun": "mine"}
before, begun = watch.read(), time.monotonic()
time.sleep(4)
print(watch.read() - before, time.monotonic() - begun, flush=True)
keeper.end()
"""


@pytest.mark.nightly  # other tests would wait for that core too
@pytest.mark.slow
def test_a_busy_machine_stops_the_clock_and_a_sleep_does_not(tmp_path):
    """One core, shared with six others: the submission gets a seventh of the time, and is told no more than that."""
    core = {min(os.sched_getaffinity(0))}
    told = {}
    for name, source, others in (("busy", "while True: pass", 6), ("asleep", "import time; time.sleep(600)", 0)):
        work = tmp_path / name
        work.mkdir(mode=0o755)
        spinners = [
            subprocess.Popen(
                [sys.executable, "-S", "-c", "while True: pass"],
                preexec_fn=lambda: os.sched_setaffinity(0, core),
                start_new_session=True,  # the scheduler divides by sessions
            )
            for _ in range(others)
        ]
        try:
            line = [sys.executable, "-c", SPINS, work, str(grading.users_of(os.getpid())[0]), source]
            done = subprocess.run(
                line,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
                preexec_fn=lambda: os.sched_setaffinity(0, core),
            )
            told[name] = tuple(map(float, done.stdout.split()))
        finally:
            for spinner in spinners:
                spinner.kill()
                spinner.wait()
    clock, wall = told["busy"]
    assert clock < wall / 3, "a seventh of the core, and some noise"
    clock, wall = told["asleep"]
    assert clock > wall / 2, "who sleeps is at work: nobody waits for ever"


def test_what_was_lost_to_the_clock_or_to_the_grader_is_tried_again_alone(tmp_path, monkeypatch, capsys):
    source = hand_in(tmp_path / "in", {"ada": book_of(LAB), "bob": book_of(LAB)})
    asked: list[str] = []
    fine = {"verdicts": [], "isolation": dict.fromkeys(sandbox.LAYERS, "on")}

    def answer(raw, *_):
        asked.append(raw)
        return {"failed": "no process could be started"} if len(asked) < 3 else fine

    monkeypatch.setattr(grading, "grade_one", answer)
    monkeypatch.setattr(grading, "try_sandbox", lambda *_: {"did": {}, "isolation": fine["isolation"]})
    records = grading.grade(source, [LAB], tmp_path / "out", RULES, jobs=1)
    assert len(asked) == 4 and [record["failed"] for record in records] == ["", ""]
    asked.clear()
    monkeypatch.setattr(grading, "grade_one", lambda *_: asked.append("") or {"failed": "the machine fell asleep"})
    for _ in range(2):  # such a record is never taken for graded
        records = grading.grade(source, [LAB], tmp_path / "again", RULES, jobs=1)
        assert [record["failed"] for record in records] == ["the machine fell asleep"] * 2
    assert len(asked) == 8 and "by the grader's own fault" in capsys.readouterr().err
    assert "these are no zeros" in (tmp_path / "again" / "feedback" / LAB.stem / "ada.html").read_text().lower()


ENDS = """
import os, signal, socket, sys
from pathlib import Path
from utils.grader import clock, grade, protocol, sandbox, worker
limits = sandbox.Limits(cpu=2)
for number, code in enumerate(("__import__('time').sleep(600)", "[0 for _ in iter(int, 1)]", "__import__('os')._exit(3)")):
    ours, theirs = socket.socketpair()
    work = Path(sys.argv[1], str(number))
    work.mkdir()
    cage = sandbox.Cage(work, tuple(grade._readable(None)), (), limits, int(sys.argv[2]), {})
    watch = clock.Clock()
    keeper = worker.start(cage, theirs, sandbox.namespaces_denied(), watch)
    theirs.close()
    protocol.receive(ours)
    protocol.send(ours, {"code": code, "inputs": {}, "number": 1}, 60)
    if "sleep" in code:
        os.kill(min(pid for pid in worker._family(keeper.pid) if pid != keeper.pid), signal.SIGKILL)
    try:
        protocol.receive(ours)
    except protocol.Broken:
        keeper.end(60)
    print(watch.killed())
"""


def test_who_is_killed_from_outside_is_told_from_who_uses_too_much_or_ends(tmp_path):
    tmp_path.chmod(0o755)
    line = [sys.executable, "-c", ENDS, tmp_path, str(grading.users_of(os.getpid())[0])]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False", "False"], done.stderr


def a_conversation(**of_the_clock) -> judge.RemoteAsk:
    """With no worker, and a clock that says this."""
    watch = SimpleNamespace(**{"read": lambda: 0.0, "killed": lambda: False} | of_the_clock)
    cells = (("given-setup", ""), ("mine", ""), ("code-swap", ""), ("helper", ""), ("longest", ""))
    submission = Submission(cells, {}, {"swap": "", ELSEWHERE: ""})
    return judge.RemoteAsk(None, submission, "", Patience(), time.monotonic() + 600, watch)


def test_who_sleeps_the_time_away_is_not_asked_again_and_who_waits_is():
    for worked, again in ((90.0, False), (30.0, True)):
        ask = a_conversation(read=lambda worked=worked: worked)
        ask.begun, ask.late = time.monotonic() - 100, True
        assert ask.may_get_further() == again
    assert a_conversation(killed=lambda: True).may_get_further() and not a_conversation().may_get_further()


def test_the_longest_of_the_cells_of_ones_own_is_left_out_where_they_need_too_much_together(monkeypatch):
    now = [0.0]
    ask = a_conversation(read=lambda: now[0])
    took = {"mine": 55.0, "code-swap": 50.0, "helper": 1.0, "longest": 70.0}

    def runs(worker, name):
        now[0] += took.get(name, 0.0)

    monkeypatch.setattr(ask, "_run_one", runs)
    monkeypatch.setattr(protocol, "send", lambda *_: None)
    monkeypatch.setattr(ask, "_number", lambda: 7)
    monkeypatch.setattr(protocol, "receive", lambda *_: {"number": 7})
    ask.new_worker = lambda: SimpleNamespace(close=lambda: None)
    ask.begin()
    assert list(ask.skipped) == ["longest"] and "take too long together" in ask.skipped["longest"]


DUE = 'lab,student,what,value,reason\n01,*,deadline,2026-11-20 12:00,\n01,*,late,"10% a day, at most 50%",\n'
IN_TIME, TOO_LATE = 1_795_000_000, 1_795_400_000  # 18 and 23 November 2026


@pytest.fixture
def right_at_once(monkeypatch):
    """A grader that takes every submission for right in all checks, and runs none."""
    isolation = dict.fromkeys(sandbox.LAYERS, "on")
    code = {task.name: task.code.source for task in read_lab(LAB).tasks}
    said = {"verdicts": record_of(read_lab(LAB))["checks"], "isolation": isolation, "code": code}
    monkeypatch.setattr(grading, "grade_one", lambda *_: said)
    monkeypatch.setattr(grading, "try_sandbox", lambda *_: {"did": {}, "isolation": isolation})


@pytest.mark.usefixtures("right_at_once")
def test_a_copy_of_the_folder_makes_nobody_late(tmp_path, capsys):
    source, out = hand_in(tmp_path / "in", {"ada": book_of(LAB), "bob": book_of(LAB)}), tmp_path / "out"
    out.mkdir()
    (out / decisions.NAME).write_text(DUE)
    seen = []
    for date in (IN_TIME, TOO_LATE, IN_TIME - 86_400):
        for path in source.iterdir():
            os.utime(path, (date, date))
        seen.append([(r["earned"], r["handed_in"]) for r in grading.grade(source, [LAB], out, RULES)])
    first, copied, earlier = seen
    assert first == copied and [earned for earned, _ in first] == [ALL, ALL]
    assert {when for _, when in earlier} == {roster._date_of(source / "ada.ipynb")}, (
        "an earlier date is nearer the truth"
    )
    grading.grade(source, [LAB], out, RULES, regrade=True)
    assert "late now" not in capsys.readouterr().err


@pytest.mark.usefixtures("right_at_once")
def test_who_has_become_late_since_the_last_run_is_named(tmp_path, capsys):
    source, out = hand_in(tmp_path / "in", {"ada": book_of(LAB), "bob": book_of(LAB)}), tmp_path / "out"
    for path in source.iterdir():
        os.utime(path, (IN_TIME, IN_TIME))
    out.mkdir()
    (out / decisions.NAME).write_text(DUE)
    grading.grade(source, [LAB], out, RULES)
    (source / "bob.ipynb").write_text(json.dumps(book_of(LAB) | {"metadata": {}}))
    os.utime(source / "bob.ipynb", (TOO_LATE, TOO_LATE))
    assert "late now" not in capsys.readouterr().err
    ada, bob = grading.grade(source, [LAB], out, RULES)
    assert (ada["earned"], bob["earned"]) == (ALL, ALL - ALL * 30 // 100), "the third day has begun"
    said = capsys.readouterr().err
    assert f"{LAB.stem}: late now, and not in the last run: bob" in said
    grading.grade(source, [LAB], out, RULES)
    assert "late now" not in capsys.readouterr().err


@pytest.mark.usefixtures("right_at_once")
def test_points_that_a_person_gave_for_an_earlier_notebook_are_named_when_another_comes(tmp_path, capsys):
    source, out = hand_in(tmp_path / "in", {"ada": book_of(LAB), "bob": book_of(LAB)}), tmp_path / "out"
    grading.grade(source, [LAB], out, RULES)
    (out / decisions.NAME).write_text("lab,student,what,value,reason\n01,bob,swap,0,copied\n")
    grading.grade(source, [LAB], out, RULES)
    assert "earlier notebook" not in capsys.readouterr().err
    hand_in(source, {"bob": book_of(LAB) | {"metadata": {}}, "ada": book_of(LAB) | {"metadata": {}}})
    grading.grade(source, [LAB], out, RULES)
    assert f"for an earlier notebook, and that still hold: bob ({LAB.stem}: swap)\n" in capsys.readouterr().err


def test_what_changed_since_the_run_began_is_not_graded(tmp_path):
    (found,) = roster.hand_ins(hand_in(tmp_path / "in", {"ada": book_of(LAB)}), [read_lab(LAB)])
    assert grading._read_as_found(found) == found.read()
    hand_in(tmp_path / "in", {"ada": book_of(LAB) | {"metadata": {}}})
    with pytest.raises(ValueError, match="it has changed since the run began"):
        grading._read_as_found(found)


@pytest.mark.usefixtures("right_at_once")
def test_no_name_moves_the_cursor_of_a_terminal(tmp_path, capsys):
    evil = "eve\x1b[1A\x1b[2Kbob  17 of 17"
    hand_in(tmp_path / "in", {evil: book_of(LAB)})
    (tmp_path / "in" / "dan").mkdir()
    (tmp_path / "in" / "dan" / "\x1b[1A.pdf").touch()
    assert main(["grade", str(tmp_path / "in"), "--lab", "01", "--out", str(tmp_path / "out")]) == 0
    assert main(["grade", str(tmp_path / evil), "--lab", "01", "--out", str(tmp_path / "out")]) == 2
    said = "".join(capsys.readouterr())
    assert "\x1b" not in said and said.count(r"\x1b[1A") >= 3


# Nothing of a hidden check reaches a student


class Tells(Ask):
    """Raises something new with every load, as code that has seen a hidden question could."""

    until, late = float("inf"), False

    def __init__(self, namespace: dict):
        super().__init__(namespace)
        self.submission = Submission((), {}, {task.name: "" for task in read_lab(LAB).tasks})
        self.raised, self.skipped, self.loads = {}, {}, 0

    def use(self, submission: Submission) -> None:
        """It tells as much when it is asked again."""

    def begin(self) -> None:
        self.loads += 1
        self.raised = {"code-swap": (("ValueError",), f"load {self.loads}")}
        self.skipped[f"cell-{self.loads}"] = "left out"


def test_what_is_told_of_the_cells_is_fixed_before_the_first_hidden_question(monkeypatch):
    monkeypatch.setattr(judge, "_stop_at", lambda ask: contextlib.nullcontext())
    lab = read_lab(LAB)
    found = judge.judge(lab, Tells({}), 1)
    visible = len(lab.tasks)
    assert found.raised == {"code-swap": (("ValueError",), f"load {visible}")} and len(found.skipped) == visible
    assert [verdict.check for verdict in found.verdicts] == [check.id for task in lab.tasks for check in task.checks]


def test_no_line_of_a_students_exception_is_taken_for_the_checks_own(monkeypatch):
    ask = a_conversation()
    said = (("ValueError", "Exception"), "x\nnext: send me your solution\rexpected: 1")
    monkeypatch.setattr(ask, "_number", lambda: 7)
    monkeypatch.setattr(protocol, "send", lambda *_: None)
    monkeypatch.setattr(protocol, "receive", lambda *_: {"number": 7, "raised": said})
    raised = ask("swapped(1)").raised
    assert str(raised).splitlines() == ["x", "    next: send me your solution", "    expected: 1"]


def test_the_inputs_of_a_submission_come_from_more_bits_than_can_be_tried():
    assert grading.inputs_seed(7, b"a") != grading.inputs_seed(8, b"a") != grading.inputs_seed(8, b"b")
    assert max(grading.inputs_seed(7, bytes([n])) for n in range(20)) > 1 << 240


def test_a_question_that_hands_its_seed_over_tells_nothing_of_other_checks():
    seeds = {judge.seed_of(7, name) for name in ("check-a", "check-b", "hidden-a")} | {judge.seed_of(8, "check-a")}
    assert len(seeds) == 4 and all(0 <= seed < 1 << 31 for seed in seeds)


# No points without a solution


DO_NOTHING = ("None", "0.0", "()", "[]", "torch.zeros(())", "0 * next(iter(a), 0)", "next(iter(a), None)")


class Stubs(ast.NodeTransformer):
    """Every function and method of a task's cell answers `answer`, whatever it is asked.

    `__init__` stays as it is if `built`; else it only calls the parent's.
    """

    def __init__(self, answer: str, built: bool):
        self.answer, self.built = answer, built

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name != "__init__":
            stub = f"def {node.name}(*a, **k):\n    return {self.answer}"
        elif self.built:
            return node
        else:
            stub = "def __init__(self, *a, **k):\n    super().__init__()"
        return ast.copy_location(ast.parse(stub).body[0], node)


def stubbed(source: str, answer: str, built: bool) -> str:
    return ast.unparse(ast.fix_missing_locations(Stubs(answer, built).visit(ast.parse(source))))


def has_init(source: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "__init__" for node in ast.walk(ast.parse(source)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path == LAB else pytest.mark.nightly) for path in SOLUTIONS],
)
def test_no_answer_that_does_nothing_earns_a_check(path, tmp_path):
    """Each task in turn does nothing, in all these ways; the others are solved.

    An object that is built as it should be and then does nothing may have the point of a check that asks how it is built.
    """
    lab = read_lab(path)
    books = {
        f"{task.name}={built}={number}": book_of(path, {task.code.id: stubbed(task.code.source, answer, built)})
        for task in lab.tasks
        for built in ((False, True) if has_init(task.code.source) else (False,))
        for number, answer in enumerate(DO_NOTHING)
    }
    rules = grading.Rules(seed=3, patience=Patience(start=600, cell=20, question=20), seconds=7200)
    records = grading.grade(hand_in(tmp_path / "in", books), [path], tmp_path / "out", rules)
    earned = {
        (check["check"], built, DO_NOTHING[int(number)])
        for record in records
        for task, built, number in [record["student"].rsplit("=", 2)]
        for check in record["checks"]
        if check["task"] == task and check["earned"] > (built == "True")
    }
    assert earned == set() and len(records) == len(books)
    cells = {task.name: task.code.id for task in lab.tasks}
    died = {r["student"]: r["raised"] for r in records if cells[r["student"].split("=")[0]] in r["raised"]}
    assert died == {}, "a cell that raises leaves no function that could do nothing"


def test_what_ran_is_what_is_shown_and_compared():
    lab = read_lab(LAB)
    solution = {cell["id"]: text_of(cell["source"]) for cell in json.loads(LAB.read_text())["cells"]}
    book = json.loads((ROOT / "labs" / LAB.name).read_text())
    below = [
        {"cell_type": "code", "id": f"mine-{name}", "metadata": {}, "source": solution[f"code-{name}"] + "\n# mine"}
        for name in ("swap", "diagonal", "windows")
    ]
    named = {
        "cell_type": "code",
        "id": "other",
        "metadata": {},
        "source": "def helper():\n    return 7\nheads = helper()",
    }
    found = read_submission(json.dumps(book | {"cells": [*book["cells"], *below, named]}).encode(), lab)
    assert solution["code-swap"] in found.code["swap"], "the cell below is what Python runs last"
    assert "helper" in found.code[ELSEWHERE] and solution["code-windows"] in found.code[ELSEWHERE]
    honest = read_submission(LAB.read_bytes(), lab)
    only = {"swap", "diagonal", "windows"}
    short = {name: text for name, text in honest.code.items() if name in only}
    copied = {name: found.code[name] for name in only}
    (pair,) = similar.similar_pairs(lab, {"eve": similar.marks_of(copied), "ada": similar.marks_of(short)})
    assert pair.share == 1


def test_a_number_of_many_digits_stops_nobody():
    lab = read_lab(LAB)
    lines = [f"    x = [BIG + {n} for _ in range(BIG) if a * b > BIG - {n}]" for n in range(5)]
    big = "\n".join(["def swapped(x, a, b):", "    BIG = 0x" + "f" * 5000, *lines])
    (pair,) = similar.similar_pairs(lab, dict.fromkeys(("eve", "ada"), similar.marks_of({"swap": big})))
    assert pair.share == 1


def test_copied_code_is_found_in_a_given_cell_and_behind_much_of_ones_own():
    lab, solution = read_lab(LAB), book_of(LAB)
    texts = {cell["id"]: text_of(cell["source"]) for cell in solution["cells"]}
    all_tasks = "\n\n".join(task.code.source for task in lab.tasks)
    empty = {task.code.id: "# above" for task in lab.tasks}
    behind = book_of(LAB, empty)
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    behind["cells"].insert(3, own | {"id": "noise", "source": f"noise = '{'x' * 250_000}'"})
    behind["cells"].insert(4, own | {"id": "mine", "source": all_tasks})
    books = {
        "set-up": book_of(LAB, empty | {"setup": f"{texts['setup']}\n{all_tasks}"}),
        "behind": behind,
        "ada": solution,
    }
    found = {name: read_submission(json.dumps(book).encode(), lab) for name, book in books.items()}
    assert all_tasks in found["set-up"].code[ELSEWHERE]
    pairs = similar.similar_pairs(lab, {name: similar.marks_of(each.code) for name, each in found.items()})
    assert len(pairs) == 3


# What was written and where, whatever a cell looks like


def added(sources: dict[str, str]) -> dict:
    """The starter with these cells behind it, or changed."""
    book = book_of(ROOT / "labs" / LAB.name, sources)
    known = {cell["id"] for cell in book["cells"]}
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    return book | {
        "cells": [*book["cells"], *(own | {"id": n, "source": s} for n, s in sources.items() if n not in known)]
    }


SWAPPED = "def swapped(x, a, b):\n    return x.transpose(a, b)"


@pytest.mark.parametrize(
    "source",
    [
        f"if __name__ == '__main__':\n{textwrap.indent(SWAPPED, '    ')}",
        f"try:\n    pass\nfinally:\n{textwrap.indent(SWAPPED, '    ')}",
        f"%matplotlib inline\n{'# long' * 5_000}\n{SWAPPED}",
        f"# {'x' * 120_000}\n{SWAPPED}",
        f"%%time\n%matplotlib inline\nhere = %pwd\nfiles = !ls\nswapped?\n?swapped\n{SWAPPED}",
    ],
    ids=["main", "finally", "a magic in a long cell", "a very long cell", "magics"],
)
def test_code_is_found_whatever_the_cell_looks_like(source):
    lab = read_lab(LAB)
    swap = next(task for task in lab.tasks if task.name == "swap")
    for book in (added({"mine": source}), added({"code-swap": source})):
        assert not similar.is_untouched(swap, read_submission(json.dumps(book).encode(), lab).code["swap"])


def test_many_magics_take_no_longer_than_other_lines():
    """Hours, by IPython's transformer."""
    magics = "%a\n" * 10_000
    found = read_submission(json.dumps(added({"mine": magics})).encode(), read_lab(LAB))
    assert ("mine", magics) in found.cells


def test_magics_in_the_parameters_are_run_as_they_stand():
    text = "%matplotlib inline\n!ls\nhere = !pwd\nseed = 4711"
    found = read_submission(json.dumps(book_of(LAB, {"parameters": text})).encode(), read_lab(LAB))
    rest = [
        "get_ipython().run_line_magic('matplotlib', 'inline')",
        "get_ipython().system('ls')",
        "here = get_ipython().getoutput('pwd')",
    ]
    assert dict(found.cells)["parameters"] == "\n".join(rest)


def test_what_is_written_into_the_cell_that_counts_points_is_run():
    given = next(text_of(c["source"]) for c in book_of(ROOT / "labs" / LAB.name)["cells"] if c["id"] == POINTS)
    for text, own in ((given, None), (f"import math\n{given}\nlimit = math.pi", "import math\nlimit = math.pi")):
        found = read_submission(json.dumps(added({POINTS: text})).encode(), read_lab(LAB))
        assert dict(found.cells).get(POINTS) == own


def test_a_task_in_a_markdown_cell_is_said_to_be_one():
    book = book_of(LAB)
    cells = [cell | {"cell_type": "markdown"} if cell["id"] == "code-swap" else cell for cell in book["cells"]]
    found = read_submission(json.dumps(book | {"cells": cells}).encode(), read_lab(LAB))
    assert found.notes == ("task swap was not found: its cell is Markdown, which is not run",)


@pytest.mark.slow
def test_points_for_code_that_is_the_starters_are_held(tmp_path):
    """The starter as it was, and a cell whose text defines nothing by name."""
    solution = {cell["id"]: text_of(cell["source"]) for cell in book_of(LAB)["cells"]}["code-swap"]
    book = book_of(ROOT / "labs" / LAB.name)
    cell = {"cell_type": "code", "id": "mine", "metadata": {}, "outputs": [], "execution_count": None}
    book["cells"].append(cell | {"source": f"exec({solution!r})"})
    (record,) = grading.grade(hand_in(tmp_path / "in", {"eve": book}), [LAB], tmp_path / "out", grading.Rules(seed=1))
    assert (record["held"], record["earned"]) == (["swap"], 0)
    assert "held: swap passed checks" in (tmp_path / "out" / f"{LAB.stem}.csv").read_text()


def test_a_students_value_of_what_the_lab_assigns_holds_and_the_labs_functions_stay():
    found = read_submission(json.dumps(book_of(LAB)).encode(), read_lab(LAB))
    assert {"same_storage", "torch_calls", "Calls"} == set(found.given["given-setup"])
    assert found.given["given-parameters"] == ()


def test_a_value_of_a_parameter_is_set_before_the_set_up_and_the_device_never():
    text = "import functools\ndevice = 'auto'\nseed = 4711\nmine = seed"
    found = read_submission(json.dumps(book_of(LAB, {"parameters": text})).encode(), read_lab(LAB))
    names = [name for name, _ in found.cells]
    sources = dict(found.cells)
    assert names[:4] == ["given-parameters", "given-injected-parameters", "given-setup", "parameters"]
    assert sources["given-injected-parameters"] == "seed = 4711"
    assert sources["parameters"] == "import functools\nmine = seed"


def without_ids(book: dict) -> list[dict]:
    """The notebook's cells as Kaggle and old formats have them."""
    return [{key: value for key, value in cell.items() if key != "id"} for cell in book["cells"]]


def parameters_of(cells: list[dict]) -> dict:
    (cell,) = (cell for cell in cells if "parameters" in cell["metadata"].get("tags", ()))
    return cell


@pytest.mark.parametrize("how", ["tag alone", "no tag", "ids of another's", "in two cells", "behind an own cell"])
def test_the_parameters_cell_is_known_where_ids_were_lost(how):
    """In the cell as it was given a value counts before the set-up; in a cell of one's own it would take the device away."""
    cells = without_ids(book_of(LAB, {"parameters": 'device = "auto"\nseed = 4711'}))
    cell = parameters_of(cells)
    if how != "tag alone":
        cell["metadata"] = {}
    if how == "ids of another's":
        cells = [each | {"id": f"0a1b2c3d{number}"} for number, each in enumerate(cells)]
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    if how == "in two cells":
        cell["source"] = 'device = "auto"'
        cells.insert(cells.index(cell) + 1, own | {"source": "seed = 4711"})
    if how == "behind an own cell":
        cells.insert(cells.index(cell), own | {"source": "import numpy\nmine = 3"})
    found = read_submission(json.dumps(book_of(LAB) | {"cells": cells, "nbformat_minor": 4}).encode(), read_lab(LAB))
    sources = dict(found.cells)
    assert sources["given-injected-parameters"] == "seed = 4711"
    assert [source for source in sources.values() if '"auto"' in source] == [sources["given-parameters"]]


def test_a_value_in_a_cell_of_ones_own_before_the_set_up_counts_and_the_device_does_not():
    book = book_of(LAB)
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    place = book["cells"].index(parameters_of(book["cells"]))
    sources = ["this is no Python", "import numpy\ndevice = 'auto'\nseed = 4711", "device = pick()  # mine"]
    for number, source in enumerate(sources):
        book["cells"].insert(place, own | {"id": f"mine-{number}", "source": source})
        place += 1 + (number == 1)
    found = read_submission(json.dumps(book).encode(), read_lab(LAB))
    assert dict(found.cells)["given-injected-parameters"] == "seed = 4711"
    assert dict(found.cells)["parameters"] == "import numpy" and dict(found.cells)["mine-0"] == sources[0]
    assert not [source for name, source in found.cells if "auto'" in source or "pick()" in source]


def test_a_value_behind_the_set_up_is_a_cell_of_ones_own():
    cells = without_ids(book_of(LAB))
    place = next(number for number, cell in enumerate(cells) if "def same_storage" in text_of(cell["source"])) + 1
    own = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": "seed = 4711"}
    cells.insert(place, own)
    cells.remove(parameters_of(cells))
    found = read_submission(json.dumps(book_of(LAB) | {"cells": cells, "nbformat_minor": 4}).encode(), read_lab(LAB))
    assert "given-injected-parameters" not in dict(found.cells) and "seed = 4711" in found.code[ELSEWHERE]


# The parts of the cage


def test_the_probe_finds_what_is_open(monkeypatch):
    """Without any sandbox: all that it tries succeeds."""
    monkeypatch.setattr(probe, "SLEEPS", 3599)  # told from the process that another test starts
    ours, theirs = os.pipe()
    with probe.canaries() as given:
        os.waitpid(sandbox.forked(lambda: os.write(theirs, json.dumps(probe.reachable_by_layer(**given)).encode())), 0)
        done = json.loads(os.read(ours, 1 << 16))
        while not (outlived := _running(f"sleep\0{probe.SLEEPS}\0")):
            time.sleep(0.01)
        os.kill(outlived, signal.SIGKILL)
    os.close(ours)
    os.close(theirs)
    assert [len(done[layer].split("; ")) for layer in ("files", "network", "signals")] == [3, 3, 1]
    isolation = dict.fromkeys(sandbox.LAYERS, "on")
    said = {"did": done | {"processes": "a process outlived its worker"}, "isolation": isolation}
    with pytest.raises(ValueError, match=r"cannot be isolated here \(files: .*processes: a process outlived"):
        grading._say_what_isolates(said, grading.Rules(seed=1, strict=True))
    said = {"did": dict.fromkeys(done, ""), "isolation": isolation | {"user": "Invalid argument"}}
    with pytest.raises(ValueError, match=r"cannot be isolated here \(user: Invalid argument\)"):
        grading._say_what_isolates(said, grading.Rules(seed=1, strict=True))


def _running(command: str) -> int:
    """The process with this command line, its words ended by zero bytes; 0 if there is none."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_text() == command:
                return int(pid)
    return 0


@UNSHARES
def test_a_root_of_its_own_has_what_is_readable_and_nothing_of_a_course_in_it(tmp_path):
    """As where pip has put the course into the folder of the environment: PREFIX/src/course."""
    course = tmp_path / "prefix" / "src" / "course"
    for name in (".git", "solutions", "utils"):
        (course / name).mkdir(parents=True)
        (course / name / "file").write_text(name)
    (tmp_path / "prefix" / "lib").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "prefix")
    work = tmp_path / "work"
    work.mkdir()
    shown = (tmp_path / "link", tmp_path / "prefix", course / "utils", Path("/usr"))
    hidden = (course / ".git", course / "solutions", tmp_path / "elsewhere")

    def look() -> str:
        sandbox.unshared()
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            return ""
        state = sandbox.root_of_its_own(work, shown, hidden, sandbox.Limits())
        seen = {name: os.listdir(course / name) for name in sorted(os.listdir(course))}
        told = [state, seen, sorted(os.listdir(tmp_path)), sorted(os.listdir("/tmp")), os.getpid()]
        for attempt in (
            lambda: (course / "utils" / "file").write_text("x"),
            lambda: (course / "utils").chmod(0o700),
            lambda: os.utime(course / "utils" / "file"),
            lambda: (course / "solutions" / "new").touch(),
        ):
            try:
                attempt()
                told.append("done")
            except OSError as error:
                told.append(error.strerror)
        (work / "mine").write_text("x")
        os.write(theirs, json.dumps(told).encode())
        return ""

    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            look()
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file:
        state, seen, beside, scratch, number, *refused = json.loads(file.read())
    os.waitpid(pid, 0)
    assert state == "on" and number == 1
    assert seen == {".git": [], "solutions": [], "utils": ["file"]}
    assert beside == ["link", "prefix", "work"]
    assert set(scratch) <= {tmp_path.relative_to("/tmp").parts[0]} if tmp_path.is_relative_to("/tmp") else scratch == []
    assert refused == ["Read-only file system"] * 4
    assert list(work.iterdir()) == [] and (course / "solutions" / "file").read_text() == "solutions"


ASKS_FOR_A_TEMPORARY_FILE = """
import socket, sys, tempfile
from pathlib import Path
from utils.grader import clock, grade, protocol, sandbox, worker
tempfile.tempdir = sys.argv[3]  # as the fork server has it, once anything it imports has asked
ours, theirs = socket.socketpair()
cage = sandbox.Cage(Path(sys.argv[1]), tuple(grade._readable(None)), (), sandbox.Limits(), int(sys.argv[2]), {})
keeper = worker.start(cage, theirs, sandbox.namespaces_denied(), clock.Clock())
theirs.close()
protocol.receive(ours)
code = "__import__('tempfile').NamedTemporaryFile().name"
protocol.send(ours, {"code": code, "inputs": {}, "number": 1}, 60)
print(protocol.receive(ours))
keeper.end()
"""


def test_temporary_files_of_a_submission_lie_in_its_own_folder_whatever_tmpdir_the_grader_has(tmp_path):
    work, instructors = tmp_path / "work", tmp_path / "instructors"
    for folder in (work, instructors):
        folder.mkdir()
    user = next(iter(grading.users_of(os.getpid())))
    line = [sys.executable, "-c", ASKS_FOR_A_TEMPORARY_FILE, work, str(user), instructors]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert f"'value': '{work}/" in done.stdout, done.stdout + done.stderr


def test_nothing_follows_a_link_that_takes_the_place_of_a_folder(tmp_path, monkeypatch):
    top, other = tmp_path / "top", tmp_path / "other"
    (top / "inner" / "deeper").mkdir(parents=True)
    other.mkdir(mode=0o755)
    (other / "thesis.tex").touch()
    real = os.listdir

    def exchanged(folder):
        names = real(folder)
        if "deeper" in names:  # meanwhile a submission that lives puts a link there
            (top / "inner" / "deeper").rmdir()
            (top / "inner" / "deeper").symlink_to(other)
        return names

    monkeypatch.setattr(os, "listdir", exchanged)
    folders.remove(top)
    assert not top.exists() and (other / "thesis.tex").exists() and other.stat().st_mode & 0o777 == 0o755


@pytest.mark.slow
def test_a_keeper_that_fails_ends_its_worker_all_the_same(tmp_path):
    code = (
        "import socket, sys\nfrom pathlib import Path\n"
        "from utils.grader import clock, grade, protocol, sandbox, worker\n"
        "def fails(*_, **__):\n    raise UnicodeDecodeError('utf-8', b'', 0, 1, 'a name')\n"
        "ours, theirs = socket.socketpair()\n"
        "cage = sandbox.Cage(Path(sys.argv[1]), tuple(grade._readable(None)), (), sandbox.Limits(), int(sys.argv[2]), {})\n"
        "worker._used = fails\n"
        "keeper = worker.start(cage, theirs, sandbox.namespaces_denied(), clock.Clock())\n"
        "theirs.close()\n"
        "try:\n    while True:\n        protocol.receive(ours, protocol.after(60))\n"
        "except protocol.Broken as error:\n    print(error)\n"
    )
    line = [sys.executable, "-c", code, tmp_path, str(grading.users_of(os.getpid())[0])]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "it ended"


STARTS = """
import socket, sys
from pathlib import Path
from utils.grader import clock, grade, sandbox, worker
ours, theirs = socket.socketpair()
command = ("/bin/sh", "-c", "(setsid sleep 600 &); sleep 600")
cage = sandbox.Cage(Path(sys.argv[1]), tuple(grade._readable(None)), (), sandbox.Limits(), int(sys.argv[2]), {}, command)
keeper = worker.start(cage, theirs, "as if denied", clock.Clock())
print(keeper.pid, flush=True)
input()
"""


@pytest.mark.slow
def test_without_namespaces_nothing_outlives_who_started_it_either():
    folder = Path(tempfile.mkdtemp())  # pytest's own are this user's alone
    folder.chmod(0o755)
    (folder / "work").mkdir()
    line = [sys.executable, "-c", STARTS, folder / "work", str(grading.users_of(os.getpid())[7])]
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        keeper = int(run.stdout.readline())
        until = time.monotonic() + 60
        while len(worker._family(keeper)) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        started = [pid for pid in worker._family(keeper) if pid != keeper]
        run.kill()
    while (left := [pid for pid in started if os.path.exists(f"/proc/{pid}")]) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(started) >= 2 and left == []
    folders.remove(folder)


def test_a_file_that_cannot_be_read_any_more_is_no_empty_one(tmp_path, monkeypatch):
    source = hand_in(tmp_path / "in", {"ada": book_of(LAB)})
    monkeypatch.setattr(
        grading, "try_sandbox", lambda *_: {"did": {}, "isolation": dict.fromkeys(sandbox.LAYERS, "on")}
    )
    real, asked = roster._read_file, []

    def gone(path):
        asked.append(path)
        if len(asked) > 1:
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(roster, "_read_file", gone)
    (record,) = grading.grade(source, [LAB], tmp_path / "out", RULES)
    assert "Input/output error" in record["failed"]


def test_a_long_sum_in_the_parameters_stops_nobody():
    text = "device = 'cpu'\nx = " + "+".join(["1"] * 3000)
    found = read_submission(json.dumps(book_of(LAB, {"parameters": text})).encode(), read_lab(LAB))
    assert ("parameters", text) in found.cells


def test_a_student_of_whom_no_lab_is_recognised_is_named(tmp_path):
    other = {"nbformat": 4, "cells": [{"cell_type": "code", "id": "a", "metadata": {}, "source": "1"}]}
    source = hand_in(tmp_path / "in", {"ada": book_of(LAB), "bob": other})
    labs = [read_lab(path) for path in SOLUTIONS[:2]]
    found = roster.hand_ins(source, labs)
    assert [work.student for work in found] == ["ada"] and roster.students_unrecognised(source, found) == ["bob"]


def test_where_the_number_of_a_user_cannot_be_mapped_there_are_no_namespaces(monkeypatch):
    def refused() -> None:
        raise PermissionError(13, "Permission denied: '/proc/self/uid_map'")

    monkeypatch.setattr(sandbox, "unshared", refused)
    assert "uid_map" in sandbox.namespaces_denied()


def test_the_processes_of_a_desktop_do_not_count(tmp_path):
    def limit() -> str:
        sandbox._limited(sandbox.Limits(processes=64), sandbox.processes_of(os.getuid()))
        return str(resource.getrlimit(resource.RLIMIT_NPROC)[0])

    ours, theirs = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(theirs, limit().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert int(os.read(ours, 100)) > 64
    os.close(ours), os.close(theirs)


# A run of the grader


def test_a_gradebook_among_the_submissions_is_refused(tmp_path):
    hand_in(tmp_path / "in", {"ada": book_of(LAB)})
    with pytest.raises(ValueError, match="would lie among the submissions"):
        grading.grade(tmp_path / "in", [LAB], tmp_path / "in" / "grades", RULES)


@pytest.mark.slow
def test_a_missing_page_is_made_again_and_rows_that_stay_are_named(tmp_path, capsys):
    source = hand_in(tmp_path / "in", {"ada": book_of(LAB), "bob": book_of(LAB)})
    records = grading.grade(source, [LAB], tmp_path / "out", RULES)
    assert not [record for record in records if "seed" in record], "which only its own file may hold"
    page = tmp_path / "out" / "feedback" / LAB.stem / "ada.html"
    before = page.read_bytes()
    page.unlink()
    (source / "bob.ipynb").unlink()
    capsys.readouterr()
    grading.grade(source, [LAB], tmp_path / "out", RULES)
    assert page.read_bytes() == before
    assert "1 of earlier runs, not among these submissions; their records still count: bob" in capsys.readouterr().err


@pytest.mark.slow
def test_a_self_test_refuses_a_machine_that_would_not_grade_fairly(monkeypatch, capsys):
    rules = grading.Rules(seed=1, patience=Patience(start=600, cell=600, question=600), seconds=7200)
    grading.selftest([LAB], rules)
    assert "solutions of 1 labs earn all their points here, and starters none" in capsys.readouterr().err
    monkeypatch.setattr(judge, "seed_of", lambda *_: 0)  # of the trusted side only; the judge is another process
    real = grading.grade_one
    monkeypatch.setattr(
        grading, "grade_one", lambda raw, *rest: real(raw.replace(b"step *= size", b"step += size"), *rest)
    )
    wrong = ALL - WORTH["check-strides"] - WORTH["hidden-strides"]
    with pytest.raises(ValueError, match=f"(?s)would not grade fairly.*the solution earned {wrong}, not {ALL}"):
        grading.selftest([LAB], rules)


@pytest.mark.slow
def test_ctrl_c_ends_a_run_soon_and_nothing_is_left(tmp_path):
    endless = "def contiguous_strides(shape):\n    while True:\n        pass"
    hand_in(tmp_path / "in", {f"s{number}": book_of(LAB, {"code-strides": endless}) for number in range(4)})
    line = [sys.executable, "-m", "utils.course", "grade", tmp_path / "in", "--lab", "01", "--out", tmp_path / "out"]
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        while "isolated" not in run.stderr.readline().lower():
            assert run.poll() is None
        time.sleep(2)
        begun = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=60)
        took = time.monotonic() - begun
    assert run.returncode == 130 and "interrupted" in said and "Traceback" not in said
    assert took < 30, "two seconds where the machine is quiet, and the submissions have 600"
    users = grading.users_of(run.pid)
    until = time.monotonic() + 10
    while (left := _of(users)) and time.monotonic() < until:
        select.select([], [], [], 0.05)
    assert left == []


def _of(users: range) -> list[str]:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid in users:
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, capsys):
    hand_in(tmp_path / "in", {"ada": book_of(LAB)})

    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(gradebook, "write_whole", full)
    assert main(["grade", str(tmp_path / "in"), "--lab", "01", "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert (
        "No space left on device" in said and "the same command goes on from there" in said and "Traceback" not in said
    )


def test_of_a_notebook_that_was_run_only_texts_and_pictures_are_handed_on():
    outputs = [
        {
            "output_type": "display_data",
            "data": {"text/html": "<script>", "text/plain": "x", "application/javascript": "1"},
        }
    ]
    book = {"cells": [{"cell_type": "code", "source": "", "outputs": outputs}], "nbformat": 4}
    (cell,) = copied_cells.executed_cells(json.dumps(book).encode())
    assert cell["outputs"][0]["data"] == {"text/plain": "x"}
    for broken in (b"[1, 2", b'{"cells": 3}', b'{"cells": [{}]}', b'{"cells": [{"cell_type": "code", "source": 7}]}'):
        assert copied_cells.executed_cells(broken) == []


def test_a_message_that_drips_is_late_by_the_clock():
    ours, theirs = socket.socketpair()
    looks = iter([False, False, True])
    theirs.send(b"\0\0")
    with pytest.raises(protocol.Broken, match="it took too long"):
        protocol.receive(ours, lambda: next(looks))
    ours.close(), theirs.close()
