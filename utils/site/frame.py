"""The frame around every page, the templates, and the files that all pages share."""

import shutil
import tomllib
from pathlib import Path

from markupsafe import Markup
from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES

from utils.course import ROOT
from utils.figures.player import SCRIPT as PLAYER
from utils.figures.program import STYLE as DIFF_STYLE
from utils.site import prose
from utils.site.environment import BASE_STYLE, TEMPLATES, environment_of

STATIC = Path(__file__).parent / "static"
LIMIT = 3_000_000  # bytes of a page, pictures and all
STYLES = "xcode", "github-dark"  # of code, light and dark

ENVIRONMENT = environment_of(TEMPLATES)
ENVIRONMENT.filters["sentence"] = lambda text: Markup(prose.sentence(text))  # a title, with its code as code
ENVIRONMENT.filters["words"] = lambda text: prose.plain(prose.sentence(text))
ENVIRONMENT.filters["plain"] = prose.plain


def write(page: Path, template: str, context: dict) -> None:
    """Write one page from templates/<template>.html.j2. Raises ValueError above LIMIT: too slow for a phone."""
    text = ENVIRONMENT.get_template(f"{template}.html.j2").render(page=page.name, **project_facts(), **context).encode()
    if len(text) > LIMIT:
        raise ValueError(f"{page.name} would have {len(text):,} bytes, more than {LIMIT:,}: make its pictures smaller")
    page.write_bytes(text)


def project_facts() -> dict[str, str]:
    """The course in one sentence, the name of its licence, and its repository's address or "": as pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    addresses = {name.lower(): address for name, address in project.get("urls", {}).items()}
    repository = addresses.get("repository", addresses.get("source", ""))
    return {"description": project["description"], "licence": project["license"], "repository": repository}


def write_static(folder: Path) -> None:
    """The style, the scripts and the licence, into a new folder."""
    shutil.copytree(STATIC, folder)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE.txt")  # the name by which a host knows that it is text
    shutil.copy(PLAYER, folder / PLAYER.name)
    parts = [path.read_text(encoding="utf-8") for path in (BASE_STYLE, STATIC / "site.css", DIFF_STYLE)] + [
        code_colours()
    ]
    (folder / "site.css").write_text("\n".join(parts), encoding="utf-8")


def code_colours() -> str:
    """CSS for the classes that pygments gives to code, each colour for light pages and for dark ones."""
    light, dark = (get_style_by_name(name) for name in STYLES)
    lines = []
    for token, name in STANDARD_TYPES.items():
        one, other = light.style_for_token(token), dark.style_for_token(token)
        if name and (one["color"] or other["color"]):
            colours = ", ".join(f"#{each['color']}" if each["color"] else "currentcolor" for each in (one, other))
            lines.append(f".highlight .{name} {{ color: light-dark({colours}); }}")
    return "\n".join(lines) + "\n"
