"""A film is moved by its slider, by the keyboard and by its button, in JupyterLab and on the site."""

import pytest
from browsing import ROOT, problems_of, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SITE = ROOT / "build" / "site"
PAGE = "06_optimizers_and_schedules.html"
SMALL = """from utils.figures import player
from utils.figures.style import new_figure

def dots():
    for place in range(4):
        figure, axes = new_figure(6.0, 2.0)
        axes.plot([place], [0], "o")
        yield f"at {place}", figure

player.film(dots(), "a dot")"""

NOTE_TEXTS = """button => {
    button.said = [];
    new MutationObserver(() => button.said.push(button.textContent)).observe(button, {childList: true});
}"""


def in_view(film) -> list[str]:
    """The captions of the pictures that can be seen."""
    return film.locator("figcaption:visible").all_inner_texts()


def is_moved_by_all(film) -> None:
    captions = film.locator("figcaption").all_text_contents()
    slider, button = film.locator(".film-slider"), film.locator(".film-play")
    slider.scroll_into_view_if_needed()
    assert len(captions) > 3 and in_view(film) == captions[-1:]
    assert film.locator("img:visible").evaluate("image => image.naturalWidth") >= 600
    slider.fill("1")
    assert in_view(film) == captions[1:2]
    slider.press("ArrowRight")
    assert in_view(film) == captions[2:3] and slider.get_attribute("aria-valuetext") == captions[2]
    button.evaluate(NOTE_TEXTS)
    button.click()
    film.page.wait_for_function("button => button.said.length === 2", arg=button.element_handle())  # it ends by itself
    assert button.evaluate("button => button.said.map(text => text.split(' ')[1])") == ["pause", "play"]
    assert in_view(film) == captions[-1:]


def test_on_the_site(page):
    page.goto((SITE / PAGE).as_uri())
    is_moved_by_all(page.locator(".film").first)
    assert page.watch.problems == []


def test_without_javascript_its_last_picture_stands_still(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((SITE / PAGE).as_uri())
    film = page.locator(".film").first
    assert in_view(film) == film.locator("figcaption").all_text_contents()[-1:]
    assert film.locator("button, input").count() == 0
    context.close()


def test_in_jupyterlab(lab, page):
    notebook = "notebooks/film.ipynb"
    write_notebook(lab.home / notebook, [SMALL])
    with lab.opened(page, notebook):
        lab.run_all(page)
        is_moved_by_all(page.locator(".film").first)
        assert problems_of(lab.save(page, notebook)) == []
    assert page.watch.problems == []
