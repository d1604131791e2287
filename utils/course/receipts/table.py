"""Tables of receipts: what each GPU verified, for the terminal, the README and tests/receipts/README.md."""

from collections import Counter

from utils.course.notebooks.ledger import FAILED, UNVERIFIED, VERIFIED
from utils.course.notebooks.notebook import Lecture
from utils.course.receipts.provenance import book_hash
from utils.course.receipts.receipts import ON_HOST, STALE, Receipt, status

RAN = "ran"
FORMS = {"short": "short", "full": "long"}
NONE_YET = """\
No GPU receipt exists yet: no machine has verified the proofs that need a GPU. On a machine with one, call `make receipt`."""


def tally(lecture: Lecture, receipt: Receipt) -> Counter | None:
    """How many of the lecture's claims this GPU has verified, not verified, failed or stale; None if it never ran there."""
    if lecture.name not in receipt.lectures:
        return None
    return Counter(seen.status for there in status(lecture, [receipt]).values() for seen in there)


def solved(solution: Lecture, receipt: Receipt) -> str:
    """The status of a solution: "ran", STALE or FAILED; "" if it never ran there."""
    entry = receipt.solutions.get(solution.name)
    if entry is None:
        return ""
    return FAILED if not entry["ran"] else STALE if entry["computes"] != book_hash(solution) else RAN


def table(receipt: Receipt, lectures: list[Lecture], solutions: list[Lecture]) -> str:
    """One line for each lecture with the status of its claims, then the solutions, then the runs that these are from."""
    head = f"{'lecture':<34}  claims  on device  host  not there  failed  stale  seconds  form"
    lines, total = [head, "─" * len(head)], Counter()
    for lecture in lectures:
        counts, label = tally(lecture, receipt), f"{lecture.name:<34.34}  {len(lecture.claims):>6}"
        if counts is None:
            lines.append(f"{label}  (did not run)")
            continue
        entry = receipt.lectures[lecture.name]
        counts += Counter(seconds=entry["seconds"], broken=len(entry["broken"]))
        total += counts
        lines.append(f"{label}  {_counted(counts)}  {FORMS[receipt.run_of(entry)['form']]}{_broken(counts)}")
    claims = sum(len(lecture.claims) for lecture in lectures)
    lines += ["─" * len(head), f"{'total':<34}  {claims:>6}  {_counted(total)}{_broken(total)}"]
    ran = [receipt.solutions[book.name] for book in solutions if book.name in receipt.solutions]
    if ran:
        points = f"{sum(entry['points'] for entry in ran)} of {sum(entry['of'] for entry in ran)} points"
        seconds = sum(entry["seconds"] for entry in ran)
        lines += ["", f"solutions: {_solutions(solutions, receipt)}, {points}, {seconds:.1f} s"]
    return "\n".join([*lines, "", origin(receipt)])


def _counted(counts: Counter) -> str:
    numbers = (
        f"{counts[VERIFIED]:>9}  {counts[ON_HOST]:>4}  {counts[UNVERIFIED]:>9}  {counts[FAILED]:>6}  {counts[STALE]:>5}"
    )
    return f"{numbers}  {counts['seconds']:>7.1f}"


def _broken(counts: Counter) -> str:
    return f"  and {counts['broken']} broken cell{'s' * (counts['broken'] > 1)}" if counts["broken"] else ""


def _solutions(solutions: list[Lecture], receipt: Receipt) -> str:
    counts = Counter(solved(book, receipt) for book in solutions)
    passed, changed = counts[RAN] + counts[STALE], counts[STALE]
    since = f", {'all' if changed == passed else changed} changed since" * bool(changed)
    failed = f", {counts[FAILED]} failed" * bool(counts[FAILED])
    return f"{passed} of {len(solutions)} ran{since}{failed}"


def origin(receipt: Receipt) -> str:
    """The runs that a receipt is from, in one line: GPU, driver, versions, commits, dates."""

    def all_of(key: str) -> str:
        return " and ".join(sorted({str(run[key]) for run in receipt.runs}))

    commits = sorted(
        {f"{run['commit'][:9]}{' with changes' * bool(run['dirty'])}" for run in receipt.runs if run["commit"]}
    )
    days = sorted({run["date"][:10] for run in receipt.runs})
    parts = [receipt.gpu, f"driver {all_of('driver')}", f"CUDA {all_of('cuda')}", f"torch {all_of('torch')}"]
    parts += [
        f"Python {all_of('python')}",
        f"commit {', '.join(commits) or 'unknown'}",
        " to ".join(dict.fromkeys(days[:1] + days[-1:])),
    ]
    return ", ".join(parts)


def readme_block(kept: list[Receipt], lectures: list[Lecture], solutions: list[Lecture]) -> str:
    """The README's text about receipts: a line for each GPU, or that there is none yet."""
    lines = [
        f"- [{receipt.gpu}](tests/receipts/{receipt.path.name}): {_claims_in_all(lectures, receipt)}; "
        f"solutions: {_solutions(solutions, receipt)}"
        for receipt in kept
    ]
    return "\n".join(lines) or NONE_YET


def _claims_in_all(lectures: list[Lecture], receipt: Receipt) -> str:
    counts = sum((tally(lecture, receipt) or Counter() for lecture in lectures), Counter())
    claims = sum(len(lecture.claims) for lecture in lectures)
    counts["did not run"] = claims - counts.total()
    others = (ON_HOST, UNVERIFIED, STALE, FAILED, "did not run")
    rest = "".join(f", {counts[what]} {what}" for what in others if counts[what])
    return f"{counts[VERIFIED]} of {claims} claims verified on it{rest}"


def page_block(kept: list[Receipt], lectures: list[Lecture], solutions: list[Lecture]) -> str:
    """The text of tests/receipts/README.md: a table of lectures and GPUs, or that there is none yet."""
    if not kept:
        return NONE_YET
    heads = " | ".join(f"[{receipt.gpu}]({receipt.path.name})" for receipt in kept)
    lines = [f"| verified on | {heads} |", "|---" * (len(kept) + 1) + "|"]
    for lecture in lectures:
        cells = " | ".join(_cell(lecture, receipt) for receipt in kept)
        lines.append(f"| {lecture.name} | {cells} |")
    lines.append(f"| solutions | {' | '.join(_solutions(solutions, receipt) for receipt in kept)} |")
    return "\n".join([*lines, "", *(f"{origin(receipt)}." for receipt in kept)])


def _cell(lecture: Lecture, receipt: Receipt) -> str:
    counts = tally(lecture, receipt)
    if counts is None:
        return "–"
    rest = f", {counts[ON_HOST]} {ON_HOST}" if counts[ON_HOST] else ""
    seen = {number: there[0].status for number, there in status(lecture, [receipt]).items() if there}
    for what in (STALE, UNVERIFIED, FAILED):
        numbers = [number for number, verdict in seen.items() if verdict == what]
        rest += f", {len(numbers)} {what} ({', '.join(numbers)})" if numbers else ""
    form = receipt.run_of(receipt.lectures[lecture.name])["form"]
    return f"{counts[VERIFIED]} of {len(lecture.claims)}{rest}" + " (short form)" * (form == "short")
