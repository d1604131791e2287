"""What a teacher types about written answers stays in the browser, each class's apart from the others'."""

import pytest
from browsing import ROOT
from helpers.records import record_of

from utils.course.notebooks.lab import read_lab
from utils.grader import decisions, reading
from utils.grader.written import questions

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_what_was_typed_for_one_class_is_neither_shown_nor_lost_in_another(tmp_path, page):
    lab = read_lab(ROOT / "solutions" / "03_three_matmuls_and_the_roofline.ipynb")
    for section in ("a", "b"):
        record = record_of(lab, student="Kim Lee")
        record["written"][0]["text"] = f"Because, says {section}."
        (tmp_path / section).mkdir()
        reading.write_reading(tmp_path / section, lab, decisions.apply([record], []))
    (name,) = (question.name for question in questions(lab))
    points, lines = page.locator("input[type=number]"), page.locator("textarea")

    def opened(section: str) -> tuple[str, str]:
        page.goto(reading.reading_path(tmp_path / section, lab).as_uri())
        return points.input_value(), lines.input_value()

    assert opened("a") == ("", "")
    points.fill("2")
    assert lines.input_value() == f"03,Kim Lee,{name},2,"
    assert opened("b") == ("", "")
    points.fill("1")
    assert opened("a") == ("2", f"03,Kim Lee,{name},2,") and opened("b") == ("1", f"03,Kim Lee,{name},1,")
    points.fill("")
    assert opened("b") == ("", "") and opened("a")[0] == "2"
    assert page.watch.problems == []
