"""The guard of a step as the CPU runs it, and as a GPU does: there the host learns of a blocked update only steps later."""

import torch

from utils.loop import state
from utils.loop.guards import Guard

BOTH = ("decided on the host", "decided on the device")


class DeviceGuard(Guard):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.on_host = False


def decide(where: str, monkeypatch) -> str:
    """From here on, in this test, `train` decides in the one of BOTH; returns it."""
    torch.set_num_threads(1)
    if where == "decided on the device":
        monkeypatch.setattr(state, "Guard", DeviceGuard)
    return where
