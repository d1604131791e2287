"""What students and teachers read: pages, a copy of the notebook with feedback, and the page for reading written answers."""

import json
import re
import shutil

import nbformat
import pytest
from bs4 import BeautifulSoup
from helpers.paths import ROOT
from helpers.records import record_of, shown, worth
from markupsafe import escape

from utils.course.notebooks.lab import Lab, read_lab, solution_lines
from utils.course.notebooks.tidy import as_bytes
from utils.grader import decisions, feedback, notebook_copy, pages, reading, similar, summary
from utils.grader.copied_cells import cells_to_copy
from utils.grader.feedback import ClassStanding
from utils.grader.submission import ELSEWHERE
from utils.grader.written import answers_in, questions
from utils.site import prose

LAB = ROOT / "solutions" / "01_views_and_attention.ipynb"
WORTH = worth(read_lab(LAB))
ALL = sum(WORTH.values())
NOBODY = ClassStanding(0, 0.0, {})


def words(page: str) -> str:
    """What a reader sees, folded parts too."""
    soup = BeautifulSoup(page, "html.parser")
    for part in soup.select("style, script"):
        part.decompose()
    return " ".join(soup.body.get_text(" ").split())


def task_of(page: str, name: str) -> str:
    """The words of one task's section."""
    _, section = page.split(f'id="task-{name}"')
    return words(f"<body><h2{section.split('<h2')[0]}</body>")


@pytest.fixture
def lab(tmp_path) -> Lab:
    """Lab 01 with other ways to solve `swap`, and with a question that a person grades."""
    raw = json.loads(LAB.read_text())
    place = next(n for n, cell in enumerate(raw["cells"]) if cell["id"] == "check-swap") + 1
    ways = {"cell_type": "markdown", "id": "ways-swap", "metadata": {}, "source": "### Other ways\n\nUse `transpose`."}
    question = {
        "cell_type": "markdown",
        "id": "question-why",
        "metadata": {},
        "source": "## Why views?\n\n1 point: `why`.",
    }
    written = {"cell_type": "markdown", "id": "written-why", "metadata": {"points": 3}, "source": "*Write here.*"}
    cells = [*raw["cells"][:place], ways, *raw["cells"][place:], question, written]
    path = tmp_path / LAB.name
    path.write_bytes(as_bytes(raw | {"cells": cells}))
    return read_lab(path)


# The student's page


def test_feedback_shows_what_was_expected_and_nothing_of_hidden_checks_or_solutions():
    lab = read_lab(LAB)
    said = "expected: (12, 4, 1)\ngot: <script>alert(1)</script>"
    secret = "asked: a secret of the hidden check"
    verdicts = {"check-strides": f"{said}\nnext: the last axis moves by `1`", "hidden-strides": secret}
    record = shown(lab, verdicts | {"hidden-windows": secret}, student="<b>eve</b>", notes=["<i>odd</i>"])
    left = ALL - WORTH["check-strides"] - WORTH["hidden-strides"] - WORTH["hidden-windows"]
    page = feedback.page(record, lab, NOBODY)
    assert escape(said) in page and "<script>" not in page and "<b>eve" not in page and "<i>odd" not in page
    assert "secret" not in page and "0 of 2" in page and f"{left} of {ALL} points" in words(page)
    assert "moves by <code>1</code>" in page and "Hint 1" in task_of(page, "strides")
    hidden = {
        line.strip() for task in lab.tasks if task.hidden for line in task.hidden.source.splitlines() if len(line) > 30
    }
    visible = {line.strip() for task in lab.tasks for line in task.check.source.splitlines()}
    lines = {escape(line) for line in hidden - visible} | {
        escape(line) for task in lab.tasks for line in solution_lines(task.code.source) if len(line) > 30
    }
    assert lines and [line for line in lines if line in page] == []


def test_no_backtick_is_left_and_each_task_has_a_line_in_the_overview(lab):
    page = feedback.page(shown(lab, {task.check.id: "no" for task in lab.tasks}), lab, NOBODY)
    soup = BeautifulSoup(page, "html.parser")
    for code in soup.select("pre, style, .answer"):
        code.decompose()
    assert "`" not in soup.get_text()
    rows = [row.get_text(" ") for row in soup.select("table tbody tr")]
    assert len(rows) == len(lab.tasks) + 1 and "hidden check" in rows[0] and "hidden" not in rows[1]
    targets = {link["href"].removeprefix("#") for link in soup.select("table a")}
    assert targets == {heading["id"] for heading in soup.select("h2[id]")}


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("wrong", "found it wrong"),
        ("raised", "ended in an exception"),
        ("no answer", "got no answer"),
        ("unsolved", "not written yet"),
    ],
)
def test_a_hidden_check_says_how_it_failed_and_no_more(why, told):
    lab = read_lab(LAB)
    page = feedback.page(shown(lab, {"hidden-strides": {"message": "secret", "why": why}}), lab, NOBODY)
    assert told in task_of(page, "strides") and "secret" not in page
    others = {"found it wrong", "ended in an exception", "got no answer", "not written yet"} - {told}
    assert not [text for text in others if text in task_of(page, "strides")]


def test_a_hidden_check_adds_nothing_to_an_error_of_the_cell_itself():
    lab = read_lab(LAB)
    raised = {"code-strides": [["SyntaxError"], "expected ':'"]}
    record = shown(lab, {"hidden-strides": {"message": "secret", "why": "raised"}}, raised=raised)
    text = task_of(feedback.page(record, lab, NOBODY), "strides")
    assert "SyntaxError" in text and "further check" not in text


def test_the_cause_comes_first_and_what_follows_from_it_is_short():
    """A cell that is no Python: that its function is missing then tells nothing, nor does advice to run the cell."""
    lab = read_lab(LAB)
    missing = (
        "swapped(x, 0, 1)\nexpected: a view\ngot:      NameError: name 'swapped' is not defined\nnext:     run the cell"
    )
    place = {"cell": "code-swap", "line": 1, "function": "", "source": "def swapped(x, a, b)"}
    told = [["SyntaxError"], "expected ':' (<ipython-input-5-19409642eefa>, line 1)", place]
    record = shown(lab, {"check-swap": {"message": missing, "why": "raised"}}, raised={"code-swap": told})
    text = task_of(feedback.page(record, lab, NOBODY), "swap")
    assert (
        text.index("SyntaxError: expected ':'")
        < text.index("raised at line 1 of your cell")
        < text.index("found no swapped")
    )
    assert "ipython-input" not in text and "NameError" not in text and "run the cell" not in text
    record = shown(lab, {"check-swap": {"message": missing, "why": "raised"}})
    text = task_of(feedback.page(record, lab, NOBODY), "swap")
    assert "No cell of your notebook defines swapped" in text and "run the cell" not in text


def test_an_error_that_another_task_causes_says_in_which():
    lab = read_lab(LAB)
    place = {"cell": "code-heads", "line": 3, "function": "split_heads", "source": "return x[9]"}
    for fields in (
        {"message": "got: IndexError", "place": place},
        {"message": "NameError: name 'split_heads' is not defined"},
    ):
        page = feedback.page(shown(lab, {"check-attention": fields | {"why": "raised"}}), lab, NOBODY)
        (heads,) = (feedback.title_of(task) for task in lab.tasks if task.name == "heads")
        assert f"The cause is in {heads.replace('`', '')} : mend that first" in task_of(page, "attention")
        assert 'href="#task-heads"' in page.split('id="task-attention"')[1]
    assert "line 3 of your cell of Task" in task_of(
        feedback.page(shown(lab, {"check-attention": {"message": "no", "place": place, "why": "raised"}}), lab, NOBODY),
        "attention",
    )


def test_a_task_that_passed_with_our_code_says_so_and_its_old_message_is_gone():
    lab = read_lab(LAB)
    fields = {"earned": 3, "message": "got: IndexError", "why": "raised", "reference": ["heads"]}
    page = feedback.page(shown(lab, {"check-heads": "no", "check-attention": fields}), lab, NOBODY)
    text = task_of(page, "attention")
    assert "graded with our split_heads and merge_heads , since yours failed" in text and "IndexError" not in text
    fields |= {"earned": 0}
    text = task_of(
        feedback.page(shown(lab, {"check-heads": "no", "check-attention": fields}), lab, NOBODY), "attention"
    )
    assert "it fails then too" in text and "IndexError" in text


def test_other_ways_are_shown_to_whoever_has_all_points_of_the_task(lab):
    assert "Use transpose" in task_of(feedback.page(shown(lab), lab, NOBODY), "swap")
    assert "transpose ." not in feedback.page(shown(lab, {"check-swap": "no"}), lab, NOBODY)
    assert "Use <code>transpose" not in feedback.page(shown(lab, {"check-swap": "no"}), lab, NOBODY)


def test_the_page_says_what_was_right_and_where_it_comes_from(lab):
    record = shown(lab, handed_in="2026-11-20T14:03:10")
    hidden = sum(task.hidden is not None for task in lab.tasks)
    text = words(feedback.page(record, lab, NOBODY))
    assert f"All {len(lab.tasks)} tasks are right in every check, {hidden} hidden ones among them" in text
    assert "2026-11-20 14:03:10" in text and "eve.ipynb" in text and "commit 0123456789ab" in text
    assert "Tensors and strides" in text
    text = words(feedback.page(shown(lab, {"check-swap": "no"}), lab, NOBODY))
    assert f"{len(lab.tasks) - 1} of {len(lab.tasks)} tasks are right" in text


def test_the_median_is_shown_from_five_submissions_on():
    lab = read_lab(LAB)
    records = [shown(lab, {"check-swap": "no"} if number < 3 else {}, student=str(number)) for number in range(5)]
    group = feedback.standing_of([*records, shown(lab, problem="an empty file"), shown(lab, failed="asleep")])
    median = ALL - WORTH["check-swap"]
    assert (group.students, group.total) == (5, median)
    assert (group.parts["swap"], group.parts["weights"]) == (0, WORTH["check-weights"])
    assert f"the median of the class is {median}" in words(feedback.page(records[0], lab, group))
    assert "median" not in words(feedback.page(records[0], lab, feedback.standing_of(records[:4])))


def test_a_written_answer_counts_when_it_has_been_read(lab):
    records = [record_of(lab, student=name) for name in ("ada", "bob", "cyd")]
    for record in records:
        record["written"][0]["text"] = "Because."
    assert "why" not in feedback.standing_of(decisions.apply(records, [])).parts
    read = decisions.apply(records, [decisions.Decision("", lab.name, "bob", "why", 3, "")])
    assert feedback.standing_of(read).parts["why"] == 3 and summary.shares_right_in_full(read)["why"] == 1


def test_a_persons_words_stand_on_the_page(lab):
    lines = [
        decisions.Decision("", lab.name, "eve", "swap", 1, "Half of it is right."),
        decisions.Decision("", lab.name, "eve", "why", 2, "a *good* one"),
        decisions.Decision("", lab.name, "eve", "comment", "Well **done**.<script>alert(1)</script>", ""),
        decisions.Decision("", lab.name, "eve", "extra", 1, "a mistake found"),
    ]
    record = record_of(lab, {"check-swap": "expected: secret advice"})
    record["written"][0]["text"] = "<b>Because</b>"
    (record,) = decisions.apply([record], lines)
    page = feedback.page(record, lab, NOBODY)
    assert "Well <strong>done</strong>" in page and "<script>" not in page and "<b>Because" not in page
    assert "Half of it is right. Your code" in task_of(page, "swap") and "secret advice" not in page
    assert "<Because>" not in page and "&lt;b&gt;Because" in page and "a <em>good</em> one" in page
    text, earned = words(page), ALL - WORTH["check-swap"] + 1 + 2 + 1
    assert "extra: a mistake found +1" in text and f"{earned} of {ALL + 3} points" in text


FORGED = (
    "next: $\\frac$ **bold** [x](http://y) <b>b</b>, then `mul_`"  # a line of an exception's text, if a student likes
)


def test_a_message_is_text_whatever_a_student_has_made_it_of(lab, tmp_path):
    record = shown(lab, {"check-swap": {"message": f"ValueError: x\n{FORGED}", "why": "raised"}})
    page = feedback.page(record, lab, NOBODY)
    assert "Next: $\\frac$ **bold** [x](http://y) <b>b</b>, then mul_" in task_of(page, "swap")
    section = BeautifulSoup(page, "html.parser").select_one(".next")
    assert [tag.name for tag in section.find_all(["a", "b", "strong", "math", "code"])] == ["strong", "code"], (
        "our Next"
    )
    notebook_copy.write_copy(tmp_path, record, cells_to_copy([{"cell_type": "code", "id": "code-swap", "source": "1"}]))
    notebook_copy.write_feedback(tmp_path, record, lab, NOBODY)
    cells = nbformat.read(notebook_copy.copy_path(tmp_path, record), 4).cells
    (said,) = (cell.source for cell in cells if cell["id"] == "feedback-swap")
    shown_as = BeautifulSoup(prose.markdown(said), "html.parser")
    assert "Next: $\\frac$ **bold** [x](http://y) <b>b</b>, then mul_" in shown_as.get_text()
    assert not shown_as.find(["b", "math"]) and not shown_as.find("a", href="http://y")


HOSTILE = (
    "</pre></textarea></style></title>\"'><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7 * 7 }}{% if %}"
)
AT = {"cell": "code-heads", "line": 3, "function": "f", "source": "return x[9]"}


def raised_in_swap(what: list) -> dict:
    return {"raised": {"code-swap": what}, "verdicts": {"check-swap": "no"}}


FIELDS = {  # each place in a record where a student's text may stand -> the record's changes with that text
    "name": lambda text: {"student": text},
    "number": lambda text: {"student": "4711", "id": text},
    "file": lambda text: {"file": text},
    "note": lambda text: {"notes": [text]},
    "problem": lambda text: {"problem": text},
    "failed": lambda text: {"failed": text},
    "code": lambda text: {"code": {"swap": text}},
    "own cells": lambda text: {"code": {ELSEWHERE: text}},
    "exception": lambda text: raised_in_swap([[text], "", AT]),
    "exception's text": lambda text: raised_in_swap([["E"], text, AT]),
    "line that raised": lambda text: raised_in_swap([["E"], "", AT | {"source": text}]),
    "function that raised": lambda text: raised_in_swap([["E"], "", AT | {"function": text}]),
    "answer": lambda text: {"verdicts": {"check-swap": f"f(x)\nexpected: 1\ngot: {text}"}},
    "advice": lambda text: {"verdicts": {"check-swap": f"expected: 1\nnext: {text}"}},
    "question": lambda text: {"verdicts": {"check-swap": f"{text}\nexpected: 1"}},
    "unsolved": lambda text: {"verdicts": {"check-swap": {"message": text, "why": "unsolved"}}},
    "place": lambda text: {"verdicts": {"check-swap": {"message": "no", "place": AT | {"function": text}}}},
    "quoted line": lambda text: {"verdicts": {"check-swap": {"message": "no", "place": AT | {"source": text}}}},
    "written": lambda text: {"written": text},
}


def pages_with(lab: Lab, field: str, text: str) -> list[BeautifulSoup]:
    """All pages of a class of two, of whom one has put the text in this place."""
    changes = FIELDS[field](text)
    answer = changes.pop("written", "Because.")
    records = [record_of(lab, changes.pop("verdicts", {}), **changes), record_of(lab, student="ada")]
    for record in records:
        record["written"][0]["text"] = answer
    records = decisions.apply(records, [])
    first, group = records[0], feedback.standing_of(records)
    pairs = [similar.Pair(first["student"], "ada", 0.9, ("swap",))]
    made = (
        feedback.page(first, lab, group),
        summary.summary(lab, records, group, pairs),
        reading.page(lab, records),
    )
    return [BeautifulSoup(page, "html.parser") for page in made]


def elements(page: BeautifulSoup) -> list[tuple]:
    return [(tag.name, *sorted(tag.attrs)) for tag in page.find_all(True)]


@pytest.mark.parametrize("field", FIELDS)
def test_what_a_student_writes_is_text_wherever_it_stands(lab, field):
    """It adds no element and no attribute to any page, and is there to be read."""
    hostile, harmless = pages_with(lab, field, HOSTILE), pages_with(lab, field, "x")
    assert [elements(page) for page in hostile] == [elements(page) for page in harmless]
    said = [page.get_text() + "".join(row["data-start"] for row in page.select("[data-start]")) for page in hostile]
    assert any("<script>alert(1)</script><img src=x onerror=alert(1)> {{ 7 * 7 }}{% if %}" in text for text in said)


def test_a_page_is_one_file_and_its_policy_lets_nothing_else_in(lab):
    for page in pages_with(lab, "name", "eve"):
        policy = page.select_one("meta[http-equiv=Content-Security-Policy]")["content"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        inside = page.find_all(["style", "script"])
        assert {f"'{pages.digest(part.string)}'" for part in inside} == set(re.findall(r"'sha256-[^']+'", policy))
        assert not page.select("[style], [src], link, iframe, object, embed, form, base")
        assert not [name for tag in page.find_all(True) for name in tag.attrs if name.startswith("on")]


PRICES = "It costs $5, **not** $10"


@pytest.mark.parametrize("text", ["$x^2^3$", PRICES, "![a](attachment:b.png)", "$$\\frac$$", "\\\\(x^2^3\\\\)"])
def test_in_a_persons_words_nothing_is_a_formula_and_nothing_ends_the_run(lab, tmp_path, text):
    lines = [
        decisions.Decision("", lab.name, "eve", "comment", text, ""),
        decisions.Decision("", lab.name, "eve", "swap", 1, text),
        decisions.Decision("", lab.name, "eve", "why", 1, text),
    ]
    record = record_of(lab)
    record["written"][0]["text"] = "Because."
    (record,) = decisions.apply([record], lines)
    page = feedback.page(record, lab, NOBODY)
    assert "<math" not in page
    if text == PRICES:
        assert page.count("It costs $5, <strong>not</strong> $10") == 3
    cells = [{"cell_type": "markdown", "id": "written-why", "source": "Because."}]
    copied = notebook_copy.with_feedback([cell | {"metadata": {}} for cell in cells], record, lab, NOBODY)
    said = [cell["source"] for cell in copied if cell["id"].startswith("feedback-")]
    if text in (PRICES, "$x^2^3$"):
        assert "<math" not in "".join(prose.markdown("".join(source)) for source in said)


@pytest.mark.parametrize("source", ["Half: $\\frac$ <b>", "![a](attachment:b.png)"])
def test_a_text_that_cannot_be_rendered_is_shown_as_it_stands(source):
    for rendered in (pages.markdown(source), pages.sentence(source)):
        assert BeautifulSoup(rendered, "html.parser").get_text().strip() == source


def test_what_cannot_be_read_has_a_sentence_and_no_points():
    lab = read_lab(LAB)
    text = words(feedback.page(shown(lab, problem="nothing of this lab was handed in; x is of lab 04"), lab, NOBODY))
    assert "It could not be graded: nothing of this lab was handed in; x is of lab 04" in text and "points" not in text
    assert "no zeros" in words(feedback.page(shown(lab, failed="asleep"), lab, NOBODY))


def test_a_page_is_written_when_what_it_shows_has_changed(lab, tmp_path):
    record, group = shown(lab), feedback.standing_of([shown(lab)] * 5)
    assert [feedback.write_page(tmp_path, record, lab, group) for _ in range(2)] == [True, False]
    (with_comment,) = decisions.apply([record_of(lab)], [decisions.Decision("", lab.name, "eve", "comment", "Hi", "")])
    assert feedback.write_page(tmp_path, with_comment, lab, group)
    assert feedback.write_page(tmp_path, with_comment, lab, NOBODY)


def test_a_page_is_written_anew_when_its_code_or_its_template_changes(lab, tmp_path, monkeypatch):
    marks = {pages.mark_of(lab, [])}
    for name in ("HERE", "TEMPLATES", "SHARED"):
        copy = tmp_path / name
        shutil.copytree(getattr(pages, name), copy)
        monkeypatch.setattr(pages, name, copy)
        for path in [*copy.glob("feedback.*"), *copy.glob("*.css")]:
            path.write_text(path.read_text() + "\n")
            pages._programs.cache_clear()
            marks.add(pages.mark_of(lab, []))
        monkeypatch.undo()
    pages._programs.cache_clear()
    assert len(marks) == 1 + 1 + 2 + 1, "nothing, the code, two of the grader's templates, the shared style"


def test_half_a_character_does_not_keep_a_page_from_being_written(lab, tmp_path):
    record = shown(lab, student="\udce9", code={"swap": "\ud800"})
    assert feedback.write_page(tmp_path, record, lab, NOBODY)
    assert "\\ud800" in feedback.page_path(tmp_path, record).read_text()


# The copy of the notebook


def test_the_copy_has_the_students_cells_and_feedback_after_each_check(lab, tmp_path):
    cells = [{"cell_type": cell.kind, "id": cell.id, "source": cell.source} for cell in lab.book.cells]
    own = [{"cell_type": "code", "id": "", "source": "1"}, {"cell_type": "code", "id": "code-swap", "source": "twice"}]
    evil = {"message": "expected: 1\ngot: ```\n# not a heading", "why": "wrong"}
    record, changed = (shown(lab, {"check-swap": fields}) for fields in (evil, {"message": "expected: 2"}))
    notebook_copy.write_copy(tmp_path, record, cells_to_copy(cells + own))
    for told in (record, changed):
        notebook_copy.write_feedback(tmp_path, told, lab, NOBODY)
    path = notebook_copy.copy_path(tmp_path, record)
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    ids = [cell["id"] for cell in book.cells]
    assert ids[0] == "feedback-overview" and len(set(ids)) == len(ids)
    assert ids[ids.index("feedback-swap") - 1] == "check-swap" and ids[ids.index("feedback-why") - 1] == "written-why"
    kept = [cell.source for cell in book.cells if not cell["id"].startswith("feedback-")]
    assert kept == [cell["source"] for cell in cells + own]
    (said,) = (cell.source for cell in book.cells if cell["id"] == "feedback-swap")
    assert "expected: 2" in said and "not a heading" not in said, "feedback is replaced, not added"
    notebook_copy.write_feedback(tmp_path, record, lab, NOBODY)
    (said,) = (cell.source for cell in nbformat.read(path, 4).cells if cell["id"] == "feedback-swap")
    assert "````text" in said, "a fence that nothing in it closes"
    notebook_copy.write_copy(tmp_path, record, [])
    assert not path.exists(), "of what was handed in before"
    notebook_copy.write_feedback(tmp_path, record, lab, NOBODY)
    assert not path.exists()


# The class


def test_the_class_page_names_the_hardest_task_and_the_commonest_failure():
    lab = read_lab(LAB)
    some = [shown(lab, {"check-swap": "no\nnext:     <try> as_strided"}, student=str(n), key=f"k{n}") for n in range(3)]
    records = [*some, shown(lab, {"check-heads": "no"}, student="<u>", key="a b"), shown(lab)]
    unread = shown(
        lab,
        dict.fromkeys([c["check"] for c in some[0]["checks"]], ""),
        problem="an empty file",
        student="zoe",
        key="zoe",
    )
    assert (
        summary.shares_right_in_full(records)["swap"] == 2 / 5
        and next(iter(summary.shares_right_in_full(records))) == "swap"
    )
    assert summary.most_failed_checks(records) == [("check-swap", 3, "<try> as_strided"), ("check-heads", 1, "no")]
    not_yet = shown(lab, {"check-heads": {"message": "not solved yet: heads", "why": "unsolved"}})
    assert ("check-heads", 4, "no") in summary.most_failed_checks([*records, *[not_yet] * 3]), "a mistake says more"
    group = feedback.standing_of([*records, unread])
    page = summary.summary(lab, [*records, unread], group, [similar.Pair("<u>", "b", 0.9, ("swap",))])
    assert "<try>" not in page and "<u>" not in page and "`" not in words(page)
    soup, without_swap = BeautifulSoup(page, "html.parser"), ALL - WORTH["check-swap"]
    assert f"6 submissions, 5 of them graded; the median is {without_swap} of {ALL} points" in words(page)
    tasks, students, checks, problems, pairs = soup.select("table")
    assert (
        tasks.select("tbody tr")[0].get_text().startswith("Task 2") and "40%" in tasks.select("tbody tr")[0].get_text()
    )
    links = {link.get_text(): link["href"] for link in students.select("a")}
    assert links["0"] == f"feedback/{lab.name}/k0.html" and links["<u>"].endswith("/a%20b.html") and len(links) == 6
    rows = {
        row.select("td")[0].get_text(): [cell.get_text() for cell in row.select("td")]
        for row in students.select("tbody tr")
    }
    assert rows["0"][1] == str(without_swap) and rows["zoe"][1:] == ["–", *[""] * len(lab.tasks)]
    assert "an empty file" in problems.get_text() and "90%" in pairs.get_text() and "Task 2" in checks.get_text()
    bars = [bar["title"] for bar in soup.select(".histogram > div")]
    assert bars[0] == "0 to 1 points: 0" and sum(int(bar.split(": ")[1]) for bar in bars) == 5


def test_the_table_on_the_screen_has_each_student_and_where_to_read_more(tmp_path):
    lab = read_lab(LAB)
    records = [shown(lab, student="ada"), shown(lab, {"check-swap": "no"}, student="bob", held=["swap"])]
    records += [shown(lab, student="zoe", problem="an empty file"), shown(lab, student="yan", failed="asleep")]
    lines = [" ".join(line.split()) for line in summary.results_table(tmp_path, lab, records).splitlines()]
    bob = ALL - WORTH["check-swap"]
    assert {f"ada {ALL} of {ALL}", f"bob {bob} of {ALL} swap held", f"zoe - of {ALL} an empty file"} <= set(lines)
    assert f"median {(ALL + bob) / 2:g}" in lines
    assert f"yan - of {ALL} not graded: the grader failed" in lines and str(tmp_path / f"{lab.name}.html") in lines
    assert summary.results_table(tmp_path, read_lab(ROOT / "solutions" / "14_ring_and_ddp.ipynb"), records) == ""


# Written answers


def test_a_written_answer_is_found_wherever_the_student_put_it(lab):
    (question,) = questions(lab)
    assert (question.name, question.points, question.prose.id) == ("why", 3, "question-why")
    whole = [{"cell_type": cell.kind, "id": cell.id, "source": cell.source} for cell in lab.book.cells]

    def changed(source: str, *below: dict, ids: bool = True) -> str:
        cells = [cell | {"source": source if cell["id"] == "written-why" else cell["source"]} for cell in whole]
        cells = cells if ids else [cell | {"id": ""} for cell in cells]
        return answers_in([*cells, *below], lab)["why"]

    mine = {"cell_type": "markdown", "id": "mine", "source": "And more."}
    assert changed("*Write here.*") == changed("") == "" and changed("Because.") == "Because."
    assert changed("*Write here.*", mine) == "And more." and changed("Because.", mine) == "Because.\n\nAnd more."
    assert changed("*Write here.*\n\nBecause.") == "Because." and changed("Because.", ids=False) == "Because."
    assert changed("Because.", {"cell_type": "code", "id": "c", "source": "1"}, mine) == "Because."
    without = [cell for cell in whole if cell["id"] not in ("written-why", "question-why")]
    assert answers_in(without, lab) == {"why": ""}


def test_a_question_of_a_tasks_name_or_without_points_is_refused(tmp_path):
    raw = json.loads(LAB.read_text())
    for name, metadata, why in (
        ("swap", {"points": 1}, "is a task of this lab"),
        ("why", {}, "not a whole number above 0"),
    ):
        cell = {"cell_type": "markdown", "id": f"written-{name}", "metadata": metadata, "source": "Here."}
        (tmp_path / LAB.name).write_text(json.dumps(raw | {"cells": [*raw["cells"], cell]}))
        with pytest.raises(ValueError, match=f"cell written-{name}: .*{why}"):
            questions(read_lab(tmp_path / LAB.name))


def test_the_page_for_reading_asks_about_each_text_that_waits(lab):
    records = [record_of(lab, student=name) for name in ("ada", 'b"<u>', "cyd", "dan")]
    for record, text in zip(records, ("Because <img>.", "Why not?", "", "Done."), strict=True):
        record["written"][0]["text"] = text
    torn = record_of(lab, student="eve", problem="not a notebook")
    found = decisions.apply([*records, torn], [decisions.Decision("", lab.name, "dan", "why", 3, "fine")])
    page = reading.page(lab, found)
    soup = BeautifulSoup(page, "html.parser")
    starts = [json.loads(row["data-start"]) for row in soup.select("[data-start]")]
    assert starts == [["01", "ada", "why"], ["01", 'b"<u>', "why"]] and "<img>" not in page and "<u>" not in page
    text = words(page)
    assert "2 to be read" in text and "Nothing was written." in text and "3 of 3 points. fine" in text
    assert "eve" not in text, "of what could not be read nobody knows whether it was written"
    assert "<code>why</code>" in page, "the question, with its points, stands above"
    records[0]["written"][0]["text"] = "Another text."
    other = BeautifulSoup(reading.page(lab, decisions.apply(records[:2], []), "", "another/class"), "html.parser")
    kept, changed = ([row["data-answer"] for row in each.select("[data-answer]")] for each in (soup, other))
    assert kept[1] == changed[1] and kept[0] != changed[0], "what was typed about a text is not for another"
    assert soup.select_one("textarea")["data-class"] != other.select_one("textarea")["data-class"]
    assert re.search(r"max=\"?3\"? ", str(soup.select_one("input[type=number]")))
