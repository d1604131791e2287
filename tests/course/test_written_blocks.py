"""What `make tidy` writes into READMEs: blocks between marks, made of what the course holds now."""

import shutil
from pathlib import Path

import pytest
from helpers.paths import ROOT
from test_course import claim, markdown, write

from utils.course import readmes
from utils.course.notebooks.notebook import DEEPER
from utils.course.written import LEDGER


def mark(name: str, old: str = "old") -> str:
    return f"<!-- {name}: written by make tidy -->\n{old}\n<!-- end of {name} -->"


@pytest.fixture
def course(tmp_path) -> Path:
    """A course with two lectures, a second reading, a solution, a package and a README."""
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    title = markdown("title", "# 01 · Strides\n\nIt takes about 5 minutes.")
    for folder in (f"notebooks/{DEEPER}", "notebooks/figures", "solutions"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path / "notebooks" / "01_strides.ipynb", [title, *claim(1, "assert 1")])
    write(
        tmp_path / "notebooks" / "02_dtypes.ipynb",
        [markdown("title", "# 02 · Dtypes"), *claim(1, "assert 1", "gpu", lecture=2)],
    )
    more = markdown("title", "# 01 · More\n\n**Question:** What else?\\\n**Time:** about 5 minutes.")
    write(tmp_path / "notebooks" / DEEPER / "01_more.ipynb", [more, *claim(101, "assert 1")])
    points = markdown("task", "Do it.") | {"metadata": {"points": 3}}
    write(tmp_path / "solutions" / "01_do_it.ipynb", [markdown("title", "# Lab 01 · Do it"), points])
    (tmp_path / "notebooks" / "figures" / "ledger.svg").touch()
    return tmp_path


def written(course: Path, name: str, folder: str = ".") -> list[str]:
    """The lines of a block after `make tidy`."""
    readme = course / folder / "README.md"
    readme.parent.mkdir(parents=True, exist_ok=True)
    readme.write_text(f"before\n{mark(name)}\nafter\n")
    assert readmes.update(course) == 0
    text = readme.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "\nold\n" not in text
    return text.splitlines()[2:-2]


def test_a_lecture_has_a_row_with_its_claims_its_minutes_and_its_lab(course):
    lab = "[Do it](labs/01_do_it.ipynb)"
    assert written(course, "lectures")[2:] == [
        f"| 01 | [Strides](notebooks/01_strides.ipynb) | 1 | 5 | {lab} | 3 |",
        "| 02 | [Dtypes](notebooks/02_dtypes.ipynb) | 1 | 5 |  |  |",
    ]


def test_a_second_reading_has_a_row_with_its_question(course):
    assert written(course, "second readings")[2:] == ["| [01 · More](01_more.ipynb) | 1 | 5 | What else? |"]


def test_claims_are_counted_by_what_becomes_of_them(course):
    (line,) = written(course, "claims")
    assert "verify 2 of the 3 claims. 1 need a GPU and 0 the long form" in line
    (picture,) = written(course, "ledger", "utils/course")
    assert "2 claims are verified and 0 false beliefs" in picture and "](../../notebooks/figures/ledger.svg)" in picture
    assert (course / LEDGER).read_bytes().startswith(b"<?xml")


def test_a_module_is_said_by_its_first_line_and_a_package_by_its_own_and_its_modules(course):
    package = course / "utils" / "loop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""The loop.\n\nMore."""\n')
    (package / "train.py").write_text('"""One step | and the next."""\n')
    (course / "utils" / "facts.py").write_text("x = 1\n")
    assert written(course, "modules", "utils/loop")[2:] == ["| `train` | One step \\| and the next. |"]
    assert written(course, "modules", "utils")[2:] == [
        "| [`loop/`](loop/README.md) | The loop. `train` |",
        "| `facts` | – |",
    ]


def test_check_names_what_would_change_and_writes_nothing(course, capsys):
    readme = course / "README.md"
    readme.write_text(mark("versions"))
    assert readmes.update(course, check=True) == 1
    assert f"{readme}: written by make tidy" in capsys.readouterr().out and readme.read_text() == mark("versions")
    readmes.update(course)
    capsys.readouterr()
    assert readmes.update(course, check=True) == 0 and capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "text",
    [mark("weather"), mark("claims").replace("<!-- end of claims -->", ""), mark("claims").replace("end of", "end")],
)
def test_a_mark_without_an_end_or_of_no_block_is_refused(course, text):
    (course / "README.md").write_text(text)
    with pytest.raises(ValueError, match=r"README\.md: a line <!-- NAME: written by make tidy --> needs"):
        readmes.update(course)
