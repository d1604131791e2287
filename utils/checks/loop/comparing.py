"""What several detectors compare: gradients, weights bit by bit, histories, the order of the examples."""

import torch
from torch import Tensor, nn

from utils.checks.toy_problem import EXAMPLES, Recording, Returned, norm_of
from utils.loop.log import MEASURED


def relative_error(got: list[Tensor | None], expected: list[Tensor]) -> float:
    wrong = [torch.zeros_like(e) if g is None else g for g, e in zip(got, expected, strict=True)]
    return norm_of([g - e for g, e in zip(wrong, expected, strict=True)]) / norm_of(expected)


def epochs_of(recording: Recording) -> list[Tensor]:
    """The ids of each epoch, in the order of training."""
    ids = torch.cat([(step.x[:, 0].double() * 64).round().long() for step in recording.steps])
    return list(ids.split(EXAMPLES))


def validations(result) -> list[dict]:
    return [record for record in result.history if "val_loss" in record]


def stable_history(result: Returned) -> list[dict] | None:
    """The history without measured times and rates, which differ from run to run. None if the loop returns none."""
    history = getattr(result.value, "history", None)
    return history and [{key: value for key, value in record.items() if key != MEASURED} for record in history]


def first_difference(one: list[dict], other: list[dict]) -> str:
    pairs = zip([*one, None], [*other, None], strict=False)
    return "{} against {}".format(*next((a, b) for a, b in pairs if repr(a) != repr(b)))  # repr, because NaN != NaN


def assert_finite(model: nn.Module) -> None:
    bad = [name for name, t in model.state_dict().items() if not t.isfinite().all()]
    assert not bad, f"not finite: {', '.join(bad)}"


def assert_same_bits(one: list[Tensor], other: list[Tensor], what: str) -> None:
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(a, b), f"{what}: tensor {i} differs by {(a.double() - b.double()).abs().max().item():.3g}"
