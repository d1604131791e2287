"""Each bug of `python -m utils break` is at work in its run: its losses differ, or its detector alone sees it."""

import math
from dataclasses import replace

import pytest

from utils.__main__ import main
from utils.checks import loop as check
from utils.checks.breaking import (
    ROUNDING,
    SETTINGS,
    WIDTH,
    Comparison,
    Run,
    Setting,
    bugs,
    chart,
    compare,
    detection,
    detector_of,
    find,
    in_words,
    listing,
    told,
    verdict,
)
from utils.checks.planting import Seam
from utils.checks.zoo import PLANTED, Planted

# The losses of both runs are the same but for rounding. Nothing but the detector speaks.
SILENT = {"7", "12", "15", "25", "36"}
HARMLESS = Planted(
    1, "nothing", check.gradients_are_fresh, (Seam("loop.training.zero_grad", lambda right, p: right(p)),)
)


@pytest.mark.slow
@pytest.mark.parametrize("key", bugs())
def test_a_bug_changes_the_losses_or_its_detector_alone_sees_it(key):
    found = compare(bugs()[key])
    assert found.gap < ROUNDING if key in SILENT else found.gap > 100 * ROUNDING
    assert found.says
    text = told(found, key)
    assert " ".join(found.says.split()) in " ".join(text.split()) and detector_of(found.bug) in text
    assert ("differ by rounding only" in text or "every digit is the same" in text) == (key in SILENT)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_bug_that_is_not_planted_changes_nothing_and_is_not_caught():
    found = compare(HARMLESS)
    assert found.gap == 0 and found.says == ""
    assert "every digit is the same" in verdict(found) and "lets the broken loop pass" in detection(found)


def test_an_alarm_on_the_right_loop_is_an_error():
    def always(train):
        raise AssertionError("wolf")

    with pytest.raises(AssertionError, match="always raises an alarm on the right loop: wolf"):
        compare(replace(HARMLESS, detector=always))


def test_the_weights_kept_as_best_are_measured_again():
    found = compare(bugs()["25"])
    (reported, kept), right = found.broken.kept, found.right.kept
    assert right == (reported, pytest.approx(reported, rel=1e-5)) and kept > 1.5 * reported
    assert f"reports {reported:.4f} as its best validation loss" in in_words(found)
    assert "as its best validation loss" not in in_words(replace(found, broken=found.right))


def run(*losses: float | None) -> Run:
    return Run(dict(enumerate(losses, 1)), {1: 1.0}, [], None, [])


@pytest.mark.parametrize(
    ("broken", "other", "words"),
    [
        ((2.0, 1.0), (2.0, 1.1), "every digit is the same"),
        ((2.0, 1.0 + ROUNDING / 2), (2.0, 1.1), "by rounding only"),
        ((2.0, 1.1), (2.0, 1.1), "Chance alone makes curves like these"),
        ((2.0, 1.5), (2.0, 1.1), "Alone, the broken run looks healthy: its training loss falls from 2.00 to 1.50"),
        ((2.0, 0.5), (2.0, 1.1), "the broken run that seems to learn better"),
        ((2.0, 2.0), (2.0, 1.1), "something is different: by up to 1 nats, where another seed makes 0.1."),
        ((2.0, math.nan), (2.0, 1.1), "one that is not a number"),
        ((2.0,), (2.0, 1.1), "stops early"),
    ],
)
def test_the_verdict_compares_with_the_right_run_and_with_chance(broken, other, words):
    found = Comparison(HARMLESS, Setting(), run(2.0, 1.0), run(*broken), [run(*other)], says="")
    assert words in verdict(found)


def test_the_chart_shows_what_is_missing_and_what_is_not_finite():
    table, bars = chart(Comparison(HARMLESS, Setting(), run(3.0, None, 1.0), run(2.0, math.inf), [], says=""))
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["1", "3.0000", "2.0000", "1.0000", "1.0000"],
        ["2", "none", "inf", "-", "-"],
        ["3", "1.0000", "-", "-", "-"],
    ]
    assert [line[19:] for line in bars.splitlines()[:2]] == ["█ ▁", "▅× "]


# ---- the list and the command ----------------------------------------------------------------------------------------


def test_each_numbered_bug_of_the_zoos_loops_has_a_line():
    assert list(bugs().values()) == sorted((bug for bug in PLANTED if bug.bug), key=lambda bug: bug.bug)
    assert set(SETTINGS) <= {bug.bug for bug in bugs().values()}
    for line, (key, bug) in zip(listing(), bugs().items(), strict=True):
        assert line.split()[0] == key and bug.name in line and len(line) <= WIDTH


STEPPED = "schedule in steps, stepped once an epoch"


@pytest.mark.parametrize("asked", ["8b", "8B", STEPPED, STEPPED.replace(", ", "-").replace(" ", "-").upper()])
def test_a_bug_is_found_by_its_number_and_by_its_name(asked):
    assert find(asked) == "8b"


def test_the_command_lists_and_breaks(capsys):
    assert main(["break"]) == 0
    assert "zero_grad forgotten" in capsys.readouterr().out
    assert main(["break", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Bug 1: zero_grad forgotten\n")
    assert "it says: step 2: the gradient differs" in " ".join(out.split())


@pytest.mark.parametrize(("asked", "words"), [("zero-gard", "the nearest: 1 (zero_grad forgotten)"), ("?", "no name")])
def test_an_unknown_bug_is_answered_in_one_line(capsys, asked, words):
    assert main(["break", asked]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and words in said.err and repr(asked) in said.err
