"""Run lectures and solutions on this machine's GPU, and save the results as a receipt.

The receipt is rewritten after each notebook, so that nothing is lost when time runs out: the same call continues where the
last one stopped. What the receipt already has, of the same code and from the same versions, is left alone.

Lectures with proofs for a GPU run one at a time, since some of these compare times; all others share the machine first. With
many cores it is faster to let all share it, and to run again, alone, what compares times and turned red.
"""

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

from utils.course import ROOT
from utils.course.notebooks import ledger
from utils.course.notebooks.notebook import Lecture, is_lecture, notebooks_in, read
from utils.course.receipts.provenance import code_of, commit_of, find_commit
from utils.course.receipts.receipts import (
    STORE,
    Receipt,
    empty,
    file_name,
    is_done,
    is_red,
    lecture_entry,
    merge,
    read_receipt,
    receipts,
    solution_entry,
    with_entry,
    write_receipt,
)
from utils.course.receipts.rehash import rehashed
from utils.course.receipts.table import table
from utils.course.run import execute_and_judge, header_of, say

LECTURES, SOLUTIONS = ROOT / "notebooks", ROOT / "solutions"
SHOW = "The READMEs show it after `make tidy`."


class Certifier:
    """One call: its run, its receipt so far, its worker processes, and whether its time is up."""

    def __init__(self, receipt: Receipt, run: dict, build: Path, timeout: int | None):
        self.receipt, self.run, self.build, self.timeout = receipt, run, build, timeout
        self.results: list[ledger.LectureResult] = []
        self.workers: list[subprocess.Popen] = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Start no more notebooks, and end the running ones."""
        self.over.set()
        for worker in list(self.workers):
            worker.kill()  # its kernel notices and ends too

    def one(self, book: Lecture) -> None:
        """Execute a notebook and add its result to the receipt, unless time runs out first."""
        if self.over.is_set():
            return
        solution = is_solution(book)
        header = self.run | {"form": "short"} if solution else self.run
        output = self.build / "receipt" / ("solutions" if solution else "lectures") / book.path.name
        result, executed = execute_and_judge(book, output, header, self.timeout, self.workers)
        if self.over.is_set() and executed is None:
            return
        entry = solution_entry(book, result, executed) if solution else lecture_entry(book, result)
        with self._lock:
            self.receipt = with_entry(self.receipt, self.run, book, entry)
            write_receipt(self.receipt)
            self.results = [other for other in self.results if other.name != result.name] + [result]
        say(_solved(result, entry) if solution else ledger.summary(result))


def is_solution(book: Lecture) -> bool:
    return book.path.resolve().parent == SOLUTIONS


def _solved(result: ledger.LectureResult, entry: dict) -> str:
    sign = "✗" if result.red else "✓"
    return f"{sign} {result.name}: {entry['points']} of {entry['of']} points, {result.seconds:.1f} s"


def certify(
    paths: list[Path],
    *,
    full: bool,
    jobs: int,
    build: Path,
    timeout: int | None = None,
    limit: float | None = None,
    again: bool = False,
    together: bool = False,
    out: Path | None = None,
) -> int:
    """Run those of the notebooks in `paths` that this GPU's receipt lacks, all of them if `again`; print the receipt.

    `jobs`: how many at a time of those that may share the machine; `together`: all may, and what compares times and turns
    red runs again, alone; `limit`: seconds after which nothing runs on; `out`: a file outside tests/receipts/ for a receipt
    to look at, which needs no GPU. Returns 1 if a thing failed or is left to run, else 0. Raises ValueError, before anything
    runs, where there is no GPU, and for a file that cannot be the receipt.
    """
    run = machine(full)
    receipt = _so_far(run, out)
    books = [read(path) for path in paths]
    todo = [book for book in books if again or not is_done(receipt, book, run)]
    if len(todo) < len(books):
        say(f"{len(books) - len(todo)} of {len(books)} notebooks are in {receipt.path} already")
    work = Certifier(receipt, run, build, timeout)
    shared = [book for book in todo if together or not compares_times(book)]
    alone = [book for book in todo if book not in shared]
    timer = threading.Timer(limit or 0, work.stop)
    timer.daemon = True
    if limit:
        timer.start()
    try:
        _all_of(work, shared, jobs)
        red = [book for book in shared if compares_times(book) and is_red(work.receipt, book)]
        _all_of(work, alone + red, 1)
    finally:
        timer.cancel()
    if out is None:
        say(SHOW)
    return _report(work, books)


def machine(full: bool) -> dict:
    """The place and time of this run: the header of `make run`, the driver, CUDA, and the code with its commit."""
    code = code_of(ROOT)
    return header_of(full) | {"driver": _driver(), "cuda": torch.version.cuda, "code": code, **commit_of(code, ROOT)}


def _driver() -> str | None:
    question = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.splitlines()[0].strip() if answer.strip() else None


def _so_far(run: dict, out: Path | None) -> Receipt:
    """The receipt that this run adds to; empty if there is no file yet."""
    if out is None and run["device"] != "cuda":
        raise ValueError(
            f"no CUDA GPU here (torch {run['torch']} sees none), so nothing to write a receipt of: call this on a machine "
            "with one, or try it out with --allow-cpu OUT"
        )
    if out is not None and (out.is_dir() or out.resolve().is_relative_to(STORE.resolve())):
        raise ValueError(f"--allow-cpu {out}: name a file outside {STORE}, which is for receipts of GPUs alone")
    gpu = run["gpu"] or run["hardware"]
    path = out or STORE / file_name(gpu)
    receipt = read_receipt(path) if path.exists() else empty(path, gpu)
    if receipt.gpu != gpu:
        raise ValueError(f"{path} is a receipt of {receipt.gpu}, and this is {gpu}: name another file")
    return receipt


def compares_times(book: Lecture) -> bool:
    """Whether proofs of the notebook may compare times (only those for a GPU do), so that it must run alone."""
    return any(claim.proof and "gpu" in claim.proof.tags for claim in book.claims)


def _all_of(work: Certifier, books: list[Lecture], jobs: int) -> None:
    pool = ThreadPoolExecutor(jobs)
    try:
        for future in [pool.submit(work.one, book) for book in books]:
            future.result()
    except BaseException:
        work.stop()
        raise
    finally:
        pool.shutdown()


def _report(work: Certifier, books: list[Lecture]) -> int:
    receipt, results = work.receipt, work.results
    left = [book.name for book in books if not is_done(receipt, book, work.run)]
    red = [book.name for book in books if is_red(receipt, book)]
    parts = [table(receipt, *notebooks()), ledger.failures(results), ledger.unverified(results)]
    if red:
        parts.append(f"failed: {', '.join(red)}; these run again when their code has changed, or with --again")
    if left:
        parts.append(f"left to run, {len(left)} of {len(books)}, the same call continues there: {', '.join(left)}")
    print("\n" + "\n\n".join(part for part in [*parts, f"receipt {receipt.path}"] if part))
    return 1 if left or red else 0


def notebooks() -> tuple[list[Lecture], list[Lecture]]:
    """All lectures and all solutions."""
    found = (notebooks_in(folder) for folder in (LECTURES, SOLUTIONS))
    return tuple([read(path) for path in paths if is_lecture(path)] for paths in found)


def add(paths: list[Path]) -> int:
    """Merge receipts from other machines into those of their GPUs in tests/receipts/; report the result for each GPU.

    A run without a commit, since there was no repository around the code, gets the one that this repository has the same
    code in. Raises ValueError for a file that is no receipt of a GPU.
    """
    found = [read_receipt(path) for path in paths]
    for new in found:
        if any(run["device"] != "cuda" for run in new.runs):
            raise ValueError(f"{new.path}: written without a GPU, so not a receipt of one")
    for new in found:
        runs = tuple(run if run["commit"] else run | find_commit(run["code"], ROOT) for run in new.runs)
        for run in runs:
            if not run["commit"]:
                say(
                    f"{new.path}: the code of the run of {run['date']} is in no recent commit here; its commit stays unknown"
                )
        path = STORE / file_name(new.gpu)
        old = read_receipt(path) if path.exists() else empty(path, new.gpu)
        both = merge(old, replace(new, runs=runs))
        write_receipt(both)
        print(f"{table(both, *notebooks())}\n\nreceipt {path}\n")
    say(SHOW)
    return 0


def rehash() -> int:
    """Rewrite the receipts in tests/receipts/ with hashes by today's rule: see `rehashed`."""
    for receipt in receipts():
        write_receipt(rehashed(receipt, ROOT))
        print(
            f"{receipt.path}: hashed anew, by the code of {', '.join(sorted({run['commit'] for run in receipt.runs}))}"
        )
    return 0
