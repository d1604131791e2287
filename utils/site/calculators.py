"""The calculators on a page. In a browser static/calculators.js answers; this writes the facts that it computes with."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from utils import facts, napkin
from utils.figures import numbers
from utils.figures.memory import COLOURS
from utils.figures.napkin import PARTS
from utils.napkin import answers, formulas, papers, step_answers
from utils.napkin.calculators import CALCULATORS, OWN, Spec

SCRIPTS = "calculators_data.js", "calculators.js", "calculators_view.js"  # in the order in which a page loads them


@dataclass(frozen=True)
class ShownCalculator:
    """A calculator and, for browsers without JavaScript, its named states: (name, the lines of its answer)."""

    name: str
    title: str
    states: tuple[tuple[str, tuple[str, ...]], ...]
    place: str
    lecture: str


def calculators_shown(homes: dict[str, tuple[str, str]]) -> list[ShownCalculator]:
    """The calculators of the shown lectures, in their own order; homes: name → (address, lecture)."""
    return [
        ShownCalculator(
            name,
            spec.title,
            tuple((named, spec.answer(**inputs).words) for named, inputs in spec.presets.items()),
            *homes[name],
        )
        for name, spec in CALCULATORS.items()
        if name in homes
    ]


def write_data(path: Path) -> None:
    """Write the script with every fact, name and limit that calculators.js needs."""
    text = json.dumps(data(), ensure_ascii=False, separators=(",", ":"))
    path.write_text(f"globalThis.COURSE_CALCULATORS = {text};\n", encoding="utf-8")


def data() -> dict:
    """All that the browser's calculators take from Python: nothing of it stands in their scripts."""
    return {
        "specs": {name: _spec(spec) for name, spec in CALCULATORS.items()},
        "own": OWN,
        "processors": {each.name: {"flops": each.flops, "bandwidth": each.bandwidth} for each in facts.PROCESSORS},
        "short": {each.name: answers.short_name(each.name) for each in (*facts.PROCESSORS, *facts.OTHER_GPUS)},
        "memory": {each.name: each.memory for each in (*facts.PROCESSORS, *facts.OTHER_GPUS)},
        "models": {name: asdict(shape) for name, shape in facts.MODELS.items()},
        "formats": {name: asdict(form) for name, form in facts.FORMATS.items()},
        "dtypeBytes": napkin.DTYPE_BYTES,
        "storedAs": answers.STORED_AS,
        "inTraining": answers.IN_TRAINING,
        "compared": answers.COMPARED,
        "recipes": napkin.RECIPES,
        "shardedFrom": formulas.SHARDED_FROM,
        "sixteenBits": answers.SIXTEEN_BITS,
        "mostAxes": answers.MOST_AXES,
        "largest": answers.LARGEST,
        "few": formulas.FEW,
        "optimizerState": step_answers.STATE,
        "logits": answers.LOGITS,
        "latency": step_answers.LATENCY,
        "decay": step_answers.DECAY,
        "gpt3": [napkin.parameter_count(facts.MODELS["GPT-3 175B"]), papers.GPT3_TOKENS],
        "prefixes": numbers.PREFIXES,
        "letters": numbers.LETTERS,
        "spans": numbers.SPANS,
        "instants": numbers.INSTANTS,
        "colours": {"memory": COLOURS, "parameters": PARTS},
    }


def _spec(spec: Spec) -> dict:
    inputs = [{"kind": type(each).__name__, **asdict(each)} for each in spec.inputs]
    for each in inputs:
        if "options" in each:
            each["options"] = list(each["options"].items())  # in order, and whatever the values are
    return {"title": spec.title, "inputs": inputs, "presets": spec.presets}
