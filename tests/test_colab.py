"""A notebook that comes alone, as in Colab, fetches the course and runs; torch and all that is there stay as they are."""

import ast
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from helpers import fake_colab
from helpers.paths import ROOT

from utils import colab
from utils.course.lint import lectures
from utils.course.notebooks import colab_links
from utils.course.notebooks.notebook import load, read, text_of
from utils.versions import TESTED

REPOSITORY = "someone/their-course"
ADDRESS = f"https://github.com/{REPOSITORY}"
MISSING = ("einops", "nvidia-ml-py")
LECTURE = "01_tensors_and_strides"
NAMED = f"{', '.join(TESTED[:-1])} and {TESTED[-1]}"
NEXT = f"2.{int(TESTED[-1].split('.')[1]) + 1}"  # of torch, after all that are tested


# The cell


def run_cell(source: str, folder: Path, before: str = "", **environment: str) -> subprocess.CompletedProcess:
    """Run the cell in a bare Python in `folder`, and say what it has changed there."""
    code = (
        f"import sys, types, os\n{before}\n"
        "state = lambda: (set(sys.modules), list(sys.path), dict(os.environ), os.getcwd())\n"
        f"kept = state()\nexec({source!r})\nprint(*(state()[0] - kept[0]), kept[1:] == state()[1:])"
    )
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)


IN_COLAB = "sys.modules['google.colab'] = types.ModuleType('google.colab')\n"
ASKED = "import builtins\nbuiltins.input = lambda question: print('asked') or {answer!r}"
BY_NOBODY = "import builtins\ndel builtins.input"
NOTEBOOK = f"notebooks/{LECTURE}.ipynb"


@pytest.mark.parametrize("address", ["", ADDRESS])
def test_at_home_the_cell_only_looks_whether_the_course_is_there(tmp_path, address):
    done = run_cell(colab_links.cell_source(NOTEBOOK, address), tmp_path)
    *imported, unchanged = done.stdout.split()
    assert (done.returncode, unchanged, done.stderr) == (0, "True", ""), "nothing printed or changed"
    assert set(imported) <= {"utils"} and list(tmp_path.iterdir()) == []


NOT_INSTALLED = "sys.meta_path[:] = [finder for finder in sys.meta_path if 'editable' not in str(finder).lower()]\n"


@pytest.mark.parametrize("before", ["sys.modules['utils'] = None", NOT_INSTALLED + "sys.path.insert(0, os.getcwd())"])
def test_alone_in_any_jupyter_it_says_what_to_do(tmp_path, before):
    (tmp_path / "utils").mkdir()  # somebody else's
    (tmp_path / "utils" / "__init__.py").touch()
    done = run_cell(colab_links.cell_source(NOTEBOOK, ""), tmp_path, before)
    assert done.returncode == 1 and "`make lab`" in done.stderr and "`pip install -e .`" in done.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> dict[str, str]:
    """The environment in which git finds, at ADDRESS, a course that only says which notebook it was asked to prepare."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "course" / "utils").mkdir(parents=True)
    (folder / "course" / "utils" / "colab.py").write_text("def prepare(notebook):\n    print('prepares', notebook)\n")
    return fake_colab.redirected(ADDRESS, fake_colab.bare_clone(folder / "course", folder / "course.git"))


GITHUB = ADDRESS.replace(":", "%3A").replace("/", "%2F") + "%2Fblob%2Fmain%2F" + NOTEBOOK.replace("/", "%2F")
DRIVE = "1ZAqQEIxR08eODSPEHvKPwbZoioVdV8L9"


def without_address(folder: Path, environment: dict[str, str], before: str = ASKED.format(answer="")):
    """Run the cell of a notebook without badges, in Colab."""
    return run_cell(colab_links.cell_source(NOTEBOOK, ""), folder, IN_COLAB + before, **environment)


def test_a_notebook_opened_from_github_finds_the_course_by_itself(tmp_path, small):
    with fake_colab.sessions(GITHUB) as colab_server:
        done = without_address(tmp_path, small | colab_server)
    assert (done.stdout.splitlines()[0], done.stderr) == (f"prepares {NOTEBOOK}", "")


@pytest.mark.parametrize("answer", [ADDRESS, f" {ADDRESS}/blob/main/README.md\n"])
def test_any_other_notebook_asks_once(tmp_path, small, answer):
    with fake_colab.sessions(DRIVE) as colab_server:
        first = without_address(tmp_path, small | colab_server, ASKED.format(answer=answer))
        again = without_address(tmp_path, small | colab_server, ASKED.format(answer=answer))
    assert first.stdout.splitlines()[:2] == ["asked", f"prepares {NOTEBOOK}"]
    assert again.stdout.splitlines()[0] == f"prepares {NOTEBOOK}"


@pytest.mark.parametrize(
    ("before", "gits_words"),
    [
        (ASKED.format(answer=""), ""),
        (BY_NOBODY, ""),
        (ASKED.format(answer="/no/repository"), "fatal: repository '/no/repository' does not exist"),
    ],
)
def test_where_nobody_knows_the_address_the_cell_names_the_line_to_edit(tmp_path, before, gits_words):
    done = without_address(tmp_path, {}, before)
    *_, said = done.stderr.strip().splitlines()
    assert said.startswith(
        f"RuntimeError: The course is not in {tmp_path.resolve()}/course. Write its address into the"
    )
    assert said.endswith(gits_words)
    (line,) = re.findall("`(.+?)` of this cell", said)
    assert colab_links.cell_source(NOTEBOOK, "").count(f"\n    {line}") == 1


def test_the_line_edited_by_hand_is_enough(tmp_path, small):
    line = 'repository = ""'
    source = colab_links.cell_source(NOTEBOOK, "")
    assert source.count(line) == 1
    done = run_cell(source.replace(line, f'repository = "{ADDRESS}"'), tmp_path, IN_COLAB + BY_NOBODY, **small)
    assert (done.stdout.splitlines()[0], done.stderr) == (f"prepares {NOTEBOOK}", "")


# What it calls


@pytest.fixture
def versions(monkeypatch, tmp_path):
    """What is installed, as `prepare` is told: the pinned versions, until a test changes some. And what pip is asked for."""
    told = colab.pins_of((ROOT / "requirements.txt").read_text())
    asked: list[str] = []
    monkeypatch.setattr(colab, "version_of", told.get)
    monkeypatch.setattr(colab, "install", asked.extend)
    monkeypatch.setenv("PYTHONPATH", "/before")
    monkeypatch.chdir(tmp_path)
    return told, asked


def test_where_all_is_there_nothing_is_installed(versions, capsys):
    colab.prepare("labs/01_views_and_attention.ipynb")
    assert versions[1] == [] and Path.cwd() == ROOT / "labs"
    assert os.environ["PYTHONPATH"] == f"{ROOT}{os.pathsep}/before"
    assert f"torch {versions[0]['torch']} is installed and stays" in capsys.readouterr().out


def test_only_what_is_missing_is_installed_at_its_pin(versions, capsys):
    told, asked = versions
    pin, told["numpy"] = told.pop("einops"), "2.0.2"
    colab.prepare(NOTEBOOK)
    assert asked == [f"einops=={pin}"]
    printed = capsys.readouterr().out
    assert f"pip installs missing packages: einops=={pin}\n" in printed
    assert re.search(r"other versions, and left unchanged: numpy 2\.0\.2 \(pinned: [\d.]+\)\.$", printed)


@pytest.mark.parametrize("version", ["2.9.0+cu126", f"{NEXT}.0", "2.1.0"])
def test_an_untested_torch_is_named_and_stays(versions, capsys, version):
    told, asked = versions
    told["torch"] = version
    colab.prepare(NOTEBOOK)
    assert asked == []
    assert f"torch {version} is installed and stays" in (printed := capsys.readouterr().out)
    assert "if a claim turns red" in printed


@pytest.mark.parametrize("torch", ["2.9.0+cu126", "2.10.1"])
def test_a_notebook_that_needs_a_newer_torch_says_so_before_anything_is_touched(versions, tmp_path, torch):
    told, asked = versions
    told["torch"] = torch
    del told["einops"]
    with pytest.raises(colab.NotReady, match=re.escape(f"to {TESTED[-1]}, and torch {torch} is")) as stopped:
        colab.prepare("notebooks/deeper/14_more_ranks.ipynb")
    assert stopped.value._render_traceback_() == [str(stopped.value)], "no traceback"
    assert f"%pip install torch=={TESTED[-1]}.*" in str(stopped.value)
    assert asked == [] and Path.cwd() == tmp_path


@pytest.mark.parametrize(
    ("torch", "red"), [("2.9.0+cu126", True), (f"{TESTED[0]}.0", False), (f"{TESTED[-1]}.0", False)]
)
def test_the_claims_that_are_red_with_an_older_torch_are_named(versions, capsys, torch, red):
    versions[0]["torch"] = torch
    colab.prepare("notebooks/14_many_ranks.ipynb")
    assert ("some proofs are red: claim 14.8." in capsys.readouterr().out) == red
    colab.prepare(NOTEBOOK)
    assert "are red" not in capsys.readouterr().out
    if not red:
        colab.prepare("notebooks/deeper/14_more_ranks.ipynb")


def test_without_torch_nothing_is_touched(versions, tmp_path):
    told, asked = versions
    del told["torch"], told["einops"]
    with pytest.raises(RuntimeError, match="torch is missing, and it is never installed here"):
        colab.prepare(NOTEBOOK)
    assert asked == [] and Path.cwd() == tmp_path


def test_a_python_that_is_too_old_is_told_first(versions, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    with pytest.raises(RuntimeError, match=r"Python 3\.10 is too old, the course needs 3\.\d+ or newer"):
        colab.prepare(NOTEBOOK)


@pytest.mark.slow
def test_where_pip_fails_its_words_are_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        RuntimeError, match=r"(?s)could not install einops==0\.0\.7 beside the installed packages.*einops==0\.0\.7"
    ):
        colab.install(["einops==0.0.7"])


@pytest.mark.slow
def test_nothing_that_is_there_gives_way_to_what_is_missing(tmp_path):
    python = fake_colab.stand_in(tmp_path, without=("nvidia-ml-py",))
    fake_colab.made_up_wheel("missing", "1.0", tmp_path, needs="einops==0.0.7")
    fake_colab.made_up_wheel("einops", "0.0.7", tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    call = [python, "-c", "from utils.colab import install; install(['missing==1.0'])"]
    done = subprocess.run(call, env=environment, capture_output=True, text=True)
    assert "NotReady: pip could not install missing==1.0 beside the installed packages" in done.stderr
    assert "einops==0.0.7" in done.stderr and own_packages(python) == set()


def imports_of(sources: list[str]) -> set[str]:
    """The modules, not Python's own, that these sources import."""
    names = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"utils"}


@pytest.mark.slow
def test_what_notebooks_import_is_needed_and_pinned():
    books = [path for folder in ("notebooks", "solutions") for path in (ROOT / folder).rglob("*.ipynb")]
    cells = [lectures.tree_of(cell) for path in books for cell in read(path).code]
    for_maintainers = {"course", "grader", "site"}
    package = (path for path in (ROOT / "utils").rglob("*.py") if for_maintainers.isdisjoint(path.parts))
    files = [path.read_text() for path in package]
    packages = metadata.packages_distributions()
    found = {packages[name][0].lower() for name in imports_of([*map(ast.unparse, cells), *files])}
    assert {"torch", "einops"} <= found
    brought = {"filelock", "ipython", "matplotlib-inline", "pillow"}  # by torch, the kernel, Matplotlib
    assert found - brought <= set(colab.NEEDED)
    assert set(colab.NEEDED) <= set(colab.pins_of((ROOT / "requirements.txt").read_text()))


# make badges


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course, in a repository that has the address ADDRESS: (its folder, a bare clone of it)."""
    folder = tmp_path_factory.mktemp("repository")
    copy = fake_colab.repository(folder / "course")
    colab_links.badges(REPOSITORY, copy)
    return copy, fake_colab.bare_clone(copy, folder / "course.git")


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files but the tests, which name all sorts of repositories."""
    files = (path for path in folder.rglob("*") if path.is_file())
    named = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {name: text for name, text in named.items() if not name.startswith("tests/")}


@pytest.mark.slow
def test_badges_come_and_go(tmp_path, capsys):
    copy = fake_colab.repository(tmp_path / "course")
    colab_links.badges("", copy)
    without = contents(copy)
    colab_links.badges(REPOSITORY, copy)
    badged = contents(copy)
    changed = {name for name in badged if badged[name] != without[name]}
    notebooks = {
        name for name in badged if re.fullmatch(r"(notebooks|notebooks/deeper|solutions|labs)/\w+\.ipynb", name)
    }
    assert changed == {"pyproject.toml", "README.md", *notebooks} and badged.keys() == without.keys()
    assert colab_links.address_of(copy) == ADDRESS
    capsys.readouterr()
    colab_links.badges(REPOSITORY, copy)
    colab_links.badges(None, copy)
    assert contents(copy) == badged and capsys.readouterr().out == "", "a second time nothing is left to do"
    colab_links.badges("another/one", copy)
    assert not any(REPOSITORY.encode() in text for text in contents(copy).values())
    colab_links.badges("", copy)
    assert contents(copy) == without, "and away again, to the byte"


def test_every_link_leads_to_a_notebook_and_every_lecture_and_lab_has_one(course):
    copy, _ = course
    begin = f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/"
    badge = r"\[!\[Open in Colab\]\(([^)]+)\)\]\(" + re.escape(begin) + r"([^)]+)\)"
    linked = re.findall(badge, (copy / "README.md").read_text())
    here = {
        str(path.relative_to(copy)) for name in ("notebooks", "labs") for path in (copy / name).glob("[0-9]*.ipynb")
    }
    assert {path for _, path in linked} == here and len(linked) == len(here)
    assert all((copy / picture).exists() for picture, _ in linked)
    for path in here:
        cells = load(copy / path)["cells"]
        assert f"\n\n[Open in Colab]({begin}{path})\n\n" in text_of(cells[0]["source"])
        assert f'repository = "{ADDRESS}"' in text_of(cells[1]["source"])


def test_without_an_address_there_is_no_link_to_colab(tmp_path):
    copy = fake_colab.repository(tmp_path / "course")
    colab_links.badges("", copy)
    kept = {name: text for name, text in contents(copy).items() if not name.startswith("utils/")}
    assert not any(b"colab.research" in text or b"Open in Colab]" in text for text in kept.values())


@pytest.mark.parametrize("name", ["course", "https://github.com/a/b", "a/b/c", "a b/c", 'a/"b', "/b"])
def test_what_is_no_repository_is_refused(name, tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    with pytest.raises(ValueError, match="is not a repository: name it as owner/name"):
        colab_links.badges(name, tmp_path)
    assert (tmp_path / "pyproject.toml").read_text() == ""


@pytest.mark.parametrize(
    ("words", "option"), [(["REPO=a/b"], '--repo "a/b"'), (["REPO="], '--repo ""'), ([], "badges \n")]
)
def test_make_badges(words, option, monkeypatch):
    monkeypatch.setenv("REPO", "what/the-environment-says")
    done = subprocess.run(["make", "--dry-run", "badges", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"utils.course {option}".replace("course --", "course badges --") in done.stdout


# A notebook alone


@pytest.fixture(scope="module")
def lacking(tmp_path_factory):
    """A Python without the packages MISSING, and the environment in which pip finds them."""
    folder = tmp_path_factory.mktemp("lacking")
    (folder / "wheels").mkdir()
    for name in MISSING:
        fake_colab.wheel_of(name, folder / "wheels")
    python = fake_colab.stand_in(folder, without=MISSING)
    return python, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels")}


def own_packages(python: Path) -> set[str]:
    """What has been installed into this Python's own site-packages."""
    (place,) = python.parents[1].glob("lib/python*/site-packages")
    return {path.name.split("-")[0] for path in place.glob("*.dist-info")}


def fresh(folder: Path, notebook: Path, *more: str) -> Path:
    """The notebook alone in a folder, with more cells of code after its first."""
    book = load(notebook)
    if more:
        book["cells"] = [*book["cells"][:2], *(nbformat.v4.new_code_cell(source) for source in more)]
    folder.mkdir()
    path = folder / notebook.name
    path.write_text(json.dumps(book))
    return path


def told(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def errors(book) -> list[str]:
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    return [f"{cell.id}: {o.ename}: {o.evalue}" for cell in cells for o in cell.outputs if o.output_type == "error"]


@pytest.mark.slow
def test_a_lecture_alone_where_packages_are_missing(course, lacking, tmp_path):
    copy, clone = course
    python, surroundings = lacking
    path = fresh(tmp_path / "content", copy / "notebooks" / f"{LECTURE}.ipynb")
    assert own_packages(python) == set()
    book = fake_colab.run_alone(path, python, tmp_path, surroundings | fake_colab.redirected(ADDRESS, clone))
    assert errors(book) == []
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code" and cell.source.strip())
    pins = colab.pins_of((ROOT / "requirements.txt").read_text())
    wanted = ", ".join(f"{name}=={pins[name]}" for name in MISSING)
    assert told(book.cells[1]).startswith(f"pip installs missing packages: {wanted}\ntorch ")
    assert own_packages(python) == {"einops", "nvidia_ml_py"}, "and nothing else: not torch, not NumPy"
    assert {path.name for path in (tmp_path / "content").iterdir()} == {path.name, "course"}


WHERE = "import os, utils, subprocess, sys; print(os.getcwd(), utils.__file__)"
CHILD = (
    "print(subprocess.run([sys.executable, '-c', 'import utils; print(utils.__file__)'], capture_output=True).stdout)"
)


@pytest.mark.slow
def test_a_lab_alone_run_twice_is_fetched_once_and_found_by_processes(course, lacking, tmp_path):
    copy, clone = course
    python, surroundings = lacking
    notebook = sorted((copy / "labs").glob("*.ipynb"))[1]
    again = text_of(load(notebook)["cells"][1]["source"])
    path = fresh(tmp_path / "content", notebook, "open('../mine', 'w').close()", again, WHERE, CHILD)
    book = fake_colab.run_alone(path, python, tmp_path, surroundings | fake_colab.redirected(ADDRESS, clone))
    assert errors(book) == []
    home = tmp_path.resolve() / "content" / "course"
    assert told(book.cells[4]) == f"{home}/labs {home}/utils/__init__.py\n"
    assert f"{home}/utils/__init__.py" in told(book.cells[5])
    assert (home / "mine").exists() and not (home / "labs" / "course").exists()


@pytest.mark.slow
def test_a_lecture_alone_where_torch_is_of_another_version(course, tmp_path):
    copy, clone = course
    python = fake_colab.stand_in(tmp_path, torch="2.9.0+cu126")
    path = fresh(tmp_path / "content", copy / "notebooks" / f"{LECTURE}.ipynb", WHERE)
    book = fake_colab.run_alone(path, python, tmp_path, {"PIP_NO_INDEX": "1"} | fake_colab.redirected(ADDRESS, clone))
    assert errors(book) == []
    assert told(book.cells[1]).startswith("torch 2.9.0+cu126 is installed and stays")
    assert own_packages(python) == set()


@pytest.mark.slow
def test_where_the_repository_cannot_be_fetched_the_cell_says_so(course, lacking, tmp_path):
    copy, _ = course
    path = fresh(tmp_path / "content", copy / "notebooks" / f"{LECTURE}.ipynb", WHERE)
    book = fake_colab.run_alone(path, lacking[0], tmp_path, fake_colab.redirected(ADDRESS, tmp_path / "nothing.git"))
    home = tmp_path.resolve() / "content" / "course"
    (error,) = [output for output in book.cells[1].outputs if output.output_type == "error"]
    line = f'`repository = "{ADDRESS}"`'
    assert error.evalue.startswith(f"The course is not in {home}. Write its address into the line {line} of this cell")
    assert "nothing.git" in error.evalue, "git's own words"
    assert error.traceback == [error.evalue], "one sentence, no traceback"


@pytest.mark.nightly
def test_a_notebook_without_badges_opened_from_github_that_needs_a_newer_torch_says_so(course, tmp_path):
    python = fake_colab.stand_in(tmp_path, torch="2.9.0+cu126")
    path = fresh(tmp_path / "content", ROOT / "notebooks" / "deeper" / "14_more_ranks.ipynb", WHERE)
    opened = GITHUB.replace(LECTURE, "deeper%2F14_more_ranks")
    with fake_colab.sessions(opened) as colab_server:
        book = fake_colab.run_alone(path, python, tmp_path, fake_colab.redirected(ADDRESS, course[1]) | colab_server)
    (error,) = book.cells[1].outputs
    assert error.traceback == [error.evalue] and error.evalue.startswith("This notebook needs torch ")
    assert (tmp_path / "content" / "course" / "README.md").exists()
