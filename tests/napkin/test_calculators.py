"""The calculators without a browser: what one is made of, what a cell shows, and what it is where no scripts run."""

import base64
import html
import json
import re
import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree

import nbformat
import pytest
from helpers.paths import ROOT
from matplotlib.colors import to_rgb

from utils.course.notebooks.notebook import read
from utils.facts import PROCESSORS
from utils.napkin import calculators
from utils.napkin.calculators import NAMES, answer, description, evaluate, picture
from utils.site.lecture import render

SVG = "{http://www.w3.org/2000/svg}"


def first(name: str) -> dict:
    return next(iter(description(name)["presets"].values()))


def image(page: str) -> str:
    """The picture in a piece of HTML, as SVG."""
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    return base64.b64decode(data).decode()


def texts(svg: str) -> list[str]:
    return [each.text for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", NAMES)
def test_each_named_state_sets_everything_and_has_an_answer_and_a_picture(name):
    calculator, said, drawn = description(name), set(), set()
    assert len(calculator["presets"]) >= 4 and calculator["title"].endswith("?")
    for state, inputs in calculator["presets"].items():
        assert inputs.keys() == {each["name"] for each in calculator["inputs"]}, state
        given = answer(name, inputs)
        assert not given.get("refused") and len(given["words"]) > 1, (state, given["words"])
        said.add(tuple(given["words"]))
        drawn.add(picture(name, inputs))
    assert len(said) == len(calculator["presets"]) and len(drawn) > 1


@pytest.mark.parametrize("name", NAMES)
def test_each_input_changes_the_answer(name):
    """From some named state, set to something else."""
    for each in description(name)["inputs"]:
        moved = {
            "count": lambda value, each: "2" if value != "2" else "4",
            "amount": lambda value, each: "7.5",
            "slide": lambda value, each: each["low"] + each["step"] if value == each["low"] else each["low"],
            "choice": lambda value, each: each["options"][value == each["options"][0]],
            "toggle": lambda value, each: not value,
            "typed": lambda value, each: "3, 5" if each["name"] == "shape" else "3",
        }[each["kind"]]
        states = description(name)["presets"].values()
        pairs = [(inputs, inputs | {each["name"]: moved(inputs[each["name"]], each)}) for inputs in states]
        assert any(answer(name, one)["words"] != answer(name, other)["words"] for one, other in pairs), each["name"]


@pytest.mark.parametrize("name", NAMES)
def test_nonsense_in_any_box_is_answered_in_words_and_draws_nothing(name):
    for each in description(name)["inputs"]:
        nonsense = ["", "eight <b>", "1e40"] if each["kind"] in ("count", "amount") else []
        nonsense += ["0", "-4"] if nonsense else ["<b>"] if each["kind"] == "typed" else []
        for text in nonsense:
            given = answer(name, first(name) | {each["name"]: text})
            assert given.get("refused") and len(given["words"]) == 1, (each["name"], text, given["words"])
            assert re.fullmatch(r"No answer: .{20,200}\.", given["words"][0]), given["words"]
            assert picture(name, first(name) | {each["name"]: text}) == ""


def test_every_place_of_a_slider_is_a_number_that_the_calculator_reads():
    scales = [each for name in NAMES for each in description(name)["inputs"] if "base" in each]
    assert len(scales) > 10
    for scale in scales:
        given = json.dumps(scale)
        places = f"Array.from({{ length: lastPlace({given}) + 1 }}, (_, place) => place)"
        there = evaluate(f"{places}.map((place) => numberAt({given}, place))")
        read_back = evaluate(f"{places}.map((place) => read({given}, written(numberAt({given}, place))))")
        assert read_back == pytest.approx(there, rel=0.006), scale
        back = evaluate(f"{places}.map((place) => placeOf({given}, numberAt({given}, place)))")
        assert back == list(range(len(there))), "and the slider finds its place again"


def test_a_slider_goes_as_far_as_it_can():
    scale = json.dumps({"kind": "count", "low": 6, "high": 13, "base": 10})
    assert evaluate(f"[1e20, 0, -5].map((number) => placeOf({scale}, number))") == [140, 0, 0]


@pytest.mark.parametrize("model", description("parameter-shares")["presets"])
def test_wherever_a_slider_of_the_sizes_is_moved_there_is_an_answer(model):
    name, before = "parameter-shares", description("parameter-shares")["presets"][model]
    for each in description(name)["inputs"][1:4]:
        seen = set()
        for power in range(each["low"], each["high"] + 1):
            stop = f"CALCULATORS['{name}'].stop('{each['name']}', {2**power}, {json.dumps(before)})"
            now = before | {each["name"]: evaluate(stop)}
            now |= evaluate(f"CALCULATORS['{name}'].follow({json.dumps(before)}, {json.dumps(now)})")
            assert not answer(name, now).get("refused"), (now, answer(name, now)["words"])
            seen.add(now[each["name"]])
        assert len(seen) >= 3, "25 has no more divisors"


# Pictures


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_well_formed_and_stays_within_its_edges(name):
    for inputs in description(name)["presets"].values():
        for width in (280, 640, 720):
            svg = ElementTree.fromstring(picture(name, inputs, width))
            assert svg.get("width") == str(width)
            for element in svg.iter():
                numbers = [element.get(key) for key in ("x", "y", "width", "height", "cx", "cy", "points", "d")]
                assert not any("NaN" in value or "Infinity" in value for value in numbers if value), (name, inputs)
                if element.tag == f"{SVG}rect":
                    assert float(element.get("x")) + float(element.get("width")) <= width + 1, (name, inputs, width)


def grey(colour: str) -> float:
    """How light a colour looks, 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True)) ** (1 / 2.4)


@pytest.mark.parametrize("name", ["parameter-shares", "memory-budget", "step-memory"])
def test_parts_that_touch_differ_without_colour(name):
    """Every other part is hatched, each in its turn; in the legend too."""
    svg = list(ElementTree.fromstring(picture(name, first(name))))
    hatched = [
        (part.get("fill"), "hatch" in (after.get("class") or ""))
        for part, after in pairwise(svg)
        if part.get("class") == "outlined" and float(part.get("width") or 9) >= 3
    ]
    patterns = dict(hatched)
    assert len(patterns) >= 3 and all(patterns[colour] == hatch for colour, hatch in hatched)
    legend = [colour for colour, _ in hatched[-len(patterns) :]]
    assert all(patterns[one] != patterns[other] for one, other in pairwise(legend))
    assert all(grey(colour) < 0.9 for colour in patterns), "a white hatch is seen"


# In a cell, and where no scripts run


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_holds_all_that_the_calculator_needs(name):
    shown = calculators.show(name)
    page, words = shown._repr_html_(), answer(name, first(name))["words"]
    assert f'<div data-calculator="{name}">' in page and page.count("<script>") == 1
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|fetch\(|import\(", page), (
        "nothing from elsewhere"
    )
    assert len(page) < 80_000
    assert repr(shown).splitlines()[1:] == words
    still = calculators.still_html(name)
    assert all(html.escape(line) in still for line in words) and calculators.SCRIPTS in still
    assert image(still) == picture(name, first(name)) and "</script" not in calculators.script(*NAMES)


def test_an_unknown_calculator_is_refused_with_all_names():
    with pytest.raises(LookupError, match=f"no calculator 'tax': one of {', '.join(NAMES)}"):
        calculators.show("tax")


def test_a_page_of_the_site_shows_its_first_state(tmp_path):
    shown = calculators.show("dtypes")._repr_html_()
    output = nbformat.v4.new_output("display_data", data={"text/html": shown, "text/plain": "?"})
    cell = nbformat.v4.new_code_cell("show()", outputs=[output], id="calculator-dtypes")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "executed.ipynb")
    page = render(read(tmp_path / "executed.ipynb"), {}, {}, {}, {}).html
    assert "bf16 holds 0.10009765625" in page and "data-calculator" in page and "<script" not in page
    assert image(page) == image(shown)


# Facts stand once

WITH_ONE_MORE_GPU = """
import json
from dataclasses import replace

from utils import facts

more = replace(facts.find_processor("NVIDIA H200"), name="NVIDIA X1", bandwidth=9e12, memory=300 * 10**9)
facts.PROCESSORS = (more, *facts.PROCESSORS)

from utils.napkin.calculators import NAMES, answer, description, picture

told = {}
for name in NAMES:
    for state, inputs in description(name)["presets"].items():
        told[f"{name}: {state}"] = answer(name, inputs)["words"]
        if "gpu" in inputs:
            own = inputs | {"gpu": "X1"}
            assert "X1" in " ".join(answer(name, own)["words"]) and picture(name, own), own
print(json.dumps(told))
"""


@pytest.mark.slow
def test_a_gpu_that_is_added_to_the_facts_answers_everywhere_and_changes_no_other():
    """It comes first in the table, so that every other changes its place."""
    done = subprocess.run([sys.executable, "-c", WITH_ONE_MORE_GPU], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    before = {f"{name}: {state}": words for name in NAMES for state, words in calculators.states(name).items()}
    assert json.loads(done.stdout) == before


def test_every_processor_can_be_chosen_by_a_short_name_of_its_own():
    short = [calculators.short_name(processor.name) for processor in PROCESSORS]
    assert len(set(short)) == len(short) and {"A100", "H100", "RTX 4090", "T4", "Ryzen 7 7840U"} <= set(short)
    for processor in PROCESSORS:
        words = answer("memory-budget", first("memory-budget") | {"gpu": calculators.short_name(processor.name)})[
            "words"
        ]
        assert f"the {processor.memory / 1e9:.1f} GB of one {calculators.short_name(processor.name)}" in words[0]
