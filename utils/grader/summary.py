"""A lab's results for the class: a page, with the hardest tasks and what failed most, and a table for the screen."""

from collections import Counter
from pathlib import Path
from urllib.parse import quote

from utils.course.notebooks.lab import Lab
from utils.grader import decisions, gradebook, pages, reading
from utils.grader.feedback import NEXT, ClassStanding, page_path, standing_of, title_of, title_of_question
from utils.grader.rules import UNSOLVED
from utils.grader.similar import Pair, similar_pairs
from utils.grader.written import questions

MOST_SHOWN = 10
MOST_BARS, TALLEST = 14, 7  # of the histogram; its height in rem


def summary_path(out: Path, lab: Lab) -> Path:
    return out / f"{lab.name}.html"


def write_summary(out: Path, lab: Lab, records: list[dict], group: ClassStanding) -> None:
    """OUT/<lab>.html and OUT/<lab>.alike.csv, of the lab's records with decisions (at least one), where these changed."""
    path, mark = summary_path(out, lab), pages.mark_of(lab, records)
    if not pages.is_made_from(path, mark):
        pairs = similar_pairs(lab, {record["student"]: record["statements"] for record in records})
        gradebook.write_alike(out / f"{lab.name}.alike.csv", pairs)
        gradebook.write_whole(path, summary(lab, records, group, pairs, mark))


def summary(lab: Lab, records: list[dict], group: ClassStanding, pairs: list[Pair], mark: str = "") -> str:
    """The page as HTML, in which what students wrote is text."""
    counted = [record for record in records if not gradebook.is_blank(record)]
    points = max(record["points"] for record in records)
    checks = {task.check.id: title_of(task) for task in lab.tasks}
    checks |= {task.hidden.id: f"{title_of(task)}, hidden" for task in lab.tasks if task.hidden}
    columns = list(dict.fromkeys(name for record in records for name in decisions.points_of_parts(record)))
    adjusted = [what for what in gradebook.ADJUSTED if any(e["what"] == what for r in records for e in r["adjusted"])]
    by_name = sorted(records, key=lambda record: record["student"].casefold())
    return pages.render(
        "summary",
        mark,
        lab=lab.name,
        title=lab.book.title,
        submissions=len(records),
        group=group,
        points=points,
        bars=_bars([record["earned"] for record in counted], points) if counted else [],
        tasks=_tasks(lab, counted, group) if counted else [],
        columns=[*columns, *adjusted],
        students=[_student(record, columns, adjusted) for record in by_name],
        waiting=sum(len(record["waits"]) for record in records),
        failures=[(checks.get(check, check), count, message) for check, count, message in most_failed_checks(counted)],
        problems=[(r["student"], r["failed"] or r["problem"]) for r in records if r not in counted],
        pairs=pairs[:MOST_SHOWN],
    )


def shares_right_in_full(records: list[dict]) -> dict[str, float]:
    """task or written answer -> the share of the class that earned all its points, the smallest first.

    A written answer counts when it has been read.
    """
    whole: dict[str, list[bool]] = {}
    for record in records:
        possible, earned = decisions.points_of_parts(record), gradebook.earned_by_part(record)
        for name, points in possible.items():
            if earned[name] is not None:
                whole.setdefault(name, []).append(earned[name] == points)
    shares = {name: sum(each) / len(each) for name, each in whole.items()}
    return dict(sorted(shares.items(), key=lambda each: each[1]))


def most_failed_checks(records: list[dict]) -> list[tuple[str, int, str]]:
    """(check, number of students who failed it, the most common line of the message), the most common first.

    A check that somebody got wrong says that, however many have not written it yet.
    """
    messages: dict[str, Counter] = {}
    for record in records:
        for check in record["checks"]:
            if check["earned"] < check["points"]:
                lines = [line for line in check["message"].splitlines() if line.startswith(NEXT)]
                first = (lines or check["message"].splitlines() or [""])[0].removeprefix(NEXT).strip()
                said = "not solved yet" if check["why"] == UNSOLVED else first
                messages.setdefault(check["check"], Counter())[said] += 1
    commonest = {
        name: max(counts, key=lambda said, counts=counts: (said != "not solved yet", counts[said]))
        for name, counts in messages.items()
    }
    rows = [(name, counts.total(), commonest[name][:200]) for name, counts in messages.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:MOST_SHOWN]


def _bars(earned: list[int], points: int) -> list[dict]:
    """Those of the histogram: the points that each stands for, its count of students and its height in rem."""
    width = -(-(points + 1) // MOST_BARS)  # points in a bar, rounded up
    counts = Counter(min(value, points) // width for value in earned)
    most = max(counts.values())
    bars = []
    for number in range(points // width + 1):
        first, last = number * width, min(points, number * width + width - 1)
        label = f"{first}" if first == last else f"{first} to {last}"
        count = counts.get(number, 0)
        bars.append({"first": first, "label": label, "count": count, "height": TALLEST * count / most})
    return bars


def _tasks(lab: Lab, records: list[dict], group: ClassStanding) -> list[dict]:
    """Tasks and written answers, the hardest first."""
    titles = {task.name: title_of(task) for task in lab.tasks}
    titles |= {question.name: title_of_question(question) for question in questions(lab)}
    possible = decisions.points_of_parts(records[0])
    return [
        {
            "title": titles.get(name, name),
            "share": share,
            "median": group.parts.get(name, 0),
            "possible": possible.get(name, 0),
        }
        for name, share in shares_right_in_full(records).items()
    ]


def _student(record: dict, columns: list[str], adjusted: list[str]) -> dict:
    """A line of the table; earned is None for a blank."""
    line = {
        "name": record["student"],
        "address": quote(str(page_path(Path(), record))),
        "earned": None,
        "parts": [],
        "adjusted": [],
    }
    if gradebook.is_blank(record):
        return line
    earned, possible = gradebook.earned_by_part(record), decisions.points_of_parts(record)
    return line | {
        "earned": record["earned"],
        "parts": [(earned.get(name), possible.get(name, 0)) for name in columns],
        "adjusted": [sum(e["points"] for e in record["adjusted"] if e["what"] == what) for what in adjusted],
    }


def printable(text: str) -> str:
    """A line for a terminal: signs that would move its cursor or hide are written by number. Students name files."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def results_table(out: Path, lab: Lab, found: list[dict]) -> str:
    """A table of the lab's records, of those that grade.grade returns, and where to read more; "" where there are none."""
    records = [record for record in found if record["lab"] == lab.name]
    if not records:
        return ""
    group = standing_of(records)
    rows = [("", "points", "", "")]
    for record in records:
        remarks = [
            "not graded: the grader failed" * bool(record["failed"]),
            record["problem"],
            *(f"{name} held" for name in record["held"]),
            *(f"{name} to be read" for name in record["waits"]),
            *(f"{each['what']} {each['points']:+d}" for each in record["adjusted"] if each["points"]),
        ]
        earned = str(gradebook.points_shown(record)) or "-"
        told = printable("; ".join(filter(None, remarks)))
        rows.append((printable(record["student"]), earned, f"of {record['points']}", told))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{n:<{widths[0]}}  {e:>{widths[1]}} {p:<{widths[2]}}  {remarks}".rstrip() for n, e, p, remarks in rows]
    if group.students:
        lines.append(f"{'median':<{widths[0]}}  {group.total:>{widths[1]}g}")
    places = [summary_path(out, lab), out / f"{lab.name}.csv", out / "feedback" / lab.name]
    if any(record["waits"] for record in records):
        places.append(reading.reading_path(out, lab))
    return "\n".join(["", pages.words(lab.book.title), "", *lines, "", *(f"  {place}" for place in places), ""])
