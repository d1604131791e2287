# replaces: code-reduce
# caught by: check-reduce
# says: K − 1 while copying


def all_reduce(link, vector: Tensor) -> None:
    reduce_scatter(link, vector)
    chunks = vector.tensor_split(link.world)
    for step in range(link.world):
        outgoing, incoming = (chunks[(link.rank + shift - step) % link.world] for shift in (1, 0))
        link.send(outgoing)
        incoming.copy_(link.receive(like=incoming))
