"""Which Python and torch run the course: pyproject.toml and one table say it, and all else reads them there."""

import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from helpers.paths import ROOT
from packaging.specifiers import SpecifierSet

from utils.colab import pins_of
from utils.course.notebooks.notebook import read
from utils.versions import TESTED, TORCH, parts_of, problem_of, pythons, red_with


def test_pythons_are_the_oldest_and_the_newest_that_the_package_allows():
    allowed = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    minors = [minor for minor in range(40) if f"3.{minor}.0" in allowed]
    assert pythons() == (f"3.{minors[0]}", f"3.{minors[-1]}")


def test_a_python_that_is_too_old_or_too_new_is_told_which_will_do():
    oldest, newest = (parts_of(version) for version in pythons())
    assert problem_of(oldest) == problem_of(newest) == ""
    for python in ((3, oldest[1] - 1), (3, newest[1] + 1), (2, 7)):
        problem = problem_of(python)
        assert f"Python {python[0]}.{python[1]}," in problem and f"make PYTHON=python{pythons()[1]}" in problem


def test_make_asks_before_it_installs(tmp_path):
    """Here with a Python that is too old for what pyproject.toml would then say."""
    (tmp_path / "utils").mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "utils/versions.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    project = tmp_path / "pyproject.toml"
    project.write_text(re.sub('requires-python = "[^"]*"', 'requires-python = ">=3.38,<3.40"', project.read_text()))
    make = ["make", ".venv/.ready", f"PYTHON={sys.executable}"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "the course is tested with 3.38 to 3.39" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_pinned_torch_is_one_with_which_every_proof_holds():
    pinned = pins_of((ROOT / "requirements.txt").read_text())["torch"]
    assert ".".join(map(str, parts_of(pinned))) in TESTED


def test_the_table_is_in_order_and_names_notebooks_and_claims_that_exist():
    assert list(TORCH) == sorted(TORCH, key=parts_of)
    books = {path.stem: path for path in (ROOT / "notebooks").rglob("*.ipynb")}
    for red in TORCH.values():
        for name, claims in red.items():
            assert set(claims or ()) <= {f"claim {claim.number}" for claim in read(books[name]).claims}


@pytest.mark.parametrize(
    ("torch", "as_with"),
    [("2.9.1+cu126", "2.9"), ("2.10.0", "2.9"), ("2.1.0", "2.9"), ("2.13.0+cpu", "2.13"), ("2.99.0", list(TORCH)[-1])],
)
def test_a_torch_that_was_not_tried_is_taken_for_the_next_older_one(torch, as_with):
    assert red_with(torch) is TORCH[as_with]
