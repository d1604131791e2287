import sys

import pytest
import torch
from helpers import (
    figure_text,  # noqa: F401  (no window)
    lab_worker,
)


@pytest.fixture(scope="module")
def worker():
    """A process that holds a student's code."""
    with lab_worker.start() as process:
        yield process
        process.kill()


@pytest.fixture(autouse=True)
def own_recursion_limit_and_graphs():
    """Code of a student's may raise the limit, and switch graphs off."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)
    torch.set_grad_enabled(True)
