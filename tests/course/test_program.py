"""The one program: each stage runs by itself, and is handed on by tidy; what a lecture changes in it is drawn."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import repeat

import pytest
import torch
import torch.nn.functional as F
from bs4 import BeautifulSoup
from helpers.paths import ROOT
from test_course import code, markdown, write

from utils.course.lint.program import the_program_is_plain, the_program_stands_where_it_grows
from utils.course.notebooks import program
from utils.course.notebooks.notebook import Lecture, load, read
from utils.course.notebooks.tidy import changes_of, tidy
from utils.figures import program as drawn
from utils.site import frame, prose
from utils.site.program import stages_shown

STAGES = sorted((ROOT / "notebooks" / program.FOLDER).glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("stage", [pytest.param(path, id=path.stem) for path in STAGES])
def test_a_stage_runs_from_an_empty_folder_and_says_something(stage, tmp_path):
    """With 40 of its steps, where it has many: the notebooks that end with it run them all."""
    source = re.sub(r"^steps, (.*) = [48]00, ", r"steps, \1 = 40, ", stage.read_text(), flags=re.MULTILINE)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    (tmp_path / "program.py").write_text(source)
    command = [sys.executable, "-I", "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=kept | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_the_forecast_of_lecture_00_measures_what_it_says(monkeypatch):
    """By a clock that stands still but for five products, 5, 4, 3, 4, 5 s, the steps, 1 s each, and the looks, 100 s."""
    clock, operands = [], []

    def takes(seconds: Iterator[float], function):
        def timed(*inputs, **how):
            if inputs[0].dim() == 2:  # not the sums of loading the data
                clock.append(next(seconds))
                operands.append(inputs[0])
            return function(*inputs, **how)

        return timed

    monkeypatch.setattr("time.perf_counter", lambda: sum(clock))
    monkeypatch.setattr(torch.Tensor, "__matmul__", takes(iter([5, 4, 3, 4, 5]), torch.Tensor.__matmul__))
    monkeypatch.setattr(F, "cross_entropy", takes(repeat(1), F.cross_entropy))
    monkeypatch.setattr(torch.Tensor, "argmax", takes(repeat(100), torch.Tensor.argmax))
    (stage,) = (path for path in STAGES if path.stem == "00_napkin_math")
    exec(compile(stage.read_text(), stage, "exec"), found := {})
    assert {(a.shape, a.dtype) for a in operands[:5]} == {((1000, 1000), torch.float32)}
    assert found["forecast"] == 6 * 50_890 * 50_000 / (2 * 1000**3 / 3)  # its best product takes 3 seconds
    assert found["seconds"] == 1000 * 1 + 10 * 100  # without the look before it starts


def test_the_stages_are_what_the_notebooks_end_with():
    assert STAGES and program.changed_files(ROOT / "notebooks") == {}


# Handed on by tidy, in a small course


def book(folder, name: str, **sources: str):
    """A notebook with the program in its cells `begin` and `end`, where it is given."""
    cells = [code(tag, text, f"program-{tag}") for tag, text in sources.items()]
    path = folder / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    return write(path, [markdown("title", f"# {name}"), *cells])


@pytest.fixture
def course(tmp_path):
    """start_here ends with the program; 00 has none; 01 and 03 change it; 02 and the capstone leave it as it is."""
    book(tmp_path, "start_here", end="x = 1")
    book(tmp_path, "00_napkin")
    book(tmp_path, "01_strides", begin="anything", end="x = 1\ny = 2")
    book(tmp_path, "02_dtypes", begin="")
    book(tmp_path, "03_flops", begin="", end="x = 1\ny = 2\nprint(x + y)")
    book(tmp_path, "calculators")
    book(tmp_path, "capstone", begin="")
    return tmp_path / "notebooks"


def begins(folder) -> dict[str, str | None]:
    return {path.stem: program.text_with(program.BEGIN, load(path)) for path in sorted(folder.glob("*.ipynb"))}


def test_tidy_hands_each_stage_on(course):
    assert tidy([course / "start_here.ipynb"], check=True, root=course.parent) == 1
    assert not (course / "program").exists()
    tidy(sorted(course.glob("*.ipynb")), root=course.parent)
    after_one, after_three = "x = 1\ny = 2", "x = 1\ny = 2\nprint(x + y)"
    wanted = {"01_strides": "x = 1", "02_dtypes": after_one, "03_flops": after_one, "capstone": after_three}
    assert begins(course) == dict.fromkeys(("00_napkin", "calculators", "start_here")) | wanted
    written = {path.name: path.read_text() for path in (course / "program").iterdir()}
    assert set(written) == {"start_here.py", "01_strides.py", "03_flops.py"}
    assert written["01_strides.py"] == (
        f"# The program after lecture 01. Written by make tidy from 01_strides.ipynb: edit its last program cell.\n\n"
        f"{after_one}\n"
    )
    assert tidy(sorted(course.glob("*.ipynb")), check=True, root=course.parent) == 0


def test_a_changed_end_reaches_the_notebooks_after_it_though_only_its_own_is_tidied(course):
    tidy(sorted(course.glob("*.ipynb")), root=course.parent)
    path = book(course.parent, "01_strides", begin="x = 1", end="x = 1\nz = 3")
    tidy([path], root=course.parent)
    assert begins(course)["02_dtypes"] == begins(course)["03_flops"] == "x = 1\nz = 3"
    assert begins(course)["capstone"].endswith("print(x + y)")
    book(course.parent, "03_flops", begin="")
    tidy([path], root=course.parent)
    assert begins(course)["capstone"] == "x = 1\nz = 3"
    assert sorted(path.name for path in (course / "program").iterdir()) == ["01_strides.py", "start_here.py"]


def test_what_was_typed_into_a_beginning_is_named_and_taken_back(course):
    tidy(sorted(course.glob("*.ipynb")), root=course.parent)
    path = course / "02_dtypes.ipynb"
    path.write_text(path.read_text().replace("y = 2", "y = 5"))
    assert changes_of(path) == ["cell begin: the program as it stands there written"]
    tidy([path], root=course.parent)
    assert begins(course)["02_dtypes"] == "x = 1\ny = 2"


def test_a_file_that_is_no_notebook_stops_the_handing_on_and_nothing_is_lost(course, capsys):
    (course / "00_napkin.ipynb").write_text("half of it")
    assert tidy([course / "03_flops.ipynb"], root=course.parent) == 1
    assert "00_napkin.ipynb: not a notebook" in capsys.readouterr().out
    assert (course / "00_napkin.ipynb").read_text() == "half of it" and not (course / "program").exists()


def lecture(folder, *cells: dict, name: str = "01_strides") -> Lecture:
    book(folder, "start_here", end="x = 1")
    (folder / "notebooks" / "deeper").mkdir()
    return read(write(folder / "notebooks" / f"{name}.ipynb", list(cells)))


BEGIN, END = code("begin", "x = 1", program.BEGIN), code("end", "x = 2", program.END)
DIFF = code("picture-diff", 'from utils.figures import program\n\nprogram.diff("01")')


@pytest.mark.parametrize(
    ("cells", "name", "words"),
    [
        ([BEGIN, END, DIFF], "01_strides", None),
        ([BEGIN], "01_strides", None),
        ([END], "01_strides", None),
        ([markdown("title", "# 01")], "01_strides", None),
        ([END, BEGIN], "01_strides", "cell end: the program ends above its beginning"),
        ([BEGIN, BEGIN | {"id": "again"}], "01_strides", "cell again: one more tagged program-begin"),
        ([BEGIN], "deeper/01_more", "the program grows in the lectures, not here"),
        ([DIFF], "01_strides", 'cell picture-diff: not program.diff("01"), or no program-end cell'),
        ([BEGIN, END, DIFF], "02_dtypes", 'cell picture-diff: not program.diff("02"), or no program-end cell'),
    ],
)
def test_the_lint_of_its_places(tmp_path, cells, name, words):
    problems = the_program_stands_where_it_grows(lecture(tmp_path, *cells, name=name))
    assert problems == [] if words is None else words in problems, problems


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch.nn.functional as F\nfrom torch import nn\nimport time\nfrom utils.data import spiral", None),
        ("from utils.loop import train", "cell end: the program imports utils.loop"),
        ("def f():\n    import numpy as np", "cell end: the program imports numpy"),
        ("!ls", "cell end: not Python by itself"),
    ],
)
def test_the_lint_of_what_it_imports(tmp_path, source, words):
    problems = the_program_is_plain(lecture(tmp_path, code("end", source, program.END)))
    assert problems == ([] if words is None else [words])


# What changes, drawn

BEFORE = "\n".join(f"line {n}" for n in range(1, 21))
AFTER = BEFORE.replace("line 10", 'print("<b>", 1 < 2)').replace("line 19", "line 19\nmore")
PRINTED = """\
+2 −1 lines: the program has 21 now
  ⋯ 6 lines as before
  line 7
  line 8
  line 9
- line 10
+ print("<b>", 1 < 2)
  line 11
  line 12
  line 13
  ⋯ 3 lines as before
  line 17
  line 18
  line 19
+ more
  line 20"""


def test_a_diff_prints_changes_with_three_lines_around_them():
    assert repr(drawn.Diff(BEFORE, AFTER)) == PRINTED
    assert repr(drawn.Diff(BEFORE, BEFORE)) == "+0 −0 lines: the program has 20 now\n  ⋯ 20 lines as before"


def test_a_diff_is_drawn_with_the_same_lines_in_a_notebook_and_on_the_site():
    diff = drawn.Diff(BEFORE, AFTER)
    for page in (diff._repr_html_(), prose.clean(diff._repr_html_())):  # the site lets no style of an output through
        soup = BeautifulSoup(page, "html.parser")
        assert [line.text for line in soup.find_all(["ins", "del"])] == [
            "- line 10\n",
            '+ print("<b>", 1 < 2)\n',
            "+ more\n",
        ]
        assert soup.pre.text.splitlines() == lines_of(PRINTED)
        assert soup.find(class_="program-diff") and not soup.find("b")
    assert "<style>" in diff._repr_html_() and "<style>" not in prose.clean(diff._repr_html_())


def lines_of(printed: str) -> list[str]:
    """What stands in the box: without the first line, and a gap without the two blanks before it."""
    return [line.removeprefix("  ") if "⋯" in line else line for line in printed.splitlines()[1:]]


def test_a_lecture_that_changes_nothing_is_refused_by_name(course, monkeypatch):
    tidy(sorted(course.glob("*.ipynb")), root=course.parent)
    monkeypatch.setattr(drawn, "STAGES", course / "program")
    assert (drawn.diff("01").added, drawn.diff("01").removed, drawn.diff("03").length) == (1, 0, 3)
    with pytest.raises(
        ValueError, match=r"no lecture '02' changes the program: those that do are 01, 03. Give its cell"
    ):
        drawn.diff("02")


# The site's page


def test_the_page_shows_each_stage_and_its_change_and_leads_to_the_lecture(tmp_path):
    stages = [drawn.Stage("start_here", BEFORE), drawn.Stage("01_strides", AFTER), drawn.Stage("capstone", "x < 1\n")]
    pages = {"start_here": ("start_here.html", "Start here"), "01_strides": ("01_strides.html", "Strides of `x`")}
    assert stages_shown(stages, {}) == []
    context = {"stages": stages_shown(stages, pages), "has_program": True, "has_sheet": False}
    frame.write(tmp_path / "program.html", "program", context)
    page = BeautifulSoup((tmp_path / "program.html").read_text(), "html.parser")
    sections = page.select("section.stage")
    assert [section["id"] for section in sections] == ["start_here", "01_strides", "capstone"]
    assert [link["href"] for link in page.select("h2 a")] == ["start_here.html", "01_strides.html"]
    assert [row.td.get_text(" ", strip=True) for row in page.select("tbody tr")] == [
        "Start here",
        "01 Strides of x",
        "C capstone",
    ]
    assert [len(section.select(".program-diff")) for section in sections] == [0, 1, 1]
    assert [section.select_one(".highlight").text.strip() for section in sections] == [BEFORE, AFTER, "x < 1"]
    assert page.select_one("nav a[aria-current]").text == "The program"
