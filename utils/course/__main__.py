"""The command line that runs, checks, grades and publishes the course."""

import argparse
import sys

from utils.course import affected
from utils.grader import command as grade_command


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv`. Returns 0 for success, 1 for a failure, 2 for a wrong call."""
    argv = sys.argv[1:] if argv is None else argv
    args = parser(argv).parse_args(argv)
    try:
        return args.command(args)
    except ValueError as error:
        print(f"utils.course: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("utils.course: interrupted; what was written so far stays", file=sys.stderr)
        return 130


def parser(argv: list[str]) -> argparse.ArgumentParser:
    """The parser of `argv`: of every command, or of the quick `grade` and `affected` alone if it begins with one of them."""
    whole = argparse.ArgumentParser(prog="python -m utils.course", description=__doc__)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    grade_command.add_to(commands)
    affected.add_to(commands)
    if argv[:1] not in (["grade"], ["affected"]):
        from utils.course import commands as course_commands  # torch, papermill: seconds that these need not wait
        from utils.site import commands as site_commands

        site_commands.add_to(commands)
        course_commands.add_to(commands)
    return whole


if __name__ == "__main__":
    sys.exit(main())
