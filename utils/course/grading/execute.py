"""Run a submitted notebook as its student would, by papermill: what a worker becomes when a page of the whole is wanted.

`python execute.py IN OUT SECONDS`, in the sandbox: the kernel is reached by sockets in the working folder, since there is no
network, not even to itself.
"""

import contextlib
import sys

import papermill
from jupyter_client.manager import AsyncKernelManager
from papermill.exceptions import PapermillExecutionError


class LocalKernel(AsyncKernelManager):
    """A kernel that is talked to through files of the working folder."""

    def __init__(self, **options):
        super().__init__(**options | {"transport": "ipc"})


def main(source: str, target: str, seconds: str) -> None:
    """`target` has the outputs up to where the notebook stopped, if it stopped."""
    with contextlib.suppress(PapermillExecutionError):
        papermill.execute_notebook(
            source,
            target,
            kernel_name="python3",
            kernel_manager_class=LocalKernel,
            execution_timeout=int(seconds),
            progress_bar=False,
            log_output=False,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
