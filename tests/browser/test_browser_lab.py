"""JupyterLab, as `make lab` starts it, opens lectures, and Run All reaches their end."""

import pytest
from browsing import ROOT, pictures_in, problems_of, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LECTURES = [path.name for number in ("01", "07", "11") for path in (ROOT / "notebooks").glob(f"{number}_*.ipynb")]


@pytest.mark.parametrize("name", LECTURES)
def test_run_all_reaches_the_end(lab, page, name):
    notebook = f"notebooks/{name}"
    with lab.opened(page, notebook):
        lab.run_all(page)
        done = lab.save(page, notebook)
        shown = page.locator(".jp-OutputArea-output[data-mime-type='image/svg+xml'] img").evaluate_all(
            "images => images.filter(image => image.naturalWidth > 0).length"
        )
    assert problems_of(done) == []
    assert page.watch.problems == []
    assert shown == pictures_in(done) > 0


def test_three_lectures():
    assert len(LECTURES) == 3


def test_a_cell_that_fails_is_named_and_so_are_those_behind_it(lab, page):
    notebook = "notebooks/broken.ipynb"
    write_notebook(lab.home / notebook, ["1 + 1", "assert 1 + 1 == 3", "2 + 2"])
    with lab.opened(page, notebook):
        lab.run_all(page)
        wrong, behind = problems_of(lab.save(page, notebook))
    assert wrong.startswith("cell-1: AssertionError") and behind == "cell-2: not executed"


def test_nothing_is_written_into_the_tree(lab):
    assert lab.home not in ROOT.parents and not lab.home.is_relative_to(ROOT)
