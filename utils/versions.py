"""The versions of Python and torch that run the course, and what is red with which. Imports the standard library only.

As a program, `python utils/versions.py`, it says whether this Python will do: make asks before it installs anything.
"""

from __future__ import annotations  # an old Python should get as far as its message

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Each torch that was tried: {notebook: the claims whose proofs are red with it, None if it cannot run at all}. Their
# numbers are kept up to date by tidy.
TORCH: dict[str, dict[str, tuple[str, ...] | None]] = {
    "2.9": {  # Colab's in 2026.01, on a CPU
        "02_more_about_rounding": ("claim 2.215",),
        "13_more_about_capture": ("claim 13.101", "claim 13.103"),
        "14_many_ranks": ("claim 14.8",),
        "14_more_ranks": None,
        "14_the_loop_on_many_ranks": ("claim 14.207",),
    },
    "2.11": {},
    "2.12": {},
    "2.13": {},
    "2.14": {},
}
TESTED = tuple(version for version, red in TORCH.items() if not red)  # with these every proof holds


def red_with(torch: str) -> dict[str, tuple[str, ...] | None]:
    """What is red with the torch of this version, by notebook: one that was not tried is taken for the next older one."""
    tried = [version for version in TORCH if parts_of(version) <= parts_of(torch)]
    return TORCH[tried[-1] if tried else next(iter(TORCH))]


def pythons() -> tuple[str, str]:
    """The oldest and the newest Python that pyproject.toml allows, "3.11" say."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    oldest, after = re.findall(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', project, re.MULTILINE)[0]
    return f"3.{oldest}", f"3.{int(after) - 1}"


def parts_of(version: str) -> tuple[int, ...]:
    """(2, 13) of "2.13.0+cpu": what orders versions."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def problem_of(python: tuple[int, int]) -> str:
    """Why this Python will not do, and the next move; "" if it will."""
    oldest, newest = pythons()
    if parts_of(oldest) <= python <= parts_of(newest):
        return ""
    own = ".".join(map(str, python))
    return f"This is Python {own}, and the course is tested with {oldest} to {newest}: call make PYTHON=python{newest}, say"


if __name__ == "__main__":
    sys.exit(problem_of(sys.version_info[:2]) or 0)
