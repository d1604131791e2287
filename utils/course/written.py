"""What `make tidy` writes whole, or between marks: the drawn ledger, the program's files, the blocks of READMEs."""

import re
from pathlib import PurePosixPath

from utils.course.notebooks.navigation import FOLDER as NOTEBOOKS
from utils.course.notebooks.program import FOLDER as PROGRAM

MARK = "written by make tidy"
BLOCK = re.compile(rf"(<!-- ([\w ]+): {MARK} -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)
LEDGER = f"{NOTEBOOKS}/figures/ledger.svg"


def is_whole(path: str) -> bool:
    """Whether `make tidy` writes all of this file, a path below the root."""
    return path == LEDGER or PurePosixPath(path).parent == PurePosixPath(NOTEBOOKS, PROGRAM)


def by_hand(readme: str) -> str:
    """The text of a README less what stands in its blocks."""
    return BLOCK.sub(r"\1\4", readme)
