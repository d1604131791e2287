"""The course's own commands: `python -m utils.course run` and `python -m utils.course tidy`."""

import argparse
import sys
from pathlib import Path

from utils.course.run import ROOT, run
from utils.course.tidy import tidy

SHORT_TIMEOUT, FULL_TIMEOUT = 900, 7200


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv`. Returns 0 if all is well, 1 if something is red, 2 for a wrong call."""
    args = _parser().parse_args(argv)
    try:
        return args.command(args)
    except ValueError as error:
        print(f"utils.course: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("utils.course: interrupted, no ledger written", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m utils.course", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("run", help="execute the lectures and print the ledger")
    command.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: all of notebooks/")
    command.add_argument("--full", action="store_true", help="the long form: all seeds, all epochs")
    command.add_argument("--jobs", type=_count, default=2, help="lectures at a time (default 2)")
    command.add_argument(
        "--timeout", type=_count, help=f"seconds a cell may take ({SHORT_TIMEOUT}, long form {FULL_TIMEOUT})"
    )
    command.add_argument(
        "--build", type=Path, default=ROOT / "build", help="where everything is written (default build/)"
    )
    command.set_defaults(command=_run)

    command = commands.add_parser("tidy", help="notebooks as they are stored: no outputs, readable ids, one format")
    command.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="notebooks or folders, default: notebooks/"
    )
    command.add_argument(
        "--check", action="store_true", help="only say what would change; exit status 1 if anything would"
    )
    command.set_defaults(command=lambda args: tidy(find(args.paths), check=args.check))
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _run(args: argparse.Namespace) -> int:
    timeout = args.timeout or (FULL_TIMEOUT if args.full else SHORT_TIMEOUT)
    return run(find(args.notebooks), args.build, full=args.full, jobs=args.jobs, timeout=timeout)


def find(paths: list[Path]) -> list[Path]:
    """The notebooks that `paths` (files or folders; none means notebooks/) name, in order, each once.

    Raises ValueError for a path that is not there, and where the names leave nothing or clash.
    """
    found: dict[Path, Path] = {}
    for path in paths or [ROOT / "notebooks"]:
        if path.is_dir():
            found |= {book.resolve(): book for book in sorted(path.glob("*.ipynb"))}
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
