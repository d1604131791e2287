"""Claims are numbered in order, and whatever names one by its number follows.

A claim has a name of its own in its cell's metadata, which stays when its number changes: records go by the name. A new
claim needs neither number nor name: `> ◆ **Claim.** …`, anywhere, and a cell with its proof. `make tidy` gives it both,
numbers those after it anew, and mends each "claim 7.3", each link and each id that names one of them.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from utils.course.notebooks.notebook import CLAIM, DEEPER, is_lecture, label_of, load, plain_claim, readable, text_of

NUMBER = r"(?:\d+|C)\.\d+"
WHOLE_NUMBER = re.compile(rf"(?<![\w.]){NUMBER}(?!\.?\w)")
_SPACE = r"[\s>]+"  # a reference may go on in the next line of a quotation
_MORE = rf"(?:(?:,|,?{_SPACE}(?:and|or|to)){_SPACE}{NUMBER})*"
REFERENCE = re.compile(
    rf"\b(?:[Cc]laims|[Ff]olklore|[Mm]isconceptions){_SPACE}{NUMBER}{_MORE}|\b(?:[Cc]laim|[Mm]isconception){_SPACE}{NUMBER}"
)
LINK = re.compile(r"\[[^\]]*\]\([^)\s]*#cell-id=[\w-]+\)")  # a link to a cell, whose text may be a bare number
ID = re.compile(r"\b(claim|proof|picture|reading)-(\d+|C)-(\d+)\b")
COMMON = {  # words that tell no claim from another
    "a", "an", "and", "are", "as", "at", "be", "both", "but", "by", "can", "each", "for", "from", "has",
    "have", "if", "in", "into", "is", "it", "its", "more", "no", "not", "of", "on", "one", "only", "or", "so",
    "than", "that", "the", "their", "them", "there", "they", "this", "to", "was", "what", "where", "which",
    "while", "with", "you", "your",
}  # fmt: skip


def numbered(book: dict, path: Path) -> tuple[dict, dict[str, str]]:
    """The notebook's JSON with its claims named and numbered in order, and each changed number: old → new.

    Claims of a lecture begin at N.1; those of a notebook in deeper/ at the hundred that they have, or at the first free
    one. Only the heads of claims change, see `with_mended`. Raises ValueError for two claims of one number whose cells do
    not tell which of them is new.
    """
    label, cells = label_of(path.stem), [dict(cell) for cell in book["cells"]]
    heads = [index for index, cell in enumerate(cells) if _is_claim(cell)]
    if not label or not heads:
        return book, {}
    lecture = "C" if label == "C" else str(int(label))
    old = _old_numbers([cells[index] for index in heads], path)
    first = _first(path, lecture, [number for number in old if number])
    changed, names = {}, _names([cells[index] for index in heads], old)
    for place, index in enumerate(heads):
        number = f"{lecture}.{first + place}"
        if old[place] and old[place] != number:
            changed[old[place]] = number
        cells[index]["source"] = _with_number(text_of(cells[index]["source"]), number)
        cells[index]["metadata"] = cells[index].get("metadata", {}) | {"name": names[place]}
        if not old[place] and readable(cells[index].get("id", "")):
            cells[index]["id"] = ""  # of the claim that it was copied from
    return book | {"cells": cells}, changed


def with_mended(book: dict, changed: dict[str, str]) -> dict:
    """The notebook's JSON with the new number wherever its text or the id of a cell names a claim by its old one."""
    cells = []
    for cell in book["cells"]:
        source = text_of(cell["source"])
        head = CLAIM.match(source)[0] if _is_claim(cell) else ""  # which has its new number already
        name = cell.get("id", "")
        cells.append(
            cell
            | {"source": head + mended(source.removeprefix(head), changed)}
            | {"id": name if head else mended_ids(name, changed)}
        )
    return book | {"cells": cells}


def mended(text: str, changed: dict[str, str]) -> str:
    """The text with the new number wherever it names a claim whose number has changed."""
    if not changed:
        return text

    def renumbered(words: str) -> str:
        return WHOLE_NUMBER.sub(lambda number: changed.get(number[0], number[0]), words)

    def relinked(link: str) -> str:
        label, target = link.rsplit("](", 1)
        return f"{renumbered(label)}]({mended_ids(target, changed)}"

    parts, links = LINK.split(text), [*LINK.findall(text), ""]
    return "".join(
        REFERENCE.sub(lambda found: renumbered(found[0]), part) + (link and relinked(link))
        for part, link in zip(parts, links, strict=True)
    )


def mended_ids(text: str, changed: dict[str, str]) -> str:
    """The text with the new number in each id of a cell, "proof-7-3" say, whose claim's number has changed."""

    def renumber(found: re.Match) -> str:
        number = changed.get(f"{found[2]}.{found[3]}")
        return f"{found[1]}-{number.replace('.', '-')}" if number else found[0]

    return ID.sub(renumber, text)


def all_changes(books: Iterable[Path]) -> dict[str, str]:
    """Each number of a claim that tidy will change, old → new, over all of these notebooks.

    Raises ValueError if two of them have claims of one number, so that nobody can tell which of them a text means.
    """
    changed: dict[str, str] = {}
    for path in filter(is_lecture, books):
        _, here = numbered(load(path), path)
        if twice := changed.keys() & here.keys():
            raise ValueError(
                f"{path}: claim {min(twice)} stands in another notebook, too: write the new one without a number, "
                "**Claim.**"
            )
        changed |= here
    return changed


def _is_claim(cell: dict) -> bool:
    return cell["cell_type"] == "markdown" and CLAIM.match(text_of(cell["source"])) is not None


def _old_numbers(cells: list[dict], path: Path) -> list[str]:
    """The number that each claim has had, "" for a new one: it has none, or it is the copy of another cell."""
    written = []
    for cell in cells:
        head = CLAIM.match(text_of(cell["source"]))
        written.append(f"{head[2]}.{head[3]}" if head[2] else "")
    times = Counter(written)
    old = []
    for cell, number in zip(cells, written, strict=True):
        is_copy = times[number] > 1 and cell.get("id", "") != f"claim-{number.replace('.', '-')}"
        old.append("" if is_copy else number)
    if twice := [number for number, n in Counter(old).items() if number and n > 1]:
        raise ValueError(f"{path}: two claims are called {twice[0]}: write the new one without a number, **Claim.**")
    return old


def _first(path: Path, lecture: str, numbers: list[str]) -> int:
    """The position of the first claim: 1, and in deeper/ 101, 201, …"""
    if path.resolve().parent.name != DEEPER:
        return 1
    hundreds = Counter(int(number.split(".")[1]) // 100 for number in numbers if number.split(".")[0] == lecture)
    hundreds.pop(0, None)  # of claims that come from the lecture itself
    if hundreds:
        return 100 * hundreds.most_common(1)[0][0] + 1
    beside = (load(other)["cells"] for other in path.parent.glob(f"{path.name[:2]}_*.ipynb") if other != path)
    heads = [CLAIM.match(text_of(cell["source"])) for cells in beside for cell in cells if _is_claim(cell)]
    taken = {int(head[3]) // 100 for head in heads if head[3]}
    return 100 * min(set(range(1, len(taken) + 2)) - taken) + 1


def _names(cells: list[dict], old: list[str]) -> list[str]:
    """The name of each claim: its own, and for a new one the first telling words of its sentence."""
    own = [cell.get("metadata", {}).get("name", "") for cell in cells]
    times = Counter(own)
    taken = {name for name in own if name}
    names = []
    for name, cell, number in zip(own, cells, old, strict=True):
        is_copy = times[name] > 1 and cell.get("id", "") != f"claim-{number.replace('.', '-')}"
        if not name or is_copy or name in names:
            name = _unused(_from_words(text_of(cell["source"])), taken)
        taken.add(name)
        names.append(name)
    return names


def _from_words(source: str) -> str:
    sentence = CLAIM.sub("", plain_claim(source), count=1).split("\n\n")[0].lower()
    sentence = re.sub(r"\]\([^)]*\)", "", sentence)  # the addresses of links
    words = [word for word in re.findall(r"[a-z][a-z0-9]+", sentence.replace("'", "")) if word not in COMMON]
    return "-".join(words[:5]) or "claim"


def _unused(name: str, taken: set[str]) -> str:
    return next(other for n in range(1, len(taken) + 2) if (other := name if n == 1 else f"{name}-{n}") not in taken)


def _with_number(source: str, number: str) -> str:
    """The source of a claim's cell with this number in its head, which may have none."""
    head = CLAIM.match(source)
    return re.sub(rf"{head[1]}[^*]*", f"{head[1]} {number}.", head[0], count=1) + source.removeprefix(head[0])
