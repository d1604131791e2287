"""What a trial found."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """One row of the table. lost: of what was saved. wrong: other bits, a hang, an error that should not be, or none."""

    trial: str
    count: int = 0
    notes: Counter = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    untried: str = ""  # why nothing of it can be tried here

    def __str__(self) -> str:
        if self.untried:
            return f"{self.trial:<44}   not tried: {self.untried}"
        notes = ", ".join(f"{number} {what}" for what, number in self.notes.items())
        row = f"{self.trial:<44}{self.count:>6}{len(self.lost):>6}{len(self.wrong):>7}   {notes}"
        return "\n".join(
            [row, *(f"    lost: {line}" for line in self.lost), *(f"    wrong: {line}" for line in self.wrong)]
        )
