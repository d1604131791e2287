"""Which of torch's functions some code calls: for tasks in which the student builds what torch has ready."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import torch.nn.utils
import torch.optim
from torch.overrides import TorchFunctionMode

READY_MADE = tuple(f"{Path(package.__file__).parent}{os.sep}" for package in (torch.optim, torch.nn.utils))
FUSED = "_fused_"  # how the names of torch's kernels for a whole optimizer step begin


class _Notes(TorchFunctionMode):
    """Notes the name of every function of torch that is called inside the with block."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", "a property"))
        return function(*args, **(kwargs or {}))


def torch_calls(run: Callable[[], object]) -> list[str]:
    """The names of torch's functions that run() calls, each as often as it is called, in alphabetical order.

    Methods and properties of tensors count; what a function of torch calls by itself does not.
    """
    with _Notes() as notes:
        run()
    return sorted(notes.names)


def ready_made(run: Callable[[], object]) -> list[str]:
    """What run() uses of torch's optimizers, schedules and clips, in alphabetical order: [] if it does without.

    These are the modules of torch.optim and torch.nn.utils of which some function runs, by whatever name it was
    imported, and the kernels that make a whole step. Raises what run() raises.
    """
    modules: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(READY_MADE):
            modules.add(frame.f_globals["__name__"])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        called = torch_calls(run)
    finally:
        sys.setprofile(before)
    return sorted(modules | {name for name in called if name.startswith(FUSED)})
