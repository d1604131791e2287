"""The command line that runs, checks, grades and publishes the course."""

import argparse
import sys

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
    """The parser of `argv`, with every command, but for `grade` alone where that is asked for."""
    whole = argparse.ArgumentParser(prog="python -m utils.course", description=__doc__)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    grade_command.add_to(commands)
    if argv[:1] != ["grade"]:
        from utils.course import commands as course_commands  # torch, papermill: seconds that a grader need not wait
        from utils.site import commands as site_commands

        site_commands.add_to(commands)
        course_commands.add_to(commands)
    return whole


if __name__ == "__main__":
    sys.exit(main())
