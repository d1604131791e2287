# replaces: code-indices
# caught by: check-indices
# says: not a global stream


def indices(examples: int, batch: int, seed: int, step: int) -> list[int]:
    """The examples of batch `step`, counted over all epochs; each epoch is a permutation drawn by (seed, epoch) alone."""
    epoch, place = divmod(step, math.ceil(examples / batch))
    np.random.seed((seed * 1_000_003 + epoch) % 2**32)
    order = np.random.permutation(examples)
    return order[place * batch : (place + 1) * batch].tolist()
