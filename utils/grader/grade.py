"""Grade a folder of submissions: the new ones, several at a time, each in its own sandbox."""

import atexit
import functools
import hashlib
import importlib.metadata
import itertools
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from pathlib import Path

from tqdm import tqdm

from utils.course import ROOT
from utils.course.notebooks.lab import Lab, points_of, read_lab, starter
from utils.facts import CACHE_NAME
from utils.grader import (
    decisions,
    feedback,
    gradebook,
    notebook_copy,
    probe,
    reading,
    sandbox,
    summary,
)
from utils.grader.folders import remove_abandoned, submission_folder
from utils.grader.framing import Broken
from utils.grader.roster import HandIn, ListedStudent, hand_ins, students_missing, students_unrecognised
from utils.grader.rules import Rules
from utils.grader.server import ForkServer
from utils.grader.written import questions

CLUSTER_SECONDS = 10
CHECKING = ("ask", "plain_values", "ring", "silent_bugs", "torch_calls")  # of utils/lab, what checks call
GRACE = 10.0  # seconds for a judge to report its results after the time limit
GRADING_MODULES = (
    "sandbox",
    "system_calls",
    "worker",
    "cells",
    "judge",
    "rules",
    "clock",
    "submission",
    "framing",
    "protocol",
    "fork_server",
    "similar",
)  # modules that decide which checks pass, besides the checks
LARGEST_RUN = 32 << 20  # bytes of a notebook that was run: as objects of Python they may take 30 times as many
PROBE_SECONDS = 120.0  # to try the sandbox
MOST_NAMED = 20
HELD = "passed, though no code of the student's was found for it: an instructor looks at it"
IN_FLIGHT = 2  # submissions in memory per submission being graded
FIRST_USER, USERS = 1_900_000_000, 1000  # for root: unused user ids, this many for each grading process
_users = itertools.count()


def grade(
    source: Path,
    labs: list[Path],
    out: Path,
    rules: Rules,
    *,
    jobs: int = 2,
    regrade: bool = False,
    executor: Executor | None = None,
    roster: list[ListedStudent] | None = None,
) -> list[dict]:
    """Grade the new submissions in `source`, and write records and tables under `out`. Returns all records of the gradebook.

    executor: where the work is done instead of `jobs` processes here. roster: the class, to tell who is missing. Raises
    ValueError for a source without notebooks or with two students of one name, for an `out` inside it, and, with
    rules.strict, where submissions cannot be isolated.
    """
    if out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"the gradebook {out} would lie among the submissions in {source}: give --out another place")
    read = [read_lab(path) for path in labs]
    handed_in = hand_ins(source, read)
    todo, replaced = [], set()
    kept = stale = 0
    for hand_in in handed_in:
        record = gradebook.read_record(gradebook.record_path(out, hand_in.lab.name, hand_in.key))
        seen = record is not None and record["submission_sha256"] == hand_in.digest
        if seen:  # copying a file gives it a new date, and cannot make anybody late
            hand_in = replace(
                hand_in, handed_in=min(filter(None, (record["handed_in"], hand_in.handed_in)), default="")
            )
        same = seen and not record["failed"]
        about = {"file": hand_in.file, "handed_in": hand_in.handed_in, "id": hand_in.id}
        if same and not about.items() <= record.items():  # the same bytes from another place, or with another date
            gradebook.write_record(out, record | about)
        if same and record["checks_sha256"] != checks_digest(hand_in.lab) and not regrade:
            stale += 1
        elif same and record["checks_sha256"] == checks_digest(hand_in.lab):
            kept += 1
        else:
            todo.append(hand_in)
            if record and not seen:
                replaced.add((hand_in.lab.name, hand_in.student))
    if todo:
        _grade_all(todo, source, out, rules, jobs, executor)
    records = gradebook.records(out)
    decided = decisions.read(out, records)
    found = decisions.apply(records, decided)
    absent = {
        lab.name: students_missing(roster or [], (w for w in handed_in if w.lab.name == lab.name)) for lab in read
    }
    late_now = {lab.name: gradebook.late_since(out, lab.name, found) for lab in read}
    gradebook.write_tables(out, found, absent)
    for lab in read:
        parts = {task.name for task in lab.tasks} | {question.name for question in questions(lab)}
        own = [record for record in found if record["lab"] == lab.name]
        # Not those of other parts: graded before the lab changed, they keep their pages.
        if own := [record for record in own if decisions.points_of_parts(record).keys() in (set(), parts)]:
            group = feedback.standing_of(own)
            for record in own:
                if feedback.write_page(out, record, lab, group):
                    notebook_copy.write_feedback(out, record, lab, group)
            summary.write_summary(out, lab, own, group)
            reading.write_reading(out, lab, own)
    _say(f"{len(todo)} graded, {kept} unchanged since the last time")
    _say_what_to_look_at(found, handed_in, absent, {lab.name for lab in read})
    if kept_points := [r for r in found if r["reasons"] and (r["lab"], r["student"]) in replaced]:
        names = ", ".join(f"{r['student']} ({r['lab']}: {', '.join(r['reasons'])})" for r in kept_points)
        _say(f"points that a person gave for an earlier notebook, and that still hold: {names}")
    for lab, students in late_now.items():
        if students:
            _say(f"{lab}: late now, and not in the last run: {', '.join(students)}")
    known = {(record["lab"], record["student"]) for record in found}
    if early := [each for each in decided if each.student != decisions.ALL and (each.lab, each.student) not in known]:
        _say(f"of whom nothing is graded yet: {', '.join(f'{each.student!r} ({each.where})' for each in early)}")
    if others := students_unrecognised(source, handed_in):
        _say(f"{len(others)} handed in nothing that is of these labs: {', '.join(others)}")
    if stale:
        _say(f"{stale} were graded by checks that have changed since: --regrade grades them again")
    return found


def _say_what_to_look_at(
    found: list[dict], handed_in: list[HandIn], absent: dict[str, list[ListedStudent]], labs: set[str]
) -> None:
    here = {(hand_in.lab.name, hand_in.student) for hand_in in handed_in}
    told = {
        "not graded, by the grader's own fault; the same command tries again": [r for r in found if r["failed"]],
        "not isolated: see the column in the tables, and --strict": [r for r in found if not r["isolated"]],
        f"with points held, as no code of theirs was found for a task: look, then write {decisions.NAME}": [
            r for r in found if r["held"]
        ],
        "of earlier runs, not among these submissions; their records still count": [
            r for r in found if r["lab"] in labs and (r["lab"], r["student"]) not in here
        ],
    }
    for what, records in told.items():
        if records:
            names = ", ".join(sorted({record["student"] for record in records})[:MOST_NAMED])
            _say(f"{len(records)} {what}: {names}{', …' if len(records) > MOST_NAMED else ''}")
    for lab, students in absent.items():
        if students:
            _say(
                f"{lab}: {len(students)} of the class list handed in nothing: {', '.join(s.student for s in students)}"
            )


def selftest(labs: list[Path], rules: Rules, *, jobs: int = 2) -> None:
    """Grade each lab's own solution and starter here. ValueError unless they earn all and nothing."""
    with tempfile.TemporaryDirectory(prefix="honest-training-loop-selftest-") as folder:
        source = Path(folder, "in")
        for path in labs:
            for kind, text in (("solution", path.read_bytes()), ("starter", _starter_of(path))):
                (source / kind).mkdir(parents=True, exist_ok=True)
                (source / kind / path.name).write_bytes(text)
        records = grade(source, labs, Path(folder, "out"), rules, jobs=jobs)
    wrong = []
    for record in records:
        want = sum(check["points"] for check in record["checks"]) if record["student"] == "solution" else 0
        if record["failed"] or record["held"] or record["earned"] != want:
            messages = (check["message"] for check in record["checks"] if check["message"])
            why = record["failed"] or record["problem"] or next(messages, "")
            wrong.append(
                f"{record['lab']}: the {record['student']} earned {record['earned']}, not {want} ({why[:500]})"
            )
    if wrong:
        raise ValueError("this machine would not grade fairly:\n" + "\n".join(wrong))
    _say(f"solutions of {len(labs)} labs earn all their points here, and starters none")


def _starter_of(path: Path) -> bytes:
    return json.dumps(starter(json.loads(path.read_text(encoding="utf-8")))).encode()


def class_seed(out: Path) -> int:
    """The secret seed of a gradebook: drawn once, kept beside the grades for those who may read them."""
    path = out / "seed.json"
    if path.exists():
        return json.loads(path.read_text())["seed"]
    out.mkdir(parents=True, exist_ok=True)
    seed = secrets.randbits(256)
    gradebook.write_whole(path, json.dumps({"seed": seed}) + "\n")
    path.chmod(0o600)
    return seed


def cluster(address: str) -> tuple[Executor, int]:
    """The workers of the Dask scheduler at `address`, as an executor, and how many threads they have.

    ValueError if Dask, the scheduler or its workers are not there.
    """
    try:
        import distributed  # only this needs it
    except ImportError as error:
        raise ValueError(
            "--cluster needs Dask: pip install -r tests/grader/cluster/requirements.txt, here and for the workers"
        ) from error
    try:
        client = distributed.Client(address, timeout=CLUSTER_SECONDS)
        threads = sum(client.nthreads().values())
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
    if not threads:
        raise ValueError(f"the Dask scheduler at {address} has no workers yet: start some")
    return client.get_executor(pure=False), threads


def _grade_all(todo: list[HandIn], source: Path, out: Path, rules: Rules, jobs: int, executor: Executor | None) -> None:
    """Write each record when it is ready; only a few submissions are in memory at a time.

    What was lost to the clock or to the grader's own fault is tried again, alone.
    """
    hidden = [str(path.resolve()) for path in (source, out)]
    again: list[HandIn] = []
    with executor or ThreadPoolExecutor(jobs) as pool, tqdm(total=len(todo), unit="submission", disable=None) as bar:
        running: set[Future] = set()
        try:
            running.add(probing := pool.submit(try_sandbox, hidden, rules))
            _say_what_isolates(probing.result(), rules, "on one worker of the cluster" if executor else "here")
            for now, in_flight in ((todo, IN_FLIGHT * jobs), (again, 1)):
                for hand_in, answer in _answers(pool, now, in_flight, hidden, rules, running):
                    if now is not again and (answer.get("late") or "failed" in answer):
                        again.append(hand_in)
                        continue
                    _write(out, hand_in, answer, rules)
                    bar.update()
        except BaseException:
            for future in running:
                future.cancel()
            while executor is None and not all(future.done() for future in running):
                _server.end()  # with all that it has started; then the threads have nothing to wait for
                wait(running, timeout=0.1)
            raise


def _answers(
    pool: Executor, todo: list[HandIn], in_flight: int, hidden: list[str], rules: Rules, running: set[Future]
) -> Iterator[tuple[HandIn, dict]]:
    """Each of them with the judge's answer, as it comes. running: the futures at work, kept up to date."""
    left, hand_in_of = iter(todo), {}
    while True:
        for hand_in in itertools.islice(left, in_flight - len(hand_in_of)):
            try:
                raw = b"" if hand_in.problem else _read_as_found(hand_in)
            except (ValueError, OSError) as error:  # it was readable a moment ago
                yield hand_in, {"failed": f"its file could not be read: {error}"}
                continue
            future = pool.submit(grade_one, raw, hand_in.lab.book.path.read_bytes(), hand_in.lab.name, hidden, rules)
            hand_in_of[future] = hand_in
            running.add(future)
        if not hand_in_of:
            return
        for future in wait(hand_in_of, return_when=FIRST_COMPLETED).done:
            running.discard(future)
            answer = future.result()
            if "refused" in answer:
                raise ValueError(
                    f"submissions cannot be isolated here ({answer['refused']}): leave out --strict or grade elsewhere"
                )
            yield hand_in_of.pop(future), answer


def _read_as_found(hand_in: HandIn) -> bytes:
    """Its bytes. ValueError if they have changed since the run began: what a hidden check asked may be known by then."""
    raw = hand_in.read()
    if hashlib.sha256(raw).hexdigest() != hand_in.digest:
        raise ValueError("it has changed since the run began")
    return raw


def _write(out: Path, hand_in: HandIn, answer: dict, rules: Rules) -> None:
    record = _record(hand_in, answer)
    notebook_copy.write_copy(out, record, answer.get("book", []))
    gradebook.write_record(out, record)


def _say_what_isolates(answer: dict, rules: Rules, where: str = "here") -> None:
    """Tell what holds here, as tried. ValueError if that is not enough for rules.strict."""
    if "failed" in answer:
        raise ValueError(f"no submission could be run here: {answer['failed']}")
    open_layers = {layer: text for layer, text in weaknesses(answer).items() if text}
    if not open_layers:
        _say(f"isolated, as tried {where}: {', '.join(answer['did'])}")
        return
    told = "; ".join(f"{layer}: {text}" for layer, text in open_layers.items())
    if rules.strict:
        raise ValueError(f"submissions cannot be isolated here ({told}): leave out --strict or grade elsewhere")
    _say(f"NOT ISOLATED {where}: {told}")


def weaknesses(answer: dict) -> dict[str, str]:
    """layer -> what a submission could do there, as tried, or as the sandbox says of itself; "" for nothing."""
    found = dict(answer["did"])
    for layer in sandbox.ISOLATING:
        if not found.get(layer) and answer["isolation"].get(layer) != sandbox.ON:
            found[layer] = str(answer["isolation"].get(layer))
    return found


def try_sandbox(hidden: list[str], rules: Rules) -> dict:
    """What a submission could do where this runs: see probe."""
    with submission_folder() as folder, probe.canaries() as canaries:
        os.chmod(folder, 0o711)
        job = {"canaries": canaries}
        try:
            return _server.grade(job, _cage(folder / "work", hidden, rules, _next_user()), PROBE_SECONDS)
        except Broken as error:
            return {"failed": str(error)}


_server = ForkServer()  # of this process, for all its threads
atexit.register(_server.end)


def _next_user() -> int:
    return users_of(os.getpid())[next(_users) % USERS]


def grade_one(raw: bytes, lab: bytes, name: str, hidden: list[str], rules: Rules) -> dict:
    """The judge's answer about the notebook `raw`. Runs on any machine that has the course, and stores nothing there.

    With rules.notebook its "book" is of the notebook after a run, which comes first, while no process of the submission has
    seen a hidden question.
    """
    _remove_abandoned_once()
    user = _next_user()
    with submission_folder() as folder:
        secret = folder / "secret"
        secret.mkdir(mode=0o700)
        os.chmod(folder, 0o711)
        (secret / "submission.ipynb").write_bytes(raw)
        (secret / f"{name}.ipynb").write_bytes(lab)
        job = {"path": str(secret / "submission.ipynb"), "lab": str(secret / f"{name}.ipynb")}
        job |= {"seed": inputs_seed(rules.seed, raw), "secret": f"numbers of {rules.seed}"}
        job |= {"patience": asdict(rules.patience), "seconds": rules.seconds, "strict": rules.strict}
        job["follow_through"] = rules.follow_through
        hidden = [*hidden, str(secret)]
        try:
            if rules.notebook:
                executed = _execute_notebook(raw, folder, _cage(folder / "run", hidden, rules, user), rules)
                (secret / "executed.ipynb").write_bytes(executed)
                job["executed"] = str(secret / "executed.ipynb")
            return _server.grade(job, _cage(folder / "work", hidden, rules, user), rules.seconds + GRACE)
        except Broken as error:
            return {"failed": f"grading it came to no end: {error}"}


@functools.cache
def _remove_abandoned_once() -> None:
    remove_abandoned()


def users_of(pid: int) -> range:
    """The user ids for submissions that process `pid` grades as root: another for each submission."""
    return range(FIRST_USER + USERS * (pid % 1_000_000), FIRST_USER + USERS * (pid % 1_000_000 + 1))


def inputs_seed(seed: int, raw: bytes) -> int:
    """The seed of the checks' inputs for one submission: a resubmission gets other inputs than its last feedback showed."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n".encode() + hashlib.sha256(raw).digest()).digest())


def _cage(work: Path, hidden: list[str], rules: Rules, user: int) -> sandbox.Cage:
    work.mkdir()
    data = os.environ.get("COURSE_DATA")
    environment = {"COURSE_DATA": str(Path(data).resolve())} if data else {}
    readable = tuple(_readable(data))
    # solutions, tests, .git, build, … but not an environment or data that lie there
    private = [path for path in ROOT.iterdir() if not any(shown.is_relative_to(path) for shown in readable)]
    return sandbox.Cage(work, readable, (*map(Path, hidden), *private), rules.limits, user, environment)


def _execute_notebook(raw: bytes, folder: Path, cage: sandbox.Cage, rules: Rules) -> bytes:
    """The notebook after papermill has run it in the sandbox, in `folder`; b"" if that failed, or made too much of it."""
    start, result = folder / "start", "executed.ipynb"
    (start / "course").mkdir(parents=True)
    (start / "course" / "utils").symlink_to(ROOT / "utils")
    (start / "submission.ipynb").write_bytes(raw)
    program = str(Path(__file__).with_name("execute.py"))
    command = (sys.executable, program, str(start / "submission.ipynb"), result, str(int(rules.patience.cell)))
    environment = cage.environment | {"PYTHONPATH": str(start / "course"), "PYTHONSAFEPATH": "1"}
    readable = (*cage.readable, start)
    cage = cage._replace(readable=readable, command=command, environment=environment, result=result)
    _server.execute(cage, rules.seconds)
    try:
        descriptor = os.open(cage.work / result, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        return file.read(LARGEST_RUN) if stat.S_ISREG(about.st_mode) and about.st_size <= LARGEST_RUN else b""


def _readable(data: str | None) -> list[Path]:
    """The paths that student code may read: the interpreter and its libraries, the course's modules, the data."""
    given = [
        sys.prefix,
        sys.base_prefix,
        "/usr",
        "/lib",
        "/lib64",
        "/etc",
        ROOT / "utils",
        *([data] if data else []),
    ]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CACHE_NAME
    return [Path(path) for path in [*given, cache] if Path(path).exists()]


def _record(hand_in: HandIn, answer: dict) -> dict:
    """The record of a submission: nothing in it depends on when, how fast or in which order it was graded."""
    checks = answer.get("verdicts") or [
        {"task": task.name, "check": check.id, "hidden": check is task.hidden, "points": points_of(check)}
        | {"earned": 0, "message": ""}
        for task in hand_in.lab.tasks
        for check in task.checks
    ]
    held = sorted(
        {check["task"] for check in checks if check["earned"] and check["task"] in answer.get("untouched", ())}
    )
    checks = [check | {"earned": 0, "message": HELD} if check["task"] in held else check for check in checks]
    texts = answer.get("written", {})
    written = [
        {"name": each.name, "points": each.points, "text": texts.get(each.name, ""), "earned": None}
        for each in questions(hand_in.lab)
    ]
    problem = hand_in.problem or answer.get("unreadable", "")
    isolation = {layer: str(answer.get("isolation", {}).get(layer, "")) for layer in sandbox.LAYERS}
    return {
        "student": hand_in.student,
        "key": hand_in.key,
        "id": hand_in.id,
        "lab": hand_in.lab.name,
        "file": hand_in.file,
        "handed_in": hand_in.handed_in,
        "earned": sum(check["earned"] for check in checks),
        "points": sum(part["points"] for part in [*checks, *written]),
        "checks": checks,
        "written": written,
        "problem": problem,
        "failed": answer.get("failed", ""),
        "held": held,
        "notes": [*hand_in.notes, *answer.get("notes", ())],
        "raised": answer.get("raised", {}),
        "code": answer.get("code", {}),
        "statements": answer.get("statements", {}),
        "isolation": isolation,
        "isolated": bool(problem) or sandbox.isolated(isolation),
        "submission_sha256": hand_in.digest,
        "checks_sha256": checks_digest(hand_in.lab),
        "versions": {
            "python": ".".join(map(str, sys.version_info[:3])),
            "torch": importlib.metadata.version("torch"),
            "commit": _commit(),
        },
    }


@functools.cache
def _commit() -> str:
    """The commit of the course that grades, with -dirty where files differ from it; "" where it is not known."""
    from utils.device import git_commit  # torch comes with it: not where nothing is new

    found = git_commit(ROOT)
    return (found["commit"] or "") + "-dirty" * bool(found["dirty"])


def checks_digest(lab: Lab) -> str:
    """SHA-256 of what decides a grade besides the submission: checks, points, the lab's code, and what runs them."""
    digest = hashlib.sha256()
    for task in lab.tasks:
        digest.update(f"{task.code.id}\n{task.code.source}\n".encode())  # which may count in place of a student's
        for check in task.checks:
            digest.update(f"{check.id} {points_of(check)}\n{check.source}\n".encode())
    for question in questions(lab):
        digest.update(f"{question.place.id} {question.points}\n{question.place.source}\n".encode())
    for cell in lab.others:
        digest.update(f"{cell.id}\n{cell.source}\n".encode())
    for path in [
        *(Path(__file__).with_name(f"{name}.py") for name in GRADING_MODULES),
        *(ROOT / "utils" / "lab" / f"{name}.py" for name in CHECKING),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _say(line: str) -> None:
    print(summary.printable(line), file=sys.stderr)
