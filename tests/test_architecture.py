"""The house stays in order: imports fall from one floor to the next, and one room draws."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT

import utils

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


def test_only_figures_imports_matplotlib():
    importing = {p.parent.name for p in (ROOT / "utils").rglob("*.py") if "import matplotlib" in p.read_text()}
    assert importing == {"figures"}


def test_utils_is_this_package():
    assert Path(utils.__file__).parent == ROOT / "utils"


def test_without_a_browsers_driver_its_tests_are_still_collected():
    """`make test` collects all of tests/ and leaves these out; only `make test-browser` installs the driver."""
    without = "import sys, pytest; sys.modules['playwright'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    command = (sys.executable, "-c", without, "--collect-only", "-q", "-m", "browser", "tests/browser")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
