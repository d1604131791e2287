"""What a proof's verdict depends on: its own code, the lecture's statements that it uses, the modules it imports.

Each as a hash, so that a verdict kept from another machine can be told from one on code that has changed since. Prose,
Colab's cell, and pictures and other statements that a proof does not lean on change none of them.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

from utils.course import ROOT
from utils.course.notebooks.dataflow import Use, with_their_needs
from utils.course.notebooks.notebook import Lecture, source_hash, syntax_tree
from utils.device import git

ELSEWHERE = {"course", "figures"}  # parts of utils that no verdict depends on: the course commands and the pictures
CODE = ("notebooks", "solutions", "utils")
COMMITS = 200  # how many commits back find_commit searches


def needs_of(lecture: Lecture) -> dict[str, str]:
    """For each claim with a proof, its number and the hash of the earlier statements that the proof uses.

    Raises ValueError for a cell that is not plain Python.
    """
    cells = [cell for cell in lecture.code if not cell.is_colab]
    for cell in cells:
        syntax_tree(cell)
    statements = [(cell, text, use) for cell in cells for text, use in _statements(cell.source)]
    uses = [use for _, _, use in statements]
    proofs = {claim.proof.index for claim in lecture.claims if claim.proof}
    # What proofs and pictures do to objects that they did not make is left out; the names that they make count.
    in_proofs = {place for place, (cell, _, _) in enumerate(statements) if cell.index in proofs or cell.is_picture}
    hashes = {}
    for claim in lecture.claims:
        if claim.proof:
            own = [place for place, (cell, _, _) in enumerate(statements) if cell.index == claim.proof.index]
            leaned = set(with_their_needs(uses, 0, own, in_proofs)) - set(own)
            hashes[claim.number] = source_hash("\n".join(statements[place][1] for place in sorted(leaned)))
    return hashes


@cache  # the ledger of a run asks, then its pages
def _statements(source: str) -> list[tuple[str, Use]]:
    """The top-level statements of a cell's source, an import of several names as one for each."""
    lines, found = source.splitlines(), []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += [(ast.unparse(one), Use([one])) for one in _one_by_one(node)]
        else:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            found.append(("\n".join(lines[first - 1 : node.end_lineno]), Use([node])))
    return found


def _one_by_one(node: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
    if isinstance(node, ast.Import):
        return [ast.Import([name]) for name in node.names]
    return [ast.ImportFrom(node.module, [name], node.level) for name in node.names]


def modules_hash(lecture: Lecture) -> str:
    """The hash of the modules of utils that a notebook imports, directly or indirectly."""
    proving = (cell for cell in lecture.code if not (cell.is_calculator or cell.is_colab))
    trees = [syntax_tree(cell) for cell in proving]
    wanted = set().union(*map(_imported, trees))
    seen: set[str] = set()
    while wanted - seen:
        name = min(wanted - seen)
        seen.add(name)
        wanted |= _module(name)[1]
    return hashlib.sha256("".join(f"{name} {_module(name)[0]}\n" for name in sorted(seen)).encode()).hexdigest()


@cache
def _module(name: str) -> tuple[str, frozenset[str]]:
    """The hash of a module, "loop.train" say, and of those that it imports; nothing for a name that is not a module."""
    place = ROOT / "utils" / name.replace(".", "/")
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not path.is_file():
        return "", frozenset()
    source = path.read_text(encoding="utf-8")
    return source_hash(source), frozenset(_imported(ast.parse(source)))


def _imported(tree: ast.Module) -> set[str]:
    """What a source imports of utils, as dotted names: each room, what is in it, and names that may be modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    inside = [name.split(".")[1:] for name in names if name.startswith("utils.")]
    return {".".join(words[:n]) for words in inside if words[0] not in ELSEWHERE for n in range(1, len(words) + 1)}


def code_of(root: Path) -> str:
    """One hash of every .py and .ipynb file in `root`'s notebooks/, solutions/ and utils/, by git's names for contents."""
    blobs = {}
    for folder in CODE:
        for path in (root / folder).rglob("*"):
            if path.is_file() and ".ipynb_checkpoints" not in path.parts:
                text = path.read_bytes()
                blobs[path.relative_to(root).as_posix()] = hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()
    return _of_blobs(blobs)


def _of_blobs(blobs: dict[str, str]) -> str:
    code = sorted((path, blob) for path, blob in blobs.items() if path.endswith((".py", ".ipynb")))
    return hashlib.sha256("".join(f"{blob} {path}\n" for path, blob in code).encode()).hexdigest()


def commit_of(code: str, root: Path) -> dict:
    """{"commit": the newest one or None without a repository, "dirty": whether its code is another one}."""
    head = git(root, "rev-parse", "HEAD")
    return {"commit": head, "dirty": _code_in(head, root) != code} if head else {"commit": None, "dirty": None}


def find_commit(code: str, root: Path) -> dict:
    """{"commit": the newest of the last COMMITS commits that has just this code, "dirty": False}, or None twice."""
    for commit in (git(root, "log", f"-{COMMITS}", "--format=%H") or "").split():
        if _code_in(commit, root) == code:
            return {"commit": commit, "dirty": False}
    return {"commit": None, "dirty": None}


def _code_in(commit: str, root: Path) -> str:
    """`code_of` for the files of a commit."""
    listed = (git(root, "ls-tree", "-r", "-z", commit, "--", *CODE) or "").split("\0")
    lines = [line.split("\t", 1) for line in listed if line]
    return _of_blobs({path: words.split()[2] for words, path in lines})
