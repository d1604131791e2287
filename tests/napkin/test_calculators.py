"""The calculators without a browser: what is set is answered and drawn, and told where no sliders can be."""

import base64
import html
import math
import re

import nbformat
import pytest
from helpers.figure_text import texts

from utils.course.notebooks.notebook import read
from utils.facts import OTHER_GPUS
from utils.napkin import answers, calculators
from utils.site.lecture import render

NAMES = list(calculators.CALCULATORS)
# An argument that a person may move, and what its slider or box then says.
MOVED = {
    "training-time": ("gpus", "2,048"),
    "storage-layout": ("step", 2),
    "dtypes": ("typed", "0.3"),
    "matmul": ("m", "512"),
    "parameter-shares": ("layers", "13"),
    "memory-budget": ("stage", 3),
    "n-against-d": ("days", "30"),
    "step-memory": ("batch", "16"),
    "overlap": ("ranks", "64"),
    "schedule": ("warmup", "2,000"),
}
# An argument, nonsense, and a piece of the answer in words.
NONSENSE = {
    "training-time": ("parameters", "eight", "parameters='eight' is no number"),
    "storage-layout": ("shape", "4, <b>", "such as 4, 6"),
    "dtypes": ("typed", "zero", "'zero' is no number"),
    "matmul": ("k", "-4", "k='-4' is no whole number above zero"),
    "parameter-shares": ("heads", "7", "does not split into heads=7"),
    "memory-budget": ("tokens", "0", "tokens='0'"),
    "n-against-d": ("days", "1e40", "beyond 1e30"),
    "step-memory": ("tokens", "0.5", "tokens='0.5' is no whole number above zero"),
    "overlap": ("bucket_mb", "0.001", "more than 10,000: give a larger one"),
    "schedule": ("warmup", "10000", "warmup=10000 of 10,000 steps: give a whole number from 0 to 9,999"),
}
# Amounts, which need not be whole.
AMOUNTS = {"days", "tokens_per_parameter", "backward_ms", "bucket_mb", "gigabytes_per_second", "peak"}


def png(page: str) -> bytes:
    """The picture in a piece of HTML."""
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return base64.b64decode(data)


@pytest.fixture(scope="module")
def first() -> dict[str, calculators.Calculator]:
    """Each calculator as it starts; drawing takes a while, so tests that change nothing share them."""
    return {name: calculators.show(name) for name in NAMES}


def test_there_are_ten():
    assert len(NAMES) == 10 and set(NAMES) == set(MOVED) == set(NONSENSE)


@pytest.mark.parametrize("name", NAMES)
def test_its_first_state_is_there_before_anything_is_moved(name, first):
    shown, spec = first[name], calculators.find(name)
    preset, inputs = next(iter(spec.presets.items()))
    assert shown.inputs == inputs and shown.preset.value == preset
    assert shown.answer.value == calculators.answer_html(spec.answer(**inputs).words)
    assert png(shown.picture.value).startswith(b"\x89PNG") and len(png(shown.picture.value)) < 100_000


@pytest.mark.parametrize("name", NAMES)
def test_where_no_widgets_are_shown_it_is_words_and_a_picture(name, first):
    shown = first[name]
    bundle = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    words = shown.spec.answer(**shown.inputs).words
    assert all(line in bundle["text/plain"] for line in words)
    assert all(html.escape(line) in bundle["text/html"] for line in words)
    assert png(bundle["text/html"]) == png(shown.picture.value)
    assert "alt=" in bundle["text/html"] and "http" not in bundle["text/html"]


@pytest.mark.parametrize("name", NAMES)
def test_each_part_can_be_found_by_its_class(name, first):
    shown = first[name]
    assert {"calculator", f"calculator-{name}"} <= set(shown._dom_classes)
    for argument, control in shown.controls.items():
        assert {"calculator-input", f"input-{argument}"} <= set(control._dom_classes)
    assert "calculator-answer" in shown.answer._dom_classes and "calculator-picture" in shown.picture._dom_classes
    assert "calculator-preset" in shown.preset._dom_classes


@pytest.mark.parametrize("name", NAMES)
def test_each_field_has_its_label_as_its_name(name, first):
    for each in calculators.find(name).inputs:
        control = first[name].controls[each.name]
        box = getattr(control, "box", None)
        assert each.label == (control.description if box is None else box.tooltip)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_moving_something_tells_and_draws_what_the_pure_function_says(name):
    argument, value = MOVED[name]
    shown = calculators.show(name)
    before = png(shown.picture.value)
    shown.controls[argument].value = value
    spec = calculators.find(name)
    inputs = next(iter(spec.presets.values())) | {argument: value}
    assert shown.answer.value == calculators.answer_html(spec.answer(**inputs).words)
    assert shown.picture.value == calculators.picture_html(calculators.state(name, inputs))
    assert png(shown.picture.value) != before
    assert shown.preset.value == calculators.OWN


@pytest.mark.parametrize("name", NAMES)
def test_nonsense_is_answered_in_words_and_forgotten_with_the_next_preset(name, monkeypatch):
    monkeypatch.setattr(calculators, "picture_html", lambda shown: str(shown.figure is not None))
    argument, value, words = NONSENSE[name]
    shown = calculators.show(name)
    before = shown.answer.value
    shown.controls[argument].value = value
    assert "No answer: " in shown.answer.value and html.escape(words) in shown.answer.value
    assert shown.picture.value == "False" and "<b>" not in shown.answer.value, "what was typed is no HTML"
    shown.preset.value = next(iter(shown.spec.presets))
    assert shown.answer.value == before and shown.picture.value == "True"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_named_state_has_an_answer_and_a_picture_and_is_set_by_its_preset(name, monkeypatch):
    found = calculators.states(name)
    assert len(found) >= 4 and [state.name for state in found] == list(calculators.find(name).presets)
    assert len({state.words for state in found}) == len(found)
    monkeypatch.setattr(calculators, "picture_html", lambda shown: "")
    shown = calculators.show(name)
    for state in found:
        assert state.figure is not None and texts(state.figure) and not state.words[0].startswith("No answer")
        shown.preset.value = state.name
        assert shown.inputs == state.inputs and shown.answer.value == calculators.answer_html(state.words)


def test_the_gpus_that_students_have_can_be_chosen_where_it_is_asked_what_fits():
    spec = calculators.find("memory-budget")
    (gpu,) = [each for each in spec.inputs if each.name == "gpu"]
    inputs = next(iter(spec.presets.values()))
    for processor in OTHER_GPUS:
        (short,) = [name for name, full in gpu.options.items() if full == processor.name]
        words = spec.answer(**inputs | {"gpu": processor.name}).words
        assert f"the {processor.memory / 1e9:.1f} GB of one {short}" in words[0], words[0]


def test_every_place_of_a_slider_is_a_number_that_the_calculator_reads():
    scales = {each for spec in calculators.SPECS for each in spec.inputs if isinstance(each, calculators.Scale)}
    assert len(scales) > 10
    for scale in scales:
        for place in range(round((scale.high - scale.low) * (20 if scale.base == 10 else 1)) + 1):
            there = scale.base ** (scale.low + place * (0.05 if scale.base == 10 else 1))
            text = calculators.written(there)
            assert answers.amount(scale.name, text) == pytest.approx(there, rel=0.05), (scale, text)
            if scale.name not in AMOUNTS:
                assert answers.count(scale.name, text) >= 1


def test_slider_and_box_follow_each_other():
    control = calculators.show("training-time").controls["parameters"]
    told = []
    control.observe(told.append, "value")
    control.slider.value = 1e9
    assert control.value == "1B"
    assert [calculators.written(n) for n in (0.5, 1.2589, 1024, 131_072, 7_943_282_347)] == [
        "0.5", "1.26", "1,024", "131,072", "7.94B",
    ]  # fmt: skip
    control.box.value = "70B"
    assert control.slider.value == pytest.approx(70e9, rel=0.06) and control.value == "70B", (
        "the box keeps what was typed"
    )
    control.box.value = "1e20"
    assert control.slider.value == 1e13 and control.value == "1e20", "the slider goes as far as it can"
    for nonsense in ("many", "0", "-5"):
        control.box.value = nonsense
    assert control.value == "-5" and control.slider.value == 1e6
    assert [change["new"] for change in told] == ["1B", "70B", "1e20", "many", "0", "-5"]


def test_an_even_slider_and_its_box_follow_each_other(monkeypatch):
    monkeypatch.setattr(calculators, "picture_html", lambda shown: "")
    shown = calculators.show("training-time")
    control = shown.controls["mfu"]

    def both() -> tuple:
        assert control.value == control.slider.value and round(control.value, 9) == shown.inputs["mfu"]
        return control.slider.value, control.box.value

    control.slider.value = 0.25
    assert both() == (0.25, "0.25")
    control.box.value = "0.3"
    assert both() == (0.3, "0.3")
    control.box.value = "7"
    assert both() == (1, "1"), "as far as the slider goes"
    for nonsense in ("half", "nan", ""):
        control.box.value = nonsense
        assert both() == (1, "1")
    control.slider.value = 0.4 + 1e-16 * 5
    assert both()[1] == "0.4"
    whole = calculators.show("storage-layout").controls["start"]
    whole.box.value = "3.7"
    assert (whole.value, whole.box.value) == (3, "3")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_browser_says_of_where_it_put_the_sliders_moves_nothing(name, monkeypatch):
    """A browser puts a slider on the nearest of its steps, and tells the kernel, with a rounding of its own."""
    monkeypatch.setattr(calculators, "picture_html", lambda shown: "")
    shown = calculators.show(name)
    for preset, inputs in shown.spec.presets.items():
        shown.preset.value = preset
        for control in shown.controls.values():
            if isinstance(control, calculators.ScaleControl):
                scale, step = control.scale, 0.05 if control.scale.base == 10 else 1
                power = round(math.log(control.slider.value, scale.base) / step) * step
                control.slider.set_state({"value": scale.base**power * (1 + 1e-12)})
            elif isinstance(control.value, float):
                control.slider.set_state({"value": control.value * (1 + 1e-12)})
        assert (shown.preset.value, shown.inputs) == (preset, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("model", list(calculators.find("parameter-shares").presets))
def test_wherever_a_slider_of_the_sizes_is_moved_there_is_an_answer(model, monkeypatch):
    monkeypatch.setattr(calculators, "picture_html", lambda shown: "")
    shown = calculators.show("parameter-shares")
    for name in ("width", "heads", "kv_heads"):
        scale = shown.controls[name].scale
        shown.preset.value = model
        before, seen = shown.inputs, set()
        for place in range(round(scale.high - scale.low) + 1):
            shown.controls[name].slider.value = 2.0 ** (scale.low + place)
            assert "No answer" not in shown.answer.value, (shown.inputs, shown.answer.value)
            seen.add(shown.inputs[name])
            moved = {each for each, value in shown.inputs.items() if value != before[each]}
            assert moved <= ({name, "kv_heads"} if name == "heads" else {name}), "all else stays as it was set"
            told = answers.count(name, shown.controls[name].value)
            near = min(max(told, 2**scale.low), 2**scale.high)
            assert abs(math.log2(shown.controls[name].slider.value) - math.log2(near)) <= 0.5, "slider and box agree"
        assert len(seen) >= 3  # 25 has no more divisors


def test_heads_that_are_moved_take_their_keys_along_and_typed_ones_too(monkeypatch):
    monkeypatch.setattr(calculators, "picture_html", lambda shown: "")
    shown = calculators.show("parameter-shares")
    assert (shown.inputs["heads"], shown.inputs["kv_heads"]) == ("12", "12")
    shown.controls["heads"].slider.value = 32.0
    assert (shown.inputs["heads"], shown.inputs["kv_heads"]) == ("32", "32")
    shown.controls["heads"].box.value = "24"
    assert (shown.inputs["heads"], shown.inputs["kv_heads"]) == ("24", "24")
    shown.controls["kv_heads"].box.value = "5"
    assert "heads=24 do not share kv_heads=5 evenly: choose kv_heads 4 or 6" in shown.answer.value
    assert shown.inputs["kv_heads"] == "5", "what was typed stays"
    shown.controls["width"].box.value = "1,000"
    assert "choose width 984 or 1008, or heads 20 or 25" in shown.answer.value


def test_a_slider_that_stops_where_it_was_goes_back_there(monkeypatch):
    monkeypatch.setattr(calculators, "picture_html", lambda shown: "")
    control = calculators.show("parameter-shares").controls["kv_heads"]
    before = control.slider.value
    control.slider.value = 256.0
    assert (control.value, control.slider.value) == ("12", before)


def test_a_moved_slider_counts_once(monkeypatch):
    shown = calculators.show("n-against-d")
    calls = []
    monkeypatch.setattr(calculators, "state", lambda *a, told=calculators.state: calls.append(a) or told(*a))
    shown.controls["days"].slider.value = 100.0
    assert len(calls) == 1 and calls[0][1]["days"] == "100"
    shown.preset.value = list(shown.spec.presets)[1]
    assert len(calls) == 2, "a preset sets all and is answered once"


def test_an_unknown_calculator_is_refused_with_all_names():
    with pytest.raises(LookupError, match=r"no calculator 'tax': one of training-time, storage-layout, dtypes, matmul"):
        calculators.show("tax")


def test_a_page_of_the_site_shows_its_first_state(first, tmp_path):
    output = nbformat.v4.new_output("display_data", data=first["dtypes"]._repr_mimebundle_())
    cell = nbformat.v4.new_code_cell("show()", outputs=[output], id="calculator-dtypes")
    book = nbformat.v4.new_notebook(cells=[cell])
    model = {"model_name": "VBoxModel", "model_module": "@jupyter-widgets/controls", "state": {}}
    state = {first["dtypes"].model_id: model}  # as nbclient keeps it
    book.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": state, "version_major": 2}}
    nbformat.write(book, tmp_path / "executed.ipynb")
    page = render(read(tmp_path / "executed.ipynb"), {}, {}, {}, {}).html
    assert "bf16 holds 0.10009765625" in page and png(page) == png(first["dtypes"].picture.value)
