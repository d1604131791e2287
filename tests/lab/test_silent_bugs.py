"""The bugs of lab 09's loop fit beside each other and make no sound. That each is caught, the lab's variants show."""

import inspect
import warnings

import pytest
import torch
from helpers.paths import ROOT
from torch import nn

from utils.course.notebooks.lab import read_lab
from utils.data import IGNORE, spiral
from utils.lab import silent_bugs
from utils.lab.silent_bugs import (
    BUGS,
    KINDS,
    MOST_CHANGED,
    _in_words_of,
    borrowed,
    changed_lines,
    chosen,
    lines_changed,
    loop_from,
    planted,
    with_bugs,
)


def learning(source: str) -> list[float]:
    """The losses that the loop of this source logs in an ordinary run: spirals, dropout, clipping, a break on the way."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 3))
    data = spiral()
    labels = data.train.y[:300].clone()
    labels[::20] = IGNORE
    train, losses, state = loop_from(source), [], None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (30, 150):
            result = train(
                model,
                (data.train.x[:300], labels),
                (data.val.x, data.val.y),
                steps,
                lr=0.5,
                size=64,
                clip=1.0,
                state=state,
            )
            losses, state = losses + result["log"]["loss"], result["state"]
    return losses


def test_every_bug_changes_the_source_and_is_of_a_kind_with_others():
    assert len({with_bugs(name) for name in BUGS} | {with_bugs()}) == len(BUGS) + 1
    assert all(sum(bug.kind == kind for bug in BUGS.values()) >= 4 for kind in KINDS)
    assert with_bugs() == inspect.getsource(silent_bugs.train)


def test_the_labs_solution_is_a_repair_of_its_variant():
    (lab,) = (ROOT / "solutions").glob("09_*.ipynb")
    (cell,) = (task.code.source for task in read_lab(lab).tasks if task.name == "repair")
    assert 5 <= lines_changed(cell, planted(0)) <= MOST_CHANGED and borrowed(cell) == []


def test_a_repair_is_near_its_own_variant_and_no_other_right_loop_is():
    given = [planted(seed) for seed in range(30)]
    repaired = [_in_words_of(seed, with_bugs()) for seed in range(30)]
    for seed in range(30):
        assert lines_changed(repaired[seed], given[seed]) <= MOST_CHANGED
        assert lines_changed(with_bugs(), given[seed]) > 2 * MOST_CHANGED
        assert lines_changed(repaired[seed - 1], given[seed]) > MOST_CHANGED


def test_changed_lines_are_those_of_the_statements_and_not_of_their_layout():
    given = "def f(x):\n    y = g(x, 1)\n    return y\n"
    assert changed_lines("def f(x):\n    # why\n    y = g(\n        x, 1)\n\n    return y", given) == []
    assert changed_lines(given.replace("g(x, 1)", "g(x, 2)"), given) == ["- y = g(x, 1)", "+ y = g(x, 2)"]
    assert changed_lines(given.replace("    y =", "    for _ in x:\n        y ="), given)[0] == "- y = g(x, 1)"
    assert lines_changed(given.replace("    return y\n", ""), given) == 1


def test_names_from_elsewhere_are_told_and_those_of_the_loop_are_not():
    assert borrowed(with_bugs()) == []
    assert borrowed('def train(x):\n    return torch.sys.modules["utils.lab.silent_bugs"].train(x)') == ["sys"]
    assert borrowed("def train(x):\n    [exec for exec in ()]\n    return exec(x), x.__class__") == [
        "__class__",
        "exec",
    ]
    assert borrowed("def train(model):\n    import os\n    return eval(right)(model, *silent_bugs.x)") == [
        "eval",
        "import",
        "right",
        "silent_bugs",
    ]


def test_bugs_that_want_the_same_words_are_refused():
    with pytest.raises(ValueError, match="'every epoch in the same order' does not fit"):
        with_bugs("a new order at every step", "every epoch in the same order")


@pytest.mark.parametrize("seed", range(12))
def test_a_seed_has_bugs_of_different_kinds_and_its_loop_learns_in_silence(seed):
    names = chosen(seed)
    assert names == chosen(seed) and len({BUGS[name].kind for name in names}) == 5
    losses = learning(silent_bugs.planted(seed))
    assert len(losses) == 150 and sum(losses[-10:]) / 10 < 0.75 * max(losses[:10])


def test_seeds_differ():
    assert len({silent_bugs.planted(seed) for seed in range(60)}) > 50
    assert {name for seed in range(60) for name in chosen(seed)} == set(BUGS)


@pytest.mark.parametrize("bugs", [0, 7])
def test_more_bugs_than_kinds_are_refused(bugs):
    with pytest.raises(ValueError, match=rf"^{bugs} bugs.* 6 kinds"):
        chosen(0, bugs)
