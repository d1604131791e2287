# replaces: code-reduce
# caught by: check-reduce
# says: copy it and do not add


def all_reduce(link, vector: Tensor) -> None:
    reduce_scatter(link, vector)
    chunks = vector.tensor_split(link.world)
    for step in range(link.world - 1):
        outgoing, incoming = (chunks[(link.rank + shift - step) % link.world] for shift in (1, 0))
        link.send(outgoing)
        incoming += link.receive(like=incoming)
