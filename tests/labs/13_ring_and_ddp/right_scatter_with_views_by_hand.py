# replaces: code-scatter


def bounds(length, world, chunk):
    small, larger = divmod(length, world)
    start = chunk * small + min(chunk, larger)
    return slice(start, start + small + (chunk < larger))


def reduce_scatter(link, vector):
    chunk = link.rank
    for _ in range(1, link.world):
        link.send(vector[bounds(len(vector), link.world, chunk)])
        chunk = chunk - 1 if chunk > 0 else link.world - 1
        part = vector[bounds(len(vector), link.world, chunk)]
        torch.add(link.receive(part), part, out=part)
    return vector[bounds(len(vector), link.world, chunk)]
