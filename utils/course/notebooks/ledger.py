"""The ledger: the verdict on each claim of an executed lecture, and the reason for it.

A claim is verified only if its proof ran (it has an execution count), raised nothing, and did not say that it
could not run here. Everything else is "failed" or "not verified", with the reason.
"""

import json
import re
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from utils.atomic_write import write_text
from utils.course.notebooks.engine import STOPPED, WORK
from utils.course.notebooks.notebook import Cell, Claim, Lecture, text_of
from utils.proof_text import MARK, NOT_VERIFIED

VERIFIED, UNVERIFIED, FAILED = "verified", "not verified", "failed"
WHOLE = "(the whole lecture)"  # in place of a cell id if the run ended early
NUMBER = r"(?:(?:\d+|C)\.\d+  )?"  # of a claim, with its blanks
PASSED = re.compile(rf"{MARK} {NUMBER}(.+)")
NOT_HERE = re.compile(rf"{NOT_VERIFIED}\s*{NUMBER}(.*?)(?:\. On .*)?")  # the rest is what receipts say
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
WIDTH = 100


@dataclass(frozen=True)
class Verdict:
    """One claim's status; `reason` says why it is not verified here, or what a failing proof saw.

    `compared`: what a proof that passed says that it compared, "" if it says nothing. `work`: what the proof ran on the
    machine's GPU (see the engine), None on a machine without one.
    """

    claim: Claim
    lecture: str
    status: str
    reason: str
    seconds: float
    work: int | None = None
    compared: str = ""

    @property
    def on_device(self) -> bool:
        return self.status == VERIFIED and bool(self.work)

    @property
    def host(self) -> str:
        """Why the proof stays on the host, "" if it does not."""
        return self.claim.proof.host if self.claim.proof else ""


@dataclass(frozen=True)
class LectureResult:
    """One lecture after its run. `broken` holds (cell id, error) of failing cells that are not proofs.

    `strength` is the share of small changes to its code that an assert noticed when that was last measured, in words;
    `elsewhere` what became of each claim on GPUs, by its number, as `receipts.status` says it.
    """

    name: str
    title: str
    verdicts: tuple[Verdict, ...]
    broken: tuple[tuple[str, str], ...]
    seconds: float
    strength: str = "–"
    elsewhere: dict[str, tuple] = field(default_factory=dict)
    deeper: bool = False

    def count(self, status: str) -> int:
        return sum(verdict.status == status for verdict in self.verdicts)

    @property
    def on_device(self) -> int:
        """Claims whose proofs ran on the machine's GPU."""
        return sum(verdict.on_device for verdict in self.verdicts)

    @property
    def host(self) -> int:
        """Claims whose proofs stay on the host, on every machine."""
        return sum(bool(verdict.host) for verdict in self.verdicts)

    @property
    def red(self) -> bool:
        return bool(self.broken) or self.count(FAILED) > 0


def judge(
    lecture: Lecture, executed: Lecture | None, *, cuda: bool, full: bool, seconds: float, problem: str = ""
) -> LectureResult:
    """The verdicts on the claims of `lecture`, from its executed copy, or the `problem` if there is none.

    `cuda`: whether the machine has a CUDA GPU; `full`: whether the long form ran; `seconds`: of the lecture.
    """
    if executed is None:
        verdicts = tuple(_verdict(lecture, claim, FAILED, f"not run: {problem}") for claim in lecture.claims)
        return LectureResult(lecture.name, lecture.title, verdicts, ((WHOLE, problem),), seconds, deeper=lecture.deeper)
    stopped = executed.raw["metadata"].get(STOPPED, "not run")
    verdicts = tuple(_judge_claim(executed, claim, cuda=cuda, full=full, stopped=stopped) for claim in executed.claims)
    proofs = {claim.proof.index for claim in executed.claims if claim.proof}
    others = [cell for cell in executed.code if cell.index not in proofs and cell.source.strip()]
    broken = [(cell.id, problem) for cell in others if (problem := error_of(cell, stopped))]
    return LectureResult(lecture.name, lecture.title, verdicts, tuple(broken), seconds, deeper=lecture.deeper)


def _judge_claim(lecture: Lecture, claim: Claim, *, cuda: bool, full: bool, stopped: str) -> Verdict:
    if claim.proof is None:
        return _verdict(lecture, claim, FAILED, "no code cell follows the claim, so nothing proves it")
    problem = error_of(claim.proof, stopped)
    if problem:
        return _verdict(lecture, claim, FAILED, problem)
    not_here = _matching(claim.proof, NOT_HERE)
    reason = "" if not_here is None else not_here or "no reason given"
    if not reason and "gpu" in claim.proof.tags and not cuda:
        reason = "needs a CUDA GPU"
    if not reason and "full" in claim.proof.tags and not full:
        reason = "short form"
    return _verdict(lecture, claim, UNVERIFIED if reason else VERIFIED, reason)


def _verdict(lecture: Lecture, claim: Claim, status: str, reason: str) -> Verdict:
    if claim.proof is None:
        return Verdict(claim, lecture.name, status, reason, 0.0)
    work = claim.proof.raw.get("metadata", {}).get(WORK)
    compared = _matching(claim.proof, PASSED) if status == VERIFIED else ""
    return Verdict(claim, lecture.name, status, reason, _seconds(claim.proof), work, compared or "")


def error_of(cell: Cell, stopped: str = "not run") -> str:
    """What went wrong in an executed code cell: its error, or that it did not run; "" if nothing."""
    for output in cell.raw.get("outputs", []):
        if output["output_type"] == "error":
            return _explain(output)
    return stopped if cell.raw.get("execution_count") is None else ""


def _explain(error: dict) -> str:
    """The error's message; for an assert without one, its line of code."""
    value = ANSI.sub("", error["evalue"]).strip()
    if error["ename"] == "AssertionError" and value:
        return value
    if value:
        return f"{error['ename']}: {value}"
    lines = ANSI.sub("", "\n".join(error["traceback"])).splitlines()
    at = [found[1] for line in lines if (found := re.match(r"-+>\s*\d+\s+(.*\S)", line))]
    return f"{error['ename']} at: {at[-1]}" if at else error["ename"]


def _matching(cell: Cell, line: re.Pattern) -> str | None:
    """The first group of the first line of this form that the cell printed; None without such a line."""
    streams = (text_of(output["text"]) for output in cell.raw.get("outputs", []) if output["output_type"] == "stream")
    lines = (ANSI.sub("", each) for text in streams for each in text.splitlines())
    return next((match[1].strip() for each in lines if (match := line.fullmatch(each))), None)


def _seconds(cell: Cell) -> float:
    return round(cell.raw.get("metadata", {}).get("papermill", {}).get("duration") or 0.0, 3)


def rows(results: list[LectureResult], machine: dict) -> list[dict]:
    """One JSON object per claim, in order. `machine` has the keys device, gpu and torch."""
    return [
        {
            "id": verdict.claim.number,
            "lecture": verdict.lecture,
            "kind": verdict.claim.kind,
            "text": verdict.claim.text,
            "proof": verdict.claim.proof_hash,
            "status": verdict.status,
            "reason": verdict.reason,
            "on the device": verdict.on_device,
            "host": verdict.host,
            "seconds": verdict.seconds,
            **{key: machine[key] for key in ("device", "gpu", "torch")},
            "elsewhere": [
                {"gpu": seen.gpu, "status": seen.status, "date": seen.run["date"]}
                for seen in result.elsewhere.get(verdict.claim.number, ())
            ],
        }
        for result in results
        for verdict in result.verdicts
    ]


def write(path: Path, header: dict, results: list[LectureResult]) -> None:
    """Write the ledger as JSON, atomically."""
    lectures = [
        {
            "lecture": result.name,
            "title": result.title,
            "deeper": result.deeper,
            "claims": len(result.verdicts),
            "verified": result.count(VERIFIED),
            "on the device": result.on_device,
            "host": result.host,
            "not verified": result.count(UNVERIFIED),
            "failed": result.count(FAILED),
            "broken cells": [{"cell": cell, "reason": reason} for cell, reason in result.broken],
            "seconds": round(result.seconds, 1),
            "strength": result.strength,
        }
        for result in results
    ]
    ledger = {"run": header, "lectures": lectures, "claims": rows(results, header)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(ledger, indent=1, ensure_ascii=False) + "\n")


def summary(result: LectureResult) -> str:
    """The result of one lecture in one line, printed when it ends."""
    counts = [f"{result.count(VERIFIED)} of {len(result.verdicts)} claims verified" if result.verdicts else "executed"]
    counts += [f"{n} {status}" for status in (UNVERIFIED, FAILED) if (n := result.count(status))]
    broken = f", {len(result.broken)} broken cells" if result.broken else ""
    return f"{'✗' if result.red else '✓'} {_label(result)}: {', '.join(counts)}{broken}, {result.seconds:.1f} s"


def table(results: list[LectureResult]) -> str:
    """One line per lecture, and the total."""
    wide = max([24, *(len(_label(result)) for result in results)])
    head = (
        f"{'lecture':<{wide}}  {'claims':>6}  {'verified':>8}  {'on device':>9}  {'host':>4}  {'not here':>8}  {'failed':>6}"
        f"  {'seconds':>7}  strength"
    )
    lines = [head, "─" * len(head)]
    lines += [_line(_label(result), [result], wide, result.strength) for result in results]
    return "\n".join([*lines, "─" * len(head), _line("total", results, wide)])


def _label(result: LectureResult) -> str:
    number = re.match(r"\d\d[a-z]?(?=_)", result.name)
    return f"{number[0]} {result.title}" if number and not result.title.startswith(number[0]) else result.title


def _line(label: str, results: list[LectureResult], wide: int, strength: str = "") -> str:
    verified, unverified, failed = (sum(r.count(s) for r in results) for s in (VERIFIED, UNVERIFIED, FAILED))
    broken = sum(len(result.broken) for result in results)
    note = f"  and {broken} broken cell{'s' * (broken > 1)}" if broken else ""
    seconds = sum(result.seconds for result in results)
    claims = sum(len(result.verdicts) for result in results)
    on_device, host = sum(result.on_device for result in results), sum(result.host for result in results)
    counts = f"{label:<{wide}}  {claims:>6}  {verified:>8}  {on_device:>9}  {host:>4}  {unverified:>8}  {failed:>6}"
    counts += f"  {seconds:>7.1f}"
    return f"{counts}  {strength:>8}{note}".rstrip()


def failures(results: list[LectureResult]) -> str:
    """Every failing claim with its sentence and its error, and every broken cell; "" if there are none."""
    blocks = []
    for result in results:
        blocks += [_block(f"{result.name}, cell {cell}", "", reason) for cell, reason in result.broken]
        for verdict in result.verdicts:
            if verdict.status == FAILED:
                claim = verdict.claim
                blocks.append(_block(f"{claim.kind} {claim.number}", claim.text, verdict.reason))
    return "\n\n".join(blocks)


def _block(head: str, text: str, reason: str) -> str:
    words = f"FAILED  {head}." + (f" {text}" if text else "")
    body = textwrap.fill(words, WIDTH, subsequent_indent=" " * 8)
    return body + "\n" + textwrap.indent(f"saw: {_shorten(reason)}", " " * 8)


def _shorten(reason: str, most: int = 12) -> str:
    lines = [
        textwrap.shorten(line, 2 * WIDTH, placeholder=" …") if len(line) > 2 * WIDTH else line
        for line in reason.splitlines()
    ]
    return "\n".join(
        lines if len(lines) <= most else [*lines[: most - 1], f"… {len(lines) - most + 1} lines more in the page"]
    )


def unverified(results: list[LectureResult]) -> str:
    """How many claims could not be checked here, by reason; "" if none."""
    reasons = Counter(v.reason for result in results for v in result.verdicts if v.status == UNVERIFIED)
    return "\n".join(f"not verified here: {n:>3}  {reason}" for reason, n in reasons.most_common())


def elsewhere(results: list[LectureResult]) -> str:
    """For each GPU with a receipt, how many of these claims it verified, how many of them not verified here; "" if none."""
    found: dict[str, list[tuple[str, str]]] = {}
    for result in results:
        for verdict in result.verdicts:
            for seen in result.elsewhere.get(verdict.claim.number, ()):
                found.setdefault(seen.gpu, []).append((seen.status, verdict.status))
    return "\n".join(_on(gpu, pairs) for gpu, pairs in found.items())


def _on(gpu: str, pairs: list[tuple[str, str]]) -> str:
    there = Counter(status for status, _ in pairs)
    more = sum(pair == (VERIFIED, UNVERIFIED) for pair in pairs)
    rest = "".join(f", {n} {status}" for status, n in sorted(there.items()) if status != VERIFIED)
    return f"verified on {gpu}: {there[VERIFIED]:>3} of them, {more} of which not verified here{rest}"
