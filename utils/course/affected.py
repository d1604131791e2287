"""`make affected`: the tests and notebooks that a change reaches, nearest first, until one is red.

A file is reached if it imports a changed module, itself or through others, or if a string in it names a changed file.
What `make tidy` alone has written is left to the test of tidy.
Who imports whom in `utils` is grimp's to say; imports and strings of tests and notebooks are read from their source.
"""

import argparse
import ast
import contextlib
import heapq
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from utils.course import ROOT, written
from utils.course.notebooks.notebook import NUMBERED, load, text_of

PACKAGE = "utils"
RUN = ("notebooks", "solutions")  # folders of notebooks that must run from top to bottom; starters in labs/ need not
BATCH = 8  # test files that are collected together: the first of them run within seconds
QUICK, SLOW = (f"{kind} and not browser and not nightly" for kind in ("not slow", "slow"))
FOLDERS = {  # the tests that hold each notebook of a folder to its rules
    "notebooks": (
        "tests/course/test_notebooks.py",
        "tests/course/test_program.py",
        "tests/course/test_turns_of_lectures.py",
    ),
    "solutions": ("tests/labs/test_lab_rules.py", "tests/labs/test_release.py"),
    "labs": ("tests/labs/test_release.py",),
}
OF_TIDY = "tests/test_readmes.py"  # asks that all that `make tidy` writes is as it would write it
NO_TESTS = 5  # pytest's exit status


@dataclass(frozen=True)
class Plan:
    """What to run, in order. Paths are relative to the root, with slashes."""

    reasons: dict[str, dict[str, int]]  # changed file -> the test files and notebooks that it reaches, and how far off
    first: list[str]  # tests that have changed, or that hold each notebook of a changed one's folder to its rules
    tests: list[str]  # the others, nearest first
    changed_notebooks: list[str]
    using_notebooks: list[str]  # that import a changed module themselves, smallest first
    in_a_browser: list[str]
    cases: dict[str, set[str]]  # test file -> the notebooks whose cases alone it is to run

    def lines(self) -> Iterator[str]:
        """What was chosen for each changed file."""
        for path, reached in self.reasons.items():
            tests = sum(is_test(other) and not in_a_browser(other) for other in reached)
            books = [other for other in reached if is_run(other) and other != path]
            far = len([other for other in books if other not in self.using_notebooks])
            yield (
                f"{path}: {counted(tests, 'test file')}, {counted(len(books) - far, 'notebook')}"
                + f" ({far} more import it only through other modules: make check)" * bool(far)
            )
        if self.in_a_browser:
            yield f"Not run here, but by make test-browser: {', '.join(self.in_a_browser)}"


def add_to(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser("affected", help="run the tests and notebooks that a change reaches, nearest first")
    command.add_argument("--base", default="HEAD", help="the change is what differs from here (default HEAD)")
    command.add_argument("--list", action="store_true", help="only say what would run, in this order")
    command.set_defaults(command=_affected)


def _affected(args: argparse.Namespace) -> int:
    if not (changed := changes(ROOT, args.base)):
        print(f"Nothing differs from {args.base}, so nothing is to be tested.")
        return 0
    chosen = plan(ROOT, changed, args.base)
    print(*chosen.lines(), sep="\n", flush=True)
    if args.list:
        paths = (*chosen.first, *chosen.changed_notebooks, *chosen.tests, *chosen.using_notebooks)
        print(*paths, sep="\n")
        return 0
    return run(chosen)


def changes(root: Path, base: str = "HEAD") -> list[str]:
    """The files that differ from where this branch left `base`, deleted and new ones too. ValueError, in git's words."""
    names: set[str] = set()
    for command in (
        ["diff", "--name-only", "--no-renames", "-z", "--merge-base", base],
        ["ls-files", "--others", "--exclude-standard", "-z"],
    ):
        done = _git(root, *command)
        if done.returncode:
            raise ValueError(f"cannot tell what has changed since {base!r}: {done.stderr.strip()}")
        names |= {name for name in done.stdout.split("\0") if name}
    return sorted(names)


def written_by_tidy(root: Path, changed: list[str], base: str = "HEAD") -> set[str]:
    """The changed files in which nobody but `make tidy` has written."""
    readmes = [path for path in changed if Path(path).name == "README.md" and (root / path).exists()]
    left = _git(root, "merge-base", base, "HEAD").stdout.strip() if readmes else ""
    before = {path: _git(root, "show", f"{left}:{path}").stdout for path in readmes}
    same = {
        path
        for path, text in before.items()
        if written.by_hand(text) == written.by_hand((root / path).read_text(encoding="utf-8"))
    }
    return same | {path for path in changed if written.is_whole(path)}


def _git(root: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, encoding="utf-8")


def plan(root: Path, changed: list[str], base: str = "HEAD") -> Plan:
    """What the changed files reach; `base` as in changes."""
    readers = readers_of(root, changed, written_by_tidy(root, changed, base))
    all_reached = {path: distances(path, readers) for path in changed}
    nearest: dict[str, int] = {}
    for reached in all_reached.values():
        for path, distance in reached.items():
            if (root / path).exists():
                nearest[path] = min(distance, nearest.get(path, distance))
    reasons = {
        path: {other: distance for other, distance in reached.items() if is_test(other) or is_run(other)}
        for path, reached in all_reached.items()
    }
    own = tuple(f"test_{Path(path).stem.lower()}" for path in changed)
    reads = Counter(reader for them in readers.values() for reader in them)  # the fewer files, the more about this one
    tests = sorted(
        filter(is_test, nearest),
        key=lambda path: (nearest[path], not Path(path).stem.startswith(own), reads[path], path),
    )
    whole = {test for path, reached in reasons.items() if not case_of(path, root) for test in reached}
    by_case = [test for test in tests if test not in whole]
    cases = {test: {case_of(path, root) for path in changed if test in reasons[path]} for test in by_case}
    books = sorted(filter(is_run, nearest), key=lambda path: (root / path).stat().st_size)
    return Plan(
        reasons,
        [test for test in tests if not in_a_browser(test) and nearest[test] == 0],
        [test for test in tests if not in_a_browser(test) and nearest[test] > 0],
        [book for book in books if nearest[book] == 0],
        [book for book in books if nearest[book] == 1],
        [test for test in tests if in_a_browser(test)],
        cases,
    )


def run(chosen: Plan) -> int:
    """Run it, quick tests before slow ones, and stop at the first red one. Returns pytest's exit status."""
    import pytest  # here: the command line need not wait for it

    calls = [
        *((["-m", QUICK], batch) for batch in batches(chosen.first)),
        (["--nbmake"], chosen.changed_notebooks),
        *((["-m", QUICK], batch) for batch in batches(chosen.tests)),
        *((["-m", SLOW], batch) for batch in batches(chosen.first + chosen.tests)),
        (["--nbmake"], chosen.using_notebooks),
    ]
    only = OnlyCases(chosen.cases, ROOT, numbered(ROOT))
    for options, paths in calls:
        if not paths:
            continue
        status = pytest.main(["-x", "-q", "--no-header", *options, *(str(ROOT / path) for path in paths)], [only])
        if status not in (0, NO_TESTS):
            return int(status)
    return 0


def batches(paths: list[str]) -> list[list[str]]:
    return [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]


@dataclass(frozen=True)
class OnlyCases:
    """A plugin of pytest's: a test file that only reads changed notebooks runs none of the cases of other ones."""

    cases: dict[str, set[str]]  # as in a Plan
    root: Path
    known: set[str]  # the notebooks that tests have cases for

    def pytest_collection_modifyitems(self, config, items):
        out = [item for item in items if self._is_of_another(item)]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]

    def _is_of_another(self, item) -> bool:
        mine = self.cases.get(item.path.relative_to(self.root).as_posix(), self.known)
        return any(case in item.name for case in self.known - mine)


# The graph: of each file, who reads it, and how far off that is


def readers_of(root: Path, changed: list[str], by_tidy: Set[str] = frozenset()) -> dict[str, dict[str, int]]:
    """file -> {file that imports or names it: 0, 1 or 2}. Files of `changed` that are no longer there can be imported too.

    0: the face of a package, its __init__, shows what stands in a module, or a test holds the rules of a notebook's folder;
    1: imported, or named; 2: its folder is named. Those of `by_tidy` are read by the test of tidy alone.
    """
    graph = _Graph(root, changed, by_tidy)
    graph.read_package()
    graph.read_tests()
    graph.read_notebooks()
    graph.add_what_no_import_tells()
    return graph.readers


class _Graph:
    """Who reads what, as far as it has been read."""

    def __init__(self, root: Path, changed: list[str], by_tidy: Set[str]):
        self.root, self.changed, self.by_tidy = root, changed, by_tidy
        self.readers: dict[str, dict[str, int]] = defaultdict(dict)
        places = (root / PACKAGE, root / "tests")
        self.sources = {path.relative_to(root).as_posix() for place in places for path in place.rglob("*.py")}
        self.gone = {path for path in changed if path.endswith(".py") and path not in self.sources}
        self.modules = {dotted(path): path for path in self.sources | self.gone}
        self.shown = self._shown_by_packages()

    def link(self, path: str | None, reader: str, distance: int) -> None:
        if path and path != reader:
            self.readers[path][reader] = min(distance, self.readers[path].get(reader, distance))

    def read_package(self) -> None:
        import grimp  # here: a machine that makes receipts has none

        graph = grimp.build_graph(PACKAGE, cache_dir=None)
        for importer in graph.modules:
            for imported in graph.find_modules_directly_imported_by(importer):
                face = self.modules[importer].endswith("/__init__.py") and imported.startswith(f"{importer}.")
                self.link(self.modules[imported], self.modules[importer], 0 if face else 1)
        if self.gone:  # which grimp does not know
            for reader in filter(is_module, self.sources):
                for name in names_and_words(self._parsed(reader))[0]:
                    if (path := self.file_of(name)) in self.gone:
                        self.link(path, reader, 1)

    def read_tests(self) -> None:
        by_name = [path for path in self.changed if not (is_test(path) or is_lab(path) or path in self.by_tidy)]
        for reader in self.sources:
            if is_module(reader):
                continue
            names, in_strings, words = names_and_words(self._parsed(reader))
            for name in names | in_strings:
                self.link(self.file_of(name, near=Path(reader).parent), reader, 1)
            for path in by_name:
                if distance := _distance_by_name(path, words):
                    self.link(path, reader, distance)

    def read_notebooks(self) -> None:
        for path in (path for folder in RUN for path in (self.root / folder).rglob("*.ipynb")):
            code = (text_of(cell["source"]) for cell in load(path)["cells"] if cell["cell_type"] == "code")
            for name in names_and_words(parsed(source for source in code if "import " in source))[0]:
                self.link(self.file_of(name), path.relative_to(self.root).as_posix(), 1)

    def add_what_no_import_tells(self) -> None:
        for path in self.changed:
            readers, distance = [], 1
            if path in self.by_tidy:
                readers = [OF_TIDY]
            elif path.endswith(".ipynb"):
                readers, distance = FOLDERS.get(top(path), ()), 0
            elif is_lab(path):
                readers = ["tests/labs/test_variants.py"]
            elif Path(path).name == "conftest.py":
                readers = [reader for reader in self.sources if is_test(reader) and _is_below(reader, path)]
            elif path.endswith("/__init__.py") or (top(path) == PACKAGE and Path(path).suffix not in (".py", ".md")):
                readers = self._package_of(path)
            for reader in self.sources.intersection(readers):
                self.link(path, reader, distance)

    def file_of(self, name: str, near: Path | None = None) -> str | None:
        """The file of the module in which the thing `name` stands; `near` is a test's folder, whose files it imports."""
        prefixes = [f"{'.'.join(near.parts)}.", "tests.", ""] if near else [""]
        while name:
            for prefix in prefixes:
                if path := self.shown.get(prefix + name) or self.modules.get(prefix + name):
                    return path
            name = name.rpartition(".")[0]
        return None

    def _shown_by_packages(self) -> dict[str, str]:
        """utils.data.spiral -> utils/data/datasets.py, and so on: what each __init__ shows."""
        shown = {}
        for path in self.sources:
            for node in self._parsed(path).body if path.endswith("/__init__.py") else ():
                if isinstance(node, ast.ImportFrom) and node.module in self.modules:
                    file = self.modules[node.module]
                    shown |= {f"{dotted(path)}.{alias.asname or alias.name}": file for alias in node.names}
        return shown

    def _package_of(self, path: str) -> list[str]:
        """The modules of the nearest package above a file that is its __init__, or no module."""
        inits = (folder / "__init__.py" for folder in Path(path).parents)
        init = next((init.as_posix() for init in inits if init.as_posix() in self.sources), path)
        return [reader for reader in self.sources if _is_below(reader, init)]

    def _parsed(self, path: str) -> ast.Module:
        return parsed([(self.root / path).read_text(encoding="utf-8")])


def distances(start: str, readers: dict[str, dict[str, int]]) -> dict[str, int]:
    """Every file that `start` reaches, itself too, and the length of the shortest way there."""
    nearest: dict[str, int] = {}
    waiting = [(0, start)]
    while waiting:
        distance, path = heapq.heappop(waiting)
        if path not in nearest:
            nearest[path] = distance
            for reader, step in readers.get(path, {}).items():
                heapq.heappush(waiting, (distance + step, reader))
    return nearest


def names_and_words(tree: ast.Module) -> tuple[set[str], set[str], set[str]]:
    """Of a file: what it imports, as a.b.c; what code and command lines in its strings import; the words in its strings."""
    names, strings, docstrings = set(), [], set()
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node)
    texts = {node.value for node in strings if node not in docstrings}
    in_strings, module_name = set(), rf"({PACKAGE}(?:\.\w+)*)"
    for text in texts:
        if PACKAGE in text:
            for package, name, module in re.findall(rf"\bfrom {module_name} import (\w+)|\bimport {module_name}", text):
                in_strings.add(f"{package}.{name}" if package else module)
            commands = re.findall(rf"-m ({PACKAGE}[\w.]*)", text) or [text] * ("-m" in texts)
            in_strings |= {f"{command}.__main__" for command in commands if command.split(".")[0] == PACKAGE}
    return names, in_strings, {word for text in texts for word in re.split(r"[\s/'\"]+", text)}


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """As ast.walk, in a third of its time: in no order, and without the marks for loading and storing."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                waiting.append(value)


def _distance_by_name(path: str, words: set[str]) -> int:
    """1 where the words have the file, 2 where they have the folder of a file that is no module, 0 else."""
    place = Path(path)
    if place.name in words or ("_" in place.stem and place.stem in words and not is_module(path)):
        return 1
    folders = set() if is_module(path) else {place.parent.name, top(path)} - {"", PACKAGE, "tests", place.name}
    return 2 if folders & words else 0


def _is_below(path: str, file: str) -> bool:
    """Whether it lies in the folder of that file, or in one below."""
    return Path(file).parent in Path(path).parents


def parsed(sources: Iterable[str]) -> ast.Module:
    """The statements of all sources that are plain Python: what is wrong with the others their tests say."""
    body = []
    for source in sources:
        with contextlib.suppress(SyntaxError):
            body += ast.parse(source).body
    return ast.Module(body, [])


# Names


def dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def top(path: str) -> str:
    return path.partition("/")[0]


def is_test(path: str) -> bool:
    return top(path) == "tests" and Path(path).name.startswith("test_") and path.endswith(".py")


def in_a_browser(path: str) -> bool:
    return path.startswith("tests/browser/")


def is_module(path: str) -> bool:
    return top(path) == PACKAGE and path.endswith(".py")


def is_lab(path: str) -> bool:
    """Whether it is one lab's list of wrong and right answers, which tests/labs/test_variants.py reads."""
    return path.startswith("tests/labs/lab_")


def is_run(path: str) -> bool:
    return path.endswith(".ipynb") and top(path) in RUN


def numbered(root: Path) -> set[str]:
    """The names by which tests tell their cases: those of lectures, second readings and labs."""
    books = (path.stem for folder in RUN for path in (root / folder).rglob("*.ipynb"))
    return {name for name in books if NUMBERED.match(name)}


def case_of(path: str, root: Path) -> str:
    """The notebook's name that the cases for this file bear; "" for a file without cases of its own."""
    if is_lab(path):
        number = Path(path).stem.removeprefix("lab_")
        return next((book.stem for book in (root / "solutions").glob(f"{number}_*.ipynb")), "")
    has_cases = path.endswith(".ipynb") and NUMBERED.match(Path(path).stem) and (root / path).exists()
    return Path(path).stem if has_cases else ""


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
