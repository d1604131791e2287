"""python tests/torture [--short] [TRIAL …]: the promises of the loop, under attack.

Prints a table of what was tried, lost and wrong. Exit status 1 if anything was lost or wrong.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/, where the runs to be killed are defined
from torture.trials import TRIALS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/torture", description=__doc__)
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help=f"of {', '.join(TRIALS)}; default: all")
    parser.add_argument("--short", action="store_true", help="a few of each")
    parser.add_argument("--seed", type=int, default=0, help="of what is tried (default 0)")
    args = parser.parse_args()
    if unknown := set(args.trials) - set(TRIALS):
        parser.error(f"no trial is called {', '.join(sorted(unknown))}: choose of {', '.join(TRIALS)}")
    torch.set_num_threads(1)
    print(f"{'trial':<44}{'tried':>6}{'lost':>6}{'wrong':>7}", flush=True)
    bad = 0
    for name in args.trials or TRIALS:
        trial, long, short = TRIALS[name]
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="torture-") as folder:
            tally = trial(Path(folder), short if args.short else long, args.seed)
        print(f"{tally}   ({time.monotonic() - began:.0f} s)", flush=True)
        bad += len(tally.lost) + len(tally.wrong)
    return min(1, bad)


if __name__ == "__main__":
    sys.exit(main())
