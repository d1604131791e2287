"""Python imports this module at its start if this folder is on PYTHONPATH: in a notebook's kernel and in all processes
that the kernel starts. It changes torch as soon as torch is imported, as two variables say:

COURSE_DEVICE       the path of the module whose load() makes the stand-in GPU a device of the process
COURSE_SEED_SHIFT   a whole number, which is added to every seed
"""

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder

DEVICE, SHIFT = "COURSE_DEVICE", "COURSE_SEED_SHIFT"


class _After(MetaPathFinder):
    """Calls then[name](module) once the module of that name has been imported."""

    def __init__(self, then: dict):
        self.then = then

    def find_spec(self, name, path=None, target=None):
        change = self.then.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change
        return spec


def change_torch(torch) -> None:
    if os.environ.get(DEVICE):
        spec = importlib.util.spec_from_file_location("standin", os.environ[DEVICE])
        standin = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(standin)
        standin.load()
    if os.environ.get(SHIFT):
        shift_seeds(torch, int(os.environ[SHIFT]))


def shift_seeds(torch, shift: int) -> None:
    """Add `shift` to every seed that this process gives to torch's generators, NumPy's and Python's."""
    import random

    import numpy as np

    class Generator(torch.Generator):
        def manual_seed(self, seed):
            return super().manual_seed(seed + shift)

    class Random(random.Random):
        def seed(self, a=None, version=2):
            super().seed(a + shift if isinstance(a, int) else a, version)

    def shifted(function, below=None):
        def seeded(seed=None, *rest, **options):
            if isinstance(seed, int):
                seed = (seed + shift) % below if below else seed + shift
            return function(seed, *rest, **options)

        return seeded

    torch.Generator = Generator
    torch.manual_seed = torch.random.manual_seed = shifted(torch.manual_seed)
    random.Random, random.seed = Random, shifted(random.seed)
    np.random.seed, np.random.default_rng = shifted(np.random.seed, 2**32), shifted(np.random.default_rng)


def shift_order(order) -> None:
    """The order of batches comes from keys that are hashed from the seed, and not from a generator."""
    derive, shift = order.derive_seed, int(os.environ[SHIFT])
    order.derive_seed = lambda *parts: derive(shift, *parts)


if os.environ.get(DEVICE) or os.environ.get(SHIFT):
    after = {"torch": change_torch}
    if os.environ.get(SHIFT):
        after["utils.data.order"] = shift_order
    sys.meta_path.insert(0, _After(after))
