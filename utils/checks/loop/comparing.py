"""What several detectors compare: gradients, weights bit by bit, histories, the order of the examples."""

import torch
from torch import Tensor, nn

from utils.checks.toy_problem import EXAMPLES, NotJudged, Recording, Returned, norm_of
from utils.loop.log import MEASURED

# A key of a record with one of these in it holds what differs from run to run.
OF_THE_CLOCK = (MEASURED, "time", "second", "elapsed", "speed", "date", "memory")


def relative_error(got: list[Tensor | None], expected: list[Tensor]) -> float:
    wrong = [torch.zeros_like(e) if g is None else g for g, e in zip(got, expected, strict=True)]
    return norm_of([g - e for g, e in zip(wrong, expected, strict=True)]) / norm_of(expected)


def epochs_of(recording: Recording) -> list[Tensor]:
    """The ids of each epoch, in the order of training."""
    ids = torch.cat([(step.x[:, 0].double() * 64).round().long() for step in recording.steps])
    return list(ids.split(EXAMPLES))


def validations(result: Returned) -> list[dict]:
    """The records with a val_loss. Raises NotJudged if there is none."""
    records = result.history
    found = [record for record in records if "val_loss" in record]
    for record in [] if found else records:
        record.require("val_loss")
    if not records:
        raise NotJudged("the loop's history is empty")
    return found


def logged(recording: Recording, *keys: str) -> list[tuple[int, int, dict]]:
    """The records of the history with these keys, each with the steps it is about: (those before, those up to it, record).

    A history with a record of each step may number them from 0.
    """
    records = [record for record in recording.result.history if "val_loss" not in record or keys[0] in record]
    for record in records:
        record.require(*keys)
    if len(records) == len(recording.steps):
        ends = list(range(1, len(records) + 1))
    else:
        ends = [record["step"] for record in records]
    return list(zip([0, *ends], ends, records, strict=False))


def stable_history(result: Returned) -> list[dict] | None:
    """The history without measured times and rates, which differ from run to run. None if the loop returns none."""
    try:
        history = result.history
    except NotJudged:
        return None
    return [
        {key: value for key, value in record.items() if not any(word in str(key) for word in OF_THE_CLOCK)}
        for record in history
    ]


def first_difference(one: list[dict], other: list[dict]) -> str:
    pairs = zip([*one, None], [*other, None], strict=False)
    return "{} against {}".format(*next((a, b) for a, b in pairs if repr(a) != repr(b)))  # repr, because NaN != NaN


def assert_finite(model: nn.Module) -> None:
    bad = [name for name, t in model.state_dict().items() if not t.isfinite().all()]
    assert not bad, f"not finite: {', '.join(bad)}"


def equal_bits(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def assert_same_bits(one: list[Tensor], other: list[Tensor], what: str, advice: str = "") -> None:
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(a, b), (
            f"{what}: tensor {i} differs by {(a.double() - b.double()).abs().max().item():.3g}{advice and f': {advice}'}"
        )
