"""Which of torch's functions some code calls: for tasks in which the student builds what torch has ready."""

from collections.abc import Callable

from torch.overrides import TorchFunctionMode


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
