# replaces: code-reduce
# caught by: check-reduce
# says: of a chunk each


def all_reduce(link, vector: Tensor) -> None:
    pieces = around(link, vector.clone())
    total = pieces[link.rank]
    for shift in range(1, link.world):
        total = total + pieces[(link.rank + shift) % link.world]
    vector.copy_(total)
    return
    chunks = vector.tensor_split(link.world)
    for step in range(link.world - 1):
        outgoing, incoming = (chunks[(link.rank + shift - step) % link.world] for shift in (1, 0))
        link.send(outgoing)
        incoming.copy_(link.receive(like=incoming))
