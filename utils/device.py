"""Where the numbers are computed: the device, its random streams, its determinism, and a fingerprint of it all."""

import os
import platform
import random
import subprocess
from pathlib import Path

import numpy as np
import torch


def pick_device(name: str = "auto") -> torch.device:
    """The device called `name`; "auto" is the first CUDA GPU if there is one, else the CPU.

    Raises ValueError for a device that this machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} is not available here ({str(error).splitlines()[0]}): try 'auto' or 'cpu'") from error
    return device


def synchronize(device: torch.device) -> None:
    """Wait until everything queued on `device` has run. A CPU has no queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seed_everything(seed: int) -> None:
    """Seed the global streams of torch (all devices), NumPy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (the global stream is what user code draws from)
    random.seed(seed)


def rng_state() -> dict:
    """All global random streams as plain values and tensors, so that a file of them loads without running code."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, gauss),
        "python": random.getstate(),
    }


def set_rng_state(state: dict) -> None:
    """Put back what rng_state() returned."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    kind, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    random.setstate(state["python"])
