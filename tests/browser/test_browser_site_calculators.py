"""The site's calculators, moved by mouse and by keyboard: they say what they should, and their pictures follow."""

import pytest
from browsing import NARROW, ROOT
from shown_calculator import ShownCalculator

from utils.napkin import calculators

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SITE = ROOT / "build" / "site"


@pytest.mark.parametrize("name", calculators.NAMES)
def test_sliders_boxes_and_lists_move_words_and_picture(page, name):
    page.goto(f"{SITE.as_uri()}/calculators.html")
    assert ShownCalculator(page, name).wrong_when_moved() == []
    assert page.watch.problems == []


def test_a_slider_is_dragged_by_the_mouse_and_says_its_value(page):
    page.goto(f"{SITE.as_uri()}/calculators.html")
    shown = ShownCalculator(page, "training-time")
    (tokens,) = [each for each in shown.inputs_of if each["name"] == "tokens"]
    slider = shown.slider(tokens)
    track = slider.bounding_box()
    page.mouse.click(track["x"] + track["width"] / 4, track["y"] + track["height"] / 2)
    assert slider.get_attribute("aria-valuetext") == shown.inputs()["tokens"] != "15T"
    assert shown.is_right()


def test_what_has_no_answer_is_said_and_the_named_states_lead_back(page):
    page.goto(f"{SITE.as_uri()}/calculators.html")
    shown = ShownCalculator(page, "matmul")
    box = shown.control(shown.inputs_of[0])
    box.fill("eight")
    box.press("Enter")
    assert shown.says() == ["No answer: m: “eight” is no number. Write it as 8B, 8e9 or 8,000,000,000."]
    assert not shown.box.locator(".drawn").is_visible()
    for name, inputs in calculators.description("matmul")["presets"].items():
        shown.box.get_by_label("start from").select_option(name)
        assert shown.inputs() == inputs and shown.is_right()


def test_in_its_lecture_and_on_a_phone(new_page):
    page = new_page(size=NARROW, dark=True)
    page.goto(f"{SITE.as_uri()}/01_tensors_and_strides.html")
    shown = ShownCalculator(page, "storage-layout")
    assert shown.is_right()
    wide = shown.box.locator("svg").bounding_box()["width"]
    assert wide <= NARROW["width"] and page.watch.problems == []


def test_without_javascript_the_named_states_are_read(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/calculators.html")
    states = page.locator("[data-calculator=overlap] dl")
    assert states.is_visible() and states.locator("dt").count() == len(calculators.states("overlap"))
    context.close()
