"""A page for each student: points, expected and actual values, hints, their code. Nothing about hidden checks."""

import json
from html import escape
from pathlib import Path

from utils.course.grading import gradebook
from utils.course.grading.submission import ELSEWHERE
from utils.course.notebooks.lab import Lab, Task

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-top: 1px solid #ddd; padding-top: 1rem }
pre { background: #f6f6f4; padding: .8rem; overflow-x: auto; font-size: .85rem; white-space: pre-wrap }
.full { color: #1a7f37 } .part { color: #9a6700 } .none { color: #b42318 } .note { color: #666 }
table { border-collapse: collapse; font-size: .9rem } th, td { text-align: left; padding: .25rem .8rem .25rem 0 }
th { border-bottom: 1px solid #bbb } img { max-width: 100% }
"""
HARMLESS = {"text/plain", "image/png", "image/jpeg"}


def page_path(out: Path, record: dict) -> Path:
    return out / "feedback" / record["lab"] / f"{record['key']}.html"


def write_page(out: Path, record: dict, lab: Lab) -> Path:
    """OUT/feedback/<lab>/<student>.html, from the record and the texts of the lab."""
    path = page_path(out, record)
    gradebook.write_whole(path, page(record, lab))
    return path


def write_notebook(out: Path, record: dict, executed: bytes) -> None:
    """Write the student's executed notebook beside the page; nothing if it is missing or not JSON.

    Of its outputs, texts and pictures only: HTML and JavaScript would run in the browser of who opens it.
    """
    try:
        book = json.loads(executed.decode())
        for cell in book["cells"]:
            for output in cell.get("outputs", ()):
                if "data" in output:
                    output["data"] = {kind: value for kind, value in output["data"].items() if kind in HARMLESS}
                output.pop("metadata", None)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return
    gradebook.write_whole(page_path(out, record).with_suffix(".ipynb"), json.dumps(book, indent=1, ensure_ascii=False))


def page(record: dict, lab: Lab) -> str:
    """The page as HTML; everything that came from the submission is escaped."""
    title = f"{lab.book.title} · {record['student']}"
    parts = [f"<h1>{escape(title)}</h1>", f"<p><strong>{record['earned']} of {record['points']} points</strong></p>"]
    if record["failed"]:
        parts.append("<p class=none>It was not graded yet: the grader failed, and tries again. These are no zeros.</p>")
    if record["problem"]:
        parts.append(f"<p class=none>It could not be graded: {escape(record['problem'])}.</p>")
    parts += [f"<p class=note>{escape(note)}</p>" for note in record["notes"]]
    parts += [_task(task, record) for task in lab.tasks if not record["problem"] and not record["failed"]]
    if own := record["code"].get(ELSEWHERE):
        parts.append(
            f"<details><summary>Your own cells, which were run too</summary><pre>{escape(own)}</pre></details>"
        )
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _task(task: Task, record: dict) -> str:
    checks = [check for check in record["checks"] if check["task"] == task.name]
    earned, points = (sum(check[what] for check in checks) for what in ("earned", "points"))
    state = "full" if earned == points else "part" if earned else "none"
    heading = task.prose.source.splitlines()[0].lstrip("# ")
    parts = [f"<h2>{escape(heading)} <span class={state}>{earned} of {points}</span></h2>"]
    for check in checks:
        if check["earned"] < check["points"]:
            hidden = check["hidden"] and task.name not in record["held"]
            said = "a further check, of other inputs, was not passed" if hidden else check["message"]
            parts.append(f"<pre>{escape(said)}</pre>")
    if told := record["raised"].get(task.code.id):
        parts.append(f"<p>Running the cell raised <code>{escape(f'{told[0][0]}: {told[1]}')}</code></p>")
    if earned < points:
        parts.append(task.hints.source)
    source = record["code"].get(task.name) or "nothing of this task was found"
    parts.append(f"<details><summary>The code that was graded</summary><pre>{escape(source)}</pre></details>")
    return "\n".join(parts)
