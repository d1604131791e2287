# replaces: code-broadcast
# caught by: check-broadcast
# says: never comes
# says: rank 0 sends only


def broadcast(link, tensors: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor in tensors:
            if link.world > 1:
                tensor.copy_(link.receive(like=tensor))
            if link.rank < link.world - 1:
                link.send(tensor)
