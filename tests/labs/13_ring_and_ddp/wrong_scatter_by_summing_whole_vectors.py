# replaces: code-scatter
# caught by: check-scatter
# says: each is one chunk


def reduce_scatter(link, vector: Tensor) -> Tensor:
    vector.copy_(torch.stack(around(link, vector.clone())).sum(0))
    chunks = vector.tensor_split(link.world)
    return chunks[(link.rank + 1) % link.world]
    for step in range(link.world - 1):
        outgoing, incoming = (chunks[(link.rank - step - shift) % link.world] for shift in (0, 1))
        link.send(outgoing)
        incoming += link.receive(like=incoming)
    return chunks[(link.rank + 1) % link.world]
