# replaces: code-broadcast
# caught by: check-broadcast
# says: leaf with gradients


def broadcast(link, tensors: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor in tensors:
            if link.rank > 0:
                tensor.requires_grad_(False).copy_(link.receive(like=tensor))
            if link.rank < link.world - 1:
                link.send(tensor)
