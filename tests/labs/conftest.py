import pictures  # noqa: F401  (no window)
import pytest
from helpers import lab_worker


@pytest.fixture(scope="module")
def worker():
    """A process that holds a student's code."""
    with lab_worker.start() as process:
        yield process
        process.kill()
