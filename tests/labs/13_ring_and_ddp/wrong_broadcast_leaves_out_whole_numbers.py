# replaces: code-broadcast
# caught by: check-broadcast
# says: one message for each tensor


def broadcast(link, tensors: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor in (t for t in tensors if t.is_floating_point()):
            if link.rank > 0:
                tensor.copy_(link.receive(like=tensor))
            if link.rank < link.world - 1:
                link.send(tensor)
