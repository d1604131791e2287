"""The calculators in JupyterLab, where a cell's output is one: moved by keyboard and mouse, light and dark."""

import itertools

import pytest
from browsing import PAGE, faint, kept_out, problems_of, write_notebook
from shown_calculator import ShownCalculator

from utils.napkin.calculators import NAMES

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NOTEBOOK = "notebooks/calculators.ipynb"
SHOW = "from utils.napkin import calculators\n\ncalculators.show('matmul')"
DEAF = """from IPython.display import HTML

HTML(calculators.show('matmul')._repr_html_().replace('preset.value = OWN;', 'return;'))"""
WRONG = """HTML(calculators.show('matmul')._repr_html_().replace('2 * m * k * n', '3 * m * k * n'))"""


@pytest.fixture(scope="module")
def opened(lab, new_page_for_all):
    """The notebook of all calculators, after Run All."""
    page = new_page_for_all()
    with lab.opened(page, NOTEBOOK):
        lab.run_all(page)
        assert problems_of(lab.save(page, NOTEBOOK)) == []
        yield page


@pytest.mark.parametrize("name", NAMES)
def test_words_and_picture_follow_whatever_is_moved(opened, name):
    assert ShownCalculator(opened, name).wrong_when_moved() == []


def test_moving_things_neither_moves_nor_changes_the_notebook(opened):
    """JupyterLab takes arrow keys and letters for itself: d, d deletes a cell."""
    cells = opened.locator(".jp-Notebook .jp-Cell").count()
    shown = ShownCalculator(opened, "memory-budget")
    for each in shown.inputs_of:
        (shown.control(each) if each["kind"] == "choice" else shown.slider(each)).press("d")
        opened.keyboard.press("d")
    assert opened.locator(".jp-Notebook .jp-Cell").count() == cells and shown.is_right()


@pytest.mark.parametrize("name", NAMES)
def test_it_is_laid_out_as_a_form(opened, name):
    """One input in a row: no label is cut, all begin at the same place, and nothing reaches out of the box."""
    live = ShownCalculator(opened, name).box.locator(".live")
    rows = live.locator(".setting").evaluate_all(
        """rows => rows.map(row => {
            const edges = e => e.getBoundingClientRect(), label = row.querySelector('label');
            const last = row.lastElementChild, field = row.children[1];
            return {
                cut: label.scrollWidth > label.clientWidth + 1, left: edges(field).left, right: edges(last).right,
                top: edges(row).top, bottom: edges(row).bottom,
            };
        })"""
    )
    box = live.bounding_box()
    assert not any(row["cut"] for row in rows) and len({round(row["left"]) for row in rows}) == 1
    assert all(row["right"] <= box["x"] + box["width"] for row in rows)
    assert all(above["bottom"] <= below["top"] for above, below in itertools.pairwise(rows))


def test_two_in_one_notebook_and_what_is_wrong_is_noticed(lab, page):
    notebook = "notebooks/two_calculators.ipynb"
    write_notebook(lab.home / notebook, [SHOW, DEAF, WRONG])
    with lab.opened(page, notebook):
        lab.run_all(page)
        right, deaf, wrong = (ShownCalculator(page, "matmul", place) for place in range(3))
        assert right.wrong_when_moved() == []
        assert "m" in deaf.wrong_when_moved() and "at first" in wrong.wrong_when_moved()
        assert problems_of(lab.save(page, notebook)) == []
    with lab.opened(page, notebook):  # what was kept moves without a kernel
        assert ShownCalculator(page, "matmul").wrong_when_moved() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_read_and_use_it(lab, new_page, tmp_path, dark):
    """On a page as JupyterLab, VS Code and Colab make it in their dark themes, and on a plain one."""
    from utils.napkin import calculators

    shown = "".join(calculators.show(name)._repr_html_() for name in NAMES)
    for mark in ('data-jp-theme-light="false"', 'class="vscode-dark"') if dark else ("",):
        look = "background: #111; color: #eee" if dark else "background: #fff; color: #111"
        (tmp_path / "page.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title><body {mark} style="{look}">'
            f"<main><h1>Calculators</h1>{shown}</main></body></html>"
        )
        page = new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.locator(".live").last.wait_for(timeout=PAGE)
        assert faint(page) == [] and kept_out(page) == [] and page.watch.problems == []
        background = page.locator(".live").first.evaluate("e => getComputedStyle(e).backgroundColor")
        assert (background == "rgb(21, 24, 29)") == dark
