"""Templates, for the site and for the grader's pages: what is put into one is text, unless it is marked as HTML."""

from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"
SHARED = TEMPLATES / "shared"  # the frame and the style that all pages have
BASE_STYLE = SHARED / "base.css"


def environment_of(folder: Path):
    """The jinja2.Environment of the templates in `folder`, which may extend and include the shared ones."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # not where the grader has no page to write

    return Environment(
        loader=FileSystemLoader([folder, SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
