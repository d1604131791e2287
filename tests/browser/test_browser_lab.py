"""JupyterLab, as `make lab` starts it, opens lectures and labs, and Run All reaches their end."""

import json
import re

import pytest
from browsing import IDLE, ROOT, pictures_in, problems_of, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WITH_PICTURES = ("notebooks/01_", "notebooks/07_")
ALWAYS = (*WITH_PICTURES, "labs/04_")
NOTEBOOKS = [
    path.relative_to(ROOT).as_posix()
    for folder in ("notebooks", "notebooks/deeper", "labs")
    for path in sorted((ROOT / folder).glob("*.ipynb"))
]


@pytest.mark.parametrize(
    "notebook", [pytest.param(name, marks=() if name.startswith(ALWAYS) else pytest.mark.nightly) for name in NOTEBOOKS]
)
def test_run_all_reaches_the_end(lab, page, notebook):
    with lab.opened(page, notebook):
        lab.run_all(page)
        done = lab.save(page, notebook)
        shown = page.locator(".jp-OutputArea-output[data-mime-type='image/svg+xml'] img").evaluate_all(
            "images => images.filter(image => image.naturalWidth > 0).length"
        )
    assert problems_of(done) == []
    assert page.watch.problems == []
    assert shown == pictures_in(done)
    assert shown > 0 or not notebook.startswith(WITH_PICTURES)


def test_two_lectures_and_a_lab_are_opened_each_time():
    assert sum(name.startswith(ALWAYS) for name in NOTEBOOKS) == 3


def test_outputs_survive_a_save_and_git_sees_no_change(lab, page):
    notebook = "notebooks/start_here.ipynb"
    outputs, unsaved = page.locator(".jp-OutputArea-output"), page.locator(".jp-mod-dirty")
    with lab.opened(page, notebook):
        page.locator(IDLE).wait_for()
        assert unsaved.count() == 0, "opened, and nothing else"
        lab.run_all(page)
        shown = outputs.count()
        lab.save(page, notebook)
        assert (lab.home / notebook).read_bytes() == (ROOT / notebook).read_bytes()
        page.reload()
        page.get_by_text("| Idle").wait_for()
        page.wait_for_function("n => document.querySelectorAll('.jp-OutputArea-output').length === n", arg=shown)
        assert unsaved.count() == 0 < shown
    assert page.watch.problems == []


def test_a_cell_that_fails_is_named_and_so_are_those_behind_it(lab, page):
    notebook = "notebooks/broken.ipynb"
    write_notebook(lab.home / notebook, ["1 + 1", "assert 1 + 1 == 3", "2 + 2"])
    with lab.opened(page, notebook):
        lab.run_all(page)
        wrong, behind = problems_of(lab.save(page, notebook))
    assert wrong.startswith("cell-1: AssertionError") and behind == "cell-2: not executed"


def test_run_all_of_a_lab_goes_on_behind_a_wrong_answer_and_a_typo(lab, page):
    notebook = "labs/wrong.ipynb"
    book = json.loads((ROOT / "labs" / "01_views_and_attention.ipynb").read_text())
    typed = {
        "code-strides": "def contiguous_strides(shape):\n    return (1,) * len(shape)",
        "code-swap": "def swapped(x, a, b:",
    }
    for cell in book["cells"]:
        cell["source"] = typed.get(cell["id"], cell["source"])
    (lab.home / notebook).write_text(json.dumps(book))
    with lab.opened(page, notebook):
        lab.run_all(page)
        done = lab.save(page, notebook)
    assert [problem.split(":")[0] for problem in problems_of(done)] == ["check-strides", "code-swap", "check-swap"]
    assert "Task 2: 0 of 2   wrong\nTask 3: 0 of 2   open\n" in "".join(done["cells"][-1]["outputs"][0]["text"])


def in_sight(page, claim: str):
    """The claim's cell, once it is where one looks."""
    cell = page.locator(".jp-Notebook .jp-MarkdownCell:visible").filter(has_text=claim).first
    page.wait_for_function(
        """claim => [...document.querySelectorAll('.jp-Notebook .jp-MarkdownCell')].some(cell => {
            const {top, bottom} = cell.getBoundingClientRect();
            return cell.innerText.includes(claim) && bottom > 100 && top < window.innerHeight - 50 && bottom > top;
        })""",
        arg=claim,
    )
    return cell


LINK = re.compile(r"\((?P<file>[^()\s]*)#cell-id=claim-(?P<number>\w+-\d+)\)")


@pytest.mark.parametrize(("notebook", "within"), [("notebooks/cheat_sheet", False), ("notebooks/09_", True)])
def test_a_link_to_a_claim_lands_on_it(lab, page, notebook, within):
    """In another notebook, and further up or down in the same one: the first link of that kind."""
    (notebook,) = [name for name in NOTEBOOKS if name.startswith(notebook)]
    links = LINK.finditer((ROOT / notebook).read_text())
    number = next(link["number"] for link in links if within == (not link["file"]))
    with lab.opened(page, notebook):
        place = page.locator(f".jp-RenderedMarkdown a[href$='#cell-id=claim-{number}']").first
        place.scroll_into_view_if_needed()
        place.click()
        assert in_sight(page, f" {number.replace('-', '.')}.").count() == 1
    assert page.watch.problems == []


def test_a_check_is_run_by_mouse_and_unfolds_nothing(lab, page):
    notebook = "labs/04_micrograd_and_numpy.ipynb"
    line = page.locator(".jp-Notebook .jp-CodeCell").filter(has_text='progress.check("value")').first
    with lab.opened(page, notebook):
        lab.run_all(page)
        line.locator(".cm-line").click()
        page.get_by_role("button", name="Run this cell and advance").click()
        line.locator(".jp-InputPrompt").get_by_text("]:").wait_for()
        page.locator(IDLE).wait_for()
        assert line.bounding_box()["height"] < 100, "one line and its verdict"
        assert "Task 1 is open" in line.inner_text() and "expect" not in line.inner_text()
    assert page.watch.problems == []


def test_it_starts_without_a_warning(lab):
    assert [line for line in (lab.home / "lab.log").read_text().splitlines() if "UserWarning" in line] == []


def test_nothing_is_written_into_the_tree(lab):
    assert lab.home not in ROOT.parents and not lab.home.is_relative_to(ROOT)
