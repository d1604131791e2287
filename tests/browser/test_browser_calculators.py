"""Something is moved in each calculator, in JupyterLab; what it then says and shows is what the pure function says."""

import itertools
import re
import time

import pytest
from browsing import PAGE, problems_of, write_notebook

from utils.napkin import calculators

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NOTEBOOK = "notebooks/calculators.ipynb"
SLIDERS = {
    "training-time": "tokens", "storage-layout": "step", "dtypes": None, "matmul": "k", "parameter-shares": "width",
    "memory-budget": "batch", "n-against-d": "days", "step-memory": "batch", "overlap": "ranks", "schedule": "steps",
}  # fmt: skip  # calculator -> the argument whose slider is moved, any place of it has an answer; None: a number is typed
BROKEN = {
    "is deaf": """class Deaf(calculators.Calculator):
    def _changed(self, change):
        pass""",
    "says another number": """class Wrong(calculators.Calculator):
    def _tell(self):
        super()._tell()
        self.answer.value = self.answer.value.replace("</strong>", "0</strong>")""",
    "keeps its picture": """class Stale(calculators.Calculator):
    def _tell(self):
        before = self.picture.value
        super()._tell()
        self.picture.value = before or self.picture.value""",
}

FOLLOWS, NEVER = PAGE, 3_000  # ms, to wait for what must come and for what must not
SAYS_SOMETHING = "box => box.querySelector('.calculator-answer').innerText.trim() !== ''"


class Shown:
    """A calculator on a page: what is set, what it says, what it draws."""

    def __init__(self, page, name: str, place: int = 0):
        self.spec = calculators.find(name)
        self.box = page.locator(f".calculator-{name}").nth(place)
        self.page = page
        self.box.scroll_into_view_if_needed()  # what lies outside the window is not laid out, and has no text
        self.page.wait_for_function(SAYS_SOMETHING, arg=self.box.element_handle())

    def inputs(self) -> dict:
        """Each argument as a person reads it off the page."""
        return {each.name: self._read(each) for each in self.spec.inputs}

    def _read(self, each) -> object:
        control = self.box.locator(f".input-{each.name}")
        if isinstance(each, calculators.Choice):
            chosen = control.locator("select").evaluate("e => e.selectedOptions[0].text")
            return each.options[" ".join(chosen.split())]
        if isinstance(each, calculators.Switch):
            return control.locator("input").is_checked()
        if isinstance(each, calculators.Slide):
            return float(control.locator("input").input_value())
        return control.locator("input").input_value()

    def answer(self) -> str:
        return " ".join(self.box.locator(".calculator-answer").inner_text().split())

    def picture(self) -> str:
        """The address of the picture, which holds all of it, once it is drawn; "" if there is none."""
        return self.box.evaluate(
            """box => {
                const image = box.querySelector('.calculator-picture img');
                return image && image.complete && image.naturalWidth > 0 ? image.src : '';
            }"""
        )

    def slide(self, argument: str) -> None:
        """Drag the handle of a slider a good way, to the side where there is more room, until its number has followed."""
        before = self.inputs()[argument]
        slider = self.box.locator(f".input-{argument} .noUi-target")
        slider.scroll_into_view_if_needed()
        track, handle = slider.bounding_box(), slider.locator(".noUi-handle").bounding_box()
        x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
        share = 0.25 if x > track["x"] + track["width"] / 2 else 0.75
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(track["x"] + share * track["width"], y, steps=4)
        self.page.mouse.up()
        assert self._within(FOLLOWS, lambda: self.inputs()[argument] != before), f"{argument} stays {before}"

    def type(self, argument: str, text: str) -> None:
        box = self.box.locator(f".input-{argument} input")
        box.fill(text)
        box.press("Enter")

    def disagreement(self, timeout: int = FOLLOWS) -> str:
        """What is not as the pure function has it for what is set, after `timeout` ms at most; "" if all is."""
        if self._within(timeout, lambda: not self._wrong()):
            return ""
        return self._wrong()

    def _wrong(self) -> str:
        expected = calculators.state(self.spec.name, self.inputs())
        words, said = " ".join(" ".join(expected.words).split()), self.answer()
        if said != words:
            return f"says {said!r}, not {words!r}"
        source = re.findall(r'src="([^"]+)"', calculators.picture_html(expected))
        return "" if [self.picture()] == (source or [""]) else "draws another picture"

    def _within(self, timeout: int, holds) -> bool:
        """Look again and again, until it holds or time is up; the page goes on meanwhile."""
        deadline = time.monotonic() + timeout / 1000
        while not holds():
            if time.monotonic() > deadline:
                return False
            self.page.wait_for_timeout(50)
        return True


@pytest.fixture(scope="module")
def opened(lab, new_page_for_all):
    """The notebook of all calculators, after Run All."""
    page = new_page_for_all()
    with lab.opened(page, NOTEBOOK):
        lab.run_all(page)
        assert problems_of(lab.save(page, NOTEBOOK)) == []
        yield page


def test_there_is_something_to_move_in_each():
    assert SLIDERS.keys() == calculators.CALCULATORS.keys()


@pytest.mark.parametrize("name", SLIDERS)
def test_number_and_picture_follow(opened, name):
    shown = Shown(opened, name)
    assert shown.disagreement() == ""
    before = shown.answer(), shown.picture(), shown.inputs()
    if SLIDERS[name]:
        shown.slide(SLIDERS[name])
    else:
        shown.type("typed", "0.3")
    assert shown.disagreement() == ""
    after = shown.answer(), shown.picture(), shown.inputs()
    assert after[1], f"{after[0]!r}: no picture to compare"
    assert all(a != b for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("name", [name for name in SLIDERS if SLIDERS[name]])
def test_a_slider_is_moved_by_the_keyboard(opened, name):
    shown = Shown(opened, name)
    before, handle = shown.inputs(), shown.box.locator(f".input-{SLIDERS[name]} .noUi-handle")
    handle.press("ArrowLeft")
    assert shown._within(FOLLOWS, lambda: shown.inputs() != before)
    assert shown.disagreement() == ""


@pytest.mark.parametrize("name", SLIDERS)
def test_it_is_laid_out_as_a_form(opened, name):
    """One input in a row: no label is cut, all begin and end at the same places, and each has a name."""
    box = Shown(opened, name).box
    rows = box.locator(".calculator-input, .calculator-preset").evaluate_all(
        """rows => rows.map(row => {
            const edges = e => e.getBoundingClientRect(), label = row.querySelector('.widget-label');
            const fields = [...row.querySelectorAll('select, input')], last = fields[fields.length - 1];
            return {
                cut: label.scrollWidth > label.clientWidth + 1, left: edges(label).right,
                top: edges(row).top, bottom: edges(row).bottom, last: last.type === 'checkbox' ? null : edges(last).right,
                named: fields.every(e => e.title || e.labels[0].textContent),
            };
        })"""
    )
    assert len(rows) == len(calculators.find(name).inputs) + 1
    assert not any(row["cut"] for row in rows) and all(row["named"] for row in rows)
    assert len({round(row["left"]) for row in rows}) == 1
    ends = [row["last"] for row in rows if row["last"] is not None]
    assert max(ends) - min(ends) < 1 and max(ends) <= box.bounding_box()["x"] + box.bounding_box()["width"]
    assert all(above["bottom"] <= below["top"] for above, below in itertools.pairwise(rows))


def test_a_broken_calculator_is_noticed(lab, page):
    """What the check above is worth: three that are wrong, each in its own way, and one that is right."""
    notebook = "notebooks/broken_calculators.ipynb"
    classes = [source.split("(")[0].removeprefix("class ") for source in BROKEN.values()]
    shows = [f"{name}('matmul')" for name in [*classes, "calculators.Calculator"]]
    write_notebook(lab.home / notebook, ["from utils.napkin import calculators", *BROKEN.values(), *shows])
    with lab.opened(page, notebook):
        lab.run_all(page)
        found = {}
        for place, name in enumerate(["deaf", "wrong", "stale", "right"]):
            shown = Shown(page, "matmul", place)
            before = shown.disagreement(NEVER if name == "wrong" else FOLLOWS)
            shown.slide("k")
            found[name] = [before, shown.disagreement(FOLLOWS if name == "right" else NEVER)]
    assert found["right"] == ["", ""] and found["stale"] == ["", "draws another picture"]
    assert found["deaf"][0] == "" and found["deaf"][1].startswith("says ")
    assert all(said.startswith("says ") for said in found["wrong"])
