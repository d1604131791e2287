"""What it means that a detector caught a bug."""

import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from utils.checks.planting import SOURCE

CHECKS = SOURCE / "checks"
DETECTORS = {*(CHECKS / "loop").glob("*.py"), CHECKS / "parts.py", CHECKS / "toy_problem.py"}


def assert_caught(detector: Callable, *examined) -> AssertionError:
    """The detector raises AssertionError, and raises it itself: one out of torch or the loop would prove nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some bugs warn; a detector must not lean on somebody reading it
        with pytest.raises(AssertionError) as caught:
            detector(*examined)
    raised_in = traceback.extract_tb(caught.tb)[-1].filename
    assert Path(raised_in) in DETECTORS, f"raised in {raised_in}, not by a detector: {caught.value}"
    return caught.value
