"""Questions to a student's code, and checks of its answers."""

from utils.lab.ask import (
    MOST_LINES,
    Answer,
    Ask,
    check_names,
    evaluate,
    exception_from,
    expect,
    expect_close,
    expect_equal,
    expect_raises,
    kinds_and_text_of,
)
