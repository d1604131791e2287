"""What the grader's pages are made of: one style for light and dark, wide and narrow; texts, tables and bars as HTML."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path

from utils.course.notebooks.lab import Lab

STYLE = """
:root { color-scheme: light dark;
  --paper: light-dark(#fff, #15181d); --raised: light-dark(#f4f5f7, #1f242c); --line: light-dark(#d9dde3, #3a424e);
  --ink: light-dark(#1c2127, #e3e7ec); --pale: light-dark(#5a6470, #a3adb9); --link: light-dark(#0b5cad, #7db8f5);
  --full: light-dark(#1b7837, #6fcf8a); --part: light-dark(#8a5a00, #e3b94a); --none: light-dark(#b2182b, #ff8a80); }
* { box-sizing: border-box }
body { font: 1rem/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 56rem; padding: 1.5rem 1.2rem 4rem;
  background: var(--paper); color: var(--ink); overflow-wrap: break-word }
body.broad { max-width: 80rem }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .2rem 0 .6rem } h3 { font-size: 1rem; margin: 2rem 0 .5rem }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.4rem 0 .6rem; padding-top: 1rem; border-top: 1px solid var(--line) }
a { color: var(--link) }
code, pre { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .86em }
:not(pre) > code { background: var(--raised); border-radius: 4px; padding: .08em .3em }
pre { background: var(--raised); border-radius: 8px; padding: .7rem .9rem; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; line-height: 1.45 }
pre.said { border-left: 4px solid var(--none); border-radius: 0 8px 8px 0 }
.next { border-left: 4px solid var(--link); padding-left: .8rem } .next p { margin: .4rem 0 }
.anchor-link { display: none }
.points { float: right; margin-left: 1rem; font-weight: 600; white-space: nowrap }
.full { color: var(--full) } .part { color: var(--part) } .none { color: var(--none) } .note { color: var(--pale) }
.total { font-size: 1.25rem } .total strong { font-size: 1.6rem }
.person { background: var(--raised); border-left: 4px solid var(--full); padding: .3rem 1rem; border-radius: 0 8px 8px 0 }
.answer { background: var(--raised); border-radius: 8px; padding: .7rem .9rem; white-space: pre-wrap }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; color: var(--pale); font-size: .92rem }
dt { font-weight: 600 } dd { margin: 0 }
.wide { overflow-x: auto; margin: .8rem 0 }
table { border-collapse: collapse; font-size: .93rem; line-height: 1.4 }
th, td { text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid var(--line) }
thead th { border-bottom: 2px solid var(--line) } tfoot td { font-weight: 600; border-bottom: 0 }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.bar { display: inline-block; width: 9rem; max-width: 30vw; height: .7rem; border-radius: 4px; background: var(--raised);
  border: 1px solid var(--line); overflow: hidden; vertical-align: middle }
.bar > i { display: block; height: 100%; background: var(--link) }
details { margin: .6rem 0 } summary { cursor: pointer; color: var(--link) }
.histogram { display: flex; align-items: flex-end; gap: 2px; height: 9rem; max-width: 40rem; margin: 1rem 0 }
.histogram > div { flex: 1; min-width: 0; text-align: center; font-size: .75rem; color: var(--pale) }
.histogram i { display: block; background: var(--link); border-radius: 3px 3px 0 0 }
input, textarea, button { font: inherit; color: inherit; background: var(--raised); border: 1px solid var(--line);
  border-radius: 6px; padding: .25rem .5rem; margin: .15rem 0 }
textarea { width: 100%; font-family: ui-monospace, monospace; font-size: .85rem }
@media (max-width: 40rem) { body { padding: 1rem .9rem 3rem } h1 { font-size: 1.35rem }
  th, td { padding-right: .6rem } .less { display: none }
  dl { grid-template-columns: 1fr; gap: 0 } dd { margin-bottom: .4rem } }
"""


def mark_of(lab: Lab, code: Path, records: object) -> str:
    """Of all that a page is made from: the lab's texts, the records, and the code that makes the page."""
    cells = [(cell.id, cell.source) for cell in lab.book.cells]
    programs = [path.read_text(encoding="utf-8") for path in (code, Path(__file__))]
    return hashlib.sha256(json.dumps([cells, records, programs], sort_keys=True).encode()).hexdigest()[:16]


def is_made_from(path: Path, mark: str) -> bool:
    """Whether the page is there, and made from just this."""
    if not path.exists():
        return False
    with path.open(encoding="utf-8") as file:
        return f'content="{mark}"' in file.read(200)


def document(title: str, body: Iterable[str], mark: str = "", kind: str = "") -> str:
    """A whole page. mark: kept in its head, to tell later what it was made from."""
    head = (
        f'<meta charset="utf-8"><meta name="made-from" content="{mark}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
    )
    inner = "\n".join(body)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body class="{kind}">\n{inner}\n</body></html>\n'


@cache
def markdown(source: str) -> str:
    """A Markdown text of the course as HTML without scripts, with formulas; as it stands, where that fails."""
    from utils.site import prose  # nbconvert comes with it: not where nothing is new

    return _or_as_it_stands(lambda: prose.clean(prose.markdown(source), links={}), source)  # links within the page stay


@cache
def phrase(source: str) -> str:
    """One line of the course's Markdown as HTML, without a paragraph around it; as it stands, where that fails."""
    from utils.site import prose

    return _or_as_it_stands(lambda: prose.sentence(source), source)


@cache
def personal(source: str) -> str:
    """A person's Markdown as HTML without scripts. A dollar in it is a dollar; as it stands, where rendering it fails."""
    from mistune import BlockParser, InlineParser  # without nbconvert's rules for formulas
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    from utils.site import prose

    def rendered() -> str:
        parser = MarkdownWithMath(IPythonRenderer(escape=False), BlockParser(), InlineParser())
        return prose.clean(parser.render(source), links={})

    return _or_as_it_stands(rendered, source)


def _or_as_it_stands(rendered: Callable[[], str], source: str) -> str:
    """One text that cannot be rendered must not keep the pages of a class from being written."""
    try:
        return rendered()
    except Exception:  # parsers of Markdown and formulas raise any exception
        return plain(source)


def plain(text: str) -> str:
    """A text as HTML, of which only backticks mean something: what stands between two of them is code."""
    parts = re.split(r"`([^`\n]+)`", text)
    return "".join(f"<code>{escape(part)}</code>" if number % 2 else escape(part) for number, part in enumerate(parts))


def words(source: str) -> str:
    """One line of Markdown without its marks, for a title and for plain text."""
    return source.replace("`", "").replace("**", "")


def pre(text: str, kind: str = "") -> str:
    return f'<pre class="{kind}">{escape(text)}</pre>'


def folded(summary: str, inner: str) -> str:
    return f"<details><summary>{summary}</summary>{inner}</details>"


def bar(share: float) -> str:
    return f'<span class="bar"><i style="width:{100 * min(1, max(0, share)):.0f}%"></i></span>'


def state(earned: int | None, points: int) -> str:
    """The class of the colour for so many points."""
    return "note" if earned is None else "full" if earned >= points else "part" if earned > 0 else "none"


def table(
    head: Iterable[str], rows: Iterable[Iterable], foot: Iterable[Iterable] = (), kinds: Iterable[str] = ()
) -> str:
    """A table of cells that are HTML already; kinds: the class of each column."""
    kinds = list(kinds)

    def line(cells: Iterable, tag: str) -> str:
        classes = [*kinds, *[""] * 99]
        inner = (f'<{tag} class="{kind}">{cell}</{tag}>' for cell, kind in zip(cells, classes, strict=False))
        return f"<tr>{''.join(inner)}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    bottom = f"<tfoot>{''.join(line(row, 'td') for row in foot)}</tfoot>" if foot else ""
    return f'<div class="wide"><table><thead>{line(head, "th")}</thead><tbody>{body}</tbody>{bottom}</table></div>'
