# replaces: code-indices
# caught by: check-indices
# says: both numbers


def indices(examples: int, batch: int, seed: int, step: int) -> list[int]:
    """The examples of batch `step`, counted over all epochs; each epoch is a permutation drawn by (seed, epoch) alone."""
    epoch, place = divmod(step, math.ceil(examples / batch))
    order = np.random.default_rng(1000 * seed + epoch).permutation(examples)
    return order[place * batch : (place + 1) * batch].tolist()
