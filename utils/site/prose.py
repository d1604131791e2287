"""Markdown and outputs as clean HTML: no script survives, formulas are MathML, each "Claim 7.3" is a link to that claim."""

import re
from functools import cache

import nh3
from bs4 import BeautifulSoup, NavigableString
from latex2mathml.converter import convert
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

SPOKEN = re.compile(r"\b(?:Claims?|Folklore|Misconceptions?) ((?:\d+|C)\.\d+)\b")
REMOVED = ("script", "style", "iframe", "object", "embed", "template", "noscript")  # with their contents
UNLINKED = ("a", "code", "pre", "h1", "h2", "h3", "h4", "summary")
TAGS = (
    "a abbr b blockquote br caption code dd del details div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img input ins "
    "kbd li mark ol p pre s small span strong sub summary sup table tbody td tfoot th thead tr u ul var "
    "math mfrac mi mn mo mover mpadded mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder "
    "munderover"
)
ATTRIBUTES = {
    "*": {"class", "id", "title"},
    "a": {"href"},
    "details": {"open"},
    "img": {"src", "alt", "width", "height"},
    "input": {"checked"},
    "math": {"display"},
    "mi": {"mathvariant"},
    "mo": {"fence", "form", "largeop", "lspace", "movablelimits", "rspace", "separator", "stretchy"},
    "mover": {"accent"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"columnalign"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}
CLEANER = nh3.Cleaner(
    tags=set(TAGS.split()),
    clean_content_tags=set(REMOVED),
    attributes=ATTRIBUTES,
    tag_attribute_values={"input": {"type": {"checkbox"}, "disabled": {""}}},
    attribute_filter=lambda tag, name, value: value if name != "src" or value.startswith("data:image/") else None,
    url_schemes={"http", "https", "mailto", "data"},
    link_rel=None,
)  # a picture may only come out of the page itself


class Renderer(IPythonRenderer):
    """nbconvert's, with formulas as MathML, which every browser of today shows by itself."""

    def inline_math(self, body: str) -> str:
        return convert(body)

    def block_math(self, body: str) -> str:
        return convert(body, display="block")


MARKDOWN = MarkdownWithMath(renderer=Renderer(escape=False))


def markdown(source: str) -> str:
    """The HTML of a Markdown text, as nbconvert renders it, not yet cleaned."""
    return MARKDOWN.render(source)


def clean(text: str, where: dict[str, str] | None = None, links: dict[str, str] | None = None) -> str:
    """HTML from a lecture made safe for a page: no scripts, wide tables in a scrolling frame, claims linked.

    where: the address of each claim by its number. links: the address on the site of each relative link in a notebook;
    one that is not among them loses its link and keeps its words, and without links so does one to a place in the same
    notebook: the text then stands on a page of its own.
    """
    soup = BeautifulSoup(text, "html.parser")
    for anchor in soup.find_all("a", href=True):
        _relink(anchor, links)
    _link_claims(soup, where or {})
    for cell in soup.find_all(["td", "th"], style=re.compile("text-align: ?(right|center)")):
        cell["class"] = "figure" if "right" in cell["style"] else "centred"  # the course's pages forbid inline styles
    for table in soup.find_all("table"):
        table.wrap(soup.new_tag("div", attrs={"class": "wide"}))
    return CLEANER.clean(str(soup))


def _relink(anchor, links: dict[str, str] | None) -> None:
    address, mark, place = anchor["href"].partition("#")
    if re.match(r"(https?|mailto):", address):
        return
    place = place.removeprefix("cell-id=")  # as JupyterLab calls a cell; here it is the cell's id alone
    if not address and links is not None:
        anchor["href"] = mark + place
    elif address in (links or {}):
        anchor["href"] = links[address] + mark + place
    else:
        anchor.unwrap()


def _link_claims(soup, where: dict[str, str]) -> None:
    """Each "Claim 7.3" in running text becomes a link if the site has that claim."""
    for text in soup.find_all(string=SPOKEN):
        if any(parent.name in UNLINKED for parent in text.parents):
            continue
        parts, at = [], 0
        for found in SPOKEN.finditer(text):
            if found[1] in where:
                link = soup.new_tag("a", href=where[found[1]], attrs={"class": "to-claim"})
                link.string = found[0]
                parts += [NavigableString(text[at : found.start()]), link]
                at = found.end()
        if parts:
            text.replace_with(*parts, NavigableString(text[at:]))


@cache
def sentence(text: str) -> str:
    """One paragraph of Markdown as clean HTML without the paragraph around it."""
    return clean(markdown(text)).strip().removeprefix("<p>").removesuffix("</p>")


def plain(html: str) -> str:
    """The words of a piece of HTML, without its marks and with single blanks."""
    soup = BeautifulSoup(html, "html.parser")
    for element in soup.select("a.anchor-link, script, style, img"):
        element.decompose()
    for element in soup.select("br, dd, div, dt, h1, h2, h3, h4, li, p, pre, summary, td, th"):
        element.append("\n")  # keeps the words of two table cells apart
    return " ".join(soup.get_text().split())
