"""Pairs of submissions whose code is similar beyond the starter: for a person to review, never a verdict.

Each statement of a task's code is taken without its names, comments and docstrings, and wherever it stands. What the starter
has too counts nothing, nor does what many of the class wrote.
"""

import ast
import hashlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

from utils.course.notebooks.lab import Lab, Task
from utils.grader.submission import AGAIN, python_of

ALIKE = 0.6  # of the weight that either has
SMALLEST = 30  # fewest nodes of code beyond the starter for a submission to be compared
LONGEST = 100_000  # characters of code that are compared: parsing takes 600 times as much memory
COMMON = 0.3  # a statement that a larger share of the class wrote says nothing


@dataclass(frozen=True)
class Pair:
    """Two students; share: of the weight of both their statements, that of those that both have; tasks: where they are."""

    first: str
    second: str
    share: float
    tasks: tuple[str, ...]


def similar_pairs(lab: Lab, codes: dict[str, dict[str, str]]) -> list[Pair]:
    """The pairs of `codes` (student -> task -> source) that are similar, the most similar first."""
    given = set().union(*(statements(task.starter) for task in lab.tasks))
    written: dict[str, dict[str, tuple[int, str]]] = {}
    for student, by_task in codes.items():
        own = {
            mark: (size, task)
            for task, source in by_task.items()
            for mark, size in statements(source).items()
            if mark not in given
        }
        if sum(size for size, _ in own.values()) >= SMALLEST:
            written[student] = own
    who = defaultdict(set)
    for student, own in written.items():
        for mark in own:
            who[mark].add(student)
    rare = {mark for mark, students in who.items() if len(students) <= max(3, COMMON * len(written))}
    met = {pair for mark in rare for pair in combinations(sorted(who[mark]), 2)}
    pairs = [_pair(first, second, written, rare) for first, second in met]
    return sorted(
        (pair for pair in pairs if pair.share >= ALIKE), key=lambda pair: (-pair.share, pair.first, pair.second)
    )


def _pair(first: str, second: str, written: dict, rare: set[str]) -> Pair:
    one, other = ({mark: about for mark, about in written[name].items() if mark in rare} for name in (first, second))
    size = {mark: about[0] for mark, about in (one | other).items()}
    shared = set(one) & set(other)
    share = sum(size[mark] for mark in shared) / sum(size.values())
    return Pair(first, second, share, tuple(sorted({one[mark][1] for mark in shared})))


def statements(source: str) -> dict[str, int]:
    """hash -> number of nodes, of each simple statement and of each head of a compound one."""
    if len(source) > LONGEST:
        return {}
    try:
        tree = ast.parse(python_of(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Pass):
            kinds = _kinds(node)
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                found[hashlib.sha256(" ".join(kinds).encode()).hexdigest()] = len(kinds)
    return found


def is_untouched(task: Task, source: str) -> bool:
    """Whether a task that refuses until it is solved has no statement beyond those of its starter."""
    own = set().union(*(statements(part) for part in source.split(AGAIN)))  # of each cell: one may be no Python
    return task.refuses and not own - statements(task.starter).keys()


def _kinds(statement: ast.stmt) -> list[str]:
    """The kinds of its nodes in order, with called names and numbers, without the student's names and nested statements."""
    kinds, todo = [], [statement]
    while todo:
        node = todo.pop()
        detail = ""
        if isinstance(node, ast.Attribute):
            detail = node.attr
        elif isinstance(node, ast.Constant):
            detail = hex(node.value)[:40] if isinstance(node.value, int) else repr(node.value)[:40]
        kinds.append(f"{type(node).__name__}:{detail}")
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.expr_context)]
    return kinds
