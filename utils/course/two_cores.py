"""What two CPU cores make of each claim (Linux, a C++ compiler, the official data): told by its proof's tags, and drawn."""

import re
from collections import defaultdict
from collections.abc import Iterable

from matplotlib.figure import Figure

from utils.course.notebooks.notebook import Claim, Lecture
from utils.figures import ledger

CLAIM, FOLKLORE = "claims, verified on two CPU cores", "false beliefs put right, on two CPU cores"
GPU, LONG = "need a GPU", "need the long form"


def outcome_of(claim: Claim) -> str:
    """What `make run` makes of a claim there."""
    tags = set(claim.proof.tags)
    if "gpu" in tags:
        return GPU
    if "full" in tags:
        return LONG
    return CLAIM if claim.kind == "Claim" else FOLKLORE


def picture(lectures: Iterable[Lecture]) -> Figure:
    """The ledger: the claims of each lecture and of its second readings, by what becomes of them."""
    titles, ends = {}, defaultdict(list)
    for lecture in lectures:
        title = titles.setdefault(lecture.number, _short_title(lecture))
        ends[title] += [outcome_of(claim) for claim in lecture.claims]
    parts = (CLAIM, FOLKLORE, GPU, LONG)
    return ledger.claims_by_lecture({title: {part: own.count(part) for part in parts} for title, own in ends.items()})


def _short_title(lecture: Lecture) -> str:
    return re.split(r"[:,]", lecture.title)[0].replace(" · ", "  ")
