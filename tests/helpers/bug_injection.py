"""Bugs planted on purpose: a copy of the package with changed source, and what it means that one was caught."""

import importlib
import itertools
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import utils

SOURCE = Path(utils.__file__).parent


def assert_caught(detector: Callable, *examined) -> AssertionError:
    """The detector raises AssertionError, and raises it itself: one out of torch or the loop would prove nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some bugs warn; a detector must not lean on somebody reading it
        with pytest.raises(AssertionError) as caught:
            detector(*examined)
    raised_in = traceback.extract_tb(caught.tb)[-1].filename
    assert Path(raised_in).parent == SOURCE / "checks", f"raised in {raised_in}, not by a detector: {caught.value}"
    return caught.value


_numbers = itertools.count()


class Copy:
    """A copy of the package, under a name of its own, with changes; importable within the block."""

    def __init__(self, folder: Path, changes: tuple[tuple[str, str, str], ...] = ()):
        self.name = f"planted_{next(_numbers)}"
        self.folder, self.path = folder, folder / self.name
        shutil.copytree(SOURCE, self.path, ignore=shutil.ignore_patterns("course", "figures", "__pycache__"))
        for file, old, new in changes:
            self._replace(self.path / file, old, new)
        for file in self.path.rglob("*.py"):
            file.write_text(file.read_text().replace("from utils", f"from {self.name}"))

    @staticmethod
    def _replace(file: Path, old: str, new: str) -> None:
        text = file.read_text()
        assert text.count(old) == 1, (
            f"{old!r} occurs {text.count(old)} times in {file.name}: the zoo needs a new snippet"
        )
        file.write_text(text.replace(old, new))

    def __enter__(self) -> "Copy":
        sys.path.insert(0, str(self.folder))
        return self

    def __exit__(self, *error) -> None:
        sys.path.remove(str(self.folder))
        for module in [m for m in sys.modules if m.split(".")[0] == self.name]:
            del sys.modules[module]

    def module(self, name: str):
        return importlib.import_module(f"{self.name}.{name}")
