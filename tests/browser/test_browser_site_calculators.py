"""The site's calculators, moved by mouse and by keyboard: they say what Python says, and their pictures follow."""

import pytest
from browsing import NARROW, ROOT

from utils.napkin.calculators import CALCULATORS, Choice, Scale, Slide, Switch

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SITE = ROOT / "build" / "site"


class Shown:
    """One calculator of the page: what is set, what it says, what it draws."""

    def __init__(self, page, name: str):
        self.spec = CALCULATORS[name]
        self.box = page.locator(f"[data-calculator={name}]")
        self.box.locator(".live").scroll_into_view_if_needed()

    def control(self, each):
        role = {Choice: "combobox", Switch: "checkbox", Slide: "slider"}.get(type(each), "textbox")
        return self.box.get_by_role(role, name=each.label, exact=True)

    def slider(self, each):
        return self.box.get_by_role("slider", name=each.label, exact=True)

    def inputs(self) -> dict:
        """Each argument as a person reads it off the page."""
        return {each.name: self._read(each) for each in self.spec.inputs}

    def _read(self, each) -> object:
        control = self.control(each)
        if isinstance(each, Choice):
            return each.options[control.evaluate("select => select.selectedOptions[0].text")]
        if isinstance(each, Switch):
            return control.is_checked()
        return float(control.input_value()) if isinstance(each, Slide) else control.input_value()

    def says(self) -> list[str]:
        return self.box.locator(".answer p").all_inner_texts()

    def picture(self) -> str:
        return self.box.locator(".drawn svg").evaluate("svg => svg.outerHTML")

    def is_right(self) -> bool:
        return self.says() == list(self.spec.answer(**self.inputs()).words)


@pytest.mark.parametrize("name", CALCULATORS)
def test_sliders_boxes_and_lists_move_words_and_picture(page, name):
    page.goto(f"{SITE.as_uri()}/calculators.html")
    shown = Shown(page, name)
    assert shown.is_right()
    for each in shown.spec.inputs:
        before = shown.inputs(), shown.says(), shown.picture()
        if isinstance(each, Scale | Slide):
            shown.slider(each).press("ArrowRight")
            if shown.inputs() == before[0]:  # it stands at its end, or at the last size that goes with the others
                shown.slider(each).press("ArrowLeft")
        elif isinstance(each, Choice):
            last = shown.control(each).evaluate("select => select.selectedIndex === select.length - 1")
            shown.control(each).press("ArrowUp" if last else "ArrowDown")
        elif isinstance(each, Switch):
            shown.control(each).press(" ")
        else:
            shown.control(each).fill({"typed": "0.3", "shape": "3, 5", "warmup": "77"}[each.name])
        if shown.says()[0].startswith("No answer"):
            shown.box.get_by_label("start from").select_option(index=0)
        assert shown.is_right() and shown.inputs() != before[0], each.name
        assert (shown.says(), shown.picture()) != before[1:], each.name
    assert page.watch.problems == []


def test_a_slider_is_dragged_by_the_mouse_and_says_its_value(page):
    page.goto(f"{SITE.as_uri()}/calculators.html")
    shown = Shown(page, "training-time")
    (tokens,) = [each for each in shown.spec.inputs if each.name == "tokens"]
    slider = shown.slider(tokens)
    track = slider.bounding_box()
    page.mouse.click(track["x"] + track["width"] / 4, track["y"] + track["height"] / 2)
    assert slider.get_attribute("aria-valuetext") == shown.inputs()["tokens"] != "15T"
    assert shown.is_right()


def test_what_has_no_answer_is_said_and_the_named_states_lead_back(page):
    page.goto(f"{SITE.as_uri()}/calculators.html")
    shown = Shown(page, "matmul")
    box = shown.control(shown.spec.inputs[0])
    box.fill("eight")
    box.press("Enter")
    assert shown.says() == ["No answer: m='eight' is no number: write it as 8B, 8e9 or 8,000,000,000"]
    assert not shown.box.locator(".drawn").is_visible()
    for name, inputs in shown.spec.presets.items():
        shown.box.get_by_label("start from").select_option(name)
        assert shown.inputs() == inputs and shown.is_right()


def test_in_its_lecture_and_on_a_phone(new_page):
    page = new_page(size=NARROW, dark=True)
    page.goto(f"{SITE.as_uri()}/07_memory_to_the_byte.html")
    shown = Shown(page, "step-memory")
    assert shown.is_right()
    wide = shown.box.locator("svg").bounding_box()["width"]
    assert wide <= NARROW["width"] and page.watch.problems == []


def test_without_javascript_the_named_states_are_read(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/calculators.html")
    states = page.locator("[data-calculator=overlap] dl")
    assert states.is_visible() and states.locator("dt").count() == len(CALCULATORS["overlap"].presets)
    context.close()
