"""A page for the person who reads the written answers: each text with a place for points, as lines for decisions.csv."""

import hashlib
import json
from pathlib import Path

from utils.course.notebooks.lab import Lab
from utils.grader import decisions, gradebook, pages
from utils.grader.feedback import title_of_question
from utils.grader.written import Question, questions


def reading_path(out: Path, lab: Lab) -> Path:
    return out / f"{lab.name}.written.html"


def write_reading(out: Path, lab: Lab, records: list[dict]) -> None:
    """OUT/<lab>.written.html, from the records with decisions; nothing for a lab without such questions."""
    path, mark = reading_path(out, lab), pages.mark_of(lab, records)
    if questions(lab) and not pages.is_made_from(path, mark):
        gradebook.write_whole(path, page(lab, records, mark, str(path.resolve())))


def page(lab: Lab, records: list[dict], mark: str = "", place: str = "") -> str:
    """The page as HTML. A text that has its points already is shown with them, and is not asked about again.

    place: where it lies, by which the browser tells it from the page of another class.
    """
    could_be_read = [record for record in records if not gradebook.is_blank(record)]
    return pages.render(
        "reading",
        mark,
        title=lab.book.title,
        **{"class": _key(place)},
        waiting=sum(len(record["waits"]) for record in records),
        file=decisions.NAME,
        first_line=",".join(decisions.COLUMNS),
        questions=[_shown_question(question, could_be_read) for question in questions(lab)],
    )


def _shown_question(question: Question, records: list[dict]) -> dict:
    first, _, rest = question.prose.source.strip().partition("\n")
    return {
        "title": title_of_question(question),
        "points": question.points,
        "prose": rest if first.startswith("#") else question.prose.source,
        "answers": [
            _shown_answer(record, answer)
            for record in records
            for answer in record["written"]
            if answer["name"] == question.name
        ],
    }


def _shown_answer(record: dict, answer: dict) -> dict:
    """start: of the line for decisions.csv, as JSON. key: of the student and this text."""
    start = json.dumps([record["lab"].partition("_")[0], decisions.name_in_file(record), answer["name"]])
    return {
        "student": record["student"],
        "text": answer["text"],
        "earned": answer["earned"],
        "waits": answer["name"] in record["waits"],
        "reason": record["reasons"].get(answer["name"], ""),
        "start": start,
        "key": _key(start + answer["text"]),
    }


def _key(text: str) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]
