"""Hash a receipt's verdicts anew, by today's rule over the code that ran, as git has it.

For when the rule changes by which a verdict is fresh or stale: the receipt names the commit whose code it ran, so nothing
has to run again. What the code of today computes plays no part in it.
"""

import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import CalledProcessError, run

from utils.course.notebooks.notebook import notebooks_in, read
from utils.course.receipts.provenance import CODE, book_hash, code_of, hashes_of
from utils.course.receipts.reach import Library
from utils.course.receipts.receipts import Receipt


def rehashed(receipt: Receipt, root: Path) -> Receipt:
    """The receipt with hashes of the code of each run's commit, which the run then names as its "rehash".

    Raises ValueError for a run whose code is in no commit of the repository at `root`.
    """
    lectures, solutions = dict(receipt.lectures), dict(receipt.solutions)
    for commit in dict.fromkeys(each["commit"] for each in receipt.runs):
        of_commit = [each for each in receipt.runs if each["commit"] == commit]
        with _tree(commit, root) as folder:
            if any(each["code"] != code_of(folder) for each in of_commit):
                raise ValueError(
                    f"{receipt.path}: its run's code is not that of commit {commit}: run it again on its GPU"
                )
            library = Library(folder)
            for entries, place in ((lectures, "notebooks"), (solutions, "solutions")):
                for path in notebooks_in(folder / place):
                    entry = entries.get(path.stem)
                    if entry and receipt.run_of(entry)["commit"] == commit:
                        entries[path.stem] = _rehashed_entry(entry, path, library)
    runs = tuple(each | {"rehash": each["commit"]} for each in receipt.runs)
    return replace(receipt, runs=runs, lectures=lectures, solutions=solutions)


def _rehashed_entry(entry: dict, path: Path, library: Library) -> dict:
    book = read(path)
    kept = {key: value for key, value in entry.items() if key not in ("code", "modules")}
    entry = kept | {"computes": book_hash(book, library)}
    if "claims" in entry:
        hashes = hashes_of(book, library)
        entry["claims"] = [row | hashes[row["number"]] for row in entry["claims"]]  # its number in that commit
    return entry


@contextmanager
def _tree(commit: str | None, root: Path) -> Iterator[Path]:
    """A folder with the code of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            packed = run(["git", "-C", root, "archive", str(commit), *CODE], capture_output=True, check=True).stdout
        except CalledProcessError as error:
            raise ValueError(f"no commit {commit} in {root}: {error.stderr.decode().strip()}") from error
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)
