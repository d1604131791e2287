"""Room."""

from utils.lab.ask import (
    LONG,
    LONGEST_SHOWN,
    Answer,
    Ask,
    check_names,
    described,
    evaluate,
    expect,
    expect_close,
    expect_equal,
    expect_raises,
    rebuilt,
)

__all__ = [
    "LONG",
    "LONGEST_SHOWN",
    "Answer",
    "Ask",
    "check_names",
    "described",
    "evaluate",
    "expect",
    "expect_close",
    "expect_equal",
    "expect_raises",
    "rebuilt",
]
