"""Records of a gradebook, made without grading."""

from utils.course.notebooks.lab import Lab, points_of
from utils.grader import decisions
from utils.grader.written import questions


def worth(lab: Lab) -> dict[str, int]:
    """The points of each check, by its id; a solution earns their sum."""
    return {check.id: points_of(check) for task in lab.tasks for check in task.checks}


def record_of(lab: Lab, verdicts: dict[str, str | dict] | None = None, **changes) -> dict:
    """The record of a submission, with the starter's code, in which these checks failed, with this message or fields."""
    failed = {
        check: {"earned": 0, "why": "wrong", **({"message": said} if isinstance(said, str) else said)}
        for check, said in (verdicts or {}).items()
    }
    checks = [
        {"task": task.name, "check": check.id, "hidden": check is task.hidden, "points": points_of(check)}
        | {"earned": points_of(check), "message": "", "why": "", "place": None, "reference": []}
        | failed.get(check.id, {})
        for task in lab.tasks
        for check in task.checks
    ]
    written = [{"name": each.name, "points": each.points, "text": "", "earned": None} for each in questions(lab)]
    return {
        "student": "eve", "key": "eve", "id": "", "lab": lab.name, "file": "eve.ipynb", "handed_in": "", "checks": checks,
        "written": written, "earned": sum(check["earned"] for check in checks), "problem": "", "failed": "", "held": [],
        "points": sum(part["points"] for part in [*checks, *written]), "raised": {}, "notes": [], "isolated": True,
        "code": {task.name: task.starter for task in lab.tasks}, "statements": {},
        "versions": {"commit": "0123456789abcdef"},
    } | changes  # fmt: skip


def shown(lab: Lab, verdicts: dict[str, str | dict] | None = None, **changes) -> dict:
    """The same with what decisions add, here none: as pages and tables take it."""
    (record,) = decisions.apply([record_of(lab, verdicts, **changes)], [])
    return record
