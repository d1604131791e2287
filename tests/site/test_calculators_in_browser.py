"""The browser's calculators say what Python's say, word by word, over a grid of what a page lets a reader set."""

import json
import random
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from helpers.paths import ROOT

from utils.napkin import calculators
from utils.napkin.calculators import CALCULATORS, Choice, Scale, ScaleControl, Slide, Switch, Typed
from utils.site import calculators as site
from utils.site.frame import STATIC

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is missing, which runs the site's scripts without a browser")
SHAPES = ("4, 6", "5", "", "2, 3, 4", "(7, 1, 2)", "torch.Size([3, 5])", "1 8", "6x1", "300000, 400000, 70000")
NUMBERS = (
    *("0", "-0", "1", "0.1", "-0.3", "1/3", "-2/7", "257", "65504", "65519.99", "65520", "448", "464", "465", "-480"),
    *("3e-7", "1e-8", "2.9802322387695312e-8", "1e-45", "5e-324", "1e-400", "1e400", "1.7976931348623157e308", "1_000"),
    *("inf", "-Infinity", "∞", "nan", "3.14159265358979", "16777217", "0.000015258789", "123456789012345678901234"),
)
NONSENSE = (
    "",
    "eight",
    "1,02",
    "8BB",
    "-3",
    "0",
    "2.5",
    "1e31",
    "1e-31",
    "it's",
    'a "quoted" word of more than forty letters',
)
RUNNER = """
const fs = require("fs");
for (const file of process.argv.slice(1)) require(file);
const asked = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map(([name, inputs]) => globalThis.courseCalculators.answer(name, inputs).words)));
"""


def settings_of(control, inputs: dict) -> list:
    """What the grid sets one control to."""
    match control:
        case Choice():
            return list(control.options.values())
        case Switch():
            return [False, True]
        case Slide():
            places = round((control.high - control.low) / control.step)
            return [round(control.low + control.step * at, 9) for at in range(0, places + 1, max(1, places // 6))]
        case Scale():
            slider = ScaleControl(control, inputs[control.name])
            last = slider._place_of(control.base**control.high)
            places = range(0, last + 1, max(1, last // 8))
            return [calculators.written(slider._there(place)) for place in places] + ["1e18", *NONSENSE]
        case Typed(name="shape"):
            return list(SHAPES + NONSENSE)
        case Typed(name="typed"):
            return list(NUMBERS + NONSENSE)
        case Typed():
            return ["0", "1", "5000", *NONSENSE]


def cases() -> list[tuple[str, dict]]:
    """From each named state: one control moved after the other, and some settings of all at once."""
    drawn = random.Random(0)
    found = []
    for name, spec in CALCULATORS.items():
        for inputs in spec.presets.values():
            grid = {each.name: settings_of(each, inputs) for each in spec.inputs}
            found += [(name, inputs)]
            found += [(name, inputs | {each: value}) for each, values in grid.items() for value in values]
            found += [(name, {each: drawn.choice(values) for each, values in grid.items()}) for _ in range(20)]
    return [(name, inputs) for name, inputs in found if _small(inputs)]


def _small(inputs: dict) -> bool:
    """Whether a schedule has few steps: a million of them cost a second."""
    return inputs.get("steps") not in ("1M", "316,000", "312,000")


def in_python(name: str, inputs: dict) -> list[str]:
    try:
        return list(CALCULATORS[name].answer(**inputs).words)
    except (ValueError, LookupError) as error:
        return [f"No answer: {error.args[0]}"]


def in_javascript(folder, asked: list[tuple[str, dict]]) -> list[list[str]]:
    """The words of the scripts of a page, whose data lie in `folder`."""
    command = [NODE, "-e", RUNNER, str(folder / site.SCRIPTS[0]), str(STATIC / site.SCRIPTS[1])]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
@needs_node
def test_both_languages_say_the_same(tmp_path):
    asked = cases()
    site.write_data(tmp_path / site.SCRIPTS[0])
    said = in_javascript(tmp_path, asked)
    differ = [(*case, python, js) for case, js in zip(asked, said, strict=True) if js != (python := in_python(*case))]
    assert differ[:3] == []
    answered = Counter(
        name for (name, _), words in zip(asked, said, strict=True) if not words[0].startswith("No answer")
    )
    assert answered.keys() == CALCULATORS.keys() and min(answered.values()) > 50


WITH_ONE_MORE_GPU = """
import json, sys
from dataclasses import replace
from pathlib import Path

from utils import facts

more = replace(facts.find_processor("NVIDIA H200"), name="NVIDIA X1", bandwidth=9e12, memory=300 * 10**9)
facts.PROCESSORS = (more, *facts.PROCESSORS)

from utils.site import calculators as site
from utils.napkin.calculators import CALCULATORS

site.write_data(Path(sys.argv[1]))
told = []
for name, spec in CALCULATORS.items():
    for inputs in spec.presets.values():
        told.append((name, inputs, spec.answer(**inputs).words))
        for choice in spec.inputs:
            if choice.name == "gpu":
                answer = spec.answer(**inputs | {"gpu": choice.options["X1"]})
                assert spec.draw(answer)
                told.append((name, inputs | {"gpu": more.name}, answer.words))
print(json.dumps(told))
"""


@pytest.mark.slow
@needs_node
def test_a_gpu_that_is_added_to_the_facts_answers_in_both_languages_and_renames_no_other(tmp_path):
    """It comes first in the table, so that every other changes its place."""
    command = [sys.executable, "-c", WITH_ONE_MORE_GPU, str(tmp_path / site.SCRIPTS[0])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    said = in_javascript(tmp_path, [(name, inputs) for name, inputs, _ in told])
    assert said == [words for *_, words in told]
    with_it = [inputs for _, inputs, _ in told if inputs.get("gpu") == "NVIDIA X1"]
    without = [inputs for _, inputs, _ in told if inputs not in with_it]
    assert len(with_it) > 15 and all("X1" not in json.dumps(inputs) for inputs in without)
    assert without == [inputs for spec in CALCULATORS.values() for inputs in spec.presets.values()]
