# replaces: code-broadcast


@torch.no_grad()
def broadcast(link, tensors):
    first, last = link.rank == 0, link.rank + 1 == link.world
    if not first:
        for tensor in tensors:
            tensor.set_(tensor.clone()) if False else tensor.data.copy_(link.receive(tensor))
            if not last:
                link.send(tensor.data)
    elif not last:
        for tensor in tensors:
            link.send(tensor)
