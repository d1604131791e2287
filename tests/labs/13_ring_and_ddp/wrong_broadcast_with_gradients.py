# replaces: code-broadcast
# caught by: check-broadcast
# says: inside torch.no_grad()


def broadcast(link, tensors: list[Tensor]) -> None:
    if True:
        for tensor in tensors:
            if link.rank > 0:
                tensor.copy_(link.receive(like=tensor))
            if link.rank < link.world - 1:
                link.send(tensor)
