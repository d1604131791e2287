"""Pairs of submissions whose code is similar beyond the starter: for a person to review, never a verdict.

Each statement of a task's code is taken without its names, comments and docstrings, and wherever it stands. What the lab has
too counts nothing, nor does what many of the class wrote. Submissions are parsed in the judge, whose memory is limited.
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
LONGEST = 2_000_000  # characters of a task's code that are compared
COMMON = 0.3  # a statement that a larger share of the class wrote says nothing


@dataclass(frozen=True)
class Pair:
    """Two students; share: of the weight of both their statements, that of those that both have; tasks: where they are."""

    first: str
    second: str
    share: float
    tasks: tuple[str, ...]


def similar_pairs(lab: Lab, marks: dict[str, dict[str, dict[str, int]]]) -> list[Pair]:
    """The pairs of `marks` (student -> what marks_of() has said) that are similar, the most similar first."""
    ours = [*(task.starter for task in lab.tasks), *(task.check.source for task in lab.tasks)]
    given = set().union(*map(statements, [*ours, *(cell.source for cell in lab.others)]))
    written: dict[str, dict[str, tuple[int, str]]] = {}
    for student, by_task in marks.items():
        own = {
            mark: (size, task) for task, found in by_task.items() for mark, size in found.items() if mark not in given
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


def marks_of(code: dict[str, str]) -> dict[str, dict[str, int]]:
    """task -> the statements of its code, of each cell for itself: one may be no Python. code: as in Submission.code."""
    return {task: _statements_of_cells(source[:LONGEST]) for task, source in code.items()}


def _statements_of_cells(source: str) -> dict[str, int]:
    return {mark: size for cell in source.split(AGAIN) for mark, size in statements(cell).items()}


def statements(source: str) -> dict[str, int]:
    """hash -> number of nodes, of each simple statement and of each head of a compound one."""
    try:
        tree = ast.parse(python_of(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Pass):
            kinds = _kinds(node)
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                found[hashlib.sha256(" ".join(kinds).encode()).hexdigest()[:16]] = len(kinds)
    return found


def is_untouched(task: Task, source: str) -> bool:
    """Whether a task that refuses until it is solved has no statement beyond those of its starter."""
    return task.refuses and not _statements_of_cells(source).keys() - statements(task.starter).keys()


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
