"""What receipts, tests/receipts/*.json, say of the proof in the running cell: for one that cannot run on this machine.

A receipt knows a proof by its code, so that nobody needs to know which claim the cell proves: see `proof_hash`.
"""

import ast
import hashlib
import json
from pathlib import Path

STORE = Path(__file__).resolve().parents[2] / "tests" / "receipts"
SPELLED_WITH_A_VOWEL = "AEFHILMNORSX"  # an H200, an L4; but a T4


def proof_hash(source: str) -> str:
    """SHA-256 of what a cell's source says, whatever its comments and blanks. Raises SyntaxError if it is not Python."""
    return hashlib.sha256(shape(ast.parse(source)).encode()).hexdigest()


def shape(node: object) -> str:
    """The text of a syntax tree, the same on every Python: ast.dump's differs between versions."""
    if isinstance(node, list):
        return f"[{', '.join(map(shape, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("ctx", "kind", "type_comment"))
    kept = (
        f"{name}={shape(value)}" for name, value in fields if isinstance(node, ast.Constant) or value not in (None, [])
    )
    return f"{type(node).__name__}({', '.join(kept)})"


def sentences(source: str, folder: Path | None = None) -> list[str]:
    """Such as "On an H200 (2026-11-27): first 3 < second 4", for each GPU that has a verdict on the proof with this source.

    folder: where the receipts are, by default those of the course. [] where no receipt has a verdict on just this code, and
    where one cannot be read: no proof fails by it.
    """
    try:
        wanted = proof_hash(source)
        found = [_sentence(path, wanted) for path in sorted((folder or STORE).glob("*.json"))]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SyntaxError):
        return []
    return [sentence for sentence in found if sentence]


def _sentence(path: Path, proof: str) -> str:
    receipt = json.loads(path.read_text(encoding="utf-8"))
    entries = receipt["lectures"].values()
    rows = [(entry, row) for entry in entries for row in entry["claims"] if row["proof"] == proof]
    if len(rows) != 1:  # two claims with one proof: nobody knows which of them this is
        return ""
    [(entry, row)] = rows
    if row["status"] not in ("verified", "failed"):
        return ""
    day = receipt["runs"][entry["run"]]["date"][:10]
    host = "the host of " if row["status"] == "verified" and not row["on_device"] else ""
    return f"On {host}{_with_article(receipt['gpu'])} ({day}): {row.get('compared') or row['status']}"


def _with_article(gpu: str) -> str:
    """ "an H200" for "NVIDIA H200"."""
    name = gpu.removeprefix("NVIDIA ")
    spelled = name[:2].upper() == name[:2]
    return f"{'an' if name[:1] in (SPELLED_WITH_A_VOWEL if spelled else 'AEIOU') else 'a'} {name}"
