"""What a proof says of its claim: written by utils.checks in a notebook, found again by utils.course.

It imports nothing of the package and no torch, because those who only read a notebook need neither.
"""

import re

MARK = "✓"
GREEN, RED, PLAIN = "\x1b[32m", "\x1b[1;31m", "\x1b[0m"
GREEN_LINE = re.compile(rf"^{re.escape(GREEN + MARK + PLAIN)} (.*)\n?", re.MULTILINE)
NOT_VERIFIED = "○"  # how the line begins of a proof that cannot run here; then the reason
NOT_HERE = re.compile(rf"^({NOT_VERIFIED} )", re.MULTILINE)
# Of torch.testing and numpy.testing: to call one is to assert.
ASSERT_FUNCTIONS = {"assert_close", "assert_allclose", "assert_equal", "assert_array_equal"}


def number_of_claim(cell_id: str | None) -> str:
    """The claim that a cell with this id proves, "7.3" for proof-7-3; "" where it proves none, or nobody knows the id."""
    found = re.fullmatch(r"proof-(\d+|C)-(\d+)", cell_id or "")
    return f"{found[1]}.{found[2]}" if found else ""


def green_line(words: str, number: str = "") -> str:
    """What a cell that passed prints; `number` is that of its claim, if somebody knows it."""
    return f"{GREEN}{MARK}{PLAIN} " + (f"{number}  " if number else "") + words


def false_here(number: str = "") -> str:
    """What a cell that failed says first."""
    return f"Claim {number} is false here." if number else "This assert is false here."
