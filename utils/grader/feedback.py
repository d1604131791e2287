"""What a student is told of their submission, and the page of it. Nothing about hidden checks but how many were passed.

Told once, as `Part`s, and written twice: here as a page, in notebook_copy.py into a copy of the student's notebook.
"""

import re
import statistics
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from utils.course import ROOT
from utils.course.notebooks.colab_links import address_of
from utils.course.notebooks.lab import Lab, Task
from utils.course.notebooks.notebook import label_of, read
from utils.grader import decisions, gradebook, pages
from utils.grader.rules import NO_ANSWER, RAISED, UNSOLVED, WRONG
from utils.grader.submission import ELSEWHERE, functions_of
from utils.grader.written import Question, questions

FEWEST = 5  # submissions from which a student is shown the median: of fewer, one could tell whose points they are
NEXT, EXPECTED, ASKED = "next:", "expected:", "asked:"  # what begins a line of a check's message
INSIDE = re.compile(r" \(<ipython-input-[^)]*\)")  # a name that Jupyter gives a cell, and nobody sees
SAY, HINT, WAYS, PERSONAL = "say", "hint", "ways", "personal"
ADVICE, MESSAGE, QUESTION = "advice", "message", "question"
HIDDEN = {
    WRONG: "A further check, with other inputs, found it wrong.",
    RAISED: "A further check, with other inputs, ended in an exception.",
    NO_ANSWER: "A further check, with other inputs, got no answer: it took too long, or ended the process.",
    UNSOLVED: "A further check found that it is not written yet.",
}
HELD = (
    "The checks pass, although no code of yours was found for this task. A person looks at it before it earns points."
)


@dataclass(frozen=True)
class Part:
    """One piece of feedback. kind: SAY, HINT and WAYS are Markdown by the course, PERSONAL is a person's, without formulas.
    ADVICE, MESSAGE and QUESTION are plain text, with whatever a student's code has put there; ADVICE has code in backticks.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class ClassStanding:
    """Where a class stands in one lab: the medians of the points, in all and by part, of `students` submissions. A written
    answer counts when it has been read.
    """

    students: int
    total: float
    parts: dict[str, float]


def standing_of(records: list[dict]) -> ClassStanding:
    """Of one lab's records, with decisions, those that are not blank."""
    counted = [record for record in records if not gradebook.is_blank(record)]
    if not counted:
        return ClassStanding(0, 0.0, {})
    by_part: dict[str, list[int]] = {}
    for record in counted:
        for name, earned in gradebook.earned_by_part(record).items():
            by_part.setdefault(name, []).extend([] if earned is None else [earned])
    medians = {name: statistics.median(earned) for name, earned in by_part.items() if earned}
    return ClassStanding(len(counted), statistics.median(record["earned"] for record in counted), medians)


# What is told of one task


def title_of(task: Task) -> str:
    return task.prose.source.splitlines()[0].lstrip("# ")


def checks_of(task: Task, record: dict) -> list[dict]:
    return [check for check in record["checks"] if check["task"] == task.name]


def feedback_on(task: Task, record: dict, lab: Lab) -> list[Part]:
    """What to say of a task, the cause before what follows from it."""
    checks = checks_of(task, record)
    if task.name in record["reasons"]:
        reason = record["reasons"][task.name] or "no reason was written."
        return [Part(PERSONAL, f"**A person gave these points:** {reason}")]
    if task.name in record["held"]:
        return [Part(SAY, HELD)]
    failed = [check for check in checks if check["earned"] < check["points"]]
    parts = _what_is_right(checks)
    if failed or any(check["reference"] for check in checks):
        parts += _error_of_the_cell(task, record, lab)
    for check in checks:
        follows = check["hidden"] and task.code.id in record["raised"]  # from the cell's error, and tells nothing new
        if not follows and (check["why"] or check in failed):
            parts += _feedback_on_check(check, task, record, lab)
    if failed:
        parts.append(Part(HINT, task.hints.source))
    elif ways := next((cell.source for cell in lab.book.cells if cell.id == f"ways-{task.name}"), ""):
        parts.append(Part(WAYS, ways))
    return parts


def _what_is_right(checks: list[dict]) -> list[Part]:
    passed = [check for check in checks if not check["why"] and check["earned"] == check["points"]]
    if not passed:
        return []
    hidden = any(check["hidden"] for check in passed)
    if len(passed) == len(checks):
        return [Part(SAY, f"**Right**{', the further check with other inputs too' * hidden}.")]
    return [Part(SAY, f"**Right** in the {'further check with other inputs' if hidden else 'check that you have'}.")]


def _error_of_the_cell(task: Task, record: dict, lab: Lab) -> list[Part]:
    """What the task's own cell raised."""
    if not (raised := record["raised"].get(task.code.id)):
        return []
    place = _quoted_line(raised[2] if len(raised) > 2 else None, task, lab)
    message = INSIDE.sub("", f"{raised[0][0]}: {raised[1]}")
    return [Part(SAY, "Your cell raised this:"), Part(MESSAGE, message + place)]


def _feedback_on_check(check: dict, task: Task, record: dict, lab: Lab) -> list[Part]:
    parts = []
    elsewhere = _task_at_fault(check, task, lab)
    if check["earned"] and not check["reference"]:
        right = "what it asks first is right. Then it found this:"
        parts.append(Part(SAY, f"**{check['earned']} of {check['points']} points by this check**: {right}"))
    if check["reference"]:
        parts.append(Part(SAY, _follow_through_sentence(check, lab)))
        if check["earned"] == check["points"]:
            return parts
    if check["hidden"]:
        return [*parts, Part(SAY, HIDDEN.get(check["why"], HIDDEN[WRONG]))]
    if elsewhere:
        parts.append(Part(SAY, f"**The cause is in {_link_to(elsewhere)}**: mend that first."))
    own = functions_of(task)
    missing = re.search(r"NameError: name '(\w+)' is not defined", check["message"])
    if missing and missing[1] in own:
        so = "So the check found no" if task.code.id in record["raised"] else "No cell of your notebook defines"
        return [*parts, Part(SAY, f"{so} `{missing[1]}`.")]
    if check["why"] == UNSOLVED:
        return [*parts, Part(MESSAGE, check["message"])]
    verdict, asked, advice = _split_message(check["message"])
    parts.append(Part(MESSAGE, verdict + _quoted_line(check["place"], task, lab)))
    if advice:
        parts.append(Part(ADVICE, advice))
    return [*parts, Part(QUESTION, asked)] if asked else parts


def _follow_through_sentence(check: dict, lab: Lab) -> str:
    """That it was graded with the lab's own code of an earlier task, and what came of it."""
    tasks = [task for task in lab.tasks if task.name in check["reference"]]
    ours = " and ".join(f"`{name}`" for task in tasks for name in functions_of(task))
    what = "The further check" if check["hidden"] else "The check"
    if check["earned"]:
        points = f"{check['earned']} of {check['points']} points"
        return f"**{what} was graded with our {ours}, since yours failed**: {points}."
    return f"{what} was also tried with our {ours}, since yours failed, and it fails then too: look in this task."


def _task_at_fault(check: dict, task: Task, lab: Lab) -> Task | None:
    """The other task in which the cause lies, if the place or a name that is missing tells."""
    if check["why"] == UNSOLVED or check["why"] == RAISED:
        cell = (check["place"] or {}).get("cell", "")
        missing = re.search(r"NameError: name '(\w+)' is not defined", check["message"])
        for other in lab.tasks:
            of_other = cell == other.code.id or (missing and missing[1] in functions_of(other))
            if other is not task and of_other:
                return other
    return None


def _link_to(task: Task) -> str:
    return f"[{title_of(task)}](#task-{task.name})"


def _quoted_line(place: dict | None, task: Task, lab: Lab) -> str:
    """A line of text that quotes the student's line at which it was raised."""
    if not place:
        return ""
    others = {other.code.id: f"your cell of {title_of(other)}" for other in lab.tasks}
    where = "your cell" if place["cell"] == task.code.id else others.get(place["cell"], "a cell of your own")
    inside = f", in {place['function']}" if place["function"] else ""
    return f"\nraised at line {place['line']} of {where}{inside}:\n    {place['source']}"


def _split_message(message: str) -> tuple[str, str, str]:
    """(what was expected and what came, what was asked, the advice), from a check's message."""
    lines = [line for line in message.splitlines() if not line.startswith(NEXT)]
    advice = [line.removeprefix(NEXT).strip() for line in message.splitlines() if line.startswith(NEXT)]
    start = next((number for number, line in enumerate(lines) if line.startswith(EXPECTED)), 0)
    end = next((number for number, line in enumerate(lines) if number > start and line == ASKED), len(lines))
    asked = [*lines[:start], *lines[end + 1 :]]
    return "\n".join(lines[start:end]), "\n".join(asked).strip(), advice[-1] if advice else ""


# What is told of all of it


def summary_of(record: dict, lab: Lab) -> str:
    """One sentence on what was good."""
    possible, earned = decisions.points_of_parts(record), gradebook.earned_by_part(record)
    names = [task.name for task in lab.tasks]
    whole = [name for name in names if earned.get(name) == possible.get(name)]
    hidden = sum(check["hidden"] and check["earned"] == check["points"] for check in record["checks"])
    if not whole:
        first = next((task for task in lab.tasks if not earned.get(task.name)), lab.tasks[0])
        return (
            "No task is right in all its checks yet. Below, each says what it found and what to try next. Begin with "
            f"{title_of(first)}: work its example through by hand, then open its first hint."
        )
    how_many = (
        f"{'All' if len(whole) == len(names) else len(whole)} of {len(names)} tasks" if len(names) > 1 else "The task"
    )
    how_many = how_many.replace("All of", "All")
    ours = {check["task"] for check in record["checks"] if check["reference"] and check["earned"]} & set(whole)
    sentence = f"{how_many} {'are' if len(whole) > 1 else 'is'} right in every check"
    sentence += f", {hidden} hidden ones among them" if hidden > 1 else ""
    return sentence + (f"; {len(ours)} with our code of an earlier task." if ours else ".")


def overview(record: dict, lab: Lab, group: ClassStanding) -> list[tuple]:
    """(name, title, earned or None, points, remark, median or None) of each task, written answer and adjustment."""
    possible, earned = decisions.points_of_parts(record), gradebook.earned_by_part(record)
    asked = {question.name: title_of_question(question) for question in questions(lab)}
    rows = []
    for name, points in possible.items():
        checks = [check for check in record["checks"] if check["task"] == name]
        remarks = []
        if hidden := [check for check in checks if check["hidden"]]:
            remarks.append(f"{sum(c['points'] for c in hidden)} by a hidden check")
        if any(check["reference"] and check["earned"] for check in checks):
            remarks.append("with our code of an earlier task")
        if name in record["reasons"]:
            remarks.append("read by a person" if name in asked else "by decision")
        if name in record["waits"]:
            remarks.append("a person reads it")
        title = next((title_of(task) for task in lab.tasks if task.name == name), asked.get(name, name))
        median = group.parts.get(name) if group.students >= FEWEST else None
        rows.append((name, title, earned[name], points, ", ".join(remarks), median))
    return rows


def title_of_question(question: Question) -> str:
    first = question.prose.source.strip().splitlines()[0]
    return first.lstrip("# ") if first.startswith("#") else f"Written: {question.name}"


@cache
def lecture_of(lab: str) -> tuple[str, str]:
    """(title, address) of the lab's lecture; no address as long as the course has no place on the web."""
    found = sorted((ROOT / "notebooks").glob(f"{label_of(lab)}_*.ipynb")) if label_of(lab) else []
    if not found:
        return "", ""
    address = address_of()
    return read(found[0]).title, f"{address}/blob/main/notebooks/{found[0].name}" if address else ""


# The page


def page_path(out: Path, record: dict) -> Path:
    return out / "feedback" / record["lab"] / f"{record['key']}.html"


def write_page(out: Path, record: dict, lab: Lab, group: ClassStanding) -> bool:
    """OUT/feedback/<lab>/<student>.html, from a record with decisions; whether it was not there as it is to be."""
    path, mark = page_path(out, record), pages.mark_of(lab, [record, asdict(group)])
    if pages.is_made_from(path, mark):
        return False
    gradebook.write_whole(path, page(record, lab, group, mark))
    return True


def page(record: dict, lab: Lab, group: ClassStanding, mark: str = "") -> str:
    """The page as HTML, in which everything that came from the submission is text."""
    is_read = not record["problem"] and not record["failed"]
    is_blank = gradebook.is_blank(record)
    title, address = lecture_of(lab.name)
    return pages.render(
        "feedback",
        mark,
        title=lab.book.title,
        record=record,
        median=group.total if group.students >= FEWEST else None,
        summary="" if is_blank else summary_of(record, lab),
        rows=[] if is_blank else overview(record, lab, group),
        lecture={"title": title, "address": address},
        tasks=[_shown_task(task, record, lab) for task in lab.tasks] if is_read else [],
        questions=[_shown_question(question, record) for question in questions(lab)] if is_read else [],
        own_cells=record["code"].get(ELSEWHERE, "") if is_read else "",
    )


def _shown_task(task: Task, record: dict, lab: Lab) -> dict:
    return {
        "name": task.name,
        "title": title_of(task),
        "earned": gradebook.earned_by_part(record)[task.name],
        "possible": decisions.points_of_parts(record)[task.name],
        "parts": feedback_on(task, record, lab),
        "code": record["code"].get(task.name),
    }


def _shown_question(question: Question, record: dict) -> dict:
    (answer,) = [answer for answer in record["written"] if answer["name"] == question.name]
    return {
        "name": question.name,
        "title": title_of_question(question),
        "earned": gradebook.earned_by_part(record)[question.name],
        "possible": question.points,
        "text": answer["text"],
        "reason": record["reasons"].get(question.name, ""),
    }
