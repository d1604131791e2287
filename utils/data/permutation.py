"""A random order of more examples than one would list: a Feistel network with cycle walking."""

import numpy as np


def permuted(positions: np.ndarray, examples: int, keys: list[int]) -> np.ndarray:
    """Positions (uint64) under a pseudorandom permutation of range(examples), computed one at a time.

    A Feistel network: halves of the bits take turns in being changed by a hash of the other one, which can be undone, so
    that no two positions share an image. It permutes 4 ** half numbers; an image beyond the examples is put in again.
    """
    half = np.uint64(-(-(examples - 1).bit_length() // 2))
    low = (np.uint64(1) << half) - np.uint64(1)
    images, outside = positions.copy(), np.ones(len(positions), dtype=bool)
    while outside.any():
        left, right = images[outside] >> half, images[outside] & low
        for key in keys:
            left, right = right, left ^ (_hash(right ^ np.uint64(key)) & low)
        images[outside] = left << half | right
        outside = images >= examples
    return images


def _hash(x: np.ndarray) -> np.ndarray:
    """64 bits, each of which depends on all 64 of x (the finalizer of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
