"""What a proof's verdict depends on: its own code, the lecture's statements that it leans on, and what these reach of utils.

As a hash, so that a verdict kept from another machine can be told from one on code that computes something else. It is
taken of the code's canonical form (see `canonical`), of the earlier statements that make or change what the proof names,
and of the definitions of utils that all of this reaches (see `reach`). Prose, Colab's cell, pictures, and demonstrations
whose results no proof uses change nothing.

What is not seen: how far a random stream has come when the proof draws from it (a proof holds at every seed, `make seeds`
tries that), what is in files, what the version of Python or of a library changes, and a change of an object by another
name than those that a statement mentions (`changes` says which these are).
"""

import ast
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from utils.checks.elsewhere import proof_hash
from utils.course import ROOT
from utils.course.notebooks.dataflow import Use, imported, with_their_needs
from utils.course.notebooks.notebook import Lecture, syntax_tree
from utils.course.receipts.canonical import bare_names, catches, without_words
from utils.course.receipts.changes import Changes
from utils.course.receipts.reach import IMPORTS, Library, Piece, imported_by, reached, text_of_statement
from utils.device import git

FIGURES = "utils.figures"
BY_TEXT = {"exec", "eval", "globals"}  # what calls one of these may use any name
CODE = ("notebooks", "solutions", "utils")
COMMITS = 200  # how many commits back find_commit searches


@cache  # of one reading of the notebook: tables ask several times, and the answer takes half a second
def hashes_of(lecture: Lecture, library: Library | None = None) -> dict[str, dict]:
    """What the verdict on each claim depends on, by the claim's number: {"proof": …, "computes": …}.

    "proof": the code of its proof alone, by which a notebook finds its verdict. "computes": all that the proof computes
    with, by which the verdict is fresh or stale. library: the utils that the lecture imports; this course's by default.
    A claim without a proof has None for both. Raises ValueError for a cell that is not plain Python.
    """
    library = library or _here()
    code = {}  # with the words for a reader, and without them
    hashes = {}
    for claim in lecture.claims:
        hashes[claim.number] = {"proof": None, "computes": None}
        if claim.proof:
            for words in (False, True):
                code[words] = code.get(words) or _Code(lecture, library, words=words)
                computed, listens = code[words].computation(claim.proof.index)
                if not listens:
                    break
            hashes[claim.number] = {"proof": proof_hash(claim.proof.source), "computes": _sha256(computed)}
    return hashes


@cache
def book_hash(book: Lecture, library: Library | None = None) -> str:
    """The hash of all that a notebook computes, without its pictures."""
    code = _Code(book, library or _here(), words=True)
    drawn = {cell.index for cell in book.code if cell.is_picture}
    return _sha256(code.text_of([n for n, statement in enumerate(code.statements) if statement.cell not in drawn])[0])


@cache
def _here() -> Library:
    return Library(ROOT)


@dataclass(frozen=True)
class Statement:
    """A top-level statement of a cell, as `without_words` returns it, with the names that it needs, binds and changes."""

    cell: int
    silent: ast.stmt
    text: str  # as it is written
    needs: set[str]
    binds: set[str]
    changes: set[str]


class _Code:
    """The statements of a lecture, with the names that connect them. words: whether words for a reader count."""

    def __init__(self, lecture: Lecture, library: Library, *, words: bool):
        self.library, self.words = library, words
        cells = [cell for cell in lecture.code if not cell.is_colab]
        trees = [syntax_tree(cell) for cell in cells]
        imports = [node for tree in trees for node in tree.body if isinstance(node, IMPORTS)]
        self.meanings = imported_by(imports)
        self.statements: list[Statement] = []
        drawing = {name for name, meant in self.meanings.items() if any(".".join(m).startswith(FIGURES) for m in meant)}
        changes = Changes(imported(trees), drawing)
        bound: set[str] = set()
        for cell, tree in zip(cells, trees, strict=True):
            lines = cell.source.splitlines()
            for node in tree.body:
                for one in _one_by_one(node):
                    silent = without_words(one, words)
                    use = Use([silent])
                    needs = use.needs | (bound if bare_names(silent) & BY_TEXT else set())
                    bound |= use.binds
                    text = text_of_statement(node, lines)
                    self.statements.append(Statement(cell.index, silent, text, needs, use.binds, changes.of(silent)))
        # What proofs and pictures do to objects that they did not make is left out; the names that they make count.
        shown = {claim.proof.index for claim in lecture.claims if claim.proof}
        shown |= {cell.index for cell in cells if cell.is_picture}
        self._without_changes = {n for n, statement in enumerate(self.statements) if statement.cell in shown}
        self._pieces: dict[tuple[int, bool], Piece] = {}
        self._catches: dict[int, bool] = {}

    def computation(self, proof: int) -> tuple[str, bool]:
        """All that the proof in the cell with this index computes with; and whether something in it listens to words."""
        own = [place for place, statement in enumerate(self.statements) if statement.cell == proof]
        return self.text_of(with_their_needs(self.statements, 0, own, self._without_changes))

    def text_of(self, places: list[int]) -> tuple[str, bool]:
        """The same of the statements in these places."""
        statements = [self.statements[place] for place in places]
        imports = [each.silent for each in statements if isinstance(each.silent, IMPORTS)]
        places = [place for place in places if not isinstance(self.statements[place].silent, (*IMPORTS, ast.Pass))]
        pieces = [self._piece(place, as_written=False) for place in places]
        if any(piece.reads_source for piece in pieces):
            pieces = [self._piece(place, as_written=True) for place in places]
        pieces.append(self.library.piece(imports, {}, form="imports"))  # who uses what they bind names what it is
        text, captures = reached(self.library, pieces, words=self.words)
        return text, captures or any(map(self._catch, places))

    def _piece(self, place: int, *, as_written: bool) -> Piece:
        if (place, as_written) not in self._pieces:
            statement = self.statements[place]
            form = statement.text if as_written else ""
            self._pieces[place, as_written] = self.library.piece([statement.silent], self.meanings, form=form)
        return self._pieces[place, as_written]

    def _catch(self, place: int) -> bool:
        if place not in self._catches:
            self._catches[place] = catches(self.statements[place].silent)
        return self._catches[place]


def _one_by_one(node: ast.stmt) -> list[ast.stmt]:
    """The statement; an import of several names as one for each, since a proof leans on some of them."""
    if isinstance(node, ast.Import):
        return [ast.Import([name]) for name in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.ImportFrom(node.module, [name], node.level) for name in node.names]
    return [node]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
