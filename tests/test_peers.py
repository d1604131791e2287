"""The light part of what the comparison with other frameworks promises: none of them is needed, and none is believed."""

import ast
from functools import partial
from pathlib import Path

import pytest
import torch
from bench_loop import OURS, by_hand, check, job_of
from peers import MODULES, installed
from peers.job import Loop

from utils.data import TensorData
from utils.models import MLP

pytestmark = pytest.mark.nightly

PEERS = Path(__file__).with_name("peers")


def new_job():
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    return job_of(partial(MLP, (8, 16, 2)), TensorData(x, (x.sum(1) > 0).long()), 16, 40)


def test_every_framework_is_run_or_named_as_missing():
    assert {path.stem for path in PEERS.glob("with_*.py")} == set(MODULES)
    modules, missing = installed()
    assert modules or [line.split()[0] for line in missing] == list(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_every_framework_can_be_timed_and_tried(name):
    """Read, not run: it is not installed here, as a rule."""
    body = ast.parse((PEERS / f"{name}.py").read_text()).body
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    constants = {node.targets[0].id for node in body if isinstance(node, ast.Assign)}
    assert functions >= {"newest", "train"} and constants >= {"LOOPS", "USES"}


def test_ours_does_the_maths_of_the_one_by_hand():
    check("train", OURS, new_job)


@pytest.mark.parametrize("left_out", ["clip", "schedule"])
def test_a_loop_that_does_other_maths_is_refused(left_out):
    fewer = [done for done in OURS.maths if done != left_out]
    with pytest.raises(ValueError, match="does not do the maths"):
        check("train", Loop(partial(by_hand, maths=fewer), OURS.maths), new_job)
