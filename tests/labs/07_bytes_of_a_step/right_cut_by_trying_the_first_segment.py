# replaces: code-cut


import functools


def peak_of_cut(segments):
    if len(segments) == 0 or any(length <= 0 for length in segments):
        raise ValueError(f"bad segments: {segments}")
    peak = len(segments) + segments[-1]
    for before, length in enumerate(segments[:-1]):
        peak = max(peak, before + 2 + length)
    return peak


TABLE = [(0, 0)]


def best_cut(layers):
    while len(TABLE) <= layers:
        n = len(TABLE)
        TABLE.append(min([(n + 1, n)] + [(max(first + 2, 1 + TABLE[n - first][0]), first) for first in range(1, n)]))
    segments = []
    while layers:
        segments.append(TABLE[layers][1])
        layers -= segments[-1]
    return tuple(segments)
