"""IPython in this process: runs a notebook's cells as a kernel does, and knows magics."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@contextmanager
def notebook_shell() -> Iterator[InteractiveShell]:
    """A shell with a namespace of its own; it keeps no history on the disk."""
    main, hook = sys.modules["__main__"], sys.excepthook
    quiet = Config()
    quiet.HistoryManager.enabled = False
    quiet.InteractiveShell.colors = "nocolor"
    try:
        yield InteractiveShell(config=quiet)
    finally:
        sys.modules["__main__"], sys.excepthook = main, hook
