"""The house stays in order: imports run one way, and the package is ours."""

import ast
from pathlib import Path

from helpers.paths import ROOT

import utils

# The order to read them in; a module imports only those above it. utils/course is imported by nothing.
# Pictures are a package of their own (utils/figures), which imports none of these, and which only calculators import.
ORDER = (
    "facts", "published", "napkin", "device", "ranks", "spread", "files", "folders", "data", "workers", "batches", "models",
    "measure", "profiling", "compiling", "rehearsal", "timeline", "peak",
    "config", "metrics", "shards", "checkpoint", "run", "guards", "suspects", "updates", "state", "watch", "refusals",
    "loop", "__main__", "launch", "neighbours", "testbed", "checks", "loop_checks", "planted", "wire", "lab", "colab",
    "answers", "calculators",
)  # fmt: skip


def imported(path: Path) -> set[str]:
    """The modules of utils that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "utils":
            rest = node.module.split(".")[1:]
            names |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.add("(relative)")
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("utils.")}
    return names


def arrows_up(order: list[str], imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    return [
        (module, other)
        for module, others in imports.items()
        for other in others
        if other not in order or order.index(other) >= order.index(module)
    ]


def test_imports_run_downwards_only():
    files = {path.stem: path for path in (ROOT / "utils").glob("*.py") if path.stem != "__init__"}
    assert set(files) == set(ORDER)
    imports = {name: imported(path) for name, path in files.items()}
    assert {name for name, others in imports.items() if "figures" in others} == {"calculators"}
    imports["calculators"].remove("figures")
    assert arrows_up(ORDER, imports) == []


def test_the_walk_sees_an_arrow_that_runs_up(tmp_path):
    bad = tmp_path / "facts.py"
    bad.write_text("def f():\n    from utils.loop import train\n    import utils.course.notebooks.ledger\n")
    assert imported(bad) == {"loop", "course"}
    assert arrows_up(ORDER, {"facts": imported(bad)}) != []


def test_only_figures_imports_matplotlib():
    importing = {p.parent.name for p in (ROOT / "utils").rglob("*.py") if "import matplotlib" in p.read_text()}
    assert importing == {"figures"}


def test_only_calculators_imports_ipywidgets():
    widgets = ("import ipywidgets", "from ipywidgets")
    importing = {p.name for p in (ROOT / "utils").rglob("*.py") if any(word in p.read_text() for word in widgets)}
    assert importing == {"calculators.py"}


def test_figures_import_nothing_but_their_style():
    for path in (ROOT / "utils" / "figures").glob("*.py"):
        assert imported(path) <= {"figures"}, path


def test_utils_is_this_package():
    assert Path(utils.__file__).parent == ROOT / "utils"
