# replaces: code-indices
# caught by: check-indices
# says: list of ints


def indices(examples: int, batch: int, seed: int, step: int) -> list[int]:
    """The examples of batch `step`, counted over all epochs; each epoch is a permutation drawn by (seed, epoch) alone."""
    epoch, place = divmod(step, math.ceil(examples / batch))
    order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(examples))
    return order[place * batch : (place + 1) * batch]
