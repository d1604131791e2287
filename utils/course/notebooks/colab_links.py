"""Links to Colab: the repository's address, stored once in pyproject.toml, and the texts generated from it.

That is the cell `colab` of every lecture and lab, a link under its title, and a badge beside its link in the README's table.
"""

import os
import re
import tomllib
from pathlib import Path

from utils.atomic_write import write_bytes
from utils.course import ROOT
from utils.course.notebooks.notebook import COLAB, load, notebooks_in, text_of
from utils.course.notebooks.release import release
from utils.course.notebooks.tidy import as_bytes

FOLDERS = {"notebooks": "notebooks", "solutions": "labs"}  # folder of a notebook → folder from which Colab opens it
LINE = re.compile(r"\n\n\[Open in Colab\]\([^)]*\)")  # under a notebook's title
BADGE = re.compile(r" \[!\[Open in Colab\]\([^)]*\)\]\([^)]*\)")  # beside a link in the README's table
PICTURE = "notebooks/figures/open-in-colab.svg"
LINK = re.compile(r"(?<=\]\()((?:notebooks|labs)/\d\w*\.ipynb)\)(?=.*\|$)", re.MULTILINE)  # in the README's table
BRANCH = "colab"  # of the repository: notebooks whose links Colab understands, which JupyterLab would not
INTERNAL = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#(cell-id=)?([\w-]+))?\)")  # in a notebook: file, "cell-id=", place
URLS = re.compile(r'\n\[project\.urls\]\nRepository = "[^"]*"\n')
SOURCE = '''\
# Colab opens a notebook alone: there this cell fetches the rest of the course. Elsewhere it looks whether that is here.
import os
import sys
from importlib.util import find_spec

if "google.colab" in sys.modules:
    repository = "{address}"  # the course's address, https://github.com/owner/name
    course = os.environ.setdefault("COURSE_FOLDER", os.path.abspath("course"))

    def address_of_course() -> str:
        """The repository; or from where on GitHub this notebook was opened; or what you answer; or ""."""
        import json
        from contextlib import suppress
        from urllib import parse, request

        if repository:
            return repository
        with suppress(Exception):  # Colab's server knows: fileId=https%3A%2F%2Fgithub.com%2Fowner%2Fname%2Fblob…
            server = "http://{{COLAB_JUPYTER_IP}}:{{KMP_TARGET_PORT}}/api/sessions".format_map(os.environ)
            with request.urlopen(server, timeout=5) as reply:
                opened = parse.unquote(json.load(reply)[0]["path"])
            if "/blob/" in opened:
                return opened.removeprefix("fileId=").split("/blob/")[0]
        with suppress(Exception):  # a program that runs this notebook cannot answer
            question = "Where is the course? Paste its address, https://github.com/owner/name: "
            return input(question).split("/blob/")[0].strip()
        return ""

    def fetch_course() -> None:
        """Clone the course, unless it is there. Raises RuntimeError, with the line to edit, if it cannot be found."""
        import subprocess

        said = ""
        if not os.path.exists(f"{{course}}/utils/colab.py") and (address := address_of_course()):
            clone = ["git", "clone", "--quiet", "--depth=1", "--", address, course]
            said = subprocess.run(clone, capture_output=True, text=True).stderr.strip()
        if not os.path.exists(f"{{course}}/utils/colab.py"):
            error = RuntimeError(
                f'The course is not in {{course}}. Write its address into the line `repository = "{{repository}}"` '
                f"of this cell (Show code), and run the cell again. {{said}}"
            )
            error._render_traceback_ = lambda: [str(error)]  # the sentence without a traceback
            raise error

    fetch_course()
    sys.path.insert(0, course)
    from utils.colab import prepare

    prepare("{path}")
elif not (find_spec("utils") and find_spec("utils.colab")):
    no_course = RuntimeError(
        "This notebook needs the rest of its course, which this Python does not have: in the course's folder call "
        "`make lab` and open it there, or `pip install -e .` with this Python, and restart the kernel."
    )
    no_course._render_traceback_ = lambda: [str(no_course)]  # the sentence without a traceback
    raise no_course'''


def address_of(root: Path = ROOT) -> str:
    """The repository's address, "" if none is set yet."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "")


def cell_source(path: str, address: str) -> str:
    """The code of the cell `colab` in the notebook `path` of the repository, "labs/01_views_and_attention.ipynb" say."""
    return SOURCE.format(address=address, path=path)


def title_source(source: str, path: str, address: str) -> str:
    """The title cell `source` with the link that opens `path`, or without a link if there is no address."""
    head, rest = (*LINE.sub("", source).split("\n", 1), "")[:2]
    line = f"\n\n[Open in Colab]({colab_address(path, address)})" if address else ""
    return head + line + ("\n" + rest if rest else "")


def colab_address(path: str, address: str, branch: str = "main") -> str:
    """Where Colab opens the file `path` of a branch of the repository."""
    return f"{address.replace('https://github.com', 'https://colab.research.google.com/github')}/blob/{branch}/{path}"


def links_for_colab(text: str, path: str, address: str) -> str:
    """The text of the notebook `path` of the repository, JSON or Markdown, with links that land in Colab.

    Colab opens a notebook no_course and calls a cell #scrollTo=NAME: links to others become whole addresses, of BRANCH for
    notebooks and of main for other files. (JupyterLab calls it #cell-id=NAME; no link serves both.)
    """

    def rewritten(link: re.Match) -> str:
        file, is_cell, place = link.groups(default="")
        to_cell = f"#scrollTo={place}" if is_cell else f"#{place}" * bool(place)
        if not file:
            return f"]({to_cell})"
        target = os.path.normpath(Path(path).parent / file)
        if target.endswith(".ipynb"):
            return f"]({colab_address(target, address, BRANCH)}{to_cell})"
        return f"]({address}/blob/main/{target}{to_cell})"

    return INTERNAL.sub(rewritten, text)


def badges(repository: str | None = None, root: Path = ROOT) -> None:
    """Keep the address of `repository` ("owner/name" on GitHub; "" for none), and rewrite every text that contains it.

    None leaves the address as it is: a new notebook gets its cell. Raises ValueError for what is no such name.
    """
    if repository is not None:
        _keep(repository, root / "pyproject.toml")
    address = address_of(root)
    for folder, opened in FOLDERS.items():
        for path in notebooks_in(root / folder):
            place = f"{opened}/{path.relative_to(root / folder)}"
            _write(path, as_bytes(_with_colab(load(path), place, address)))
    release(root / "solutions", root / "labs")
    readme = root / "README.md"
    _write(readme, with_badges(readme.read_text(encoding="utf-8"), address).encode())


def _keep(repository: str, project: Path) -> None:
    if repository and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", repository):
        raise ValueError(f"REPO={repository!r} is not a repository: name it as owner/name, or leave it empty for none")
    text = project.read_text(encoding="utf-8")
    block = f'\n[project.urls]\nRepository = "https://github.com/{repository}"\n' if repository else ""
    head, rest = URLS.sub("", text).split("\n[tool", 1)
    _write(project, f"{head}{block}\n[tool{rest}".encode())


def _with_colab(book: dict, path: str, address: str) -> dict:
    """The notebook's JSON with its link and its cell inserted or updated."""
    title, *others = book["cells"]
    title = title | {"source": title_source(text_of(title["source"]), path, address).splitlines(keepends=True)}
    source = cell_source(path, address).splitlines(keepends=True)
    old = next((other for other in others if other.get("id") == COLAB), {})
    cell = {"cell_type": "code", "execution_count": None, "id": COLAB, "metadata": {}, "outputs": [], "source": source}
    cell["metadata"] = old.get("metadata", {})
    return book | {"cells": [title, cell, *(other for other in others if other.get("id") != COLAB)]}


def with_badges(readme: str, address: str) -> str:
    """The README, or a piece of it, with a badge beside each link to a notebook in its table; without, if no address."""
    readme = BADGE.sub("", readme)
    if not address:
        return readme
    return LINK.sub(lambda link: f"{link[0]} {_badge(link[1], address)}", readme)


def _badge(path: str, address: str) -> str:
    return f"[![Open in Colab]({PICTURE})]({colab_address(path, address)})"


def _write(path: Path, text: bytes) -> None:
    if path.read_bytes() != text:
        write_bytes(path, text)
        print(f"{path}: written")
