"""A calculator on a page, in JupyterLab or on the site: what is set, what it says, what it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from utils.napkin import calculators

if TYPE_CHECKING:  # `make test` collects these tests where no browser's driver is installed
    from playwright.sync_api import Locator, Page

ROLES = {"choice": "combobox", "toggle": "checkbox", "slide": "slider"}  # of all others a text box
TYPED = {"typed": "0.3", "shape": "3, 5", "warmup": "77"}  # what is typed where there is no slider


class ShownCalculator:
    def __init__(self, page: Page, name: str, place: int = 0):
        self.name, self.inputs_of = name, calculators.description(name)["inputs"]
        self.box = page.locator(f"[data-calculator={name}]").nth(place)
        self.box.locator(".live").scroll_into_view_if_needed()

    def control(self, each: dict) -> Locator:
        return self.box.get_by_role(ROLES.get(each["kind"], "textbox"), name=each["label"], exact=True)

    def slider(self, each: dict) -> Locator:
        return self.box.get_by_role("slider", name=each["label"], exact=True)

    def inputs(self) -> dict:
        """Each argument as a person reads it off the page."""
        return {each["name"]: self._read(each) for each in self.inputs_of}

    def _read(self, each: dict) -> object:
        control = self.control(each)
        if each["kind"] == "choice":
            return control.evaluate("select => select.selectedOptions[0].text")
        if each["kind"] == "toggle":
            return control.is_checked()
        return float(control.input_value()) if each["kind"] == "slide" else control.input_value()

    def says(self) -> list[str]:
        return self.box.locator(".answer p").all_text_contents()

    def picture(self) -> str:
        return self.box.locator(".drawn svg").evaluate("svg => svg.outerHTML")

    def is_right(self) -> bool:
        """Whether it says what another engine answers to what is set."""
        return self.says() == calculators.answer(self.name, self.inputs())["words"]

    def move(self, each: dict) -> None:
        """Set one input to something else, by the keyboard."""
        before = self.inputs()
        if each["kind"] in ("count", "amount", "slide"):
            self.slider(each).press("ArrowRight")
            if self.inputs() == before:  # it stands at its end, or at the last size that goes with the others
                self.slider(each).press("ArrowLeft")
        elif each["kind"] == "choice":
            last = self.control(each).evaluate("select => select.selectedIndex === select.length - 1")
            self.control(each).press("ArrowUp" if last else "ArrowDown")
        elif each["kind"] == "toggle":
            self.control(each).press(" ")
        else:
            self.control(each).fill(TYPED[each["name"]])

    def wrong_when_moved(self) -> list[str]:
        """The inputs after whose move it does not say what it should, or shows nothing new."""
        wrong = [] if self.is_right() else ["at first"]
        for each in self.inputs_of:
            before = self.inputs(), self.says(), self.picture()
            self.move(each)
            if self.says()[0].startswith("No answer"):
                self.box.get_by_label("start from").select_option(index=0)
            same = self.inputs() == before[0] or (self.says(), self.picture()) == before[1:]
            if same or not self.is_right():
                wrong.append(each["name"])
        return wrong
