"""What one sees: a picture's letters are as large as they were drawn, and in the dark it keeps the colours it speaks of."""

import base64
import io
import json
import re

import pytest
from browsing import ROOT, TOKEN, write_notebook
from bs4 import BeautifulSoup
from PIL import Image

from utils.figures.style import new_figure, short_numbers

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SITE, EXECUTED = ROOT / "build" / "site", ROOT / "build" / "notebooks"
PLACES = {  # a page of the site -> where a picture stands on it
    "index": ".opening img",
    "start_here": ".output img",
    "06_optimizers_and_schedules": ".film img:visible",
    "07_memory_to_the_byte": ".output > img",
    "lab_04_micrograd_and_numpy": ".output > img",
}
CELLS = {  # what a cell shows in JupyterLab -> its code
    ".jp-RenderedImage img": """from utils.figures.style import new_figure
from IPython.display import Image

new_figure(6.0, 2.0)[0].savefig("photo.png")
Image("photo.png")""",
    ".jp-RenderedSVG img": """from IPython.display import SVG

SVG("<svg xmlns='http://www.w3.org/2000/svg' width='200' height='100'/>")""",
    ".film img:visible": """from utils.figures import player
from utils.figures.style import new_figure

player.film(((f"at {place}", new_figure(6.0, 2.0)[0]) for place in range(2)), "nothing")""",
}


def photo() -> str:
    """The address of a picture of 200 by 100 pixels, its left half black and its right half white."""
    picture = Image.new("L", (200, 100), 255)
    picture.paste(0, (0, 0, 100, 100))
    picture.save(file := io.BytesIO(), "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def looks(picture) -> dict[str, int]:
    """How light, from 0 to 255, the two halves of the photo look in a picture's place, and the plate at its edge."""
    picture.evaluate("(image, photo) => { image.src = photo; return image.decode(); }", photo())
    picture.scroll_into_view_if_needed()
    seen = Image.open(io.BytesIO(picture.screenshot())).convert("L")
    wide, high = seen.size
    places = {"left": wide // 4, "right": 3 * wide // 4, "plate": 4}
    return {name: seen.getpixel((x, high // 2)) for name, x in places.items()}


def right(seen: dict[str, int]) -> bool:
    return seen["left"] < 5 and seen["right"] > 250 and seen["plate"] > 250


@pytest.mark.parametrize("chosen", [False, True], ids=["by the system", "by the reader"])
@pytest.mark.parametrize("name", PLACES)
def test_on_the_site_a_photo_keeps_its_colours_in_the_dark(new_page, name, chosen):
    page = new_page(dark=not chosen)
    page.goto(f"{SITE.as_uri()}/{name}.html")
    if chosen:
        page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 29)"
    seen = looks(page.locator(PLACES[name]).first)
    assert right(seen), seen


def test_a_photo_that_loses_its_colours_or_its_plate_is_noticed(page):
    for style in ("padding: 8px; background: white; filter: invert(0.9)", "padding: 8px; background: black"):
        page.set_content(f"<!doctype html><img alt='' style='{style}'>")
        assert not right(looks(page.locator("img"))), style
    page.set_content("<!doctype html><img alt='' style='padding: 8px; background: white'>")
    assert right(looks(page.locator("img")))


@pytest.fixture
def dark_lab(lab):
    """JupyterLab in its dark theme, and with the viewer for Markdown that `make lab` sets."""
    settings = {
        "apputils-extension/themes": {"theme": "JupyterLab Dark"},
        "docmanager-extension/plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
    }
    files = [lab.home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings" for name in settings]
    for file, values in zip(files, settings.values(), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    yield lab
    for file in files:
        file.unlink()


def test_in_jupyterlab_a_photo_keeps_its_colours_in_the_dark(dark_lab, page):
    notebook = "notebooks/photos.ipynb"
    write_notebook(dark_lab.home / notebook, list(CELLS.values()))
    with dark_lab.opened(page, notebook):
        dark_lab.run_all(page)
        seen = {}
        for where in CELLS:
            picture = page.locator(where).first
            picture.wait_for()
            seen[where] = looks(picture)
    assert page.locator("body").get_attribute("data-jp-theme-light") == "false"
    assert {where: each for where, each in seen.items() if not right(each)} == {}


def test_in_jupyterlab_the_readmes_picture_keeps_its_colours_in_the_dark(dark_lab, page):
    page.goto(f"{dark_lab.url}lab/workspaces/readme/tree/README.md?token={TOKEN}")
    picture = page.locator(".jp-MarkdownViewer img").first
    picture.wait_for()
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    assert right(seen := looks(picture)), seen


@pytest.mark.parametrize("theme", ["lab", "dark_lab"])
def test_in_jupyterlab_a_claim_has_as_much_room_below_as_above_and_its_code_has_no_holes(request, page, theme):
    notebook = "notebooks/01_tensors_and_strides.ipynb"
    with request.getfixturevalue(theme).opened(page, notebook):
        claim = page.locator("blockquote:has(code)").first
        claim.wait_for()
        above, below, box, chip = claim.evaluate(
            """box => {
                const outer = box.getBoundingClientRect(), colour = e => getComputedStyle(e).backgroundColor;
                const [first, last] = [box.firstElementChild, box.lastElementChild].map(e => e.getBoundingClientRect());
                const chip = box.querySelector('code');
                return [first.top - outer.top, outer.bottom - last.bottom, colour(box), colour(chip)];
            }"""
        )
    assert abs(above - below) < 1 and above > 4
    assert box != chip and "rgba(0, 0, 0, 0)" not in (box, chip)


def widths(page, picture: str) -> list[float]:
    """How wide each text of an SVG is in the browser, in px."""
    page.set_content(picture[picture.index("<svg") :])
    return page.evaluate(
        "() => [...document.querySelectorAll('g[id^=text_]')].map(text => text.getBoundingClientRect().width)"
    )


def test_letters_are_as_large_with_short_numbers(page):
    figure, axes = new_figure()
    axes.set(xlabel="GB alive in the second step", title="T4: 14.56 GiB")
    file = io.StringIO()
    figure.savefig(file, format="svg")
    before, after = widths(page, file.getvalue()), widths(page, short_numbers(file.getvalue()))
    assert max(before) > 150 and after == pytest.approx(before, abs=1)


def test_letters_on_the_site_are_as_large_as_in_the_notebook(page):
    name = "07_memory_to_the_byte"
    cells = json.loads((EXECUTED / f"{name}.ipynb").read_text())["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    drawn = ["".join(data["image/svg+xml"]) for data in outputs if "image/svg+xml" in data and "text/html" not in data]
    page_of_it = BeautifulSoup((SITE / f"{name}.html").read_text(), "html.parser")
    for calculator in page_of_it.select("[data-calculator]"):  # its picture is drawn in the browser
        calculator.decompose()
    shown = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", str(page_of_it))
    assert len(drawn) == len(shown) > 0
    for before, after in zip(drawn, shown, strict=True):
        assert widths(page, base64.b64decode(after).decode()) == pytest.approx(widths(page, before), abs=1)
