# replaces: code-scatter
# caught by: check-scatter
# says: tensor_split


def reduce_scatter(link, vector: Tensor) -> Tensor:
    chunks = vector.split(-(-len(vector) // link.world))
    for step in range(link.world - 1):
        outgoing, incoming = (chunks[(link.rank - step - shift) % link.world] for shift in (0, 1))
        link.send(outgoing)
        incoming += link.receive(like=incoming)
    return chunks[(link.rank + 1) % link.world]
