"""A copy of the student's notebook with the feedback in cells of its own, beside the page; the hand-in stays as it is."""

import json
import re
from pathlib import Path

from utils.course.notebooks.lab import Lab
from utils.course.notebooks.tidy import METADATA
from utils.grader import decisions, gradebook
from utils.grader.feedback import (
    ADVICE,
    HINT,
    MESSAGE,
    PERSONAL,
    QUESTION,
    ClassStanding,
    Part,
    feedback_on,
    overview,
    page_path,
    summary_of,
    title_of,
    title_of_question,
)
from utils.grader.written import questions

OURS = {"tags": ["feedback"]}  # the metadata of added cells; the student's have none here


def copy_path(out: Path, record: dict) -> Path:
    return page_path(out, record).with_suffix(".ipynb")


def write_copy(out: Path, record: dict, cells: list[dict]) -> None:
    """OUT/feedback/<lab>/<student>.ipynb of these cells (see copied_cells), as yet without feedback; none of none."""
    page_path(out, record).unlink(missing_ok=True)  # with a new page comes the feedback into the copy
    if cells:
        _write(copy_path(out, record), cells)
    else:
        copy_path(out, record).unlink(missing_ok=True)  # of what was handed in before


def write_feedback(out: Path, record: dict, lab: Lab, group: ClassStanding) -> None:
    """Put the feedback into the copy, in place of what stands there; nothing if there is no copy."""
    path = copy_path(out, record)
    if path.exists():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        _write(path, with_feedback([cell for cell in cells if cell["metadata"] != OURS], record, lab, group))


def _write(path: Path, cells: list[dict]) -> None:
    book = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    gradebook.write_whole(path, json.dumps(book, indent=1, ensure_ascii=False) + "\n")


def with_feedback(cells: list[dict], record: dict, lab: Lab, group: ClassStanding) -> list[dict]:
    """The cells with an overview before them, and with what is told of each task after its check, or after its code."""
    after: dict[int, dict] = {}
    last = {cell["id"]: index for index, cell in enumerate(cells)}
    lost = []
    for task in lab.tasks:
        parts = [part for part in feedback_on(task, record, lab) if part.kind != HINT]  # the hints stand above already
        text = "\n\n".join(map(_markdown, parts))
        place = next((last[name] for name in (task.check.id, task.code.id) if name in last), None)
        cell = _cell(
            f"feedback-{task.name}", f"**Feedback · {title_of(task)} · {_points(record, task.name)}**\n\n{text}"
        )
        lost += [cell] if place is None else []
        after |= {} if place is None else {place: cell}
    for question in questions(lab):
        if question.place.id in last:
            reason = _personal_as_markdown(record["reasons"].get(question.name, ""))
            text = f"**Feedback · {title_of_question(question)} · {_points(record, question.name)}**\n\n{reason}"
            after[last[question.place.id]] = _cell(f"feedback-{question.name}", text)
    whole = [_cell("feedback-overview", _overview(record, lab, group))]
    for index, cell in enumerate(cells):
        whole += [cell, after[index]] if index in after else [cell]
    return whole + lost


def _points(record: dict, name: str) -> str:
    earned = gradebook.earned_by_part(record)[name]
    points = decisions.points_of_parts(record)[name]
    return "a person reads it" if earned is None else f"{earned} of {points} points"


def _overview(record: dict, lab: Lab, group: ClassStanding) -> str:
    lines = [
        f"# {record['earned']} of {record['points']} points",
        *map(_personal_as_markdown, record["comments"]),
        summary_of(record, lab),
    ]
    table = ["| task | points | |", "|---|--:|---|"]
    for _, title, earned, points, remark, _ in overview(record, lab, group):
        table.append(f"| {title} | {'–' if earned is None else earned} of {points} | {remark} |")
    for each in record["adjusted"]:
        table.append(
            f"| {each['what']} | {each['points']:+d} | {_plain_as_markdown(each['reason'].replace('|', '/'))} |"
        )
    return "\n\n".join([*lines, "\n".join(table)])


def _markdown(part: Part) -> str:
    if part.kind == ADVICE:
        return f"**Next:** {_plain_as_markdown(part.text)}"
    if part.kind == PERSONAL:
        return _personal_as_markdown(part.text)
    if part.kind not in (MESSAGE, QUESTION):
        return part.text
    fence = "```"
    while fence in part.text:
        fence += "`"
    return f"{fence}text\n{part.text}\n{fence}"


def _plain_as_markdown(text: str) -> str:
    """A text as Markdown that shows it as it is, but for code in backticks."""
    return _escape_outside_code(r"([\\`*_\[\]<>$#|~&!:])", text)


def _personal_as_markdown(text: str) -> str:
    """A person's Markdown, in which a dollar is a dollar."""
    return _escape_outside_code(r"((?<!\\)\$)", text)


def _escape_outside_code(signs: str, text: str) -> str:
    """With a backslash before these signs wherever no code stands."""
    parts = re.split(r"(```.*?```|`[^`\n]+`)", text, flags=re.DOTALL)
    return "".join(part if number % 2 else re.sub(signs, r"\\\1", part) for number, part in enumerate(parts))


def _cell(name: str, source: str) -> dict:
    return {"cell_type": "markdown", "id": name, "metadata": OURS, "source": source.splitlines(keepends=True)}
