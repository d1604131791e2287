"""Calculators that a reader moves: `show("training-time")` as the last line of a cell. They are written in JavaScript.

Each NAME.js here is one calculator: its question, what can be set, its answer and its picture; shared/inputs.js says how one
is written, and what they share stands beside it. This module hands them the published facts, and puts them into a cell's
output or a page. A small JavaScript engine, QuickJS, answers here what a browser answers there: for readers whose page runs
no scripts, and for tests.
"""

import base64
import html
import json
import re
from dataclasses import asdict
from functools import cache
from pathlib import Path

import quickjs

from utils import facts
from utils.figures import numbers
from utils.figures.memory import COLOURS
from utils.figures.napkin import PARTS
from utils.napkin import formulas, papers

HERE = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in HERE.glob("*.js")))
SHARED = ("numbers", "inputs", "formulas", "pictures")  # in the order in which each needs the ones before
STILL = 640  # px: the width of a picture that no script draws
PLATE = "svg { background: #fff; }"  # behind a picture that stands alone, also where the page is dark
SCRIPTS = "Scripts do not run here, so nothing moves: run this cell in JupyterLab, Colab or VS Code to set it yourself."
CALLS = """
const calls = {
  describe: (name) => CALCULATORS[name],
  answer: answerTo,
  evaluate: (expression) => eval(expression),
  draw(name, inputs, width) {
    const answer = answerTo(name, inputs);
    return answer.refused ? "" : CALCULATORS[name].picture(answer, width);
  },
};
globalThis.call = (name, given) => JSON.stringify(calls[name](...JSON.parse(given)));
"""  # to Python; all goes to and fro as JSON


class Calculator:
    """One of the calculators. In a notebook it shows itself; where no scripts run, it is its first state."""

    def __init__(self, name: str):
        if name not in NAMES:
            raise LookupError(f"no calculator {name!r}: one of {', '.join(NAMES)}")
        self.name = name

    def __repr__(self) -> str:
        state, words = next(iter(states(self.name).items()))
        return "\n".join((f"{title(self.name)} {state}", *words))

    def _repr_html_(self) -> str:
        return (
            f'<div data-calculator="{self.name}">{still_html(self.name)}</div>'
            f"<style>{style()}</style><script>{script(self.name)}</script>"
        )


def show(name: str) -> Calculator:
    """The calculator of that name, to be the last line of a cell. LookupError, with all names, for another."""
    return Calculator(name)


# What a page needs


def script(*names: str) -> str:
    """The script that gives each element with data-calculator="NAME" its controls, for these calculators."""
    return _script([*names], _shared("page.js"))


def style() -> str:
    """The style sheet of calculators and their pictures."""
    return _shared("style.css") + _shared("picture.css")


def data() -> dict:
    """The published facts and the names that the scripts take from Python: nothing of it stands in them."""
    return {
        "processors": {
            short_name(each.name): {"flops": each.flops, "bandwidth": each.bandwidth, "memory": each.memory}
            for each in facts.PROCESSORS
        },
        "precisions": facts.PRECISIONS,
        "models": {name: asdict(shape) for name, shape in facts.MODELS.items()},
        "formats": {name: asdict(form) for name, form in facts.FORMATS.items()},
        "dtypeBytes": formulas.DTYPE_BYTES,
        "recipes": formulas.RECIPES,
        "shardedFrom": formulas.SHARDED_FROM,
        "few": formulas.FEW,
        "gpt3Tokens": papers.GPT3_TOKENS,
        "prefixes": numbers.PREFIXES,
        "spans": numbers.SPANS,
        "instants": numbers.INSTANTS,
        "colours": {"memory": COLOURS, "parameters": PARTS},
    }


def short_name(processor: str) -> str:
    """A processor's name without its maker and its module: "H100" for "NVIDIA H100 80GB HBM3"."""
    return re.sub(r"^(NVIDIA|AMD|Tesla) (GeForce )?|(-SXM4-80GB| 80GB HBM3)$", "", processor)


# What they answer where no script runs


def title(name: str) -> str:
    """The question that a calculator answers."""
    return description(name)["title"]


@cache
def description(name: str) -> dict:
    """What JavaScript says of a calculator: its title, its inputs, its named states as presets. Not to be changed."""
    return _call("describe", name)


def answer(name: str, inputs: dict) -> dict:
    """What a calculator answers for `inputs`, all of its arguments: its words, and the numbers that its picture needs.

    For inputs without an answer the words say why, and "refused" is true. NaN and infinities are None.
    """
    return _call("answer", name, inputs)


def states(name: str) -> dict[str, list[str]]:
    """The words of a calculator's named states, in order; it starts in the first."""
    return {state: answer(name, inputs)["words"] for state, inputs in description(name)["presets"].items()}


def picture(name: str, inputs: dict, width: int = STILL) -> str:
    """The picture of an answer as SVG, with its own style: an image. "" where there is no answer."""
    return _call("draw", name, inputs, width).replace(">", f"><style>{_shared('picture.css')}{PLATE}</style>", 1)


def still_html(name: str) -> str:
    """The first state of a calculator, as words and a picture."""
    state, inputs = next(iter(description(name)["presets"].items()))
    words = answer(name, inputs)["words"]
    first, *rest = map(html.escape, words)
    svg = base64.b64encode(picture(name, inputs).encode()).decode()
    return (
        f'<div class="still"><p>{html.escape(f"{title(name)} {state}")}</p>'
        f"<p><strong>{first}</strong><br>{'<br>'.join(rest)}</p>"
        f'<img alt="{html.escape(" ".join(words))}" src="data:image/svg+xml;base64,{svg}">'
        f"<p><small>{SCRIPTS}</small></p></div>"
    )


def evaluate(expression: str) -> object:
    """The value of a JavaScript expression over what the scripts share, for tests: "byteSize(2e9)"."""
    return _call("evaluate", expression)


def _call(name: str, *given: object):
    return json.loads(_engine().get("call")(name, json.dumps(given)))


@cache
def _engine() -> quickjs.Context:
    """A JavaScript engine in which all calculators are."""
    context = quickjs.Context()
    context.eval(_script(NAMES, CALLS))
    return context


def _script(names, ending: str) -> str:
    """The named calculators, each in a block of its own, between what they share and `ending`; as one function."""
    facts_and_names = json.dumps(data(), ensure_ascii=False, separators=(",", ":"))
    shared = "".join(_shared(f"{name}.js") for name in SHARED)
    blocks = "".join(f"{{\n{(HERE / f'{name}.js').read_text(encoding='utf-8')}}}\n" for name in names)
    return f'(() => {{\n"use strict";\nconst DATA = {facts_and_names};\n{shared}{blocks}{ending}}})();\n'


def _shared(name: str) -> str:
    return (HERE / "shared" / name).read_text(encoding="utf-8")
