"""The house stays in order: few rooms, imports fall from one floor to the next, and one room draws."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT

import utils

READING_PATH = {"train": 230, "optim": 110, "guards": 120, "state": 120, "metrics": 100}  # lines of each, at most
LINT = (sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")


def lint(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(LINT, cwd=folder, capture_output=True, text=True)


def test_imports_fall():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "imports"),
    [("facts.py", "from utils.loop import train"), ("data/order.py", "import utils.loop.guards"), ("new.py", "")],
)
def test_an_import_that_rises_is_seen(tmp_path, module, imports):
    """Also inside a function; and a module that has no floor."""
    for name in ("pyproject.toml", "utils"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    with open(tmp_path / "utils" / module, "a") as file:
        file.write(f"\n\ndef later():\n    {imports or 'pass'}\n")
    assert lint(tmp_path).returncode == 1


def test_there_are_nine_rooms_and_six_modules():
    skipped = {"__pycache__", "__init__.py", "README.md"}
    entries = [path for path in (ROOT / "utils").iterdir() if path.name not in skipped]
    assert sum(path.is_dir() for path in entries) <= 9 and sum(path.is_file() for path in entries) <= 6


def test_only_figures_imports_matplotlib():
    importing = {p.parent.name for p in (ROOT / "utils").rglob("*.py") if "import matplotlib" in p.read_text()}
    assert importing == {"figures"}


def test_only_calculators_imports_ipywidgets():
    widgets = ("import ipywidgets", "from ipywidgets")
    importing = {p.name for p in (ROOT / "utils").rglob("*.py") if any(word in p.read_text() for word in widgets)}
    assert importing == {"calculators.py"}


def test_the_loop_is_read_in_one_sitting():
    lines = {name: len((ROOT / "utils" / "loop" / f"{name}.py").read_text().splitlines()) for name in READING_PATH}
    assert sum(lines.values()) <= 700 and all(lines[name] <= most for name, most in READING_PATH.items()), lines


def test_utils_is_this_package():
    assert Path(utils.__file__).parent == ROOT / "utils"
