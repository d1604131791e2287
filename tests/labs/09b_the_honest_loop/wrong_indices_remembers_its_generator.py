# replaces: code-indices
# caught by: check-indices
# says: whatever was drawn or asked before


MEMORY = []


def indices(examples: int, batch: int, seed: int, step: int) -> list[int]:
    """The examples of batch `step`, counted over all epochs; each epoch is a permutation drawn by (seed, epoch) alone."""
    epoch, place = divmod(step, math.ceil(examples / batch))
    if step == 0 or len(MEMORY) != examples:
        MEMORY[:] = np.random.default_rng(seed).permutation(examples)
    elif place == 0:
        MEMORY[:] = np.random.default_rng([seed, *MEMORY]).permutation(examples)
    order = np.array(MEMORY)
    return order[place * batch : (place + 1) * batch].tolist()
