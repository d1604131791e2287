# replaces: code-cut
# caught by: check-cut
# says: by hand: outputs before it


def peak_of_cut(segments: list[int]) -> int:
    """The peak of forward and backward in activations; ValueError for no segments, or for one shorter than 1."""
    if not segments or min(segments) < 1:
        raise ValueError(f"segments {segments}: at least one, and each of at least 1 layer")
    last = len(segments)
    return max(last - 1 + length + (j < last) + 1 for j, length in enumerate(segments, 1))


def best_cut(layers: int) -> list[int]:
    """Lengths of segments, in order, that add up to `layers` (at least 1) with the smallest peak there is."""

    def rooms(peak: int):
        for segments in range(1, min(peak, layers + 1)):
            yield [peak - 1 - j for j in range(1, segments)] + [peak - segments]

    room = next(room for peak in itertools.count(2) for room in rooms(peak) if min(room) > 0 and sum(room) >= layers)
    lengths, left = [], layers
    for behind, most in zip(reversed(range(len(room))), room, strict=True):
        lengths.append(min(most, left - behind))  # at least 1 is left for each of those behind
        left -= lengths[-1]
    return lengths
