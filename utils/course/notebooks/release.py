"""Make labs/ from solutions/: the same notebooks without their solutions and hidden checks."""

from pathlib import Path

from utils.atomic_write import write_bytes
from utils.course.notebooks.lab import starter
from utils.course.notebooks.notebook import load
from utils.course.notebooks.tidy import as_bytes


def release(solutions: Path, labs: Path, *, check: bool = False) -> int:
    """Write the starter of each notebook in `solutions` to `labs` and report the changed ones; with `check` only report.

    Nothing is written if any solution is unfit. Returns 1 if `check` found a difference, or `labs` holds a notebook that no
    solution makes (it is left alone); else 0. Raises ValueError, naming file and cell, for an unfit solution.
    """
    made = {path.name: as_bytes(_starter(path)) for path in sorted(solutions.glob("*.ipynb"))}
    changed = [name for name, text in made.items() if not _holds(labs / name, text)]
    for name in changed:
        if not check:
            labs.mkdir(exist_ok=True)
            write_bytes(labs / name, made[name])
        print(f"{labs / name}: {'differs from what its solution makes' if check else 'made'}")
    strays = sorted(path for path in labs.glob("*.ipynb") if path.name not in made)
    for path in strays:
        print(f"{path}: no solution makes it; remove it, or give it one")
    return 1 if strays or (check and changed) else 0


def _starter(path: Path) -> dict:
    try:
        return starter(load(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _holds(path: Path, text: bytes) -> bool:
    return path.is_file() and path.read_bytes() == text
