"""What READMEs say that can be counted or looked up, written by `make tidy`: lectures, claims, receipts, modules, versions.

It stands in blocks, each between <!-- NAME: written by make tidy --> and <!-- end of NAME -->; BLOCKS says what of.
"""

import ast
import os
import re
import tomllib
from collections import Counter
from functools import cached_property
from pathlib import Path

from utils.atomic_write import write_bytes
from utils.colab import pins_of
from utils.course import two_cores
from utils.course.notebooks.colab_links import address_of, with_badges
from utils.course.notebooks.length import length
from utils.course.notebooks.notebook import Lecture, is_lecture, label_of, notebooks_in, read
from utils.course.receipts.receipts import receipts
from utils.course.receipts.table import page_block, readme_block
from utils.course.written import BLOCK, LEDGER, MARK
from utils.figures.style import svg
from utils.versions import TESTED, TORCH, pythons

MADE = ("build", "runs")  # folders whose files are not the course's
QUESTION = re.compile(r"\*\*Question:\*\* (.+?)\\?$", re.MULTILINE)  # on the first screen of a second reading


class Course:
    """The course in the folder `root`, each notebook of it read once."""

    def __init__(self, root: Path):
        self.root = root

    @cached_property
    def books(self) -> list[Lecture]:
        """The lectures, and after them the second readings."""
        return [read(path) for path in notebooks_in(self.root / "notebooks") if is_lecture(path)]

    @cached_property
    def solutions(self) -> list[Lecture]:
        return [read(path) for path in notebooks_in(self.root / "solutions") if is_lecture(path)]

    @cached_property
    def ends(self) -> Counter:
        """How many claims become what on two CPU cores."""
        return Counter(two_cores.outcome_of(claim) for book in self.books for claim in book.claims)

    @cached_property
    def evidence(self) -> tuple:
        """What the tables of receipts are made of."""
        return receipts(self.root / "tests" / "receipts"), self.books, self.solutions


def update(root: Path, *, check: bool = False) -> int:
    """Write what has changed, and say so; with `check` only say it. Returns 1 if `check` found a change, else 0."""
    changed = changes(root)
    for path, content in changed.items():
        if not check:
            write_bytes(path, content)
        print(f"{path}: written by make tidy")
    return int(check and bool(changed))


def changes(root: Path) -> dict[Path, bytes]:
    """The READMEs, and the picture of the claims, whose content is not what would be written: with that content."""
    course = Course(root)
    wanted = {path: with_blocks(path, course).encode() for path in readmes(root)}
    wanted[root / LEDGER] = svg(two_cores.picture(course.books))
    return {path: content for path, content in wanted.items() if path.read_bytes() != content}


def readmes(root: Path) -> list[Path]:
    """The READMEs of the course, not those of packages installed into it."""
    found = []
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if name[0] != "." and name not in MADE)
        found += [Path(folder, name) for name in files if name == "README.md"]
    return found


def with_blocks(readme: Path, course: Course) -> str:
    """The text of a README with its blocks written anew. Raises ValueError for a mark that begins no block."""
    text = readme.read_text(encoding="utf-8")
    names = [block[2] for block in BLOCK.finditer(text)]
    if text.count(MARK) != len(names) or not set(names) <= set(BLOCKS):
        raise ValueError(
            f"{readme}: a line <!-- NAME: {MARK} --> needs a line <!-- end of NAME --> after it, and one of these names: "
            f"{', '.join(BLOCKS)}"
        )
    return BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]](course, readme.parent)}\n{block[4]}", text)


# The blocks: each a function of the course and of the README's folder


def lectures(course: Course, folder: Path) -> str:
    rows = ["| | lecture | claims | minutes | its lab | points |", "|---|---|--:|--:|---|--:|"]
    for book in course.books:
        if book.deeper:
            continue
        label = label_of(book.name)
        labs = [lab for lab in course.solutions if lab.name.startswith(f"{label}_")]
        links = " · ".join(f"[{_own_title(lab)}](labs/{lab.path.name})" for lab in labs)
        points = " + ".join(str(sum(cell.raw["metadata"].get("points", 0) for cell in lab.cells)) for lab in labs)
        title = f"[{_own_title(book)}](notebooks/{book.path.name})"
        rows.append(f"| {label} | {title} | {len(book.claims)} | {length(book).rounded_minutes} | {links} | {points} |")
    return with_badges("\n".join(rows), address_of(course.root))


def _own_title(book: Lecture) -> str:
    return book.title.split(" · ", 1)[1]


def second_readings(course: Course, folder: Path) -> str:
    rows = ["| notebook | claims | minutes | what it answers |", "|---|--:|--:|---|"]
    for book in course.books:
        if book.deeper:
            question = QUESTION.search(book.cells[0].source)
            numbers = f"{len(book.claims)} | {length(book).rounded_minutes}"
            rows.append(f"| [{book.title}]({book.path.name}) | {numbers} | {question[1] if question else '–'} |")
    return "\n".join(rows)


def claims(course: Course, folder: Path) -> str:
    ends = course.ends
    verified = ends[two_cores.CLAIM] + ends[two_cores.FOLKLORE]
    return (
        f"Two CPU cores (Linux, a C++ compiler, the downloaded data) verify {verified} of the {ends.total()} claims. "
        f"{ends[two_cores.GPU]} need a GPU and {ends[two_cores.LONG]} the long form, `make run FULL=1`."
    )


def ledger(course: Course, folder: Path) -> str:
    ends = course.ends
    words = (
        f"One bar for each lecture, as long as its number of claims. On two CPU cores {ends[two_cores.CLAIM]} claims are "
        f"verified and {ends[two_cores.FOLKLORE]} false beliefs put right; {ends[two_cores.GPU]} claims need a GPU and "
        f"{ends[two_cores.LONG]} need the long form."
    )
    return f"![{words}]({os.path.relpath(course.root / LEDGER, folder)})"


def modules(course: Course, folder: Path) -> str:
    """The packages and modules of the README's folder, each with the first line of its docstring."""
    packages = sorted({path.parent for path in folder.glob("*/*.py")})
    rows = ["| name | what it is |", "|---|---|"]
    for package in packages:
        name = f"`{package.name}/`"
        if (package / "README.md").exists():
            name = f"[{name}]({package.name}/README.md)"
        inside = " ".join(f"`{name}`" for name in module_names(package))
        rows.append(f"| {name} | {_first_line(package)} {inside} |")
    rows += [f"| `{path.stem}` | {_first_line(path)} |" for path in _files(folder)]
    return "\n".join(rows)


def module_names(folder: Path) -> list[str]:
    """The modules of a package, and with a slash the packages in it."""
    return sorted({f"{path.parent.name}/" for path in folder.glob("*/*.py")}) + [path.stem for path in _files(folder)]


def _files(package: Path) -> list[Path]:
    return sorted(path for path in package.glob("*.py") if path.name != "__init__.py")


def _first_line(path: Path) -> str:
    """Of the docstring of a module or of a package; of a package without one, of its first module."""
    if path.is_dir():
        path = path / "__init__.py" if (path / "__init__.py").exists() else _files(path)[0]
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "–"
    return words.splitlines()[0].replace("|", r"\|")


def layers(course: Course, folder: Path) -> str:
    """Who imports whom, as pyproject.toml orders it."""
    (contract,) = tomllib.loads((course.root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return "\n".join(["```text", *(layer.replace(" |", ",") for layer in contract["layers"]), "```"])


def versions(course: Course, folder: Path) -> str:
    pinned = pins_of((course.root / "requirements.txt").read_text(encoding="utf-8"))["torch"]
    return (
        f"Tested with Python {' to '.join(pythons())} and with torch {', '.join(TESTED[:-1])} and {TESTED[-1]}; "
        f"`requirements.txt` pins {pinned}."
    )


def other_versions(course: Course, folder: Path) -> str:
    """What is red with which version of torch."""
    lines = []
    for version in (version for version in TORCH if version not in TESTED):
        red = [claim for own in TORCH[version].values() for claim in own or ()]
        stuck = [f"`{name}`" for name, own in TORCH[version].items() if own is None]
        parts = [f"the proofs of {', '.join(red)} are red"] * bool(red)
        parts += [f"{', '.join(stuck)} cannot run"] * bool(stuck)
        lines.append(f"- With torch {version} {', and '.join(parts)}.")
    return "\n".join(lines)


BLOCKS = {
    "lectures": lectures,
    "second readings": second_readings,
    "claims": claims,
    "ledger": ledger,
    "receipts": lambda course, folder: readme_block(*course.evidence),
    "receipts by lecture": lambda course, folder: page_block(*course.evidence),
    "modules": modules,
    "layers": layers,
    "versions": versions,
    "other versions": other_versions,
}
