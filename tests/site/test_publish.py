"""What is published: the pages, and an archive for students, without solutions, that works where it is unpacked."""

import os
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import mistune
import pytest
from bs4 import BeautifulSoup
from helpers.paths import ROOT

from utils.course.__main__ import main
from utils.course.notebooks import ledger
from utils.course.notebooks.notebook import read
from utils.site.publish import ARCHIVE, NAME, _pack, publish

HEADER = {
    "date": "2026-01-02T03:04:05+00:00", "form": "short", "gpu": None, "torch": "2.13.0", "python": "3.11.7",
    "device": "cpu", "hardware": "A small processor", "commit": "0123456789abcdef", "dirty": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """The folder that is published after a run of one lecture (not a real one), for a repository on GitHub."""
    build = tmp_path_factory.mktemp("build")
    lecture = ROOT / "notebooks" / "01_tensors_and_strides.ipynb"
    (build / "notebooks").mkdir()
    (build / "notebooks" / lecture.name).write_bytes(lecture.read_bytes())
    result = ledger.judge(read(lecture), read(lecture), cuda=False, full=False, seconds=1.0)
    ledger.write(build / "ledger.json", HEADER, [result])
    return publish(build, "someone/course")


@pytest.fixture(scope="module")
def unpacked(published, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("student")
    zipfile.ZipFile(published / ARCHIVE).extractall(folder)
    return folder / NAME


def test_the_folder_is_a_site_that_offers_the_archive(published):
    assert {"index.html", "site.css", ".nojekyll", ARCHIVE} <= {path.name for path in published.iterdir()}
    index = BeautifulSoup((published / "index.html").read_text(), "html.parser")
    assert ARCHIVE in [link["href"] for link in index.find_all("a")]
    assert [path.name for path in published.parent.glob("*.tmp")] == []


def test_students_get_the_course_without_its_solutions(unpacked):
    stored = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert {
        "README.md",
        "LICENSE",
        "Makefile",
        "pyproject.toml",
        "requirements.txt",
        "utils/loop/training.py",
    } <= stored
    assert {path.split("/")[0] for path in stored if "/" in path} == {"notebooks", "labs", "utils"}
    for folder in ("notebooks", "labs"):
        here = {
            path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.ipynb") if ".ipynb_checkpoints" not in str(path)
        }
        assert {str(path) for path in here} == {
            path for path in stored if path.startswith(folder) and path.endswith(".ipynb")
        }
    for path in unpacked.rglob("*.ipynb"):
        assert "BEGIN SOLUTION" not in path.read_text(), path
        assert not [cell.id for cell in read(path).code if "hidden" in cell.tags or cell.raw["outputs"]], path
    assert not [path for path in stored if "__pycache__" in path or path.endswith(".pyc")]


def test_every_link_in_it_leads_somewhere(unpacked):
    texts = [(path, path.read_text()) for path in unpacked.rglob("*.md")]
    cells = [(path, cell) for path in unpacked.rglob("*.ipynb") for cell in read(path).cells]
    texts += [(path, cell.source) for path, cell in cells if cell.kind == "markdown"]
    dead, seen = [], 0
    for path, text in texts:
        page = BeautifulSoup(mistune.html(text), "html.parser")
        targets = [tag.get("href") or tag.get("src") for tag in page.find_all(["a", "img"])]
        here = [target.split("#")[0] for target in targets if target and ":" not in target and target[0] != "#"]
        seen += len(here)
        dead += [f"{path.relative_to(unpacked)}: {target}" for target in here if not (path.parent / target).exists()]
    assert dead == [] and seen


def test_its_notebooks_know_the_repository_and_this_checkout_does_not(unpacked):
    for path in (
        "pyproject.toml",
        "README.md",
        "notebooks/01_tensors_and_strides.ipynb",
        "labs/01_views_and_attention.ipynb",
    ):
        assert "someone/course" in (unpacked / path).read_text()
        assert "someone/course" not in (ROOT / path).read_text()


def test_links_land_in_colab(published, unpacked):
    opened = "https://colab.research.google.com/github/someone/course/blob/colab"
    assert (
        f"[Open in Colab]({opened}/notebooks/01_"
        in read(unpacked / "notebooks" / "01_tensors_and_strides.ipynb").cells[0].source
    )
    links = []
    for path in (published / "colab").rglob("*.ipynb"):
        ids = {cell.id for cell in read(path).cells}
        for cell in read(path).cells:
            page = BeautifulSoup(mistune.html(cell.source) if cell.kind == "markdown" else "", "html.parser")
            links += [(path, ids, anchor["href"]) for anchor in page.find_all("a", href=True)]
    assert [(path.name, link) for path, _, link in links if ":" not in link and link[0] != "#"] == []
    for path, ids, link in links:
        address, _, place = link.partition("#scrollTo=")
        if place and address:
            path = published / "colab" / address.removeprefix(f"{opened}/")
            ids = {cell.id for cell in read(path).cells}
        assert not place or place in ids, (path.name, link)
    assert any("#scrollTo=claim-" in link for _, _, link in links)


@pytest.mark.nightly
def test_it_works_where_it_is_unpacked(unpacked):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = "import utils.course.commands, utils; print(utils.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=unpacked, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(unpacked / "utils" / "__init__.py")


def test_the_same_files_are_the_same_archive(tmp_path):
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "a.txt").write_text("a")
    made = datetime.fromisoformat(HEADER["date"])
    _pack(tmp_path / "course", tmp_path / "1.zip", made)
    os.utime(tmp_path / "course" / "a.txt", (0, 0))
    _pack(tmp_path / "course", tmp_path / "2.zip", made)
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    assert zipfile.ZipFile(tmp_path / "1.zip").infolist()[0].date_time[:3] == (2026, 1, 2)


def test_without_a_site_the_next_command_is_named(tmp_path, capsys):
    assert main(["publish", "--build", str(tmp_path)]) == 2
    assert "no ledger" in (said := capsys.readouterr().err) and "make site" in said
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_repository_is_refused_and_what_was_published_stays(published):
    with pytest.raises(ValueError, match="REPO='nonsense' is not a repository"):
        publish(published.parent, "nonsense")
    assert (published / "index.html").exists() and list(published.parent.glob("*.tmp")) == []
