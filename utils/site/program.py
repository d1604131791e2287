"""The page of the program that grows through the course: each stage, and what it changes in the one before."""

from itertools import pairwise

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from utils.figures.program import Diff, Stage

NAME = "program.html"


def stages_shown(stages: list[Stage], pages: dict[str, tuple[str, str]]) -> list[dict]:
    """What the page says of each stage; nothing where the site has none of their notebooks.

    pages: the address and the title of each notebook that has a page, by its name.
    """
    if not any(stage.name in pages for stage in stages):
        return []
    changes = [None, *(Diff(before.text, after.text) for before, after in pairwise(stages))]
    return [
        {
            "name": stage.name,
            "number": stage.label if stage.label != stage.name else "",
            "page": pages.get(stage.name, (None, ""))[0],
            "title": pages.get(stage.name, (None, stage.name.replace("_", " ")))[1],
            "lines": len(stage.text.splitlines()),
            "change": change,
            "code": highlight(stage.text, PythonLexer(), HtmlFormatter()),
        }
        for stage, change in zip(stages, changes, strict=True)
    ]
