"""The cheat sheet: every line comes from a formula, a format, the lectures' code or the text of a claim.

Nothing here states a fact a second time. A formula is evaluated, a format asked, an update rule or an error message read off
the lecture's code; the claim behind the line must hold what comes out, and `problems` says where one does not.
"""

import ast
import html
import math
import re
from dataclasses import dataclass, field

import torch

from utils import facts, napkin
from utils.course.site import prose


@dataclass(frozen=True)
class Cell:
    """One field of a table: its HTML, the claims behind it, and the words that the first of them must hold.

    quiet: the claims are not shown again, as the head of the column shows them. label: said before it on a phone, where
    columns have no heads.
    """

    html: str
    claims: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    quiet: bool = False
    label: str = ""


@dataclass(frozen=True)
class Section:
    """One table of the sheet."""

    title: str
    lead: str
    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(default=())

    @property
    def narrow(self) -> str:
        """The layout on a phone: many short columns scroll sideways, others are stacked."""
        return "scroll" if len(self.head) > 4 else "stack"

    @property
    def anchor(self) -> str:
        return self.title.lower().replace(" ", "-")


def sections(claims: dict[str, str], sources: dict[str, str]) -> list[Section]:
    """The part of the sheet whose claims exist.

    claims: the text of each claim by its number. sources: the code of each cell, by "<lecture>/<cell id>".
    """
    made = [
        *_formulas(claims),
        _dtypes(claims),
        _optimizers(claims, sources),
        _order(claims),
        _errors(claims, sources),
    ]
    return [section for section in made if section.rows]


def problems(sheet: list[Section], claims: dict[str, str]) -> list[str]:
    """Problems of the sheet: a claim that is missing, or that lacks the words of the line that cites it."""
    found = []
    for section in sheet:
        for cell in (*section.head, *(cell for row in section.rows for cell in row)):
            found += [f"{section.title}: no claim {number}" for number in cell.claims if number not in claims]
            text = claims.get(cell.claims[0], "") if cell.claims else ""
            lacking = [words for words in cell.holds if not _stands(words, text)]
            found += [f"{section.title}: claim {cell.claims[0]} lacks {words!r}" for words in lacking]
    return found


def _stands(words: str, text: str) -> bool:
    """Whether the text contains the words, not as part of a longer number."""
    return re.search(rf"(?<![\d.,]){re.escape(words)}(?!\d|[.,]\d)", text) is not None


# Formulas


@dataclass(frozen=True)
class Formula:
    """A formula in Python, and an example: the claim contains the example's result, in the claim's own unit.

    values: of the names in the formula. unit: how many of the result make one of the claim's unit; shown: its format.
    """

    name: str
    formula: str
    values: dict[str, float]
    claim: str
    shown: str = "{:,.0f}"
    unit: float = 1

    @property
    def result(self) -> str:
        names = {"sqrt": math.sqrt, "ln": math.log, "e": math.e, "min": min}
        value = eval(
            self.formula, {"__builtins__": {}}, names | self.values
        )  # a formula of this file, never of a reader
        return self.shown.format(value / self.unit)

    @property
    def pretty(self) -> str:
        """As people write it: · for a product, √ and superscripts for roots and powers."""
        text = (
            self.formula.replace("**2", "²")
            .replace("sqrt", "√")
            .replace(" * ", " · ")
            .replace("*", "·")
            .replace(" - ", " − ")
        )
        return f"<code>{html.escape(text)}</code>"

    @property
    def example(self) -> str:
        given = ", ".join(f"{name} = {_number(value)}" for name, value in self.values.items())
        return html.escape(f"{given}: {self.result}")


def _number(value: float) -> str:
    if value == int(value):
        return f"{value:,.0f}" if value < 1e7 else _power(value)
    return f"{value:g}"


def _power(value: float) -> str:
    digits, _, power = f"{value:.3e}".partition("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits.rstrip('0').rstrip('.')} · 10{raised}"


H100, H100_BYTES = facts.peak_flops("NVIDIA H100 80GB HBM3", "bf16"), facts.memory_size("NVIDIA H100 80GB HBM3")
BANDWIDTH = facts.memory_bandwidth("NVIDIA H100 80GB HBM3")
TWO_WEEKS = 14 * napkin.DAY
BUDGET = 32 * TWO_WEEKS * H100 / 2
ADAMW = napkin.optimizer_bytes_per_parameter("fp32 adamw")
BILLION = 10**9
GPT_2 = facts.MODELS["GPT-2"]
PLANNED = napkin.parameter_count(facts.gpt_shape("planned in lecture 00", 40, 5120, 40, 2048, "GPT-3 13B"))

FORMULAS = {
    "FLOPs and time": (
        Formula("FLOPs of a matmul (m, k) @ (k, n)", "2 * m * k * n", {"m": 1024, "k": 4096, "n": 4096}, "3.2"),
        Formula("a training step, FLOPs per weight and example", "6 - 2 / L", {"L": 12}, "3.16", "{:.2f}"),
        Formula(
            "attention's FLOPs over those of the weights",
            "T / (6 * d)",
            {"T": 4096, "d": 4096},
            "3.23",
            "{:.1f} %",
            0.01,
        ),
        Formula("softmax of a row of T scores, operations", "5 * T - 2", {"T": 1024}, "3.11"),
        Formula(
            "a budget of FLOPs",
            "GPUs * seconds * peak * MFU",
            {"GPUs": 32, "seconds": TWO_WEEKS, "peak": H100, "MFU": 0.5},
            "0.1",
            "{:.3f} · 10²²",
            1e22,
        ),
        Formula(
            "parameters for a budget C, r tokens for each",
            "sqrt(C / (6 * r))",
            {"C": BUDGET, "r": 20},
            "0.1",
            "{:.2f} billion",
            BILLION,
        ),
        Formula(
            "days of a training run of N parameters, D tokens",
            "6 * N * D / (GPUs * peak * MFU) / 86400",
            {"N": 70 * BILLION, "D": 15000 * BILLION, "GPUs": 1024, "peak": H100, "MFU": 0.5},
            "0.7",
            "{:.0f} days",
        ),
        Formula(
            "MFU of a checkpointed Transformer block, from its HFU",
            "HFU * 3 / 4",
            {"HFU": 0.6},
            "3.29",
            "{:.0f} %",
            0.01,
        ),
        Formula(
            "intensity at which arithmetic begins to bind",
            "peak / bandwidth",
            {"peak": H100, "bandwidth": BANDWIDTH},
            "3.3",
            "{:.0f} on an H100",
        ),
    ),
    "Memory": (
        Formula(
            "weights, gradients and AdamW, bytes",
            "N * (4 + 4 + 8) / GPUs",
            {"N": PLANNED, "GPUs": 32},
            "0.19",
            "{:.1f}",
            BILLION,
        ),
        Formula(
            "largest model whose AdamW state fits",
            "GPUs * memory / bytes",
            {"GPUs": 32, "memory": H100_BYTES, "bytes": ADAMW},
            "0.3",
            "{:.0f} billion",
            BILLION,
        ),
        Formula(
            "parameters of a GPT",
            "L * (12 * d**2 + 13 * d) + (V + T + 2) * d",
            {"L": GPT_2.layers, "d": GPT_2.width, "V": GPT_2.vocabulary, "T": GPT_2.context},
            "0.9",
        ),
        Formula(
            "activations of a plain fp32 layer, bytes",
            "64 * B*T*d + 4 * B*H*T**2 + T**2 + 16 * B*T",
            {"B": 8, "T": 2048, "d": 4096, "H": 32},
            "7.25",
        ),
        Formula(
            "share that flash attention saves of them",
            "H * T / (16 * d + H * T)",
            {"H": 32, "T": 2048, "d": 4096},
            "7.29",
            "{:.0f} % at 2,048",
            0.01,
        ),
        Formula("checkpointing L layers in s segments, activations", "s + L / s", {"L": 64, "s": 8}, "7.44"),
        Formula("what no_grad saves of L layers with ReLU, times", "(L + 1) / 2", {"L": 32}, "7.21", "{:.1f}"),
        Formula("keys and values, bytes per token", "2 * L * h * w * b", {"L": 32, "h": 8, "w": 128, "b": 2}, "7.50"),
        Formula(
            "state on a rank under ZeRO-3, in GB", "16 * N / K", {"N": 7 * BILLION, "K": 8}, "13.46", "{:.1f}", BILLION
        ),
        Formula(
            "ring all-reduce, bytes that each rank sends", "2 * (K - 1) / K * bytes", {"K": 4, "bytes": 480}, "13.35"
        ),
    ),
    "Scales and noise": (
        Formula("standard deviation of weights that keep the variance", "1 / sqrt(d)", {"d": 1024}, "5.23", "{:.5f}"),
        Formula(
            "the same between layers of a and b (Xavier)", "sqrt(2 / (a + b))", {"a": 1024, "b": 512}, "5.23", "{:.5f}"
        ),
        Formula("learning rate at which SGD diverges", "2 / curvature", {"curvature": 25}, "6.3", "{:.2f}"),
        Formula("… with momentum μ", "2 * (1 + μ) / curvature", {"μ": 0.9, "curvature": 25}, "6.3", "{:.3f}"),
        Formula("loss of a classifier that knows nothing", "ln(K)", {"K": 10}, "11.6", "{:.3f} nats"),
        Formula("floor of the loss, if softmax is applied twice", "ln(C - 1 + e) - 1", {"C": 10}, "4.109", "{:.4f}"),
        Formula(
            "standard error of an accuracy p on n examples",
            "sqrt(p * (1 - p) / n)",
            {"p": 0.885, "n": 10_000},
            "11.13",
            "{:.4f}",
        ),
        Formula("noise of a gradient of B times the batch, divided by", "sqrt(B)", {"B": 8}, "6.126", "{:.2f}"),
    ),
}


def _formulas(claims: dict[str, str]) -> list[Section]:
    head = (Cell("what"), Cell("formula"), Cell("for example"))
    return [
        Section(
            title,
            "",
            head,
            tuple(
                (Cell(html.escape(each.name)), Cell(each.pretty), Cell(each.example, (each.claim,), (each.result,)))
                for each in formulas
                if each.claim in claims
            ),
        )
        for title, formulas in FORMULAS.items()
    ]


# Formats

DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
NORMAL = {"float32": "2.22", "bfloat16": "2.22", "float16": "2.22"}  # claims that state their smallest numbers


def _dtypes(claims: dict[str, str]) -> Section:
    head = (
        Cell("dtype"),
        Cell("bytes"),
        Cell("sign + exponent + mantissa", ("2.2",)),
        Cell("largest", ("2.21",)),
        Cell("smallest normal"),
        Cell("smallest above 0"),
        Cell("spacing above 1", ("2.5",)),
        Cell("counts up to", ("2.8",)),
    )
    there = {number for cell in head for number in cell.claims} | set(NORMAL.values()) <= set(claims)
    return Section("Dtypes", "Asked of torch.finfo.", head, tuple(map(_dtype, DTYPES)) if there else ())


def _dtype(name: str) -> tuple[Cell, ...]:
    info = torch.finfo(getattr(torch, name))
    mantissa = round(-math.log2(info.eps))
    bits = f"1 + {info.bits - 1 - mantissa} + {mantissa}"
    largest, count = f"{info.max:.5g}".replace("e+", "e"), _count(2 ** (mantissa + 1))
    small = [_two(value) for value in (info.smallest_normal, info.smallest_normal * info.eps)]
    behind = (NORMAL[name],) if name in NORMAL else ()
    return (
        Cell(f"<code>{name}</code>"),
        Cell(str(info.bits // 8)),
        Cell(bits, ("2.2",), (bits,), quiet=True),
        Cell(largest, ("2.21",), () if name == "float64" else (largest,), quiet=True),
        *(Cell(f"{power} = {value}", behind, (power,) if behind else ()) for power, value in small),
        Cell(f"{_two(info.eps)[0]} = {info.eps:.3g}", ("2.5",), ("2⁻⁷",) if name == "bfloat16" else (), quiet=True),
        Cell(count, ("2.8",), (count,), quiet=True),
    )


def _count(value: int) -> str:
    """As the claims write it: 2048, and 16,777,216."""
    return f"{value:,}" if value >= 10_000 else str(value)


def _two(value: float) -> tuple[str, str]:
    """A power of two as such, and in decimal digits."""
    raised = str(round(math.log2(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"2{raised}", f"{value:.3g}"


# Optimizers

# name → torch's class and settings, (cell, function) of the lecture's own code, the claim that it equals torch's, and a
# sentence worth knowing: its claim, and the words that it begins with.
OPTIMIZERS = {
    "SGD": (("SGD", {}), ("sgd-helper", "sgd"), "6.1", "6.3", "SGD's learning rate"),
    "momentum": (("SGD", {"momentum": 0.9}), None, "6.1", "6.2", "Under a constant"),
    "AdaGrad": (("Adagrad", {}), ("adagrad-helper", "adagrad"), "6.5", "6.104", "The steps go to zero"),
    "RMSProp": (("RMSprop", {}), ("adagrad-helper", "rmsprop"), "6.5", "6.7", "Under a constant"),
    "Adam": (("Adam", {}), ("adam-helper", "adam"), "6.5", "6.6", "Adam's first step"),
    "AdamW": (("AdamW", {}), ("adam-helper", "adamw"), "6.5", "6.13", "After 2,000 steps"),
    "Muon": (("Muon", {}), ("muon-helper", "muon"), "6.116", "6.117", "Muon makes"),
    "Adafactor": (("Adafactor", {}), ("adafactor-helper", "adafactor"), "6.112", "6.115", "For a matrix of"),
}
WHAT = "state, bytes per parameter"
STATE = "6.114"  # what each holds in bytes per parameter; Adafactor's depends on the shape


def _optimizers(claims: dict[str, str], sources: dict[str, str]) -> Section:
    head = (Cell("optimizer"), Cell(WHAT), Cell("worth knowing"), Cell("one step"))
    rows = []
    for name, (made, code, equal, known, start) in OPTIMIZERS.items():
        if {STATE, equal, known} <= set(claims):
            held = f"{state_bytes(*made):g}"
            shape = name == "Adafactor"
            state = Cell("rows + columns", (known,), label=WHAT) if shape else Cell(held, (STATE,), (held,), label=WHAT)
            source = f'<pre class="code">{html.escape(_function(sources, *code))}</pre>' if code else "as SGD's"
            rows.append((Cell(name), state, _excerpt(claims, known, start), Cell(source, (equal,))))
    return Section("Optimizers", "One step is the lecture's own code, which equals torch's.", head, tuple(rows))


def state_bytes(kind: str, settings: dict) -> float:
    """Bytes per parameter that torch's optimizer keeps of a float32 matrix, its step counter left out: measured."""
    p = torch.nn.Parameter(torch.zeros(8, 16))
    p.grad = torch.ones_like(p)
    optimizer = getattr(torch.optim, kind)([p], **settings)
    optimizer.step()
    kept = [value for value in optimizer.state[p].values() if isinstance(value, torch.Tensor) and value.dim()]
    return sum(value.nbytes for value in kept) / p.numel()


def _function(sources: dict[str, str], cell: str, name: str) -> str:
    """The source of a function that a cell of lecture 06 defines."""
    source = sources.get(f"06/{cell}", "")
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    return ast.get_source_segment(source, found[0]) if found else "(its cell is gone)"


def _excerpt(claims: dict[str, str], number: str, start: str) -> Cell:
    """The sentence of a claim that begins with these words."""
    text = claims[number]
    at = max(text.find(start), 0)
    rest = text[at:]
    end = re.search(r"[.!?](?=\s+[A-Z*`\"]|$)", rest)
    return Cell(prose.sentence(rest[: end.end()] if end else rest), (number,), (start,))


# The loop

VERBS = "9.71"  # names the verbs in their order
ELSEWHERE = {
    "zero": (("9.33", "Without `zero_grad`"), ("9.31", "Between backward and step")),
    "forward": (("9.41", "Forward makes activations"),),
    "loss": (("9.119", "Softmax before cross-entropy"),),
    "backward": (("9.36", '"Calling `backward` twice'),),
    "clip": (("9.37", "Clip before backward"), ("9.38", "Clip after step")),
    "step": (("9.39", '"None of'),),
    "schedule": (("9.40", "A schedule stepped before"),),
}


def verbs(claims: dict[str, str]) -> list[str]:
    """The verbs of a step in their order, as claim 9.71 lists them."""
    return [verb.strip(" .") for verb in claims[VERBS].partition("order: ")[2].split(",")]


def _order(claims: dict[str, str]) -> Section:
    head = (Cell("in this order"), Cell("and what happens elsewhere"))
    needed = {VERBS, "9.29", *(number for each in ELSEWHERE.values() for number, _ in each)}
    if not needed <= set(claims):
        return Section("The order of the loop", "", head)
    rows = [
        (Cell(f"<b>{verb}</b>", (VERBS,), (verb,), quiet=n > 0), _excerpt(claims, number, start))
        for verb in verbs(claims)
        for n, (number, start) in enumerate(ELSEWHERE[verb])
    ]
    return Section(
        "The order of the loop", "", head, (*rows, (Cell("24 orders"), _excerpt(claims, "9.29", "Of the 24")))
    )


# Errors

ERRORS = (
    *("10.1", "10.2", "10.3", "10.4", "10.8", "10.10", "10.11", "10.12", "10.13", "10.15", "10.20", "10.34"),
    *("1.10", "1.15", "1.28", "4.209", "4.108", "5.10", "5.112", "5.117", "7.42", "8.34", "12.10", "12.46", "13.23"),
)


def _errors(claims: dict[str, str], sources: dict[str, str]) -> Section:
    head = (Cell("the message"), Cell("what it means"))
    rows = []
    for number in ERRORS:
        proof = sources.get(f"{int(number.partition('.')[0]):02d}/proof-{number.replace('.', '-')}")
        if number in claims and proof is not None:
            lines = "\n".join(html.escape(message) for message in messages(proof))
            rows.append((Cell(f"<pre>{lines}</pre>"), Cell(prose.sentence(claims[number]), (number,))))
    lead = "Read off the proofs, which make each mistake and compare the message that comes."
    return Section("Common errors", lead, head, tuple(rows))


def messages(proof: str) -> list[str]:
    """The error messages that a proof expects: "RuntimeError: …" in a string, or in raises(RuntimeError, "…")."""
    found = []
    for node in ast.walk(ast.parse(proof)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"\w+Error: \S", node.value):
            found.append(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "raises" and len(node.args) == 2:
            kind, words = node.args
            if isinstance(words, ast.Constant):
                found.append(f"{ast.unparse(kind)}: … {words.value}")
    return list(dict.fromkeys(found))
