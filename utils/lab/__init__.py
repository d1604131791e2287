"""What the labs ask a student's code with."""

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
