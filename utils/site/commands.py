"""The commands that execute the course and show it: `run`, `site`, `publish`, `figures`."""

import argparse
import sys
from pathlib import Path

from utils.course import ROOT
from utils.course.commands import FULL_TIMEOUT, SHORT_TIMEOUT, count, find
from utils.course.notebooks.notebook import START
from utils.course.run import run, run_beside, short

# The site's modules take a second to import: they are imported where pages are made, and `run` begins sooner.


def add_to(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser("run", help="execute the lectures and print the ledger")
    command.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: the lectures")
    command.add_argument("--full", action="store_true", help="the long form: all seeds, all epochs")
    command.add_argument("--jobs", type=count, default=2, help="lectures at a time (default 2)")
    command.add_argument(
        "--timeout", type=count, help=f"seconds a cell may take ({SHORT_TIMEOUT}, long form {FULL_TIMEOUT})"
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

    command = commands.add_parser("publish", help="the pages and the students' archive, for any static host")
    command.add_argument(
        "--repo", metavar="OWNER/NAME", help="where the archive's notebooks say Colab finds the course"
    )
    command.add_argument(
        "--build", type=Path, default=ROOT / "build", help="where `run` wrote, and where publish/ goes (default build/)"
    )
    command.set_defaults(command=_publish)

    command = commands.add_parser("figures", help="the README's pictures, in notebooks/figures/")
    command.set_defaults(command=_figures)


def _run(args: argparse.Namespace) -> int:
    timeout = args.timeout or (FULL_TIMEOUT if args.full else SHORT_TIMEOUT)
    beside = [] if args.notebooks else [ROOT / "notebooks" / START]  # its page shows what it prints
    return run_and_show(
        find(args.notebooks, lectures=True), args.build, beside=beside, full=args.full, jobs=args.jobs, timeout=timeout
    )


def run_and_show(lectures: list[Path], folder: Path, **how) -> int:
    """Execute the lectures, print the ledger, make the pages; returns the exit status. `how`: the options of `run`."""
    status = run(lectures, folder, **how)
    from utils.site.build import build

    try:
        page = build(folder)
    except Exception as error:  # nbconvert can fail in many ways, and none may lose the verdicts
        print(f"the pages could not be made: {type(error).__name__}: {error}")
        return 1
    print(f"pages {short(page)}")
    return status


def _site(args: argparse.Namespace) -> int:
    from utils.site.build import build, executed_copy, notebooks_beside, reason_stale

    lectures = find([], lectures=True)
    others = [path for path in notebooks_beside() if not executed_copy(args.build, path)]
    reason = reason_stale(args.build, lectures)
    if reason:
        print(f"{reason}: the lectures run first, and then the pages are made", file=sys.stderr)
        return run_and_show(lectures, args.build, beside=others, timeout=SHORT_TIMEOUT)
    status = 0
    if others:
        print(f"{', '.join(path.stem for path in others)}: these run first, for their pictures", file=sys.stderr)
        status = run_beside(others, args.build, timeout=SHORT_TIMEOUT)
    print(f"open {build(args.build)}")
    return status


def _publish(args: argparse.Namespace) -> int:
    from utils.site.build import reason_stale
    from utils.site.publish import publish

    reason = reason_stale(args.build, find([], lectures=True))
    if reason:
        raise ValueError(f"{reason}: call `make site` first")
    published = publish(args.build, args.repo)
    files = [path for path in published.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    print(f"{published}: {len(files)} files, {size:.1f} MB; give this folder to any static host")
    return 0


def _figures(args: argparse.Namespace) -> int:
    from utils.site.readme_figures import figures

    figures()
    return 0
