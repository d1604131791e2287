"""python tests/peers [--tries N] [--only NAME …]: what this course's loop and other frameworks survive, as one table.

Each framework is used as its documentation says, with the best option that it documents; the last lines say which. A
column of two: with no workers and with two; a NaN in an example and in a gradient.

Exit status 1 if `train` fails in a trial, or if the loop by hand passes one: that trial tells nothing then.
"""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/, where the trials and what they run are
from peers import by_hand, installed, ours
from peers.trials import COLUMNS, TRIALS, Subject


def cells_of(module: ModuleType, tries: int) -> dict[str, list[bool]]:
    """What the loop of `module` passes, by column."""
    cells = {}
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        for trial in TRIALS:
            cells |= trial(partial(_subject, module, Path(folder)), tries)
    return cells


def _subject(module: ModuleType, folder: Path, case: str) -> Subject:
    return Subject(module.train, module.newest, folder / case)


def show(passed: list[bool]) -> str:
    return "/".join("yes" if yes else "no" for yes in passed) if len(passed) < 3 else f"{sum(passed)} of {len(passed)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/peers", description=__doc__)
    parser.add_argument("--tries", type=int, default=10, help="kills, and bytes flipped, for each loop (default 10)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="loops by their names, train and 'by hand' besides")
    options = parser.parse_args()
    torch.set_num_threads(1)
    peers, missing = installed()
    print("".join(f"left out: {what}\n" for what in missing))
    print(f"{'':<22}" + "".join(f"{column:<17}" for column in COLUMNS), flush=True)
    peers = [module for module in peers if not options.only or next(iter(module.USES)) in options.only]
    surprises = []
    for module in (ours, by_hand, *peers):
        began, cells = time.monotonic(), cells_of(module, options.tries)
        row = "".join(f"{show(cells[column]):<17}" for column in COLUMNS)
        print(f"{next(iter(module.USES)):<22}{row}({time.monotonic() - began:.0f} s)", flush=True)
        if module is ours:
            surprises += [f"train fails: {column}" for column in COLUMNS if not all(cells[column])]
        if module is by_hand:
            surprises += [f"tells nothing: {column}" for column in COLUMNS if all(cells[column])]
    print()
    for module in (ours, by_hand, *peers):
        print("".join(f"{name}: {how}" for name, how in module.USES.items()))
    print("\n".join(surprises))
    return min(1, len(surprises))


if __name__ == "__main__":
    sys.exit(main())
