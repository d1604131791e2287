"""A lab's results for the class: one page with a picture, the hardest task and the most common failed checks."""

import base64
import io
from collections import Counter
from html import escape
from pathlib import Path

from utils.course.grading import gradebook
from utils.course.grading.feedback import STYLE
from utils.course.grading.similar import Pair
from utils.figures.grades import class_results

MOST_SHOWN = 10


def write_summary(out: Path, lab: str, records: list[dict], pairs: list[Pair]) -> Path:
    """OUT/<lab>.html, of the lab's records (at least one) and the pairs of submissions that are alike."""
    path = out / f"{lab}.html"
    gradebook.write_whole(path, summary(lab, records, pairs))
    return path


def summary(lab: str, records: list[dict], pairs: list[Pair]) -> str:
    """The page as HTML; what students wrote in it is escaped."""
    shares = shares_of_tasks(records)
    points = max(record["points"] for record in records)
    hardest = min(shares, key=shares.get)
    parts = [f"<h1>{escape(lab)}: {len(records)} submissions</h1>"]
    parts.append(_picture([record["earned"] for record in records], points, shares))
    parts.append(
        f"<p>Hardest task: <strong>{escape(hardest)}</strong>, {shares[hardest]:.0%} of its points earned.</p>"
    )
    parts += [
        "<h2>Checks that failed most</h2>",
        _table(["check", "failed", "the commonest message begins"], failed(records)),
    ]
    if problems := [(record["student"], record["problem"]) for record in records if record["problem"]]:
        parts += ["<h2>Not gradable</h2>", _table(["student", "why"], problems[:MOST_SHOWN])]
    if pairs:
        rows = [(pair.first, pair.second, f"{pair.share:.0%}", ", ".join(pair.tasks)) for pair in pairs[:MOST_SHOWN]]
        parts += [
            "<h2>Alike beyond the starter, to be looked at</h2>",
            _table(["student", "student", "alike", "tasks"], rows),
        ]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{escape(lab)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def shares_of_tasks(records: list[dict]) -> dict[str, float]:
    """task -> points earned by all, divided by the points possible."""
    earned: Counter = Counter()
    possible: Counter = Counter()
    for record in records:
        for check in record["checks"]:
            earned[check["task"]] += check["earned"]
            possible[check["task"]] += check["points"]
    return {task: earned[task] / points for task, points in possible.items()}


def failed(records: list[dict]) -> list[tuple[str, int, str]]:
    """(check, number of students who failed it, the most common line of the message), the most common first."""
    said: dict[str, Counter] = {}
    for record in records:
        for check in record["checks"] if not record["problem"] else ():
            if check["earned"] < check["points"]:
                lines = [line for line in check["message"].splitlines() if line.startswith("next:")]
                first = (lines or check["message"].splitlines() or [""])[0]
                said.setdefault(check["check"], Counter())[first] += 1
    rows = [(name, counts.total(), counts.most_common(1)[0][0][:200]) for name, counts in said.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:MOST_SHOWN]


def _picture(earned: list[int], points: int, shares: dict[str, float]) -> str:
    buffer = io.BytesIO()
    class_results(earned, points, shares).savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="scores, and points by task" src="data:image/png;base64,{data}">'


def _table(head: list[str], rows: list[tuple]) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "\n".join(lines) + "</table>"
