"""What takes the place of hardware that is not here."""

from utils.measure import round_to_blocks

MEASURES = ("allocated_bytes", "requested_bytes")


class Allocator:
    """A stand-in for torch.cuda: hands out blocks, remembers the most."""

    def __init__(self):
        self.stats = {f"{what}.all.{when}": 0 for what in MEASURES for when in ("current", "peak")}
        self.synchronized = 0

    def is_available(self) -> bool:
        return True

    def synchronize(self, device) -> None:
        self.synchronized += 1

    def memory_stats(self, device) -> dict[str, int]:
        return dict(self.stats)

    def reset_peak_memory_stats(self, device) -> None:
        for what in MEASURES:
            self.stats[f"{what}.all.peak"] = self.stats[f"{what}.all.current"]

    def take(self, size: int) -> None:
        for what, grown in zip(MEASURES, (round_to_blocks(abs(size)), abs(size)), strict=True):
            self.stats[f"{what}.all.current"] += grown if size > 0 else -grown
            self.stats[f"{what}.all.peak"] = max(self.stats[f"{what}.all.peak"], self.stats[f"{what}.all.current"])
