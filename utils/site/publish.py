"""Publish: build/publish/ is what any static host serves, the pages and an archive of the course for students."""

import contextlib
import os
import re
import shutil
import tempfile
import zipfile
from datetime import datetime
from pathlib import Path

from utils.course import ROOT
from utils.course.notebooks.colab_links import BRANCH, address_of, badges, colab_address, links_for_colab
from utils.course.notebooks.notebook import notebooks_in
from utils.course.notebooks.tidy import tidy
from utils.site.build import read_run, write_pages

NAME = "honest-training-loop"
ARCHIVE = f"{NAME}.zip"
FILES = "README.md", "LICENSE", "CITATION.cff", "Makefile", "pyproject.toml", "requirements.txt"
FOLDERS = "notebooks", "solutions", "utils"  # solutions/ are made into labs/, and left out
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")  # in Markdown: its words and where it leads
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "*.pyc", "*.egg-info")


def publish(build: Path, repository: str | None = None) -> Path:
    """Write build/publish from the last run in `build`, atomically, and return it. This checkout stays as it is.

    The archive holds the course without solutions, tests and outputs, its labs made from the solutions. `repository`,
    "owner/name" on GitHub, is where Colab finds the course; None keeps what is set here. Where one is set, the folder
    colab/ holds the notebooks as Colab opens them. Raises ValueError where nothing
    has run in `build`, and for what is no name of a repository.
    """
    results = read_run(build)
    unfinished, published = build / f"publish.{os.getpid()}.tmp", build / "publish"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        write_pages(results, unfinished, archive=ARCHIVE)
        (unfinished / ".nojekyll").touch()  # GitHub Pages: serve the files as they are
        with tempfile.TemporaryDirectory() as folder:
            course = Path(folder, NAME)
            with contextlib.redirect_stdout(None):  # they name each file that they write
                _write_course(course, repository)
            if address := address_of(course):
                _write_for_colab(course, unfinished / BRANCH, address)
            _pack(course, unfinished / ARCHIVE, datetime.fromisoformat(results.header["date"]))
        shutil.rmtree(published, ignore_errors=True)
        unfinished.replace(published)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return published


def _write_course(course: Path, repository: str | None) -> None:
    """What students get, into a new folder."""
    course.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, course)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, course / name, ignore=LEFT_OUT)
    badges(repository, course)  # makes labs/ too
    shutil.rmtree(course / "solutions")
    tidy(notebooks_in(course / "notebooks"))
    for page in course.rglob("*.md"):
        _keep_links_that_lead_somewhere(page)


def _write_for_colab(course: Path, folder: Path, address: str) -> None:
    """The notebooks once more, with links that land in Colab; those of the course open these there."""
    for path in sorted(course.rglob("*.ipynb")):
        place = str(path.relative_to(course))
        text = path.read_text(encoding="utf-8").replace(colab_address("", address), colab_address("", address, BRANCH))
        path.write_text(text, encoding="utf-8")
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(links_for_colab(text, place, address), encoding="utf-8")


def _keep_links_that_lead_somewhere(page: Path) -> None:
    """Of a link to what students do not get, the tests for example, leave the words."""

    def kept(link: re.Match) -> str:
        words, target = link.groups()
        return link[0] if ":" in target or (page.parent / target.split("#")[0]).exists() else words

    page.write_text(LINK.sub(kept, page.read_text(encoding="utf-8")), encoding="utf-8")


def _pack(course: Path, archive: Path, made: datetime) -> None:
    """The folder as a zip: the same bytes for the same files, each with the date of the run."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in course.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(str(path.relative_to(course.parent)), made.timetuple()[:6])
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
