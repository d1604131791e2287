"""The command `grade`. It imports neither torch nor matplotlib: where nothing is new, it ends at once."""

import argparse
import sys
from pathlib import Path

from utils.course import ROOT
from utils.course.notebooks.lab import read_lab
from utils.grader import grade as grading
from utils.grader.roster import class_list
from utils.grader.rules import Rules
from utils.grader.summary import printable, results_table


def add_to(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "grade", help="grade a folder of submissions: a gradebook, and a page for each student"
    )
    command.add_argument(
        "submissions", type=Path, metavar="SUBMISSIONS", nargs="?", help="a folder or a zip of notebooks"
    )
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--lab", action="append", metavar="NN", help="the lab's number, such as 04; may be repeated")
    which.add_argument("--all", action="store_true", help="whatever labs there are solutions of")
    command.add_argument("--out", type=Path, help="where the gradebook is kept")
    command.add_argument(
        "--selftest", action="store_true", help="grade only the labs' own solutions and starters, to try this machine"
    )
    command.add_argument("--roster", type=Path, metavar="CSV", help="the class list, to tell who handed in nothing")
    command.add_argument("--jobs", type=_jobs, default=2, help="submissions at a time (default 2)")
    command.add_argument("--seed", type=int, help="of the checks' random inputs (default: drawn once, kept in OUT)")
    command.add_argument("--strict", action="store_true", help="refuse to grade where submissions cannot be isolated")
    command.add_argument(
        "--regrade", action="store_true", help="also what was graded by checks that have changed since"
    )
    command.add_argument("--notebook", action="store_true", help="also each student's notebook, run in the sandbox")
    command.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="a Dask scheduler, whose workers grade (tests/grader/cluster/requirements.txt)",
    )
    command.add_argument(
        "--no-follow-through", action="store_true", help="ask no task again with the lab's own code of an earlier one"
    )
    command.set_defaults(command=_grade)


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number above 0, not {text!r}")
    return int(text)


def _grade(args: argparse.Namespace) -> int:
    try:
        return _graded(args)
    except ValueError as error:
        raise ValueError("\n".join(map(printable, str(error).split("\n")))) from error


def _graded(args: argparse.Namespace) -> int:
    solutions = sorted((ROOT / "solutions").glob("*.ipynb"))
    labs = solutions if args.all else [_solution_of(name, solutions) for name in args.lab]
    if args.selftest:
        grading.selftest(labs, Rules(args.seed or 0, strict=args.strict), jobs=args.jobs)
        return 0
    if args.submissions is None or args.out is None:
        raise ValueError("grade needs SUBMISSIONS and --out GRADES, or --selftest")
    roster = class_list(args.roster) if args.roster else None
    try:
        seed = grading.class_seed(args.out) if args.seed is None else args.seed
        rules = Rules(seed, strict=args.strict, notebook=args.notebook, follow_through=not args.no_follow_through)
        executor, jobs = grading.cluster(args.cluster) if args.cluster else (None, args.jobs)
        options = {"jobs": jobs, "regrade": args.regrade, "executor": executor, "roster": roster}
        found = grading.grade(args.submissions, labs, args.out, rules, **options)
    except OSError as error:
        raise ValueError(
            f"stopped: {error}. What was graded is kept; mend that, and the same command goes on from there"
        ) from error
    sys.stdout.reconfigure(errors="backslashreplace")  # a student's name may be no text
    for path in labs:
        if table := results_table(args.out, read_lab(path), found):
            print(table)
    return 0


def _solution_of(name: str, solutions: list[Path]) -> Path:
    found = [path for path in solutions if path.stem == name or path.stem.partition("_")[0] == name]
    if len(found) != 1:
        raise ValueError(f"no lab {name!r}: choose of {', '.join(path.stem.partition('_')[0] for path in solutions)}")
    return found[0]
