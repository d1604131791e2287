"""The wheels for a machine without a network: all that a receipt needs, pinned, and nothing that is there already."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from helpers.paths import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

from utils.course.__main__ import main
from utils.course.receipts import wheels as course_wheels
from utils.course.receipts.receipt_run import notebooks
from utils.course.receipts.wheels import THERE, WANTED, find_python, pins, wheels

SELDOM = {
    "distributed",
    "pyseccomp",
    "jupyter-server",
    "grimp",
    "pytest",
}  # for `grade`, which says so where one is missing; for JupyterLab; for `affected`


def imported() -> set[str]:
    """The top-level names of what utils, the lectures and the solutions import."""
    names = set()
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.split(".")[0])
    return names


def trees() -> Iterator[ast.Module]:
    for path in (ROOT / "utils").rglob("*.py"):
        yield ast.parse(path.read_text())
    for book in chain(*notebooks()):
        for cell in book.code:
            yield ast.parse(cell.source)


@pytest.mark.slow
def test_every_package_that_is_imported_is_there_or_among_the_wheels():
    owners = importlib.metadata.packages_distributions()
    used = {canonical(owner) for name in imported() for owner in owners.get(name, ())}
    assert used
    brought = set().union(*(closure(name) for name in (*THERE, *WANTED)))
    assert used - brought - SELDOM - {"honest-training-loop"} == set()
    asked_for_at_run_time = {"ipykernel", "ipywidgets", "nvidia-ml-py"}  # by jupyter_client, by hand, by torch
    assert {canonical(name) for name in WANTED} - used <= asked_for_at_run_time, "nothing idle"


def closure(name: str) -> set[str]:
    """The names of a package and of everything that it needs, as installed here."""
    found, todo = set(), [name]
    while todo:
        name = canonical(todo.pop())
        if name in found:
            continue
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        wanted = [Requirement(text) for text in needs]
        todo += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def test_versions_are_those_of_requirements():
    text = (ROOT / "requirements.txt").read_text()
    assert len(pins(text)) == len(WANTED) and all(f"\n{line}" in text for line in pins(text))
    with pytest.raises(ValueError, match="pins no papermill"):
        pins(text.replace("papermill==", "papermill>="))


def wheel(folder: Path, name: str, *needs: str, version: str = "1.0") -> None:
    """A package that holds nothing but its needs."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        file.writestr(f"{info}/METADATA", "\n".join(lines + [f"Requires-Dist: {need}" for need in needs]) + "\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.mark.slow
def test_pip_collects_all_that_is_needed_and_what_it_collects_can_be_installed(tmp_path, monkeypatch, capsys):
    shelf, out = tmp_path / "shelf", tmp_path / "build" / "wheels"
    shelf.mkdir()
    wheel(shelf, "outer", "inner_part", "never; python_version < '3'", "always; python_version > '3'")
    for name in ("inner_part", "never", "always"):
        wheel(shelf, name)
    wheel(shelf, "inner_part", version="2.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setattr(course_wheels, "pins", lambda text: ["outer==1.0"])
    monkeypatch.setattr(course_wheels, "_installed", lambda: ["inner-part==1.0"])
    out.mkdir(parents=True)
    (out / "old-1.0-py3-none-any.whl").write_text("from another time")
    assert wheels(sys.executable, out) == 0
    assert sorted(path.name.split("-")[0] for path in out.glob("*.whl")) == ["always", "inner_part", "outer"]
    assert (out / "requirements.txt").read_text() == "always==1.0\ninner-part==1.0\nouter==1.0\n"
    printed = capsys.readouterr().out
    assert "3 wheels for Python" in printed and re.search(r"there: python3\.\d+ -m pip install --no-index", printed)
    there = [
        "--no-index",
        "--find-links",
        str(out),
        "--target",
        str(tmp_path / "site"),
        "-r",
        f"{out}/requirements.txt",
    ]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *there], check=True)
    assert {path.name for path in (tmp_path / "site").glob("*.dist-info")} == {
        f"{name}-1.0.dist-info" for name in ("always", "inner_part", "outer")
    }
    monkeypatch.setattr(course_wheels, "pins", lambda text: ["nowhere==1.0"])
    with pytest.raises(ValueError, match=r"could not get every wheel:\nERROR.*nowhere"):
        wheels(sys.executable, out)
    assert len(list(out.glob("*.whl"))) == 3 and len(list(out.parent.iterdir())) == 1, "what was there stays"


def test_an_interpreter_that_is_not_there_or_not_linux_is_refused(tmp_path, monkeypatch, capsys):
    assert main(["wheels", "--python", "3.99", "--build", str(tmp_path / "build")]) == 2
    words = capsys.readouterr().err
    assert "python3.99 does not run here" in words and "PYTHON=/path/to/python3.12" in words
    assert not (tmp_path / "build").exists()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert find_python(sys.executable)[1] == version
    monkeypatch.setattr(course_wheels, "ASK", 'print(\'[[3, 12], "darwin", "arm64"]\')')
    with pytest.raises(ValueError, match="is on darwin arm64: collect wheels on Linux"):
        find_python(sys.executable)
