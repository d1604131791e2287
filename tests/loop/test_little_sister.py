"""The student's program and utils.loop.train, side by side: with the same settings they end with the same bits."""

import re

import pytest
import torch
from helpers.paths import ROOT

from utils.loop import Config, train

STAGE = ROOT / "notebooks" / "program" / "14_many_ranks.py"
# Powers of two in the rate and the warm-up: their products are exact, in whichever order each of the two takes them.
SMALL = {
    "steps": 24, "batch_size": 8, "context": 16, "width": 16, "heads": 2, "layers": 1,
    "learning_rate": 2**-6, "warmup": 4, "weight_decay": 0.125, "clip": 0.25, "dropout": 0.0,
}  # fmt: skip


def program_with(**settings: object) -> str:
    """The program's text with these settings in the place of its own. Raises KeyError for one that it does not have."""
    text = STAGE.read_text().replace("% 100 == 0", "% 10 == 0")
    for name, value in settings.items():
        text, found = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value!r}  ", text, flags=re.MULTILINE)
        if not found:
            text, found = _in_a_tuple(text, name, value)
        if not found:
            raise KeyError(name)
    return text


def _in_a_tuple(text: str, name: str, value: object) -> tuple[str, int]:
    for line in text.splitlines():
        names, _, values = line.partition(" = ")
        if name in names.split(", ") and not line.startswith(" "):
            values = values.split(", ")
            values[names.split(", ").index(name)] = repr(value)
            return text.replace(line, f"{names} = {', '.join(values)}"), 1
    return text, 0


def run_program(change: tuple[str, str] = ("", ""), **settings: object) -> dict:
    """Its names after it has run here, with one piece of its text changed into another."""
    old, new = change
    text = program_with(**SMALL | settings)
    assert text.count(old) == 1 or not old, old
    names = {"__name__": "program"}
    random = torch.get_rng_state()
    try:
        exec(compile(text.replace(old, new) if old else text, STAGE.name, "exec"), names)
    finally:
        torch.set_rng_state(random)
    return names


class Windows(torch.utils.data.Dataset):
    """Of the program's text: the one that begins at letter i, and the letters that follow its letters."""

    def __init__(self, program: dict):
        self.tokens, self.context, self.cut = program["tokens"].cpu(), program["context"], program["cut"]

    def __len__(self) -> int:
        return self.cut - self.context

    def __getitem__(self, i: int):
        window = self.tokens[i : i + self.context + 1]
        return window[:-1], window[1:]


def starts_of(program: dict):
    """The program's own draw: step → where the windows of its batch begin."""

    def starts(step: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(step)
        last = program["cut"] - program["context"]
        return torch.randint(0, last, (program["batch_size"], 1), generator=generator).flatten()

    return starts


def trained_by_the_loop(program: dict, precision: str = "fp32", **others) -> torch.nn.Module:
    """A model with the program's first weights, trained by utils.loop.train with the program's settings."""
    torch.manual_seed(0)
    model = program["GPT"]().to(program["device"])
    config = Config(
        steps=program["steps"], batch_size=program["batch_size"], accumulation=program["parts"], lr=SMALL["learning_rate"],
        warmup=program["warmup"], schedule="cosine", clip=program["clip"], precision=precision, save_every=8, **others,
    )  # fmt: skip
    train(
        model, Windows(program), config=config, order=starts_of(program),
        optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=program["weight_decay"]),
    )  # fmt: skip
    return model


def differing(a: torch.nn.Module, b: torch.nn.Module) -> list[str]:
    others = dict(b.named_parameters())
    return [name for name, p in a.named_parameters() if not torch.equal(p, others[name])]


@pytest.mark.parametrize(
    ("settings", "precision"),
    [
        pytest.param({}, "fp32", id="clip, warm-up, cosine, decay"),
        pytest.param({"parts": 2}, "fp32", id="a batch in two parts"),
        pytest.param({"half": torch.bfloat16}, "bf16", id="bfloat16"),
        pytest.param({"checkpointed": True}, "fp32", id="checkpointed layers"),
    ],
)
def test_the_program_and_the_loop_end_with_the_same_bits(settings, precision):
    program = run_program(**settings)
    assert differing(program["model"], trained_by_the_loop(program, precision)) == []


@pytest.mark.parametrize(
    "change",
    [
        ("ranks * total / count", "ranks * total / len(x)"),
        ("ranks * total / count", "ranks * total"),
        ("    optimizer.zero_grad()\n", ""),
        ("    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)", "    norm = torch.zeros(())"),
        ('["lr"] = rate(step)', '["lr"] = rate(step + 1)'),
        ("    optimizer.zero_grad()\n", "    if step % 2:\n        optimizer.zero_grad()\n"),
        ("x, y = batch(step)", "x, y = batch(step + 1)"),
        ("weight_decay=weight_decay", "weight_decay=0"),
    ],
)
def test_a_program_with_one_line_wrong_ends_elsewhere(change):
    program = run_program(change, parts=2)
    assert len(differing(program["model"], trained_by_the_loop(program))) > 10


def test_stopped_and_gone_on_with_it_ends_there_too(tmp_path, monkeypatch):
    monkeypatch.setenv("STATE_FILE", str(tmp_path / "gpt.pt"))
    first_line = "    x, y = batch(step)\n"
    with pytest.raises(KeyboardInterrupt):
        run_program((first_line, f"    if step == 17:\n        raise KeyboardInterrupt\n{first_line}"))
    program = run_program()
    assert program["first"] == 10
    assert differing(program["model"], trained_by_the_loop(program)) == []
