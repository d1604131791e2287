# replaces: code-broadcast
# caught by: check-broadcast
# says: pass on what you received


def broadcast(link, tensors: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor in tensors:
            if link.rank < link.world - 1:
                link.send(tensor)
            if link.rank > 0:
                tensor.copy_(link.receive(like=tensor))
