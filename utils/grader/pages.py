"""How the grader's pages are made: from templates, marked with what they were made from, with Markdown as HTML."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from utils.course.notebooks.lab import Lab
from utils.site.environment import SHARED, environment_of

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
MODULES = ("pages", "feedback", "notebook_copy", "summary", "reading")  # that decide what a page says


def mark_of(lab: Lab, records: object) -> str:
    """Of all that a page is made from: the lab's texts, the records, the code and the templates."""
    cells = [(cell.id, cell.source) for cell in lab.book.cells]
    return hashlib.sha256(json.dumps([cells, records, _programs()], sort_keys=True).encode()).hexdigest()[:16]


@cache
def _programs() -> str:
    """The digest of the code and the templates that make pages."""
    files = [HERE / f"{name}.py" for name in MODULES]
    files += sorted(path for folder in (TEMPLATES, SHARED) for path in folder.iterdir())
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def is_made_from(path: Path, mark: str) -> bool:
    """Whether the page is there, and made from just this."""
    if not path.exists():
        return False
    with path.open(encoding="utf-8") as file:
        return f'content="{mark}"' in file.read(200)


def render(template: str, mark: str, **context) -> str:
    """The page from templates/<template>.html.j2. mark: kept in its head, to tell later what it was made from."""
    return _environment().get_template(f"{template}.html.j2").render(mark=mark, **context)


@cache
def _environment():
    environment = environment_of(TEMPLATES)
    environment.globals["colour"] = colour
    environment.filters |= {
        "backticks": backticks,
        "digest": digest,
        "markdown": markdown,
        "personal": personal,
        "sentence": sentence,
        "words": words,
    }
    return environment


def digest(text: str) -> str:
    """As a page's policy names the one script or style that it lets in."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def colour(earned: int | None, points: int) -> str:
    """The class of the colour for so many points."""
    return "note" if earned is None else "full" if earned >= points else "part" if earned > 0 else "none"


@cache
def markdown(source: str) -> Markup:
    """A Markdown text of the course as HTML without scripts, with formulas; as it stands, where that fails."""
    from utils.site import prose  # nbconvert comes with it: not where nothing is new

    return _or_as_it_stands(lambda: prose.clean(prose.markdown(source), links={}), source)  # links within the page stay


@cache
def sentence(source: str) -> Markup:
    """One line of the course's Markdown as HTML, without a paragraph around it; as it stands, where that fails."""
    from utils.site import prose

    return _or_as_it_stands(lambda: prose.sentence(source), source)


@cache
def personal(source: str) -> Markup:
    """A person's Markdown as HTML without scripts. A dollar in it is a dollar; as it stands, where rendering it fails."""
    from mistune import BlockParser, InlineParser  # without nbconvert's rules for formulas
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    from utils.site import prose

    def render_without_formulas() -> str:
        parser = MarkdownWithMath(IPythonRenderer(escape=False), BlockParser(), InlineParser())
        return prose.clean(parser.render(source), links={})

    return _or_as_it_stands(render_without_formulas, source)


def _or_as_it_stands(render_clean: Callable[[], str], source: str) -> Markup:
    """One text that cannot be rendered must not keep the pages of a class from being written."""
    try:
        return Markup(render_clean())
    except Exception:  # parsers of Markdown and formulas raise any exception
        return backticks(source)


def backticks(text: str) -> Markup:
    """A text as HTML, of which only backticks mean something: what stands between two of them is code."""
    parts = re.split(r"`([^`\n]+)`", text)
    code = Markup("<code>{}</code>")
    return Markup().join(code.format(part) if number % 2 else escape(part) for number, part in enumerate(parts))


def words(source: str) -> str:
    """One line of Markdown without its marks, for a title and for plain text."""
    return source.replace("`", "").replace("**", "")
