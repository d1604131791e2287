import pytest
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
