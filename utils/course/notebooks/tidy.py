"""Notebooks as they are stored: no outputs, no counts, readable stable ids, one byte-for-byte format."""

import json
import re
from pathlib import Path

from utils.atomic_write import write_bytes
from utils.course import ROOT
from utils.course.notebooks import program
from utils.course.notebooks.length import with_minutes
from utils.course.notebooks.navigation import CELL, with_navigation
from utils.course.notebooks.notebook import (
    CLAIM,
    COLAB,
    FOLD,
    LONGEST,
    callout,
    in_order,
    load,
    notebooks_in,
    readable,
    text_of,
)
from utils.course.notebooks.numbering import all_changes, mended, mended_ids, numbered, with_mended
from utils.course.notebooks.task_numbers import with_tasks_numbered

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PROOF = re.compile(r"proof-(\d+|C)-\d+(-\d+)?")
KEPT = (
    "builds_on", "difficulty", "goals", "host", "importance", "minutes", "name", "needs", "points", "tags",
)  # of a cell's metadata  # fmt: skip
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}  # in Colab, in Jupyter
SET_UP = "setup"  # folded in a lecture and in a starter
POINTS, CHECKS = "points-so-far", "checks"  # only a starter has them, folded too
NAME_CLAIMS = ("README.md", "tests/strength/equivalent.toml", "utils/versions.py")  # texts that name claims by number
OURS = re.compile(r"^@ours\b", re.MULTILINE)  # before our answer to a turn, in a cell that is folded
CHECK = "check-"  # how the id of a check begins; in a starter it is one line, in sight


def tidy(paths: list[Path], *, check: bool = False, root: Path = ROOT) -> int:
    """Rewrite each notebook in its stored form and report the changes; with `check` only report them.

    Where a claim's number changes, every text of the course in `root` that names it is mended. Returns 1 if `check` found
    something to change, or a file is not a notebook (it is left alone); else 0.
    """
    status, books = 0, []
    for path in paths:
        try:
            load(path)
            books.append(path)
        except ValueError as error:
            print(f"left alone: {error}")
            status = 1
    renumbered = all_changes(books)
    for path in books:
        changes = changes_of(path, renumbered)
        if changes and check:
            status = 1
        elif changes:
            write_bytes(path, as_bytes(stored(path, renumbered)))
        for change in changes:
            print(f"{path}: {change}")
    if renumbered and not check:
        _mend_the_others(books, renumbered, root)
    try:
        for folder in dict.fromkeys(path.resolve().parent for path in books if program.may_hold(path)):
            status |= int(_write_program(folder, check=check) and check)
    except ValueError as error:
        print(f"the program is not handed on: {error}")
        status = 1
    return status


def _write_program(folder: Path, *, check: bool) -> bool:
    """Hand each stage of the program on: to the notebooks after the one that ends with it, and to its file.

    Returns whether anything changes; with `check` nothing is written.
    """
    changes = program.changed_files(folder)
    for path in in_order(folder):
        before = load(path)
        after = program.with_beginning(before, path)
        if program.text_with(program.BEGIN, after) != program.text_with(program.BEGIN, before):
            changes[path] = as_bytes(after)
    for path, content in changes.items():
        print(f"{path}: {'the program as it stands there written' if content else 'no notebook ends with it: removed'}")
        if check:
            continue
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(exist_ok=True)
            write_bytes(path, content)
    return bool(changes)


def _mend_the_others(books: list[Path], renumbered: dict[str, str], root: Path) -> None:
    """Write the new numbers of claims wherever the course in `root` names them, but in `books`."""
    done = {path.resolve() for path in books}
    if not any(path.is_relative_to(root.resolve()) for path in done):
        return  # a notebook from elsewhere
    for path in [*notebooks_in(root / "notebooks"), *notebooks_in(root / "solutions")]:
        if path.resolve() not in done:
            before = path.read_bytes()
            after = as_bytes(stored(path, renumbered))
            if after != before:
                write_bytes(path, after)
                print(f"{path}: the new numbers of claims written")
    for path in (root / name for name in NAME_CLAIMS):
        before = path.read_text(encoding="utf-8")
        after = mended_ids(mended(before, renumbered), renumbered)
        if after != before:
            write_bytes(path, after.encode())
            print(f"{path}: the new numbers of claims written")


def changes_of(path: Path, renumbered: dict[str, str] | None = None) -> list[str]:
    """What tidy would change in the file, in words. Raises ValueError if it is not a notebook."""
    before, after = load(path), stored(path, renumbered)
    if len(before["cells"]) != len(after["cells"]):
        return ["the links to other notebooks, in the last cell, written"]
    changes = []
    for index, (old, new) in enumerate(zip(before["cells"], after["cells"], strict=True)):
        if old.get("id") != new["id"]:
            changes.append(f"cell {index}: id {old.get('id')!r} becomes {new['id']!r}")
        if old.get("outputs") or old.get("execution_count") is not None:
            changes.append(f"cell {new['id']}: outputs and count removed")
        if text_of(old["source"]) != text_of(new["source"]):
            claim = (
                CLAIM.match(text_of(new["source"]))
                and "the claim numbered and set apart, as a quotation after its sign"
            )
            begins = program.BEGIN in new["metadata"].get("tags", []) and "the program as it stands there written"
            rest = begins or ("minutes written" if index == 0 else "new numbers written")
            what = "links written" if new["id"] == CELL else claim or rest
            changes.append(f"cell {new['id']}: {what}")
        if old.get("metadata", {}).get("name") != (name := new["metadata"].get("name")):
            changes.append(f"cell {new['id']}: the claim is called {name!r}")
        extra = sorted(set(old.get("metadata", {})) - set(new["metadata"]))
        if extra:
            changes.append(f"cell {new['id']}: {', '.join(extra)} removed")
    if before.get("metadata") != after["metadata"]:
        changes.append("the notebook's metadata brought back to kernelspec and language_info")
    if before.get("nbformat_minor") != after["nbformat_minor"]:
        changes.append(f"format 4.{before.get('nbformat_minor')} becomes 4.{after['nbformat_minor']}")
    if not changes and path.read_bytes() != as_bytes(after):
        changes.append(
            "written in the one format (indent 1, sorted keys, sources as lists of lines, newline at the end)"
        )
    return changes


def stored(path: Path, renumbered: dict[str, str] | None = None) -> dict:
    """The JSON of the notebook in the file `path` in its stored form, with its minutes and its links to other notebooks.

    `renumbered`: the claims of all notebooks whose numbers change, old → new; None for those of this notebook alone.
    """
    book, own = numbered(load(path), path)
    mended_book = with_mended(program.with_beginning(book, path), own if renumbered is None else renumbered)
    return with_minutes(tidied(with_navigation(mended_book, path)), path)


def tidied(book: dict) -> dict:
    """A copy of the notebook's JSON in its stored form, with the same cells in the same order."""
    ids = _ids(book["cells"])
    cells = with_tasks_numbered([_cell(cell, name) for cell, name in zip(book["cells"], ids, strict=True)])
    lecture, starter = any(CLAIM.match(text_of(cell["source"])) for cell in book["cells"]), POINTS in ids
    for cell in cells:
        name = cell["id"]
        of_starter = starter and name in (POINTS, CHECKS)
        set_up = name == COLAB or of_starter or (name == SET_UP and (lecture or starter))
        if set_up or FOLD in cell["metadata"].get("tags", []) or _is_ours(cell):
            cell["metadata"] |= FOLDED
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _is_ours(cell: dict) -> bool:
    """Whether it holds our answer to a turn."""
    return cell["cell_type"] == "code" and OURS.search(text_of(cell["source"])) is not None


def as_bytes(book: dict) -> bytes:
    """The bytes of the notebook's file, in nbformat's own layout."""
    return (json.dumps(book, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _cell(cell: dict, name: str) -> dict:
    metadata, source = cell.get("metadata", {}), text_of(cell["source"])
    if cell["cell_type"] == "markdown" and CLAIM.match(source):
        source = callout(source)
    stored = {
        "cell_type": cell["cell_type"],
        "id": name,
        "metadata": {key: metadata[key] for key in KEPT if metadata.get(key)},
        "source": source.splitlines(keepends=True),
    }
    if "attachments" in cell:  # a picture pasted into prose is content
        stored["attachments"] = cell["attachments"]
    return stored | ({"execution_count": None, "outputs": []} if cell["cell_type"] == "code" else {})


def _ids(cells: list[dict]) -> list[str]:
    """One id per cell: claims and proofs by number; other readable ids stay; the rest come from the cell's first words."""
    wanted: list[tuple[str, bool]] = []  # (id, whether the claim's number fixes it)
    number = None
    for cell in cells:
        source, name = text_of(cell["source"]), cell.get("id", "")
        claim = CLAIM.match(source) if cell["cell_type"] == "markdown" else None
        claim = claim if claim and claim[2] else None  # without a number it is numbered later, see numbering
        if claim:
            wanted.append((f"claim-{claim[2]}-{claim[3]}", True))
        elif number and cell["cell_type"] == "code" and (PROOF.fullmatch(name) or not readable(name)):
            wanted.append((f"proof-{number}", True))
        else:  # includes a helper cell between a claim and its proof, which the linter reports
            wanted.append((name if readable(name) else _from_words(source, cell), False))
        number = f"{claim[2]}-{claim[3]}" if claim else None
    fixed = {name for name, by_number in wanted if by_number}
    taken: set[str] = set()
    ids = []
    for name, by_number in wanted:
        own = _unused(name, taken if by_number else taken | fixed)
        taken.add(own)
        ids.append(own)
    return ids


def _from_words(source: str, cell: dict) -> str:
    """An id from the first words of a cell."""
    if "parameters" in cell.get("metadata", {}).get("tags", []):
        return "parameters"
    if source.startswith("# Colab opens a notebook alone"):
        return COLAB
    words = re.findall(r"[a-z0-9]+", source.lower())[:5]
    name = "-".join(words)[: LONGEST - 8].strip("-")
    return name if readable(name) and re.search("[a-z]{2}", name) else f"{cell['cell_type']}-cell"


def _unused(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(other for n in range(2, len(taken) + 3) if (other := f"{name[: LONGEST - 5]}-{n}") not in taken)
