# replaces: code-scatter
# caught by: check-scatter
# says: by hand


def reduce_scatter(link, vector: Tensor) -> Tensor:
    chunks = vector.tensor_split(link.world)
    for step in range(link.world - 1):
        outgoing, incoming = (chunks[(link.rank - step - shift) % link.world] for shift in (0, 1))
        link.send(outgoing)
        incoming = incoming + link.receive(like=incoming)
    return chunks[(link.rank + 1) % link.world]
