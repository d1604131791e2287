# replaces: code-indices
# caught by: check-indices
# says: not the batches


def indices(examples: int, batch: int, seed: int, step: int) -> list[int]:
    """The examples of batch `step`, counted over all epochs; each epoch is a permutation drawn by (seed, epoch) alone."""
    epoch, place = divmod(step, math.ceil(examples / batch))
    order = np.random.default_rng([seed, epoch]).permutation(math.ceil((examples) / batch))
    epoch_order = [i for b in order if b != order.max() for i in range(b * batch, (b + 1) * batch)]
    epoch_order += range(order.max() * batch, examples)
    return epoch_order[place * batch : (place + 1) * batch]
