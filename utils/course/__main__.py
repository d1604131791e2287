"""The course's own commands: `python -m utils.course run`, `… site`, `… tidy`, `… release`, `… badges` and more."""

import argparse
import os
import sys
from pathlib import Path

from utils.course import ROOT
from utils.course.grading import grade as grading
from utils.course.grading.roster import class_list
from utils.course.mutation import strength
from utils.course.notebooks.colab_links import badges
from utils.course.notebooks.notebook import is_lecture
from utils.course.notebooks.release import release
from utils.course.notebooks.tidy import tidy
from utils.course.receipts import receipt_run
from utils.course.receipts.wheels import wheels
from utils.course.rehearsal.rehearse import rehearse
from utils.course.rehearsal.seeds import SHIFTS, seeds
from utils.course.run import run
from utils.course.site.build import build, stale
from utils.course.site.readme_figures import figures

SHORT_TIMEOUT, FULL_TIMEOUT = 900, 7200
STRENGTH_HELP = f"""
A survivor is either a claim without a proof, then sharpen the proof; or code that the claim does not need, then remove
it; or equivalent, then copy its entry from build/strength/<lecture>.toml to tests/strength/{strength.EQUIVALENT} and
give the reason. An entry goes stale, and is reported, when its cell changes. A crash is no proof either: it does not count.
A sample whose survivors have been repaired says nothing about the rest: measure with a --seed that was not used before, or
with --all. Work on one proof with --cell proof-1-3; then measure the lecture, which stores tests/strength/<lecture>.json
for the ledger.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv`. Returns 0 for success, 1 for a failure, 2 for a wrong call."""
    args = _parser().parse_args(argv)
    try:
        return args.command(args)
    except ValueError as error:
        print(f"utils.course: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("utils.course: interrupted; what was written so far stays", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m utils.course", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("run", help="execute the lectures and print the ledger")
    command.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: the lectures")
    command.add_argument("--full", action="store_true", help="the long form: all seeds, all epochs")
    command.add_argument("--jobs", type=_count, default=2, help="lectures at a time (default 2)")
    command.add_argument(
        "--timeout", type=_count, help=f"seconds a cell may take ({SHORT_TIMEOUT}, long form {FULL_TIMEOUT})"
    )
    command.add_argument(
        "--build", type=Path, default=ROOT / "build", help="where everything is written (default build/)"
    )
    command.set_defaults(command=_run)

    command = commands.add_parser("site", help="what `run` executed as pages; runs it first where it has changed")
    command.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build",
        help="where `run` wrote, and where site/ is written (default build/)",
    )
    command.set_defaults(command=_site)

    for name, function, what in (
        (
            "rehearse",
            _rehearse,
            "run notebooks on the stand-in GPU: which proofs run on the device, and what is red there",
        ),
        ("seeds", _seeds, "run notebooks with every seed shifted: what is red at another draw"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument(
            "notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: all lectures and solutions"
        )
        command.add_argument("--jobs", type=_count, default=2, help="notebooks at a time (default 2)")
        command.add_argument(
            "--timeout", type=_count, default=SHORT_TIMEOUT, help=f"seconds a cell may take ({SHORT_TIMEOUT})"
        )
        command.set_defaults(command=function)
    command.add_argument(
        "--shift",
        type=_shifts,
        action="extend",
        default=[],
        metavar="N",
        help=f"a whole number or a range such as {SHIFTS[0]}-{SHIFTS[-1]}; may be repeated (default: two by the date)",
    )

    command = commands.add_parser("tidy", help="notebooks as they are stored: no outputs, readable ids, one format")
    command.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="notebooks or folders, default: notebooks/"
    )
    command.add_argument(
        "--check", action="store_true", help="only say what would change; exit status 1 if anything would"
    )
    command.set_defaults(command=lambda args: tidy(find(args.paths), check=args.check))

    command = commands.add_parser("release", help="make labs/ from solutions/: without solutions and hidden checks")
    command.add_argument(
        "--check", action="store_true", help="only say what would change; exit status 1 if anything would"
    )
    command.set_defaults(command=lambda args: release(ROOT / "solutions", ROOT / "labs", check=args.check))

    command = commands.add_parser("badges", help="the way into Colab: links, badges, the first cell of each notebook")
    command.add_argument("--repo", metavar="OWNER/NAME", help="the repository on GitHub from now on; '' for none")
    command.set_defaults(command=_badges)

    command = commands.add_parser("figures", help="the README's pictures, in notebooks/figures/")
    command.set_defaults(command=_figures)

    command = commands.add_parser(
        "strength",
        help="change the lectures' code in small ways and count how often an assert notices",
        description=strength.__doc__,
        epilog=STRENGTH_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: the lectures")
    command.add_argument(
        "--sample", type=_count, default=strength.SAMPLE, help=f"mutants a lecture (default {strength.SAMPLE})"
    )
    command.add_argument("--all", action="store_true", help="all mutants, however long that takes")
    command.add_argument(
        "--cell", action="append", metavar="ID", help="only mutants of this cell, all of them; nothing stored"
    )
    command.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    command.add_argument("--jobs", type=_count, default=2, help="mutants at a time (default 2)")
    command.set_defaults(command=_strength)
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
    command.add_argument("--jobs", type=_count, default=2, help="submissions at a time (default 2)")
    command.add_argument("--seed", type=int, help="of the checks' random inputs (default: drawn once, kept in OUT)")
    command.add_argument("--strict", action="store_true", help="refuse to grade where submissions cannot be isolated")
    command.add_argument(
        "--regrade", action="store_true", help="also what was graded by checks that have changed since"
    )
    command.add_argument("--notebook", action="store_true", help="also each student's notebook, run in the sandbox")
    command.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="a Dask scheduler, whose workers grade (tests/course/grading/cluster/requirements.txt)",
    )
    command.set_defaults(command=_grade)

    command = commands.add_parser(
        "receipt",
        help="run lectures and solutions on a GPU, and keep which claims it verified",
        description=receipt_run.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help="lectures by number, notebooks by path, the words lectures and solutions; default: both of these",
    )
    command.add_argument("--full", action="store_true", help="the long form of the lectures: all seeds, all epochs")
    command.add_argument("--again", action="store_true", help="also what the receipt has already")
    command.add_argument("--limit", type=_count, help="stop after this many seconds; the same call continues later")
    command.add_argument(
        "--jobs",
        type=_count,
        default=_half_of_the_cores(),
        help="notebooks at a time, of those without proofs for a GPU (default %(default)s)",
    )
    command.add_argument(
        "--timeout", type=_count, help=f"seconds a cell may take ({SHORT_TIMEOUT}, long form {FULL_TIMEOUT})"
    )
    command.add_argument(
        "--together",
        action="store_true",
        help="let lectures with proofs for a GPU share it: for those that you name and that compare no times",
    )
    command.add_argument(
        "--allow-cpu", type=Path, metavar="OUT", help="try it out: needs no GPU, writes to the file OUT"
    )
    command.add_argument(
        "--add", action="store_true", help="run nothing: put these receipts, made elsewhere, into tests/receipts/"
    )
    command.add_argument(
        "--readme", action="store_true", help="run nothing: write into the READMEs what the receipts say"
    )
    command.set_defaults(command=_receipt)

    command = commands.add_parser("wheels", help="collect what a machine without a network lacks to make a receipt")
    command.add_argument(
        "--python", default=sys.executable, help="its Python: 3.12, say, or an interpreter of its version"
    )
    command.add_argument(
        "--build", type=Path, default=ROOT / "build", help="wheels go to BUILD/wheels (default build/)"
    )
    command.set_defaults(command=lambda args: wheels(args.python, args.build / "wheels"))
    return parser


def _half_of_the_cores() -> int:
    return max(2, min(8, (os.cpu_count() or 2) // 2))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _run(args: argparse.Namespace) -> int:
    timeout = args.timeout or (FULL_TIMEOUT if args.full else SHORT_TIMEOUT)
    return run(find(args.notebooks, lectures=True), args.build, full=args.full, jobs=args.jobs, timeout=timeout)


def _rehearse(args: argparse.Namespace) -> int:
    return rehearse(_with_solutions(args.notebooks), ROOT / "build", jobs=args.jobs, timeout=args.timeout)


def _seeds(args: argparse.Namespace) -> int:
    options = {"jobs": args.jobs, "timeout": args.timeout}
    return seeds(_with_solutions(args.notebooks), ROOT / "build", shifts=args.shift, **options)


def _with_solutions(paths: list[Path]) -> list[Path]:
    return find(paths or [receipt_run.LECTURES, receipt_run.SOLUTIONS], lectures=True)


def _shifts(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(_count(first), _count(last or first) + 1))


def _badges(args: argparse.Namespace) -> int:
    badges(args.repo)
    return 0


def _site(args: argparse.Namespace) -> int:
    lectures = find([], lectures=True)
    reason = stale(args.build, lectures)
    if reason:
        print(f"{reason}: the lectures run first, and then the pages are made", file=sys.stderr)
        return run(lectures, args.build, timeout=SHORT_TIMEOUT)
    print(f"open {build(args.build)}")
    return 0


def _figures(args: argparse.Namespace) -> int:
    figures()
    return 0


def _receipt(args: argparse.Namespace) -> int:
    if args.readme:
        return receipt_run.update_readme()
    if args.add:
        return receipt_run.add([Path(name) for name in args.what])
    named = [path for name in args.what or ("solutions", "lectures") for path in _named(name)]
    timeout = args.timeout or (FULL_TIMEOUT if args.full else SHORT_TIMEOUT)
    return receipt_run.certify(
        find(named, lectures=True),
        full=args.full,
        jobs=args.jobs,
        build=ROOT / "build",
        timeout=timeout,
        limit=args.limit,
        again=args.again,
        together=args.together,
        out=args.allow_cpu,
    )


def _named(name: str) -> list[Path]:
    """The notebooks that "lectures", "solutions", a lecture's number or a path stand for."""
    if name in ("lectures", "solutions"):
        return [receipt_run.LECTURES if name == "lectures" else receipt_run.SOLUTIONS]
    return sorted(receipt_run.LECTURES.glob(f"{name}_*.ipynb")) if name.isdecimal() else [Path(name)]


def _strength(args: argparse.Namespace) -> int:
    sample = None if args.all or args.cell else args.sample
    options = {"sample": sample, "seed": args.seed, "jobs": args.jobs, "cells": args.cell, "build": ROOT / "build"}
    return strength.strength(find(args.notebooks, lectures=True), **options)


def _grade(args: argparse.Namespace) -> int:
    solutions = sorted((ROOT / "solutions").glob("*.ipynb"))
    labs = solutions if args.all else [_solution_of(name, solutions) for name in args.lab]
    if args.selftest:
        grading.selftest(labs, grading.Rules(args.seed or 0, strict=args.strict), jobs=args.jobs)
        return 0
    if args.submissions is None or args.out is None:
        raise ValueError("grade needs SUBMISSIONS and --out GRADES, or --selftest")
    roster = class_list(args.roster) if args.roster else None
    try:
        seed = grading.class_seed(args.out) if args.seed is None else args.seed
        rules = grading.Rules(seed, strict=args.strict, notebook=args.notebook)
        executor, jobs = grading.cluster(args.cluster) if args.cluster else (None, args.jobs)
        options = {"jobs": jobs, "regrade": args.regrade, "executor": executor, "roster": roster}
        grading.grade(args.submissions, labs, args.out, rules, **options)
    except OSError as error:
        raise ValueError(
            f"stopped: {error}. What was graded is kept; mend that, and the same command goes on from there"
        ) from error
    return 0


def _solution_of(name: str, solutions: list[Path]) -> Path:
    found = [path for path in solutions if path.stem == name or path.stem.partition("_")[0] == name]
    if len(found) != 1:
        raise ValueError(f"no lab {name!r}: choose of {', '.join(path.stem.partition('_')[0] for path in solutions)}")
    return found[0]


def find(paths: list[Path], *, lectures: bool = False) -> list[Path]:
    """The notebooks that `paths` (files or folders; none means notebooks/) name, in order, each once.

    With `lectures` a folder gives only what has a lecture's number. Raises ValueError for a path that is not there, and
    where the names leave nothing.
    """
    found: dict[Path, Path] = {}
    for path in paths or [ROOT / "notebooks"]:
        if path.is_dir():
            books = (book for book in sorted(path.glob("*.ipynb")) if is_lecture(book) or not lectures)
            found |= {book.resolve(): book for book in books}
        elif path.suffix == ".ipynb" and path.is_file():
            found[path.resolve()] = path
        elif path.exists():
            raise ValueError(f"{path} is not a notebook: name .ipynb files or folders of them")
        else:
            raise ValueError(f"no such notebook: {path}")
    if not found:
        raise ValueError(f"no notebooks in {', '.join(map(str, paths)) or ROOT / 'notebooks'}")
    return list(found.values())


if __name__ == "__main__":
    sys.exit(main())
