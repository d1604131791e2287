"""What `make affected` chooses: in a small repository, and of the course itself."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from helpers.paths import ROOT

from utils.course import affected
from utils.course.__main__ import main

BLOCK = "<!-- claims: written by make tidy -->\n{}\n<!-- end of claims -->\n"
FILES = {
    "small/__init__.py": "",
    "small/low.py": "def one():\n    return 1\n",
    "small/middle.py": "from small.low import one\n",
    "small/high.py": "import small.middle\n",
    "small/apart.py": "",
    "small/__main__.py": "import small.apart\n",
    "small/room/__init__.py": "from small.room.shown import seen\n",
    "small/room/shown.py": "def seen():\n    return 2\n",
    "small/room/hidden.py": "",
    "small/room/page.css": "",
    "tests/helpers/bench.py": "from small.low import one\n",
    "tests/conftest.py": "",
    "tests/test_low.py": "from small import low\n",
    "tests/test_nearer.py": "def test():\n    from small.low import one\n",
    "tests/test_middle.py": "import small.middle\n",
    "tests/test_high.py": "from small.high import anything\n",
    "tests/test_bench.py": "from helpers import bench\n",
    "tests/test_command.py": 'LINE = ["python", "-m", "small", "--help"]\n',
    "tests/test_shell.py": 'LINE = "python -m small --help"\n',
    "tests/test_folder.py": 'PLACE = ROOT / "small"\n',
    "tests/test_code.py": 'CODE = "import os\\nfrom small import apart"\n',
    "tests/test_room.py": "from small.room import seen\n",
    "tests/test_hidden.py": "from small.room.hidden import thing\n",
    "tests/test_page.py": '"""Of 01_first.ipynb and README.md, says a docstring."""\n',
    "tests/test_readme.py": 'TEXT = open("docs/README.md")\n',
    "tests/test_all_books.py": 'BOOKS = ROOT / "notebooks"\n',
    "tests/test_wrong.py": "%reset\n",
    "tests/course/test_notebooks.py": 'BOOKS = ROOT / "notebooks"\n',
    "tests/browser/test_browser_low.py": "from small.low import one\n",
    "tests/test_readmes.py": "",
    "docs/README.md": BLOCK.format("1 claim"),
    "notebooks/figures/ledger.svg": "",
    "notebooks/program/01_first.py": "",
}
BOOKS = {
    "notebooks/01_first.ipynb": ["from small.low import one", "%matplotlib inline"],
    "notebooks/02_second.ipynb": ["x = 1", "import small.middle"],
    "solutions/01_lab.ipynb": ["from small import low\n" + "# longer\n" * 99],
}


def write(root, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def git(root, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", root, *identity, *words], check=True, capture_output=True)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A repository with the files above, all of them committed; its package is called small."""
    for path, text in FILES.items():
        write(tmp_path, path, text)
    for path, cells in BOOKS.items():
        cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
        write(tmp_path, path, json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=All")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(affected, "PACKAGE", "small")
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    return tmp_path


def chosen_tests(root, *changed: str) -> list[str]:
    chosen = affected.plan(root, list(changed))
    return [path.removeprefix("tests/") for path in chosen.first + chosen.tests]


def test_what_differs_is_what_git_says_with_deleted_and_new_files(small):
    assert affected.changes(small) == []
    (small / "small/low.py").unlink()
    write(small, "small/room/hidden.py", "x = 1\n")
    git(small, "add", "small/room/hidden.py")
    write(small, "a new file.txt", "")
    assert affected.changes(small) == ["a new file.txt", "small/low.py", "small/room/hidden.py"]


def test_of_a_branch_it_is_what_has_changed_since_it_left_its_base(small):
    git(small, "switch", "--quiet", "--create", "mine")
    write(small, "small/low.py", "")
    git(small, "commit", "--quiet", "--all", "--message=Mine")
    git(small, "switch", "--quiet", "main")
    write(small, "small/apart.py", "x = 1\n")
    git(small, "commit", "--quiet", "--all", "--message=Theirs")
    git(small, "switch", "--quiet", "mine")
    write(small, "docs/README.md", "not committed yet")
    assert affected.changes(small) == ["docs/README.md"]
    assert affected.changes(small, "main") == ["docs/README.md", "small/low.py"]


def test_a_base_that_is_no_commit_is_refused_in_gits_words(small, capsys):
    assert main(["affected", "--base", "nowhere"]) == 2
    said = capsys.readouterr().err
    assert "since 'nowhere'" in said and "fatal: " in said


def test_the_nearest_come_first_and_the_one_of_the_same_name_before_others_as_near(small):
    assert chosen_tests(small, "small/low.py") == [
        *("test_low.py", "test_nearer.py", "test_bench.py", "test_middle.py", "test_high.py")
    ]


def test_a_changed_test_comes_before_all_others(small):
    assert chosen_tests(small, "small/low.py", "tests/test_high.py")[:2] == ["test_high.py", "test_low.py"]


def test_helpers_and_conftests_are_followed(small):
    assert chosen_tests(small, "tests/helpers/bench.py") == ["test_bench.py"]
    assert set(chosen_tests(small, "tests/conftest.py")) == {
        path.removeprefix("tests/") for path in FILES if "/test_" in path and "browser" not in path
    }


def test_command_lines_and_code_in_strings_import_too(small):
    assert set(chosen_tests(small, "small/apart.py")) == {"test_code.py", "test_command.py", "test_shell.py"}
    assert set(chosen_tests(small, "small/__main__.py")) == {"test_command.py", "test_shell.py"}


def test_who_imports_from_a_package_needs_the_module_that_stands_behind_it_and_no_other(small):
    assert chosen_tests(small, "small/room/shown.py") == ["test_room.py"]
    assert chosen_tests(small, "small/room/hidden.py") == ["test_hidden.py"]
    assert set(chosen_tests(small, "small/room/__init__.py")) == {"test_room.py", "test_hidden.py"}


def test_a_file_that_is_no_module_belongs_to_the_package_it_lies_in(small):
    assert set(chosen_tests(small, "small/room/page.css")) == {"test_room.py", "test_hidden.py"}


def test_who_imports_a_module_that_is_gone_is_found(small):
    (small / "small/low.py").unlink()
    assert chosen_tests(small, "small/low.py") == [
        *("test_low.py", "test_nearer.py", "test_bench.py", "test_middle.py", "test_high.py")
    ]


def test_a_file_is_read_by_the_tests_whose_strings_name_it_not_by_those_whose_docstrings_do(small):
    write(small, "docs/README.md", "By hand.")
    assert chosen_tests(small, "docs/README.md") == ["test_readme.py"]


def test_what_tidy_alone_has_written_is_left_to_its_own_test(small):
    write(small, "docs/README.md", BLOCK.format("2 claims"))
    by_tidy = ["docs/README.md", "notebooks/figures/ledger.svg", "notebooks/program/01_first.py"]
    assert chosen_tests(small, *by_tidy) == ["test_readmes.py"]
    chosen = affected.plan(small, ["notebooks/01_first.ipynb", *by_tidy])
    assert "tests/test_all_books.py" in chosen.tests and set(chosen.cases) == {
        *("tests/course/test_notebooks.py", "tests/test_all_books.py")
    }
    write(small, "docs/README.md", "By hand.\n" + BLOCK.format("2 claims"))
    assert chosen_tests(small, "docs/README.md") == ["test_readme.py"]


def test_of_a_branch_it_is_what_tidy_has_written_since_it_left_its_base(small):
    git(small, "switch", "--quiet", "--create", "mine")
    write(small, "docs/README.md", BLOCK.format("2 claims"))
    git(small, "commit", "--quiet", "--all", "--message=By tidy")
    git(small, "switch", "--quiet", "main")
    write(small, "docs/README.md", "By hand.\n" + BLOCK.format("1 claim"))
    git(small, "commit", "--quiet", "--all", "--message=Theirs")
    git(small, "switch", "--quiet", "mine")
    assert affected.written_by_tidy(small, ["docs/README.md"], "main") == {"docs/README.md"}


def test_a_notebook_is_held_to_the_rules_of_its_folder_then_run_and_its_cases_alone(small):
    chosen = affected.plan(small, ["notebooks/01_first.ipynb"])
    assert (chosen.first, chosen.tests) == (["tests/course/test_notebooks.py"], ["tests/test_all_books.py"])
    assert (chosen.changed_notebooks, chosen.using_notebooks) == (["notebooks/01_first.ipynb"], [])
    assert chosen.cases == {test: {"01_first"} for test in chosen.first + chosen.tests}
    with_module = affected.plan(small, ["notebooks/01_first.ipynb", "tests/test_all_books.py"])
    assert set(with_module.cases) == {"tests/course/test_notebooks.py"}


def test_notebooks_that_import_the_module_themselves_run_smallest_first_and_the_others_are_named(small):
    chosen = affected.plan(small, ["small/low.py"])
    assert chosen.using_notebooks == ["notebooks/01_first.ipynb", "solutions/01_lab.ipynb"]
    assert list(chosen.lines()) == [
        "small/low.py: 5 test files, 2 notebooks (1 more import it only through other modules: make check)",
        "Not run here, but by make test-browser: tests/browser/test_browser_low.py",
    ]


def test_nothing_changed_is_one_sentence(small, capsys):
    assert main(["affected"]) == 0
    assert capsys.readouterr().out == "Nothing differs from HEAD, so nothing is to be tested.\n"


@pytest.mark.parametrize("red", ["quick", "slow", "notebook"])
def test_it_stops_at_the_first_red(small, monkeypatch, red):
    """Quick ones, a changed notebook after the first of them, slow ones, a notebook that uses a changed module."""
    calls = []

    def pytest_main(words, plugins):
        calls.append("notebook" if "--nbmake" in words else "slow" if affected.SLOW in words else "quick")
        return 1 if calls[-1] == red else affected.NO_TESTS

    monkeypatch.setattr(pytest, "main", pytest_main)
    monkeypatch.setattr(affected, "BATCH", 3)
    chosen = affected.plan(small, ["small/low.py", "notebooks/01_first.ipynb"])
    assert affected.run(chosen) == 1
    in_order = ["quick", "notebook", "quick", "quick", "slow", "slow", "slow", "notebook"]
    assert calls == in_order[: in_order.index(red) + 1]
    monkeypatch.setattr(affected, "NO_TESTS", 0)
    red, before = "", len(calls)
    assert affected.run(chosen) == 0 and calls[before:] == in_order


def test_of_a_notebook_only_its_own_cases_run(tmp_path):
    def item(file: str, name: str) -> SimpleNamespace:
        return SimpleNamespace(path=tmp_path / file, name=name)

    out = []
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: out.extend(items)))
    items = [item(file, f"test[{name}]") for file in ("a.py", "b.py") for name in ("01_first", "02_second", "neither")]
    affected.OnlyCases({"a.py": {"01_first"}}, tmp_path, {"01_first", "02_second"}).pytest_collection_modifyitems(
        config, items
    )
    assert [(each.path.name, each.name) for each in out] == [("a.py", "test[02_second]")] and len(items) == 5


@pytest.mark.slow
def test_a_change_in_the_course_reaches_its_own_test_first():
    for module, test in {
        "utils/loop/guards.py": "tests/loop/test_guards.py",
        "utils/data/order.py": "tests/data/test_order.py",
        "utils/figures/numbers.py": "tests/figures/test_numbers.py",
        "tests/labs/lab_04.py": "tests/labs/test_variants.py",
    }.items():
        assert affected.plan(ROOT, [module]).tests[0] == test, module
