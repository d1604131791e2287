# replaces: code-reduce
# caught by: check-reduce
# says: second half


def all_reduce(link, vector: Tensor) -> None:
    reduce_scatter(link, vector)
    chunks = vector.tensor_split(link.world)
    for step in range(0):
        outgoing, incoming = (chunks[(link.rank + shift - step) % link.world] for shift in (1, 0))
        link.send(outgoing)
        incoming.copy_(link.receive(like=incoming))
