"""All trials, with their counts."""

from torture.disk import disk
from torture.files import hostile, swapped, torn
from torture.fuzz import fuzz
from torture.kill import kill
from torture.memory import memory
from torture.nan import nan
from torture.scale import scale
from torture.signals import signals
from torture.workers import workers

TRIALS = {  # name: (trial, count of the long form, of the short one)
    "kill": (kill, 200, 12),
    "torn": (torn, 50, 3),
    "swapped": (swapped, 20, 3),
    "hostile": (hostile, 50, 10),
    "memory": (memory, 42, 6),
    "nan": (nan, 300, 24),
    "workers": (workers, 60, 5),
    "disk": (disk, 60, 9),
    "signals": (signals, 81, 9),
    "fuzz": (fuzz, 2000, 60),
    "scale": (scale, 1_000_000, 20_000),  # records of a log
}
