"""Read a lecture: its cells, its claims, the proof of each. Nothing here runs anything."""

import ast
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

NUMBERED = re.compile(r"\d\d(?=[a-z]?_)")
CAPSTONE = "capstone"  # the notebook after the last lecture, whose claims are C.1, C.2, …
SHEET = "cheat_sheet"  # asserts, but no claims: it runs with the lectures
COLAB = "colab"  # the id of the first code cell, which fetches the course in Colab
START = "start_here.ipynb"
FOLD = "folded"  # the tag of a cell whose code is folded away
HOST = "host"  # a tag, and the key of its reason in the cell's metadata
SIGNS = {"Claim": "◆", "Folklore": "✗", "Misconception": "✗"}  # kind → the sign before it; a mark of what is false
CLAIM = re.compile(
    rf"(?:> )?(?:[{''.join(set(SIGNS.values()))}] )?\*\*\*?({'|'.join(SIGNS)})(?: (\d+|C)\.(\d+))?\.\*\*\*?\s*"
)
BESIDE = "beside"  # the folder of a run for executed notebooks that are no lectures: start_here, and solutions of labs
DEEPER = "deeper"  # the folder of second readings, whose claims are counted from N.101, N.201, …

WORD = re.compile(r"[a-z0-9]+|[A-Z][a-z0-9]*|[A-Z0-9]+")  # one part of a readable id; Colab's random ids mix cases
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HEX = re.compile(
    r"[0-9a-f]{8,}"
)  # ids that nbformat and JupyterLab generate; no word here has eight letters from a to f
LONGEST = 64  # characters that the notebook format allows in an id


@dataclass(frozen=True)
class Cell:
    """One cell of a file; `raw` is its JSON object."""

    index: int
    kind: str  # "markdown", "code" or "raw"
    id: str
    source: str
    tags: tuple[str, ...]
    raw: dict

    @property
    def host(self) -> str:
        """Why this proof stays on the host although the machine may have a GPU; "" for all that do not."""
        return self.raw.get("metadata", {}).get(HOST, "") if HOST in self.tags else ""

    @property
    def is_folded(self) -> bool:
        """Whether its code is folded away in JupyterLab, in Colab and on the site."""
        return bool(self.raw.get("metadata", {}).get("jupyter", {}).get("source_hidden"))

    @property
    def is_colab(self) -> bool:
        """Whether it is the cell that fetches the course where there is none."""
        return self.kind == "code" and self.id == COLAB

    @property
    def is_calculator(self) -> bool:
        return self.kind == "code" and self.id.startswith("calculator-")

    @property
    def is_picture(self) -> bool:
        """Whether the cell only shows something: a picture, or a calculator."""
        return self.id.startswith("picture-") or self.is_calculator


@dataclass(frozen=True)
class Claim:
    """One claim and the code cell right after it; `proof` is None if another kind of cell follows."""

    lecture: int | str  # the lecture's number, or "C"
    position: int
    kind: str  # of SIGNS
    text: str
    cell: Cell
    proof: Cell | None

    @property
    def number(self) -> str:
        return f"{self.lecture}.{self.position}"

    @property
    def name(self) -> str:
        """Its own, which stays when its number changes; its number where tidy has not named it yet."""
        return self.cell.raw.get("metadata", {}).get("name", self.number)

    @property
    def proof_hash(self) -> str | None:
        return source_hash(self.proof.source) if self.proof else None


@dataclass(frozen=True, eq=False)
class Lecture:
    """A notebook, parsed; each reading of a file is one of its own.

    `number` is "C" for the capstone, and None for what is no lecture.
    """

    path: Path
    number: int | str | None
    title: str
    cells: tuple[Cell, ...]
    claims: tuple[Claim, ...]
    raw: dict

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def deeper(self) -> bool:
        """Whether it is for a second reading."""
        return self.path.parent.name == DEEPER

    @property
    def code(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.kind == "code")

    @property
    def parameters(self) -> Cell | None:
        return next((cell for cell in self.code if "parameters" in cell.tags), None)


def is_lecture(path: Path) -> bool:
    """Whether a notebook has claims, by its name: two digits, perhaps a letter, an underscore; or the capstone."""
    return label_of(path.stem) != ""


def label_of(name: str) -> str:
    """What a lecture is called for short: "07", or "C" for the capstone; "" for any other notebook's name."""
    found = NUMBERED.match(name)
    return found[0] if found else "C" * (name == CAPSTONE)


def runs_with_lectures(path: Path) -> bool:
    """Whether a notebook has its place in the ledger: all of them but the calculators and start_here."""
    return is_lecture(path) or path.stem == SHEET


def in_order(folder: Path) -> list[Path]:
    """What a student reads one after the other, of those in a folder: start_here, the lectures, the capstone."""
    books = sorted(path for path in folder.glob("*.ipynb") if is_lecture(path))
    return [*(path for path in [folder / START] if path.exists()), *books]


def notebooks_in(folder: Path) -> list[Path]:
    """The notebooks of a folder, in order, and after them those of its second readings."""
    return [path for place in (folder, folder / DEEPER) for path in sorted(place.glob("*.ipynb"))]


def read(path: str | Path) -> Lecture:
    """The lecture in the file `path`. Raises ValueError, naming it, if it is not a notebook of format 4."""
    path = Path(path)
    return parsed(load(path), path)


def parsed(raw: dict, path: Path) -> Lecture:
    """The lecture whose JSON is `raw`, as load() returns it."""
    cells = tuple(_cell(index, cell) for index, cell in enumerate(raw["cells"]))
    number = _number(path.stem)
    return Lecture(path, number, _title(cells) or path.stem, cells, _claims(cells, number), raw)


def load(path: Path) -> dict:
    """The notebook's JSON. Checks the parts of its structure that the course relies on."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a notebook ({error}): restore the file or save it again from Jupyter") from error
    cells = raw.get("cells") if isinstance(raw, dict) else None
    if not isinstance(cells, list) or raw.get("nbformat") != 4:
        raise ValueError(f"{path}: not a notebook of format 4: open it in Jupyter and save it again")
    for index, cell in enumerate(cells):
        if (
            not isinstance(cell, dict)
            or cell.get("cell_type") not in ("markdown", "code", "raw")
            or "source" not in cell
        ):
            raise ValueError(f"{path}: cell {index} (counted from 0) is not a markdown, code or raw cell with a source")
    return raw


def plain_claim(source: str) -> str:
    """The source of a claim's cell without what makes its sentence a callout."""
    sentence, gap, rest = source.partition("\n\n")
    lines = [line.removeprefix(">").removeprefix(" ") for line in sentence.splitlines()]
    lines[0] = re.sub(r"^[^*]*\*\*\*?(.+?)\*\*\*?", r"**\1**", lines[0])
    return "\n".join(lines) + gap + rest


def callout(source: str) -> str:
    """The source of a claim's cell with its first paragraph, the claim, as a quotation: any viewer sets that apart.

    The head of what is false is in italics too: it looks different in every viewer, and `make lab` gives it a colour.
    """
    sentence, gap, rest = plain_claim(source).partition("\n\n")
    sign = SIGNS[CLAIM.match(sentence)[1]]
    if sign == SIGNS["Folklore"]:
        sentence = re.sub(r"^\*\*(.+?)\*\*", r"***\1***", sentence)
    return "\n".join(f"> {line}" for line in f"{sign} {sentence}".splitlines()) + gap + rest


def readable(name: str) -> bool:
    """Whether a cell id was written by a person: words joined by - or _, not something random."""
    if not name or len(name) > LONGEST or HEX.fullmatch(name) or UUID.fullmatch(name):
        return False
    return all(WORD.fullmatch(part) for part in re.split(r"[-_]", name))


def source_hash(source: str) -> str:
    """SHA-256 of a cell's source, ignoring the kind of line endings, trailing blanks and outer blank lines."""
    lines = [line.rstrip() for line in source.strip().splitlines()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def code_hash(lecture: Lecture) -> str:
    """Of all code but pictures, calculators and Colab's cell: these and prose change without making a measurement stale."""
    proving = (cell for cell in lecture.code if not (cell.is_picture or cell.is_colab))
    return source_hash("\n\n".join(f"{cell.id}\n{cell.source}" for cell in proving))


def syntax_tree(cell: Cell) -> ast.Module:
    """Raises ValueError for a cell that is not plain Python."""
    try:
        return ast.parse(cell.source)
    except SyntaxError as error:
        raise ValueError(
            f"cell {cell.id} is not plain Python ({error}): correct it, without IPython's % and !"
        ) from error


def text_of(value: str | list[str]) -> str:
    """The text of a source or an output, which the format stores as a string or as a list of lines."""
    return value if isinstance(value, str) else "".join(value)


def _cell(index: int, raw: dict) -> Cell:
    tags = raw.get("metadata", {}).get("tags", [])
    return Cell(index, raw["cell_type"], raw.get("id", ""), text_of(raw["source"]), tuple(tags), raw)


def _number(name: str) -> int | str | None:
    label = label_of(name)
    return int(label) if label.isdecimal() else label or None


def _title(cells: tuple[Cell, ...]) -> str:
    lines = (line for cell in cells if cell.kind == "markdown" for line in cell.source.splitlines())
    return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), "")


def _claims(cells: tuple[Cell, ...], number: int | str | None) -> tuple[Claim, ...]:
    """The claims among the cells; one without a number yet gets the one after the claim before it."""
    claims = []
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        head = CLAIM.match(cell.source) if cell.kind == "markdown" else None
        if head:
            proof = after if after is not None and after.kind == "code" else None
            words = CLAIM.sub("", plain_claim(cell.source), count=1)
            text = " ".join(words.split("\n\n")[0].split())
            lecture = number if head[2] is None else head[2] if head[2] == "C" else int(head[2])
            position = int(head[3]) if head[3] else claims[-1].position + 1 if claims else 1
            claims.append(Claim(lecture, position, head[1], text, cell, proof))
    return tuple(claims)
