"""Tasks of a lab are numbered by tidy: one put in anywhere costs its own cells, and texts that name another follow."""

from utils.course.notebooks.notebook import text_of
from utils.course.notebooks.tidy import tidied


def texts_of(*cells: tuple[str, str]) -> dict[str, str]:
    """The texts, by id, that tidy makes of these cells."""
    raw = [{"cell_type": "markdown", "id": name, "metadata": {}, "source": text} for name, text in cells]
    return {cell["id"]: text_of(cell["source"]) for cell in tidied({"cells": raw})["cells"]}


FIRST, SECOND = ("task-halve", "## Task 1 · Half"), ("task-double", "## Task 2 · Twice, as in task 1")
NEW = ("task-keep", "## Task · As it is, unlike tasks 1 and 2")
NAMES_THEM = ("beyond", "Tasks 1 to 2, and task 2; not task 2 of lab 03, tasks 1 to 2 of lab 03, task 21.")


def test_a_task_without_a_number_gets_one_and_all_others_keep_their_readers():
    texts = texts_of(FIRST, NEW, SECOND, NAMES_THEM)
    assert texts["task-halve"] == "## Task 1 · Half" and texts["task-double"] == "## Task 3 · Twice, as in task 1"
    assert texts["task-keep"] == "## Task 2 · As it is, unlike tasks 1 and 3"
    assert texts["beyond"] == "Tasks 1 to 3, and task 3; not task 2 of lab 03, tasks 1 to 2 of lab 03, task 21."
    assert texts_of(*texts.items()) == texts, "the second time nothing changes"


def test_tasks_that_change_places_change_numbers():
    texts = texts_of(SECOND, FIRST)
    assert list(texts.values()) == ["## Task 1 · Twice, as in task 2", "## Task 2 · Half"]


def test_where_two_have_one_number_nothing_changes():
    same = (FIRST, ("task-keep", "## Task 1 · As it is"), SECOND)
    assert texts_of(*same) == dict(same)
