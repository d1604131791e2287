"""Each bug of the zoo is caught by its detector, and the loop as it is passes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch.nn.functional as F
from helpers.caught import assert_caught
from test_checks import BESIDE, ELSEWHERE
from torch.optim import SGD
from torch.utils.data import DataLoader

from utils.checks import loop as check
from utils.checks import parts
from utils.checks.any_loop import public_functions
from utils.checks.planting import Seam, wrong_loop
from utils.checks.zoo import AT_ONCE, BUGS, GPU, PLANTED, STEP, in_order, planted_in_loop
from utils.loop import train

# ---- each is caught, and the right loop is not -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=str)
def test_a_planted_bug_is_caught(bug):
    calls = Counter()
    watched = replace(bug, seams=tuple(counted(seam, calls) for seam in bug.seams))
    with planted_in_loop(watched) as wrong:
        assert_caught(bug.detector, wrong)
    assert [seam.at for seam in bug.seams if callable(seam.wrong) and not calls[seam.at]] == [], "nobody calls this"


def counted(seam: Seam, calls: Counter) -> Seam:
    """The same seam; `calls` counts, by its place, how often the wrong function is called."""

    def wrong(*arguments, **options):
        calls[seam.at] += 1
        return seam.wrong(*arguments, **options)

    return replace(seam, wrong=wrong) if callable(seam.wrong) else seam


def called(detector: Callable) -> str:
    return detector.__name__ if not isinstance(detector, partial) else f"{detector.func.__name__} {detector.keywords}"


USED = {called(bug.detector): bug.detector for bug in PLANTED}
# These look at each step for what a GPU's loop learns of later.
STEP_BY_STEP = {check.skipped_step_counts_nowhere, check.endless_skips_end_the_run}


@pytest.mark.parametrize("name", USED)
def test_the_loop_as_it_is_passes(name):
    USED[name](train)


@pytest.mark.slow
@pytest.mark.parametrize("name", USED)
def test_the_loop_on_the_way_of_a_gpu_passes(name):
    USED[name](wrong_loop(GPU, *([AT_ONCE] if USED[name] in STEP_BY_STEP else [])))


ABOUT_STEPS = {
    called(bug.detector) for bug in PLANTED if any(seam.at == "loop.training.train_step" for seam in bug.seams)
}


@pytest.mark.parametrize("name", sorted(ABOUT_STEPS))
def test_a_step_in_the_right_order_passes(name):
    USED[name](wrong_loop(Seam("loop.training.train_step", in_order(*STEP))))


# ---- bugs of loops written by hand -----------------------------------------------------------------------------------


def by_hand(model, data, val=None, config=None, *, flush: bool = True, check: bool = True, **_) -> None:
    """Two epochs as tutorials have them: micro-batches come from the loader, every `accumulation`-th makes a step."""
    examples = [data[i] for i in range(len(data))]
    loader = DataLoader(examples, config.batch_size // config.accumulation, shuffle=True, drop_last=config.drop_last)
    if check and len(loader) == 0:
        raise ValueError("no batch at all")
    optimizer = SGD(model.parameters(), lr=config.lr)
    for _ in range(2):
        for i, (x, y) in enumerate(loader, start=1):
            (F.cross_entropy(model(x), y) / config.accumulation).backward()
            if i % config.accumulation == 0 or (flush and i == len(loader)):
                optimizer.step()
                optimizer.zero_grad()


BY_HAND = (
    (19, "micro-batches left over at an epoch's end", check.no_micro_batch_is_left_over, {"flush": False}),
    (45, "no batch, no step, no word", check.says_no_to_zero_steps, {"check": False}),
)


@pytest.mark.parametrize(("bug", "name", "detector", "wrong"), BY_HAND, ids=[name for _, name, _, _ in BY_HAND])
def test_a_bug_of_a_loop_by_hand_is_caught(bug, name, detector, wrong):
    detector(by_hand)
    assert_caught(detector, partial(by_hand, **wrong))


# ---- the zoo is complete ---------------------------------------------------------------------------------------------


def test_every_bug_of_the_zoo_is_here():
    here = {bug.bug for bug in (*PLANTED, *BESIDE)} | {int(name.split(":")[0]) for name in ELSEWHERE if name[0] != "o"}
    here |= {bug for bug, *_ in BY_HAND} | {33}  # which has a test of its own
    assert here - {None} == set(BUGS)


def test_every_detector_has_a_bug_that_it_catches():
    public = {function for module in (parts, check) for function in public_functions(module).values()}
    used = {bug.detector for bug in (*PLANTED, *BESIDE)} | {detector for detector, *_ in ELSEWHERE.values()}
    used = {getattr(detector, "func", detector) for detector in used}
    assert used == public


@pytest.mark.parametrize("table", [PLANTED, BESIDE], ids=["planted", "beside"])
def test_the_names_are_told_apart(table):
    assert len({(bug.bug, bug.name) for bug in table}) == len(table)
