"""Questions to a student's code, and checks of its answers."""

from utils.lab.ask import (
    LONG,
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
