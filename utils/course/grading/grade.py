"""Grade a folder of submissions: the new ones, several at a time, each in its own sandbox."""

import atexit
import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import secrets
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from tqdm import tqdm

from utils.course import ROOT
from utils.course.grading import feedback, gradebook, protocol, sandbox, worker
from utils.course.grading.fork_server import Zygote
from utils.course.grading.judge import Patience, isolated
from utils.course.grading.roster import Work, works
from utils.course.grading.similar import alike
from utils.course.grading.submission import LARGEST
from utils.course.grading.summary import write_summary
from utils.course.notebooks.lab import Lab, points_of, read_lab
from utils.data.download import CACHE_NAME

try:
    import distributed
except ImportError:
    distributed = None  # only --cluster needs it

CLUSTER_SECONDS = 10
GRACE = 10.0  # seconds for a judge to report its results after the time limit
ENGINE = (
    "sandbox",
    "worker",
    "judge",
    "submission",
    "protocol",
    "fork_server",
)  # modules that decide a grade, besides the checks
PRIVATE = (ROOT / "solutions", ROOT / "tests")
FOLDERS = f"{CACHE_NAME}-grading-"  # prefix of the folders in which submissions are graded
IN_FLIGHT = 2  # submissions in memory per submission being graded
FIRST_USER, USERS = 1_900_000_000, 64  # for root: unused user ids, this many for each grading process
_users = itertools.count()


@dataclass(frozen=True)
class Rules:
    """How submissions are graded; with the submission and the checks it decides the grade.

    notebook: also run the whole notebook in the sandbox, for its student.
    """

    seed: int
    patience: Patience = field(default_factory=Patience)
    limits: sandbox.Limits = field(default_factory=sandbox.Limits)
    seconds: float = 900.0  # for one submission in all
    strict: bool = False
    notebook: bool = False


def grade(
    source: Path,
    labs: list[Path],
    out: Path,
    rules: Rules,
    *,
    jobs: int = 2,
    regrade: bool = False,
    executor: Executor | None = None,
) -> list[dict]:
    """Grade the new submissions in `source`, and write records and tables under `out`. Returns all records of the gradebook.

    executor: where the work is done instead of `jobs` processes here. Raises ValueError for a source without notebooks
    and, with rules.strict, where submissions cannot be isolated.
    """
    read = [read_lab(path) for path in labs]
    todo = []
    kept = stale = 0
    for work in works(source, read):
        record = gradebook.read_record(gradebook.record_path(out, work.lab.name, work.key))
        same = record is not None and record["submission_sha256"] == work.digest
        if same and record["checks_sha256"] == checks_digest(work.lab):
            kept += 1
        elif same and not regrade:
            stale += 1
        else:
            todo.append(work)
    if todo:
        _grade_all(todo, source, out, rules, jobs, executor)
    found = gradebook.records(out)
    gradebook.write_tables(out, found)
    for lab in read:
        own = [record for record in found if record["lab"] == lab.name]
        if own and (todo or not (out / f"{lab.name}.html").exists()):
            pairs = alike(lab, {record["student"]: record["code"] for record in own})
            gradebook.write_alike(out / f"{lab.name}.alike.csv", pairs)
            write_summary(out, lab.name, own, pairs)
    _say(f"{len(todo)} graded, {kept} unchanged since the last time")
    open_ones = sum(not record["isolated"] for record in found)
    if open_ones:
        _say(f"{open_ones} of {len(found)} not isolated: see the column in the tables, and --strict")
    if stale:
        _say(f"{stale} were graded by checks that have changed since: --regrade grades them again")
    return found


def class_seed(out: Path) -> int:
    """The secret seed of a gradebook: drawn once, kept beside the grades for those who may read them."""
    path = out / "seed.json"
    if path.exists():
        return json.loads(path.read_text())["seed"]
    out.mkdir(parents=True, exist_ok=True)
    seed = secrets.randbits(62)
    gradebook.write_whole(path, json.dumps({"seed": seed}) + "\n")
    path.chmod(0o600)
    return seed


def cluster(address: str) -> tuple[Executor, int]:
    """The workers of the Dask scheduler at `address`, as an executor, and how many threads they have.

    ValueError if Dask, the scheduler or its workers are not there.
    """
    if distributed is None:
        raise ValueError(
            "--cluster needs Dask: pip install -r tests/cluster/requirements.txt, here and where the workers run"
        )
    try:
        client = distributed.Client(address, timeout=CLUSTER_SECONDS)
        threads = sum(client.nthreads().values())
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
    if not threads:
        raise ValueError(f"the Dask scheduler at {address} has no workers yet: start some")
    return client.get_executor(pure=False), threads


def _grade_all(todo: list[Work], source: Path, out: Path, rules: Rules, jobs: int, executor: Executor | None) -> None:
    """Write each record when it is ready; only a few submissions are in memory at a time."""
    hidden = [str(path.resolve()) for path in (source, out)]
    left = iter(todo)
    with executor or ThreadPoolExecutor(jobs) as pool, tqdm(total=len(todo), unit="submission", disable=None) as bar:
        waiting: dict = {}
        try:
            while True:
                for work in itertools.islice(left, IN_FLIGHT * jobs - len(waiting)):
                    waiting[pool.submit(grade_one, *_job(work), hidden, rules)] = work
                if not waiting:
                    return
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    work = waiting.pop(future)
                    said = future.result()
                    if "refused" in said:
                        raise ValueError(
                            f"submissions cannot be isolated here ({said['refused']}): leave out --strict or grade elsewhere"
                        )
                    record = _record(work, said, rules)
                    gradebook.write_record(out, record)
                    feedback.write_page(out, record, work.lab)
                    feedback.write_notebook(out, record, said.get("executed", b""))
                    bar.update()
        except BaseException:
            for future in waiting:
                future.cancel()
            raise


def _job(work: Work) -> tuple[bytes, bytes, str]:
    """The data for the grading process: the notebook, the lab, the lab's name."""
    try:
        raw = work.read() if not work.problem else b""
    except (ValueError, OSError):
        raw = b""
    return raw, work.lab.book.path.read_bytes(), work.lab.name


_own = threading.local()  # the zygote of each thread


def grade_one(raw: bytes, lab: bytes, name: str, hidden: list[str], rules: Rules) -> dict:
    """The judge's answer about the notebook `raw`. Runs on any machine that has the course, and stores nothing there.

    With rules.notebook, what it says of a notebook that could be graded has "executed", the notebook's bytes after a run.
    """
    if not hasattr(_own, "zygote"):
        remove_abandoned()
        _own.zygote, _own.user = Zygote(), users_of(os.getpid())[next(_users) % USERS]
        atexit.register(_own.zygote.end)
    with _folder() as folder:
        secret = folder / "secret"
        secret.mkdir(mode=0o700)
        os.chmod(folder, 0o711)
        (secret / "submission.ipynb").write_bytes(raw)
        (secret / f"{name}.ipynb").write_bytes(lab)
        job = {"path": str(secret / "submission.ipynb"), "lab": str(secret / f"{name}.ipynb")}
        job |= {"seed": inputs_seed(rules.seed, raw), "secret": f"numbers of {rules.seed}"}
        job |= {"patience": asdict(rules.patience), "seconds": rules.seconds, "strict": rules.strict}
        cage = _cage(folder / "work", [*hidden, secret], rules)
        try:
            said = _own.zygote.grade(job, cage, rules.seconds + GRACE)
        except protocol.Broken as error:
            return {"unreadable": f"grading it came to no end: {error}"}
        if rules.notebook and "verdicts" in said:
            said["executed"] = _executed(raw, folder, _cage(folder / "run", [*hidden, secret], rules), rules)
        return said


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for one submission, locked while it is in use; the lock ends with this process, even if that is killed."""
    held = None
    while held is None:
        folder = Path(tempfile.mkdtemp(prefix=FOLDERS))
        held = _hold(folder)  # None: another run removed it as abandoned before it was locked
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            worker.remove(folder)
        os.close(held)


def remove_abandoned() -> None:
    """Remove the leftovers of killed runs: this user's submission folders that no process has locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*"):
        with contextlib.suppress(OSError):  # another run may remove it too
            about = folder.lstat()
            mine = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
            if mine and (held := _hold(folder)) is not None:
                try:
                    worker.remove(folder)
                finally:
                    os.close(held)


def _hold(folder: Path) -> int | None:
    """Lock the folder until the returned descriptor is closed; None if it is locked, or was removed meanwhile.

    The folder itself is locked. A lock file, such as filelock's, could be made anew in a folder that is just being removed.
    """
    with contextlib.ExitStack() as on_error, contextlib.suppress(FileNotFoundError, BlockingIOError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        on_error.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(held), os.stat(folder)):
            on_error.pop_all()
            return held
    return None


def users_of(pid: int) -> range:
    """The user ids for submissions that process `pid` grades as root, one for each submission at a time."""
    return range(FIRST_USER + USERS * (pid % 1_000_000), FIRST_USER + USERS * (pid % 1_000_000 + 1))


def inputs_seed(seed: int, raw: bytes) -> int:
    """The seed of the checks' inputs for one submission: a resubmission gets other inputs than its last feedback showed."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n".encode() + hashlib.sha256(raw).digest()).digest()[:4]) >> 1


def _cage(work: Path, hidden: list, rules: Rules) -> worker.Cage:
    work.mkdir()
    data = os.environ.get("COURSE_DATA")
    environment = {"COURSE_DATA": str(Path(data).resolve())} if data else {}
    return worker.Cage(
        work, tuple(_readable(data)), tuple(map(Path, [*hidden, *PRIVATE])), rules.limits, _own.user, environment
    )


def _executed(raw: bytes, folder: Path, cage: worker.Cage, rules: Rules) -> bytes:
    """The notebook after papermill has run it in the sandbox, in `folder`; b"" if that failed."""
    start, result = folder / "start", "executed.ipynb"
    (start / "course").mkdir(parents=True)
    (start / "course" / "utils").symlink_to(ROOT / "utils")
    (start / "submission.ipynb").write_bytes(raw)
    program = str(Path(__file__).with_name("execute.py"))
    command = (sys.executable, program, str(start / "submission.ipynb"), result, str(int(rules.patience.cell)))
    environment = cage.environment | {"PYTHONPATH": str(start / "course"), "PYTHONSAFEPATH": "1"}
    readable = (*cage.readable, start)
    cage = cage._replace(readable=readable, command=command, environment=environment, result=result)
    _own.zygote.execute(cage, rules.seconds)
    try:
        descriptor = os.open(cage.work / result, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        whole = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return file.read(LARGEST) if whole else b""


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
    return [Path(path).resolve() for path in [*given, cache] if Path(path).exists()]


def _record(work: Work, said: dict, rules: Rules) -> dict:
    """The record of a submission: nothing in it depends on the time, the machine's speed or the order of grading."""
    checks = said.get("verdicts") or [
        {"task": task.name, "check": check.id, "hidden": check is task.hidden, "points": points_of(check)}
        | {"earned": 0, "message": ""}
        for task in work.lab.tasks
        for check in task.checks
    ]
    problem = work.problem or said.get("unreadable", "")
    isolation = {layer: str(said.get("isolation", {}).get(layer, "")) for layer in sandbox.LAYERS}
    return {
        "student": work.student,
        "key": work.key,
        "id": work.id,
        "lab": work.lab.name,
        "file": work.file,
        "earned": sum(check["earned"] for check in checks),
        "points": sum(check["points"] for check in checks),
        "checks": checks,
        "problem": problem,
        "notes": [*work.notes, *said.get("notes", ())],
        "raised": said.get("raised", {}),
        "code": said.get("code", {}),
        "isolation": isolation,
        "isolated": bool(problem) or isolated(isolation),
        "submission_sha256": work.digest,
        "checks_sha256": checks_digest(work.lab),
        "seed": rules.seed,
        "versions": {"python": ".".join(map(str, sys.version_info[:3])), "torch": torch.__version__},
    }


def checks_digest(lab: Lab) -> str:
    """SHA-256 of everything but the submission that decides a grade: checks, points, and the code that runs them."""
    digest = hashlib.sha256()
    for task in lab.tasks:
        for check in task.checks:
            digest.update(f"{check.id} {points_of(check)}\n{check.source}\n".encode())
    for cell in lab.others:
        digest.update(f"{cell.id}\n{cell.source}\n".encode())
    for path in [
        *(Path(__file__).with_name(f"{name}.py") for name in ENGINE),
        *(ROOT / "utils" / "lab" / f"{name}.py" for name in ("ask", "plain_values")),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _say(line: str) -> None:
    print(line, file=sys.stderr)
