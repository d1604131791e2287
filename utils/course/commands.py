"""The commands of a maintainer: rehearse, keep tidy, measure, collect evidence. They import torch, papermill and more."""

import argparse
import os
import sys
from pathlib import Path

from utils.course import ROOT
from utils.course.mutation import strength
from utils.course.notebooks.colab_links import badges
from utils.course.notebooks.length import measure
from utils.course.notebooks.notebook import notebooks_in, read, runs_with_lectures
from utils.course.notebooks.release import release
from utils.course.notebooks.tidy import tidy
from utils.course.receipts import receipt_run
from utils.course.receipts.wheels import wheels
from utils.course.rehearsal.rehearse import rehearse
from utils.course.rehearsal.seeds import SHIFTS, seeds

SHORT_TIMEOUT, FULL_TIMEOUT = 900, 7200
STRENGTH_HELP = f"""
A survivor is either a claim without a proof, then sharpen the proof; or code that the claim does not need, then remove
it; or equivalent, then copy its entry from build/strength/<lecture>.toml to tests/strength/{strength.EQUIVALENT} and
give the reason. An entry goes stale, and is reported, when its cell changes. A crash is no proof either: it does not count.
A sample whose survivors have been repaired says nothing about the rest: measure with a --seed that was not used before, or
with --all. Work on one proof with --cell proof-1-3; then measure the lecture, which stores tests/strength/<lecture>.json
for the ledger.
"""


def add_to(commands: argparse._SubParsersAction) -> None:
    _add_rehearsals(commands)
    _add_tidy(commands)
    _add_strength(commands)
    _add_receipts(commands)


def _add_rehearsals(commands: argparse._SubParsersAction) -> None:
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
        command.add_argument("--jobs", type=count, default=2, help="notebooks at a time (default 2)")
        command.add_argument(
            "--timeout", type=count, default=SHORT_TIMEOUT, help=f"seconds a cell may take ({SHORT_TIMEOUT})"
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


def _rehearse(args: argparse.Namespace) -> int:
    return rehearse(_with_solutions(args.notebooks), ROOT / "build", jobs=args.jobs, timeout=args.timeout)


def _seeds(args: argparse.Namespace) -> int:
    options = {"jobs": args.jobs, "timeout": args.timeout}
    return seeds(_with_solutions(args.notebooks), ROOT / "build", shifts=args.shift, **options)


def _with_solutions(paths: list[Path]) -> list[Path]:
    return find(paths or [receipt_run.LECTURES, receipt_run.SOLUTIONS], lectures=True)


def _shifts(text: str) -> list[int]:
    first, _, last = text.partition("-")
    if not (found := list(range(count(first), count(last or first) + 1))):
        raise argparse.ArgumentTypeError(f"{text!r} is an empty range: name the smaller number first")
    return found


def _add_tidy(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser("tidy", help="notebooks in one format; links, minutes, counts, tables of the READMEs")
    command.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="only these notebooks or folders of them; default: all, and what is written into READMEs",
    )
    command.add_argument(
        "--check", action="store_true", help="only say what would change; exit status 1 if anything would"
    )
    command.set_defaults(command=_tidy)

    command = commands.add_parser("release", help="make labs/ from solutions/: without solutions and hidden checks")
    command.add_argument(
        "--check", action="store_true", help="only say what would change; exit status 1 if anything would"
    )
    command.set_defaults(command=lambda args: release(ROOT / "solutions", ROOT / "labs", check=args.check))

    command = commands.add_parser("badges", help="the way into Colab: links, badges, the first cell of each notebook")
    command.add_argument("--repo", metavar="OWNER/NAME", help="the repository on GitHub from now on; '' for none")
    command.set_defaults(command=_badges)

    command = commands.add_parser(
        "measure", help="how long each lecture takes: minutes for prose, code, claims and turns"
    )
    command.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: the lectures")
    command.set_defaults(command=_measure)


def _tidy(args: argparse.Namespace) -> int:
    status = tidy(find(args.paths or [receipt_run.LECTURES, receipt_run.SOLUTIONS]), check=args.check)
    if args.paths:
        return status
    from utils.course.readmes import update  # a picture: a second that other commands need not wait

    return max(status, update(ROOT, check=args.check))


def _measure(args: argparse.Namespace) -> int:
    return measure([read(path) for path in find(args.notebooks, lectures=True)], ROOT / "build" / "ledger.json")


def _badges(args: argparse.Namespace) -> int:
    badges(args.repo)
    return 0


def _add_strength(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "strength",
        help="change the lectures' code in small ways and count how often an assert notices",
        description=strength.__doc__,
        epilog=STRENGTH_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: the lectures")
    command.add_argument(
        "--sample", type=count, default=strength.SAMPLE, help=f"mutants a lecture (default {strength.SAMPLE})"
    )
    command.add_argument("--all", action="store_true", help="all mutants, however long that takes")
    command.add_argument(
        "--cell", action="append", metavar="ID", help="only mutants of this cell, all of them; nothing stored"
    )
    command.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    command.add_argument("--jobs", type=count, default=2, help="mutants at a time (default 2)")
    command.set_defaults(command=_strength)


def _strength(args: argparse.Namespace) -> int:
    sample = None if args.all or args.cell else args.sample
    options = {"sample": sample, "seed": args.seed, "jobs": args.jobs, "cells": args.cell, "build": ROOT / "build"}
    return strength.strength(find(args.notebooks, lectures=True), **options)


def _add_receipts(commands: argparse._SubParsersAction) -> None:
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
    command.add_argument("--limit", type=count, help="stop after this many seconds; the same call continues later")
    command.add_argument(
        "--jobs",
        type=count,
        default=_half_of_the_cores(),
        help="notebooks at a time, of those without proofs for a GPU (default %(default)s)",
    )
    command.add_argument(
        "--timeout", type=count, help=f"seconds a cell may take ({SHORT_TIMEOUT}, long form {FULL_TIMEOUT})"
    )
    command.add_argument(
        "--together",
        action="store_true",
        help="let lectures with proofs for a GPU share it, faster with many cores; those that turn red run again, alone",
    )
    command.add_argument(
        "--allow-cpu", type=Path, metavar="OUT", help="try it out: needs no GPU, writes to the file OUT"
    )
    command.add_argument(
        "--add", action="store_true", help="run nothing: put these receipts, made elsewhere, into tests/receipts/"
    )
    command.add_argument(
        "--rehash",
        action="store_true",
        help="run nothing: hash the receipts' verdicts anew by the code of their commits, after a change of the rule",
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


def _receipt(args: argparse.Namespace) -> int:
    if args.rehash:
        return receipt_run.rehash()
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
    if not name.isdecimal():
        return [Path(name)]
    if not (found := sorted(receipt_run.LECTURES.glob(f"{int(name):02}_*.ipynb"))):
        raise ValueError(f"no lecture has the number {name}")
    return found


def _half_of_the_cores() -> int:
    return max(2, min(8, (os.cpu_count() or 2) // 2))


def count(text: str) -> int:
    """An argument that is a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def find(paths: list[Path], *, lectures: bool = False) -> list[Path]:
    """The notebooks that `paths` (files or folders; none means notebooks/) name, in order, each once.

    With `lectures` a folder gives only what runs with the lectures. Raises ValueError for a path that is not there, and
    where the names leave nothing.
    """
    found: dict[Path, Path] = {}
    for path in paths or [ROOT / "notebooks"]:
        if path.is_dir():
            books = (book for book in notebooks_in(path) if runs_with_lectures(book) or not lectures)
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
