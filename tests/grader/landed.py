"""How a hostile submission proves that its attack was carried out, and did not die of a stale name before it.

A file in hostile/ begins with lines `# shows: REGEX`. Each must be found in what the grader's record tells of that
submission, and only an attack that went all the way leaves such words: the exception that its last line raises, the
answer of a function that was refused what it tried, a worker that has ended.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path


def trace(record: dict) -> str:
    """What a record tells of a submission, a line each: cells that raised or were left out, checks that failed."""
    lines = [f"{cell}: {kinds[0]}: {text}" for cell, (kinds, text, _) in record["raised"].items()] + record["notes"]
    lines += [f"{check['check']}: {check['message']}" for check in record["checks"] if check["message"]]
    return "\n".join(" | ".join(line.splitlines()) for line in lines)


def not_shown(attack: Path, record: dict) -> list[str]:
    """What this attack leaves in its record when it is carried out, and did not leave in this one."""
    told = trace(record)
    return [words for words in shows(attack) if not re.search(words, told)]


def shows(attack: Path) -> list[str]:
    return re.findall(r"^# shows: (.+)$", attack.read_text(), re.MULTILINE)


def cells(attack: Path) -> dict[str, str]:
    """cell id → source, of a file in hostile/."""
    _, *parts = re.split(r"^# %% (\S+).*\n", attack.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def stale_names(source: str) -> Iterator[str]:
    """What the code names of the package and is not there: modules, attributes that it reads or sets, names in texts."""
    tree = ast.parse(source)
    known: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in (alias for alias in node.names if _is_ours(alias.name)):
                whole = _module(name.name)
                if whole is None:
                    yield name.name
                known[name.asname or "utils"] = whole if name.asname else _module("utils")
        elif isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
            for name in node.names:
                found = getattr(_module(node.module), name.name, None) or _module(f"{node.module}.{name.name}")
                if found is None:
                    yield f"{node.module}.{name.name}"
                known[name.asname or name.name] = found
        elif isinstance(node, ast.Constant) and re.fullmatch(r"utils(\.\w+)+", str(node.value)):
            yield from [] if _module(node.value) else [node.value]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            holder = _value(node.value, known)
            if holder is not None and not hasattr(holder, node.attr):
                yield ast.unparse(node)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "utils"


def _module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _value(node: ast.expr, known: dict[str, object]) -> object:
    """What an expression of names and attributes stands for; None if that is nothing of the package."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        holder = _value(node.value, known)
        return getattr(holder, node.attr, None) if holder is not None else None
    return None
