"""Run a submitted notebook as its student would, by papermill, in a worker: for a page of the whole notebook.

`python execute.py IN OUT SECONDS`, in the sandbox: the kernel is reached by sockets in the working folder, since there is no
network, not even to itself.
"""

import contextlib
import sys

import papermill
from jupyter_client.manager import AsyncKernelManager
from papermill.exceptions import PapermillExecutionError


class LocalKernel(AsyncKernelManager):
    """A kernel whose sockets are files in the working folder."""

    def __init__(self, **options):
        super().__init__(**options | {"transport": "ipc"})


def main(source: str, target: str, seconds: str) -> None:
    """Write `target`, with outputs up to the point where the notebook stopped."""
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
